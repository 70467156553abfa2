package gpu

import (
	"context"

	"github.com/vramscope/vramscope/allocators/driver/cuda"
)

// Cost is how long calls of one kind take at one size.
type Cost struct {
	Kind cuda.Kind
	Size int64 // bytes
	cuda.Timing
}

// costSizes are the sizes that are measured, and how often.
var costSizes = []struct {
	size  int64
	times int
}{
	{64 << 10, 200}, {2 << 20, 200}, {20 << 20, 200}, {64 << 20, 100}, {256 << 20, 50}, {1 << 30, 20}, {4 << 30, 10},
}

// liveAtOnce is how many allocations of a size exist at a time while they are measured, and mostly how many
// bytes they are.
const (
	liveAtOnce  = 50
	bytesAtOnce = int64(16) << 30
)

// Measure times the driver's calls by size: cudaMalloc and cudaFree, and the creation, mapping and unmapping of
// virtual memory if the device has it. Sizes beyond the bound are left out.
func Measure(ctx context.Context, dev *cuda.Device, most int64) ([]Cost, error) {
	free, _, err := dev.Memory()
	if err != nil {
		return nil, err
	}
	if most <= 0 {
		most = int64(float64(free) * shareTaken)
	}
	dev.ClearSlots()
	dev.Slots(liveAtOnce)
	m := &measuring{ctx: ctx, dev: dev, most: most}
	virtual := dev.NeedVirtualMemory() == nil
	for _, c := range costSizes {
		n := int(min(liveAtOnce, min(most, bytesAtOnce)/c.size, int64(c.times)))
		if n == 0 {
			break
		}
		for _, round := range [][]cuda.Kind{{cuda.Alloc, cuda.Free}, {cuda.Create, cuda.Map, cuda.Access, cuda.Unmap, cuda.Discard}} {
			if round[0] == cuda.Create && (!virtual || c.size%dev.Granularity != 0) {
				continue
			}
			if err := m.round(round, c.size, n, c.times); err != nil {
				return m.costs, err
			}
		}
	}
	return m.costs, ctx.Err()
}

type measuring struct {
	ctx   context.Context
	dev   *cuda.Device
	most  int64
	costs []Cost
}

// round makes calls of each kind in turn, n of them at a time until there were enough.
func (m *measuring) round(kinds []cuda.Kind, size int64, n, times int) error {
	space := cuda.Op{Kind: cuda.Reserve, Size: size * int64(n)}
	if kinds[0] == cuda.Create {
		if err := m.run([]cuda.Op{space}, &space.Addr); err != nil {
			return err
		}
	}
	var err error
	m.dev.TakeTimings()
	for done := 0; done < times && err == nil && m.ctx.Err() == nil; done += n {
		for _, k := range kinds {
			ops := make([]cuda.Op, n)
			for i := range ops {
				at := space.Addr + uint64(i)*uint64(size)
				ops[i] = cuda.Op{Kind: k, Size: size, Slot: uint32(i)}
				switch k {
				case cuda.Map:
					ops[i].Addr, ops[i].Flags = at, cuda.InSlot
				case cuda.Access, cuda.Unmap:
					ops[i].Addr = at
				default:
					ops[i].Flags = cuda.InSlot
				}
			}
			if e := m.run(ops, nil); err == nil {
				err = e
			}
		}
	}
	timings := m.dev.TakeTimings()
	for _, k := range kinds {
		m.costs = append(m.costs, Cost{k, size, timings[k]})
	}
	if kinds[0] == cuda.Create {
		space.Kind = cuda.Release
		if e := m.run([]cuda.Op{space}, nil); err == nil {
			err = e
		}
	}
	m.dev.ClearSlots()
	return err
}

// run makes calls, all of them, and says what came of the first that failed.
func (m *measuring) run(ops []cuda.Op, addr *uint64) error {
	if _, err := m.dev.Run(ops); err != nil {
		return err
	}
	if addr != nil {
		*addr = ops[0].Addr
	}
	for i := range ops {
		if err := m.dev.Err(&ops[i]); err != nil {
			return err
		}
	}
	return nil
}
