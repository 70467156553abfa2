package packing

import (
	"cmp"
	"slices"

	"github.com/vramscope/vramscope/allocators/internal/holes"
)

// maxLowest is the number of buffers up to which holes below others are looked for one by one.
const maxLowest = 3000

// greedy is the lowest of several simple packings.
func greedy(buffers []Buffer) (offsets []int64, top int64) {
	bound := Bound(buffers)
	consider := func(o []int64) bool {
		if h := height(buffers, o); offsets == nil || h < top {
			offsets, top = o, h
		}
		return top <= bound
	}
	if consider(firstFit(buffers)) {
		return offsets, top
	}
	times := instants(buffers)
	for _, order := range greedyOrders(buffers) {
		if consider(skyline(buffers, order, times)) {
			return offsets, top
		}
		if len(buffers) <= maxLowest && consider(lowest(buffers, order)) {
			return offsets, top
		}
	}
	return offsets, top
}

// greedyOrders are orders of the buffers, what is difficult to place first.
func greedyOrders(buffers []Buffer) [][]int {
	life := func(b Buffer) float64 { return float64(b.Upper) - float64(b.Lower) }
	var orders [][]int
	for _, value := range []func(Buffer) float64{
		func(b Buffer) float64 { return life(b) * float64(b.Size) },
		life,
		func(b Buffer) float64 { return float64(b.Size) },
	} {
		order := byLower(buffers)
		slices.SortStableFunc(order, func(i, j int) int {
			return cmp.Or(cmp.Compare(value(buffers[j]), value(buffers[i])), cmp.Compare(buffers[j].Size, buffers[i].Size))
		})
		orders = append(orders, order)
	}
	return orders
}

// firstFit is what an allocator does that knows nothing of the future: the buffers in the order of their
// births, each at the lowest place that is free then.
func firstFit(buffers []Buffer) []int64 {
	offsets := make([]int64, len(buffers))
	ends := make([]int, 0, len(buffers))
	for i, b := range buffers {
		if b.Lower < b.Upper {
			ends = append(ends, i)
		}
	}
	slices.SortStableFunc(ends, func(i, j int) int { return cmp.Compare(buffers[i].Upper, buffers[j].Upper) })
	var free holes.ByAddr
	free.Put(0, 1<<62)
	gone := 0
	for _, i := range byLower(buffers) {
		b := buffers[i]
		for gone < len(ends) && buffers[ends[gone]].Upper <= b.Lower {
			free.Put(uint64(offsets[ends[gone]]), buffers[ends[gone]].Size)
			gone++
		}
		if b.Lower >= b.Upper {
			continue
		}
		if p, ok := free.Find(b.Size, 0); ok {
			offsets[i] = int64(free.Take(p, b.Size))
		}
	}
	return offsets
}

// lowest puts each buffer at the lowest offset at which it overlaps none that was placed before.
func lowest(buffers []Buffer, order []int) []int64 {
	offsets := make([]int64, len(buffers))
	var placed []int // in the order of offsets
	for _, i := range order {
		b := buffers[i]
		if b.Lower >= b.Upper {
			continue
		}
		offset := int64(0)
		for _, j := range placed {
			if o := buffers[j]; o.Lower < b.Upper && b.Lower < o.Upper {
				if offsets[j]-offset >= b.Size {
					break
				}
				offset = max(offset, offsets[j]+o.Size)
			}
		}
		offsets[i] = offset
		at, _ := slices.BinarySearchFunc(placed, offset, func(j int, offset int64) int { return cmp.Compare(offsets[j], offset) })
		placed = slices.Insert(placed, at, i)
	}
	return offsets
}

// instants are the times at which buffers begin or end, in order.
func instants(buffers []Buffer) []int64 {
	times := make([]int64, 0, 2*len(buffers))
	for _, b := range buffers {
		times = append(times, b.Lower, b.Upper)
	}
	slices.Sort(times)
	return slices.Compact(times)
}

// skyline puts each buffer on top of all that were placed before and overlap it in time.
func skyline(buffers []Buffer, order []int, times []int64) []int64 {
	offsets := make([]int64, len(buffers))
	t := newTops(len(times))
	for _, i := range order {
		b := buffers[i]
		if b.Lower >= b.Upper {
			continue
		}
		from, _ := slices.BinarySearch(times, b.Lower)
		to, _ := slices.BinarySearch(times, b.Upper)
		offsets[i] = t.highest(from, to)
		t.raise(from, to, offsets[i]+b.Size)
	}
	return offsets
}

// tops is a height for each of many instants, as a binary tree: a range is asked for its highest, or
// raised to a height that is at least that.
//
//	top[n]  is the highest of the instants below node n
//	all[n]  is a height that all instants below node n have at least
type tops struct {
	size     int
	top, all []int64
}

func newTops(n int) *tops {
	size := 1
	for size < n {
		size *= 2
	}
	return &tops{size, make([]int64, 2*size), make([]int64, 2*size)}
}

func (t *tops) highest(from, to int) int64 { return t.ask(1, 0, t.size, from, to) }

func (t *tops) ask(n, low, high, from, to int) int64 {
	if from <= low && high <= to {
		return t.top[n]
	}
	if to <= low || high <= from {
		return 0
	}
	mid := (low + high) / 2
	return max(t.all[n], t.ask(2*n, low, mid, from, to), t.ask(2*n+1, mid, high, from, to))
}

func (t *tops) raise(from, to int, height int64) { t.set(1, 0, t.size, from, to, height) }

func (t *tops) set(n, low, high, from, to int, height int64) {
	if to <= low || high <= from {
		return
	}
	t.top[n] = max(t.top[n], height)
	if from <= low && high <= to {
		t.all[n] = height
		return
	}
	mid := (low + high) / 2
	t.set(2*n, low, mid, from, to, height)
	t.set(2*n+1, mid, high, from, to, height)
}
