package caching_test

import (
	"slices"
	"testing"

	"github.com/vramscope/vramscope/allocators"
	"github.com/vramscope/vramscope/allocators/caching"
	"github.com/vramscope/vramscope/allocators/caching/config"
)

// TestHooks: what a follower may decide in place of the model.
func TestHooks(t *testing.T) {
	const big = 60 * mib
	malloc := func(a *caching.Allocator, block uint32, size int64) bool {
		return a.Malloc(allocators.Request{Block: block, Size: size}) == nil
	}
	t.Run("Refuses stands in for the limit", func(t *testing.T) {
		cfg := caching.NewConfig(config.Default())
		cfg.Limit = 100 * mib
		a := caching.New(newBump(0), cfg)
		var tried []int64
		refuse := false
		a.SetHooks(caching.Hooks{Refuses: func(n int64) bool { tried = append(tried, n); return refuse }})
		if !malloc(a, 1, big) || !malloc(a, 2, 3*mib) || !malloc(a, 3, big) {
			t.Error("refused, although the hook does not")
		}
		refuse = true
		if malloc(a, 4, 100) {
			t.Error("served, although the hook refuses")
		}
		// The last asks twice: before and after the flush.
		if want := []int64{big, 20 * mib, big, 2 * mib, 2 * mib}; !slices.Equal(tried, want) {
			t.Errorf("asked about %v, want %v", tried, want)
		}
	})
	t.Run("Synced leaves completions to the caller", func(t *testing.T) {
		a := caching.New(newBump(0), caching.NewConfig(config.Default()))
		synced := 0
		a.SetHooks(caching.Hooks{Synced: func() { synced++; a.Complete(1) }})
		malloc(a, 1, big)
		malloc(a, 2, big)
		a.Free(1, true)
		a.Free(2, true)
		a.EmptyCache()
		if _, _, ok := a.Block(2); !ok || synced != 1 || a.Reserved() != big {
			t.Errorf("synced %d times, block 2 is there: %v, %d bytes reserved", synced, ok, a.Reserved())
		}
	})
	t.Run("Collects is asked pass by pass where no limit is known", func(t *testing.T) {
		c := config.Default()
		c.GCThreshold = 0.5
		a := caching.New(newBump(0), caching.NewConfig(c))
		var passes [][]int64
		answer := []bool{true, true, false}
		a.SetHooks(caching.Hooks{Collects: func(pass []caching.Action) bool {
			var sizes []int64
			for _, x := range pass {
				sizes = append(sizes, x.Size/mib)
			}
			passes = append(passes, sizes)
			return answer[len(passes)-1]
		}})
		// Searches 1 to 4 take new segments; nothing is free, so there is nothing to ask.
		for i, n := range []int64{30, 40, 50, 60} {
			malloc(a, uint32(i), n*mib)
		}
		a.Free(0, false) // free since 4
		a.Free(3, false)
		malloc(a, 3, 60*mib) // 5
		a.Free(1, false)     // free since 5
		malloc(a, 4, 40*mib) // 6
		a.Free(4, false)     // since 6
		a.Free(2, false)     // since 6
		// At 7 the ages are 3 (30 MiB), 1 (40), 1 (50). The first pass takes what is above 5/3, the second the
		// others, the average being 1.
		malloc(a, 5, 70*mib)
		if want := [][]int64{{30}, {40, 50}}; !slices.EqualFunc(passes, want, slices.Equal) {
			t.Errorf("passes %v, want %v", passes, want)
		}
		// No is the end of it, and the segments stay.
		a.Free(5, false)
		malloc(a, 6, 80*mib)
		if len(passes) != 3 || a.Reserved() != (60+70+80)*mib {
			t.Errorf("passes %v, %d MiB reserved", passes, a.Reserved()/mib)
		}
	})
}
