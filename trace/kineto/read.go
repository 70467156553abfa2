// Package kineto reads what torch.profiler writes: Chrome traces with [memory] events (of Kineto, from torch
// 1.8 on), and the memory timelines of export_memory_timeline.
//
// A trace is read once, as a stream. Memory events are kept; of the operators that enclose them as much as is
// needed to name them (ops.go), since a file may have them before or behind the memory events. What lies in
// between is skipped. A file that is cut, or that has events which are no JSON, is used as far as it goes.
package kineto

import (
	"bufio"
	"bytes"

	"github.com/vramscope/vramscope/trace"
)

// Read reads a Chrome trace or a memory timeline. It returns trace.ErrUnrecognized itself, with nothing taken
// from r, if the input does not begin like one.
func Read(r *bufio.Reader) (*trace.Trace, error) {
	head, _ := r.Peek(r.Size())
	head = bytes.TrimPrefix(head, []byte("\xef\xbb\xbf"))
	head = bytes.TrimLeft(head, " \t\r\n")
	switch {
	case bytes.HasPrefix(head, []byte(converted)):
		return nil, &trace.SyntaxError{Offset: -1, Err: trace.ErrUnrecognized,
			Msg: "is what vramscope convert wrote for Perfetto, and less than the recording that it was made of; give that one"}
	case isRaw(head):
		return readRaw(r)
	case isColumns(head):
		return readColumns(r)
	case isChrome(head):
		return readChrome(r)
	case isPicture(head):
		return nil, &trace.SyntaxError{Offset: -1, Err: trace.ErrUnrecognized,
			Msg: "is the picture of a memory timeline, without data; export it once more as .raw.json.gz: prof.export_memory_timeline('timeline.raw.json.gz')"}
	}
	return nil, trace.ErrUnrecognized
}

// isChrome reports whether a text begins like a trace for chrome://tracing: an object with a list of events,
// or the list alone, as the profiler of torch before 1.8 wrote it.
func isChrome(head []byte) bool {
	if bytes.HasPrefix(head, []byte("{")) {
		return bytes.Contains(head, []byte(`"traceEvents"`)) ||
			bytes.Contains(head, []byte(`"schemaVersion"`)) && bytes.Contains(head, []byte(`"deviceProperties"`))
	}
	if !bytes.HasPrefix(head, []byte("[")) {
		return false
	}
	first := bytes.TrimLeft(head[1:], " \t\r\n")
	return bytes.HasPrefix(first, []byte("{")) && bytes.Contains(first, []byte(`"ph"`)) && bytes.Contains(first, []byte(`"ts"`))
}

// converted is how files begin that were made for viewers of what is read here.
const converted = `{"displayTimeUnit":"ms","otherData":{"producer":"vramscope convert"`

const snapshotHow = "torch.cuda.memory._record_memory_history(max_entries=1000000) before the run and " +
	"torch.cuda.memory._dump_snapshot('run.pickle') after it"

// isPicture reports whether a text begins like the page that a memory timeline may be written as.
func isPicture(head []byte) bool {
	return bytes.HasPrefix(head, []byte("<html>")) && bytes.Contains(head, []byte("<img src='data:image/png;base64,"))
}
