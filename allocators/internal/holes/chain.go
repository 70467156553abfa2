package holes

// None is the number of no piece: the neighbour of a piece at the end of its range.
const None uint32 = 0

// A Piece is a part of a range: handed out, or free. It takes 32 bytes, so that two share a cache line.
type Piece struct {
	Addr uint64
	Size int64
	Prev uint32 // the piece that ends where this one begins
	Next uint32 // the piece that begins where this one ends

	// Where it is in the set of free pieces that has it: in BySize the pieces before and after it, in
	// Lowest its cluster and its place there. a is 0 while no set has it.
	a, b uint32
}

// Free reports whether a set of free pieces has the piece.
func (p *Piece) Free() bool { return p.a != 0 }

// Chain is the pieces of any number of ranges. The pieces of a range cover it without gaps, and know
// their neighbours; pieces are numbered, and numbers are used again:
//
//	p.Next.Prev == p and p.Next.Addr == p.Addr + p.Size, for every piece with a Next
//
// None is the number of a piece in no range that is never free, so that whoever looks at a neighbour need
// not ask first whether there is one. Make one with NewChain.
type Chain struct {
	pieces []Piece
	unused uint32 // the first number to use again; its Next is the second
}

// NewChain is a chain without ranges.
func NewChain() Chain { return Chain{pieces: make([]Piece, 1)} }

// At is the piece of a number. The pointer is valid until a piece is made.
func (c *Chain) At(id uint32) *Piece { return &c.pieces[id] }

func (c *Chain) number() uint32 {
	id := c.unused
	if id == None {
		c.pieces = append(c.pieces, Piece{})
		return uint32(len(c.pieces) - 1)
	}
	c.unused = c.pieces[id].Next
	return id
}

// Append makes a piece behind the last one of a range, or behind None one that begins a range.
func (c *Chain) Append(last uint32, addr uint64, size int64) uint32 {
	id := c.number()
	c.pieces[id] = Piece{Addr: addr, Size: size, Prev: last}
	c.pieces[last].Next = id
	return id
}

// Split cuts a piece in two. The piece keeps the first size bytes, the new one is the rest.
func (c *Chain) Split(id uint32, size int64) uint32 {
	up := c.number()
	p, q := &c.pieces[id], &c.pieces[up]
	q.Addr = p.Addr + uint64(size)
	q.Size = p.Size - size
	q.Prev, q.Next = id, p.Next
	c.pieces[p.Next].Prev = up
	p.Size = size
	p.Next = up
	return up
}

// SplitLow cuts a piece in two. The piece keeps what is behind the first size bytes, the new one is those.
func (c *Chain) SplitLow(id uint32, size int64) uint32 {
	low := c.number()
	p, q := &c.pieces[id], &c.pieces[low]
	q.Addr = p.Addr
	q.Size = size
	q.Prev, q.Next = p.Prev, id
	c.pieces[p.Prev].Next = low
	p.Addr += uint64(size)
	p.Size -= size
	p.Prev = low
	return low
}

// Join makes one piece of a piece and the next one, whose number goes.
func (c *Chain) Join(id uint32) {
	p := &c.pieces[id]
	gone := p.Next
	q := &c.pieces[gone]
	p.Size += q.Size
	p.Next = q.Next
	c.pieces[q.Next].Prev = id
	q.Next, c.unused = c.unused, gone
}

// JoinLow makes one piece of a piece and the one before it, whose number goes.
func (c *Chain) JoinLow(id uint32) {
	p := &c.pieces[id]
	gone := p.Prev
	q := &c.pieces[gone]
	p.Addr = q.Addr
	p.Size += q.Size
	p.Prev = q.Prev
	c.pieces[q.Prev].Next = id
	q.Next, c.unused = c.unused, gone
}

// Drop removes a piece at an end of a range.
func (c *Chain) Drop(id uint32) {
	p := &c.pieces[id]
	c.pieces[p.Prev].Next = p.Next
	c.pieces[p.Next].Prev = p.Prev
	p.Next, c.unused = c.unused, id
}
