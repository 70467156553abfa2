package caching

import (
	"slices"
	"sort"
)

// pool holds the free memory of one size class of one memory pool.
type pool struct {
	id      uint32
	index   int32 // in Allocator.pools
	small   bool
	kind    Kind
	noSplit bool          // blocks are handed out whole (MemPool(no_split=True))
	free    []*freeSet    // by stream; nil for a stream that never had a free block
	holes   [][]holeEntry // by stream: unmapped parts of expandable segments in the order of addresses
	clock   int64         // searches so far, the time by which garbage ages; runs only if garbage is collected
}

// privately is how much of so many bytes of the pool's is a private pool's.
func (p *pool) privately(n int64) int64 {
	if p.id == 0 {
		return 0
	}
	return n
}

type holeEntry struct {
	addr uint64
	slot int32
}

// pool finds a pool of requests, making it at its first use.
func (a *Allocator) pool(id uint32, small bool) *pool {
	for 2*int(id) >= len(a.pools) {
		n := uint32(len(a.pools) / 2)
		a.pools = append(a.pools,
			&pool{id: n, index: int32(2 * n), kind: LargePool},
			&pool{id: n, index: int32(2*n + 1), small: true, kind: SmallPool})
	}
	if small {
		return a.pools[2*id+1]
	}
	return a.pools[2*id]
}

func (p *pool) set(stream uint32) *freeSet {
	if int(stream) < len(p.free) {
		return p.free[stream]
	}
	return nil
}

func (a *Allocator) newSet(p *pool, stream uint32) *freeSet {
	for int(stream) >= len(p.free) {
		p.free = append(p.free, nil)
	}
	p.free[stream] = &freeSet{top: a.tops.join()}
	if !a.tops.kept && len(a.tops.current) > fewSets {
		a.keepTops()
	}
	return p.free[stream]
}

// addFree puts a block, merged already, among the free ones of its pool.
func (a *Allocator) addFree(p *pool, slot int32) {
	b := &a.blocks[slot]
	b.born = p.clock
	s := p.set(b.stream)
	if s == nil {
		s = a.newSet(p, b.stream)
	}
	s.insert(b.size, b.addr, slot)
	if a.tops.kept && b.size > s.most {
		s.most = b.size
		a.tops.change(s.top, s.most)
	}
	a.cached += a.releasable(b)
}

func (a *Allocator) removeFree(p *pool, b *block) {
	s := p.free[b.stream]
	s.remove(b.size, b.addr)
	a.lowerTop(s, b.size)
	a.cached -= a.releasable(b)
}

// lowerTop notes that a block of so many bytes left a set.
func (a *Allocator) lowerTop(s *freeSet, size int64) {
	if !a.tops.kept || size < s.most {
		return
	}
	if most := s.largest(); most != s.most {
		s.most = most
		a.tops.change(s.top, most)
	}
}

// releasable is how much of a free block a flush would give back: all of it if it is a whole segment, the
// whole pages in it if it is expandable. Neighbours of a block do not come and go while it is free, so
// the figure is the same when it is added and when it is removed.
func (a *Allocator) releasable(b *block) int64 {
	switch {
	case b.expandable():
		return a.reserved[b.segment].pagesIn(b)
	case b.whole():
		return b.size
	}
	return 0
}

// takeFree takes the best fit out of the pool, if there is one that may be used.
func (a *Allocator) takeFree(p *pool, stream uint32, z int64, expandable bool) int32 {
	if a.collects() {
		p.clock++
	}
	s := p.set(stream)
	if s == nil {
		return 0
	}
	at := a.bestFit(s, z, expandable)
	if !at.ok() {
		return 0
	}
	return a.takeAt(s, at)
}

// takeAt takes the block at a position out of a set.
func (a *Allocator) takeAt(s *freeSet, at position) int32 {
	slot := s.at(at).slot
	s.removeAt(at)
	a.lowerTop(s, a.blocks[slot].size)
	a.cached -= a.releasable(&a.blocks[slot])
	return slot
}

// bestFit is the smallest free block of the stream that is large enough, the lowest among equals. Where
// that is expandable memory, a request that may not have any goes on to the first block that is not, and
// any other goes on as long as that improves the sum of the block and the hole behind it, so that the ends
// of segments are left to grow. Only one candidate is considered: if max_split_size_mb refuses it, there
// is none.
func (a *Allocator) bestFit(s *freeSet, z int64, expandable bool) position {
	at := s.atLeast(z)
	if !at.ok() {
		return nowhere
	}
	if a.blocks[s.at(at).slot].expandable() {
		if at = a.skipExpandable(s, at, expandable); !at.ok() {
			return nowhere
		}
	}
	switch size := s.at(at).size; {
	case z < a.cfg.MaxSplitSize && size >= a.cfg.MaxSplitSize:
		return nowhere // oversize blocks are kept for oversize requests
	case z >= a.cfg.MaxSplitSize && size >= z+a.cfg.MaxNonSplitRounding:
		return nowhere // it could not be split, and too much of it would be wasted
	}
	return at
}

// skipExpandable moves on from an expandable candidate, as bestFit says.
func (a *Allocator) skipExpandable(s *freeSet, at position, expandable bool) position {
	if !expandable {
		for at.ok() && a.blocks[s.at(at).slot].expandable() {
			at = s.next(at)
		}
		return at
	}
	effective := func(p position) int64 {
		b := &a.blocks[s.at(p).slot]
		if b.next != 0 && a.blocks[b.next].state == unmapped {
			return b.size + a.blocks[b.next].size
		}
		return b.size
	}
	best := effective(at)
	for a.blocks[s.at(at).slot].expandable() {
		next := s.next(at)
		if !next.ok() {
			break
		}
		e := effective(next)
		if e >= best {
			break
		}
		at, best = next, e
	}
	return at
}

// borrow serves a request of the default pool from the free blocks of a pool that lends them when memory
// runs out (MemPool(use_on_oom=True)). The block stays in that pool. Expandable memory is not lent, and
// blocks are cut by the rules of classic segments, whatever the setting.
func (a *Allocator) borrow(p *pool, stream uint32, z int64) int32 {
	if p.id != 0 {
		return 0
	}
	for _, id := range a.lenders {
		if slot := a.takeFree(a.pool(id, p.small), stream, z, false); slot != 0 {
			return slot
		}
	}
	return 0
}

// findHole is the index of the first hole of a stream at an address or above.
func (p *pool) findHole(stream uint32, addr uint64) int {
	h := p.holes[stream]
	return sort.Search(len(h), func(i int) bool { return h[i].addr >= addr })
}

func (p *pool) addHole(stream uint32, addr uint64, slot int32) {
	for int(stream) >= len(p.holes) {
		p.holes = append(p.holes, nil)
	}
	p.holes[stream] = slices.Insert(p.holes[stream], p.findHole(stream, addr), holeEntry{addr, slot})
}

func (p *pool) removeHole(stream uint32, addr uint64) {
	i := p.findHole(stream, addr)
	p.holes[stream] = slices.Delete(p.holes[stream], i, i+1)
}
