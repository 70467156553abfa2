package holes

// None is the neighbour of a piece at the end of its range.
const None = ^uint32(0)

// A Piece is a part of a range: handed out, or free.
type Piece struct {
	Addr uint64
	Size int64
	Prev uint32 // the piece that ends where this one begins
	Next uint32 // the piece that begins where this one ends
	List uint16 // for owners with several sets of free pieces: the one that this is in
	Free bool
}

// Chain is the pieces of any number of ranges. The pieces of a range cover it without gaps, and know
// their neighbours; pieces are numbered, and numbers are used again:
//
//	p.Next.Prev == p and p.Next.Addr == p.Addr + p.Size, for every piece with a Next
//
// The zero value has no ranges.
type Chain struct {
	pieces []Piece
	unused []uint32
}

// At is the piece of a number. The pointer is valid until a piece is made.
func (c *Chain) At(id uint32) *Piece { return &c.pieces[id] }

func (c *Chain) number() uint32 {
	if n := len(c.unused); n > 0 {
		id := c.unused[n-1]
		c.unused = c.unused[:n-1]
		return id
	}
	c.pieces = append(c.pieces, Piece{})
	return uint32(len(c.pieces) - 1)
}

// Add begins a range of one piece.
func (c *Chain) Add(addr uint64, size int64) uint32 {
	id := c.number()
	c.pieces[id] = Piece{Addr: addr, Size: size, Prev: None, Next: None}
	return id
}

// Append makes a piece behind the last one of a range, which is thereby longer.
func (c *Chain) Append(last uint32, size int64) uint32 {
	id := c.number()
	p := &c.pieces[last]
	c.pieces[id] = Piece{Addr: p.Addr + uint64(p.Size), Size: size, Prev: last, Next: None}
	p.Next = id
	return id
}

// Split cuts a piece in two; it keeps the first size bytes. The new piece is a copy in all else.
func (c *Chain) Split(id uint32, size int64) uint32 {
	up := c.number()
	p, q := &c.pieces[id], &c.pieces[up]
	*q = *p
	q.Addr += uint64(size)
	q.Size -= size
	q.Prev = id
	p.Size = size
	p.Next = up
	if q.Next != None {
		c.pieces[q.Next].Prev = up
	}
	return up
}

// Join makes one piece of a piece and the next one, whose number goes.
func (c *Chain) Join(id uint32) {
	p := &c.pieces[id]
	gone := p.Next
	q := &c.pieces[gone]
	p.Size += q.Size
	p.Next = q.Next
	if q.Next != None {
		c.pieces[q.Next].Prev = id
	}
	c.unused = append(c.unused, gone)
}

// Drop removes a piece at the end of a range.
func (c *Chain) Drop(id uint32) {
	p := &c.pieces[id]
	if p.Prev != None {
		c.pieces[p.Prev].Next = p.Next
	}
	if p.Next != None {
		c.pieces[p.Next].Prev = p.Prev
	}
	c.unused = append(c.unused, id)
}
