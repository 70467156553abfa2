package simulate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/vramscope/vramscope/allocators/caching"
	"github.com/vramscope/vramscope/trace"
)

// compareFinal holds the model's blocks against those of the file: address, size, state, and what was
// asked for.
func (f *follower) compareFinal() {
	model := map[uint64]caching.Placed{}
	f.a.Layout(func(p caching.Placed) { model[p.Addr] = p })
	for _, b := range f.dev.Final.Blocks {
		p, found := model[b.Addr]
		delete(model, b.Addr)
		ok := found && p.Size == b.Size && stateOf(p) == b.State &&
			(b.State == trace.BlockFree || p.Requested == b.Requested)
		f.out.Score.Blocks.count(ok)
		if !ok {
			got := "no block there"
			if found {
				got = describe(p.Size, stateOf(p), p.Requested)
			}
			f.mismatch(Mismatch{f.dev.Events.Len(), "block of the final state",
				fmt.Sprintf("at %#x: %s", b.Addr, got), fmt.Sprintf("at %#x: %s", b.Addr, describe(b.Size, b.State, b.Requested))})
		}
	}
	for _, p := range slices.SortedFunc(maps.Values(model), func(a, b caching.Placed) int { return cmp.Compare(a.Addr, b.Addr) }) {
		f.out.Score.Blocks.count(false)
		f.mismatch(Mismatch{f.dev.Events.Len(), "block of the final state",
			fmt.Sprintf("at %#x: %s", p.Addr, describe(p.Size, stateOf(p), p.Requested)), "nothing"})
	}
}

func stateOf(p caching.Placed) trace.BlockState {
	switch {
	case p.Free:
		return trace.BlockFree
	case p.Pending:
		return trace.BlockPending
	}
	return trace.BlockLive
}

func describe(size int64, s trace.BlockState, requested int64) string {
	switch s {
	case trace.BlockFree:
		return fmt.Sprintf("%d bytes, free", size)
	case trace.BlockPending:
		return fmt.Sprintf("%d bytes, %d requested, pending", size, requested)
	}
	return fmt.Sprintf("%d bytes, %d requested, live", size, requested)
}

// mismatch keeps the first.
func (f *follower) mismatch(m Mismatch) {
	if f.out.Score.First == nil {
		f.out.Score.First = &m
	}
}
