// Package rmm reads what RAPIDS' memory manager logs: the CSV of its logging adaptor, of all eras, also
// without a header and among other text; the csv_log of 2019; and, as far as it goes, its debug log.
package rmm

import (
	"bufio"
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/vramscope/vramscope/internal/lines"
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
		line = lines.Trim(line)
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

// warning tells of lines of a kind.
func warning(t lines.Tally, code, message string) []trace.Warning {
	if t.N == 0 {
		return nil
	}
	return []trace.Warning{{Code: code, Count: t.N, First: -1, Message: fmt.Sprintf("%s, the first in line %d", message, t.First)}}
}

// lacks says what no log of RMM tells.
func lacks() []trace.Lack {
	return []trace.Lack{
		{What: "who allocated", Instead: makeStacks},
		{What: "what the pool held of the device", Instead: makePools},
	}
}
