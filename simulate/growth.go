package simulate

import (
	"cmp"
	"slices"

	"github.com/vramscope/vramscope/allocators/caching/config"
	"github.com/vramscope/vramscope/trace"
)

// Growth from step to step.
//
// Memory that grows as a program goes on is one of three things, which are mistaken for each other. Blocks are
// kept that should have been freed: a leak. Each step needs more than the one before, and gives it back: a
// working set that grows. Or the allocator holds more and more of the device while the program does not: its
// cache grows, mostly since fragments do not fit what is asked for.
//
// What is alive is counted at the end of each step, where a program that does the same in each has the same.
// A leak is a call stack of which there are ever more blocks there. That the number of blocks grows, and not
// only their bytes, tells a leak from a buffer whose size differs with each batch; a single buffer that is made
// anew in each step, larger every time, is counted by its bytes. The end of a recording shows nothing of all
// this: much of what leaked is freed when the program ends.

// Growth is what a recording shows about the memory of its steps. Sizes are of requests, rounded up to what the
// allocator hands out at least, so that steps that are the same have the same.
type Growth struct {
	Steps  int // whose ends were looked at, those of the warm-up left out
	Warmup int // first steps that were left out
	// Live is what is allocated at the end of a step, Working the most that was allocated within it beyond
	// what was at its beginning, Reserved what is held from the driver at its end, and Cache how much more
	// that is than was ever allocated, both only where a recording shows what the allocator did. Their Steps are fewer than those above where only some steps end with
	// a run of the optimizer: gradients pile up until there.
	Live, Working, Reserved, Cache Trend
	// LiveGrows, WorkingGrows and CacheGrows say which of them grow all along.
	LiveGrows, WorkingGrows, CacheGrows bool
	Leaks                               []Leak // the fastest first
}

// Enough says whether there are enough steps to tell anything.
func (g *Growth) Enough() bool { return g.Steps >= LeastSteps }

// Leak is a call stack whose blocks pile up, as far as the recording shows.
type Leak struct {
	Stack  trace.StackID // NoStack: blocks that were recorded without one, taken together
	Bytes  Trend         // allocated at the ends of steps
	Blocks Trend         // their number there
	// Buffer says that the number of blocks stays the same: one is made anew, larger each time.
	Buffer     bool
	Confidence float64 // of the growth, from 0 to 1
	LastStep   int64   // bytes, at the end of the last step
	End        int64   // bytes, at the end of the recording
}

// LeastSteps is how many steps must have ended before anything is said about growth.
const LeastSteps = 4

const (
	sureEnough   = 0.95 // confidence from which on growth is reported
	surelyBuffer = 0.99 // the same for one that shows in bytes alone
	warmupShare  = 10   // one in so many steps is taken for warm-up, at least one, if enough are left
	bufferSteps  = 2    // a buffer grows in at least one of so many steps
	mostSeldom   = 100  // a leak has a block in at least one of so many steps
)

// stay is a block that lived through the end of a step.
type stay struct {
	stack    trace.StackID
	from, to int32 // steps: alive at the ends of from, …, to-1
	size     int64
}

// Growth looks at the memory of a followed recording at the end of each step.
func (f *Following) Growth(list StepList) Growth {
	g, _ := f.growth(list)
	return g
}

func (f *Following) growth(list StepList) (Growth, []stay) {
	ends, starts := 0, list.Steps
	for ends < len(list.Steps) && list.Steps[ends].Ended {
		ends++
	}
	steps := starts[:ends] // only the last can be without an end that means anything
	s := f.sample(steps)
	g := Growth{Warmup: min(max(len(steps)/warmupShare, 1), max(len(steps)-LeastSteps, 0))}
	g.Steps = len(steps) - g.Warmup
	if !g.Enough() {
		return g, s.stays
	}
	alike := list.alike(len(steps), g.Warmup)
	fit := func(values []int64) (Trend, bool) {
		picked := make([]int64, len(alike))
		for i, at := range alike {
			picked[i] = values[at]
		}
		t := trendOf(picked)
		return t, keepsGrowing(picked) && t.Confidence >= sureEnough
	}
	g.Live, g.LiveGrows = fit(s.live)
	g.Working, g.WorkingGrows = fit(s.working)
	if f.Requests.Device.Content == trace.Decisions {
		g.Reserved, _ = fit(s.reserved)
		g.Cache, g.CacheGrows = fit(s.cache)
	}
	g.Leaks = leaksOf(s.stays, len(steps), g.Warmup)
	return g, s.stays
}

// alike lists the steps, from the first on that counts, whose ends can be compared: all, or those in which an
// optimizer ran.
func (l *StepList) alike(steps, first int) []int {
	runs := make([]bool, steps)
	n := 0
	for _, r := range l.Optimizing {
		if i := l.Of(max(r.To-1, 0)); i < steps && !runs[i] {
			runs[i] = true
			n++
		}
	}
	var out []int
	for i := first; i < steps; i++ {
		if n == 0 || runs[i] {
			out = append(out, i)
		}
	}
	return out
}

// samples are what was counted for each step.
type samples struct {
	live, working, reserved, cache []int64
	stays                          []stay
}

// sample goes once through the events.
func (f *Following) sample(steps []Iteration) samples {
	dev := f.Requests.Device
	n := len(steps)
	s := samples{live: make([]int64, n), working: make([]int64, n), reserved: make([]int64, n), cache: make([]int64, n)}
	const before, dead = -1, -2
	born := make([]int32, dev.NumBlocks) // the step, or one of these
	for i := range born {
		born[i] = dead
	}
	stacks := make([]trace.StackID, dev.NumBlocks)
	sizes := make([]int64, dev.NumBlocks)
	var live, allocated, top, reserved int64
	for _, b := range f.Requests.Initial {
		if b.State == trace.BlockLive && int(b.ID) < len(born) {
			born[b.ID], stacks[b.ID], sizes[b.ID] = before, b.Stack, leastSize(b.Requested)
			live += sizes[b.ID]
			allocated += f.Sizes[b.ID]
		}
	}
	top = allocated
	for _, x := range dev.Initial.Segments {
		reserved += x.Size
	}
	at := 0
	start, most := live, live
	for i, e := range dev.Events.All() {
		for at < n && i >= steps[at].To {
			s.live[at], s.working[at], s.reserved[at], s.cache[at] = live, most-start, reserved, reserved-top
			at++
			start, most = live, live
		}
		if at < n && i == steps[at].From {
			start, most = live, live
		}
		switch e.Op {
		case trace.OpAlloc:
			if int(e.Block) < len(born) {
				born[e.Block], stacks[e.Block], sizes[e.Block] = int32(at), e.Stack, leastSize(e.Size)
				live += sizes[e.Block]
				most = max(most, live)
				allocated += f.Sizes[e.Block]
				top = max(top, allocated)
			}
		case trace.OpFree, trace.OpFreeRequested:
			if int(e.Block) >= len(born) || born[e.Block] == dead {
				break
			}
			live -= sizes[e.Block]
			allocated -= f.Sizes[e.Block]
			if b := born[e.Block]; b >= 0 && b < int32(at) {
				s.stays = append(s.stays, stay{stacks[e.Block], b, int32(at), sizes[e.Block]})
			}
			born[e.Block] = dead
		case trace.OpSegmentAlloc, trace.OpSegmentMap:
			reserved += e.Size
		case trace.OpSegmentFree, trace.OpSegmentUnmap:
			reserved -= e.Size
		}
	}
	for ; at < n; at++ {
		s.live[at], s.working[at], s.reserved[at], s.cache[at] = live, most-start, reserved, reserved-top
		start, most = live, live
	}
	for id, b := range born {
		if b >= 0 && int(b) < n {
			s.stays = append(s.stays, stay{stacks[id], b, forever, sizes[id]})
		}
	}
	slices.SortFunc(s.stays, func(a, b stay) int { return cmp.Compare(a.stack, b.stack) })
	return s
}

// leastSize is what a request takes at least: where the allocator had larger pieces left over it takes more, by
// luck, and by settings.
func leastSize(requested int64) int64 {
	return max(1, (requested+config.MinBlock-1)/config.MinBlock) * config.MinBlock
}

// forever is the step at which a block ends that was alive at the end of the recording.
const forever = 1<<31 - 1

// leaksOf finds the stacks whose blocks pile up after the warm-up.
func leaksOf(stays []stay, steps, warmup int) []Leak {
	var out []Leak
	bytes, blocks := make([]int64, steps), make([]int64, steps)
	for i := 0; i < len(stays); {
		j := i
		for j < len(stays) && stays[j].stack == stays[i].stack {
			j++
		}
		// It must have grown in so many steps, and not too seldom: what is done here for a stack takes time for
		// each step.
		if j-i >= max(LeastSteps-1, steps/mostSeldom) {
			clear(bytes)
			clear(blocks)
			end := count(stays[i:j], bytes, blocks, warmup)
			if l, ok := leakOf(bytes[warmup:], blocks[warmup:]); ok {
				if l.Stack, l.End = stays[i].stack, end; l.Stack == trace.NoStack {
					l.LastStep -= bytes[warmup] // the weights, and all else that has no stack
				}
				out = append(out, l)
			}
		}
		i = j
	}
	slices.SortStableFunc(out, func(a, b Leak) int { return cmp.Compare(b.Bytes.Slope, a.Bytes.Slope) })
	return out
}

// count adds up what was alive at the end of each step, and returns the bytes at the end of the recording: of
// blocks without a stack only those that were allocated after the warm-up.
func count(stays []stay, bytes, blocks []int64, warmup int) (end int64) {
	n := int32(len(bytes))
	for _, s := range stays {
		bytes[s.from] += s.size
		blocks[s.from]++
		if s.to < n {
			bytes[s.to] -= s.size
			blocks[s.to]--
		}
		if s.to == forever && (s.stack != trace.NoStack || int(s.from) >= warmup) {
			end += s.size
		}
	}
	for i := 1; i < len(bytes); i++ {
		bytes[i] += bytes[i-1]
		blocks[i] += blocks[i-1]
	}
	return end
}

// leakOf judges one stack.
func leakOf(bytes, blocks []int64) (Leak, bool) {
	if !keepsGrowing(bytes) {
		return Leak{}, false
	}
	l := Leak{LastStep: bytes[len(bytes)-1]}
	switch {
	case keepsGrowing(blocks):
		if l.Blocks = trendOf(blocks); l.Blocks.Confidence < sureEnough {
			return Leak{}, false
		}
		l.Confidence = l.Blocks.Confidence
		l.Bytes = trendOf(bytes)
	case slices.Min(blocks) == slices.Max(blocks) && growsOften(bytes):
		l.Buffer = true
		if l.Bytes = trendOf(bytes); l.Bytes.Confidence < surelyBuffer {
			return Leak{}, false
		}
		l.Confidence = l.Bytes.Confidence
	default:
		return Leak{}, false
	}
	return l, l.Bytes.Slope > 0
}

func growsOften(values []int64) bool {
	n := 0
	for i := 1; i < len(values); i++ {
		if values[i] > values[i-1] {
			n++
		}
	}
	return n*bufferSteps >= len(values)-1
}
