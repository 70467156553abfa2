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
	holes  holes.BySize // by size, then by age: Addr is the number of the change that made the hole
	born   []uint64     // that number, by piece
	live   map[uint64]small
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
	n := int64(roundUp(uint64(size), smallUnit))
	if _, ok := s.holes.AtLeast(n); !ok {
		addr, err := d.allocWhole(Granule)
		if err != nil {
			return 0, err
		}
		s.put(s.pieces.Add(addr, Granule))
	}
	h, _ := s.holes.Take(n)
	p := s.pieces.At(h.ID)
	addr := p.Addr
	p.Free = false
	if p.Size > n {
		s.put(s.pieces.Split(h.ID, n))
	}
	if s.live == nil {
		s.live = map[uint64]small{}
	}
	s.live[addr] = small{h.ID, size}
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
	if next := s.pieces.At(id).Next; next != holes.None && s.pieces.At(next).Free {
		s.take(next)
		s.pieces.Join(id)
	}
	if prev := s.pieces.At(id).Prev; prev != holes.None && s.pieces.At(prev).Free {
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

// put makes a piece a hole, the newest.
func (s *sharedBlocks) put(id uint32) {
	p := s.pieces.At(id)
	p.Free = true
	s.clock++
	for int(id) >= len(s.born) {
		s.born = append(s.born, 0)
	}
	s.born[id] = s.clock
	s.holes.Insert(holes.Hole{Size: p.Size, Addr: s.clock, ID: id})
}

// take takes a piece out of the holes.
func (s *sharedBlocks) take(id uint32) { s.holes.Remove(s.pieces.At(id).Size, s.born[id]) }
