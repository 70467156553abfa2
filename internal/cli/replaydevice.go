package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/vramscope/vramscope/allocators"
	"github.com/vramscope/vramscope/allocators/driver/cuda"
	"github.com/vramscope/vramscope/report"
)

// replayDevice is where replay replays: on a simulated device, or on a real one, which is opened when it is needed.
type replayDevice struct {
	device *report.RealDevice // nil for a simulated one
	memory int64              // bytes that may be taken, 0 for nine tenths of what is free

	dev      *cuda.Device
	closeAll func() error
	ctx      context.Context
	stop     func() error
	broken   bool // what went wrong is the device's doing
}

// newReplayDevice makes sense of --driver.
func newReplayDevice(driver string, memory int64) (*replayDevice, error) {
	switch driver {
	case "sim":
		return &replayDevice{}, nil
	case "cuda":
		d := &replayDevice{memory: memory}
		d.device = &report.RealDevice{Open: d.open}
		return d, findGPU()
	}
	return nil, usageError{fmt.Errorf("--driver %s: there are sim and cuda", driver)}
}

// open gives a driver with nothing held.
func (d *replayDevice) open(as *report.RealDevice, page int64) (allocators.Driver, func() bool, func() error, error) {
	d.broken = true
	if d.dev == nil {
		dev, closeAll, err := openGPU(0)
		if err != nil {
			return nil, nil, nil, err
		}
		d.dev, d.closeAll = dev, closeAll
		d.ctx, d.stop = untilSignal()
		free, total, err := dev.Memory()
		if err != nil {
			return nil, nil, nil, err
		}
		if d.memory <= 0 {
			d.memory = free / 10 * 9
		}
		as.Name, as.Memory = fmt.Sprintf("%s (device 0)", dev.Name), min(d.memory, total)
	}
	driver, err := cuda.NewDriver(d.dev, cuda.DriverOptions{Most: as.Memory, Page: page})
	if err != nil {
		return nil, nil, nil, err
	}
	stop := func() bool { return d.ctx.Err() != nil || driver.Err() != nil }
	return driver, stop, func() error { return errors.Join(driver.Err(), driver.GiveBack()) }, nil
}

// failed says whether an error is the device's, or an interruption.
func (d *replayDevice) failed(err error) bool { return err != nil && d.broken }

// error is such an error, an exit code after an interruption.
func (d *replayDevice) error(err error) error {
	if errors.Is(err, report.ErrInterrupted) && d.stop != nil {
		if code := d.stop(); code != nil {
			d.stop = nil
			return code
		}
	}
	return err
}

func (d *replayDevice) close() {
	if d.stop != nil {
		_ = d.stop()
	}
	if d.closeAll != nil {
		_ = d.closeAll()
	}
}
