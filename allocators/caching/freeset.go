package caching

import (
	"math/bits"
	"slices"
	"sort"
)

// freeSet holds the free blocks of one pool and one stream in the order of size, then address: the order
// in which best fit looks at them, in which they are released, and in which the age of garbage is judged.
//
// Blocks are binned by size, eight bins to a power of two; a bitmap finds the next bin that is not empty,
// and a bin is a small sorted slice. Bins follow each other in the order of sizes, so walking the bins is
// walking the set. A bin that grows long, as that of a program with very many blocks of one size, is cut into
// runs, so that putting a block in never moves many others.
type freeSet struct {
	used [bitmapWords]uint64
	bins [bitmapWords]*[64]sizeBin // sixty-four at a time, made when the first of them is used
	most int64                     // size of the largest block, 0 if there is none
	top  int32                     // its number among all sets
}

const bitmapWords = 5

// sizeBin is blocks of similar sizes: those of first come before those of the runs of more, which come one after
// another and are never empty. First is only empty if there are none. Nearly all bins have one run, and more is nil.
type sizeBin struct {
	first []freeEntry
	more  *[][]freeEntry
}

// longestRun is how many entries a run has before it is cut in two.
const longestRun = 512

type freeEntry struct {
	size int64
	addr uint64
	slot int32
}

func (e *freeEntry) before(size int64, addr uint64) bool {
	return e.size < size || e.size == size && e.addr < addr
}

// position is a place in the set: bin, run of it, and index in that. It holds until the set changes.
type position struct{ bin, run, i int }

var nowhere = position{-1, -1, -1}

func (p position) ok() bool { return p.bin >= 0 }

// binOf grows with size: up to 8 KiB there is a bin for each 512 bytes, then eight to a power of two.
func binOf(size int64) int {
	u := uint64(size) / minBlock
	e := bits.Len64(u|8) - 4
	return min(e*8+int(u>>e), bitmapWords*64-1)
}

// bin is nil for one of sixty-four that were never used.
func (s *freeSet) bin(b int) *sizeBin {
	if c := s.bins[b>>6]; c != nil {
		return &c[b&63]
	}
	return nil
}

func (s *freeSet) binFor(b int) *sizeBin {
	c := s.bins[b>>6]
	if c == nil {
		c = new([64]sizeBin)
		s.bins[b>>6] = c
	}
	return &c[b&63]
}

// run is the k-th run, first is the 0th.
func (b *sizeBin) run(k int) []freeEntry {
	if k == 0 {
		return b.first
	}
	return (*b.more)[k-1]
}

// runs is how many runs there are beside the first.
func (b *sizeBin) runs() int {
	if b.more == nil {
		return 0
	}
	return len(*b.more)
}

func (b *sizeBin) put(k int, run []freeEntry) {
	if k == 0 {
		b.first = run
		return
	}
	(*b.more)[k-1] = run
}

// setMore changes the runs beside the first.
func (b *sizeBin) setMore(more [][]freeEntry) {
	if len(more) == 0 {
		b.more = nil
		return
	}
	b.more = &more
}

// find is the first entry that is not before (size, addr): its run, and its index there, which is behind the last if
// there is none.
func (b *sizeBin) find(size int64, addr uint64) (run, i int) {
	if b.more == nil {
		return 0, findIn(b.first, size, addr)
	}
	more := *b.more
	// The last run that begins before it, or the first.
	run = sort.Search(len(more), func(k int) bool { return !more[k][0].before(size, addr) })
	list := b.run(run)
	if i = findIn(list, size, addr); i == len(list) && run < len(more) {
		return run + 1, 0
	}
	return run, i
}

// findIn is the index of the first entry that is not before (size, addr). Most bins are short, so
// looking at one entry after the other finds it soonest.
func findIn(run []freeEntry, size int64, addr uint64) int {
	lo, hi := 0, len(run)
	for hi-lo > 8 {
		if mid := int(uint(lo+hi) / 2); run[mid].before(size, addr) {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	for lo < hi && run[lo].before(size, addr) {
		lo++
	}
	return lo
}

func (s *freeSet) insert(size int64, addr uint64, slot int32) {
	at := binOf(size)
	b := s.binFor(at)
	s.used[at>>6] |= 1 << (at & 63)
	if b.more == nil && len(b.first) < longestRun {
		b.first = insertIn(b.first, findIn(b.first, size, addr), freeEntry{size, addr, slot})
		return
	}
	k, i := b.find(size, addr)
	run := insertIn(b.run(k), i, freeEntry{size, addr, slot})
	b.put(k, run)
	if len(run) > longestRun {
		b.cut(k)
	}
}

func insertIn(run []freeEntry, i int, e freeEntry) []freeEntry {
	run = append(run, e)
	if i < len(run)-1 {
		copy(run[i+1:], run[i:])
		run[i] = e
	}
	return run
}

// cut makes two runs of one. The second gets memory of its own: the first goes on growing in its.
func (b *sizeBin) cut(k int) {
	run := b.run(k)
	half := len(run) / 2
	second := append(make([]freeEntry, 0, longestRun+1), run[half:]...)
	b.put(k, run[:half])
	var more [][]freeEntry
	if b.more != nil {
		more = *b.more
	}
	b.setMore(slices.Insert(more, k, second))
}

// remove takes out a block that is in the set.
func (s *freeSet) remove(size int64, addr uint64) {
	at := binOf(size)
	k, i := s.bin(at).find(size, addr)
	s.removeAt(position{at, k, i})
}

func (s *freeSet) removeAt(p position) {
	b := s.bin(p.bin)
	run := b.run(p.run)
	last := len(run) - 1
	if p.i < last {
		copy(run[p.i:], run[p.i+1:])
	}
	b.put(p.run, run[:last])
	switch {
	case last > 0:
	case b.more == nil:
		s.used[p.bin>>6] &^= 1 << (p.bin & 63)
	case p.run > 0:
		b.setMore(slices.Delete(*b.more, p.run-1, p.run))
	default:
		b.first = (*b.more)[0]
		b.setMore(slices.Delete(*b.more, 0, 1))
	}
}

func (s *freeSet) at(p position) freeEntry { return s.bin(p.bin).run(p.run)[p.i] }

// atLeast is the position of the first block of at least size bytes.
func (s *freeSet) atLeast(size int64) position {
	at := binOf(size)
	if b := s.bin(at); b != nil && len(b.first) > 0 {
		if k, i := b.find(size, 0); i < len(b.run(k)) {
			return position{at, k, i}
		}
	}
	return s.firstFrom(at + 1)
}

// below is the position of the last block before (size, addr).
func (s *freeSet) below(size int64, addr uint64) position {
	at := binOf(size)
	if b := s.bin(at); b != nil && len(b.first) > 0 {
		if k, i := b.find(size, addr); i > 0 {
			return position{at, k, i - 1}
		} else if k > 0 {
			return position{at, k - 1, len(b.run(k-1)) - 1}
		}
	}
	return s.lastBefore(at)
}

func (s *freeSet) first() position { return s.firstFrom(0) }

func (s *freeSet) firstFrom(bin int) position {
	if bin >= bitmapWords*64 {
		return nowhere
	}
	w := bin >> 6
	m := s.used[w] >> (bin & 63) << (bin & 63)
	for m == 0 {
		if w++; w == bitmapWords {
			return nowhere
		}
		m = s.used[w]
	}
	return position{w<<6 + bits.TrailingZeros64(m), 0, 0}
}

func (s *freeSet) last() position { return s.lastBefore(bitmapWords * 64) }

// largest is the size of the last block, 0 if there is none.
func (s *freeSet) largest() int64 {
	if last := s.last(); last.ok() {
		return s.at(last).size
	}
	return 0
}

// lastBefore is the last position in a bin below the given one.
func (s *freeSet) lastBefore(bin int) position {
	for w := (bin - 1) >> 6; w >= 0; w-- {
		m := s.used[w]
		if k := bin - w<<6; k < 64 {
			m &= 1<<k - 1
		}
		if m != 0 {
			at := w<<6 + bits.Len64(m) - 1
			b := s.bin(at)
			k := b.runs()
			return position{at, k, len(b.run(k)) - 1}
		}
	}
	return nowhere
}

func (s *freeSet) next(p position) position {
	b := s.bin(p.bin)
	switch {
	case p.i+1 < len(b.run(p.run)):
		return position{p.bin, p.run, p.i + 1}
	case p.run < b.runs():
		return position{p.bin, p.run + 1, 0}
	}
	return s.firstFrom(p.bin + 1)
}

func (s *freeSet) prev(p position) position {
	switch {
	case p.i > 0:
		return position{p.bin, p.run, p.i - 1}
	case p.run > 0:
		return position{p.bin, p.run - 1, len(s.bin(p.bin).run(p.run-1)) - 1}
	}
	return s.lastBefore(p.bin)
}

// all lists the set in order, appended to buf: for walks that change it as they go.
func (s *freeSet) all(buf []freeEntry) []freeEntry {
	for p := s.first(); p.ok(); p = s.next(p) {
		buf = append(buf, s.at(p))
	}
	return buf
}
