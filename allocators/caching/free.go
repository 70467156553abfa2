package caching

// Free gives a block back; with pending it is not reusable until Complete.
func (a *Allocator) Free(number uint32, pending bool) {
	slot := a.slot(number)
	if slot == 0 || a.blocks[slot].state != live {
		return
	}
	b := &a.blocks[slot]
	p, d := a.pools[b.pool], &a.detail
	k := p.kind
	d.Allocation.down(k, 1)
	d.AllocatedBytes.down(k, b.size)
	if b.size >= a.cfg.MaxSplitSize {
		d.OversizeAllocations.down()
	}
	if pending {
		b.state = pendingFree
		a.pendingRequested += b.requested
		a.pending = append(a.pending, number)
		return
	}
	a.reclaim(p, slot)
}

// Complete makes the memory of a pending block reusable.
func (a *Allocator) Complete(number uint32) {
	slot := a.slot(number)
	if slot == 0 || a.blocks[slot].state != pendingFree {
		return
	}
	for i, n := range a.pending {
		if n == number {
			a.pending = append(a.pending[:i], a.pending[i+1:]...)
			break
		}
	}
	b := &a.blocks[slot]
	a.pendingRequested -= b.requested
	a.reclaim(a.pools[b.pool], slot)
}

// reclaim merges a block that nobody uses with its free neighbours and puts it in its pool.
func (a *Allocator) reclaim(p *pool, slot int32) {
	b := &a.blocks[slot]
	size, requested := b.size, b.requested
	a.slotOf[b.number] = 0
	b.state, b.requested = free, 0
	count, bytes := a.mergeFree(p, slot)
	a.addFree(p, slot)
	if !b.whole() {
		count++
		bytes += b.size
	}
	k, d := p.kind, &a.detail
	if b.segment < 0 {
		d.InactiveSplit.change(k, count)
		d.InactiveSplitBytes.change(k, bytes)
	}
	d.Active.down(k, 1)
	d.ActiveBytes.down(k, size)
	d.RequestedBytes.down(k, requested)
}

// mergeFree takes the free neighbours of a free block that is in no set into it. It returns, as negative
// numbers, how many blocks they were and their bytes.
func (a *Allocator) mergeFree(p *pool, slot int32) (count, bytes int64) {
	for _, neighbour := range [2]int32{a.blocks[slot].prev, a.blocks[slot].next} {
		if neighbour == 0 || a.blocks[neighbour].state != free {
			continue
		}
		n := &a.blocks[neighbour]
		count--
		bytes -= n.size
		a.removeFree(p, n)
		a.absorb(slot, neighbour)
	}
	return count, bytes
}
