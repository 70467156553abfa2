package sim

import (
	"cmp"
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/vramscope/vramscope/allocators"
)

// naive is the rules once more, written for plainness: nothing is kept but what is in use. Holes and
// gaps are worked out anew for each request.
type naive struct {
	capacity, used int64
	base           uint64
	chunks         []naiveChunk // oldest first
	reserved       []span
	blocks         map[uint64]int64
	shared         map[uint64][]span // allocations in each block that small requests share
	since          map[span]int      // when a hole in one of those got its extent
	now            int
}

type naiveChunk struct {
	span
	inUse []span // of anybody, in any order
}

func newNaive(capacity int64, base uint64) *naive {
	return &naive{capacity: capacity, base: base, blocks: map[uint64]int64{}, shared: map[uint64][]span{}, since: map[span]int{}, chunks: []naiveChunk{
		{span{base, base + 32*mib}, []span{{base, base + 8*mib}}},
		{span{base - 64*mib, base}, []span{{base - 64*mib, base}}},
		{span{base - 480*mib, base - 64*mib}, []span{{base - 480*mib, base - 66*mib}}},
	}}
}

// between lists what lies between sorted ranges within another.
func between(within span, used []span) []span {
	slices.SortFunc(used, func(a, b span) int { return cmp.Compare(a.start, b.start) })
	var out []span
	at := within.start
	for _, u := range used {
		if u.start > at {
			out = append(out, span{at, u.start})
		}
		at = max(at, u.end)
	}
	if at < within.end {
		out = append(out, span{at, within.end})
	}
	return out
}

// gaps lists free address space below the layout.
func (n *naive) gaps() []span {
	used := []span{
		{0, 32 * mib}, {0x302000000 - 32*mib, 0x302000000}, {1 << 40, 1<<40 + 64*mib},
	}
	for _, c := range n.chunks {
		used = append(used, c.span)
	}
	used = append(used, n.reserved...)
	return between(span{0, n.base - 480*mib}, used)
}

// sharedHoles lists what is free in the shared blocks, and keeps since when.
func (n *naive) sharedHoles() []span {
	n.now++
	since := map[span]int{}
	var out []span
	for at, inUse := range n.shared {
		for _, h := range between(span{at, at + 2*mib}, slices.Clone(inUse)) {
			out = append(out, h)
			since[h] = n.now
			if t, ok := n.since[h]; ok {
				since[h] = t
			}
		}
	}
	n.since = since
	return out
}

func (n *naive) allocSmall(size int64) (uint64, bool) {
	need := uint64(size+511) / 512 * 512
	var best *span
	for _, h := range n.sharedHoles() {
		if z := h.end - h.start; z >= need &&
			(best == nil || z < best.end-best.start || z == best.end-best.start && n.since[h] < n.since[*best]) {
			best = &h
		}
	}
	if best == nil {
		at, ok := n.alloc(2 * mib)
		if !ok {
			return 0, false
		}
		best = &span{at, at + 2*mib}
		n.shared[at] = nil
	}
	at := best.start &^ (2*mib - 1)
	n.shared[at] = append(n.shared[at], span{best.start, best.start + need})
	n.sharedHoles()
	return best.start, true
}

func (n *naive) freeSmall(addr uint64) {
	at := addr &^ (2*mib - 1)
	n.shared[at] = slices.DeleteFunc(n.shared[at], func(s span) bool { return s.start == addr })
	if len(n.shared[at]) == 0 {
		delete(n.shared, at)
		n.free(at)
	}
	n.sharedHoles()
}

func (n *naive) alloc(size int64) (uint64, bool) {
	if size < 2*mib {
		return n.allocSmall(size)
	}
	space := uint64(size+2*mib-1) / (2 * mib) * (2 * mib)
	if n.capacity > 0 && n.used+int64(space) > n.capacity {
		return 0, false
	}
	for i := len(n.chunks) - 1; i >= 0; i-- {
		c := &n.chunks[i]
		var best *span
		for _, h := range between(c.span, slices.Clone(c.inUse)) {
			if h.end-h.start >= space && (best == nil || h.end-h.start < best.end-best.start) {
				best = &h
			}
		}
		if best != nil {
			c.inUse = append(c.inUse, span{best.start, best.start + space})
			n.blocks[best.start] = int64(space)
			n.used += int64(space)
			return best.start, true
		}
	}
	chunk := (space + 32*mib - 1) / (32 * mib) * (32 * mib)
	for _, g := range slices.Backward(n.gaps()) {
		if g.end-g.start < chunk+32*mib-4096 {
			continue
		}
		start := (g.end - chunk) / (32 * mib) * (32 * mib)
		n.chunks = append(n.chunks, naiveChunk{span{start, start + chunk}, []span{{start, start + space}}})
		n.blocks[start] = int64(space)
		n.used += int64(space)
		return start, true
	}
	return 0, false
}

func (n *naive) free(addr uint64) {
	n.used -= n.blocks[addr]
	delete(n.blocks, addr)
	for i := range n.chunks {
		c := &n.chunks[i]
		for j, b := range c.inUse {
			if b.start == addr && addr >= c.start {
				c.inUse = slices.Delete(c.inUse, j, j+1)
				if len(c.inUse) == 0 {
					n.chunks = slices.Delete(n.chunks, i, i+1)
				}
				return
			}
		}
	}
}

func (n *naive) reserve(size int64) uint64 {
	space := uint64(size+32*mib-1) / (32 * mib) * (32 * mib)
	for _, g := range n.gaps() {
		if g.start >= 0x302000000 && g.end-g.start >= space {
			n.reserved = append(n.reserved, span{g.start, g.start + space})
			return g.start
		}
	}
	return 0
}

func (n *naive) release(addr uint64) {
	n.reserved = slices.DeleteFunc(n.reserved, func(s span) bool { return s.start == addr })
}

// TestAgainstNaive holds each address against the plain model's, and the whole state against its
// invariants.
func TestAgainstNaive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity := rapid.SampledFrom([]int64{0, 300 * mib, 4 << 30}).Draw(t, "capacity")
		d := New(Config{Capacity: capacity})
		n := newNaive(capacity, DefaultBase)
		var live, reservations []uint64
		sizes := map[uint64]int64{}
		size := rapid.OneOf(
			rapid.SampledFrom([]int64{2 * mib, 20 * mib}),
			rapid.Map(rapid.Int64Range(1, 80), func(n int64) int64 { return 2 * mib * n }),
			rapid.Int64Range(1, 70*mib),
			rapid.Int64Range(1, 3*mib),
			rapid.SampledFrom([]int64{1, 512, 700 << 10, mib, 2*mib - 1}),
		)
		pick := func(list *[]uint64, label string) (uint64, bool) {
			if len(*list) == 0 {
				return 0, false
			}
			i := rapid.IntRange(0, len(*list)-1).Draw(t, label)
			addr := (*list)[i]
			*list = slices.Delete(*list, i, i+1)
			return addr, true
		}
		steps := rapid.IntRange(1, 200).Draw(t, "steps")
		for range steps {
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			default:
				z := size.Draw(t, "size")
				got, err := d.Alloc(z)
				want, ok := n.alloc(z)
				if ok != (err == nil) || got != want {
					t.Fatalf("alloc of %d: %x, %v; by the plain model %x, %v", z, got, err, want, ok)
				}
				if err != nil {
					if !errors.Is(err, allocators.ErrNoMemory) {
						t.Fatal(err)
					}
					break
				}
				live = append(live, got)
				sizes[got] = z
			case 5, 6, 7, 8:
				if addr, ok := pick(&live, "free"); ok {
					d.Free(addr, sizes[addr])
					if sizes[addr] < 2*mib {
						n.freeSmall(addr)
					} else {
						n.free(addr)
					}
				}
			case 9:
				if addr, ok := pick(&reservations, "release"); ok && rapid.Bool().Draw(t, "really") {
					d.Release(addr, sizes[addr])
					n.release(addr)
					break
				} else if ok {
					reservations = append(reservations, addr)
				}
				z := rapid.Int64Range(1, 400<<30).Draw(t, "reservation")
				got, err := d.Reserve(z)
				if want := n.reserve(z); err != nil || got != want {
					t.Fatalf("reservation of %d: %x, %v; by the plain model %x", z, got, err, want)
				}
				reservations = append(reservations, got)
				sizes[got] = z
			}
			if err := d.check(); err != nil {
				t.Fatal(err)
			}
			if d.used != n.used || d.Faults() != 0 {
				t.Fatalf("used %d, by the plain model %d; faults %d", d.used, n.used, d.Faults())
			}
		}
		for _, addr := range live {
			d.Free(addr, sizes[addr])
		}
		for _, addr := range reservations {
			d.Release(addr, sizes[addr])
		}
		fresh := New(Config{})
		if d.used != 0 || !slices.Equal(d.gaps.all(), fresh.gaps.all()) {
			t.Fatalf("after all is freed: %d in use, gaps %x", d.used, d.gaps.all())
		}
	})
}
