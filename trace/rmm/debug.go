package rmm

import (
	"bufio"
	"bytes"
	"io"

	"github.com/vramscope/vramscope/internal/lines"
	"github.com/vramscope/vramscope/trace"
)

// The debug log, rmm_log.txt, which many programs leave behind without having been asked. Its lines begin
// with [thread][time][level], and most say what a pool did inside. Only what failed is of use here:
//
//	[6][15:39:53:785777][error ] [A][Stream 0x1][Upstream 1024B][FAILURE maximum pool size exceeded]

// isDebugLog says whether the first line of text has that form.
func isDebugLog(head []byte) bool {
	for range 20 {
		line, rest, more := bytes.Cut(head, []byte("\n"))
		if _, _, ok := debugLine(lines.Trim(line)); ok {
			return true
		}
		if head = rest; !more {
			break
		}
	}
	return false
}

// debugLine takes a line apart.
func debugLine(line []byte) (ns int64, text []byte, ok bool) {
	thread, line, ok := bracket(line)
	if _, number := lines.Whole(thread); !ok || !number {
		return 0, nil, false
	}
	clock, line, ok := bracket(line)
	if !ok {
		return 0, nil, false
	}
	ns, epoch, ok := timeOf(clock)
	if !ok || epoch || len(clock) < 10 {
		return 0, nil, false
	}
	level, line, ok := bracket(line)
	switch string(bytes.TrimSpace(level)) {
	case "trace", "debug", "info", "warning", "warn", "error", "critical":
		return ns, bytes.TrimSpace(line), ok
	}
	return 0, nil, false
}

// bracket gives what is in the brackets that a line begins with, and what follows them.
func bracket(line []byte) (in, rest []byte, ok bool) {
	line, ok = bytes.CutPrefix(line, []byte("["))
	if !ok {
		return nil, nil, false
	}
	return bytes.Cut(line, []byte("]"))
}

func readDebug(in *bufio.Reader) (*trace.Trace, error) {
	l := lines.New(in)
	d := trace.Device{Content: trace.Requests, Streams: []uint64{0}, Pools: []trace.Pool{{}}}
	clock := log{columns: bareColumns}
	n := 0
	for {
		line, err := l.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		ns, text, ok := debugLine(lines.Trim(line))
		if !ok {
			continue
		}
		n++
		at := clock.time(&row{time: ns})
		if bytes.Contains(text, []byte("[FAILURE")) {
			d.Events.Append(trace.Event{Time: at, Size: upstream(text), Block: trace.NoBlock, Op: trace.OpOOM})
		}
	}
	t := &trace.Trace{Stacks: trace.NewStacks(), Settings: trace.Settings{MaxSplitSize: -1}}
	t.Source = trace.Source{Format: "RMM debug log", Bytes: l.Offset, Clock: trace.ClockDay,
		Counts: []trace.Count{{What: "lines", N: n}, {What: "failures", N: d.Events.Len()}},
		Lacks:  append([]trace.Lack{{What: "allocations and frees", Instead: makeLog}}, lacks()...)}
	t.Warnings = append(t.Warnings, trace.Warning{Code: "no-events", Count: 1, First: -1,
		Message: "this is RMM's debug log, which has no allocations and frees; the CSV has: " + makeLog})
	if d.Events.Len() > 0 {
		trace.Pair(&d)
		t.Devices = append(t.Devices, d)
	}
	return t, nil
}

// upstream is how many bytes a pool asked of its upstream in vain, 0 if the text does not say.
func upstream(text []byte) int64 {
	_, text, ok := bytes.Cut(text, []byte("[Upstream "))
	if !ok {
		return 0
	}
	digits, _, _ := bytes.Cut(text, []byte("B]"))
	n, _ := lines.Whole(digits)
	return n
}
