package simulate

import "github.com/vramscope/vramscope/trace"

// What is left is told by sizes, and by how long it stays: blocks older than the recording, those whose stack tells
// nothing, and those of the backward pass that no run of an optimizer followed.

// inherited is what was there before the recording, if it does not stay.
func (r *roles) inherited(died int) Category {
	_, run := r.optimizer.after(0)
	_, back := r.back.after(0)
	switch {
	case back != nil && died > back.From && died < back.To && (run == nil || back.From < run.From):
		return Activation // the recording begins within a step
	}
	return Unknown
}

// tookPart says whether a block that was there before the recording was there when an optimizer ran first, and freed
// before the backward pass that followed.
func (r *roles) tookPart(died int) bool {
	_, run := r.optimizer.after(0)
	if run == nil || died < run.From {
		return false
	}
	_, back := r.back.after(run.To)
	return back == nil && died != atEnd || back != nil && died < back.From
}

// staysLong says whether a block that was there before the first iteration is there after the second.
func (r *roles) staysLong(died int) bool {
	switch runs := r.optimizer.list; len(runs) {
	case 0:
		return died == atEnd
	case 1:
		if _, back := r.back.after(runs[0].To); back != nil {
			return died > back.From
		}
		end := runs[0].To
		if _, zeroed := r.zeroing.after(end); zeroed != nil {
			end = zeroed.To
		}
		return died > end
	default:
		return died > runs[1].From
	}
}

// bySize tells what is left by sizes: a weight is as large as its gradient, and as a state of the optimizer.
func (r *roles) bySize() {
	weights, slopes, states, old := r.sizes.weights, r.sizes.slopes, r.sizes.states, map[int64]int{}
	of := func(c Category, b trace.BlockID) { r.out.Of[b] = c }
	r.each(func(b trace.BlockID, _ trace.StackID, size int64) {
		born, died := int(r.born[b]), int(r.died[b])
		switch phase := r.out.Born[b]; {
		case phase == PhaseBackward && r.out.Of[b] == Unknown:
			if slopes[size] > 0 && slopes[size] >= weights[size] || weights[size] == 0 && len(weights) > 0 {
				of(Cache, b) // there are gradients enough that come and go
			} else {
				of(Gradient, b)
			}
		case phase == PhaseBackward && r.out.Of[b] == Temporary && (weights[size] > 0 || slopes[size] > 0):
			if _, run := r.optimizer.after(born); run == nil && len(r.optimizer.list) > 0 && r.unfinished(born, died) {
				of(Gradient, b)
			}
		case phase == PhaseOld && r.out.Of[b] == Unknown && slopes[size] > old[size] && r.tookPart(died):
			old[size]++
			of(Gradient, b)
		case (phase == PhaseSetup || phase == PhaseOld) && r.out.Of[b] == Unknown && r.staysLong(died):
			switch g := slopes[size]; {
			case weights[size] < g:
				weights[size]++
				of(Parameter, b)
			case phase == PhaseOld && states[size] < 2*g:
				states[size]++
				of(OptimizerState, b)
			}
		}
	})
}

// unfinished says whether a block of the backward pass was there to its end, or when it failed.
func (r *roles) unfinished(born, died int) bool {
	_, back := r.back.after(born)
	return back != nil && died >= back.To || r.failedIn(born, died)
}

// sizeCounts counts weights and states by size, and the gradients of the step that has the most of them. Blocks come in
// the order of their allocation.
type sizeCounts struct {
	weights, states map[int64]int
	slopes          map[int64]int // gradients of one step
	now             map[int64]int // of the present one
	run             int           // of the optimizer, that comes next
	total, most     int
}

func newSizeCounts() sizeCounts {
	return sizeCounts{weights: map[int64]int{}, states: map[int64]int{}, slopes: map[int64]int{}, now: map[int64]int{}, run: -1}
}

func (n *sizeCounts) gradient(run int, size int64) {
	if run != n.run {
		n.settle()
		n.run = run
	}
	n.now[size]++
	n.total++
}

func (n *sizeCounts) settle() {
	if n.total > n.most {
		n.most = n.total
		n.slopes, n.now = n.now, n.slopes
	}
	clear(n.now)
	n.total = 0
}

// tally counts a block by its size, as far as its category is known.
func (r *roles) tally(b trace.BlockID, size int64) {
	switch r.out.Of[b] {
	case Parameter:
		if r.staysLong(int(r.died[b])) {
			r.sizes.weights[size]++
		}
	case Gradient:
		if r.out.Born[b] == PhaseBackward {
			k, _ := r.optimizer.after(int(r.born[b]))
			r.sizes.gradient(k, size)
		}
	case OptimizerState:
		if r.died[b] == atEnd {
			r.sizes.states[size]++
		}
	}
}
