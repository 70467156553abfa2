package tracetest

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"github.com/vramscope/vramscope/trace"
)

// Damage is something that may happen to a recording on its way, or that makes one of another allocator.
type Damage struct {
	Name string
	do   func(d *trace.Device, r *rand.Rand)
}

// Damages lists them; the first is none.
var Damages = []Damage{
	{"nothing", func(*trace.Device, *rand.Rand) {}},
	{"first half lost", func(d *trace.Device, _ *rand.Rand) { keepEvents(d, func(i int) bool { return i >= d.Events.Len()/2 }) }},
	{"last half lost", func(d *trace.Device, _ *rand.Rand) { keepEvents(d, func(i int) bool { return i < d.Events.Len()/2 }) }},
	{"middle lost", func(d *trace.Device, _ *rand.Rand) {
		keepEvents(d, func(i int) bool { return i < d.Events.Len()/3 || i > d.Events.Len()*2/3 })
	}},
	{"no final state", func(d *trace.Device, _ *rand.Rand) { d.Final, d.HasFinal = trace.State{}, false }},
	{"first half and final state lost", func(d *trace.Device, _ *rand.Rand) {
		keepEvents(d, func(i int) bool { return i >= d.Events.Len()/2 })
		d.Final, d.HasFinal = trace.State{}, false
	}},
	{"every seventh lost", func(d *trace.Device, _ *rand.Rand) { keepEvents(d, func(i int) bool { return i%7 != 3 }) }},
	{"one in a thousand lost", func(d *trace.Device, _ *rand.Rand) { keepEvents(d, func(i int) bool { return i%1000 != 333 }) }},
	{"some twice", func(d *trace.Device, _ *rand.Rand) {
		var list trace.Events
		for i, e := range d.Events.All() {
			list.Append(*e)
			if i%11 == 5 {
				list.Append(*e)
			}
		}
		d.Events = list
	}},
	{"neighbours exchanged", func(d *trace.Device, _ *rand.Rand) {
		for i := 3; i+1 < d.Events.Len(); i += 5 {
			a, b := d.Events.At(i), d.Events.At(i+1)
			*a, *b = *b, *a
		}
	}},
	{"backwards", func(d *trace.Device, _ *rand.Rand) {
		for i, j := 0, d.Events.Len()-1; i < j; i, j = i+1, j-1 {
			a, b := d.Events.At(i), d.Events.At(j)
			*a, *b = *b, *a
		}
		each(d, func(e *trace.Event) { e.Time = 0 })
	}},
	{"sizes a third larger", func(d *trace.Device, _ *rand.Rand) { each(d, func(e *trace.Event) { e.Size += e.Size / 3 }) }},
	{"sizes of blocks a third larger", func(d *trace.Device, _ *rand.Rand) {
		each(d, func(e *trace.Event) {
			if !e.Op.IsSegment() {
				e.Size += e.Size / 3
			}
		})
	}},
	{"sizes at random", func(d *trace.Device, r *rand.Rand) { each(d, func(e *trace.Event) { e.Size = r.Int64N(64 << 20) }) }},
	{"sizes of no device", func(d *trace.Device, r *rand.Rand) {
		each(d, func(e *trace.Event) { e.Size = r.Int64() >> r.IntN(63) })
	}},
	{"addresses shuffled", func(d *trace.Device, r *rand.Rand) {
		to := map[uint64]uint64{}
		var list []uint64
		each(d, func(e *trace.Event) {
			if _, ok := to[e.Addr]; !ok && e.Op != trace.OpOOM {
				to[e.Addr] = 0
				list = append(list, e.Addr)
			}
		})
		for i, j := range r.Perm(len(list)) {
			to[list[i]] = list[j]
		}
		each(d, func(e *trace.Event) {
			if e.Op != trace.OpOOM {
				e.Addr = to[e.Addr]
			}
		})
	}},
	{"addresses of blocks moved", func(d *trace.Device, _ *rand.Rand) {
		each(d, func(e *trace.Event) {
			if !e.Op.IsSegment() && e.Op != trace.OpOOM {
				e.Addr += 512
			}
		})
	}},
	{"addresses at random", func(d *trace.Device, r *rand.Rand) {
		each(d, func(e *trace.Event) { e.Addr = r.Uint64() >> r.IntN(60) })
	}},
	{"addresses of a bump allocator", func(d *trace.Device, _ *rand.Rand) {
		next, at := uint64(1<<40), map[uint64]uint64{}
		each(d, func(e *trace.Event) {
			switch e.Op {
			case trace.OpAlloc:
				at[e.Addr] = next
				e.Addr = next
				next += uint64(e.Size+511) &^ 511
			case trace.OpFreeRequested, trace.OpFreeCompleted:
				e.Addr = at[e.Addr]
			}
		})
	}},
	{"one address", func(d *trace.Device, _ *rand.Rand) { each(d, func(e *trace.Event) { e.Addr = 1 << 40 }) }},
	{"three streams at random", func(d *trace.Device, r *rand.Rand) {
		d.Streams = []uint64{0, 1, 2}
		each(d, func(e *trace.Event) { e.Stream = trace.StreamID(r.IntN(3)) })
	}},
	{"a stream for each event", func(d *trace.Device, _ *rand.Rand) {
		d.Streams = make([]uint64, d.Events.Len())
		for i, e := range d.Events.All() {
			d.Streams[i], e.Stream = uint64(i), trace.StreamID(i)
		}
	}},
	{"many pools", func(d *trace.Device, _ *rand.Rand) {
		d.Pools = make([]trace.Pool, 60_000)
		for i, e := range d.Events.All() {
			e.Pool = trace.PoolID(i % len(d.Pools))
		}
	}},
	{"no segment events", func(d *trace.Device, _ *rand.Rand) { without(d, trace.Op.IsSegment) }},
	{"no frees", func(d *trace.Device, _ *rand.Rand) {
		without(d, func(op trace.Op) bool { return op == trace.OpFreeRequested || op == trace.OpFreeCompleted })
	}},
	{"no completions", func(d *trace.Device, _ *rand.Rand) {
		without(d, func(op trace.Op) bool { return op == trace.OpFreeCompleted })
	}},
	{"no allocs", func(d *trace.Device, _ *rand.Rand) {
		without(d, func(op trace.Op) bool { return op == trace.OpAlloc })
	}},
	{"operations at random", func(d *trace.Device, r *rand.Rand) {
		each(d, func(e *trace.Event) { e.Op = trace.Op(1 + r.IntN(10)) })
	}},
	{"segments only", func(d *trace.Device, r *rand.Rand) {
		each(d, func(e *trace.Event) { e.Op = trace.OpSegmentAlloc + trace.Op(r.IntN(4)) })
	}},
	{"all fail", func(d *trace.Device, _ *rand.Rand) { each(d, func(e *trace.Event) { e.Op = trace.OpOOM }) }},
	{"completions late", func(d *trace.Device, _ *rand.Rand) {
		var list trace.Events
		var late []trace.Event
		for _, e := range d.Events.All() {
			if e.Op == trace.OpFreeCompleted {
				late = append(late, *e)
				continue
			}
			list.Append(*e)
		}
		for _, e := range late {
			list.Append(e)
		}
		d.Events = list
	}},
	{"another final state", func(d *trace.Device, r *rand.Rand) {
		for i := range d.Final.Blocks {
			b := &d.Final.Blocks[i]
			b.Addr, b.Size, b.State = b.Addr+uint64(r.IntN(4))<<20, r.Int64N(1<<24), trace.BlockState(r.IntN(3))
		}
		slices.SortFunc(d.Final.Blocks, func(x, y trace.Block) int { return cmp.Compare(x.Addr, y.Addr) })
	}},
}

func each(d *trace.Device, f func(e *trace.Event)) {
	for _, e := range d.Events.All() {
		f(e)
	}
}

func keepEvents(d *trace.Device, keep func(i int) bool) {
	var list trace.Events
	for i, e := range d.Events.All() {
		if keep(i) {
			list.Append(*e)
		}
	}
	d.Events = list
}

func without(d *trace.Device, gone func(trace.Op) bool) {
	keepEvents(d, func(i int) bool { return !gone(d.Events.At(i).Op) })
}

// ApplyAll makes a copy of a recording to all of whose devices it has happened.
func (x Damage) ApplyAll(t *trace.Trace) *trace.Trace {
	c := *t
	c.Devices = nil
	for i := range t.Devices {
		c.Devices = append(c.Devices, *x.Apply(&t.Devices[i]))
	}
	return &c
}

// Apply makes a copy of a device that it has happened to, read anew. It is the same each time.
func (x Damage) Apply(d *trace.Device) *trace.Device {
	c := *d
	c.Initial, c.Warnings, c.Events = trace.State{}, nil, trace.Events{}
	for _, e := range d.Events.All() {
		x := *e
		x.Block = trace.NoBlock
		c.Events.Append(x)
	}
	c.Final.Segments = slices.Clone(d.Final.Segments)
	c.Final.Blocks = slices.Clone(d.Final.Blocks)
	for i := range c.Final.Blocks {
		c.Final.Blocks[i].ID = trace.NoBlock
	}
	x.do(&c, rand.New(rand.NewPCG(1, 0)))
	trace.CutStale(&c)
	trace.Rewind(&c)
	trace.Pair(&c)
	return &c
}
