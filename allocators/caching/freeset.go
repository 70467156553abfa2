package caching

import "math/bits"

// freeSet holds the free blocks of one pool and one stream in the order of size, then address: the order
// in which best fit looks at them, in which they are released, and in which the age of garbage is judged.
//
// Blocks are binned by size, eight bins to a power of two; a bitmap finds the next bin that is not empty,
// and a bin is a small sorted slice. Bins follow each other in the order of sizes, so walking the bins is
// walking the set.
type freeSet struct {
	used [bitmapWords]uint64
	bins [bitmapWords]*[64][]freeEntry // sixty-four at a time, made when the first of them is used
}

const bitmapWords = 5

type freeEntry struct {
	size int64
	addr uint64
	slot int32
}

func (e *freeEntry) before(size int64, addr uint64) bool {
	return e.size < size || e.size == size && e.addr < addr
}

// position is a place in the set: bin and index in it. It holds until the set changes.
type position struct{ bin, i int }

var nowhere = position{-1, -1}

func (p position) ok() bool { return p.bin >= 0 }

// binOf grows with size: up to 8 KiB there is a bin for each 512 bytes, then eight to a power of two.
func binOf(size int64) int {
	u := uint64(size) / minBlock
	e := bits.Len64(u|8) - 4
	return min(e*8+int(u>>e), bitmapWords*64-1)
}

func (s *freeSet) bin(b int) []freeEntry {
	if c := s.bins[b>>6]; c != nil {
		return c[b&63]
	}
	return nil
}

func (s *freeSet) put(b int, bin []freeEntry) {
	c := s.bins[b>>6]
	if c == nil {
		c = new([64][]freeEntry)
		s.bins[b>>6] = c
	}
	c[b&63] = bin
}

// find is the index in the bin of the first entry that is not before (size, addr). Most bins are short, so
// looking at one entry after the other finds it soonest.
func find(bin []freeEntry, size int64, addr uint64) int {
	lo, hi := 0, len(bin)
	for hi-lo > 8 {
		if mid := int(uint(lo+hi) / 2); bin[mid].before(size, addr) {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	for lo < hi && bin[lo].before(size, addr) {
		lo++
	}
	return lo
}

func (s *freeSet) insert(size int64, addr uint64, slot int32) {
	b := binOf(size)
	bin := s.bin(b)
	i := find(bin, size, addr)
	bin = append(bin, freeEntry{size, addr, slot})
	if i < len(bin)-1 {
		copy(bin[i+1:], bin[i:])
		bin[i] = freeEntry{size, addr, slot}
	}
	s.put(b, bin)
	s.used[b>>6] |= 1 << (b & 63)
}

// remove takes out a block that is in the set.
func (s *freeSet) remove(size int64, addr uint64) {
	b := binOf(size)
	s.removeAt(position{b, find(s.bin(b), size, addr)})
}

func (s *freeSet) removeAt(p position) {
	bin := s.bin(p.bin)
	last := len(bin) - 1
	if p.i < last {
		copy(bin[p.i:], bin[p.i+1:])
	}
	s.put(p.bin, bin[:last])
	if last == 0 {
		s.used[p.bin>>6] &^= 1 << (p.bin & 63)
	}
}

func (s *freeSet) at(p position) freeEntry { return s.bin(p.bin)[p.i] }

// atLeast is the position of the first block of at least size bytes.
func (s *freeSet) atLeast(size int64) position {
	b := binOf(size)
	if bin := s.bin(b); len(bin) > 0 {
		if i := find(bin, size, 0); i < len(bin) {
			return position{b, i}
		}
	}
	return s.firstFrom(b + 1)
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
	return position{w<<6 + bits.TrailingZeros64(m), 0}
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
			b := w<<6 + bits.Len64(m) - 1
			return position{b, len(s.bin(b)) - 1}
		}
	}
	return nowhere
}

func (s *freeSet) next(p position) position {
	if p.i+1 < len(s.bin(p.bin)) {
		return position{p.bin, p.i + 1}
	}
	return s.firstFrom(p.bin + 1)
}

func (s *freeSet) prev(p position) position {
	if p.i > 0 {
		return position{p.bin, p.i - 1}
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
