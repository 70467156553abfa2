package simulate

import (
	"math"
	"slices"

	"github.com/vramscope/vramscope/trace"
)

// What blocks are for.
//
// A recording does not say which block is a weight and which is an activation. It says where each was allocated, and
// how long it lived, and in a training program that nearly always is enough: what an optimizer allocates and keeps is
// its state; what the backward pass allocates and is still there when the optimizer runs is a gradient; what the model
// allocates on its way forward and is still there on the way back is an activation. Weights are made before all that,
// by functions that are known for it. Blocks older than the recording, and those of recordings without stacks, are told
// apart by their sizes: for each gradient there is one weight, and for each weight as many states as the optimizer
// keeps. What nothing of this tells stays unknown. docs/categories.md has the rules and how often they are right.

// Category is what a block is for, as an index of Roles.Names.
type Category uint8

// The categories that are found without being told; rules add more behind them.
const (
	Unknown Category = iota
	Parameter
	Gradient
	OptimizerState
	Activation
	Temporary
	Cache
	numCategories
)

var categoryNames = [numCategories]string{"unknown", "parameter", "gradient", "optimizer state", "activation", "temporary", "cache"}

// String is the name of a category that is found without being told.
func (c Category) String() string {
	if c < numCategories {
		return categoryNames[c]
	}
	return categoryNames[Unknown]
}

// Roles says of each block of a device what it is for, and in which phase of the program it was allocated. Both are by
// the number of the block.
type Roles struct {
	Names []string // of the categories
	Of    []Category
	Born  []Phase
	// Training says whether there is a backward pass or an optimizer at all. Without, most is unknown.
	Training bool
	Idle     []Rule // rules that no block matched before another did
}

// Category is what a block is for.
func (r *Roles) Category(b trace.BlockID) Category {
	if r == nil || int(b) >= len(r.Of) {
		return Unknown
	}
	return r.Of[b]
}

// Name names a category.
func (r *Roles) Name(c Category) string {
	if r == nil || int(c) >= len(r.Names) {
		return categoryNames[Unknown]
	}
	return r.Names[c]
}

// Phase is when a block was allocated.
func (r *Roles) Phase(b trace.BlockID) Phase {
	if r == nil || int(b) >= len(r.Born) {
		return PhaseUnknown
	}
	return r.Born[b]
}

const (
	atEnd    = math.MaxInt32 // died at: never
	unborn   = math.MaxInt32
	older    = -1 // born at
	keptFrom = 3  // a block that outlives the ends of so many steps is kept on purpose
)

// roles works out the roles of blocks.
type roles struct {
	*phaser
	f     *Following
	dev   *trace.Device
	steps StepList
	near  int // where the last search among them ended
	out   *Roles

	born, died []int32 // events, by block
	back       spans   // stretches of the backward pass: from its first request to its last
	failed     []int32 // events that ran out of memory
	sizes      sizeCounts
	open       map[trace.StackID]bool // stacks of blocks for which byLikeness has to look
}

// Roles tells what the blocks of a followed recording are for.
func (f *Following) Roles(t *trace.Trace, steps StepList, rules []Rule) *Roles {
	dev := f.Requests.Device
	r := &roles{phaser: newPhaser(t, dev, steps), f: f, dev: dev, steps: steps}
	r.out = &Roles{Names: slices.Clone(categoryNames[:]), Of: make([]Category, dev.NumBlocks), Born: make([]Phase, dev.NumBlocks)}
	r.lives()
	r.findBackward()
	r.out.Training = len(r.back.list) > 0 || len(r.optimizer.list) > 0
	r.byPhase()
	r.bySize()
	r.byLikeness()
	r.byRules(t, rules)
	return r.out
}

// lives notes when each block was allocated and freed, and in which phase.
func (r *roles) lives() {
	r.born, r.died = make([]int32, r.dev.NumBlocks), make([]int32, r.dev.NumBlocks)
	for i := range r.born {
		r.born[i], r.died[i] = unborn, atEnd
	}
	for _, b := range r.f.Requests.Initial {
		if b.State == trace.BlockLive && int(b.ID) < len(r.born) {
			r.born[b.ID] = older
			r.out.Born[b.ID] = PhaseOld
		}
	}
	var back []Iteration
	in := false
	for i, e := range r.dev.Events.All() {
		switch e.Op {
		case trace.OpAlloc:
			p := r.phase(i, e)
			if int(e.Block) < len(r.born) {
				r.born[e.Block], r.out.Born[e.Block] = int32(i), p
			}
			if p == PhaseOptimizer {
				break // it may run within the backward pass, a weight at a time
			}
			if p != PhaseBackward {
				in = false
				break
			}
			if !in {
				back = append(back, Iteration{From: i})
				in = true
			}
			back[len(back)-1].To = i + 1
		case trace.OpFree, trace.OpFreeRequested:
			if int(e.Block) < len(r.died) && r.died[e.Block] == atEnd {
				r.died[e.Block] = int32(i)
			}
		case trace.OpOOM:
			r.failed = append(r.failed, int32(i))
		}
	}
	r.back = spans{list: back}
}

// each goes through the blocks: the older ones first, the others in the order of their allocation, which is that of their
// numbers. Sizes are those asked for, rounded up to what the allocator hands out at least.
func (r *roles) each(do func(b trace.BlockID, stack trace.StackID, requested int64)) {
	for _, b := range r.f.Requests.Initial {
		if b.State == trace.BlockLive && int(b.ID) < len(r.born) {
			do(b.ID, b.Stack, leastSize(requestedOrSize(b.Block)))
		}
	}
	for b, born := range r.born {
		if born >= 0 && born != unborn {
			e := r.dev.Events.At(int(born))
			do(trace.BlockID(b), e.Stack, leastSize(e.Size))
		}
	}
}

func requestedOrSize(b trace.Block) int64 {
	if b.Requested > 0 {
		return b.Requested
	}
	return b.Size
}

// byPhase decides what the phase of a block's birth and its end tell.
func (r *roles) byPhase() {
	r.sizes, r.open = newSizeCounts(), map[trace.StackID]bool{}
	r.each(func(b trace.BlockID, stack trace.StackID, size int64) {
		is := r.of(stack)
		born, died := int(r.born[b]), int(r.died[b])
		c := Unknown
		switch phase := r.out.Born[b]; {
		case phase == PhaseOptimizer:
			c = r.optimizing(born, died)
		case is&loadsState != 0 && !r.passing(born, died):
			c = OptimizerState
		case is&scatters != 0:
			c = Gradient
		case is&gathers != 0:
			c = Parameter
		case phase == PhaseBackward:
			if c = r.differentiating(born, died); c != Temporary && is&makesCache != 0 {
				c = Cache
			}
		case is&makesBuckets != 0:
			c = Gradient
		case is&makesWeights != 0 && is&inModule == 0:
			c = Parameter
		case phase == PhaseForward:
			if c = r.running(born, died); c != Activation && is&makesCache != 0 {
				c = Cache
			}
		case is&makesCache != 0:
			c = Cache
		case phase == PhaseSetup && died <= r.starts:
			c = Temporary
		case phase == PhaseOld && is&inOptimizer != 0:
			c = OptimizerState
		case phase == PhaseOld:
			if c = r.inherited(died); c == Unknown && is&inModule != 0 && r.staysLong(died) {
				c = Cache
			}
		}
		if r.out.Of[b] = c; c == Unknown && r.out.Born[b] == PhaseForward {
			r.open[stack] = true
		}
		r.tally(b, size)
	})
	r.sizes.settle()
}

// optimizing is what an optimizer allocates: its state if it keeps it.
func (r *roles) optimizing(born, died int) Category {
	if _, run := r.optimizer.after(born); run != nil && run.From <= born && died > run.To || run == nil && died == atEnd {
		return OptimizerState
	}
	if _, run := r.zeroing.after(born); run != nil && run.From <= born && died > run.To {
		return Gradient // zeroed gradients that did not exist before
	}
	return Temporary
}

// passing says whether a block is gone before the optimizer runs next.
func (r *roles) passing(born, died int) bool {
	_, run := r.optimizer.after(born)
	return run != nil && died < run.From
}

// differentiating is what the backward pass allocates: a gradient if the optimizer finds it there.
func (r *roles) differentiating(born, died int) Category {
	if len(r.optimizer.list) == 0 {
		if _, back := r.back.after(born); back != nil && died >= back.To {
			return Gradient
		}
		return Temporary
	}
	_, run := r.optimizer.after(born)
	if run == nil || died < run.From {
		return Temporary // bySize looks again at what no run followed
	}
	if _, back := r.back.after(born); back != nil && run.From < back.To && died > run.To && died < back.To {
		return Temporary // the optimizer runs within the backward pass
	}
	if _, back := r.back.after(run.To); back != nil && died > back.From || died == atEnd {
		return Unknown // it is kept; bySize knows whether that is usual
	}
	return Gradient
}

// running is what the program allocates in its loop beside.
func (r *roles) running(born, died int) Category {
	if r.keeps(born, died) {
		return Cache
	}
	if len(r.back.list) == 0 {
		return Unknown
	}
	if _, back := r.back.after(born); back != nil && r.sameStep(born, back.From) {
		if died > back.From {
			return Activation
		}
		return Temporary
	}
	if died != atEnd && r.sameStep(born, died) && !r.failedIn(born, died) {
		return Temporary
	}
	return Unknown // byLikeness looks at others like it
}

// stepOf is the step of an event, as StepList.Of says.
func (r *roles) stepOf(event int) int {
	r.near = firstAfter(r.steps.Steps, event, r.near)
	return r.near
}

// sameStep says whether two events belong to one step.
func (r *roles) sameStep(a, b int) bool {
	if len(r.steps.Steps) > 0 {
		return r.stepOf(a) == r.stepOf(b)
	}
	i, _ := r.optimizer.after(a)
	j, _ := r.optimizer.after(b)
	return i == j
}

// keeps says whether a block is kept over the ends of steps. One that is never freed is, if another step follows its own.
func (r *roles) keeps(born, died int) bool {
	if n := len(r.steps.Steps); n > 0 {
		if died == atEnd && r.stepOf(born) < n-1 {
			return true
		}
		last := n - 1
		if died < r.dev.Events.Len() {
			last = min(last, r.stepOf(died))
		} else if r.steps.Steps[n-1].Ended {
			last = n
		}
		return last-r.stepOf(born) >= keptFrom
	}
	i, _ := r.optimizer.after(born)
	j, _ := r.optimizer.after(min(died, r.dev.Events.Len()))
	return j-i >= keptFrom
}

// failedIn says whether a request failed while a block lived.
func (r *roles) failedIn(born, died int) bool {
	i, _ := slices.BinarySearch(r.failed, int32(born))
	return i < len(r.failed) && int(r.failed[i]) < died
}

// kin are blocks of one stack that outlived the step that they were allocated in, or those that did not.
type kin struct {
	stack    trace.StackID
	outlived bool
}

func (r *roles) kinOf(b trace.BlockID, stack trace.StackID) kin {
	return kin{stack, !r.sameStep(int(r.born[b]), min(int(r.died[b]), r.dev.Events.Len()))}
}

// byLikeness gives blocks that were cut off by the end of the recording, or by a failure, the category that most others
// of their kin have.
func (r *roles) byLikeness() {
	count := map[kin]*[numCategories]int{}
	open := func(b trace.BlockID) bool { return r.out.Of[b] == Unknown && r.out.Born[b] == PhaseForward }
	if len(r.open) == 0 {
		return
	}
	r.each(func(b trace.BlockID, stack trace.StackID, _ int64) {
		if !r.open[stack] || r.out.Of[b] == Unknown {
			return
		}
		for _, k := range []kin{r.kinOf(b, stack), {stack: stack}} {
			c := count[k]
			if c == nil {
				c = new([numCategories]int)
				count[k] = c
			}
			c[r.out.Of[b]]++
			if !k.outlived {
				break // the same twice
			}
		}
	})
	r.each(func(b trace.BlockID, stack trace.StackID, _ int64) {
		if !open(b) {
			return
		}
		c := count[r.kinOf(b, stack)]
		if c == nil {
			c = count[kin{stack: stack}]
		}
		best := Unknown
		for k := range numCategories {
			if c != nil && c[k] > c[best] {
				best = k
			}
		}
		switch {
		case best != Unknown:
			r.out.Of[b] = best
		case r.of(stack)&inModule != 0:
			r.out.Of[b] = Activation
		case len(r.back.list) > 0 && r.died[b] != atEnd:
			r.out.Of[b] = Temporary
		}
	})
}
