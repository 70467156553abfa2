package caching

// Taking over a state instead of arriving at it: memory that existed before a recording began, and places
// that a recording shows although the model would have chosen others.

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
	a.raiseReserved(p, r.Size)
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
	a.reserved = append(a.reserved, reservation{base: base, size: size, page: a.PageOf(p.small)})
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
		a.raiseReserved(p, r.Size)
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
		if x.Addr < at || x.Addr >= end || x.Size <= 0 {
			continue // overlaps another, lies outside or is nothing: not a state that can have been
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
		a.addFree(p, s)
		if segment < 0 && !b.whole() {
			a.detail.InactiveSplit.up(p.kind, 1)
			a.detail.InactiveSplitBytes.up(p.kind, b.size)
		}
	}
	return tail
}

func (a *Allocator) ownAdopted(slot int32, x Adopted) {
	a.own(a.pools[a.blocks[slot].pool].kind, slot, x.Number, x.Requested)
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
	p := a.pools[a.blocks[slot].pool]
	a.removeFree(p, &a.blocks[slot])
	if b := &a.blocks[slot]; b.segment < 0 && !b.whole() {
		a.detail.InactiveSplit.down(p.kind, 1)
		a.detail.InactiveSplitBytes.down(p.kind, b.size)
	}
	if front := int64(x.Addr - a.blocks[slot].addr); front > 0 {
		back := a.cut(slot, front)
		a.refree(p, slot)
		slot = back
	}
	if size := min(x.Size, a.blocks[slot].size); size > 0 && size < a.blocks[slot].size {
		a.refree(p, a.cut(slot, size))
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
	b, f := &a.blocks[slot], &a.blocks[next]
	p := a.pools[b.pool]
	k, d := p.kind, &a.detail
	a.removeFree(p, &a.blocks[next])
	b.size += n
	f.addr += uint64(n)
	f.size -= n
	a.addFree(p, next)
	if b.segment < 0 {
		d.InactiveSplitBytes.down(k, n)
	}
	d.ActiveBytes.up(k, n)
	if b.state == live {
		d.AllocatedBytes.up(k, n)
		if b.size >= a.cfg.MaxSplitSize && b.size-n < a.cfg.MaxSplitSize {
			d.OversizeAllocations.up()
		}
	}
	return true
}

// refree puts a free block, which is part of a segment, into its set.
func (a *Allocator) refree(p *pool, slot int32) {
	a.addFree(p, slot)
	if b := &a.blocks[slot]; b.segment < 0 {
		a.detail.InactiveSplit.up(p.kind, 1)
		a.detail.InactiveSplitBytes.up(p.kind, b.size)
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
		page, reserved := a.PageOf(small), max(a.ReservationSize(small), size)
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

// Repool moves a classic segment with all that is in it to another memory pool, and lists the blocks in use there.
func (a *Allocator) Repool(addr uint64, size int64, pool uint32) []uint32 {
	var used []uint32
	for i := 1; i < len(a.blocks); i++ {
		b := &a.blocks[i]
		if b.pool < 0 || b.segment >= 0 || b.addr < addr || b.addr >= addr+uint64(size) {
			continue
		}
		from := a.pools[b.pool]
		to := a.pool(pool, from.small)
		a.private += to.privately(b.size) - from.privately(b.size)
		if b.state != free {
			b.pool = to.index
			used = append(used, b.number)
			continue
		}
		a.removeFree(from, b)
		b.pool = to.index
		a.addFree(to, int32(i))
	}
	return used
}

// Relabel moves a whole free segment to another pool, once the recording shows that it belongs there.
func (a *Allocator) Relabel(addr uint64, pool uint32) {
	slot := a.freeAt(addr)
	if slot == 0 || !a.blocks[slot].whole() {
		return
	}
	from := a.pools[a.blocks[slot].pool]
	to := a.pool(pool, from.small)
	size := a.blocks[slot].size
	a.private += to.privately(size) - from.privately(size)
	a.removeFree(from, &a.blocks[slot])
	a.blocks[slot].pool = to.index
	a.addFree(to, slot)
}
