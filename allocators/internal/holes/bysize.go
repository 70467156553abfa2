package holes

import "math/bits"

const (
	binWords = 6
	numBins  = binWords * 64

	// runCap is how many holes of a bin lie side by side: few enough that moving them is cheap.
	runCap = 64
)

// A Hole is a free range, and the number that its owner knows it by.
type Hole struct {
	Size int64
	Addr uint64
	ID   uint32
}

func (h *Hole) less(size int64, addr uint64) bool {
	return h.Size < size || h.Size == size && h.Addr < addr
}

// BySize is a set of holes in the order of size, then address: the order in which best fit takes them.
// Sizes fall into bins, eight to a power of two, that follow each other in the order of sizes; a bitmap
// finds the next bin with a hole in it. A bin is a list of sorted runs, one as a rule, more where many
// holes are of about the same size.
//
//	bit b of used is set  ==  bin b has a hole
//	runs of a bin are never empty, and a bin without holes has no run
//
// The zero value is an empty set.
type BySize struct {
	used [binWords]uint64
	bins [numBins]bin
	n    int
}

type bin struct {
	run  []Hole   // the first run
	more [][]Hole // the ones after it
}

// binOf grows with size: sizes below 4 KiB have a bin for each 256 bytes, larger ones eight a power of
// two, up to 2^57 bytes.
func binOf(size int64) int {
	u := uint64(size) >> 8
	if u < 16 {
		return int(u)
	}
	e := bits.Len64(u) - 1 // at least 4
	return min((e-2)*8+int(u>>(uint(e-3)&63)&7), numBins-1)
}

// Len is the number of holes.
func (s *BySize) Len() int { return s.n }

// place is the run of the bin and the index in it of the first hole that is not before (size, addr), the
// end of the last run if there is none.
func (b *bin) place(size int64, addr uint64) (r, i int) {
	run := b.run
	if len(b.more) > 0 {
		low, high := 0, len(b.more) // the last run whose first hole is before
		for low < high {
			if mid := (low + high) / 2; b.more[mid][0].less(size, addr) {
				low = mid + 1
			} else {
				high = mid
			}
		}
		if r = low; r > 0 {
			run = b.more[r-1]
		}
	}
	low, high := 0, len(run)
	for high-low > 6 {
		if mid := int(uint(low+high) >> 1); run[mid].less(size, addr) {
			low = mid + 1
		} else {
			high = mid
		}
	}
	for low < high && run[low].less(size, addr) {
		low++
	}
	if low == len(run) && r < len(b.more) {
		return r + 1, 0
	}
	return r, low
}

func (b *bin) at(r int) *[]Hole {
	if r == 0 {
		return &b.run
	}
	return &b.more[r-1]
}

// Insert adds a hole.
func (s *BySize) Insert(h Hole) {
	n := binOf(h.Size)
	b := &s.bins[n]
	s.used[n>>6] |= 1 << (n & 63)
	s.n++
	r, i := 0, 0
	if len(b.run) > 0 {
		r, i = b.place(h.Size, h.Addr)
		if i == 0 && r > 0 { // the end of the run before is as good, and stays in order
			r--
			i = len(*b.at(r))
		}
	}
	run := b.at(r)
	if len(*run) == runCap {
		const half = runCap / 2
		up := append(make([]Hole, 0, runCap), (*run)[half:]...)
		*run = (*run)[:half]
		b.more = insert(b.more, r, up)
		if run = b.at(r); i > half {
			run, i = b.at(r+1), i-half
		}
	}
	*run = insert(*run, i, h)
}

// Remove takes a hole out of the set. It does nothing if the set does not have it.
func (s *BySize) Remove(size int64, addr uint64) {
	n := binOf(size)
	b := &s.bins[n]
	r, i := b.place(size, addr)
	if run := *b.at(r); i < len(run) && run[i].Size == size && run[i].Addr == addr {
		s.erase(n, r, i)
	}
}

func (s *BySize) erase(n, r, i int) {
	b := &s.bins[n]
	run := b.at(r)
	*run = erase(*run, i)
	s.n--
	if len(*run) > 0 {
		return
	}
	switch {
	case r > 0:
		b.more = erase(b.more, r-1)
	case len(b.more) > 0:
		b.run = b.more[0]
		b.more = erase(b.more, 0)
	default:
		s.used[n>>6] &^= 1 << (n & 63)
	}
}

// find is where the first hole of at least size bytes is.
func (s *BySize) find(size int64) (n, r, i int, ok bool) {
	n = binOf(size)
	if b := &s.bins[n]; len(b.run) > 0 {
		if r, i = b.place(size, 0); i < len(*b.at(r)) {
			return n, r, i, true
		}
	}
	n++
	if n == numBins {
		return 0, 0, 0, false
	}
	w := n >> 6
	m := s.used[w] >> (n & 63) << (n & 63)
	for m == 0 {
		if w++; w == binWords {
			return 0, 0, 0, false
		}
		m = s.used[w]
	}
	return w<<6 + bits.TrailingZeros64(m), 0, 0, true
}

// AtLeast is the first hole of at least size bytes: the smallest one that is large enough, the lowest of
// several.
func (s *BySize) AtLeast(size int64) (Hole, bool) {
	n, r, i, ok := s.find(size)
	if !ok {
		return Hole{}, false
	}
	return (*s.bins[n].at(r))[i], true
}

// Take removes the hole that AtLeast gives.
func (s *BySize) Take(size int64) (Hole, bool) {
	n, r, i, ok := s.find(size)
	if !ok {
		return Hole{}, false
	}
	h := (*s.bins[n].at(r))[i]
	s.erase(n, r, i)
	return h, true
}

// Largest is the size of the last hole, 0 if there is none.
func (s *BySize) Largest() int64 {
	for w := binWords - 1; w >= 0; w-- {
		if s.used[w] != 0 {
			b := &s.bins[w<<6+bits.Len64(s.used[w])-1]
			run := *b.at(len(b.more))
			return run[len(run)-1].Size
		}
	}
	return 0
}

// All lists the holes in order, appended to buf.
func (s *BySize) All(buf []Hole) []Hole {
	for n := range s.bins {
		buf = append(buf, s.bins[n].run...)
		for _, run := range s.bins[n].more {
			buf = append(buf, run...)
		}
	}
	return buf
}
