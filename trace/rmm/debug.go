package rmm

import (
	"bufio"
	"bytes"
	"fmt"
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
	n, failures, first := 0, lines.Tally{}, ""
	for {
		line, err := l.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		_, text, ok := debugLine(lines.Trim(line))
		if !ok {
			continue
		}
		n++
		if bytes.Contains(text, []byte("[FAILURE")) {
			if failures.Add(l.Number); failures.N == 1 {
				first = failure(text)
			}
		}
	}
	t := &trace.Trace{Stacks: trace.NewStacks(), Settings: trace.Settings{MaxSplitSize: -1}}
	t.Source = trace.Source{Format: "RMM debug log", Bytes: l.Offset, Clock: trace.ClockDay,
		Counts: []trace.Count{{What: "lines", N: n}, {What: "failures", N: failures.N}},
		Lacks:  append([]trace.Lack{{What: "allocations and frees", Instead: makeLog}}, lacks()...)}
	t.Warnings = append(t.Warnings, trace.Warning{Code: "no-events", Count: 1, First: -1,
		Message: "this is RMM's debug log, which has no allocations and frees; the CSV has: " + makeLog})
	if failures.N > 0 {
		t.Warnings = append(t.Warnings, trace.Warning{Code: "oom", Count: failures.N, First: -1,
			Message: fmt.Sprintf("allocations failed, the first in line %d%s", failures.First, first)})
	}
	return t, nil
}

// failure says what a pool asked of its upstream in vain, and why.
func failure(text []byte) string {
	_, text, ok := bytes.Cut(text, []byte("[Upstream "))
	if !ok {
		return ""
	}
	digits, text, _ := bytes.Cut(text, []byte("B]"))
	n, ok := lines.Whole(digits)
	if !ok {
		return ""
	}
	out := fmt.Sprintf(": the pool asked for %d bytes", n)
	for _, known := range []string{"maximum pool size exceeded", "failed to allocate", "out of memory"} {
		if bytes.Contains(text, []byte(known)) {
			return out + ", " + known
		}
	}
	return out
}
