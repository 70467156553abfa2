// Package minimalloc reads lives of blocks without times: the buffers that MiniMalloc places, as CSV, and the
// lines that allocatorSim takes. What they count is the order of allocations and frees.
package minimalloc

import (
	"bufio"
	"fmt"

	"github.com/vramscope/vramscope/internal/lines"
	"github.com/vramscope/vramscope/trace"
)

// What traces of this package call their formats.
const (
	formatAllocatorSim = "allocatorSim lifetimes"
	formatMiniMalloc   = "MiniMalloc buffers"
)

// Read reads a file of either kind. It returns trace.ErrUnrecognized itself, with nothing taken, if the input
// does not look like one.
func Read(in *bufio.Reader) (*trace.Trace, error) {
	head, _ := in.Peek(in.Size())
	switch {
	case isMiniMalloc(head):
		return readMiniMalloc(in)
	case isAllocatorSim(head):
		return readAllocatorSim(in)
	}
	return nil, trace.ErrUnrecognized
}

// warning tells of lines of a kind.
func warning(t lines.Tally, code, message string) []trace.Warning {
	if t.N == 0 {
		return nil
	}
	return []trace.Warning{{Code: code, Count: t.N, First: -1, Message: fmt.Sprintf("%s, the first in line %d", message, t.First)}}
}

// newTrace is a trace of one device.
func newTrace(format string, l *lines.Reader, d *trace.Device, counts []trace.Count) *trace.Trace {
	t := &trace.Trace{Stacks: trace.NewStacks(), Settings: trace.Settings{MaxSplitSize: -1}, Devices: []trace.Device{*d}}
	t.Source = trace.Source{Format: format, Bytes: l.Offset, Clock: trace.ClockNone, Counts: counts, Lacks: []trace.Lack{
		{What: "times, and who allocated", Instead: "torch.cuda.memory._record_memory_history(), then torch.cuda.memory._dump_snapshot(\"run.pickle\")"}}}
	return t
}

// cutOff tells that the last line is not whole.
func cutOff(t *trace.Trace, l *lines.Reader, cut bool) {
	if t.Source.Cut = cut; cut {
		t.Warnings = append(t.Warnings, trace.Warning{Code: "cut", Count: 1, First: -1, Message: fmt.Sprintf("the file ends in the middle of line %d: what came before is used", l.Number)})
	}
}
