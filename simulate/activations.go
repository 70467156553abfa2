package simulate

import (
	"cmp"
	"math"
	"slices"

	"github.com/vramscope/vramscope/trace"
)

// What goes with the batch.
//
// A larger batch makes activations larger, and nothing else: weights, gradients and the states of the optimizer
// stay as they are. A recording does not say which is which, but they live differently. Activations and what is
// computed on the way come and go within one step, and outside of the optimizer; gradients are there when it
// runs; weights and states outlive steps. Two kinds live like activations and are none: copies of weights in
// half precision, which mixed precision makes anew in each step, and the temporary memory of libraries. The
// former are told by their size, the latter are not told.

// scale changes the sizes of activations.
func (p *plan) scale(c *Change) {
	ofModel := p.modelSizes()
	for id := range p.blocks {
		b := &p.blocks[id]
		if b.dropped || !p.isActivation(trace.BlockID(id)) || ofModel(b) {
			continue
		}
		p.touch(c, trace.BlockID(id))
		size := math.Round(float64(b.size) * c.Edit.Factor)
		b.size, b.changed = max(1, int64(min(size, 1<<50))), true
	}
}

// modelSizes recognises copies of weights, which are made in each step and are not larger for a larger batch: as
// large as something that the program keeps, or half of it for a copy in half precision, and no more of them in a
// step than are kept. Activations of the same size are mostly more than those.
func (p *plan) modelSizes() func(b *fate) bool {
	kept := map[int64]int{}
	last := p.list.Steps[len(p.list.Steps)-1]
	for id := range p.blocks {
		b := &p.blocks[id]
		if b.born != never && int(b.born) < last.From && int(b.freed) >= last.To {
			kept[b.size/2]++
			if len(p.list.Optimizing) == 0 {
				kept[b.size]++
			}
		}
	}
	type use struct {
		step int
		size int64
	}
	uses := map[use]int{}
	most := map[int64]int{}
	for id := range p.blocks {
		b := &p.blocks[id]
		if b.born >= 0 && b.born != never && kept[b.size] > 0 && p.isActivation(trace.BlockID(id)) {
			u := use{p.list.Of(int(b.born)), b.size}
			uses[u]++
			most[b.size] = max(most[b.size], uses[u])
		}
	}
	return func(b *fate) bool { return kept[b.size] > 0 && most[b.size] <= 2*kept[b.size] }
}

// isActivation says whether a block is of the kind whose size goes with the batch: it lives within a step, or is
// carried into the next one, as a batch or a result is that a variable still names. What is there while the
// optimizer runs is gradients and states, unless it has a call stack: the backward pass has none.
func (p *plan) isActivation(id trace.BlockID) bool {
	b := &p.blocks[id]
	if b.born < 0 || b.born == never {
		return false
	}
	step := p.list.Of(int(b.born))
	if step >= len(p.list.Steps) || int(b.born) < p.list.Steps[step].From {
		return false
	}
	if int(b.freed) < p.list.Steps[step].To && !p.optimized(b) {
		return true
	}
	return b.stack != trace.NoStack && int(b.freed) < p.goneBy(step) && !p.madeByOptimizer(b)
}

// goneBy is the event before which what a step leaves to the next is freed.
func (p *plan) goneBy(step int) int {
	if step+1 < len(p.list.Steps) {
		return p.list.Steps[step+1].To
	}
	return p.dev.Events.Len()
}

// run is the first run of the optimizer that ends after an event.
func (p *plan) run(event int32) (Iteration, bool) {
	runs := p.list.Optimizing
	i, _ := slices.BinarySearchFunc(runs, int(event), func(r Iteration, e int) int { return cmp.Compare(r.To, e+1) })
	if i == len(runs) {
		return Iteration{}, false
	}
	return runs[i], true
}

func (p *plan) madeByOptimizer(b *fate) bool {
	r, ok := p.run(b.born)
	return ok && r.From <= int(b.born)
}

// optimized says whether a block is there at any time while the optimizer runs.
func (p *plan) optimized(b *fate) bool {
	r, ok := p.run(b.born)
	return ok && int(b.freed) >= r.From
}
