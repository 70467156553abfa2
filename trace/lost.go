package trace

import (
	"cmp"
	"slices"
)

// Frees that must have been and are missing: of blocks whose address was allocated again, and of blocks that
// live after the last event but not in the final state. They are put in, in front of the request that shows
// it, or at the end.

// loseRest ends the blocks that live after the last event and are not in the final state.
func (p *pairing) loseRest() {
	held := make(map[BlockID]bool, len(p.d.Final.Blocks))
	for i := range p.d.Final.Blocks {
		held[p.d.Final.Blocks[i].ID] = true
	}
	var rest []*liveBlock
	for i := range p.live.slots {
		if s := &p.live.slots[i]; s.state != BlockFree && !held[s.id] {
			rest = append(rest, s)
		}
	}
	slices.SortFunc(rest, func(x, y *liveBlock) int { return cmp.Compare(x.id, y.id) })
	for _, s := range rest {
		p.lose(s, p.d.Events.Len())
	}
}

// lostFree is a free that is missing.
type lostFree struct {
	before int // the event in front of which it is put
	block  liveBlock
}

func (p *pairing) lose(s *liveBlock, before int) {
	p.gone = append(p.gone, lostFree{before, *s})
}

// requestOf is the first of the events that belong to the request which ends with event i.
func (p *pairing) requestOf(i int) int {
	for i > 0 {
		if op := p.d.Events.At(i - 1).Op; op != OpFreeCompleted && !op.IsSegment() {
			break
		}
		i--
	}
	return i
}

// insert puts the missing frees in, and lets the warnings follow the events that they name.
func (p *pairing) insert() {
	n := p.d.Events.Len()
	if len(p.gone) == 0 || n == 0 {
		return
	}
	sizes := p.sizesOfGone()
	moved := map[int]int{}
	for _, w := range p.d.Warnings {
		moved[w.First] = w.First
	}
	for range p.gone {
		p.d.Events.Append(Event{})
	}
	from, to := n-1, p.d.Events.Len()-1
	for g := len(p.gone) - 1; g >= 0; to-- {
		if lost := p.gone[g]; from < lost.before {
			at := *p.d.Events.At(from)
			if to+1 < p.d.Events.Len() {
				at = *p.d.Events.At(to + 1)
			}
			*p.d.Events.At(to) = Event{Op: lost.op(), Time: at.Time, Addr: lost.block.addr, Size: sizes[lost.block.id],
				Block: lost.block.id, Stream: at.Stream, Pool: PoolUnknown}
			if g--; lost.op() == OpFree {
				p.d.Missing.Frees++
			} else {
				p.d.Missing.Completions++
			}
			continue
		}
		*p.d.Events.At(to) = *p.d.Events.At(from)
		if _, ok := moved[from]; ok {
			moved[from] = to
		}
		from--
	}
	for i := range p.d.Warnings {
		p.d.Warnings[i].First = moved[p.d.Warnings[i].First]
	}
}

func (l lostFree) op() Op {
	if l.block.state == BlockPending {
		return OpFreeCompleted
	}
	return OpFree
}

// sizesOfGone is what was asked for each block whose free is missing.
func (p *pairing) sizesOfGone() map[BlockID]int64 {
	sizes := make(map[BlockID]int64, len(p.gone))
	for _, g := range p.gone {
		sizes[g.block.id] = 0
	}
	for _, b := range p.d.Initial.Blocks {
		if _, ok := sizes[b.ID]; ok {
			sizes[b.ID] = b.Requested
		}
	}
	for _, e := range p.d.Events.All() {
		if e.Op == OpAlloc {
			if _, ok := sizes[e.Block]; ok {
				sizes[e.Block] = e.Size
			}
		}
	}
	return sizes
}
