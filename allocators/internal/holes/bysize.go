package holes

import (
	"iter"
	"math"
	"math/bits"
)

const (
	// fineBits is how many bits of a size, below its highest one, are in the number of its bin.
	fineBits = 4
	numBins  = 64 << fineBits
	binWords = numBins / 64
)

// BySize is a set of pieces of a chain in the order of size, then address: the order in which best fit
// takes them. Sizes fall into bins, sixteen to a power of two, which follow each other in the order of
// sizes; a bitmap finds the next bin with a piece in it. A bin is a ring of pieces in order, closed by a
// piece of no range, its head, whose size is larger than any: neither putting a piece into a ring nor
// taking one out depends on what else is in it, and hardly a search goes further than the first piece.
//
//	bit b of used is set  ==  the ring of bin b has more than its head
//	the head of bin b is the piece base + b
//
// A ring that has become long gives way to a tree (tree.go), so that a range with very many holes of about
// the same size is no trap.
//
// A piece must keep its size and address while it is in the set.
type BySize struct {
	base  uint32
	used  [binWords]uint64
	trees int              // how many bins are trees
	tall  [binWords]uint64 // which
}

// NewBySize is an empty set for pieces of a chain. A chain may have several sets, a piece is in one.
func NewBySize(c *Chain) BySize {
	s := BySize{base: uint32(len(c.pieces))}
	for b := range uint32(numBins) {
		c.pieces = append(c.pieces, Piece{Size: math.MaxInt64, a: s.base + b, b: s.base + b})
	}
	return s
}

// binOf grows with size: it is the exponent of the size as a floating-point number, and the first bits of
// its fraction.
func binOf(size int64) uint32 {
	return (uint32(math.Float64bits(float64(size))>>(52-fineBits)) - 1023<<fineBits) % numBins
}

// before is the order of the set.
func (p *Piece) before(q *Piece) bool {
	return p.Size < q.Size || p.Size == q.Size && p.Addr < q.Addr
}

// longRing is how many pieces of a ring may be passed before the ring becomes a tree.
const longRing = 64

// Insert adds a piece.
func (s *BySize) Insert(c *Chain, id uint32) {
	pieces := c.pieces
	p := &pieces[id]
	b := binOf(p.Size)
	if s.trees > 0 && s.isTree(b) {
		s.plant(c, b, id)
		return
	}
	s.used[b>>6] |= 1 << (b & 63)
	at := s.base + b
	after := pieces[at].b
	for n := 0; pieces[after].before(p); n++ {
		if n == longRing {
			s.toTree(c, b)
			s.plant(c, b, id)
			return
		}
		at, after = after, pieces[after].b
	}
	p.a, p.b = at, after
	pieces[at].b = id
	pieces[after].a = id
}

// Remove takes a piece out of the set, which must have it.
func (s *BySize) Remove(c *Chain, id uint32) {
	p := &c.pieces[id]
	if s.trees > 0 {
		if b := binOf(p.Size); s.isTree(b) {
			s.fell(c, b, id)
			return
		}
	}
	s.unlink(c.pieces, p)
}

// unlink takes a piece out of its ring.
func (s *BySize) unlink(pieces []Piece, p *Piece) {
	before, after := p.a, p.b
	p.a = 0
	pieces[before].b = after
	pieces[after].a = before
	var bit uint64
	if before == after {
		bit = 1
	}
	b := before - s.base // the bin, if bit is set: then the head alone is left
	s.used[b>>6%binWords] &^= bit << (b & 63)
}

// AtLeast is the first piece of at least size bytes: the smallest one that is large enough, the lowest of
// several; None if there is none.
func (s *BySize) AtLeast(c *Chain, size int64) uint32 {
	pieces := c.pieces
	b := binOf(size)
	w := b >> 6
	m := s.used[w] >> (b & 63) << (b & 63)
	for {
		for m == 0 {
			if w++; w >= binWords {
				return None
			}
			m = s.used[w]
		}
		b = w<<6 + uint32(bits.TrailingZeros64(m))
		head := s.base + b
		if s.trees > 0 && s.isTree(b) {
			if id := s.climb(c, b, size); id != None {
				return id
			}
		} else {
			id := pieces[head].b
			for n := 0; pieces[id].Size < size; n++ {
				if n == longRing {
					s.toTree(c, b)
					return s.AtLeast(c, size)
				}
				id = pieces[id].b
			}
			if id != head {
				return id
			}
		}
		m &= m - 1
	}
}

// Take removes the piece that AtLeast gives.
func (s *BySize) Take(c *Chain, size int64) uint32 {
	id := s.AtLeast(c, size)
	if id != None {
		s.Remove(c, id)
	}
	return id
}

// Cut takes a block from the low end of the piece that AtLeast gives; what is left of that is free.
func (s *BySize) Cut(c *Chain, size int64) uint32 {
	id := s.AtLeast(c, size)
	if id == None {
		return None
	}
	s.Remove(c, id)
	if c.At(id).Size > size {
		s.Insert(c, c.Split(id, size))
	}
	return id
}

// Put makes a piece free, and one piece of it and those beside it that are free: the number of the lowest
// of them stays.
func (s *BySize) Put(c *Chain, id uint32) {
	p := c.At(id)
	if c.At(p.Next).Free() {
		s.Remove(c, p.Next)
		c.Join(id)
	}
	if c.At(p.Prev).Free() {
		id = p.Prev
		s.Remove(c, id)
		c.Join(id)
	}
	s.Insert(c, id)
}

// Largest is the size of the last piece, 0 if there is none.
func (s *BySize) Largest(c *Chain) int64 {
	for w := binWords - 1; w >= 0; w-- {
		if s.used[w] == 0 {
			continue
		}
		b := uint32(w<<6 + bits.Len64(s.used[w]) - 1)
		if s.isTree(b) {
			return s.tallest(c, b)
		}
		return c.pieces[c.pieces[s.base+b].a].Size
	}
	return 0
}

// All gives the pieces in order. The set must not change on the way.
func (s *BySize) All(c *Chain) iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		for b := range uint32(numBins) {
			head := s.base + b
			if s.isTree(b) {
				if !s.walk(c, c.pieces[head].b, head, yield) {
					return
				}
				continue
			}
			for id := c.pieces[head].b; id != head; id = c.pieces[id].b {
				if !yield(id) {
					return
				}
			}
		}
	}
}
