package caching

// Giving memory back to the driver: garbage collection, the release of oversize blocks, the flush.
// All of it only ever gives back whole free segments, and whole free pages of expandable ones.

// collects says whether garbage is collected at all: a threshold needs a limit to be a share of. A
// follower that does not know the limit decides by itself.
func (a *Allocator) collects() bool {
	return a.cfg.GCThreshold > 0 && (a.cfg.Limit >= 0 || a.hooks.Collects != nil)
}

// collectGarbage releases whole free segments of the default large pool that have not been used for long,
// until reserved memory is under the threshold or nothing more can go. In each pass everything of at least
// the average age goes; age is counted in searches of the pool. Expandable blocks are never released, but
// a free block of one does count for the average if it is alone in its reservation.
func (a *Allocator) collectGarbage() {
	p := a.pool(0, false)
	target := int64(-1)
	if a.cfg.Limit >= 0 {
		threshold := int64(a.cfg.GCThreshold * float64(a.cfg.Limit))
		if target = a.detail.ReservedBytes[All].Current - threshold; target <= 0 {
			return
		}
	}
	var age, n int64
	a.eachFree(p, func(b *block) {
		if b.whole() {
			age += p.clock - b.born
			n++
		}
	})
	for reclaimed := int64(0); n > 0 && (target < 0 || reclaimed < target); {
		pass, size, passAge := a.garbage(p, float64(age)/float64(n))
		if len(pass) == 0 || target < 0 && !a.hooks.Collects(a.actions(pass)) {
			return
		}
		for _, slot := range pass {
			a.releaseSegment(slot)
		}
		reclaimed += size
		age -= passAge
		n -= int64(len(pass))
	}
}

// garbage lists the whole free segments of at least the given age, in the order of the pool.
func (a *Allocator) garbage(p *pool, minAge float64) (slots []int32, size, age int64) {
	for stream := range p.free {
		for _, e := range a.freeOf(p, stream) {
			b := &a.blocks[e.slot]
			if old := p.clock - b.born; b.whole() && !b.expandable() && float64(old) >= minAge {
				slots = append(slots, e.slot)
				size += b.size
				age += old
			}
		}
	}
	return slots, size, age
}

func (a *Allocator) actions(slots []int32) []Action {
	out := make([]Action, len(slots))
	for i, s := range slots {
		b := &a.blocks[s]
		out[i] = Action{SegmentFree, b.addr, b.size, b.stream}
	}
	return out
}

// freeOf lists the free blocks of a stream in order. The list is valid until the next call.
func (a *Allocator) freeOf(p *pool, stream int) []freeEntry {
	if p.free[stream] == nil {
		return nil
	}
	a.scratch = p.free[stream].all(a.scratch[:0])
	return a.scratch
}

func (a *Allocator) eachFree(p *pool, f func(*block)) {
	for stream := range p.free {
		for _, e := range a.freeOf(p, stream) {
			f(&a.blocks[e.slot])
		}
	}
}

// releaseSegment gives a whole free segment back.
func (a *Allocator) releaseSegment(slot int32) {
	b := a.blocks[slot]
	p, d := a.pools[b.pool], &a.detail
	a.removeFree(p, &a.blocks[slot])
	a.driver.Free(b.addr, b.size)
	d.Segment.down(p.kind, 1)
	a.lowerReserved(p, b.size)
	d.NumDeviceFree++
	if b.size >= a.cfg.MaxSplitSize {
		d.OversizeSegments.down()
	}
	a.dropBlock(slot)
	a.acted(SegmentFree, b.addr, b.size, b.stream)
}

// releaseOversize makes room for a request by giving back free blocks of max_split_size and more of its
// pool and stream: one that alone is large enough, or else from the largest down until they are enough
// together. It may release some and still return false. Such blocks are always whole segments, unless
// they are expandable, which are passed over.
func (a *Allocator) releaseOversize(p *pool, stream uint32, z int64) bool {
	s := p.set(stream)
	if s == nil {
		return false
	}
	need := max(z, a.cfg.MaxSplitSize)
	if at := s.atLeast(need); at.ok() && !a.blocks[s.at(at).slot].expandable() {
		a.releaseSegmentOrSkip(s.at(at).slot)
		return true
	} else if !at.ok() {
		at = s.last()
		return a.releaseDown(s, at, need)
	} else {
		return a.releaseDown(s, s.prev(at), need)
	}
}

func (a *Allocator) releaseDown(s *freeSet, at position, need int64) bool {
	var total int64
	for at.ok() && total < need && s.at(at).size >= a.cfg.MaxSplitSize {
		e := s.at(at)
		if b := &a.blocks[e.slot]; !b.expandable() {
			total += b.size
			a.releaseSegmentOrSkip(e.slot)
			// The entries below kept their places, except that a bin may now be empty.
			at = s.below(e.size, e.addr)
		} else {
			at = s.prev(at)
		}
	}
	return total >= need
}

// releaseSegmentOrSkip guards against a state that was adopted from a recording made under other settings.
func (a *Allocator) releaseSegmentOrSkip(slot int32) {
	if a.blocks[slot].whole() {
		a.releaseSegment(slot)
	}
}

// flush waits for the device, completes what is pending, and gives back all whole free segments and pages:
// of the default pools first large, then small, then of the private pools whose owner is gone, each first
// small, then large. PyTorch takes those in the order of a hash table by their ids; here it is the order
// in which they were retired.
func (a *Allocator) flush() {
	a.synchronize(func(*pool) bool { return true })
	a.releasePool(a.pool(0, false))
	a.releasePool(a.pool(0, true))
	for _, id := range a.retired {
		a.releasePool(a.pool(id, true))
		a.releasePool(a.pool(id, false))
	}
}

// synchronize waits for the pending blocks of some pools.
func (a *Allocator) synchronize(of func(*pool) bool) {
	a.detail.NumSyncAllStreams++
	if a.hooks.Synced != nil {
		a.hooks.Synced()
		return
	}
	for i := 0; i < len(a.pending); {
		if n := a.pending[i]; of(a.pools[a.blocks[a.slot(n)].pool]) {
			a.Complete(n) // and it is not in the list any more
		} else {
			i++
		}
	}
}

func (a *Allocator) releasePool(p *pool) {
	var expandable []int32
	for stream := range p.free {
		for _, e := range a.freeOf(p, stream) {
			if b := &a.blocks[e.slot]; b.expandable() {
				expandable = append(expandable, e.slot)
			} else if b.whole() {
				a.releaseSegment(e.slot)
			}
		}
	}
	for _, slot := range expandable {
		a.unmapWholePages(slot)
	}
}

// EmptyCache is torch.cuda.empty_cache().
func (a *Allocator) EmptyCache() { a.flush() }

// Retire says that the owner of a private pool is gone: its graph or MemPool was deleted. From then on a
// flush gives its memory back, too.
func (a *Allocator) Retire(pool uint32) {
	if pool != 0 && !a.Retired(pool) {
		a.retired = append(a.retired, pool)
	}
}

// ReleasePool does what the deletion of a MemPool does: it retires the pool, waits for its pending blocks
// and flushes it alone.
func (a *Allocator) ReleasePool(id uint32) {
	a.Retire(id)
	a.synchronize(func(p *pool) bool { return p.id == id })
	a.releasePool(a.pool(id, true))
	a.releasePool(a.pool(id, false))
}

// Lend marks a private pool as one that serves others when memory runs out (MemPool(use_on_oom=True)).
func (a *Allocator) Lend(pool uint32) {
	a.pool(pool, false)
	a.lenders = append(a.lenders, pool)
}

// KeepWhole marks a private pool as one whose blocks are never split (MemPool(no_split=True)).
func (a *Allocator) KeepWhole(pool uint32) {
	a.pool(pool, false).noSplit = true
	a.pool(pool, true).noSplit = true
}
