package simulate

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/vramscope/vramscope/trace"
)

// ErrNoSteps is an edit that is about steps, for a recording in which none were found.
var ErrNoSteps = errors.New("no steps were found in this recording; --step REGEX says which annotations are steps")

// Edit changes the requests of a followed recording. Event numbers are those of the recording, whatever edits
// came before. The recording itself is not changed.
func (f *Following) Edit(t *trace.Trace, list StepList, edits []Edit) (*Edited, error) {
	p := newPlan(t, f, list)
	var changes []Change
	for _, e := range edits {
		c := Change{Edit: e}
		err := p.apply(&c)
		if err != nil {
			return nil, fmt.Errorf("edit %q: %w", e.Text, err)
		}
		changes = append(changes, c)
	}
	out := p.make()
	out.Changes = changes
	return out, nil
}

// NeedsSteps says whether an edit is about steps.
func (e *Edit) NeedsSteps() bool {
	switch e.Kind {
	case EditEmptyCache:
		return e.Every > 0
	case EditLargestFirst, EditWithoutLeaks, EditScale:
		return true
	}
	return false
}

func (p *plan) apply(c *Change) error {
	if c.Edit.NeedsSteps() && len(p.list.Steps) == 0 {
		return ErrNoSteps
	}
	switch c.Edit.Kind {
	case EditEmptyCache:
		return p.emptyCache(c)
	case EditLargestFirst:
		p.largestFirst(c)
	case EditPrealloc:
		p.prealloc(c)
	case EditWithoutLeaks:
		p.withoutLeaks(c)
	case EditDropStack:
		return p.dropStack(c)
	case EditScale:
		p.scale(c)
	}
	return nil
}

func (p *plan) emptyCache(c *Change) error {
	call := func(at int) {
		p.acts = append(p.acts, Act{Event: at, Kind: EmptyCache})
		c.Calls++
	}
	if c.Edit.Every > 0 {
		for i, s := range p.list.Steps {
			if s.Ended && (i+1)%c.Edit.Every == 0 {
				call(s.To)
			}
		}
		return nil
	}
	at := c.Edit.Before
	if at < 0 {
		var err error
		if at, err = eventAfter(p.dev, trace.Time(c.Edit.After)); err != nil {
			return err
		}
	}
	if n := p.dev.Events.Len(); at >= n {
		return fmt.Errorf("the recording ends before that, after %d events", n)
	}
	call(unsplit(p.dev, at))
	return nil
}

func eventAfter(d *trace.Device, after trace.Time) (int, error) {
	start := firstTime(d)
	if start == 0 {
		return 0, errors.New("this recording has no times; give the number of an event")
	}
	for i, e := range d.Events.All() {
		if e.Time-start >= after {
			return i, nil
		}
	}
	return d.Events.Len(), nil
}

// largestFirst puts a copy of what the largest step takes and gives back in front of the first.
func (p *plan) largestFirst(c *Change) {
	largest := p.largestStep()
	s := p.list.Steps[largest]
	c.Step = p.list.Label(largest)
	if largest == 0 {
		return // it is first already
	}
	at := p.list.Steps[0].From
	copies := map[trace.BlockID]trace.BlockID{}
	open := map[trace.BlockID]trace.Op{} // what a copy still needs to be free
	put := func(e trace.Event) {
		like := e.Block
		e.Block = copies[like]
		p.added = append(p.added, addition{at: at, event: e, like: like})
	}
	for i := s.From; i < s.To; i++ {
		e := p.dev.Events.At(i)
		if int(e.Block) >= len(p.blocks) {
			continue
		}
		_, copied := copies[e.Block]
		switch {
		case e.Op == trace.OpAlloc && !p.blocks[e.Block].dropped && int(p.blocks[e.Block].freed) < p.goneBy(largest):
			copies[e.Block] = p.next
			p.next++
			p.touch(c, e.Block)
			open[e.Block] = trace.OpFree
			put(*e)
		case e.Op == trace.OpFreeRequested && copied:
			open[e.Block] = trace.OpFreeCompleted
			put(*e)
		case e.Op == trace.OpFreeCompleted && copied, e.Op == trace.OpFree && copied:
			delete(open, e.Block)
			put(*e)
		}
	}
	for _, like := range slices.Sorted(maps.Keys(open)) {
		e := *p.dev.Events.At(int(p.blocks[like].born))
		e.Op = open[like]
		put(e)
	}
}

// largestStep is the one within which the most was allocated, the first of them.
func (p *plan) largestStep() int {
	var live int64
	for id := range p.blocks {
		if b := &p.blocks[id]; b.born == before && b.gone() > 0 {
			live += p.bytes(trace.BlockID(id))
		}
	}
	frees := p.earlyFrees()
	best, top, at := 0, int64(-1), 0
	for i, e := range p.dev.Events.All() {
		for len(frees) > 0 && int(p.blocks[frees[0]].early) <= i {
			live -= p.bytes(frees[0])
			frees = frees[1:]
		}
		for at < len(p.list.Steps) && i >= p.list.Steps[at].To {
			at++
		}
		if at == len(p.list.Steps) {
			break
		}
		if int(e.Block) < len(p.blocks) && p.keeps(i, e) {
			switch e.Op {
			case trace.OpAlloc:
				live += p.bytes(e.Block)
			case trace.OpFree, trace.OpFreeRequested:
				live -= p.bytes(e.Block)
			}
		}
		if i >= p.list.Steps[at].From && live > top {
			best, top = at, live
		}
	}
	return best
}

// earlyFrees lists the blocks that are freed earlier than recorded, in the order in which they are.
func (p *plan) earlyFrees() []trace.BlockID {
	var out []trace.BlockID
	for id := range p.blocks {
		if b := &p.blocks[id]; b.early < b.freed && b.early > 0 && !b.dropped {
			out = append(out, trace.BlockID(id))
		}
	}
	slices.SortStableFunc(out, func(a, b trace.BlockID) int { return int(p.blocks[a].early) - int(p.blocks[b].early) })
	return out
}

// prealloc takes a block at the start and gives it back.
func (p *plan) prealloc(c *Change) {
	e := trace.Event{Op: trace.OpAlloc, Size: c.Edit.Size, Block: p.next, Pool: trace.PoolUnknown}
	for _, x := range p.dev.Events.All() {
		if x.Op == trace.OpAlloc {
			e.Time, e.Stream = x.Time, x.Stream
			break
		}
	}
	p.next++
	c.Blocks, c.Bytes = 1, c.Edit.Size
	free := e
	free.Op = trace.OpFree
	p.added = append(p.added, addition{event: e, like: trace.NoBlock}, addition{event: free, like: trace.NoBlock})
}

// freeAt frees a block before an event.
func (p *plan) freeAt(id trace.BlockID, at int) {
	b := &p.blocks[id]
	b.early = int32(at)
	e := trace.Event{Op: trace.OpFree, Block: id, Size: b.size, Pool: trace.PoolUnknown}
	if b.born >= 0 {
		born := p.dev.Events.At(int(b.born))
		e.Addr, e.Stream = born.Addr, born.Stream
	}
	if at < p.dev.Events.Len() {
		e.Time = p.dev.Events.At(at).Time
	}
	p.added = append(p.added, addition{at: at, event: e, like: id})
}

// withoutLeaks frees the blocks of leaking stacks at the end of the step in which they were allocated. Of blocks
// without a stack only those are taken that were allocated after the warm-up and outlive the next step as well:
// what a program sets up has no stack either, in such a recording.
func (p *plan) withoutLeaks(c *Change) {
	g := p.f.Growth(p.list)
	c.Leaks = g.Leaks
	leaking := map[trace.StackID]bool{}
	for _, l := range g.Leaks {
		leaking[l.Stack] = true
	}
	if len(leaking) == 0 {
		return
	}
	for id := range p.blocks {
		b := &p.blocks[id]
		if b.born < 0 || b.born == never || b.dropped || !leaking[b.stack] {
			continue
		}
		step := p.list.Of(int(b.born))
		if step >= len(p.list.Steps) || !p.list.Steps[step].Ended {
			continue
		}
		until := p.list.Steps[step].To
		if b.stack == trace.NoStack && (step < g.Warmup || step+1 < len(p.list.Steps) && int(b.freed) < p.list.Steps[step+1].To) {
			continue
		}
		if int(b.gone()) > until {
			p.touch(c, trace.BlockID(id))
			p.freeAt(trace.BlockID(id), until)
		}
	}
}

// dropStack takes blocks out. Those that are older than the recording are freed at its beginning.
func (p *plan) dropStack(c *Change) error {
	matches := p.matcher(c.Edit)
	old := map[trace.BlockID]bool{}
	for _, b := range p.f.Requests.Initial {
		old[b.ID] = b.State == trace.BlockLive
	}
	for id := range p.blocks {
		b := &p.blocks[id]
		if b.dropped || b.born == never || b.stack == trace.NoStack || !matches(b.stack) {
			continue
		}
		switch {
		case b.born >= 0:
			p.touch(c, trace.BlockID(id))
			b.dropped = true
		case old[trace.BlockID(id)] && b.early > 0:
			p.touch(c, trace.BlockID(id))
			p.freeAt(trace.BlockID(id), 0)
		}
	}
	if c.Blocks == 0 {
		return errors.New("no block has a call stack with a frame that matches; frames read file:line function")
	}
	return nil
}

// matcher says of a stack whether a frame of it matches, once for each frame and stack.
func (p *plan) matcher(e Edit) func(trace.StackID) bool {
	stacks := p.t.Stacks
	frames := make([]bool, stacks.NumFrames())
	for i := range frames {
		f := stacks.Frame(trace.FrameID(i))
		frames[i] = e.Pattern.MatchString(fmt.Sprintf("%s:%d %s", f.File, f.Line, f.Func))
	}
	known := map[trace.StackID]bool{}
	return func(id trace.StackID) bool {
		m, ok := known[id]
		if !ok {
			m = slices.ContainsFunc(stacks.Frames(id), func(f trace.FrameID) bool { return frames[f] })
			known[id] = m
		}
		return m
	}
}
