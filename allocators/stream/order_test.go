package stream

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestOrder holds an order against a sorted slice.
func TestOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var o order
		var want []entry
		compare := func(a, b entry) int {
			return cmp.Or(cmp.Compare(a.n, b.n), cmp.Compare(a.born, b.born))
		}
		spread := rapid.SampledFrom([]int64{3, 100, 1 << 40}).Draw(t, "spread")
		for i := range rapid.IntRange(1, 600).Draw(t, "operations") {
			n := rapid.Int64Range(0, spread).Draw(t, "n")
			switch k := rapid.IntRange(0, 99).Draw(t, "operation"); {
			case k < 60:
				// Spans that keep their age come back with an old number.
				e := entry{n, uint64(i) ^ uint64(rapid.IntRange(0, 1).Draw(t, "old"))<<20, int32(i)}
				o.add(e)
				want = append(want, e)
				slices.SortFunc(want, compare)
			case k < 95 && len(want) > 0:
				at := rapid.IntRange(0, len(want)-1).Draw(t, "which")
				o.remove(want[at].n, want[at].born)
				want = slices.Delete(want, at, at+1)
			case k == 99:
				o.clear()
				want = nil
			}
			var got []entry
			for _, c := range o.chunks {
				if len(c) == 0 || len(c) >= chunkLen {
					t.Fatalf("a chunk of %d entries", len(c))
				}
				got = append(got, c...)
			}
			if !slices.Equal(got, want) {
				t.Fatalf("order has %v, want %v", got, want)
			}
			at, _ := slices.BinarySearchFunc(want, n, func(e entry, n int64) int { return cmp.Compare(e.n, n) })
			e, p, ok := o.ceil(n)
			if ok != (at < len(want)) || ok && (e != want[at] || o.chunks[p.chunk][p.at] != e) {
				t.Fatalf("ceil(%d) is %v %v at %v of %v", n, e, ok, p, want)
			}
			if e, ok := o.last(); ok && e != want[len(want)-1] {
				t.Fatalf("last is %v of %v", e, want)
			}
		}
	})
}
