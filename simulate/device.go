package simulate

import (
	"github.com/vramscope/vramscope/allocators"
	"github.com/vramscope/vramscope/allocators/driver/sim"
)

// On replays the requests once through a model over a driver of the caller's, a real one as a rule. Nothing
// is known there of the process that was recorded, so it begins with the blocks that are older than the
// recording. It ends where stop says so.
func (r *Requests) On(d allocators.Driver, s *Surroundings, w WhatIf, stop func() bool) Run {
	meter := newMeter(d, w)
	p := &Player{Requests: r, Model: w.model().make(meter, w, s, r), Stop: stop}
	if err := p.Start(); err != nil {
		p.failed(0, err)
		p.run.Stats = *p.Model.Stats()
		return p.run
	}
	run := p.Play()
	run.DeviceTime = meter.spent
	return run
}

// AsRecorded describes a device that puts memory where the recorded process had it, as far as that can be told: for a replay
// under the recording's own settings, from its start. ok is false for any other.
func (r *Requests) AsRecorded(s *Surroundings, w WhatIf) (c sim.Config, ok bool) {
	if s.keeps(w) || len(r.Initial) > 0 {
		return c, false
	}
	for _, v := range r.variants(s, w) {
		if v.Name == sim.AsRecorded && s.same(w) {
			return v.Config, true
		}
	}
	return c, false
}
