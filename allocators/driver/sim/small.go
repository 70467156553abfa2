package sim

import "github.com/vramscope/vramscope/allocators/internal/holes"

// Requests of less than a granule share blocks of one granule. Such a block is a block like any other to
// the chunks. Inside, sizes are multiples of 512 bytes, and the blocks together are one set of holes: a
// request takes the low end of the smallest hole that holds it, of equal ones the one that has had its
// present extent longest. Only if there is none a new block is taken. A block without an allocation is
// given back at once.

// smallUnit is the unit of sizes and addresses in a shared block, in bytes.
const smallUnit = 512

// sharedBlocks are the blocks of one granule that small requests share.
//
//	the pieces of a block cover it; no two neighbours are free; a hole is a free piece
type sharedBlocks struct {
	pieces holes.Chain
	live   map[uint64]small // nil before the first request

	// The holes by size, then by age. In their own chain the address is the number of the change that made
	// the hole.
	ages   holes.Chain
	bySize holes.BySize
	hole   []uint32 // by piece: the hole that it is, holes.None if it is in use
	piece  []uint32 // by hole
	clock  uint64
}

// small is an allocation in a shared block.
type small struct {
	piece uint32
	size  int64 // as asked for
}

// allocSmall serves a request of less than a granule.
func (d *Driver) allocSmall(size int64) (uint64, error) {
	s := &d.shared
	if s.live == nil {
		s.pieces, s.ages, s.live = holes.NewChain(), holes.NewChain(), map[uint64]small{}
		s.bySize = holes.NewBySize(&s.ages)
	}
	n := int64(roundUp(uint64(size), smallUnit))
	if s.bySize.AtLeast(&s.ages, n) == holes.None {
		addr, err := d.allocWhole(Granule)
		if err != nil {
			return 0, err
		}
		s.put(s.pieces.Append(holes.None, addr, Granule))
	}
	id := s.piece[s.bySize.AtLeast(&s.ages, n)]
	s.take(id)
	if s.pieces.At(id).Size > n {
		s.put(s.pieces.Split(id, n))
	}
	addr := s.pieces.At(id).Addr
	s.live[addr] = small{id, size}
	return addr, nil
}

// freeSmall gives an allocation in a shared block back; false if there is none at the address.
func (d *Driver) freeSmall(addr uint64, size int64) bool {
	s := &d.shared
	a, ok := s.live[addr]
	if !ok {
		return false
	}
	if a.size != size {
		d.faults++
	}
	delete(s.live, addr)
	id := a.piece
	if next := s.pieces.At(id).Next; s.free(next) {
		s.take(next)
		s.pieces.Join(id)
	}
	if prev := s.pieces.At(id).Prev; s.free(prev) {
		s.take(prev)
		s.pieces.Join(prev)
		id = prev
	}
	if p := s.pieces.At(id); p.Size == Granule {
		at := p.Addr
		s.pieces.Drop(id)
		d.freeWhole(at, Granule)
		return true
	}
	s.put(id)
	return true
}

// free reports whether a piece is a hole.
func (s *sharedBlocks) free(id uint32) bool { return id != holes.None && s.hole[id] != holes.None }

// put makes a piece a hole, the newest.
func (s *sharedBlocks) put(id uint32) {
	s.clock++
	h := s.ages.Append(holes.None, s.clock, s.pieces.At(id).Size)
	for int(id) >= len(s.hole) {
		s.hole = append(s.hole, holes.None)
	}
	for int(h) >= len(s.piece) {
		s.piece = append(s.piece, holes.None)
	}
	s.hole[id], s.piece[h] = h, id
	s.bySize.Insert(&s.ages, h)
}

// take takes a piece out of the holes.
func (s *sharedBlocks) take(id uint32) {
	h := s.hole[id]
	s.hole[id] = holes.None
	s.bySize.Remove(&s.ages, h)
	s.ages.Drop(h)
}
