package caching

// Taking over a state instead of arriving at it: memory that existed before a recording began, and places
// that a recording shows although the model would have chosen others.

import (
	"math/bits"
	"slices"

	"github.com/vramscope/vramscope/allocators"
	"github.com/vramscope/vramscope/allocators/caching/config"
)

// Range is memory held from the driver, to be adopted: a classic segment, or a mapped part of an
// expandable one.
type Range struct {
	Addr   uint64
	Size   int64
	Pool   uint32
	Stream uint32
	Small  bool
	Blocks []Adopted // live and pending blocks in the order of addresses; what is between them is free
}

// Adopted is a block that was not asked of the model.
type Adopted struct {
	Number    uint32
	Addr      uint64
	Size      int64 // bytes that it takes
	Requested int64
	Pending   bool
}

// AdoptSegment adds a classic segment.
func (a *Allocator) AdoptSegment(r Range) {
	p := a.pool(r.Pool, r.Small)
	a.detail.Segment.up(p.kind, 1)
	if r.Size >= a.cfg.MaxSplitSize {
		a.detail.OversizeSegments.up()
	}
	a.raiseReserved(p.kind, r.Size)
	a.adoptChain(p, r, -1, 0)
	a.notePeak()
}

// AdoptReservation adds an expandable segment with its mapped ranges, which are in the order of addresses
// and not adjacent; pool, stream and size class are the first range's. Base must be a whole number of pages
// below it.
func (a *Allocator) AdoptReservation(base uint64, size int64, ranges []Range) {
	if len(ranges) == 0 {
		return
	}
	first := ranges[0]
	p := a.pool(first.Pool, first.Small)
	a.reserved = append(a.reserved, reservation{base: base, size: size, page: a.pageSize(p)})
	segment := int32(len(a.reserved) - 1)
	hole := func(tail int32, from, to uint64) int32 {
		if from >= to {
			return tail
		}
		s := a.newBlock(block{addr: from, size: int64(to - from), prev: tail, pool: p.index, stream: first.Stream, segment: segment, state: unmapped})
		if tail != 0 {
			a.blocks[tail].next = s
		}
		p.addHole(first.Stream, from, s)
		return s
	}
	var tail int32
	at := base
	for _, r := range ranges {
		tail = hole(tail, at, r.Addr)
		tail = a.adoptChain(p, r, segment, tail)
		a.reserved[segment].mapped += r.Size
		a.raiseReserved(p.kind, r.Size)
		at = r.Addr + uint64(r.Size)
	}
	hole(tail, at, base+uint64(size))
	a.notePeak()
}

// adoptChain lays out the blocks of a range behind the block tail and returns the last. Free blocks are
// put in their sets once their neighbours are known.
func (a *Allocator) adoptChain(p *pool, r Range, segment, tail int32) int32 {
	var chain []int32
	add := func(b block) {
		b.pool, b.stream, b.segment, b.prev = p.index, r.Stream, segment, tail
		s := a.newBlock(b)
		if tail != 0 {
			a.blocks[tail].next = s
		}
		tail = s
		chain = append(chain, s)
	}
	at, end := r.Addr, r.Addr+uint64(r.Size)
	for _, x := range r.Blocks {
		if x.Addr < at || x.Addr >= end {
			continue // overlaps another, or lies outside: not a state that can have been
		}
		if x.Addr > at {
			add(block{addr: at, size: int64(x.Addr - at)})
		}
		size := min(x.Size, int64(end-x.Addr))
		add(block{addr: x.Addr, size: size, state: live})
		a.ownAdopted(tail, x)
		at = x.Addr + uint64(size)
	}
	if at < end {
		add(block{addr: at, size: int64(end - at)})
	}
	for _, s := range chain {
		b := &a.blocks[s]
		if b.state != free {
			continue
		}
		a.addFree(s)
		if segment < 0 && !b.whole() {
			a.detail.InactiveSplit.up(p.kind, 1)
			a.detail.InactiveSplitBytes.up(p.kind, b.size)
		}
	}
	return tail
}

func (a *Allocator) ownAdopted(slot int32, x Adopted) {
	a.own(slot, x.Number, x.Requested)
	if x.Pending {
		a.Free(x.Number, true)
	}
}

// Adopt makes a live block at an address that the model would not have chosen, out of the free block that
// holds it. It returns false, and changes nothing, where there is no such free block.
func (a *Allocator) Adopt(x Adopted) bool {
	slot := a.freeAt(x.Addr)
	if slot == 0 {
		return false
	}
	a.removeFree(slot)
	if a.blocks[slot].segment < 0 && !a.blocks[slot].whole() {
		a.detail.InactiveSplit.down(a.kind(slot), 1)
		a.detail.InactiveSplitBytes.down(a.kind(slot), a.blocks[slot].size)
	}
	if front := int64(x.Addr - a.blocks[slot].addr); front > 0 {
		back := a.cut(slot, front)
		a.refree(slot)
		slot = back
	}
	if size := min(x.Size, a.blocks[slot].size); size > 0 && size < a.blocks[slot].size {
		a.refree(a.cut(slot, size))
	}
	a.ownAdopted(slot, x)
	return true
}

// Evict frees the live or pending block that holds an address.
func (a *Allocator) Evict(addr uint64) bool {
	for _, state := range []blockState{live, pendingFree} {
		if slot := a.at(addr, state); slot != 0 {
			number := a.blocks[slot].number
			a.Free(number, false)
			a.Complete(number)
			return true
		}
	}
	return false
}

// Len is the number of blocks, of any state, that looking at all of them means.
func (a *Allocator) Len() int { return len(a.blocks) }

// Extend moves the end of a block n bytes up, into the free block behind it, which must be larger.
func (a *Allocator) Extend(number uint32, n int64) bool {
	slot := a.slot(number)
	if slot == 0 {
		return false
	}
	next := a.blocks[slot].next
	if next == 0 || a.blocks[next].state != free || a.blocks[next].size <= n {
		return false
	}
	a.removeFree(next)
	b, f := &a.blocks[slot], &a.blocks[next]
	k, d := a.pools[b.pool].kind, &a.detail
	b.size += n
	f.addr += uint64(n)
	f.size -= n
	a.addFree(next)
	if b.segment < 0 {
		d.InactiveSplitBytes.down(k, n)
	}
	d.ActiveBytes.up(k, n)
	if b.state == live {
		d.AllocatedBytes.up(k, n)
	}
	return true
}

// cut splits a block that is in no set after n bytes and returns the second part, in no set either.
func (a *Allocator) cut(slot int32, n int64) int32 {
	b := a.blocks[slot]
	s := a.newBlock(block{
		addr: b.addr + uint64(n), size: b.size - n, prev: slot, next: b.next,
		pool: b.pool, stream: b.stream, segment: b.segment, state: b.state,
	})
	if b.next != 0 {
		a.blocks[b.next].prev = s
	}
	a.blocks[slot].next = s
	a.blocks[slot].size = n
	return s
}

// refree puts a free block, which is part of a segment, into its set.
func (a *Allocator) refree(slot int32) {
	a.addFree(slot)
	if b := &a.blocks[slot]; b.segment < 0 {
		a.detail.InactiveSplit.up(a.kind(slot), 1)
		a.detail.InactiveSplitBytes.up(a.kind(slot), b.size)
	}
}

// freeAt finds the free block that holds an address, by looking at all: this is for rare use.
func (a *Allocator) freeAt(addr uint64) int32 { return a.at(addr, free) }

func (a *Allocator) at(addr uint64, state blockState) int32 {
	for i := 1; i < len(a.blocks); i++ {
		b := &a.blocks[i]
		if b.pool >= 0 && b.state == state && b.addr <= addr && addr < b.addr+uint64(b.size) {
			return int32(i)
		}
	}
	return 0
}

// AdoptMalloc counts a segment as taken by a request, for a recording that shows one where the model would
// have used its cache.
func (a *Allocator) AdoptMalloc(pool, stream uint32, small bool, addr uint64, size int64) {
	a.AdoptSegment(Range{Addr: addr, Size: size, Pool: pool, Stream: stream, Small: small})
	a.detail.NumDeviceAlloc++
}

// AdoptMap maps pages where a recording shows them although the model would have mapped others. Where it
// knows no reservation it makes one that begins there.
func (a *Allocator) AdoptMap(pool, stream uint32, small bool, addr uint64, size int64) {
	p := a.pool(pool, small)
	slot := a.at(addr, unmapped)
	if slot == 0 {
		page := a.pageSize(p)
		reserved := max(a.reservationSize(page), size)
		a.reserved = append(a.reserved, reservation{base: addr, size: reserved, page: page})
		slot = a.newBlock(block{addr: addr, size: reserved, pool: p.index, stream: stream, state: unmapped, segment: int32(len(a.reserved) - 1)})
		p.addHole(stream, addr, slot)
	}
	if front := int64(addr - a.blocks[slot].addr); front > 0 {
		p := a.pools[a.blocks[slot].pool]
		slot = a.cut(slot, front)
		p.addHole(a.blocks[slot].stream, addr, slot)
	}
	a.mapHole(slot, size)
}

// AdoptUnmap unmaps pages that a recording shows unmapped. It returns false where they are not free here.
func (a *Allocator) AdoptUnmap(addr uint64, size int64) bool {
	slot := a.freeAt(addr)
	if slot == 0 || !a.blocks[slot].expandable() {
		return false
	}
	if b := &a.blocks[slot]; addr+uint64(size) > b.addr+uint64(b.size) {
		return false
	}
	a.unmapPages(slot, addr, size)
	return true
}

// Forget removes a free segment that a recording gave back although the model would not have.
func (a *Allocator) Forget(addr uint64) bool {
	slot := a.freeAt(addr)
	if slot == 0 || !a.blocks[slot].whole() || a.blocks[slot].expandable() || a.blocks[slot].addr != addr {
		return false
	}
	a.releaseSegment(slot)
	return true
}

// Fit is the free block in which the pool's search would find room for z bytes, without taking it.
func (a *Allocator) Fit(pool, stream uint32, small bool, z int64) (addr uint64, size int64, ok bool) {
	slot := a.bestFit(a.pool(pool, small), stream, z, a.cfg.Expandable)
	if slot == 0 {
		return 0, 0, false
	}
	return a.blocks[slot].addr, a.blocks[slot].size, true
}

// Relabel moves a whole free segment to another pool, once the recording shows that it belongs there.
func (a *Allocator) Relabel(addr uint64, pool uint32) {
	slot := a.freeAt(addr)
	if slot == 0 || !a.blocks[slot].whole() {
		return
	}
	from := a.pools[a.blocks[slot].pool]
	to := a.pool(pool, from.small)
	a.removeFree(slot)
	a.blocks[slot].pool = to.index
	a.addFree(slot)
}

// SmallSize is the largest block in bytes that the small pool serves.
func (a *Allocator) SmallSize() int64 { return config.SmallSize }

// Run is where expandable memory for z bytes would begin if no new reservation were made: mapped, or partly
// still to be mapped.
func (a *Allocator) Run(pool, stream uint32, small bool, z int64) (addr uint64, mapped, ok bool) {
	slot := a.findRun(a.pool(pool, small), stream, z)
	if slot == 0 {
		return 0, false, false
	}
	b := &a.blocks[slot]
	return b.addr, b.state == free && b.size >= z, true
}

// PageOf is the page size of a pool's expandable segments in bytes.
func (a *Allocator) PageOf(small bool) int64 {
	if small {
		return config.SmallSegment
	}
	return a.cfg.LargeSegmentSize
}

// Plan lists what flushing one pool's small or large blocks would give back now, in order. Pending blocks
// are not completed first.
func (a *Allocator) Plan(pool uint32, small bool) []Action {
	p := a.pool(pool, small)
	var out, maps []Action
	a.eachFree(p, func(b *block) {
		if b.expandable() {
			if addr, size := a.reserved[b.segment].wholePages(b.addr, b.size); size > 0 {
				maps = append(maps, Action{SegmentUnmap, addr, size, b.stream})
			}
		} else if b.whole() {
			out = append(out, Action{SegmentFree, b.addr, b.size, b.stream})
		}
	})
	return append(out, maps...)
}

// Retired says whether a flush takes a private pool's memory.
func (a *Allocator) Retired(pool uint32) bool { return slices.Contains(a.retired, pool) }

// Layout walks all blocks in no particular order.
func (a *Allocator) Layout(f func(Placed)) {
	for i := 1; i < len(a.blocks); i++ {
		b := &a.blocks[i]
		if b.pool < 0 || b.state == unmapped {
			continue
		}
		f(Placed{Addr: b.addr, Size: b.size, Requested: b.requested, Number: b.number, Free: b.state == free,
			Pending: b.state == pendingFree, Whole: b.whole(), Expandable: b.expandable(),
			First: b.prev == 0, Pool: a.pools[b.pool].id, Small: a.pools[b.pool].small, Stream: b.stream})
	}
}

// Placed is a mapped block as Layout shows it.
type Placed struct {
	Addr       uint64
	Size       int64 // bytes
	Requested  int64 // bytes, 0 for a free block
	Number     uint32
	Pool       uint32
	Stream     uint32
	First      bool // begins its segment
	Free       bool
	Pending    bool
	Whole      bool // alone in its segment
	Expandable bool
	Small      bool
}

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
			c.bins[b] = append(c.bins[b][:0], s.bins[b]...)
		}
	}
	c.used, c.n = s.used, s.n
}

// MallocCached serves a request from the pool's cache if the best fit begins at the given address, and
// otherwise changes nothing: the short way to follow a recording that took no new memory.
func (a *Allocator) MallocCached(r allocators.Request, small bool, addr uint64) bool {
	z := a.cfg.RoundSize(r.Size)
	p := a.pool(r.Pool, small)
	slot := a.bestFit(p, r.Stream, z, a.cfg.Expandable)
	if slot == 0 || a.blocks[slot].addr != addr {
		return false
	}
	if a.collects() {
		p.clock++
	}
	a.removeFree(slot)
	a.handOut(slot, r, z, a.cfg.Expandable)
	return true
}

// ReservationSize is the address space in bytes that a new expandable segment of a size class takes.
func (a *Allocator) ReservationSize(small bool) int64 { return a.reservationSize(a.PageOf(small)) }
