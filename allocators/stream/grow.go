package stream

// How an allocation gets the pages that it lacks, and how a pool gives pages back.
//
// Memory is moved to where it is needed from the highest wholly free pages, and only what those cannot
// give is asked of the driver. A page under the allocation cannot be moved away, nor one that the
// allocation shares with what is left of its span.

// take serves n bytes, n a multiple of the granule, for a stream whose list is own. When it cannot, id
// is 0 and asked is how many pages it wanted of the driver; what it got stays in the pool.
func (p *pool) take(n int64, own int32) (id int32, asked int64) {
	if e, at, ok := p.lists[own].fits.ceil(n); ok {
		p.lists[own].fits.removeAt(at)
		return p.cutOut(e.id, n, own), 0
	}
	if e, _, ok := p.whole.ceil(n); ok {
		return p.cut(e.id, n, own), 0
	}
	if p.opportunistic {
		if id := p.lend(n, own); id != 0 {
			return p.cut(id, n, own), 0
		}
		p.flush()
	}
	id = p.findShared(n)
	if id == 0 {
		return 0, (n + pageSize - 1) / pageSize
	}
	born := p.spans[id].born
	from, to := touched(p.spans[id].addr, p.spans[id].addr+n)
	lack := to - from - p.count(from, to)
	id = p.cut(id, n, own)
	moved := p.rob(lack)
	got := p.back(from, to, min(lack, p.most-p.held))
	p.moved += min(moved, got)
	if got == lack {
		return id, 0
	}
	// It stays the hole that it was, with more memory in it, and keeps its age.
	id = p.merge(id, shared)
	p.spans[id].born = born
	p.enter(id, shared)
	return 0, lack - moved
}

// rob takes the memory of the n highest wholly free pages away, or of all there are, and says of how
// many. Their spans stay, as holes, and keep their age.
func (p *pool) rob(n int64) (robbed int64) {
	for robbed < n {
		e, ok := p.roomy.last()
		if !ok {
			break
		}
		s := &p.spans[e.id]
		from, to := within(s.addr, s.addr+s.size)
		p.unindex(s)
		for robbed < n {
			q := p.highest(from, to)
			if q < 0 {
				break
			}
			to = q
			for to > from && q+1-to < n-robbed && p.has(to-1) {
				to--
			}
			p.unmapPages(to, q+1)
			robbed += q + 1 - to
		}
		p.index(s, e.id)
	}
	return robbed
}

// trim gives wholly free pages of the shared spans back, until the pool holds keep bytes or less or has
// none left to give.
func (p *pool) trim(keep int64) {
	if over := p.held*pageSize - max(keep, 0); over > 0 {
		p.rob(over / pageSize)
	}
}

// cached is how many bytes a trim could give back if every stream were synchronised before it: the pages
// without a live or pending byte.
func (p *pool) cached() int64 {
	if p.listed == 0 {
		return p.idle * pageSize
	}
	var n, start int64
	for id := p.first; id != 0; id = p.spans[id].above {
		if s := &p.spans[id]; s.state != free {
			n += p.count(within(start, s.addr))
			start = s.addr + s.size
		}
	}
	return (n + p.count(within(start, p.space))) * pageSize
}

// largest is the largest free range, bytes: one with memory throughout, or all wholly free pages, whose
// memory can be moved behind one range.
func (p *pool) largest() int64 {
	n := max(p.whole.largest(), p.idle*pageSize)
	for i := range p.lists {
		n = max(n, p.lists[i].fits.largest())
	}
	return n
}
