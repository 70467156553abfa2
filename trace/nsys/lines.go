package nsys

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vramscope/vramscope/trace"
	"github.com/vramscope/vramscope/trace/cupti"
)

// JSON lines: {"Type":117,"CudaMemoryUsageEvent":{…}}, an event a line, in the order of time. Numbers of types
// have changed from version to version, names have not. Numbers of 64 bits are strings. Names of functions and
// ranges are numbers of strings, and the strings stand in the first line, or, in old versions, in a late one.
//
// Nearly all lines are about kernels, copies and the scheduler. They are passed over unread.

const (
	recentCalls = 1 << 16 // calls that memory events are looked for among; a call and its event lie close together
	mostStrings = 1 << 22
	longString  = 1 << 10   // bytes of a string that are kept
	longTable   = 256 << 20 // bytes of the line with the strings that are looked at
)

var jsonOptions = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

// isLines says whether a file that begins so is an export as JSON lines.
func isLines(head []byte) bool {
	head = bytes.TrimLeft(head, "\xef\xbb\xbf \t\r\n")
	if _, name, ok := splitLine(head); ok {
		return isEventName(name)
	}
	// The table of strings in front, which may be longer than the head.
	start := head[:min(len(head), 64)]
	if !bytes.HasPrefix(bytes.ReplaceAll(start, []byte(" "), nil), []byte(`{"data":["`)) {
		return false
	}
	_, rest, whole := bytes.Cut(head, []byte("\n"))
	_, name, ok := splitLine(rest)
	return !whole || ok && isEventName(name)
}

// isEventName says whether a name is of the form that events have, "CudaEvent", "TraceProcessEvent".
func isEventName(name []byte) bool {
	return bytes.HasSuffix(name, []byte("Event")) || bytes.HasPrefix(name, []byte("Cuda")) || bytes.HasSuffix(name, []byte("Info"))
}

// splitLine takes a line of the usual form, {"Type":1,"Name":…}, apart. Other programs may have put blanks into it.
func splitLine(line []byte) (content, name []byte, ok bool) {
	rest := line
	for _, part := range []string{"{", `"Type"`, ":"} {
		if rest, ok = bytes.CutPrefix(blank(rest), []byte(part)); !ok {
			return nil, nil, false
		}
	}
	rest = blank(rest)
	digits := 0
	for digits < len(rest) && rest[digits] >= '0' && rest[digits] <= '9' {
		digits++
	}
	if rest, ok = bytes.CutPrefix(blank(rest[digits:]), []byte(",")); !ok || digits == 0 {
		return nil, nil, false
	}
	if rest, ok = bytes.CutPrefix(blank(rest), []byte(`"`)); !ok {
		return nil, nil, false
	}
	if name, rest, ok = bytes.Cut(rest, []byte(`"`)); !ok || len(name) >= 64 {
		return nil, nil, false
	}
	content, ok = bytes.CutPrefix(blank(rest), []byte(":"))
	return content, name, ok
}

// blank takes blanks off the front.
func blank(s []byte) []byte {
	for len(s) > 0 && (s[0] == ' ' || s[0] == '\t') {
		s = s[1:]
	}
	return s
}

// lineReader reads JSON lines.
type lineReader struct {
	in     *bufio.Reader
	offset int64 // of the line
	line   int   // its number, from 1
	rec    *cupti.Recording
	n      found

	recent  []cupti.Call // by a hash of process and number
	failing map[uint64]string
	strings []string

	dec      *jsontext.Decoder
	src      bytes.Reader
	events   int // lines of events, of whatever kind
	bad      int // lines that are no JSON, or too long
	firstBad int
	badAt    int64
	cut      bool
}

// ReadLines reads an export as JSON lines. It returns trace.ErrUnrecognized itself, with nothing taken, if the
// input does not begin like one.
func ReadLines(in *bufio.Reader) (*trace.Trace, error) {
	head, _ := in.Peek(in.Size())
	if !isLines(head) {
		return nil, trace.ErrUnrecognized
	}
	r := &lineReader{in: in, rec: cupti.New(), recent: make([]cupti.Call, recentCalls), failing: map[uint64]string{}}
	r.dec = jsontext.NewDecoder(&r.src, jsonOptions...)
	for {
		more, err := r.next()
		if err != nil {
			return nil, err
		}
		if !more {
			break
		}
	}
	return r.finish()
}

// next reads a line.
func (r *lineReader) next() (more bool, err error) {
	r.line++
	line, err := r.in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return true, r.long(line)
	}
	if err != nil && err != io.EOF {
		return false, err
	}
	end := err == io.EOF
	at := r.offset
	r.offset += int64(len(line))
	line = bytes.TrimSpace(line)
	if len(line) == 0 {
		return !end, nil
	}
	if err := r.read(line); err != nil {
		if stop := (*trace.SyntaxError)(nil); errors.As(err, &stop) {
			return false, err
		}
		if end {
			r.cut = true
		} else {
			r.fault(at)
		}
	}
	return !end, nil
}

// fault counts a line that cannot be read.
func (r *lineReader) fault(at int64) {
	if r.bad == 0 {
		r.firstBad, r.badAt = r.line, at
	}
	r.bad++
}

// read reads a line that fits in the buffer.
func (r *lineReader) read(line []byte) error {
	content, name, ok := splitLine(line)
	if !ok {
		r.src.Reset(line)
		r.dec.Reset(&r.src, jsonOptions...)
		return r.table(r.dec)
	}
	r.events++
	switch string(name) {
	case "CudaMemoryUsageEvent":
		return r.usage(content)
	case "CudaMemoryPoolInfo":
		return r.pool(content)
	case "TraceProcessEvent":
		return r.call(content)
	case "NvtxEvent":
		return r.span(content)
	case "DiagnosticEvent":
		if isTrouble(content) {
			r.n.troubles++
		}
	}
	return nil
}

func (r *lineReader) finish() (*trace.Trace, error) {
	switch {
	case r.events == 0 && r.cut:
		return nil, trace.Corrupt(r.offset, "the export ends here, before its first event: it was cut while it was written or copied; export it again")
	case r.events == 0:
		return nil, refused("is JSON of no kind known here: it has strings like an export of Nsight Systems, and no events")
	case r.n.events+r.n.calls == 0 && r.bad > 0:
		return nil, trace.Corrupt(r.badAt, "line %d is no JSON of Nsight Systems, and no other line is about memory; export it again, better with %s", r.firstBad, exportCommand)
	}
	for id := range r.failing {
		if id < uint64(len(r.strings)) {
			r.failing[id] = cupti.FunctionName(r.strings[id])
		}
	}
	r.rec.Join(false).End(nil, r.failing)
	r.rec.EachRangeRef(func(ref uint64) {
		if ref < uint64(len(r.strings)) {
			r.rec.SetName(ref, []byte(r.strings[ref]))
		}
	})
	t := r.rec.Finish()
	t.Source = trace.Source{Format: Format + " (JSON lines)", Bytes: r.offset, Clock: trace.ClockRecording, Cut: r.cut}
	if r.cut {
		t.Warnings = append(t.Warnings, trace.Warning{Code: "cut", Count: 1, First: -1,
			Message: fmt.Sprintf("the file ends in the middle of line %d: what came before is used", r.line)})
	}
	if r.bad > 0 {
		t.Warnings = append(t.Warnings, trace.Warning{Code: "bad-line", Count: r.bad, First: -1,
			Message: fmt.Sprintf("lines are no JSON, or far too long, the first is line %d: they were left out", r.firstBad)})
	}
	r.n.tell(t)
	return t, nil
}
