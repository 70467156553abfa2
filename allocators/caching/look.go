package caching

// What the follower of a recording and reports look at. Nothing here changes the allocator, except
// MallocCached, which looks first.

import (
	"slices"

	"github.com/vramscope/vramscope/allocators"
	"github.com/vramscope/vramscope/allocators/caching/config"
)

// Layout walks all blocks in no particular order.
func (a *Allocator) Layout(f func(Placed)) {
	for i := 1; i < len(a.blocks); i++ {
		b := &a.blocks[i]
		if b.pool < 0 || b.state == unmapped {
			continue
		}
		x := Placed{Addr: b.addr, Size: b.size, Requested: b.requested, Free: b.state == free,
			Pending: b.state == pendingFree, Whole: b.whole(), Expandable: b.expandable(),
			First: b.prev == 0, Pool: a.pools[b.pool].id, Small: a.pools[b.pool].small, Stream: b.stream}
		if x.Free {
			x.Spare, x.SpareSize = a.spare(b)
		} else {
			x.Number = b.number
		}
		f(x)
	}
}

// Placed is a mapped block as Layout shows it.
type Placed struct {
	Addr       uint64
	Size       int64  // bytes
	Requested  int64  // bytes, 0 for a free block
	Number     uint32 // the caller's, of a block in use
	Pool       uint32
	Stream     uint32
	First      bool // begins its segment
	Free       bool
	Pending    bool
	Whole      bool // alone in its segment
	Expandable bool
	Small      bool
	Spare      uint64 // where what a flush would give back of a free block begins
	SpareSize  int64  // bytes of it, 0 if a flush would leave all
}

// spare is what a flush would give back of a free block.
func (a *Allocator) spare(b *block) (addr uint64, size int64) {
	if b.expandable() {
		return a.reserved[b.segment].wholePages(b.addr, b.size)
	}
	return b.addr, a.releasable(b)
}

// Len is the number of blocks, of any state, that looking at all of them means.
func (a *Allocator) Len() int { return len(a.blocks) }

// SmallSize is the largest block in bytes that the small pool serves.
func (a *Allocator) SmallSize() int64 { return config.SmallSize }

// Retired says whether a flush takes a private pool's memory.
func (a *Allocator) Retired(pool uint32) bool { return slices.Contains(a.retired, pool) }

// Fit is the free block in which the pool's search would find room for z bytes, without taking it.
func (a *Allocator) Fit(pool, stream uint32, small bool, z int64) (addr uint64, size int64, ok bool) {
	s := a.pool(pool, small).set(stream)
	if s == nil {
		return 0, 0, false
	}
	at := a.bestFit(s, z, a.cfg.Expandable)
	if !at.ok() {
		return 0, 0, false
	}
	e := s.at(at)
	return e.addr, e.size, true
}

// Cut is what a request of z bytes would get from the cache with expandable segments on or off: where, and how
// much of it.
func (a *Allocator) Cut(pool, stream uint32, small bool, z int64, expandable bool) (addr uint64, size int64, ok bool) {
	p := a.pool(pool, small)
	s := p.set(stream)
	if s == nil {
		return 0, 0, false
	}
	at := a.bestFit(s, z, expandable)
	if !at.ok() {
		return 0, 0, false
	}
	e := s.at(at)
	if a.splits(p, e.size, z, expandable) {
		return e.addr, z, true
	}
	return e.addr, e.size, true
}

// FreeAt is the size of the free block that begins at an address, 0 if there is none.
func (a *Allocator) FreeAt(addr uint64) int64 {
	if slot := a.freeAt(addr); slot != 0 && a.blocks[slot].addr == addr {
		return a.blocks[slot].size
	}
	return 0
}

// LargestFree is the size of the largest free block that a request of so many bytes may have of a pool and stream, be it
// large enough or not; 0 if there is none.
func (a *Allocator) LargestFree(pool, stream uint32, size int64) int64 {
	if 2*int(pool) >= len(a.pools) {
		return 0
	}
	if s := a.pool(pool, a.cfg.RoundSize(size) <= config.SmallSize).set(stream); s != nil {
		return s.largest()
	}
	return 0
}

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

// MallocCached serves a request from the pool's cache if the best fit begins at the given address, and
// otherwise changes nothing: the short way to follow a recording that took no new memory.
func (a *Allocator) MallocCached(r allocators.Request, small bool, addr uint64) bool {
	z := a.roundIn(r.Size, small)
	p := a.pool(r.Pool, small)
	s := p.set(r.Stream)
	if s == nil {
		return false
	}
	at := a.bestFit(s, z, a.cfg.Expandable)
	if !at.ok() || s.at(at).addr != addr {
		return false
	}
	if a.collects() {
		p.clock++
	}
	a.handOut(a.takeAt(s, at), r, z, a.cfg.Expandable)
	return true
}
