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
	n := d.Trace.NumBlocks
	freed := make([]bool, n)
	for i, e := range d.Trace.Events.All() {
		if i > event {
			break
		}
		if int(e.Block) < n && (e.Op == trace.OpFreeRequested || e.Op == trace.OpFree) {
			freed[e.Block] = true
		}
	}
	var h Holders
	byStack := map[trace.StackID]*Holder{}
	hold := func(id trace.BlockID, stack trace.StackID, requested int64, old bool) {
		if int(id) >= n || freed[id] {
			return
		}
		size := d.Follow.Sizes[id]
		h.Requested += requested
		switch {
		case stack != trace.NoStack:
			x := byStack[stack]
			if x == nil {
				x = &Holder{Stack: stack}
				byStack[stack] = x
			}
			x.Bytes += size
			x.Blocks++
		case old:
			h.Before += size
			h.BeforeBlocks++
		default:
			h.Unattributed += size
			h.Unknown++
		}
	}
	for _, b := range d.Follow.Requests.Initial {
		if b.State == trace.BlockLive {
			hold(b.ID, b.Stack, b.Requested, true)
		}
	}
	for i, e := range d.Trace.Events.All() {
		if i > event {
			break
		}
		if e.Op == trace.OpAlloc {
			hold(e.Block, e.Stack, e.Size, false)
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
