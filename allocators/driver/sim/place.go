package sim

// place finds room for n bytes, a multiple of Granule, and takes it.
func (d *Driver) place(n uint64) (addr uint64, c *chunk, ok bool) {
	switch d.policy {
	case Descending:
		if n <= d.cursor-plainBottom {
			d.cursor -= n
			return d.cursor, nil, true
		}
		return d.recycle(n)
	case Ascending:
		if n <= DefaultBase-d.cursor {
			d.cursor += n
			return d.cursor - n, nil, true
		}
		return d.recycle(n)
	}
	if c = d.chunks.newestWith(n); c != nil {
		addr = c.takeSmallest(n)
		d.chunks.update(c)
		return addr, c, true
	}
	s, ok := d.chunkPlace(n)
	if !ok {
		return 0, nil, false
	}
	d.gaps.remove(s)
	c = d.chunks.add(s)
	if s.end-s.start > n {
		c.addHole(span{s.start + n, s.end})
		d.chunks.update(c)
	}
	return s.start, c, true
}

// chunkPlace is where a new chunk for n bytes would go.
func (d *Driver) chunkPlace(n uint64) (span, bool) {
	size := roundUp(n, ChunkUnit)
	g, ok := d.gaps.highest(size + slack)
	if !ok {
		return span{}, false
	}
	start := roundUp(g.end-size-slack, ChunkUnit)
	return span{start, start + size}, true
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

// release turns a block of a chunk into a hole, and gives the chunk back when that was all of it.
func (d *Driver) release(c *chunk, s span) {
	c.addHole(s)
	if len(c.holes) == 1 && c.holes[0] == c.span {
		d.chunks.remove(c)
		d.gaps.add(c.span)
		return
	}
	d.chunks.update(c)
}

// Tick says that the caller's operation op is about to happen, and lets the events before it take
// place. Operations are whatever the caller counts, in the unit of Config.Events.
func (d *Driver) Tick(op int64) {
	for len(d.events) > 0 && d.events[0].Op <= op {
		d.apply(d.events[0])
		d.events = d.events[1:]
	}
}

// apply makes an event happen as far as the state allows it.
func (d *Driver) apply(e Event) {
	if d.policy != Placed || e.Size <= 0 || uint64(e.Size) > addressLimit {
		return
	}
	size := uint64(e.Size)
	switch e.Kind {
	case TakeBlock:
		d.place(roundUp(size, Granule))
		return
	case TakeMapping:
		if g, ok := d.gaps.highest(size); ok {
			d.gaps.remove(span{g.end - size, g.end})
		}
		return
	}
	if e.Addr > addressLimit-size {
		return
	}
	s := span{roundDown(e.Addr, Granule), roundUp(e.Addr+size, Granule)}
	switch e.Kind {
	case OpenGap:
		d.openRange(s)
	case OpenHole:
		d.openHole(s)
	case TakeRange:
		d.gaps.remove(s)
		for _, c := range d.chunks.overlapping(s) {
			if c.removeHoles(s) {
				d.chunks.update(c)
			}
		}
	}
}

// openRange adds what no chunk, reservation or allocation holds of a range to the gaps.
func (d *Driver) openRange(s span) {
	rest := []span{s}
	for _, c := range d.chunks.overlapping(s) {
		rest = subtract(rest, c.span)
	}
	for addr, size := range d.reserved {
		rest = subtract(rest, span{addr, addr + roundUp(uint64(size), ChunkUnit)})
	}
	for _, r := range rest {
		d.gaps.remove(r)
		d.gaps.add(r)
	}
}

// openHole adds what is neither in use nor a hole of a range to the holes of its chunk.
func (d *Driver) openHole(s span) {
	cs := d.chunks.overlapping(s)
	if len(cs) == 0 {
		around := span{roundDown(s.start, ChunkUnit), roundUp(s.end, ChunkUnit)}
		if around == s || len(d.chunks.overlapping(around)) > 0 {
			return // nothing would keep the chunk, or it is not one chunk
		}
		d.gaps.remove(around)
		c := d.chunks.add(around)
		c.addHole(s)
		d.chunks.update(c)
		return
	}
	for _, c := range cs {
		rest := []span{{max(s.start, c.start), min(s.end, c.end)}}
		for _, h := range c.holes {
			rest = subtract(rest, h)
		}
		for addr, b := range d.live {
			if b.chunk == c {
				rest = subtract(rest, span{addr, addr + roundUp(uint64(b.size), Granule)})
			}
		}
		for _, r := range rest {
			c.addHole(r)
		}
		if len(c.holes) == 1 && c.holes[0] == c.span {
			d.chunks.remove(c)
			d.gaps.add(c.span)
			continue
		}
		d.chunks.update(c)
	}
}
