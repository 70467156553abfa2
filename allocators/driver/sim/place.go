package sim

// room is where a request would go: into a hole of a chunk, or, with no chunk, to the low end of a new
// one.
type room struct {
	addr  uint64
	chunk *chunk
	hole  int  // index in the chunk's holes
	fresh span // the new chunk
}

// find says where n bytes, a multiple of Granule, would go by the rules. It changes nothing.
func (d *Driver) find(n uint64) (room, bool) {
	if c := d.chunks.newestWith(n); c != nil {
		i := c.smallest(n)
		return room{addr: c.holes[i].start, chunk: c, hole: i}, true
	}
	size := roundUp(n, ChunkUnit)
	g, ok := d.gaps.highest(size + slack)
	if !ok {
		return room{}, false
	}
	start := roundUp(g.end-size-slack, ChunkUnit)
	return room{addr: start, fresh: span{start, start + size}}, true
}

// take occupies what find found, and gives the chunk that it is in.
func (d *Driver) take(r room, n uint64) *chunk {
	c := r.chunk
	if c == nil {
		d.gaps.remove(r.fresh)
		c = d.chunks.add(r.fresh)
		c.addHole(r.fresh)
	}
	c.takeFrom(r.hole, n)
	d.chunks.update(c)
	return c
}

// place finds room for n bytes, a multiple of Granule, under any policy, and takes it.
func (d *Driver) place(n uint64) (addr uint64, c *chunk, ok bool) {
	switch d.policy {
	case Descending:
		if n <= d.cursor-plainBottom {
			d.cursor -= n
			return d.cursor, nil, true
		}
		return d.recycle(n)
	case Ascending:
		if n <= addressLimit-d.cursor {
			d.cursor += n
			return d.cursor - n, nil, true
		}
		return d.recycle(n)
	}
	r, ok := d.find(n)
	if !ok {
		return 0, nil, false
	}
	return r.addr, d.take(r, n), true
}

// recycle serves a plain policy that has come to the end of its addresses from what was freed.
func (d *Driver) recycle(n uint64) (uint64, *chunk, bool) {
	g, ok := d.gaps.highest(n)
	if !ok || g.end <= plainBottom {
		return 0, nil, false
	}
	d.gaps.remove(span{g.end - n, g.end})
	return g.end - n, nil, true
}

// release turns a block of a chunk into a hole.
func (d *Driver) release(c *chunk, s span) {
	c.addHole(s)
	d.settle(c)
}

// settle takes note of changed holes, and gives a chunk back that is nothing else.
func (d *Driver) settle(c *chunk) {
	if len(c.holes) == 1 && c.holes[0] == c.span {
		d.chunks.remove(c)
		d.gaps.add(c.span)
		return
	}
	d.chunks.update(c)
}
