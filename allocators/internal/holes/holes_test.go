package holes

import (
	"cmp"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// A span is a free range, as the slices have it that sets are held against.
type span struct {
	Size int64
	Addr uint64
}

// TestByAddr runs random operations against a plain sorted slice.
func TestByAddr(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h ByAddr
		var free []span // the twin
		put := func(addr uint64, size int64) {
			free = append(free, span{Addr: addr, Size: size})
			slices.SortFunc(free, func(a, b span) int { return cmp.Compare(a.Addr, b.Addr) })
			for i := 0; i+1 < len(free); {
				if free[i].Addr+uint64(free[i].Size) == free[i+1].Addr {
					free[i].Size += free[i+1].Size
					free = slices.Delete(free, i+1, i+2)
				} else {
					i++
				}
			}
			h.Put(addr, size)
		}
		seed := rapid.Uint64().Draw(t, "seed")
		biggest := rapid.SampledFrom([]int64{2000, 40000, 1 << 20}).Draw(t, "largest request")
		random := func(n int64) int64 {
			seed = seed*6364136223846793005 + 1442695040888963407
			return int64(seed>>33) % n
		}
		for range rapid.IntRange(0, 3000).Draw(t, "n") {
			addr := uint64(random(1024)) * 4096
			i := slices.IndexFunc(free, func(h span) bool { return h.Addr < addr+4096 && addr < h.Addr+uint64(h.Size) })
			if i < 0 {
				put(addr, 4096)
			}
			if random(3) > 0 {
				continue
			}
			size := random(biggest) + 1
			from := uint64(random(1<<22) * random(2))
			want := slices.IndexFunc(free, func(h span) bool { return h.Addr >= from && h.Size >= size })
			at, ok := h.Find(size, from)
			if ok != (want >= 0) {
				t.Fatalf("find %d from %d: %v, want hole %d of %v", size, from, ok, want, free)
			}
			if ok {
				if got := h.Take(at, size); got != free[want].Addr {
					t.Fatalf("took %d, want %d", got, free[want].Addr)
				}
				free[want].Addr += uint64(size)
				free[want].Size -= size
				if free[want].Size == 0 {
					free = slices.Delete(free, want, want+1)
				}
			}
			if random(3) == 0 && len(free) > 0 {
				f := &free[random(int64(len(free)))]
				at, n := f.Addr+uint64(random(f.Size)), random(f.Size)+1
				fits := at+uint64(n) <= f.Addr+uint64(f.Size)
				if got := h.TakeAt(at, n); got != fits {
					t.Fatalf("take %d+%d out of %+v: %v", at, n, *f, got)
				}
				if fits {
					rest := span{Addr: at + uint64(n), Size: int64(f.Addr) + f.Size - int64(at) - n}
					f.Size = int64(at - f.Addr)
					free = append(free, rest)
					slices.SortFunc(free, func(a, b span) int { return cmp.Compare(a.Addr, b.Addr) })
					free = slices.DeleteFunc(free, func(h span) bool { return h.Size == 0 })
				}
			}
			if random(50) == 0 && len(free) > 0 {
				last := free[len(free)-1]
				if a, s := h.Last(); a != last.Addr || s != last.Size {
					t.Fatalf("last is %d+%d, want %+v", a, s, last)
				}
				h.DropLast()
				free = free[:len(free)-1]
			}
		}
		var got []span
		for c, k := range h.chunks {
			if k.n == 0 || h.first[c] != k.holes[0].addr {
				t.Fatalf("chunk %d: %d holes, first %d", c, k.n, h.first[c])
			}
			for i := range k.n {
				if k.holes[i].size > h.limit[c] {
					t.Fatalf("chunk %d: a hole of %d above the limit of %d", c, k.holes[i].size, h.limit[c])
				}
				got = append(got, span{Addr: k.holes[i].addr, Size: k.holes[i].size})
			}
		}
		if diff := gocmp.Diff(free, got); diff != "" && len(free)+len(got) > 0 {
			t.Fatal(diff)
		}
		var largest int64
		for _, f := range free {
			largest = max(largest, f.Size)
		}
		if h.Largest() != largest {
			t.Fatalf("largest %d, want %d", h.Largest(), largest)
		}
	})
}

// TestBySize runs random operations against a plain sorted slice. Few different sizes make long rings, and
// trees of them.
func TestBySize(t *testing.T) {
	order := func(a, b span) int { return cmp.Or(cmp.Compare(a.Size, b.Size), cmp.Compare(a.Addr, b.Addr)) }
	trees := 0
	rapid.Check(t, func(t *rapid.T) {
		c := NewChain()
		s := NewBySize(&c)
		var all []span
		ids := map[span]uint32{}
		spread := rapid.SampledFrom([]int64{20, 300, 3000, 1 << 30, 1 << 62}).Draw(t, "spread")
		n := rapid.SampledFrom([]int{10, 100, 1000, 3000}).Draw(t, "n")
		seed := rapid.Uint64().Draw(t, "seed")
		at := func(id uint32) span { return span{Size: c.At(id).Size, Addr: c.At(id).Addr} }
		forget := func(h span) {
			c.Drop(ids[h])
			delete(ids, h)
		}
		for k := range n {
			seed = seed*6364136223846793005 + 1442695040888963407
			r := seed >> 1
			h := span{Size: int64(r)%spread + 1, Addr: seed >> 40 << 10}
			grow := uint64(7)
			if k > n/2 {
				grow = 1 // the second half takes most of it away again
			}
			switch r >>= 20; {
			case r%8 < grow:
				if i, found := slices.BinarySearchFunc(all, h, order); !found {
					all = slices.Insert(all, i, h)
					ids[h] = c.Append(None, h.Addr, h.Size)
					s.Insert(&c, ids[h])
				}
			case r%16 < 15 && len(all) > 0:
				i := int(seed>>33) % len(all)
				s.Remove(&c, ids[all[i]])
				if c.At(ids[all[i]]).Free() {
					t.Fatalf("%+v was removed and is free", all[i])
				}
				forget(all[i])
				all = slices.Delete(all, i, i+1)
			default:
				i, _ := slices.BinarySearchFunc(all, span{Size: h.Size}, order)
				id := s.AtLeast(&c, h.Size)
				if (id != None) != (i < len(all)) || id != None && at(id) != all[i] {
					t.Fatalf("at least %d: %+v", h.Size, at(id))
				}
				if took := s.Take(&c, h.Size); took != id {
					t.Fatalf("took %+v, not %+v", at(took), at(id))
				}
				if id != None {
					forget(all[i])
					all = slices.Delete(all, i, i+1)
				}
			}
			largest := int64(0)
			if len(all) > 0 {
				largest = all[len(all)-1].Size
			}
			if s.Largest(&c) != largest {
				t.Fatalf("largest %d; want %d", s.Largest(&c), largest)
			}
			trees = max(trees, s.trees)
		}
		var got []span
		for id := range s.All(&c) {
			got = append(got, at(id))
		}
		if !slices.Equal(got, all) {
			t.Fatalf("got %v\nwant %v", got, all)
		}
	})
	if trees == 0 {
		t.Error("no ring became a tree")
	}
}
