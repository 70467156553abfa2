package stream

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/vramscope/vramscope/allocators"
)

// TestPages holds the bits of a pool's pages against a set.
func TestPages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := pages{driver: &boundless{}, stats: &allocators.Stats{}}
		set := map[int64]bool{}
		const most = 200
		for range rapid.IntRange(1, 40).Draw(t, "operations") {
			from := rapid.Int64Range(0, most).Draw(t, "from")
			to := rapid.Int64Range(from, most).Draw(t, "to")
			if rapid.Bool().Draw(t, "give") {
				n := rapid.Int64Range(0, most).Draw(t, "n")
				left := n
				for q := from; q < to && left > 0; q++ {
					if !set[q] {
						set[q] = true
						left--
					}
				}
				if got := p.back(from, to, n); got != n-left {
					t.Fatalf("%d of the pages %d to %d got memory, want %d", got, from, to, n-left)
				}
			} else if end := p.next(from, to, false); end > from {
				p.unmapPages(from, end)
				for q := from; q < end; q++ {
					delete(set, q)
				}
			}
			from = rapid.Int64Range(0, most).Draw(t, "look from")
			to = rapid.Int64Range(from, most+100).Draw(t, "look to")
			count, first, hole, last := int64(0), to, to, int64(-1)
			for q := to - 1; q >= from; q-- {
				if set[q] {
					count, first, last = count+1, q, max(last, q)
				} else {
					hole = q
				}
			}
			if got := p.count(from, to); got != count {
				t.Fatalf("%d of the pages %d to %d have memory, want %d", got, from, to, count)
			}
			if a, b, c := p.next(from, to, true), p.next(from, to, false), p.highest(from, to); a != first || b != hole || c != last {
				t.Fatalf("of the pages %d to %d the first with memory is %d, without %d, the last with memory %d; want %d, %d, %d",
					from, to, a, b, c, first, hole, last)
			}
			if p.held != int64(len(set)) || p.stats.Reserved.Current != p.held*pageSize {
				t.Fatalf("%d pages and %d bytes held, want %d pages", p.held, p.stats.Reserved.Current, len(set))
			}
		}
	})
}
