package sim

import (
	"cmp"
	"slices"
)

// hold makes allocations exist that were there before the first call, and reports whether there was any.
//
// How they came to be where they are is not known. A chunk starts at a multiple of ChunkUnit with a
// block at its low end, so a held range lies in the chunk of the one before it if that reaches so far,
// and otherwise starts a chunk of its own. What such chunks do not use above their first block is taken
// to be holes; below it, to be in use by somebody else. The driver works its way down, so lower is newer.
// Between the chunks nothing is known to be free, and below the lowest everything.
//
// A range that overlaps an earlier one, or cannot be, counts as a fault.
func (d *Driver) hold(held []Range) bool {
	held = slices.Clone(held)
	slices.SortStableFunc(held, func(a, b Range) int { return cmp.Compare(a.Addr, b.Addr) })
	type group struct {
		span
		blocks []Range
	}
	var groups []group
	var end uint64 // of the last block
	for _, r := range held {
		if !r.valid() || r.Addr%Granule != 0 || r.Addr < end {
			d.faults++
			continue
		}
		end = r.Addr + roundUp(uint64(r.Size), Granule)
		if n := len(groups); n > 0 && r.Addr < groups[n-1].end {
			g := &groups[n-1]
			g.blocks = append(g.blocks, r)
			g.end = max(g.end, roundUp(end, ChunkUnit))
			continue
		}
		groups = append(groups, group{span{roundDown(r.Addr, ChunkUnit), roundUp(end, ChunkUnit)}, []Range{r}})
	}
	if len(groups) == 0 {
		return false
	}
	if d.policy != Placed {
		for _, g := range groups {
			for _, r := range g.blocks {
				s := d.liveAt(r, nil)
				d.gaps.remove(s)
				d.moveCursor(s)
			}
		}
		return true
	}
	d.openSpace(groups[0].start)
	for _, g := range slices.Backward(groups) {
		c := d.chunks.add(g.span)
		free := []span{{g.blocks[0].Addr, g.end}}
		for _, r := range g.blocks {
			s := d.liveAt(r, c)
			free = subtract(free, s)
			c.high = s.end
		}
		for _, s := range free {
			c.addHole(s)
		}
		d.chunks.update(c)
	}
	return true
}

func (d *Driver) liveAt(r Range, c *chunk) span {
	b := block{r.Size, c}
	d.live[r.Addr] = b
	d.used += b.taken()
	return b.span(r.Addr)
}

// moveCursor keeps a plain policy clear of what is there already.
func (d *Driver) moveCursor(s span) {
	if s.end <= plainBottom {
		return
	}
	switch d.policy {
	case Descending:
		d.cursor = max(min(d.cursor, s.start), plainBottom)
	case Ascending:
		d.cursor = max(d.cursor, s.end)
	}
}

// holdReserved makes reservations exist that were there before the first call.
func (d *Driver) holdReserved(reserved []Range, mapped int64) {
	for _, r := range reserved {
		if !r.valid() || r.Addr%Granule != 0 {
			d.faults++
			continue
		}
		s := span{r.Addr, r.Addr + roundUp(uint64(r.Size), ChunkUnit)}
		if d.reservedIn(s) || d.liveIn(s) || len(d.chunks.overlapping(s)) > 0 {
			d.faults++
			continue
		}
		d.gaps.remove(s)
		d.moveCursor(s)
		d.reserved[r.Addr] = r.Size
	}
	d.mapped = max(mapped, 0)
	d.used += d.mapped
}

// liveIn reports whether an allocation has bytes of a range.
func (d *Driver) liveIn(s span) bool {
	for addr, b := range d.live {
		if s.overlaps(b.span(addr)) {
			return true
		}
	}
	return false
}
