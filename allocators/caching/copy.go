package caching

// Copying an allocator, so that something can be tried and undone. The copy takes over memory that its
// target has already, because a follower copies at every request that it has to explain.

import "math/bits"

// CopyTo makes c an independent copy, over the same driver and with the same hooks. What c had is overwritten
// and its memory used again; it may be new(Allocator).
func (a *Allocator) CopyTo(c *Allocator) {
	old := *c
	*c = *a
	c.blocks = append(old.blocks[:0], a.blocks...)
	c.idle = append(old.idle[:0], a.idle...)
	c.slotOf = append(old.slotOf[:0], a.slotOf...)
	c.reserved = append(old.reserved[:0], a.reserved...)
	c.pending = append(old.pending[:0], a.pending...)
	c.lenders = append(old.lenders[:0], a.lenders...)
	c.retired = append(old.retired[:0], a.retired...)
	c.scratch = old.scratch[:0]
	c.tops = tops{a.tops.kept, append(old.tops.heap[:0], a.tops.heap...), append(old.tops.current[:0], a.tops.current...)}
	c.pools = old.pools[:min(len(old.pools), len(a.pools))]
	for i, p := range a.pools {
		if i == len(c.pools) {
			c.pools = append(c.pools, new(pool))
		}
		p.copyTo(c.pools[i])
	}
}

func (p *pool) copyTo(c *pool) {
	old := *c
	*c = *p
	c.free = old.free[:min(len(old.free), len(p.free))]
	for i, s := range p.free {
		if i == len(c.free) {
			c.free = append(c.free, nil)
		}
		switch {
		case s == nil:
			c.free[i] = nil
		case c.free[i] == nil:
			c.free[i] = new(freeSet)
			fallthrough
		default:
			s.copyTo(c.free[i])
		}
	}
	c.holes = old.holes[:min(len(old.holes), len(p.holes))]
	for i, h := range p.holes {
		if i == len(c.holes) {
			c.holes = append(c.holes, nil)
		}
		c.holes[i] = append(c.holes[i][:0], h...)
	}
}

func (s *freeSet) copyTo(c *freeSet) {
	for w := range s.used {
		for m := s.used[w] | c.used[w]; m != 0; m &= m - 1 {
			b := w<<6 + bits.TrailingZeros64(m)
			s.bin(b).copyTo(c.binFor(b))
		}
	}
	c.used, c.most, c.top = s.used, s.most, s.top
}

// copyTo copies a bin, which may be nil.
func (b *sizeBin) copyTo(c *sizeBin) {
	if b == nil {
		c.first, c.more = c.first[:0], nil
		return
	}
	c.first = append(c.first[:0], b.first...)
	var old, more [][]freeEntry
	if c.more != nil {
		old, more = *c.more, (*c.more)[:0]
	}
	for k := range b.runs() {
		var spare []freeEntry
		if k < len(old) {
			spare = old[k][:0]
		}
		more = append(more, append(spare, b.run(k+1)...))
	}
	c.setMore(more)
}
