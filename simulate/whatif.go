package simulate

import (
	"fmt"
	"sync"

	"github.com/vramscope/vramscope/allocators/caching"
	"github.com/vramscope/vramscope/allocators/caching/config"
	"github.com/vramscope/vramscope/allocators/driver/sim"
	"github.com/vramscope/vramscope/allocators/packing"
	"github.com/vramscope/vramscope/trace"
)

// WhatIf asks what an allocator would have done under other settings, or with other memory.
type WhatIf struct {
	Model  string // empty is PyTorch's own
	Config config.Config
	Limit  int64 // bytes that the process allows itself, negative for no limit
	Memory int64 // bytes that the device can give, 0 for no limit
}

func (w WhatIf) isCaching() bool { return w.Model == "" || w.Model == Caching }

// model is the one asked for, PyTorch's if there is no such one.
func (w WhatIf) model() Model {
	if m, ok := FindModel(w.Model); ok {
		return m
	}
	return Models()[0]
}

// Prediction is a replay, and what is unknown about it.
type Prediction struct {
	Run
	// Low and High are the least and greatest peak reserved over what no trace can know: where else in the
	// address space of the process memory is, and when deferred frees complete. Bytes.
	Low, High int64
	Guess     bool // the recording is of a driver whose rules are not known: the range is a guess
}

// Surroundings is what a recording tells about the process beside its requests: learned once, used by all
// replays of it.
type Surroundings struct {
	initial  *initialState
	learned  *sim.Learned
	known    bool // the driver's rules fit, or nothing contradicts them
	settings config.Config
	total    int64

	packing sync.Mutex // guards plans
	plans   map[*Requests]*packing.Plan
}

// Surroundings of a followed recording.
func (f *Following) Surroundings() *Surroundings {
	s := &Surroundings{initial: f.initial, known: true, settings: f.Config, total: f.total}
	var held []sim.Range
	for i, seg := range f.Requests.Device.Initial.Segments {
		if !seg.Expandable {
			held = append(held, sim.Range{Addr: f.initial.segments[i].Addr, Size: seg.Size})
		}
	}
	steps := stepsOf(f.Requests.Device)
	if len(steps) == 0 {
		return s
	}
	learned := sim.Learn(held, steps)
	fits, known := learned.Score.Fits()
	s.known = fits || !known
	if len(held) == 0 {
		s.learned = learned
	}
	return s
}

func stepsOf(d *trace.Device) []sim.Step {
	var steps []sim.Step
	for i, e := range d.Events.All() {
		if e.Op == trace.OpSegmentAlloc || e.Op == trace.OpSegmentFree {
			steps = append(steps, sim.Step{Op: int64(i), Alloc: e.Op == trace.OpSegmentAlloc, Addr: e.Addr, Size: e.Size})
		}
	}
	return steps
}

// Predict replays the requests, and again under each guess at what the trace does not tell, on all cores.
// The result does not depend on how many there are.
func (r *Requests) Predict(s *Surroundings, w WhatIf) Prediction {
	variants := r.variants(s, w)
	runs := make([]Run, len(variants))
	each(len(variants), func(i int) { runs[i] = r.play(s, w, variants[i]) })
	p := Prediction{Run: runs[0], Guess: !s.known}
	p.Low, p.High = runs[0].Stats.Reserved.Peak, runs[0].Stats.Reserved.Peak
	for _, run := range runs[1:] {
		p.Low = min(p.Low, run.Stats.Reserved.Peak)
		p.High = max(p.High, run.Stats.Reserved.Peak)
	}
	return p
}

// Once replays the requests under the best guess alone.
func (r *Requests) Once(s *Surroundings, w WhatIf) Run {
	return r.play(s, w, r.variants(s, w)[0])
}

// variants lists the guesses that matter: addresses do not for expandable segments, times only where frees
// waited.
func (r *Requests) variants(s *Surroundings, w WhatIf) []sim.Variant {
	base := sim.Config{Capacity: w.Memory}
	if !w.isCaching() && w.Limit >= 0 && (w.Memory == 0 || w.Limit < w.Memory) {
		base.Capacity = w.Limit // others know of no limit beside the device's
	}
	if s.keeps(w) {
		for i, seg := range r.Device.Initial.Segments {
			if !seg.Expandable {
				base.Held = append(base.Held, sim.Range{Addr: s.initial.segments[i].Addr, Size: seg.Size})
			}
		}
		for _, x := range s.initial.spaces {
			base.Reserved = append(base.Reserved, sim.Range{Addr: x.base, Size: int64(x.end() - x.base)})
			for _, r := range x.ranges {
				base.Mapped += r.Size
			}
		}
	}
	if !s.known {
		return sim.Plain(base)
	}
	all := sim.Variants(base, int64(r.Device.Events.Len()), s.learned)
	if s.learned != nil && s.same(w) {
		// Under its own settings a recording is itself the best guess of where its memory was.
		for i, v := range all {
			if v.Name == sim.AsRecorded {
				copy(all[1:i+1], all[:i])
				all[0] = v
			}
		}
	}
	if w.Config.Expandable || !w.isCaching() {
		all = all[:1:1]
	}
	if r.Deferred {
		all = append(all, timings(all[0])...)
	}
	return all
}

// timings lists guesses at when deferred frees complete, which differs from run to run: moved by a little,
// as a busy host does, up to by much, as a queue of work on the device does.
func timings(best sim.Variant) []sim.Variant {
	var out []sim.Variant
	for _, shift := range []int{16, 64, 256, 512} {
		for seed := range uint64(3) {
			v := best
			v.Name = fmt.Sprintf("%s, frees moved by up to %d events", best.Name, shift)
			v.ShiftFrees, v.Seed = shift, seed
			out = append(out, v)
		}
	}
	return out
}

func (r *Requests) play(s *Surroundings, w WhatIf, v sim.Variant) Run {
	driver := sim.New(v.Config)
	meter := newMeter(driver, w)
	model := w.model().make(meter, w, s, r)
	p := &Player{Requests: r, Model: model, Driver: driver, ShiftFrees: v.ShiftFrees, Seed: v.Seed}
	if len(v.Config.Events) == 0 {
		p.Driver = nil
	}
	if c, ok := model.(*caching.Allocator); ok && s.keeps(w) {
		s.initial.adoptInto(c)
	} else if err := p.Start(); err != nil {
		p.failed(0, err)
		p.run.Stats = *model.Stats()
		return p.run
	}
	run := p.Play()
	run.DeviceTime = meter.spent
	return run
}

// keeps says whether the state before the recording is as it would have been under the given settings: it
// is, if nothing that shapes memory differs.
func (s *Surroundings) keeps(w WhatIf) bool {
	return len(s.initial.segments) > 0 && s.same(w)
}

// same says whether settings shape memory as those of the recording do.
func (s *Surroundings) same(w WhatIf) bool {
	c := w.Config
	return w.isCaching() && c.Expandable == s.settings.Expandable &&
		c.MaxSplitSize == s.settings.MaxSplitSize && c.Roundup == s.settings.Roundup &&
		c.LargeSegmentSize == s.settings.LargeSegmentSize
}

// adoptInto builds the state in a model that is to go on from it.
func (s *initialState) adoptInto(a *caching.Allocator) {
	expandable := map[uint64]bool{}
	for _, x := range s.spaces {
		for _, r := range x.ranges {
			expandable[r.Addr] = true
		}
		size := max(a.ReservationSize(x.ranges[0].Small), int64(x.end()-x.base))
		a.AdoptReservation(x.base, size, x.ranges)
	}
	for _, r := range s.segments {
		if !expandable[r.Addr] {
			a.AdoptSegment(r)
		}
	}
}
