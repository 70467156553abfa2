package arena_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/vramscope/vramscope/allocators"
	"github.com/vramscope/vramscope/allocators/alloctest"
	"github.com/vramscope/vramscope/allocators/arena"
)

// naive is a range in its simplest form: the blocks in the order of their addresses, and at each request a
// look at all gaps between them. Addresses count from the beginning of the range.
type naive struct {
	policy arena.Policy
	limit  int64
	grows  bool
	blocks []gap
	rover  int64
}

type gap struct{ at, size int64 }

// place is where a request goes, -1 if nowhere.
func (n *naive) place(size int64) int64 {
	var gaps []gap
	end := int64(0)
	for _, b := range n.blocks {
		if b.at > end {
			gaps = append(gaps, gap{end, b.at - end})
		}
		end = b.at + b.size
	}
	if !n.grows {
		gaps = append(gaps, gap{end, n.limit - end})
	}
	gaps = slices.DeleteFunc(gaps, func(g gap) bool { return g.size < size })
	above := func(g gap) bool { return g.at >= n.rover || g.at == end } // the tail is, wherever it begins
	switch n.policy {
	case arena.NextFit:
		slices.SortStableFunc(gaps, func(a, b gap) int {
			switch {
			case above(a) == above(b):
				return 0
			case above(a):
				return -1
			}
			return 1
		})
	case arena.BestFit:
		slices.SortStableFunc(gaps, func(a, b gap) int { return cmp.Compare(a.size, b.size) })
	}
	switch {
	case len(gaps) > 0:
		return gaps[0].at
	case n.grows && end+size <= n.limit:
		return end
	}
	return -1
}

func (n *naive) malloc(size int64) int64 {
	at := n.place(size)
	if at >= 0 {
		i, _ := slices.BinarySearchFunc(n.blocks, at, func(b gap, at int64) int { return cmp.Compare(b.at, at) })
		n.blocks = slices.Insert(n.blocks, i, gap{at, size})
		n.rover = at
	}
	return at
}

// TestNaive holds every decision on random scripts against the naive range. Requests are of few sizes in
// some of them, so that many holes are equal, and the number of blocks rises and falls.
func TestNaive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		policy := rapid.SampledFrom(policies).Draw(t, "policy")
		align := rapid.SampledFrom([]int64{1, 512}).Draw(t, "align")
		limit := rapid.SampledFrom([]int64{4 << 20, 64 << 20}).Draw(t, "limit")
		grows := rapid.Bool().Draw(t, "grows")
		sizes := rapid.SampledFrom([]int64{3, 100, 20000, 1 << 20}).Draw(t, "sizes")
		unit := rapid.SampledFrom([]int64{1, 512, 3000}).Draw(t, "unit")
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		steps := rapid.SampledFrom([]int{20, 300, 2000}).Draw(t, "steps")

		cfg := arena.Config{Policy: policy, Align: align}
		if !grows {
			cfg.Size = limit
		}
		a := arena.New(alloctest.NewDriver(limit), cfg)
		n := naive{policy: policy, limit: limit, grows: grows}
		var live []uint32
		base := uint64(0)
		at := map[uint32]int64{}
		for id := range uint32(steps) {
			if phase := id / 150 % 2; len(live) > 0 && r.IntN(10) < 3+4*int(phase) {
				i := r.IntN(len(live))
				block := live[i]
				live = slices.Delete(live, i, i+1)
				n.blocks = slices.DeleteFunc(n.blocks, func(b gap) bool { return b.at == at[block] })
				a.Free(block, false)
				continue
			}
			size := (r.Int64N(sizes) + 1) * unit
			want := n.malloc((size + align - 1) / align * align)
			err := a.Malloc(allocators.Request{Block: id, Size: size})
			if (err == nil) != (want >= 0) {
				t.Fatalf("block %d of %d bytes: %v, naive at %d", id, size, err, want)
			}
			if err != nil {
				continue
			}
			addr, _, _ := a.Block(id)
			if len(at) == 0 {
				base = addr
			}
			if got := int64(addr - base); got != want {
				t.Fatalf("block %d of %d bytes is at %d, naive at %d", id, size, got, want)
			}
			at[id] = want
			live = append(live, id)
		}
	})
}
