package gpu

import (
	"errors"
	"fmt"

	"github.com/vramscope/vramscope/allocators"
	"github.com/vramscope/vramscope/allocators/caching"
	"github.com/vramscope/vramscope/allocators/driver/cuda"
	"github.com/vramscope/vramscope/allocators/driver/sim"
	"github.com/vramscope/vramscope/trace"
)

// caching replays through the model of PyTorch's allocator, over the device and then over the simulated
// driver, and compares the calls.
func (x *replay) caching() (err error) {
	if x.o.Config.Expandable {
		if err := x.dev.NeedVirtualMemory(); err != nil {
			return err
		}
	}
	driver, err := cuda.NewDriver(x.dev, cuda.DriverOptions{Most: x.res.Memory, Page: x.o.Config.LargeSegmentSize})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, driver.GiveBack()) }()
	taken, where := &tape{Driver: driver}, func(addr uint64) uint64 { return addr }
	tick := func(int) {}
	if x.o.Layout != nil {
		r := &relocated{Driver: driver, sim: sim.New(*x.o.Layout)}
		taken.Driver, where = r, r.real
		tick = func(next int) { r.sim.Tick(int64(x.r.Recorded(next))) }
	}
	model := x.model(taken)
	x.res.Run = x.play(model, func(next int, e *trace.Event) {
		taken.event = next
		tick(next)
		x.progress(next)
		if x.o.Touch && e != nil && e.Op == trace.OpAlloc {
			if addr, size, ok := model.Block(uint32(e.Block)); ok {
				driver.Fill(where(addr), size)
			}
		}
	}, func() bool { return x.ctx.Err() != nil || driver.Err() != nil })
	x.res.Elapsed = x.res.Run.Elapsed
	x.res.Timings = x.dev.TakeTimings()
	x.res.PeakUsed, x.res.Refused, x.res.Beyond = driver.Peak(), driver.Refused(), driver.Beyond()
	if err := driver.Err(); err != nil {
		return fmt.Errorf("event %d: %w", taken.event, err)
	}

	layout := sim.Config{Base: baseOf(taken.calls)}
	if x.o.Layout != nil {
		layout = *x.o.Layout
	}
	layout.Capacity = x.res.Memory
	device := sim.New(layout)
	said := &tape{Driver: device}
	interrupted, end := x.ctx.Err() != nil, x.res.Run.Ended
	x.res.Predicted = x.play(x.model(said), func(next int, _ *trace.Event) {
		said.event = next
		device.Tick(int64(x.r.Recorded(next)))
	}, func() bool { return interrupted && said.event >= end })
	x.res.Calls = taken.calls
	x.compare(taken.calls, said.calls)
	if x.o.Layout != nil {
		x.res.Placed, x.res.PlacedAsSaid = 0, 0 // the addresses are the simulation's own
		return nil
	}
	x.res.OneAhead = sim.Learn(nil, stepsOf(taken.calls)).Score
	return nil
}

// model is PyTorch's allocator over a driver.
func (x *replay) model(d allocators.Driver) *caching.Allocator {
	return caching.New(d, caching.Config{Config: x.o.Config, Limit: x.o.Limit, DeviceTotal: x.res.Total})
}

// tape is a driver whose calls are written down.
type tape struct {
	allocators.Driver
	event int
	calls []Call
}

// Call is what a model asked of its driver.
type Call struct {
	Event int
	Kind  cuda.Kind // Alloc, Free, Reserve, Release, Map or Unmap
	OK    bool
	Addr  uint64
	Size  int64 // bytes
}

// verbs are what calls do.
var verbs = map[cuda.Kind]string{cuda.Alloc: "takes", cuda.Free: "gives back", cuda.Reserve: "reserves addresses for", cuda.Release: "releases addresses for",
	cuda.Map: "maps", cuda.Unmap: "unmaps"}

func (c Call) act() Act {
	if !c.OK {
		return act("is refused", c.Size)
	}
	return act(verbs[c.Kind], c.Size)
}

func (t *tape) note(kind cuda.Kind, addr uint64, size int64, err error) {
	t.calls = append(t.calls, Call{t.event, kind, err == nil, addr, size})
}

func (t *tape) Alloc(size int64) (uint64, error) {
	addr, err := t.Driver.Alloc(size)
	t.note(cuda.Alloc, addr, size, err)
	return addr, err
}

func (t *tape) Free(addr uint64, size int64) {
	t.Driver.Free(addr, size)
	t.note(cuda.Free, addr, size, nil)
}

func (t *tape) Reserve(size int64) (uint64, error) {
	addr, err := t.Driver.Reserve(size)
	t.note(cuda.Reserve, addr, size, err)
	return addr, err
}

func (t *tape) Release(addr uint64, size int64) {
	t.Driver.Release(addr, size)
	t.note(cuda.Release, addr, size, nil)
}

func (t *tape) Map(addr uint64, size int64) error {
	err := t.Driver.Map(addr, size)
	t.note(cuda.Map, addr, size, err)
	return err
}

func (t *tape) Unmap(addr uint64, size int64) {
	t.Driver.Unmap(addr, size)
	t.note(cuda.Unmap, addr, size, nil)
}

// baseOf is where the context's first chunk must be if the first allocation is where the rules put it; 0 if
// it cannot be there.
func baseOf(calls []Call) uint64 {
	for _, c := range calls {
		if c.Kind == cuda.Alloc && c.OK {
			said, err := sim.New(sim.Config{}).Alloc(c.Size)
			if base := c.Addr - said + sim.DefaultBase; err == nil && base%sim.ChunkUnit == 0 {
				return base
			}
			return 0
		}
	}
	return 0
}

func stepsOf(calls []Call) []sim.Step {
	var steps []sim.Step
	for i, c := range calls {
		if c.OK && (c.Kind == cuda.Alloc || c.Kind == cuda.Free) {
			steps = append(steps, sim.Step{Op: int64(i), Alloc: c.Kind == cuda.Alloc, Addr: c.Addr, Size: c.Size})
		}
	}
	return steps
}

// compare holds the calls against those of the simulation, until the two part.
func (x *replay) compare(taken, said []Call) {
	res := x.res
	var first *Call
	for i := range max(len(taken), len(said)) {
		switch {
		case i >= len(taken):
			// Where the GPU's replay ended early, the simulation only went on.
			if b := said[i]; x.res.Run.Completed || b.Event < x.res.Run.Ended {
				res.Parted = &Parting{b.Event, nothing(), b.act()}
			}
			return
		case i >= len(said):
			res.Parted = &Parting{taken[i].Event, taken[i].act(), nothing()}
			return
		}
		a, b := taken[i], said[i]
		if a.Event != b.Event || a.Kind != b.Kind || a.OK != b.OK || a.Size != b.Size {
			res.Parted = parting(a, b)
			return
		}
		if !a.OK || a.Kind != cuda.Alloc && a.Kind != cuda.Reserve {
			continue
		}
		if first == nil {
			first = &a
		}
		res.Placed++
		if a.Addr == b.Addr {
			res.PlacedAsSaid++
		} else if res.Displaced == nil {
			res.Displaced = &Displaced{a.Event, a.Size, int64(a.Addr - first.Addr), int64(b.Addr - first.Addr)}
		}
	}
}

func parting(a, b Call) *Parting {
	switch {
	case a.Event < b.Event:
		return &Parting{a.Event, a.act(), nothing()}
	case b.Event < a.Event:
		return &Parting{b.Event, nothing(), b.act()}
	}
	return &Parting{a.Event, a.act(), b.act()}
}
