package caching

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func compareEntries(a, b freeEntry) int {
	return cmp.Or(cmp.Compare(a.size, b.size), cmp.Compare(a.addr, b.addr))
}

// TestFreeSet holds the set against a sorted slice.
func TestFreeSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, list := new(freeSet), []freeEntry{}
		// Few sizes make long bins, sizes of any magnitude make many.
		sizes := rapid.OneOf(rapid.Int64Range(1, 64).AsAny(), rapid.Int64Range(1, 1<<58).AsAny(), rapid.SampledFrom([]int64{512, 1 << 20, 2 << 20}).AsAny())
		draw := func() int64 { return sizes.Draw(t, "size").(int64) }
		next := int32(1)
		t.Repeat(map[string]func(*rapid.T){
			"insert": func(t *rapid.T) {
				e := freeEntry{size: draw(), addr: rapid.Uint64Range(0, 1<<47).Draw(t, "addr"), slot: next}
				next++
				i, found := slices.BinarySearchFunc(list, e, compareEntries)
				if found {
					return
				}
				list = slices.Insert(list, i, e)
				s.insert(e.size, e.addr, e.slot)
			},
			"remove": func(t *rapid.T) {
				if len(list) == 0 {
					return
				}
				i := rapid.IntRange(0, len(list)-1).Draw(t, "which")
				s.remove(list[i].size, list[i].addr)
				list = slices.Delete(list, i, i+1)
			},
			"atLeast": func(t *rapid.T) {
				n := draw()
				i, _ := slices.BinarySearchFunc(list, freeEntry{size: n}, compareEntries)
				expect(t, s, list, s.atLeast(n), i)
			},
			"below": func(t *rapid.T) {
				e := freeEntry{size: draw(), addr: rapid.Uint64().Draw(t, "addr")}
				i, _ := slices.BinarySearchFunc(list, e, compareEntries)
				expect(t, s, list, s.below(e.size, e.addr), i-1)
			},
			"": func(t *rapid.T) {
				if got := s.all(nil); !slices.Equal(got, list) {
					t.Fatalf("got %v, want %v", got, list)
				}
				i := len(list) - 1
				for at := s.last(); at.ok(); at = s.prev(at) {
					expect(t, s, list, at, i)
					i--
				}
				if i >= 0 {
					t.Fatalf("going back ends before %v", list[:i+1])
				}
			},
		})
	})
}

// A bin that grows long is cut into runs, and goes back to one as it empties: the order stays, whatever comes and goes.
func TestFreeSetOfManyEqualSizes(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	s, list := new(freeSet), []freeEntry{}
	check := func() {
		t.Helper()
		if got := s.all(nil); !slices.Equal(got, list) {
			t.Fatalf("%d entries out of order, or not those that were put in", len(got))
		}
		i := len(list)
		for at := s.last(); at.ok(); at = s.prev(at) {
			if i--; s.at(at) != list[i] {
				t.Fatalf("going back, %v is where %v should be", s.at(at), list[i])
			}
		}
	}
	put := func(e freeEntry) {
		i, found := slices.BinarySearchFunc(list, e, compareEntries)
		if !found {
			list = slices.Insert(list, i, e)
			s.insert(e.size, e.addr, e.slot)
		}
	}
	for round := range 6 {
		for n := range 4 * longestRun {
			addr := random.Uint64N(1 << 40)
			switch round % 3 {
			case 1:
				addr = uint64(n) + 1<<41 // ascending
			case 2:
				addr = 1<<42 - uint64(n) // descending
			}
			put(freeEntry{12 << 20, addr, int32(n)})
		}
		check()
		var c freeSet
		s.copyTo(&c)
		if !slices.Equal(c.all(nil), list) {
			t.Fatal("the copy is another")
		}
		s.copyTo(&c)
		for len(list) > round*100 {
			i := random.IntN(len(list))
			if at := s.below(list[i].size, list[i].addr); (i > 0) != at.ok() || at.ok() && s.at(at) != list[i-1] {
				t.Fatalf("below entry %d", i)
			}
			s.remove(list[i].size, list[i].addr)
			list = slices.Delete(list, i, i+1)
			if len(list) > 0 && s.at(s.atLeast(12<<20)) != list[0] {
				t.Fatal("the first of the size is another")
			}
		}
		check()
	}
}

// expect checks that a position is that of list[i], or none if there is no such element.
func expect(t *rapid.T, s *freeSet, list []freeEntry, at position, i int) {
	t.Helper()
	if i < 0 || i >= len(list) {
		if at.ok() {
			t.Fatalf("got %v, want nothing", s.at(at))
		}
		return
	}
	if !at.ok() || s.at(at) != list[i] {
		t.Fatalf("got %v, want %v", at, list[i])
	}
}

// TestBins: bins must follow each other in the order of sizes, for walking them to be walking the set.
func TestBins(t *testing.T) {
	last := 0
	for _, step := range []struct{ to, by int64 }{{1 << 16, 1}, {1 << 24, 511}, {1 << 34, 1 << 18}, {1 << 60, 1 << 49}} {
		for size := step.to >> 10; size < step.to; size += step.by {
			b := binOf(size)
			if size > 1 && b < binOf(size-1) || b < 0 || b >= bitmapWords*64 {
				t.Fatalf("a size of %d is in bin %d, one byte less in bin %d", size, b, binOf(size-1))
			}
			last = max(last, b)
		}
	}
	if b := binOf(math.MaxInt64); b != bitmapWords*64-1 {
		t.Errorf("the largest size is in bin %d", b)
	}
	for _, c := range []struct {
		size int64
		bin  int
	}{{1, 0}, {511, 0}, {512, 1}, {1023, 1}, {7680, 15}, {8191, 15}, {8192, 16}, {9215, 16}, {9216, 17}, {16383, 23}, {16384, 24}} {
		if got := binOf(c.size); got != c.bin {
			t.Errorf("%d is in bin %d, want %d", c.size, got, c.bin)
		}
	}
}
