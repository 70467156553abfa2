package simulate

import (
	"slices"

	"github.com/vramscope/vramscope/trace"
)

// Recordings without call stacks, of which PyTorch's annotations tell at least when the optimizer ran. What it finds
// there and is as large as a weight is a gradient, and where the first of them was allocated the program was on its way
// back.

const (
	justBefore = 16 // events: so shortly before the first gradient the way back begins, with that of the loss
	soonAfter  = 64 // events: what is allocated there and gone so soon is what the first gradients were made of
)

// candidate is a block that may be a gradient.
type candidate struct {
	born int32
	size int64
}

// findBackward finds the backward passes of a recording without stacks, and the phases of what is allocated around them.
func (r *roles) findBackward() {
	runs := r.optimizer.list
	if r.hasStacks || len(runs) == 0 {
		return
	}
	gradients := r.gradientSizes()
	r.eachRun(func(k int, found []candidate) {
		if at := onset(found, gradients); at >= 0 && at < runs[k].From {
			r.back.list = append(r.back.list, Iteration{From: at - justBefore, To: runs[k].From})
		}
	})
	if len(r.back.list) == 0 {
		return
	}
	r.each(func(b trace.BlockID, _ trace.StackID, _ int64) {
		born, died := int(r.born[b]), int(r.died[b])
		if r.out.Born[b] != PhaseUnknown {
			return
		}
		_, back := r.back.after(born)
		switch {
		case born < r.starts || born < r.back.list[0].From && r.staysLong(died):
			r.out.Born[b] = PhaseSetup
		case back == nil:
		case back.From+justBefore <= born, back.From <= born && died-born <= soonAfter:
			r.out.Born[b] = PhaseBackward
		default:
			r.out.Born[b] = PhaseForward
		}
	})
}

// eachRun goes through the runs of the optimizer, with the blocks that were allocated since the one before and are there
// when it begins: all that a gradient may be among them.
func (r *roles) eachRun(do func(k int, found []candidate)) {
	runs := r.optimizer.list
	var found []candidate
	k := 0
	r.each(func(b trace.BlockID, _ trace.StackID, size int64) {
		born, died := int(r.born[b]), int(r.died[b])
		for k < len(runs) && runs[k].From <= born {
			do(k, found)
			found = found[:0]
			k++
		}
		if k < len(runs) && born >= 0 && died >= runs[k].From && (k > 0 || !r.staysLong(died)) {
			found = append(found, candidate{r.born[b], size})
		}
	})
	for ; k < len(runs); k++ {
		do(k, found)
		found = nil
	}
}

// gradientSizes counts the gradients of a step by size: of each size that a weight has, as many as every run of the
// optimizer finds, and no more than there are weights.
func (r *roles) gradientSizes() map[int64]int {
	left := map[int64]int{}
	first := r.optimizer.list[0].From
	r.each(func(b trace.BlockID, _ trace.StackID, size int64) {
		if int(r.born[b]) < first && r.staysLong(int(r.died[b])) {
			left[size]++
		}
	})
	now := map[int64]int{}
	r.eachRun(func(_ int, found []candidate) {
		if len(found) == 0 {
			return
		}
		clear(now)
		for _, c := range found {
			now[c.size]++
		}
		for size, n := range left {
			left[size] = min(n, now[size])
		}
	})
	return left
}

// onset is where the first of the gradients was allocated, -1 if there are none. What else has the size of one was
// allocated before, on the way forward.
func onset(found []candidate, gradients map[int64]int) int {
	taken := map[int64]int{}
	at := -1
	for _, c := range slices.Backward(found) {
		if taken[c.size] < gradients[c.size] {
			taken[c.size]++
			at = int(c.born)
		}
	}
	return at
}
