package simulate_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/vramscope/vramscope/allocators/caching/config"
	"github.com/vramscope/vramscope/internal/recordtest"
	"github.com/vramscope/vramscope/simulate"
	"github.com/vramscope/vramscope/trace"
	"github.com/vramscope/vramscope/trace/source"
)

// damages are what may happen to a recording on its way, and what makes one of another allocator.
var damages = []struct {
	name string
	do   func(d *trace.Device, r *rand.Rand)
}{
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

// damaged is a copy of a device that something has happened to, read anew.
func damaged(d *trace.Device, seed uint64, do func(d *trace.Device, r *rand.Rand)) *trace.Device {
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
	do(&c, rand.New(rand.NewPCG(seed, 0)))
	trace.CutStale(&c)
	trace.Rewind(&c)
	trace.Pair(&c)
	return &c
}

// Nothing that happens to a recording makes following it fail, or take long, or count otherwise than its
// events say.
func TestFollowDamaged(t *testing.T) {
	for _, rec := range recordtest.Snapshots() {
		if !rec.Own {
			continue // there are enough without them
		}
		t.Run(rec.Name, func(t *testing.T) {
			tr, err := source.Open(rec.File, source.Options{})
			if err != nil {
				t.Fatal(err)
			}
			cfg, _ := simulate.SettingsOf(tr, config.DefaultVersion)
			for _, x := range damages {
				for i := range tr.Devices {
					d := damaged(&tr.Devices[i], 1, x.do)
					r := &recorder{dev: d, cfg: cfg, limit: rec.Limit, name: x.name}
					for _, s := range d.Initial.Segments {
						r.segments += s.Size
					}
					checkFollow(t, r)
				}
			}
		})
	}
}

// More segments, or pools, than any device has are counted, and nothing is compared.
func TestFollowTooMuch(t *testing.T) {
	const n = 100_000
	at := func(i int) uint64 { return 0x7f0000000000 + uint64(i)*20<<20 }
	for _, c := range []struct {
		name  string
		pools int
		do    func(i int) []trace.Event
		held  int64 // segments at the peak
	}{
		{"segments given back", 1, func(i int) []trace.Event {
			return []trace.Event{{Op: trace.OpSegmentFree, Addr: at(i), Size: 20 << 20}}
		}, n},
		{"segments taken", 1, func(i int) []trace.Event {
			return []trace.Event{{Op: trace.OpSegmentAlloc, Addr: at(i), Size: 20 << 20}, {Op: trace.OpAlloc, Addr: at(i), Size: 5 << 20}}
		}, n},
		{"pools", 60_000, func(i int) []trace.Event {
			pool := trace.PoolID(i % 60_000)
			return []trace.Event{{Op: trace.OpSegmentAlloc, Addr: at(i), Size: 20 << 20, Pool: pool}, {Op: trace.OpAlloc, Addr: at(i), Size: 5 << 20, Pool: pool}}
		}, n},
	} {
		t.Run(c.name, func(t *testing.T) {
			begin := time.Now()
			d := &trace.Device{Streams: []uint64{0}, Pools: make([]trace.Pool, c.pools)}
			for i := range n {
				for _, e := range c.do(i) {
					e.Block = trace.NoBlock
					d.Events.Append(e)
				}
			}
			trace.Rewind(d)
			trace.Pair(d)
			f := simulate.Follow(d, config.Default(), simulate.FollowOptions{Limit: -1})
			if f.PeakReserved != c.held*20<<20 || !f.Score.Abandoned {
				t.Errorf("%d reserved at the peak, abandoned %v", f.PeakReserved>>20/20, f.Score.Abandoned)
			}
			if took := time.Since(begin); took > 20*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
}
