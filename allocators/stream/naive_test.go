package stream_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/vramscope/vramscope/allocators/stream"
)

// A naive is the rules of docs/allocators/stream.md written down for one pool with no thought of speed:
// lists are slices, pages a set, every search looks at everything. It is held against the model on random
// operations, and against plain intervals while it runs.
type naive struct {
	opt     stream.Options
	room    int64 // pages that the device has left
	shared  []*hole
	own     map[uint32][]*hole // in the order of their frees
	streams []uint32           // in the order of their first use
	pages   map[int64]bool
	blocks  map[uint32]*hole // live
	streamOf,
	bytes map[uint32]int64
	age int
}

// A hole is the bytes [at, end), free or live.
type hole struct {
	at, end int64
	age     int
}

func (h *hole) size() int64 { return h.end - h.at }

const endless = int64(1) << 44

func newNaive(opt stream.Options, room int64) *naive {
	return &naive{
		opt: opt, room: room, shared: []*hole{{end: endless}},
		own: map[uint32][]*hole{}, pages: map[int64]bool{}, blocks: map[uint32]*hole{},
		streamOf: map[uint32]int64{}, bytes: map[uint32]int64{},
	}
}

func (m *naive) clock() int { m.age++; return m.age }

// join adds a hole to a list, as its newest, together with those that it touches.
func (m *naive) join(list []*hole, h *hole) []*hole {
	list = slices.DeleteFunc(list, func(o *hole) bool {
		if o.end == h.at {
			h.at = o.at
		} else if h.end == o.at {
			h.end = o.end
		} else {
			return false
		}
		return true
	})
	h.age = m.clock()
	return append(list, h)
}

// best is the smallest hole of a list that holds n bytes and passes a test, of equals the oldest.
func best(list []*hole, n int64, pass func(*hole) bool) (b *hole) {
	for _, h := range list {
		if h.size() >= n && pass(h) && (b == nil || h.size() < b.size() || h.size() == b.size() && h.age < b.age) {
			b = h
		}
	}
	return b
}

func whichever(*hole) bool { return true }

// backed says whether a hole has memory throughout.
func (m *naive) backed(h *hole) bool {
	if h.end == endless {
		return false
	}
	return len(m.lacking(h.at, h.end)) == 0
}

func (m *naive) lacking(at, end int64) (pages []int64) {
	for q := at / page; q*page < end; q++ {
		if !m.pages[q] {
			pages = append(pages, q)
		}
	}
	return pages
}

// idle gives the wholly free pages with memory in ascending order, but for those that touch [at, end).
func (m *naive) idle(at, end int64) (pages []int64) {
	for q := range m.pages {
		in := q*page < end && (q+1)*page > at
		for _, h := range m.shared {
			if !in && h.at <= q*page && (q+1)*page <= h.end {
				pages = append(pages, q)
			}
		}
	}
	slices.Sort(pages)
	return pages
}

// flush moves a stream's list to the shared holes, the newest first.
func (m *naive) flush(s uint32) bool {
	list := m.own[s]
	m.own[s] = nil
	for _, h := range slices.Backward(list) {
		m.shared = m.join(m.shared, h)
	}
	return len(list) > 0
}

// carve takes n bytes off the low end of a hole.
func (m *naive) carve(h *hole, n int64) *hole {
	b := &hole{at: h.at, end: h.at + n}
	h.at += n
	h.age = m.clock()
	gone := func(o *hole) bool { return o.size() == 0 }
	m.shared = slices.DeleteFunc(m.shared, gone)
	for s := range m.own {
		m.own[s] = slices.DeleteFunc(m.own[s], gone)
	}
	return b
}

func (m *naive) malloc(s *step) int64 {
	if !slices.Contains(m.streams, s.stream) {
		m.streams = append(m.streams, s.stream)
	}
	b := m.place((s.n+511)/512*512, s.stream)
	if b == nil {
		return -1
	}
	m.blocks[s.block], m.streamOf[s.block], m.bytes[s.block] = b, int64(s.stream), s.n
	return b.at
}

func (m *naive) place(n int64, stream uint32) *hole {
	if h := best(m.own[stream], n, whichever); h != nil {
		return m.carve(h, n)
	}
	if h := best(m.shared, n, m.backed); h != nil {
		return m.carve(h, n)
	}
	if !m.opt.NoOpportunistic {
		if b := m.borrow(n, stream); b != nil {
			return b
		}
		for _, o := range m.streams {
			m.flush(o)
		}
	}
	h := best(m.shared, n, whichever)
	lack := m.lacking(h.at, h.at+n)
	idle := m.idle(h.at, h.at+n)
	for i, q := range lack {
		if k := len(idle) - min(len(lack), len(idle)) + i; k < len(idle) {
			delete(m.pages, idle[k])
		} else if m.room == 0 || m.opt.MaxSize > 0 && int64(len(m.pages)) == (m.opt.MaxSize+page-1)/page {
			if m.opt.NoInternalDependencies {
				return nil
			}
			return m.borrow(n, stream)
		} else {
			m.room--
		}
		m.pages[q] = true
	}
	return m.carve(h, n)
}

func (m *naive) borrow(n int64, stream uint32) *hole {
	for _, o := range m.streams {
		if o != stream {
			if h := best(m.own[o], n, whichever); h != nil {
				return m.carve(h, n)
			}
		}
	}
	return nil
}

func (m *naive) free(block uint32) {
	s := uint32(m.streamOf[block])
	m.own[s] = m.join(m.own[s], m.blocks[block])
	delete(m.blocks, block)
	delete(m.bytes, block)
}

func (m *naive) synchronize(streams ...uint32) {
	some := false
	for _, s := range streams {
		some = m.flush(s) || some
	}
	if some {
		m.trim(m.opt.ReleaseThreshold)
	}
}

func (m *naive) trim(keep int64) {
	for _, q := range slices.Backward(m.idle(0, 0)) {
		if int64(len(m.pages)) <= (keep+page-1)/page {
			break
		}
		delete(m.pages, q)
		m.room++
	}
}

func (m *naive) apply(s *step) int64 {
	switch s.op {
	case 'a':
		return m.malloc(s)
	case 'f':
		m.free(s.block)
	case 't':
		m.trim(s.n)
	case 'S':
		m.synchronize(s.stream)
	case 'D':
		m.synchronize(m.streams...)
	}
	return -1
}

// judge checks what must hold of any pool: free and live bytes tile the range, live ones have memory.
func (m *naive) judge() error {
	var all []*hole
	for _, b := range m.blocks {
		all = append(all, b)
		if !m.backed(b) {
			return fmt.Errorf("live bytes %d to %d lack memory", b.at, b.end)
		}
	}
	all = append(all, m.shared...)
	for _, list := range m.own {
		all = append(all, list...)
	}
	slices.SortFunc(all, func(a, b *hole) int { return int(min(max(a.at-b.at, -1), 1)) })
	end := int64(0)
	for _, h := range all {
		if h.at != end {
			return fmt.Errorf("bytes from %d are covered up to %d", h.at, end)
		}
		end = h.end
	}
	if end != endless {
		return fmt.Errorf("the last hole ends at %d", end)
	}
	return nil
}

func TestAgainstNaive(t *testing.T) { rapid.Check(t, againstNaive) }

func FuzzAgainstNaive(f *testing.F) { f.Fuzz(rapid.MakeFuzz(againstNaive)) }

func againstNaive(t *rapid.T) {
	r := recording{
		opt: stream.Options{
			ReleaseThreshold:       rapid.SampledFrom([]int64{stream.KeepAll - page, 0, 100 << 20}).Draw(t, "threshold"),
			MaxSize:                rapid.SampledFrom([]int64{0, 0, 400<<20 + 1}).Draw(t, "max size"),
			NoOpportunistic:        rapid.IntRange(0, 3).Draw(t, "opportunistic") == 0,
			NoInternalDependencies: rapid.Bool().Draw(t, "no internal"),
		},
		device: rapid.SampledFrom([]int64{1 << 20, 12}).Draw(t, "device"),
	}
	a, m := r.allocator(), newNaive(r.opt, r.device)
	sizes := rapid.SampledFrom([]int64{1, 512, 1000, 3 << 20, 10 << 20, 20<<20 - 1, page, page + 1, 70 << 20, 200 << 20})
	var live []uint32
	for i := range rapid.IntRange(1, 120).Draw(t, "operations") {
		s := step{block: uint32(i), stream: uint32(rapid.IntRange(0, 2).Draw(t, "stream"))}
		switch k := rapid.IntRange(0, 20).Draw(t, "operation"); {
		case k < 10:
			s.op, s.n = 'a', sizes.Draw(t, "size")
		case k < 18 && len(live) > 0:
			at := rapid.IntRange(0, len(live)-1).Draw(t, "which")
			s.op, s.block = 'f', live[at]
			live = slices.Delete(live, at, at+1)
		case k == 18:
			s.op, s.n = 't', int64(rapid.IntRange(0, 300).Draw(t, "keep"))<<20
		case k == 19:
			s.op = 'S'
		default:
			s.op = 'D'
		}
		got, want := apply(a, &s), m.apply(&s)
		if got != want {
			t.Fatalf("operation %d, %c %d of %d bytes: at %d, by the rules at %d", i, s.op, s.block, s.n, got, want)
		}
		if want >= 0 {
			live = append(live, s.block)
		}
		used := int64(0)
		for _, n := range m.bytes {
			used += n
		}
		if reserved := int64(len(m.pages)) * page; a.Stats().Reserved.Current != reserved || a.Used().Current != used {
			t.Fatalf("operation %d: reserved %d used %d, by the rules %d and %d", i, a.Stats().Reserved.Current, a.Used().Current, reserved, used)
		}
		if err := m.judge(); err != nil {
			t.Fatalf("operation %d: %v", i, err)
		}
	}
}
