package stream

// How memory comes back: frees, waits, synchronisations, trims.

// Free gives a block back. With pending its memory waits for Complete, unless the device has no other.
func (a *Allocator) Free(block uint32, pending bool) {
	id := a.find(block)
	if id == 0 || a.spans[id].state != live {
		return
	}
	s := &a.spans[id]
	p := a.pools[s.pool]
	a.used.Add(-s.want)
	a.stats.Allocated.Add(-s.size)
	if pending {
		s.state = waiting
		a.pendingWant += s.want
		p.link(&p.pending, id)
		return
	}
	a.forget(id)
	p.put(id, s.list)
}

// Complete ends the wait of a pending block.
func (a *Allocator) Complete(block uint32) {
	if id := a.find(block); id != 0 && a.spans[id].state == waiting {
		a.complete(id)
	}
}

// complete puts a pending span into its stream's list and returns the span that it became.
func (a *Allocator) complete(id int32) int32 {
	s := &a.spans[id]
	p := a.pools[s.pool]
	p.unlink(&p.pending, id)
	a.pendingWant -= s.want
	a.forget(id)
	return p.put(id, s.list)
}

func (a *Allocator) forget(id int32) {
	s := &a.spans[id]
	a.stats.Requested.Add(-s.want)
	a.stats.Active.Add(-s.size)
	a.blocks[s.block] = 0
}

// EmptyCache waits for the device and trims every pool to nothing.
func (a *Allocator) EmptyCache() {
	a.Synchronize()
	for _, p := range a.pools {
		p.trim(0)
	}
}

// Synchronize waits for the device: no block is pending after it, the lists of all streams are shared,
// and pools that hold more than the release threshold have given back what they can.
func (a *Allocator) Synchronize() {
	for _, p := range a.pools {
		for p.pending.oldest != 0 {
			a.complete(p.pending.oldest)
		}
		if p.listed > 0 {
			p.flush()
			p.trim(a.opt.ReleaseThreshold)
		}
	}
}

// SynchronizeStream waits for one stream, or for an event that was just recorded on it. Pending blocks
// wait for other streams, and stay.
func (a *Allocator) SynchronizeStream(stream uint32) {
	for _, p := range a.pools {
		if l, ok := p.streams[stream]; ok && p.flushList(l) {
			p.trim(a.opt.ReleaseThreshold)
		}
	}
}

// Trim gives back wholly free pages until a pool holds keep bytes or less. It waits for nothing: what was
// freed since the last synchronisation stays.
func (a *Allocator) Trim(pool uint32, keep int64) {
	if p := a.named[pool]; p != nil {
		p.trim(keep)
	}
}
