package report

import (
	"errors"

	"github.com/vramscope/vramscope/allocators"
	"github.com/vramscope/vramscope/simulate"
)

// RealDevice is one to replay over, instead of a simulated one.
type RealDevice struct {
	Name   string // set when it was opened first
	Memory int64  // bytes that are taken of it at most, likewise
	// Open gives a driver with nothing held. page is the unit of what is mapped, bytes. stop says that a replay is
	// to end; giveBack gives back what is held then, and says what was wrong.
	Open func(d *RealDevice, page int64) (driver allocators.Driver, stop func() bool, giveBack func() error, err error)
}

// streamPage is the unit in which CUDA's pools take memory, bytes.
const streamPage = 32 << 20

// replay replays requests under what is asked for: as a prediction with all that is uncertain, or once on a device.
func (o *ReplayOptions) replay(r *simulate.Requests, around *simulate.Surroundings, w simulate.WhatIf) (simulate.Prediction, error) {
	if o.Device == nil {
		return r.Predict(around, w), nil
	}
	page := w.Config.LargeSegmentSize
	if w.Model != simulate.Caching {
		page = streamPage
	}
	driver, stop, giveBack, err := o.Device.Open(o.Device, page)
	if err != nil {
		return simulate.Prediction{}, err
	}
	run := r.On(driver, around, w, stop)
	p := simulate.Prediction{Run: run, Low: run.Stats.Reserved.Peak, High: run.Stats.Reserved.Peak}
	if err := giveBack(); err != nil {
		return p, err
	}
	if stop() {
		return p, ErrInterrupted
	}
	return p, nil
}

// ErrInterrupted is the error of a replay on a device that was told to end.
var ErrInterrupted = errors.New("interrupted; what was taken is given back")
