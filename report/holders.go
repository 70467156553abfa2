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

	index map[trace.StackID]int // into ByStack, while blocks are added
}

// What blocks are called whose allocation no call stack shows.
const (
	BeforeRecording = "before recording began"
	WithoutStack    = "no call stack was recorded (the backward pass has none)"
	WithoutStacks   = "recorded without call stacks" // where no block has one
)

// Holder is what one call stack held.
type Holder struct {
	Stack  trace.StackID
	Bytes  int64
	Blocks int
}

// hold adds a block.
func (h *Holders) hold(x liveBlock) {
	h.Requested += x.requested
	switch {
	case x.stack != trace.NoStack:
		i, ok := h.index[x.stack]
		if !ok {
			if h.index == nil {
				h.index = map[trace.StackID]int{}
			}
			i = len(h.ByStack)
			h.index[x.stack] = i
			h.ByStack = append(h.ByStack, Holder{Stack: x.stack})
		}
		h.ByStack[i].Bytes += x.size
		h.ByStack[i].Blocks++
	case x.born < 0:
		h.Before += x.size
		h.BeforeBlocks++
	default:
		h.Unattributed += x.size
		h.Unknown++
	}
}

// sort brings the largest to the front, once all blocks are there.
func (h *Holders) sort() {
	h.index = nil
	slices.SortFunc(h.ByStack, func(a, b Holder) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(b.Blocks, a.Blocks), cmp.Compare(a.Stack, b.Stack))
	})
}
