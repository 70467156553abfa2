// Package stalloc reads the log that STAlloc's tracer writes, mem_log_dev0.txt:
//
//	1 0x7f1e41329c00 4096 0        an allocation: address, bytes, stream
//	0 0x7f1e41329c00 4096 0        a free
//	Iteration Index : 3            and notes of where the training is
//
// Sizes are what PyTorch asked of its pluggable allocator. There are no times.
package stalloc

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/vramscope/vramscope/internal/lines"
	"github.com/vramscope/vramscope/trace"
)

// Format is what traces of this package call their format.
const Format = "STAlloc log"

// isNote says whether a line says where the training is.
func isNote(line []byte) bool {
	return bytes.Contains(line, []byte("Iteration Index")) || bytes.Contains(line, []byte("micro-batch")) || bytes.Contains(line, []byte("Layer"))
}

// step is an allocation or a free of a log.
type step struct {
	alloc  bool
	addr   uint64
	size   int64
	stream uint64
}

func parseStep(line []byte) (s step, ok bool) {
	if len(line) < 7 || line[0] != '0' && line[0] != '1' || line[1] != ' ' {
		return s, false
	}
	s.alloc = line[0] == '1'
	ptr, rest, ok := bytes.Cut(line[2:], []byte(" "))
	if !ok {
		return s, false
	}
	size, stream, ok := bytes.Cut(rest, []byte(" "))
	if !ok {
		return s, false
	}
	if s.addr, ok = pointer(ptr); !ok {
		return s, false
	}
	if s.size, ok = lines.Whole(size); !ok {
		return s, false
	}
	if s.stream, ok = pointer(stream); !ok {
		n, number := lines.Whole(stream)
		s.stream, ok = uint64(n), number
	}
	return s, ok
}

func isLog(head []byte) bool {
	steps := 0
	for _, l := range lines.OfHead(head) {
		if _, ok := parseStep(l); ok {
			steps++
		} else if !isNote(l) {
			return false
		}
	}
	return steps > 0
}

// Read reads a log. It returns trace.ErrUnrecognized itself, with nothing taken, if the input does not look
// like one.
func Read(in *bufio.Reader) (*trace.Trace, error) {
	if head, _ := in.Peek(in.Size()); !isLog(head) {
		return nil, trace.ErrUnrecognized
	}
	l := lines.New(in)
	d := trace.Device{Content: trace.Requests, Pools: []trace.Pool{{}}}
	var streams trace.StreamSet
	var bad lines.Tally
	allocs, frees, iterations := 0, 0, 0
	for {
		line, err := l.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		line = lines.Trim(line)
		s, ok := parseStep(line)
		if !ok {
			switch {
			case bytes.Contains(line, []byte("Iteration Index")):
				iterations++
			case len(line) > 0 && !isNote(line) && !l.Cut:
				bad.Add(l.Number)
			}
			continue
		}
		if s.addr == 0 {
			continue // nothing was allocated, or nothing is freed
		}
		e := trace.Event{Addr: s.addr, Size: s.size, Block: trace.NoBlock, Stream: streams.ID(s.stream), Op: trace.OpFree}
		if s.alloc {
			e.Op = trace.OpAlloc
			allocs++
		} else {
			frees++
		}
		d.Events.Append(e)
	}
	streams.Settle(&d)
	trace.Pair(&d)
	t := &trace.Trace{Stacks: trace.NewStacks(), Settings: trace.Settings{MaxSplitSize: -1}, Devices: []trace.Device{d}}
	t.Source = trace.Source{Format: Format, Bytes: l.Offset, Clock: trace.ClockNone,
		Counts: []trace.Count{{What: "allocations", N: allocs}, {What: "frees", N: frees}, {What: "iterations", N: iterations}},
		Lacks: []trace.Lack{{What: "times, and who allocated",
			Instead: "torch.cuda.memory._record_memory_history(), then torch.cuda.memory._dump_snapshot(\"run.pickle\")"}}}
	if l.Cut {
		t.Source.Cut = true
		t.Warnings = append(t.Warnings, trace.Warning{Code: "cut", Count: 1, First: -1, Message: "the log ends without the end of a line: it was cut, or the program was killed"})
	}
	if bad.N > 0 {
		t.Warnings = append(t.Warnings, trace.Warning{Code: "bad-line", Count: bad.N, First: -1,
			Message: fmt.Sprintf("lines are neither allocations nor frees and were left out, the first in line %d", bad.First)})
	}
	return t, nil
}

// Named takes the number of the device out of the name of STAlloc's log, mem_log_dev3.txt.
func Named(t *trace.Trace, name string) {
	if t.Source.Format != Format || len(t.Devices) != 1 {
		return
	}
	_, rest, ok := strings.Cut(name, "_dev")
	digits := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
	if n, err := strconv.ParseUint(digits, 10, 10); ok && err == nil {
		t.Devices[0].Index = int(n)
	}
}

// pointer reads a pointer as C++ writes them: 0x and hexadecimal digits, 0 for null.
func pointer(s []byte) (uint64, bool) {
	if string(s) == "0" {
		return 0, true
	}
	if !bytes.HasPrefix(s, []byte("0x")) {
		return 0, false
	}
	return lines.Hex(s)
}
