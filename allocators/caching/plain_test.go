package caching_test

import (
	"cmp"
	"slices"

	"github.com/vramscope/vramscope/allocators"
	"github.com/vramscope/vramscope/allocators/caching"
)

// A plain is the rules of docs/allocators/caching.md written down a second time, with no thought of speed
// and no structure in common with the model: memory is a list of areas, an area a list of parts, every
// search looks at everything, and statistics are counted again after each step (plainstats_test.go). It is
// held against the model on random scripts.
type plain struct {
	cfg        caching.Config
	driver     allocators.Driver
	expandable bool // what the setting is now

	areas   []*area
	clocks  map[shelf]int64  // searches
	waiting []uint32         // numbers of waiting blocks, in the order of their frees
	retired []uint32         // private pools whose owner is gone, in the order in which it went
	lenders []uint32         // pools that help out
	uncut   map[uint32]bool  // pools that cut nothing
	log     []caching.Action // exchanges with the driver
	seen    counts
}

// A shelf is one size class of one pool.
type shelf struct {
	pool  uint32
	small bool
}

// An area is memory that the driver gave at once, or address space that it reserved.
type area struct {
	shelf
	stream uint32
	size   int64
	page   int64 // of reserved address space, 0 for a segment
	parts  []*part
}

// A part is a block or a gap; the parts of an area are in the order of their addresses.
type part struct {
	addr   uint64
	size   int64
	use    use
	number uint32
	asked  int64
	born   int64 // the shelf's clock when it became what it is
}

type use int

const (
	open    use = iota // free
	taken              // handed out
	waiting            // freed, another stream is not done
	gap                // address space without memory
)

// A spot is a part with the area it is in.
type spot struct {
	*area
	*part
}

func (s spot) alone() bool { return len(s.parts) == 1 }

// reach is how long an expandable block can become.
func (s spot) reach() int64 {
	i := slices.Index(s.parts, s.part)
	if i+1 < len(s.parts) && s.parts[i+1].use == gap {
		return s.part.size + s.parts[i+1].size
	}
	return s.part.size
}

func newPlain(d allocators.Driver, cfg caching.Config) *plain {
	return &plain{cfg: cfg, driver: d, expandable: cfg.Expandable, clocks: map[shelf]int64{}, uncut: map[uint32]bool{}}
}

// spots lists the parts of a kind on a shelf in the order of stream, size, address; negative streams are any.
func (m *plain) spots(s shelf, stream int, kind use) []spot {
	var list []spot
	for _, a := range m.areas {
		if a.shelf != s || stream >= 0 && a.stream != uint32(stream) {
			continue
		}
		for _, p := range a.parts {
			if p.use == kind {
				list = append(list, spot{a, p})
			}
		}
	}
	slices.SortFunc(list, func(x, y spot) int {
		return cmp.Or(cmp.Compare(x.stream, y.stream), cmp.Compare(x.part.size, y.part.size), cmp.Compare(x.addr, y.addr))
	})
	return list
}

// round is the size of the block for a request.
func (m *plain) round(n int64) int64 {
	bucket := 0
	for bucket < 15 && n >= 2<<20<<bucket {
		bucket++
	}
	d := int64(m.cfg.Roundup[bucket])
	if d == 1 && m.cfg.LegacyDiv1 && n > 512 {
		return n
	}
	if d > 1 && n > 512*d {
		floor := int64(512)
		for floor*2 <= n {
			floor *= 2
		}
		for z := floor; ; z += floor / d {
			if z >= n {
				return z
			}
		}
	}
	return (n + 511) / 512 * 512
}

// segment is what a classic segment for a block has to be.
func (m *plain) segment(z int64) int64 {
	if z <= 1<<20 {
		return 2 << 20
	}
	if z < 10<<20 {
		return m.cfg.LargeSegmentSize
	}
	return (z + 2<<20 - 1) / (2 << 20) * (2 << 20)
}

func (m *plain) collecting() bool { return m.cfg.Limit >= 0 && m.cfg.GCThreshold > 0 }

// search is best fit.
func (m *plain) search(s shelf, stream uint32, z int64, expandable bool) (spot, bool) {
	if m.collecting() {
		m.clocks[s]++
	}
	list := m.spots(s, int(stream), open)
	for len(list) > 0 && list[0].part.size < z {
		list = list[1:]
	}
	for !expandable && len(list) > 0 && list[0].page > 0 {
		list = list[1:]
	}
	if len(list) == 0 {
		return spot{}, false
	}
	i := 0
	for expandable && list[i].page > 0 && i+1 < len(list) && list[i+1].reach() < list[i].reach() {
		i++
	}
	size := list[i].part.size
	if z < m.cfg.MaxSplitSize && size >= m.cfg.MaxSplitSize || z >= m.cfg.MaxSplitSize && size >= z+m.cfg.MaxNonSplitRounding {
		return spot{}, false
	}
	return list[i], true
}

// malloc serves a request.
func (m *plain) malloc(r allocators.Request) error {
	if r.Size >= 1<<60 {
		return m.fail(r, shelf{r.Pool, false}, r.Size)
	}
	z := m.round(r.Size)
	s := shelf{r.Pool, z <= 1<<20}
	exp := m.expandable
	if at, ok := m.search(s, r.Stream, z, exp); ok {
		m.hand(at, r, z, exp)
		return nil
	}
	tried := m.segment(z)
	if m.cfg.ThrowOnOOM && m.over(tried) {
		return m.fail(r, s, tried)
	}
	if m.collecting() {
		m.collect()
	}
	at, ok := m.get(s, r.Stream, z)
	if !ok && r.Pool == 0 {
		for _, id := range m.lenders {
			if at, ok = m.search(shelf{id, s.small}, r.Stream, z, false); ok {
				exp = false
				break
			}
		}
	}
	if !ok {
		m.seen.notePeak(m)
		if m.makeRoom(s, r.Stream, z) {
			at, ok = m.get(s, r.Stream, z)
		}
	}
	if !ok && r.Pool == 0 {
		m.seen.notePeak(m)
		m.flush()
		m.seen.retries++
		at, ok = m.get(s, r.Stream, z)
	}
	if !ok {
		return m.fail(r, s, tried)
	}
	m.hand(at, r, z, exp)
	return nil
}

func (m *plain) fail(r allocators.Request, s shelf, tried int64) error {
	m.seen.ooms++
	m.seen.notePeak(m)
	e := &allocators.OOM{Requested: r.Size, Tried: tried, Allocated: m.seen.now(allocatedBytes), Reserved: m.seen.now(reservedBytes)}
	if list := m.spots(s, int(r.Stream), open); len(list) > 0 {
		e.LargestFree = list[len(list)-1].part.size
	}
	return e
}

// hand makes a part the caller's.
func (m *plain) hand(at spot, r allocators.Request, z int64, expandable bool) {
	rest := at.part.size - z
	cut := z < m.cfg.MaxSplitSize && rest > 1<<20
	if at.small || expandable {
		cut = rest >= 512
	}
	if cut && !m.uncut[at.pool] {
		at.cut(z).born = m.clocks[at.shelf]
	}
	at.use, at.number, at.asked = taken, r.Block, r.Size
	m.settle()
	m.seen.notePeak(m)
}

// cut leaves the first n bytes in the part and returns the rest, of the same use.
func (s spot) cut(n int64) *part {
	rest := *s.part
	rest.addr += uint64(n)
	rest.size -= n
	s.part.size = n
	i := slices.Index(s.parts, s.part)
	s.parts = slices.Insert(s.parts, i+1, &rest)
	return &rest
}

// join unites neighbours of one use, where that is open or gap, and says which part the given one is in now.
func (m *plain) join(s spot) spot {
	s.born = m.clocks[s.shelf]
	for i := 0; i+1 < len(s.parts); {
		p, q := s.parts[i], s.parts[i+1]
		if p.use != q.use || p.use != open && p.use != gap {
			i++
			continue
		}
		p.size += q.size
		p.born = m.clocks[s.shelf]
		if q == s.part {
			s.part = p
		}
		s.parts = slices.Delete(s.parts, i+1, i+2)
	}
	return s
}

func (m *plain) block(number uint32) (spot, bool) {
	for _, a := range m.areas {
		for _, p := range a.parts {
			if (p.use == taken || p.use == waiting) && p.number == number {
				return spot{a, p}, true
			}
		}
	}
	return spot{}, false
}

func (m *plain) free(number uint32, pending bool) {
	s, ok := m.block(number)
	if !ok || s.use != taken {
		return
	}
	s.use = waiting
	m.waiting = append(m.waiting, number)
	m.settle()
	if !pending {
		m.complete(number)
	}
}

func (m *plain) complete(number uint32) {
	s, ok := m.block(number)
	if !ok || s.use != waiting {
		return
	}
	m.waiting = slices.DeleteFunc(m.waiting, func(n uint32) bool { return n == number })
	s.use = open
	m.join(s)
	m.settle()
}

func (m *plain) did(kind caching.ActionKind, addr uint64, size int64, stream uint32) {
	m.log = append(m.log, caching.Action{Kind: kind, Addr: addr, Size: size, Stream: stream})
	m.settle()
}
