package report

import (
	"cmp"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/simulate"
	"github.com/vramscope/vramscope/trace"
)

// Breakdown is what was allocated at one instant, seen from several sides. Each side is complete:
//
//	allocated = sum of ByStack + Before + Unattributed
//	          = sum of ByFile = of ByModule = of ByCategory = of ByPhase = of ByStep = of ByStream = of ByPool = of Tree
type Breakdown struct {
	Holders
	ByFile     []Share // by the file of the person's own code
	ByModule   []Share // by the innermost nn.Module; nil where no stack names one
	ByCategory []Share // by what blocks are for
	ByPhase    []Share // by what the program was doing when it allocated them
	ByStep     []Share // by the step in which it did; nil if there are no steps
	ByStream   []Share
	ByPool     []Share
	Tree       []TreeNode
}

// Share is a part of what was allocated.
type Share struct {
	Name   string
	Bytes  int64
	Blocks int
}

// shareBare is the share of blocks that were recorded without a stack.
const shareBare = "without a call stack"

// shares adds up by a key.
type shares[K comparable] struct {
	index map[K]int
	list  []Share
	keys  []K
}

func (s *shares[K]) add(k K, bytes int64, blocks int) {
	i, ok := s.index[k]
	if !ok {
		if s.index == nil {
			s.index = map[K]int{}
		}
		i = len(s.list)
		s.index[k] = i
		s.list = append(s.list, Share{})
		s.keys = append(s.keys, k)
	}
	s.list[i].Bytes += bytes
	s.list[i].Blocks += blocks
}

// named gives the shares their names and brings the largest to the front.
func (s *shares[K]) named(name func(K) string) []Share {
	for i, k := range s.keys {
		s.list[i].Name = name(k)
	}
	slices.SortFunc(s.list, func(a, b Share) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(b.Blocks, a.Blocks), strings.Compare(a.Name, b.Name))
	})
	return s.list
}

// breakdown looks at what was allocated after the event of the given number; -1 is before the first.
func (d *Device) breakdown(stacks *trace.Stacks, event int) *Breakdown {
	var (
		b        Breakdown
		category shares[simulate.Category]
		phase    shares[simulate.Phase]
		step     shares[int]
		stream   shares[trace.StreamID]
		pool     shares[uint32]
	)
	const noStep, noStepOld = -1, -2
	at := 0
	d.liveAt(event, func(x liveBlock) {
		category.add(d.Roles.Category(x.id), x.size, 1)
		phase.add(d.Roles.Phase(x.id), x.size, 1)
		stream.add(x.stream, x.size, 1)
		pool.add(d.Follow.Requests.Pool(x.id), x.size, 1)
		in := noStep
		if list := d.Steps.Steps; x.born >= 0 {
			for at < len(list) && list[at].To <= x.born {
				at++
			}
			if at < len(list) && list[at].From <= x.born {
				in = at
			}
		} else {
			in = noStepOld
		}
		step.add(in, x.size, 1)
		b.hold(x)
	})
	b.sort()
	b.ByCategory = category.named(d.Roles.Name)
	b.ByPhase = phase.named(simulate.Phase.String)
	b.ByStream = stream.named(func(s trace.StreamID) string { return StreamName(d.Trace, s) })
	b.ByPool = pool.named(func(p uint32) string { return PoolName(d.Trace, p) })
	if len(d.Steps.Steps) > 0 {
		b.ByStep = step.named(func(i int) string {
			switch {
			case i == noStep:
				return "outside of steps"
			case i == noStepOld:
				return BeforeRecording
			}
			return "step " + d.Steps.Label(i)
		})
	}
	b.byCode(stacks)
	return &b
}

// lookOnce looks at what is told of the instants of a device that has no events.
func (d *Device) lookOnce(stacks *trace.Stacks) {
	for _, p := range []*Peak{&d.PeakAllocated, &d.End} {
		if len(p.Holders.ByStack) > 0 {
			p.Breakdown = &Breakdown{Holders: p.Holders}
			p.Breakdown.byCode(stacks)
		}
	}
	if list := categoriesAt(d.Trace.Series, d.PeakAllocated.Time); list != nil {
		if d.PeakAllocated.Breakdown == nil {
			d.PeakAllocated.Breakdown = &Breakdown{}
		}
		d.PeakAllocated.Breakdown.ByCategory = list
	}
}

// categoriesAt is what the categories of tensors had at a moment, where a recording has series of them that add up to
// what was allocated then.
func categoriesAt(list []trace.Series, at trace.Time) []Share {
	total := trace.FindSeries(list, trace.Allocated)
	if total == nil {
		return nil
	}
	var out []Share
	sum := int64(0)
	for i := range list {
		s := &list[i]
		if s.Quantity != trace.OfCategory {
			continue
		}
		p, _ := s.At(at)
		sum += p.Last
		if p.Last > 0 {
			out = append(out, Share{Name: s.Name, Bytes: p.Last})
		}
	}
	if sum != total.Max {
		return nil
	}
	slices.SortStableFunc(out, func(a, b Share) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return out
}

// byCode adds up by file, module and frame.
func (b *Breakdown) byCode(stacks *trace.Stacks) {
	var file, module shares[string]
	modules := false
	for _, h := range b.ByStack {
		frames := stacks.Stack(h.Stack)
		file.add(fileOf(frames), h.Bytes, h.Blocks)
		m := moduleOf(frames)
		modules = modules || m != ""
		module.add(cmp.Or(m, "no module"), h.Bytes, h.Blocks)
	}
	for _, rest := range []Share{{BeforeRecording, b.Before, b.BeforeBlocks}, {shareBare, b.Unattributed, b.Unknown}} {
		if rest.Blocks > 0 {
			file.add(rest.Name, rest.Bytes, rest.Blocks)
			module.add(rest.Name, rest.Bytes, rest.Blocks)
		}
	}
	same := func(s string) string { return s }
	b.ByFile = file.named(same)
	if modules {
		b.ByModule = module.named(same)
	}
	b.Tree = treeOf(stacks, b.Holders)
}

// liveBlock is a block that was allocated at an instant.
type liveBlock struct {
	id              trace.BlockID
	stack           trace.StackID
	stream          trace.StreamID
	born            int // event, -1 if older than the recording
	size, requested int64
}

// liveAt goes through the blocks that were allocated after the event of the given number, the older ones first; -1 is
// before the first event.
func (d *Device) liveAt(event int, do func(liveBlock)) {
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
	for _, b := range d.Follow.Requests.Initial {
		if b.State == trace.BlockLive && int(b.ID) < n && !freed[b.ID] {
			do(liveBlock{b.ID, b.Stack, b.Stream, -1, d.Follow.Sizes[b.ID], b.Requested})
		}
	}
	for i, e := range d.Trace.Events.All() {
		if i > event {
			break
		}
		if e.Op == trace.OpAlloc && int(e.Block) < n && !freed[e.Block] {
			do(liveBlock{e.Block, e.Stack, e.Stream, i, d.Follow.Sizes[e.Block], e.Size})
		}
	}
}
