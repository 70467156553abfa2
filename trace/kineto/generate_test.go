package kineto

import (
	"bufio"
	"fmt"
	"io"
)

// generator writes traces in the form that torch 2.x gives them: the operators of the backward thread, those of the main
// thread, memory events by thread, Python functions, what the device did, and the base time in front or behind.
type generator struct {
	size     int64 // bytes to write at least
	perStep  int   // blocks that a step allocates and frees
	baseLast bool
	flat     bool // minified: no line breaks
	noAddr   bool // as before torch 1.10: no addresses and no totals
	w        *bufio.Writer
	n        int64
	comma    bool

	// what came out
	events, allocs, frees int
	peak                  int64 // bytes in use at most, of what was allocated in the window
	mostAllocated         int64 // with what was there before
}

const (
	genBase   = 1790857026000000000
	genStart  = 5110746917000 // µs after it
	genBefore = 1 << 30       // bytes in use before the window
)

func (g *generator) printf(format string, args ...any) {
	n, _ := fmt.Fprintf(g.w, format, args...)
	g.n += int64(n)
}

func (g *generator) event(format string, args ...any) {
	sep, open, end := ",\n  ", "{\n    ", "\n  }"
	if g.flat {
		sep, open, end = ",", "{", "}"
	}
	if !g.comma {
		sep = sep[1:]
	}
	g.comma = true
	g.printf("%s%s", sep, open)
	g.printf(format, args...)
	g.printf("%s", end)
	g.events++
}

// op writes an operator, times in ns after the start.
func (g *generator) op(cat, name string, tid int, start, duration int64) {
	args := fmt.Sprintf(`"External id": %d,"Record function id": 0, "Concrete Inputs": ["", "", "%d"], "Input type": ["float", "float", ""], "Input Strides": [[32000, 1], [1], []], "Input Dims": [[528, 32000], [528], []], "Ev Idx": %d`, g.events, start, g.events)
	if cat == "python_function" {
		args = fmt.Sprintf(`"Python parent id": %d, "Python id": %d, "Ev Idx": %d`, g.events-1, g.events, g.events)
	}
	g.event(`"ph": "X", "cat": "%s", "name": "%s", "pid": 3937, "tid": %d,%s"ts": %s, "dur": %s,%s"args": {%s}`,
		cat, name, tid, g.space(), micros(start), fmt.Sprintf("%d.%03d", duration/1000, duration%1000), g.space(), args)
}

func (g *generator) space() string {
	if g.flat {
		return " "
	}
	return "\n    "
}

func micros(ns int64) string {
	return fmt.Sprintf("%d.%03d", genStart+ns/1000, ns%1000)
}

// memory writes a memory event.
func (g *generator) memory(tid int, at int64, addr uint64, bytes, level, reserved int64) {
	more := fmt.Sprintf(`"Total Reserved": %d, "Total Allocated": %d, "Addr": %d, `, reserved, level+genBefore, addr)
	if g.noAddr {
		more = ""
	}
	g.event(`"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]",%s"pid": 3937, "tid": %d,%s"ts": %s,%s"args": {%s"Bytes": %d, "Device Id": 0, "Device Type": 1, "Ev Idx": %d}`,
		g.space(), tid, g.space(), micros(at), g.space(), more, bytes, g.events)
	if bytes > 0 {
		g.allocs++
	} else {
		g.frees++
	}
	g.peak = max(g.peak, level)
	g.mostAllocated = max(g.mostAllocated, level+genBefore)
}

// write writes a trace of steps, each of which allocates in the main thread and frees in the backward thread.
func (g *generator) write(w io.Writer) error {
	g.w = bufio.NewWriterSize(w, 1<<20)
	if g.perStep == 0 {
		g.perStep = 100
	}
	base := fmt.Sprintf(`"baseTimeNanoseconds": %d`, genBase)
	g.printf("\n{\n  \"schemaVersion\": 1,\n  \"deviceProperties\": [{\"id\": 0, \"name\": \"NVIDIA H200\", \"totalGlobalMem\": 150109880320}],\n")
	g.printf("  \"username\": \"somebody\", \"profile_memory\": 1,\n")
	if !g.baseLast {
		g.printf("  %s,\n", base)
	}
	g.printf("  \"traceEvents\": [\n")
	const (
		forward, backward = 3937, 3965
		step              = 10_000_000 // ns
	)
	for s := int64(0); g.n < g.size || s == 0; s++ {
		t := s * step
		n := int64(g.perStep)
		slot := step / (2*n + 2)
		for i := range n { // the backward thread comes first in the file
			g.op("cpu_op", "autograd::engine::evaluate_function: MmBackward0", backward, t+step/2+i*slot, slot-10)
			g.op("cpu_op", "MmBackward0", backward, t+step/2+i*slot+100, slot-200)
		}
		g.op("user_annotation", fmt.Sprintf("ProfilerStep#%d", s), forward, t, step-10)
		for i := range n {
			g.op("cpu_op", "aten::linear", forward, t+i*slot+200, slot-400)
			g.op("cpu_op", "aten::empty", forward, t+i*slot+300, slot-600)
		}
		for i := range n {
			g.memory(backward, t+step/2+i*slot+slot/2, uint64(0x7f0000000000+i<<24), -(512 << (i % 12)), g.level(n)-g.level(i+1), 4<<30)
		}
		for i := range n {
			g.memory(forward, t+i*slot+slot/2, uint64(0x7f0000000000+i<<24), 512<<(i%12), g.level(i+1), 4<<30)
		}
		for i := range n {
			g.op("python_function", fmt.Sprintf("train.py(%d): block%d", 10+i, i), forward, t+i*slot+100, slot-200)
			g.op("python_function", "torch/nn/modules/linear.py(125): forward", forward, t+i*slot+150, slot-300)
		}
		for i := range 3 * n {
			g.event(`"ph": "X", "cat": "kernel", "name": "void gemm<float, 128>(float*, int)", "pid": 0, "tid": 7, "ts": %s, "dur": 3.2, "args": {"External id": %d, "stream": 7, "grid": [1, 2, 3]}`, micros(t+i*slot), i)
		}
	}
	g.printf("\n  ],\n")
	if g.baseLast {
		g.printf("  %s,\n", base)
	}
	g.printf("  \"traceName\": \"/home/somebody/run.json\"\n}")
	return g.w.Flush()
}

// level is what is in use after the first n allocations of a step.
func (g *generator) level(n int64) int64 {
	var sum int64
	for i := range n {
		sum += 512 << (i % 12)
	}
	return sum
}
