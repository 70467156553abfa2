// Package packing is the allocator that knows everything beforehand: when each block will be born, when
// it will die, and its size. It puts all blocks into one range as low as it can, and says how low that
// could possibly be. No allocator that has to decide at once can do better than the lower bound here, so
// the distance to it is what fragmentation really costs.
//
// The problem is known as dynamic storage allocation, or static memory planning: boxes with a fixed place
// in time and a height, to be stacked without overlap. It is NP-hard. The instances that it is measured
// by are those of MiniMalloc (Moffitt, MiniMalloc: A Lightweight Memory Allocator for Hardware-Accelerated
// Machine Learning, ASPLOS 2023; google/minimalloc), whose file format csv.go reads.
//
// # Structures
//
// A Buffer lives from Lower up to but not including Upper, in any unit of time; if that is no time at all,
// it needs no memory. Two buffers overlap if their times do; then their ranges of offsets must not. The largest sum of sizes that live at one time
// is the Bound: no packing is lower.
//
// # The ways to a packing
//
//   - greedy.go: orders the buffers in several ways and puts each as low as it fits, for problems of any
//     size;
//   - search.go: looks for a packing of a given height, completely if it is given the time, for problems
//     of up to some thousands of buffers.
//
// Pack takes the best of the first, then asks the second for the bound, then for heights in between.
//
// allocator.go plays a packing as an allocators.Allocator.
package packing

import (
	"cmp"
	"fmt"
	"slices"
)

// Buffer is a block whose life is known.
type Buffer struct {
	Lower, Upper int64 // lives from Lower up to Upper, in any unit
	Size         int64 // bytes, > 0
}

// Options say how hard Pack tries.
type Options struct {
	// Nodes is how many nodes the search may look at in all, 0 for 200,000 (about a second for a few
	// hundred buffers), negative for none: the greedy packing as it is.
	Nodes int64
}

const defaultNodes = 200_000

// Packing is a place for every buffer.
type Packing struct {
	Offsets []int64 // by buffer
	Height  int64   // bytes of the range
	Bound   int64   // no packing has less
}

// Gap is how much higher the packing is than the bound, as a share of the bound: 0 is optimal.
func (p Packing) Gap() float64 {
	if p.Bound == 0 {
		return 0
	}
	return float64(p.Height-p.Bound) / float64(p.Bound)
}

// Bound is the largest sum of sizes that live at one time.
func Bound(buffers []Buffer) int64 {
	type change struct{ time, size int64 }
	changes := make([]change, 0, 2*len(buffers))
	for _, b := range buffers {
		if b.Lower < b.Upper {
			changes = append(changes, change{b.Lower, b.Size}, change{b.Upper, -b.Size})
		}
	}
	// What ends goes before what begins at the same time.
	slices.SortFunc(changes, func(a, b change) int {
		return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.size, b.size))
	})
	var live, most int64
	for _, c := range changes {
		live += c.size
		most = max(most, live)
	}
	return most
}

// Validate is the judge of packings: it knows nothing of how they are made. It reports a buffer that
// sticks out of the range, or two that overlap.
func Validate(buffers []Buffer, offsets []int64, height int64) error {
	if len(offsets) != len(buffers) {
		return fmt.Errorf("%d offsets for %d buffers", len(offsets), len(buffers))
	}
	for i, b := range buffers {
		if b.Lower < b.Upper && (offsets[i] < 0 || offsets[i] > height-b.Size) {
			return fmt.Errorf("buffer %d of %d bytes at %d is outside a range of %d", i, b.Size, offsets[i], height)
		}
	}
	// Sweep over time: what is born must fit between the neighbours that live.
	order := byLower(buffers)
	var live []int // in the order of offsets
	for _, i := range order {
		b := buffers[i]
		if b.Lower >= b.Upper {
			continue
		}
		live = slices.DeleteFunc(live, func(j int) bool { return buffers[j].Upper <= b.Lower })
		at, _ := slices.BinarySearchFunc(live, offsets[i], func(j int, offset int64) int { return cmp.Compare(offsets[j], offset) })
		for _, j := range live[max(at-1, 0):min(at+1, len(live))] {
			if offsets[i] < offsets[j]+buffers[j].Size && offsets[j] < offsets[i]+b.Size {
				return fmt.Errorf("buffers %d and %d overlap", j, i)
			}
		}
		live = slices.Insert(live, at, i)
	}
	return nil
}

func byLower(buffers []Buffer) []int {
	order := make([]int, len(buffers))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(buffers[i].Lower, buffers[j].Lower) })
	return order
}

// Pack looks for a low packing.
func Pack(buffers []Buffer, opts Options) Packing {
	p := Packing{Bound: Bound(buffers)}
	p.Offsets, p.Height = greedy(buffers)
	budget := opts.Nodes
	if budget == 0 {
		budget = defaultNodes
	}
	unit := divisor(buffers) // all heights are multiples of it
	low := p.Bound           // the lowest height that is worth a try
	for low < p.Height && budget > 0 && len(buffers) <= maxSearch {
		// The bound first, as it is the most wanted; then the middle of what is left. Each has half of
		// what is left of the budget.
		try := low
		if low > p.Bound {
			try += (p.Height - low) / 2 / unit * unit
		}
		offsets, nodes, verdict := Solve(buffers, try, (budget+1)/2)
		budget -= max(nodes, 1)
		switch verdict {
		case Solved:
			p.Offsets, p.Height = offsets, height(buffers, offsets)
		case Infeasible:
			p.Bound = try + unit
			low = p.Bound
		case GaveUp:
			low = try + unit
		}
	}
	return p
}

// divisor is the largest number that all sizes are multiples of.
func divisor(buffers []Buffer) int64 {
	var d int64
	for _, b := range buffers {
		for a := b.Size; a != 0; {
			d, a = a, d%a
		}
	}
	return max(d, 1)
}

func height(buffers []Buffer, offsets []int64) int64 {
	var h int64
	for i, b := range buffers {
		if b.Lower < b.Upper {
			h = max(h, offsets[i]+b.Size)
		}
	}
	return h
}
