package caching

// Expandable segments.
//
// A reservation is address space of nine eighths of the device's memory, for one pool and one stream. It
// is one list of blocks like any segment; what is not mapped is a hole, a block of state unmapped. Memory
// comes and goes in pages: 2 MiB in small pools, the size of a large segment (20 MiB) in large ones, counted
// from the base of the reservation. Blocks do not care about pages, except that
//
//   - what is mapped for a request is the whole pages that it still needs, which become one free block
//     with the free memory in front of and behind them;
//   - what is given back is the whole pages inside a free block; the ends stay as free blocks.
//
// A request may find all it needs mapped already although the search of the pool refused it: then it is
// served without asking the driver.

import (
	"github.com/vramscope/vramscope/allocators/caching/config"
)

const unknownDevice = 256 << 30 // bytes, when nobody knows the size of the device

// reservation is the address space of an expandable segment.
type reservation struct {
	base uint64
	size int64
	page int64
}

// wholePages is the part of [addr, addr+size) that consists of whole pages.
func (r *reservation) wholePages(addr uint64, size int64) (uint64, int64) {
	page := uint64(r.page)
	lo := (addr - r.base + page - 1) / page * page
	hi := (addr - r.base + uint64(size)) / page * page
	if lo >= hi {
		return 0, 0
	}
	return r.base + lo, int64(hi - lo)
}

// pagesIn is the bytes of whole pages in a block.
func (r *reservation) pagesIn(b *block) int64 {
	if b.size < r.page {
		return 0 // as in most cases, and without a division
	}
	_, size := r.wholePages(b.addr, b.size)
	return size
}

// takeExpandable finds or makes a run of mapped free memory of at least z bytes and takes it out of the
// pool. When the driver fails half-way, what was mapped stays, as free memory; so does a reservation of
// which nothing could be mapped.
func (a *Allocator) takeExpandable(p *pool, stream uint32, z int64) int32 {
	slot := a.findRun(p, stream, z)
	if slot == 0 {
		if slot = a.reserve(p, stream, z); slot == 0 {
			return 0
		}
	}
	if b := &a.blocks[slot]; b.state == unmapped && !a.mapHole(slot, min(b.size, z)) {
		return 0
	}
	for a.blocks[slot].size < z {
		hole := a.blocks[slot].next
		if hole == 0 || !a.mapHole(hole, min(z-a.blocks[slot].size, a.blocks[hole].size)) {
			return 0
		}
		slot = hole
	}
	a.removeFree(p, &a.blocks[slot])
	return slot
}

// findRun looks for consecutive free memory, mapped or not, of z bytes: at each hole of the stream from the
// lowest up, starting with the free block in front of it if there is one.
func (a *Allocator) findRun(p *pool, stream uint32, z int64) int32 {
	if int(stream) >= len(p.holes) {
		return 0
	}
	for _, h := range p.holes[stream] {
		start := h.slot
		if prev := a.blocks[start].prev; prev != 0 && a.available(prev) {
			start = prev
		}
		var sum int64
		for slot := start; slot != 0 && a.available(slot); slot = a.blocks[slot].next {
			if sum += a.blocks[slot].size; sum >= z {
				return start
			}
		}
	}
	return 0
}

func (a *Allocator) available(slot int32) bool {
	s := a.blocks[slot].state
	return s == free || s == unmapped
}

// reserve makes a new expandable segment, one hole of at least z bytes.
func (a *Allocator) reserve(p *pool, stream uint32, z int64) int32 {
	page := a.PageOf(p.small)
	size := a.ReservationSize(p.small)
	if size < z {
		return 0
	}
	base, err := a.driver.Reserve(size)
	if err != nil {
		return 0
	}
	a.reserved = append(a.reserved, reservation{base: base, size: size, page: page})
	slot := a.newBlock(block{
		addr: base, size: size, pool: p.index, stream: stream, state: unmapped, segment: int32(len(a.reserved) - 1),
	})
	p.addHole(stream, base, slot)
	return slot
}

// PageOf is the page size of a pool's expandable segments in bytes.
func (a *Allocator) PageOf(small bool) int64 {
	if small {
		return config.SmallSegment
	}
	return a.cfg.LargeSegmentSize
}

// ReservationSize is the address space in bytes that a new expandable segment of a size class takes: nine
// eighths of the device, or less if a setting says so, in whole pages.
func (a *Allocator) ReservationSize(small bool) int64 {
	total := a.cfg.DeviceTotal
	if total <= 0 {
		if _, total = a.driver.Memory(); total <= 0 {
			total = unknownDevice
		}
	}
	size := total + total/8
	if a.cfg.ReserveBytes > 0 {
		size = min(size, a.cfg.ReserveBytes)
	} else if a.cfg.ReserveFraction > 0 {
		size = int64(min(float64(size), a.cfg.ReserveFraction*float64(total)))
	}
	page := a.PageOf(small)
	return max(size+page-1, page) / page * page
}

// mapHole maps the first n bytes of a hole, in whole pages, and merges them with free neighbours. The slot
// then is the merged block, which is in its pool's set.
func (a *Allocator) mapHole(slot int32, n int64) bool {
	b := &a.blocks[slot]
	page := a.reserved[b.segment].page
	addr, size := b.addr, min((n+page-1)/page*page, b.size)
	if a.driver.Map(addr, size) != nil {
		return false
	}
	p, stream := a.pools[b.pool], b.stream
	p.removeHole(stream, addr)
	if size < b.size {
		rest := a.cut(slot, size)
		p.addHole(stream, addr+uint64(size), rest)
	}
	a.blocks[slot].state = free
	a.mergeFree(p, slot)
	a.addFree(p, slot)
	a.detail.NumDeviceAlloc++
	a.raiseReserved(p, size)
	a.acted(SegmentMap, addr, size, stream)
	return true
}

// unmapWholePages gives back what a flush gives back of a free expandable block.
func (a *Allocator) unmapWholePages(slot int32) {
	b := &a.blocks[slot]
	if addr, size := a.reserved[b.segment].wholePages(b.addr, b.size); size > 0 {
		a.unmapPages(slot, addr, size)
	}
}

// unmapPages gives back pages inside a free block. A reservation without a mapped page goes.
func (a *Allocator) unmapPages(slot int32, addr uint64, size int64) {
	p := a.pools[a.blocks[slot].pool]
	a.removeFree(p, &a.blocks[slot])
	if front := int64(addr - a.blocks[slot].addr); front > 0 {
		rest := a.cut(slot, front)
		a.addFree(p, slot)
		slot = rest
	}
	if size < a.blocks[slot].size {
		a.addFree(p, a.cut(slot, size))
	}
	b := &a.blocks[slot]
	b.state = unmapped
	stream := b.stream
	for _, neighbour := range [2]int32{b.prev, b.next} {
		if neighbour != 0 && a.blocks[neighbour].state == unmapped {
			p.removeHole(stream, a.blocks[neighbour].addr)
			a.absorb(slot, neighbour)
		}
	}
	p.addHole(stream, b.addr, slot)

	a.driver.Unmap(addr, size)
	a.lowerReserved(p, size)
	a.detail.NumDeviceFree++
	a.acted(SegmentUnmap, addr, size, stream)

	if b.whole() {
		p.removeHole(stream, b.addr)
		r := &a.reserved[b.segment]
		a.driver.Release(r.base, r.size)
		*r = reservation{page: r.page}
		a.dropBlock(slot)
	}
}
