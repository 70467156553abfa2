// Package rmm reads what RAPIDS' memory manager logs: the CSV of its logging adaptor, of all eras, also
// without a header and among other text; the csv_log of 2019; and, as far as it goes, its debug log.
package rmm

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/vramscope/vramscope/trace"
)

// Format is what traces of this package call their format.
const Format = "RMM log"

// How to make a log that can be read here, and what has more.
const (
	makeLog    = `rmm.enable_logging("rmm_log.csv") before the first allocation (C++: rmm::mr::logging_resource_adaptor)`
	makeStacks = `rmm.mr.set_current_device_resource(rmm.mr.TrackingResourceAdaptor(rmm.mr.get_current_device_resource(), capture_stacks=True)), and print its get_outstanding_allocations_str()`
	makePools  = "nsys profile --trace=cuda --cuda-memory-usage=true -o run COMMAND, then nsys export --type sqlite -o run.sqlite run.nsys-rep"
)

// Read reads a log. It returns trace.ErrUnrecognized itself, with nothing taken, if the input does not look
// like one.
func Read(in *bufio.Reader) (*trace.Trace, error) {
	head, _ := in.Peek(in.Size())
	switch {
	case isDebugLog(head):
		return readDebug(in)
	case isLog(head):
		return readLog(in)
	}
	return nil, trace.ErrUnrecognized
}

// Named takes the number of the device out of the name of a file: Python puts it in front of the ending,
// rmm_log.dev0.csv.
func Named(t *trace.Trace, name string) {
	if t.Source.Format != Format || len(t.Devices) != 1 {
		return
	}
	for _, part := range strings.Split(name, ".") {
		digits, ok := strings.CutPrefix(part, "dev")
		if n, err := strconv.ParseUint(digits, 10, 10); ok && err == nil {
			t.Devices[0].Index = int(n)
		}
	}
}

// isLog says whether there is a header, or a row without one, in the head of a file.
func isLog(head []byte) bool {
	for len(head) > 0 {
		line, rest, _ := bytes.Cut(head, []byte("\n"))
		head = rest
		line = trim(line)
		if _, ok := headerOf(line); ok {
			return true
		}
		var r row
		if bareColumns.parse(line, &r) && r.action != noAction {
			return true
		}
	}
	return false
}

func trim(line []byte) []byte {
	return bytes.Trim(bytes.TrimPrefix(line, []byte("\xef\xbb\xbf")), " \t\r\n")
}

// lines reads lines of bounded length, and knows where it is.
type lines struct {
	in     *bufio.Reader
	number int   // of the line, from 1
	offset int64 // behind it
	cut    bool  // the last line has no end
}

// next gives the next line, without its end; too long ones come empty. It is good until the next call.
func (l *lines) next() ([]byte, error) {
	line, err := l.in.ReadSlice('\n')
	l.number++
	l.offset += int64(len(line))
	for err == bufio.ErrBufferFull {
		var more []byte
		more, err = l.in.ReadSlice('\n')
		l.offset += int64(len(more))
		line = nil
	}
	if err == io.EOF && len(line) > 0 {
		l.cut, err = true, nil
	}
	return trim(line), err
}

// tally counts lines of a kind, and knows the first.
type tally struct{ n, first int }

func (t *tally) add(line int) {
	if t.n == 0 {
		t.first = line
	}
	t.n++
}

func (t *tally) warning(code, format string, args ...any) []trace.Warning {
	if t.n == 0 {
		return nil
	}
	message := fmt.Sprintf(format, args...)
	return []trace.Warning{{Code: code, Count: t.n, First: -1, Message: fmt.Sprintf("%s, the first in line %d", message, t.first)}}
}

// lacks says what no log of RMM tells.
func lacks() []trace.Lack {
	return []trace.Lack{
		{What: "who allocated", Instead: makeStacks},
		{What: "what the pool held of the device", Instead: makePools},
	}
}
