package simulate

import "github.com/vramscope/vramscope/allocators"

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
