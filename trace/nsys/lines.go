package nsys

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"

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
	if !bytes.HasPrefix(head, []byte(`{"data":["`)) {
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

// splitLine takes a line of the usual form, {"Type":1,"Name":…}, apart.
func splitLine(line []byte) (content, name []byte, ok bool) {
	rest, ok := bytes.CutPrefix(line, []byte(`{"Type":`))
	if !ok {
		return nil, nil, false
	}
	digits := 0
	for digits < len(rest) && rest[digits] >= '0' && rest[digits] <= '9' {
		digits++
	}
	rest, ok = bytes.CutPrefix(rest[digits:], []byte(`,"`))
	if !ok || digits == 0 {
		return nil, nil, false
	}
	name, content, ok = bytes.Cut(rest, []byte(`":`))
	return content, name, ok && len(name) < 64
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

// long reads a line that is longer than the buffer: the table of strings, or one that is passed over.
func (r *lineReader) long(begin []byte) error {
	at := r.offset
	rest := &untilNewline{in: r.in, begin: bytes.Clone(begin)}
	var err error
	if _, _, event := splitLine(begin); event {
		err = errors.New("too long for an event")
	} else {
		err = r.table(jsontext.NewDecoder(rest, jsonOptions...))
	}
	rest.skipping = true
	if _, e := io.Copy(io.Discard, rest); e != nil {
		return e
	}
	r.offset += rest.n
	if err != nil {
		if rest.cut {
			r.cut = true
		} else {
			r.fault(at)
		}
	}
	return nil
}

// untilNewline reads the rest of a line.
type untilNewline struct {
	in    *bufio.Reader
	begin []byte // what was read of it already
	n     int64  // bytes given out
	ended bool
	cut   bool // the input ended before the line did

	skipping bool // nothing of it is kept any more
}

func (u *untilNewline) Read(b []byte) (int, error) {
	if len(u.begin) > 0 {
		n := copy(b, u.begin)
		u.begin = u.begin[n:]
		u.n += int64(n)
		return n, nil
	}
	if u.ended || u.n > longTable && !u.skipping {
		return 0, io.EOF
	}
	piece, err := u.in.ReadSlice('\n')
	u.begin = append(u.begin[:0], piece...)
	switch {
	case err == nil:
		u.ended = true
	case err == io.EOF:
		u.ended, u.cut = true, true
	case !errors.Is(err, bufio.ErrBufferFull):
		return 0, err
	}
	return 0, nil
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

// fields gives the members of an object to a function, names and values as they are written.
func (r *lineReader) fields(object []byte, each func(name, value []byte)) error {
	r.src.Reset(object)
	r.dec.Reset(&r.src, jsonOptions...)
	return eachField(r.dec, each)
}

func eachField(dec *jsontext.Decoder, each func(name, value []byte)) error {
	if tok, err := dec.ReadToken(); err != nil || tok.Kind() != '{' {
		return errors.Join(err, errNotObject)
	}
	var key [64]byte
	for dec.PeekKind() == '"' {
		name, err := dec.ReadValue()
		if err != nil {
			return err
		}
		n := copy(key[:], bytes.Trim(name, `"`))
		value, err := dec.ReadValue()
		if err != nil {
			return err
		}
		each(key[:n], value)
	}
	_, err := dec.ReadToken()
	return err
}

var errNotObject = errors.New("no object")

// integer is the value of a number, or of a string of digits.
func integer(value []byte) int64 {
	s := string(bytes.Trim(value, `"`))
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return n
	}
	n, _ := strconv.ParseUint(s, 10, 64) // 0 where it is neither
	return int64(n)
}

// text is the value of a string.
func text(value []byte) []byte {
	s, err := jsontext.AppendUnquote(nil, value)
	if err != nil {
		return nil
	}
	return s
}

func (r *lineReader) usage(content []byte) error {
	u := cupti.Usage{PoolSize: -1}
	err := r.fields(content, func(name, value []byte) {
		switch string(name) {
		case "startNs":
			u.Time = integer(value)
		case "globalPid":
			u.Process = cupti.ProcessOf(uint64(integer(value)))
		case "deviceId":
			u.Device = integer(value)
		case "address":
			u.Addr = uint64(integer(value))
		case "bytes":
			u.Size = integer(value)
		case "memKind":
			u.Kind = cupti.FromNsight(integer(value))
		case "type":
			u.Free = bytes.Equal(value, []byte(`"deallocation"`)) || integer(value) == 1
		case "correlationId":
			u.Call = uint32(integer(value))
		case "streamId":
			u.Stream = uint64(integer(value))
		case "name":
			u.Symbol = text(value)
		case "localPoolConfig":
			u.Pool, u.PoolSize = poolConfig(value, "localPoolSize")
		default:
			if bytes.HasPrefix(name, []byte("imported")) && u.Pool == 0 {
				u.Pool, _ = poolConfig(value, "")
				u.Imported = u.Pool != 0
			}
		}
	})
	if err != nil {
		return err
	}
	if c := r.slot(u.Process, u.Call); u.Call != 0 && !u.Free && c.Number == u.Call && c.Process == u.Process {
		u.Thread = c.Thread
	}
	u.Call = 0 // what is not known yet will never be
	if u.Kind != cupti.DeviceStatic && u.Kind != cupti.ManagedStatic {
		u.Symbol = nil
	}
	r.n.events++
	return r.rec.Add(&u)
}

// poolConfig reads what a memory event says of its pool.
func poolConfig(value []byte, sizeName string) (addr uint64, size int64) {
	size = -1
	_ = eachField(jsontext.NewDecoder(bytes.NewReader(value), jsonOptions...), func(name, value []byte) {
		switch string(name) {
		case "address":
			addr = uint64(integer(value))
		case sizeName:
			size = integer(value)
		}
	})
	return addr, size
}

func (r *lineReader) pool(content []byte) error {
	p := cupti.PoolState{}
	told, destroyed := false, false
	err := r.fields(content, func(name, value []byte) {
		switch string(name) {
		case "startNs":
			p.Time = integer(value)
		case "globalPid":
			p.Process = cupti.ProcessOf(uint64(integer(value)))
		case "deviceId":
			p.Device = integer(value)
		case "address":
			p.Addr = uint64(integer(value))
		case "operationType":
			destroyed = bytes.Contains(value, []byte("DESTROYED")) || integer(value) == poolDestroyed
		case "localPoolAttributes":
			_, p.Size = poolConfig(value, "size")
			told = p.Size >= 0
		}
	})
	if err != nil || !told {
		return err
	}
	if destroyed {
		p.Size = 0
	}
	r.rec.AddPool(p)
	return nil
}

func (r *lineReader) slot(process uint64, number uint32) *cupti.Call {
	return &r.recent[(process>>24*0x9e3779b1+uint64(number))%recentCalls]
}

func (r *lineReader) call(content []byte) error {
	c := cupti.Call{}
	class := int64(0)
	err := r.fields(content, func(name, value []byte) {
		switch string(name) {
		case "startNs":
			c.Start = integer(value)
		case "correlationId":
			c.Number = uint32(integer(value))
		case "eventClass":
			class = integer(value)
		case "name":
			c.NameID = uint64(integer(value))
		case "returnValue32":
			c.Result = integer(value)
		case "globalTid":
			c.Thread = uint64(integer(value))
			c.Process = cupti.ProcessOf(c.Thread)
		}
	})
	if err != nil || class != classRuntime && class != classDriver {
		return err
	}
	r.n.calls++
	if c.Result == cupti.OutOfMemory {
		r.n.failed++
		r.failing[c.NameID] = ""
		r.rec.Fail(&c)
	}
	if c.Number != 0 {
		*r.slot(c.Process, c.Number) = c
	}
	return nil
}

// The classes of events that are calls of the CUDA API.
const (
	classRuntime = 0
	classDriver  = 1
)

func (r *lineReader) span(content []byte) error {
	var (
		kind          cupti.RangeKind
		ok, ended     bool
		start, end    int64
		thread        uint64
		words         []byte
		ref           int64
		named, refers bool
	)
	err := r.fields(content, func(name, value []byte) {
		switch string(name) {
		case "Type":
			kind, ok = rangeKind(integer(value))
		case "Timestamp":
			start = integer(value)
		case "EndTimestamp":
			end, ended = integer(value), true
		case "GlobalTid":
			thread = uint64(integer(value))
		case "Text":
			words, named = text(value), true
		case "TextId":
			ref, refers = integer(value), true
		}
	})
	if err != nil || !ok {
		return err
	}
	var name cupti.Name
	switch {
	case !named && refers:
		name = r.rec.RangeRef(uint64(ref))
	default:
		name = r.rec.RangeName(words)
	}
	r.rec.AddRange(kind, thread, start, end, ended, name)
	return nil
}

// table reads a line that is no event. The first list of strings in one is the table of strings; everything
// else (streams, threads, files and what was in them) stays unread.
func (r *lineReader) table(dec *jsontext.Decoder) error {
	tok, err := dec.ReadToken()
	if err != nil {
		return err
	}
	if tok.Kind() != '{' {
		return errNotObject
	}
	for dec.PeekKind() == '"' {
		name, err := dec.ReadValue()
		if err != nil {
			return err
		}
		if string(name) != `"data"` || dec.PeekKind() != '[' || len(r.strings) > 0 {
			if err := dec.SkipValue(); err != nil {
				return err
			}
			continue
		}
		if _, err := dec.ReadToken(); err != nil {
			return err
		}
		for dec.PeekKind() != ']' {
			value, err := dec.ReadValue()
			if err != nil {
				return err
			}
			if value.Kind() == '"' && len(r.strings) < mostStrings {
				s := text(value)
				r.strings = append(r.strings, string(s[:min(len(s), longString)]))
			}
		}
		if _, err := dec.ReadToken(); err != nil {
			return err
		}
	}
	_, err = dec.ReadToken()
	return err
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
