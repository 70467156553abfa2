package minimalloc

import (
	"bufio"
	"bytes"
	"cmp"
	"io"
	"slices"

	"github.com/vramscope/vramscope/internal/lines"
	"github.com/vramscope/vramscope/trace"
)

// Lifetimes: a line is a block, from when to when it lives and how large it is. They are put in the order of
// their beginnings and ends; where one ends and another begins at the same step, the end comes first.

// lifetime is a block; it lives from step lower on, and no more at step upper.
type lifetime struct {
	lower, upper int64
	size         int64
	addr         uint64
}

const (
	mostLifetimes = 1 << 30
	mostSize      = trace.MaxSize
)

// eventsOf makes the events of a device. Blocks are numbered in the order of the file.
func eventsOf(list []lifetime) trace.Device {
	d := trace.Device{Content: trace.Requests, Streams: []uint64{0}, Pools: []trace.Pool{{}}, NumBlocks: len(list)}
	begins, ends := make([]uint32, len(list)), make([]uint32, len(list))
	for i := range list {
		begins[i], ends[i] = uint32(i), uint32(i)
	}
	slices.SortStableFunc(begins, func(a, b uint32) int { return cmp.Compare(list[a].lower, list[b].lower) })
	slices.SortStableFunc(ends, func(a, b uint32) int { return cmp.Compare(list[a].upper, list[b].upper) })
	for len(begins) > 0 || len(ends) > 0 {
		if len(begins) == 0 || list[ends[0]].upper <= list[begins[0]].lower {
			d.Events.Append(list[ends[0]].event(ends[0], trace.OpFree))
			ends = ends[1:]
		} else {
			d.Events.Append(list[begins[0]].event(begins[0], trace.OpAlloc))
			begins = begins[1:]
		}
	}
	return d
}

func (x *lifetime) event(id uint32, op trace.Op) trace.Event {
	return trace.Event{Addr: x.addr, Size: x.size, Block: trace.BlockID(id), Op: op}
}

// allocatorSim's lines have three numbers: the step of the allocation, that of the free, bytes. Each step is
// one allocation or one free.

func parseLifetime(line []byte) (x lifetime, ok bool) {
	fields := bytes.Fields(line)
	if len(fields) != 3 {
		return x, false
	}
	var okLower, okUpper, okSize bool
	x.lower, okLower = lines.Whole(fields[0])
	x.upper, okUpper = lines.Whole(fields[1])
	x.size, okSize = lines.Whole(fields[2])
	return x, okLower && okUpper && okSize && x.lower < x.upper && x.size <= mostSize
}

// isAllocatorSim wants all lines to be lifetimes, and no step to occur twice: numbers in three columns are
// in many files.
func isAllocatorSim(head []byte) bool {
	list := lines.OfHead(head)
	steps := map[int64]bool{}
	for _, l := range list {
		x, ok := parseLifetime(l)
		if !ok || steps[x.lower] || steps[x.upper] {
			return false
		}
		steps[x.lower], steps[x.upper] = true, true
	}
	return len(list) > 1
}

func readAllocatorSim(in *bufio.Reader) (*trace.Trace, error) {
	l := lines.New(in)
	var list []lifetime
	cut := false
	var bad lines.Tally
	for {
		line, err := l.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		line = lines.Trim(line)
		if len(line) == 0 {
			continue
		}
		x, ok := parseLifetime(line)
		if !ok || len(list) == mostLifetimes {
			if l.Cut {
				cut = true // in the middle of this line
				continue
			}
			bad.Add(l.Number)
			continue
		}
		list = append(list, x)
	}
	d := eventsOf(list)
	t := newTrace(formatAllocatorSim, l, &d, []trace.Count{{What: "lifetimes", N: len(list)}})
	cutOff(t, l, cut)
	t.Warnings = append(t.Warnings, warning(bad, "bad-line", "lines are no lifetimes (two steps and a size) and were left out")...)
	return t, nil
}
