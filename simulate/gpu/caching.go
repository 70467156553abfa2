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
	taken := &tape{Driver: driver}
	model := x.model(taken)
	x.res.Run = x.play(model, func(next int, e *trace.Event) {
		taken.event = next
		x.progress(next)
		if x.o.Touch && e != nil && e.Op == trace.OpAlloc {
			if addr, size, ok := model.Block(uint32(e.Block)); ok {
				driver.Fill(addr, size)
			}
		}
	}, func() bool { return x.ctx.Err() != nil || driver.Err() != nil })
	x.res.Elapsed = x.res.Run.Elapsed
	x.res.Timings = x.dev.TakeTimings()
	x.res.PeakUsed, x.res.Refused, x.res.Beyond = driver.Peak(), driver.Refused(), driver.Beyond()
	if err := driver.Err(); err != nil {
		return fmt.Errorf("event %d: %w", taken.event, err)
	}

	said := &tape{Driver: sim.New(sim.Config{Capacity: x.res.Memory, Base: baseOf(taken.calls)})}
	interrupted, end := x.ctx.Err() != nil, x.res.Run.Ended
	x.res.Predicted = x.play(x.model(said), func(next int, _ *trace.Event) { said.event = next },
		func() bool { return interrupted && said.event >= end })
	x.compare(taken.calls, said.calls)
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
	calls []call
}

type call struct {
	event int
	kind  cuda.Kind
	ok    bool
	addr  uint64
	size  int64
}

// verbs are what calls do.
var verbs = map[cuda.Kind]string{cuda.Alloc: "takes", cuda.Free: "gives back", cuda.Reserve: "reserves addresses for", cuda.Release: "releases addresses for",
	cuda.Map: "maps", cuda.Unmap: "unmaps"}

func (c call) act() Act {
	if !c.ok {
		return act("is refused", c.size)
	}
	return act(verbs[c.kind], c.size)
}

func (t *tape) note(kind cuda.Kind, addr uint64, size int64, err error) {
	t.calls = append(t.calls, call{t.event, kind, err == nil, addr, size})
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
func baseOf(calls []call) uint64 {
	for _, c := range calls {
		if c.kind == cuda.Alloc && c.ok {
			said, err := sim.New(sim.Config{}).Alloc(c.size)
			if base := c.addr - said + sim.DefaultBase; err == nil && base%sim.ChunkUnit == 0 {
				return base
			}
			return 0
		}
	}
	return 0
}

func stepsOf(calls []call) []sim.Step {
	var steps []sim.Step
	for i, c := range calls {
		if c.ok && (c.kind == cuda.Alloc || c.kind == cuda.Free) {
			steps = append(steps, sim.Step{Op: int64(i), Alloc: c.kind == cuda.Alloc, Addr: c.addr, Size: c.size})
		}
	}
	return steps
}

// compare holds the calls against those of the simulation, until the two part.
func (x *replay) compare(taken, said []call) {
	res := x.res
	var first *call
	for i := range max(len(taken), len(said)) {
		switch {
		case i >= len(taken):
			// Where the GPU's replay ended early, the simulation only went on.
			if b := said[i]; x.res.Run.Completed || b.event < x.res.Run.Ended {
				res.Parted = &Parting{b.event, nothing(), b.act()}
			}
			return
		case i >= len(said):
			res.Parted = &Parting{taken[i].event, taken[i].act(), nothing()}
			return
		}
		a, b := taken[i], said[i]
		if a.event != b.event || a.kind != b.kind || a.ok != b.ok || a.size != b.size {
			res.Parted = parting(a, b)
			return
		}
		if !a.ok || a.kind != cuda.Alloc && a.kind != cuda.Reserve {
			continue
		}
		if first == nil {
			first = &a
		}
		res.Placed++
		if a.addr == b.addr {
			res.PlacedAsSaid++
		} else if res.Displaced == nil {
			res.Displaced = &Displaced{a.event, a.size, int64(a.addr - first.addr), int64(b.addr - first.addr)}
		}
	}
}

func parting(a, b call) *Parting {
	switch {
	case a.event < b.event:
		return &Parting{a.event, a.act(), nothing()}
	case b.event < a.event:
		return &Parting{b.event, nothing(), b.act()}
	}
	return &Parting{a.event, a.act(), b.act()}
}
