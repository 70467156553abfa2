package simulate

import (
	"cmp"
	"slices"

	"github.com/vramscope/vramscope/trace"
)

// Edited are requests that edits have changed.
type Edited struct {
	Requests      *Requests
	Changes       []Change // by each edit, in their order
	PeakAllocated int64    // bytes that are allocated at most, as PyTorch's allocator rounds them
}

// Change is what one edit did.
type Change struct {
	Edit   Edit
	Blocks int   // dropped, freed earlier, resized or added
	Bytes  int64 // that they had before, over the whole recording
	AtPeak int64 // bytes of them that were allocated at the recording's peak
	Calls  int   // of empty_cache that were added
	Step   string
	Leaks  []Leak // EditWithoutLeaks: those that were stopped
}

// plan is what is to become of the blocks of a recording. Edits are planned one after the other, on the event
// numbers of the recording, and made at once.
type plan struct {
	t      *trace.Trace
	f      *Following
	dev    *trace.Device
	list   StepList
	blocks []fate
	added  []addition
	acts   []Act
	next   trace.BlockID // the number of the next block that is added
	peak   int           // event of the recorded peak
}

// fate is the life of a block.
type fate struct {
	born, freed int32 // events; before and never otherwise
	early       int32 // it is freed before this event instead, never if not
	stack       trace.StackID
	size        int64 // bytes asked for
	changed     bool  // size is not what was recorded
	dropped     bool
}

const (
	before = int32(-1)        // older than the recording
	never  = int32(1<<31 - 1) // not in the recording
)

// addition is an event that is put before one of the recording.
type addition struct {
	at    int
	event trace.Event
	like  trace.BlockID // the block that it is a copy of, NoBlock for none: then the event has the size
}

func newPlan(t *trace.Trace, f *Following, list StepList) *plan {
	dev := f.Requests.Device
	p := &plan{t: t, f: f, dev: dev, list: list, next: trace.BlockID(dev.NumBlocks), peak: -1}
	p.blocks = make([]fate, dev.NumBlocks)
	for i := range p.blocks {
		p.blocks[i] = fate{born: never, freed: never, early: never}
	}
	var live, top int64
	for _, b := range f.Requests.Initial {
		if int(b.ID) < len(p.blocks) {
			p.blocks[b.ID] = fate{born: before, freed: never, early: never, stack: b.Stack, size: b.Requested}
		}
		if b.State == trace.BlockLive {
			live += b.Size
		}
	}
	top = live
	for i, e := range dev.Events.All() {
		if int(e.Block) >= len(p.blocks) {
			continue
		}
		b := &p.blocks[e.Block]
		switch e.Op {
		case trace.OpAlloc:
			b.born, b.stack, b.size = int32(i), e.Stack, e.Size
			if live += f.Sizes[e.Block]; live > top {
				top, p.peak = live, i
			}
		case trace.OpFree, trace.OpFreeRequested:
			b.freed = min(b.freed, int32(i))
			live -= f.Sizes[e.Block]
		}
	}
	return p
}

// bytes is what a block takes as things are planned.
func (p *plan) bytes(id trace.BlockID) int64 {
	switch b := &p.blocks[id]; {
	case b.dropped:
		return 0
	case b.changed:
		return p.f.Config.RoundSize(b.size)
	}
	return p.f.Sizes[id]
}

// touch counts a block as changed.
func (p *plan) touch(c *Change, id trace.BlockID) {
	b := &p.blocks[id]
	c.Blocks++
	c.Bytes += p.f.Sizes[id]
	if int(b.born) <= p.peak && int(min(b.freed, b.early)) > p.peak {
		c.AtPeak += p.f.Sizes[id]
	}
}

// gone is the event before which a block is free, as things are planned.
func (b *fate) gone() int32 { return min(b.freed, b.early) }

// make turns the plan into requests.
func (p *plan) make() *Edited {
	slices.SortStableFunc(p.added, func(a, b addition) int { return cmp.Compare(a.at, b.at) })
	old := p.f.Requests
	r := *old
	dev := *p.dev
	r.Device = &dev
	dev.Events = trace.Events{}
	dev.NumBlocks = int(p.next)
	r.Acts, r.Failed, r.origin = nil, nil, nil
	if old.Pools != nil {
		r.Pools = append(slices.Clone(old.Pools), make([]uint32, int(p.next)-len(old.Pools))...)
	}
	acts := append(slices.Clone(old.Acts), p.acts...)
	slices.SortStableFunc(acts, func(a, b Act) int { return cmp.Compare(a.Event, b.Event) })
	added, failed := p.added, old.Failed
	out := &Edited{Requests: &r}
	var live int64
	for _, b := range old.Initial {
		if b.State == trace.BlockLive {
			live += b.Size
		}
	}
	out.PeakAllocated = live
	sizes := make([]int64, dev.NumBlocks)
	emit := func(e trace.Event, from int, size int64) {
		dev.Events.Append(e)
		r.origin = append(r.origin, int32(from))
		switch e.Op {
		case trace.OpAlloc:
			sizes[e.Block] = size
			live += size
			out.PeakAllocated = max(out.PeakAllocated, live)
		case trace.OpFree, trace.OpFreeRequested:
			if int(e.Block) < len(p.blocks) && p.blocks[e.Block].born == before {
				sizes[e.Block] = p.f.Sizes[e.Block]
			}
			live -= sizes[e.Block]
			sizes[e.Block] = 0
		}
	}
	insert := func(i int) {
		for len(added) > 0 && added[0].at <= i {
			a := added[0]
			added = added[1:]
			size := p.f.Config.RoundSize(a.event.Size)
			if a.like != trace.NoBlock {
				b := &p.blocks[a.like]
				if b.dropped {
					continue
				}
				if a.event.Op == trace.OpAlloc {
					a.event.Size = b.size
				}
				if int(a.like) < len(old.Pools) {
					r.Pools[a.event.Block] = old.Pools[a.like]
				}
				size = p.bytes(a.like)
			}
			emit(a.event, i, size)
		}
	}
	for i, e := range p.dev.Events.All() {
		insert(i)
		for len(acts) > 0 && acts[0].Event <= i {
			a := acts[0]
			acts = acts[1:]
			a.Event = dev.Events.Len()
			r.Acts = append(r.Acts, a)
		}
		for len(failed) > 0 && failed[0] <= i {
			failed = failed[1:]
			r.Failed = append(r.Failed, dev.Events.Len())
		}
		if p.keeps(i, e) {
			c := *e
			var size int64
			if e.Op == trace.OpAlloc && int(e.Block) < len(p.blocks) {
				c.Size, size = p.blocks[e.Block].size, p.bytes(e.Block)
			}
			emit(c, i, size)
		}
	}
	insert(p.dev.Events.Len())
	return out
}

// keeps says whether an event of the recording still happens.
func (p *plan) keeps(i int, e *trace.Event) bool {
	if int(e.Block) >= len(p.blocks) {
		return true
	}
	b := &p.blocks[e.Block]
	switch e.Op {
	case trace.OpAlloc:
		return !b.dropped
	case trace.OpFree, trace.OpFreeRequested, trace.OpFreeCompleted:
		return !b.dropped && int(b.early) > i
	}
	return true
}
