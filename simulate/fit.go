package simulate

import (
	"math"

	"github.com/vramscope/vramscope/trace"
)

// The smallest memory in which a recording finishes.
//
// A replay that runs out stops there, so trying a size is cheap, and bisection finds one that suffices
// while the next smaller one does not. But an allocator that is short of memory gives its cache back and
// begins anew, and where it does so depends on the size: a run may finish in less and fail in more. So the
// verdict on every size is kept (fit_sizes.go), and after the bisection the sizes above and below are
// looked at, as many as the budget of replays allows.
//
// One replay often settles many sizes. All that PyTorch's allocator learns of a limit is whether a request
// for more was refused. What it got together with what it held is at most its peak reserved; so with any
// less memory down to that peak, it would have been refused the same requests and no others, and the
// outcome is the same. This holds for the memory of the device, and of the process's own limit as long as
// both count the same: not for expandable segments, for which the limit counts what is asked and the
// device what is mapped, nor with garbage collection, which begins at a share of the limit.

// FitStep is the resolution of fits, bytes: devices give memory in this.
const FitStep = 2 << 20

// Fit is the least memory in which a recording finishes, with one allocator and setting.
type Fit struct {
	WhatIf           // Limit and Memory say nothing
	Unlimited Run    // without a limit of memory
	Memory    Least  // of what the device can give
	Limit     *Least // of what the process allows itself; nil for an allocator that knows no such limit
}

// Least is the smallest of something in which a recording finishes.
type Least struct {
	Bytes int64 // the smallest size found in which it finishes, 0 if there is none
	// Safe is the smallest size from which on no larger one is known to fail. It is more than Bytes if the
	// run finishes in less than it may fail in.
	Safe  int64
	Fails []Sizes // the sizes above Bytes in which it runs out
	Every bool    // every size is settled: no smaller one suffices, and above Safe none fails
	Tried int     // sizes that were replayed
	// Low and High are the least and the greatest Bytes over what no recording tells.
	Low, High int64
	Run       Run // in Bytes
}

// Sizes is a range of sizes, in steps of FitStep.
type Sizes struct{ From, To int64 }

// Monotone says whether no larger size than the smallest is known to fail.
func (l *Least) Monotone() bool { return len(l.Fails) == 0 }

// PeakLive is the most that was ever in use at one time, in bytes as asked for: no allocator can do with
// less. A last request that ran out of memory counts.
func (r *Requests) PeakLive() int64 {
	events := &r.Device.Events
	sizes := make([]int64, r.Device.NumBlocks)
	var live int64
	take := func(b trace.BlockID, size int64) {
		if int(b) < len(sizes) && size > 0 && size <= math.MaxInt64-live {
			live += size - sizes[b]
			sizes[b] = size
		}
	}
	for _, b := range r.Initial {
		if b.State == trace.BlockLive {
			take(b.ID, max(b.Requested, 1))
		}
	}
	peak, last := live, lastRequest(r.Device)
	for i, e := range events.All() {
		switch e.Op {
		case trace.OpAlloc:
			take(e.Block, e.Size)
		case trace.OpFree, trace.OpFreeRequested:
			if int(e.Block) < len(sizes) {
				live -= sizes[e.Block]
				sizes[e.Block] = 0
			}
		case trace.OpOOM:
			if i == last && e.Size <= math.MaxInt64-live {
				peak = max(peak, live+e.Size)
			}
		}
		peak = max(peak, live)
	}
	return peak
}

// Prefix says that the recording ends where it ran out of memory: what the program would have asked for
// after that is not in it.
func (r *Requests) Prefix() bool {
	last := lastRequest(r.Device)
	return last >= 0 && r.Device.Events.At(last).Op == trace.OpOOM
}

// Fits finds the least memory for each allocator and setting, on all cores. The surroundings are Alike.
func (r *Requests) Fits(s *Surroundings, asked []WhatIf, progress Progress) []Fit {
	work := &effort{progress: progress}
	out := make([]Fit, len(asked))
	work.expect(len(asked))
	each(len(asked), func(i int) {
		w := asked[i]
		w.Limit, w.Memory = -1, 0
		out[i] = Fit{WhatIf: w, Unlimited: r.Once(s, w)}
		work.step()
	})
	live := r.PeakLive()
	var jobs []*fitting
	for i := range out {
		for _, limit := range []bool{false, true} {
			if j := newFitting(r, s, &out[i], live, limit); j != nil {
				jobs = append(jobs, j)
			}
		}
	}
	work.expect(len(jobs))
	each(len(jobs), func(i int) { *jobs[i].out = jobs[i].least(); work.step() })
	fitRanges(jobs, work)
	for i := range out {
		if f := &out[i]; f.Limit == nil && f.sameAsLimit() {
			limit := f.Memory
			f.Limit = &limit
		}
	}
	return out
}

// Alike is the surroundings for replays that are compared across settings. What memory was like at the start
// of a recording that begins in the middle of a run, it tells for its own settings, and nobody knows it for
// others; so here it is left out, and all begin with the blocks alone.
func (f *Following) Alike() *Surroundings {
	s := f.Surroundings()
	if len(s.initial.segments) > 0 {
		s.initial = &initialState{}
	}
	return s
}

// knowsLimit says whether the allocator can be told by the program how much it may take.
func (w WhatIf) knowsLimit() bool { return w.isCaching() || w.Model == "stream" }

// sameAsLimit says whether a limit of the process and the memory of the device are the same to it.
func (w WhatIf) sameAsLimit() bool {
	return w.isCaching() && !w.Config.Expandable && w.Config.GCThreshold == 0
}

// fitting looks for the least memory, or the least limit, of one allocator and setting.
type fitting struct {
	replay  func(bytes int64, guess int) Run
	guesses int // at what no recording tells; the best is 0
	out     *Least
	lower   int64 // bytes, with less it cannot finish
	upper   int64 // bytes, where to begin to look for what is enough
	skips   bool  // one replay settles the sizes down to its peak
	proven  bool  // of that there is no doubt
	replays int   // budget
	tried   int
}

// newFitting is nil where there is nothing to look for.
func newFitting(r *Requests, s *Surroundings, f *Fit, live int64, limit bool) *fitting {
	j := &fitting{out: &f.Memory, lower: max(live, 1), upper: f.Unlimited.Stats.Reserved.Peak, guesses: len(r.variants(s, f.WhatIf))}
	j.replay = func(bytes int64, guess int) Run {
		w := f.WhatIf
		if limit {
			w.Limit = bytes
		} else {
			w.Memory = bytes
		}
		return r.play(s, w, r.variants(s, w)[guess])
	}
	if limit {
		if !f.knowsLimit() || f.sameAsLimit() {
			return nil
		}
		f.Limit = new(Least)
		j.out = f.Limit
	}
	j.skips = f.isCaching() && (!limit || f.sameAsLimit())
	// The address space of an expandable segment follows the memory of the device where the recording does
	// not tell that: it is taken to be enough in a little less memory if it was in a little more.
	j.proven = j.skips && (!f.Config.Expandable || s.total > 0)
	// Enough replays to see the pattern, and a bounded time however long the recording is.
	j.replays = min(max(16_000_000/max(r.Device.Events.Len(), 1), 12), 64)
	return j
}

// fitRanges finds what each of the other guesses at what no recording tells needs: mostly the same.
func fitRanges(jobs []*fitting, work *effort) {
	type guess struct {
		job    *fitting
		number int
		bytes  int64
	}
	var guesses []guess
	for _, j := range jobs {
		if j.out.Bytes == 0 {
			continue
		}
		for n := 1; n < j.guesses; n++ {
			guesses = append(guesses, guess{job: j, number: n})
		}
	}
	work.expect(len(guesses))
	each(len(guesses), func(i int) {
		g := &guesses[i]
		g.bytes = g.job.near(g.number)
		work.step()
	})
	for _, j := range jobs {
		j.out.Low, j.out.High = j.out.Bytes, j.out.Bytes
	}
	for _, g := range guesses {
		o := g.job.out
		o.Low, o.High = min(o.Low, g.bytes), max(o.High, g.bytes)
	}
}
