package sim

import (
	"cmp"
	"fmt"
	"slices"
)

// check says what is wrong with a driver's state, by looking at all of it:
//
//	chunks, reservations and gaps are disjoint
//	gaps and the holes of each chunk are sorted, disjoint, not empty and not adjacent
//	a live block is inside its chunk, and no byte belongs to two blocks or to a block and a hole
//	no chunk is one hole; the search tree has the largest hole of every chunk
//	used = live blocks + mapped bytes
func (d *Driver) check() error {
	type owned struct {
		span
		what string
	}
	var all []owned
	gaps := d.gaps.all()
	if err := checkSorted(gaps); err != nil {
		return fmt.Errorf("gaps: %w", err)
	}
	for _, b := range d.gaps.buckets {
		largest := uint64(0)
		for _, s := range b.spans {
			largest = max(largest, s.size())
		}
		if len(b.spans) == 0 || len(b.spans) > bucketSize || b.largest != largest {
			return fmt.Errorf("bucket of %d gaps, largest %d, noted %d", len(b.spans), largest, b.largest)
		}
	}
	for _, g := range gaps {
		all = append(all, owned{g, "gap"})
	}
	for addr, size := range d.reserved {
		all = append(all, owned{span{addr, addr + roundUp(uint64(size), ChunkUnit)}, "reservation"})
	}
	blocks := map[*chunk][]span{}
	used := d.mapped
	for addr, b := range d.live {
		used += b.taken()
		if b.chunk == nil {
			all = append(all, owned{b.span(addr), "block"})
			continue
		}
		blocks[b.chunk] = append(blocks[b.chunk], b.span(addr))
	}
	if err := d.checkShared(); err != nil {
		return err
	}
	if used != d.used || d.used < 0 || d.mapped < 0 {
		return fmt.Errorf("used %d, counted %d", d.used, used)
	}
	made := uint64(0)
	for i, c := range d.chunks.slots {
		leaf := uint64(0)
		if c != nil {
			if c.slot != i || i >= d.chunks.next || i > 0 && c.made < made {
				return fmt.Errorf("chunk %x in slot %d thinks %d, made %d after %d", c.span, i, c.slot, c.made, made)
			}
			made = c.made
			leaf = c.largest
			all = append(all, owned{c.span, "chunk"})
			if err := checkSorted(c.holes); err != nil {
				return fmt.Errorf("holes of %x: %w", c.span, err)
			}
			largest := uint64(0)
			inside := slices.Clone(blocks[c])
			for _, h := range c.holes {
				largest = max(largest, h.size())
				inside = append(inside, h)
			}
			if largest != c.largest {
				return fmt.Errorf("largest hole of %x is %d, noted %d", c.span, largest, c.largest)
			}
			if len(c.holes) == 1 && c.holes[0] == c.span {
				return fmt.Errorf("chunk %x is empty", c.span)
			}
			slices.SortFunc(inside, func(a, b span) int { return cmp.Compare(a.start, b.start) })
			for i, s := range inside {
				if s.start < c.start || s.end > c.end || i > 0 && s.start < inside[i-1].end {
					return fmt.Errorf("blocks and holes of %x: %x", c.span, inside)
				}
			}
			delete(blocks, c)
		}
		if d.chunks.tree[len(d.chunks.slots)+i] != leaf {
			return fmt.Errorf("tree has %d for slot %d, not %d", d.chunks.tree[len(d.chunks.slots)+i], i, leaf)
		}
	}
	if len(blocks) > 0 {
		return fmt.Errorf("%d chunks are gone that have blocks", len(blocks))
	}
	for i := 1; i < len(d.chunks.slots); i++ {
		if t := d.chunks.tree; t[i] != max(t[2*i], t[2*i+1]) {
			return fmt.Errorf("tree: node %d has %d, not the larger of %d and %d", i, t[i], t[2*i], t[2*i+1])
		}
	}
	slices.SortFunc(all, func(a, b owned) int { return cmp.Compare(a.start, b.start) })
	for i := 1; i < len(all); i++ {
		if all[i].start < all[i-1].end {
			return fmt.Errorf("%s %x overlaps %s %x", all[i-1].what, all[i-1].span, all[i].what, all[i].span)
		}
	}
	return nil
}

// checkShared says what is wrong with the blocks that small requests share:
//
//	each is a block of one granule, and allocations and holes cover it, no two holes side by side, not
//	holes alone
func (d *Driver) checkShared() error {
	s := &d.shared
	pieces, blocks := map[uint64]uint32{}, map[uint64]bool{}
	for addr, a := range s.live {
		if p := s.pieces.At(a.piece); s.free(a.piece) || p.Addr != addr || p.Size != int64(roundUp(uint64(a.size), smallUnit)) {
			return fmt.Errorf("allocation of %d at %x is the piece %+v", a.size, addr, *p)
		}
		pieces[addr], blocks[roundDown(addr, Granule)] = a.piece, true
	}
	if s.live == nil {
		return nil
	}
	for h := range s.bySize.All(&s.ages) {
		id := s.piece[h]
		p := s.pieces.At(id)
		if _, taken := pieces[p.Addr]; taken || s.hole[id] != h || p.Size != s.ages.At(h).Size {
			return fmt.Errorf("hole %+v is the piece %+v, which is hole %d", *s.ages.At(h), *p, s.hole[id])
		}
		pieces[p.Addr] = id
	}
	for block := range blocks {
		if b, ok := d.live[block]; !ok || b.size != Granule {
			return fmt.Errorf("shared block %x: %+v", block, b)
		}
		for at, hole := block, false; at < block+Granule; {
			id, ok := pieces[at]
			p := s.pieces.At(id)
			if !ok || s.free(id) && hole {
				return fmt.Errorf("shared block %x at %x: %+v", block, at, *p)
			}
			at, hole = at+uint64(p.Size), s.free(id)
			delete(pieces, p.Addr)
		}
	}
	if len(pieces) > 0 {
		return fmt.Errorf("%d pieces are in no shared block", len(pieces))
	}
	return nil
}

func checkSorted(list []span) error {
	for i, s := range list {
		if s.start >= s.end || i > 0 && s.start <= list[i-1].end {
			return fmt.Errorf("not sorted, merged and filled: %x", list)
		}
	}
	return nil
}
