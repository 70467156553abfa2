package caching

import (
	"github.com/vramscope/vramscope/allocators"
	"github.com/vramscope/vramscope/allocators/caching/config"
)

// Malloc serves a request.
func (a *Allocator) Malloc(r allocators.Request) error {
	z := a.cfg.RoundSize(r.Size)
	return a.malloc(r, z, z <= config.SmallSize)
}

// MallocIn serves a request that is known to be of a size class. If that is not the one that its size says,
// only the restoration of a saved graph pool can have made it.
func (a *Allocator) MallocIn(r allocators.Request, small bool) error {
	return a.malloc(r, a.roundIn(r.Size, small), small)
}

// Restore serves a request of the restoration of a saved graph pool, which lays blocks out again by their
// own sizes: nothing is rounded, and it may ask the small pool for more than 1 MiB.
func (a *Allocator) Restore(r allocators.Request, small bool) error {
	return a.malloc(r, (r.Size+minBlock-1)/minBlock*minBlock, small)
}

// Lay restores a block at the beginning of a free one, as PyTorch does it: where the saved block was, without a
// search. It is false, and nothing has changed, if no free block of the pool and stream that is large enough
// begins there.
func (a *Allocator) Lay(r allocators.Request, small bool, addr uint64) bool {
	slot := a.freeAt(addr)
	if slot == 0 {
		return false
	}
	b, p := &a.blocks[slot], a.pool(r.Pool, small)
	if b.addr != addr || b.pool != p.index || b.stream != r.Stream || b.size < r.Size || r.Size <= 0 || r.Size%minBlock != 0 {
		return false
	}
	a.removeFree(p, b)
	a.give(slot, r, r.Size, b.size > r.Size)
	a.notePeak()
	return true
}

// roundIn is the size of the block for a request that is known to be of a size class. If the class is the
// other one than the size says, only a restoration can have made it, and that rounds nothing.
func (a *Allocator) roundIn(size int64, small bool) int64 {
	z := a.cfg.RoundSize(size)
	if small != (z <= config.SmallSize) {
		return size
	}
	return z
}

func (a *Allocator) malloc(r allocators.Request, z int64, small bool) error {
	p := a.pool(r.Pool, small)
	if r.Size >= tooLarge {
		return a.fail(p, r, r.Size)
	}
	slot, expandable := a.takeFree(p, r.Stream, z, a.cfg.Expandable), a.cfg.Expandable
	if slot == 0 {
		if tried := a.cfg.SegmentSize(z); a.cfg.ThrowOnOOM && a.refuses(tried) {
			return a.fail(p, r, tried)
		}
		slot = a.takeNew(p, r.Stream, z)
	}
	if slot == 0 {
		if slot = a.borrow(p, r.Stream, z); slot != 0 {
			expandable = false
		} else if slot = a.takeAfterRelease(p, r.Stream, z); slot == 0 {
			return a.fail(p, r, a.cfg.SegmentSize(z))
		}
	}
	a.handOut(slot, r, z, expandable)
	a.notePeak()
	return nil
}

// takeNew gets memory that the pool does not have, by the steps 4 and 5.
func (a *Allocator) takeNew(p *pool, stream uint32, z int64) int32 {
	if a.collects() {
		a.collectGarbage()
	}
	return a.takeSegment(p, stream, z)
}

// takeAfterRelease makes room first, by the steps 7 and 8. A request of a private pool is made while a
// graph is captured or inside torch.cuda.use_mem_pool, and PyTorch does not flush meanwhile.
func (a *Allocator) takeAfterRelease(p *pool, stream uint32, z int64) int32 {
	a.notePeak()
	if a.cfg.MaxSplitSize != config.Unlimited && a.releaseOversize(p, stream, z) {
		if slot := a.takeSegment(p, stream, z); slot != 0 {
			return slot
		}
		a.notePeak()
	}
	if p.id != 0 {
		return 0
	}
	a.flush()
	a.detail.NumAllocRetries++
	return a.takeSegment(p, stream, z)
}

// takeSegment asks the driver. The limit counts the size of a classic segment also where pages would be
// mapped, whatever part of the request is mapped already.
func (a *Allocator) takeSegment(p *pool, stream uint32, z int64) int32 {
	tried := a.cfg.SegmentSize(z)
	if a.refuses(tried) {
		return 0
	}
	if a.cfg.Expandable {
		return a.takeExpandable(p, stream, z)
	}
	addr, err := a.driver.Alloc(tried)
	if err != nil {
		return 0
	}
	slot := a.newBlock(block{addr: addr, size: tried, pool: p.index, stream: stream, segment: -1})
	d := &a.detail
	d.Segment.up(p.kind, 1)
	d.NumDeviceAlloc++
	if tried >= a.cfg.MaxSplitSize {
		d.OversizeSegments.up()
	}
	a.raiseReserved(p, tried)
	a.acted(SegmentAlloc, addr, tried, stream)
	return slot
}

func (a *Allocator) refuses(tried int64) bool {
	if a.hooks.Refuses != nil {
		return a.hooks.Refuses(tried)
	}
	return a.cfg.Limit >= 0 && a.detail.ReservedBytes[All].Current+tried > a.cfg.Limit
}

func (a *Allocator) raiseReserved(p *pool, n int64) {
	m := &a.detail.ReservedBytes
	peak := m[All].Peak
	m.up(p.kind, n)
	a.private += p.privately(n)
	a.peakRaised = a.peakRaised || m[All].Peak > peak
}

func (a *Allocator) lowerReserved(p *pool, n int64) {
	a.detail.ReservedBytes.down(p.kind, n)
	a.private -= p.privately(n)
}

// notePeak brings AtPeak up to date, if Reserved has a new peak and still is at it.
func (a *Allocator) notePeak() {
	if a.peakRaised {
		a.peakRaised = false
		a.stats.AtPeak = a.Fragmentation()
	}
}

func (a *Allocator) fail(p *pool, r allocators.Request, tried int64) error {
	a.detail.NumOOMs++
	e := &allocators.OOM{
		Requested: r.Size,
		Tried:     tried,
		Allocated: a.detail.AllocatedBytes[All].Current,
		Reserved:  a.detail.ReservedBytes[All].Current,
	}
	if s := p.set(r.Stream); s != nil {
		e.LargestFree = s.largest()
	}
	return e
}

// splits says whether a block is cut for a request, or handed out whole. It is the request that is
// expandable or not: a classic block is cut by the rule of expandable segments once they are switched on.
func (a *Allocator) splits(p *pool, size, z int64, expandable bool) bool {
	switch rest := size - z; {
	case p.noSplit:
		return false
	case p.small || expandable:
		return rest >= minBlock
	default:
		return z < a.cfg.MaxSplitSize && rest > config.SmallSize
	}
}

// handOut makes a block, which is in no free set, the caller's, after cutting off what it does not need.
func (a *Allocator) handOut(slot int32, r allocators.Request, z int64, expandable bool) {
	b := &a.blocks[slot]
	a.give(slot, r, z, a.splits(a.pools[b.pool], b.size, z, expandable))
}

// give makes a block, which is in no free set, the caller's: with split the first z bytes of it.
func (a *Allocator) give(slot int32, r allocators.Request, z int64, split bool) {
	b := &a.blocks[slot]
	p, d := a.pools[b.pool], &a.detail
	classic, wasSplit := b.segment < 0, !b.whole()
	switch {
	case split:
		rest := a.cut(slot, z)
		a.addFree(p, rest)
		if classic && wasSplit {
			d.InactiveSplitBytes.down(p.kind, z)
		} else if classic {
			d.InactiveSplit.up(p.kind, 1)
			d.InactiveSplitBytes.up(p.kind, a.blocks[rest].size)
		}
	case classic && wasSplit:
		d.InactiveSplit.down(p.kind, 1)
		d.InactiveSplitBytes.down(p.kind, b.size)
	}
	a.own(p.kind, slot, r.Block, r.Size)
}

// own marks a block as live.
func (a *Allocator) own(k Kind, slot int32, number uint32, requested int64) {
	b := &a.blocks[slot]
	b.state, b.requested, b.number = live, requested, number
	for int(number) >= len(a.slotOf) {
		a.slotOf = append(a.slotOf, make([]int32, max(1024, len(a.slotOf)))...)
	}
	a.slotOf[number] = slot
	d := &a.detail
	d.Allocation.up(k, 1)
	d.AllocatedBytes.up(k, b.size)
	d.Active.up(k, 1)
	d.ActiveBytes.up(k, b.size)
	d.RequestedBytes.up(k, requested)
	if b.size >= a.cfg.MaxSplitSize {
		d.OversizeAllocations.up()
	}
}
