package caching_test

import (
	"slices"

	"github.com/vramscope/vramscope/allocators/caching"
)

// The part of the plain model that deals with the driver: getting memory, giving it back.

func (m *plain) over(tried int64) bool {
	return m.cfg.Limit >= 0 && m.seen.now(reservedBytes)+tried > m.cfg.Limit
}

// get asks for memory that is not there yet.
func (m *plain) get(s shelf, stream uint32, z int64) (spot, bool) {
	size := m.segment(z)
	if m.over(size) {
		return spot{}, false
	}
	if m.expandable {
		return m.grow(s, stream, z)
	}
	addr, err := m.driver.Alloc(size)
	if err != nil {
		return spot{}, false
	}
	a := &area{shelf: s, stream: stream, size: size, parts: []*part{{addr: addr, size: size, born: m.clocks[s]}}}
	m.areas = append(m.areas, a)
	m.seen.deviceAllocs++
	m.did(caching.SegmentAlloc, addr, size, stream)
	return spot{a, a.parts[0]}, true
}

// grow finds room in reserved address space and maps what is missing in it.
func (m *plain) grow(s shelf, stream uint32, z int64) (spot, bool) {
	at, ok := m.room(s, stream, z)
	if !ok {
		if at, ok = m.reserve(s, stream, z); !ok {
			return spot{}, false
		}
	}
	for {
		if at.use == gap {
			if at, ok = m.back(at, min(at.part.size, z)); !ok {
				return spot{}, false
			}
		}
		if at.part.size >= z {
			return at, true
		}
		missing := z - at.part.size
		next := at.parts[slices.Index(at.parts, at.part)+1]
		if at, ok = m.back(spot{at.area, next}, min(missing, next.size)); !ok {
			return spot{}, false
		}
	}
}

// room looks at each gap, the lowest first, for a run of free parts and gaps that is long enough. A free part
// in front of the gap belongs to the run.
func (m *plain) room(s shelf, stream uint32, z int64) (spot, bool) {
	gaps := m.spots(s, int(stream), gap)
	slices.SortFunc(gaps, func(x, y spot) int {
		if x.addr < y.addr {
			return -1
		}
		return 1
	})
	for _, g := range gaps {
		i := slices.Index(g.parts, g.part)
		if i > 0 && g.parts[i-1].use == open {
			i--
		}
		run := int64(0)
		for _, p := range g.parts[i:] {
			if p.use != open && p.use != gap {
				break
			}
			run += p.size
		}
		if run >= z {
			return spot{g.area, g.parts[i]}, true
		}
	}
	return spot{}, false
}

func (m *plain) pageOf(s shelf) int64 {
	if s.small {
		return 2 << 20
	}
	return m.cfg.LargeSegmentSize
}

func (m *plain) reserve(s shelf, stream uint32, z int64) (spot, bool) {
	total := m.cfg.DeviceTotal
	if total == 0 {
		_, total = m.driver.Memory()
	}
	if total == 0 {
		total = 256 << 30
	}
	want := total * 9 / 8
	if n := m.cfg.ReserveBytes; n > 0 {
		want = min(want, n)
	} else if f := m.cfg.ReserveFraction; f > 0 {
		want = min(want, int64(f*float64(total)))
	}
	page := m.pageOf(s)
	size := page
	for size < want {
		size += page
	}
	if size < z {
		return spot{}, false
	}
	base, err := m.driver.Reserve(size)
	if err != nil {
		return spot{}, false
	}
	a := &area{shelf: s, stream: stream, size: size, page: page, parts: []*part{{addr: base, size: size, use: gap}}}
	m.areas = append(m.areas, a)
	return spot{a, a.parts[0]}, true
}

// back puts memory behind the pages at the beginning of a gap that n bytes need.
func (m *plain) back(g spot, n int64) (spot, bool) {
	size := min((n+g.page-1)/g.page*g.page, g.part.size)
	addr := g.addr
	if m.driver.Map(addr, size) != nil {
		return spot{}, false
	}
	if size < g.part.size {
		g.cut(size)
	}
	g.use = open
	g = m.join(g)
	m.seen.deviceAllocs++
	m.did(caching.SegmentMap, addr, size, g.stream)
	return g, true
}

// drop gives a whole segment back.
func (m *plain) drop(s spot) {
	m.driver.Free(s.addr, s.part.size)
	m.areas = slices.DeleteFunc(m.areas, func(a *area) bool { return a == s.area })
	m.seen.deviceFrees++
	m.did(caching.SegmentFree, s.addr, s.part.size, s.stream)
}

// pages is what of a free part consists of whole pages.
func (s spot) pages() (addr uint64, size int64) {
	base, page := s.parts[0].addr, uint64(s.page)
	lo := base
	for lo < s.addr {
		lo += page
	}
	hi := lo
	for hi+page <= s.addr+uint64(s.part.size) {
		hi += page
	}
	return lo, int64(hi - lo)
}

// unback takes the memory of the whole pages in a free part away.
func (m *plain) unback(s spot) {
	addr, size := s.pages()
	if size == 0 {
		return
	}
	now := m.clocks[s.shelf]
	if front := int64(addr - s.addr); front > 0 {
		s.born = now
		s.part = s.cut(front)
	}
	if size < s.part.size {
		s.cut(size).born = now
	}
	s.use = gap
	s = m.join(s)
	m.driver.Unmap(addr, size)
	m.seen.deviceFrees++
	if s.alone() {
		m.driver.Release(s.addr, s.part.size)
		m.areas = slices.DeleteFunc(m.areas, func(a *area) bool { return a == s.area })
	}
	m.did(caching.SegmentUnmap, addr, size, s.stream)
}

// release gives back what is whole on a shelf: segments first, then pages.
func (m *plain) release(s shelf) {
	list := m.spots(s, -1, open)
	for _, x := range list {
		if x.page == 0 && x.alone() {
			m.drop(x)
		}
	}
	for _, x := range list {
		if x.page > 0 {
			m.unback(x)
		}
	}
}

func (m *plain) finishWaiting(of func(pool uint32) bool) {
	m.seen.syncs++
	for _, n := range slices.Clone(m.waiting) {
		if s, ok := m.block(n); ok && of(s.pool) {
			m.complete(n)
		}
	}
}

func (m *plain) flush() {
	m.finishWaiting(func(uint32) bool { return true })
	m.release(shelf{0, false})
	m.release(shelf{0, true})
	for _, id := range m.retired {
		m.release(shelf{id, true})
		m.release(shelf{id, false})
	}
}

func (m *plain) retire(id uint32) {
	if id != 0 && !slices.Contains(m.retired, id) {
		m.retired = append(m.retired, id)
	}
}

func (m *plain) releasePool(id uint32) {
	m.retire(id)
	m.finishWaiting(func(pool uint32) bool { return pool == id })
	m.release(shelf{id, true})
	m.release(shelf{id, false})
}

// makeRoom gives oversize blocks back for a request, and says whether that may help.
func (m *plain) makeRoom(s shelf, stream uint32, z int64) bool {
	if m.cfg.MaxSplitSize == 1<<63-1 {
		return false
	}
	need := max(z, m.cfg.MaxSplitSize)
	list := m.spots(s, int(stream), open)
	i := 0
	for i < len(list) && list[i].part.size < need {
		i++
	}
	if i < len(list) && list[i].page == 0 {
		m.dropWhole(list[i])
		return true
	}
	// The first that would do is expandable, or nothing would: from there down.
	total := int64(0)
	for i--; i >= 0 && total < need && list[i].part.size >= m.cfg.MaxSplitSize; i-- {
		if list[i].page == 0 {
			total += list[i].part.size
			m.dropWhole(list[i])
		}
	}
	return total >= need
}

// dropWhole is drop, except for a part of a segment, which PyTorch would give to cudaFree.
func (m *plain) dropWhole(s spot) {
	if s.alone() {
		m.drop(s)
	}
}

// collect frees segments that have not been used for long.
func (m *plain) collect() {
	mark := int64(m.cfg.GCThreshold * float64(m.cfg.Limit))
	aim := m.seen.now(reservedBytes) - mark
	s := shelf{0, false}
	for aim > 0 {
		var age, n int64
		var idle []spot
		for _, x := range m.spots(s, -1, open) {
			if x.alone() {
				age += m.clocks[s] - x.born
				n++
				if x.page == 0 {
					idle = append(idle, x)
				}
			}
		}
		before := aim
		for _, x := range idle {
			if (m.clocks[s]-x.born)*n >= age {
				aim -= x.part.size
				m.drop(x)
			}
		}
		if aim == before {
			return
		}
	}
}
