package report

import (
	"cmp"
	"slices"

	"github.com/vramscope/vramscope/trace"
)

// Holders says who held the memory at one instant:
//
//	allocated = sum of ByStack + Before + Unattributed
type Holders struct {
	ByStack      []Holder // by call stack of the allocation, the largest first
	Before       int64    // bytes of blocks older than the recording whose stack the file does not know
	BeforeBlocks int
	Unattributed int64 // bytes of blocks that were recorded without a stack
	Unknown      int   // their number
	Requested    int64 // bytes asked for, of all of them
}

// Holder is what one call stack held.
type Holder struct {
	Stack  trace.StackID
	Bytes  int64
	Blocks int
}

// holders lists what was allocated after the event of the given number; -1 is before the first.
func (d *Device) holders(event int) Holders {
	blocks := make([]holding, d.Trace.NumBlocks)
	sizes := d.Follow.Sizes
	for _, b := range d.Follow.Requests.Initial {
		if b.State == trace.BlockLive {
			blocks[b.ID] = holding{stack: b.Stack, requested: b.Requested, old: true, live: true}
		}
	}
	for i, e := range d.Trace.Events.All() {
		if i > event {
			break
		}
		if int(e.Block) >= len(blocks) {
			continue
		}
		switch e.Op {
		case trace.OpAlloc:
			blocks[e.Block] = holding{stack: e.Stack, requested: e.Size, live: true}
		case trace.OpFreeRequested, trace.OpFree:
			blocks[e.Block].live = false
		}
	}
	var h Holders
	byStack := map[trace.StackID]*Holder{}
	for id, b := range blocks {
		if !b.live {
			continue
		}
		size := sizes[id]
		h.Requested += b.requested
		switch {
		case b.stack != trace.NoStack:
			x := byStack[b.stack]
			if x == nil {
				x = &Holder{Stack: b.stack}
				byStack[b.stack] = x
			}
			x.Bytes += size
			x.Blocks++
		case b.old:
			h.Before += size
			h.BeforeBlocks++
		default:
			h.Unattributed += size
			h.Unknown++
		}
	}
	for _, x := range byStack {
		h.ByStack = append(h.ByStack, *x)
	}
	slices.SortFunc(h.ByStack, func(a, b Holder) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(b.Blocks, a.Blocks), cmp.Compare(a.Stack, b.Stack))
	})
	return h
}

// holding is what is known of a block while the live ones are counted.
type holding struct {
	requested int64
	stack     trace.StackID
	live, old bool
}
