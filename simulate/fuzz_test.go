package simulate_test

import (
	"cmp"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/vramscope/vramscope/allocators"
	"github.com/vramscope/vramscope/allocators/caching"
	"github.com/vramscope/vramscope/allocators/caching/config"
	"github.com/vramscope/vramscope/allocators/driver/sim"
	"github.com/vramscope/vramscope/simulate"
	"github.com/vramscope/vramscope/trace"
)

// A tape is read byte by byte and ends in zeros: what a fuzz input means, whatever its length.
type tape struct{ data []byte }

func (t *tape) byte() byte {
	if len(t.data) == 0 {
		return 0
	}
	b := t.data[0]
	t.data = t.data[1:]
	return b
}

func (t *tape) below(n int) int { return int(t.byte()) % n }

func (t *tape) one(of ...int64) int64 { return of[t.below(len(of))] }

// size is one of the sizes at which rules change, or one that no program asks for.
func (t *tape) size() int64 {
	const m = config.MiB
	return t.one(1, 512, 513, 70_000, m, m+1, 3*m, 5*m, 9*m, 10*m-1, 10*m, 19*m, 20*m, 21*m, 33*m, 64*m-512, 64*m, 90*m, 300*m)
}

func (t *tape) hostile() int64 {
	return t.one(0, 1, 511, 2<<20, 20<<20, 1<<33, 1<<40, 1<<47, 1<<60, math.MaxInt64-511, math.MaxInt64)
}

// recorder makes a recording: it runs a program that the tape describes on the caching model and notes what
// a snapshot would have. Then the tape damages it.
type recorder struct {
	*tape
	model    *caching.Allocator
	driver   *sim.Driver
	dev      *trace.Device
	cfg      config.Config
	limit    int64
	next     uint32
	live     []uint32
	pending  []uint32
	at       map[uint32]trace.Event // the alloc of each
	name     string
	damaged  bool
	untold   bool // pools are not in the events
	retired  map[uint32]bool
	request  trace.Event
	segments int64 // what the segment events add up to, from what there was at the start
}

const (
	fuzzStreams = 3
	fuzzPools   = 3
)

func newRecorder(t *tape) *recorder {
	r := &recorder{tape: t, at: map[uint32]trace.Event{}, retired: map[uint32]bool{}, limit: -1}
	flags := t.byte()
	r.cfg = config.Default()
	r.cfg.Expandable = flags&1 != 0
	if flags&2 != 0 {
		r.cfg.MaxSplitSize = t.one(21, 64, 200) << 20
	}
	if flags&4 != 0 {
		for i := range r.cfg.Roundup {
			r.cfg.Roundup[i] = int(t.one(0, 1, 2, 4, 8))
		}
	}
	var capacity int64
	if flags&8 != 0 {
		capacity = t.one(22, 64, 128, 500, 1000) << 20
	}
	if flags&16 != 0 {
		r.limit = t.one(2, 22, 60, 128, 500, 1000) << 20
	}
	if flags&32 != 0 && flags&16 != 0 {
		r.cfg.GCThreshold = float64(t.one(1, 5, 9)) / 10
	}
	r.untold = flags&64 != 0
	r.driver = sim.New(sim.Config{Capacity: capacity})
	c := caching.NewConfig(r.cfg)
	c.Limit, c.DeviceTotal = r.limit, 80<<30
	r.model = caching.New(r.driver, c)
	r.model.SetHooks(caching.Hooks{Acted: r.acted, Synced: r.synced})
	r.dev = &trace.Device{Streams: []uint64{0, 5, 9}, Pools: []trace.Pool{{}, {1, 0}, {0, 1}}}
	return r
}

func (r *recorder) event(op trace.Op, e trace.Event) {
	e.Op, e.Block = op, trace.NoBlock
	if r.untold {
		e.Pool = trace.PoolUnknown
	}
	e.Time = trace.Time(1+r.dev.Events.Len()) * 1e6
	r.dev.Events.Append(e)
}

func (r *recorder) acted(x caching.Action) {
	op := [...]trace.Op{trace.OpSegmentAlloc, trace.OpSegmentFree, trace.OpSegmentMap, trace.OpSegmentUnmap}[x.Kind]
	pool := trace.PoolUnknown
	if op == trace.OpSegmentAlloc || op == trace.OpSegmentMap {
		pool = r.request.Pool
	}
	r.event(op, trace.Event{Addr: x.Addr, Size: x.Size, Stream: trace.StreamID(x.Stream), Pool: pool})
}

func (r *recorder) synced() {
	for len(r.pending) > 0 {
		r.complete(0)
	}
}

func (r *recorder) complete(i int) {
	n := r.pending[i]
	r.pending = slices.Delete(r.pending, i, i+1)
	r.event(trace.OpFreeCompleted, r.at[n])
	r.model.Complete(n)
}

// step does one thing that a program does.
func (r *recorder) step() {
	switch op := r.byte(); {
	case op < 120:
		r.malloc()
	case op < 200:
		if len(r.live) == 0 {
			return
		}
		i := r.below(len(r.live))
		n := r.live[i]
		r.live = slices.Delete(r.live, i, i+1)
		r.event(trace.OpFreeRequested, r.at[n])
		pending := op >= 190
		r.model.Free(n, pending)
		if pending {
			r.pending = append(r.pending, n)
		} else {
			r.event(trace.OpFreeCompleted, r.at[n])
		}
	case op < 210:
		if r.limit < 0 || r.cfg.GCThreshold == 0 {
			r.model.EmptyCache()
		}
	case op < 214:
		p := uint32(1 + r.below(fuzzPools-1))
		r.retired[p] = true
		r.model.Retire(p)
	default:
		r.damage(op)
	}
}

func (r *recorder) malloc() {
	for len(r.pending) > 0 && r.below(2) == 0 {
		r.complete(0)
	}
	size := r.size()
	e := trace.Event{Size: size, Stream: trace.StreamID(r.below(fuzzStreams)), Pool: trace.PoolID(max(0, r.below(6)-3))}
	if r.retired[uint32(e.Pool)] {
		e.Pool = 0
	}
	n := r.next
	r.next++
	r.request = e
	if err := r.model.Malloc(allocators.Request{Block: n, Size: size, Stream: uint32(e.Stream), Pool: uint32(e.Pool)}); err != nil {
		free, total := r.driver.Memory()
		if total == 0 {
			free = 1 << 40
		}
		e.Addr, e.Size = uint64(free), r.cfg.RoundSize(size)
		r.event(trace.OpOOM, e)
		return
	}
	e.Addr, _, _ = r.model.Block(n)
	r.at[n] = e
	r.live = append(r.live, n)
	r.event(trace.OpAlloc, e)
}

// damage does something that no allocator does, or that a recorder leaves out.
func (r *recorder) damage(op byte) {
	r.damaged = true
	n := r.dev.Events.Len()
	switch op {
	case 214, 215, 216: // any event at an address in use, or near it
		e := trace.Event{Addr: 0x302000000 + uint64(r.byte())<<21, Size: r.size(), Stream: trace.StreamID(r.below(fuzzStreams)), Pool: trace.PoolID(r.below(fuzzPools))}
		if n > 0 && op > 214 {
			e.Addr = r.dev.Events.At(r.below(n)).Addr + uint64(r.one(0, 0, 512, 1<<20, 2<<20))
		}
		r.event(trace.Op(r.below(11)), e)
	case 217, 218: // an event changes
		if n == 0 {
			return
		}
		e := r.dev.Events.At((r.below(256)*256 + r.below(256)) % n)
		switch r.below(6) {
		case 0:
			e.Op = trace.Op(r.below(12))
		case 1:
			e.Addr += uint64(r.one(512, 2<<20, -512, -2<<20, 1<<40))
		case 2:
			e.Size = r.size()
		case 3:
			e.Size = r.hostile()
		case 4:
			e.Addr = uint64(r.hostile()) << 1
		case 5:
			e.Stream, e.Pool = trace.StreamID(r.below(fuzzStreams)), trace.PoolID(r.below(fuzzPools))
		}
	case 219, 220: // two change places
		if n < 2 {
			return
		}
		a, b := r.dev.Events.At(r.below(n)), r.dev.Events.At(n-1-r.below(n))
		*a, *b = *b, *a
	case 221: // one more time
		if n > 0 {
			r.dev.Events.Append(*r.dev.Events.At(r.below(n)))
		}
	case 222, 223: // the beginning is lost
		r.keep(r.below(max(n, 1)), n)
	case 224: // the end is lost
		r.keep(0, n-r.below(n+1))
	case 225: // one is lost
		if n > 0 {
			at := r.below(n)
			var list trace.Events
			for i, e := range r.dev.Events.All() {
				if i != at {
					list.Append(*e)
				}
			}
			r.dev.Events = list
		}
	case 226: // all of one kind are lost
		op := trace.Op(1 + r.below(10))
		var list trace.Events
		for _, e := range r.dev.Events.All() {
			if e.Op != op {
				list.Append(*e)
			}
		}
		r.dev.Events = list
	default:
		r.damaged = n > 0 && r.damaged
	}
}

func (r *recorder) keep(from, to int) {
	var list trace.Events
	for i := from; i < to; i++ {
		list.Append(*r.dev.Events.At(i))
	}
	r.dev.Events = list
}

// finish writes the state at the end, damaged where the tape says so, and reads the whole as a source does.
func (r *recorder) finish() {
	var placed []caching.Placed
	r.model.Layout(func(p caching.Placed) { placed = append(placed, p) })
	slices.SortFunc(placed, func(a, b caching.Placed) int { return cmp.Compare(a.Addr, b.Addr) })
	d := r.dev
	end := uint64(0)
	for _, p := range placed {
		if p.First || p.Addr != end {
			d.Final.Segments = append(d.Final.Segments, trace.Segment{Addr: p.Addr, Stream: trace.StreamID(p.Stream), Pool: trace.PoolID(p.Pool),
				Small: p.Small, KindKnown: true, Expandable: p.Expandable})
		}
		d.Final.Segments[len(d.Final.Segments)-1].Size += p.Size
		end = p.Addr + uint64(p.Size)
		b := trace.Block{ID: trace.NoBlock, Addr: p.Addr, Size: p.Size, Requested: p.Requested, Stream: trace.StreamID(p.Stream)}
		switch {
		case p.Pending:
			b.State = trace.BlockPending
		case !p.Free:
			b.State = trace.BlockLive
		}
		d.Final.Blocks = append(d.Final.Blocks, b)
	}
	d.HasFinal = true
	for r.damaged && len(r.data) > 0 && r.below(3) == 0 {
		r.damageState()
	}
	if r.damaged {
		slices.SortStableFunc(d.Final.Segments, func(x, y trace.Segment) int { return cmp.Compare(x.Addr, y.Addr) })
		slices.SortStableFunc(d.Final.Blocks, func(x, y trace.Block) int { return cmp.Compare(x.Addr, y.Addr) })
	}
	trace.CutStale(d)
	trace.Rewind(d)
	trace.Pair(d)
	r.segments = 0
	for _, s := range d.Initial.Segments {
		r.segments += s.Size
	}
}

func (r *recorder) damageState() {
	d := r.dev
	segs, blocks := &d.Final.Segments, &d.Final.Blocks
	switch r.below(8) {
	case 0:
		d.HasFinal = false
		*segs, *blocks = nil, nil
	case 1:
		if n := len(*segs); n > 0 {
			i := r.below(n)
			*segs = slices.Delete(*segs, i, i+1)
		}
	case 2:
		if n := len(*blocks); n > 0 {
			i := r.below(n)
			*blocks = slices.Delete(*blocks, i, i+1)
		}
	case 3:
		*segs = append(*segs, trace.Segment{Addr: 0x302000000 + uint64(r.byte())<<21, Size: r.size(), Small: r.below(2) == 0, KindKnown: r.below(2) == 0, Expandable: r.below(2) == 0})
	case 4:
		*blocks = append(*blocks, trace.Block{ID: trace.NoBlock, State: trace.BlockState(r.below(3)), Addr: 0x302000000 + uint64(r.byte())<<20, Size: r.size(), Requested: r.size()})
	case 5:
		if n := len(*segs); n > 0 {
			s := &(*segs)[r.below(n)]
			s.Size, s.Expandable = r.hostile(), r.below(2) == 0
		}
	case 6:
		if n := len(*blocks); n > 0 {
			b := &(*blocks)[r.below(n)]
			b.Size, b.Requested, b.State = r.hostile(), r.hostile(), trace.BlockState(r.below(3))
		}
	case 7:
		if n := len(*segs); n > 0 {
			s := &(*segs)[r.below(n)]
			s.Addr, s.Pool, s.KindKnown = uint64(r.hostile())<<1, trace.PoolUnknown, false
		}
	}
}

// record makes the recording that a tape describes.
func record(data []byte) *recorder {
	r := newRecorder(&tape{data})
	for steps := 0; len(r.data) > 8 && steps < 4096; steps++ {
		r.step()
	}
	r.finish()
	return r
}

// checkFollow follows a recording and replays it, and checks what must hold whatever the recording is.
func checkFollow(t *testing.T, r *recorder) *simulate.Following {
	t.Helper()
	defer func() {
		if p := recover(); p != nil || t.Failed() {
			t.Logf("%s: %v", r.name, p)
			if p != nil {
				panic(p)
			}
		}
	}()
	begin := time.Now()
	dev := r.dev
	reserved, peak := r.segments, r.segments
	calls := 0
	f := simulate.Follow(dev, r.cfg, simulate.FollowOptions{Limit: r.limit, Each: func(i int, e *trace.Event, now simulate.Now) {
		if i != calls {
			t.Fatalf("event %d told after %d", i, calls-1)
		}
		calls++
		switch e.Op {
		case trace.OpSegmentAlloc, trace.OpSegmentMap:
			reserved += e.Size
		case trace.OpSegmentFree, trace.OpSegmentUnmap:
			reserved -= e.Size
		}
		peak = max(peak, reserved)
		if now.Reserved != reserved {
			t.Fatalf("event %d: %d reserved, the events add up to %d", i, now.Reserved, reserved)
		}
		if now.Allocated < 0 {
			t.Fatalf("event %d: %d allocated", i, now.Allocated)
		}
		if now.Model == nil {
			t.Fatalf("event %d: no model", i)
		}
	}})
	if calls != dev.Events.Len() {
		t.Fatalf("%d events told of %d", calls, dev.Events.Len())
	}
	if f.PeakReserved != peak || f.End.Reserved != reserved {
		t.Fatalf("peak %d and end %d reserved, the events add up to %d and %d", f.PeakReserved, f.End.Reserved, peak, reserved)
	}
	if dev.HasFinal {
		if live := liveAtEnd(dev); f.End.Allocated < live {
			t.Fatalf("%d allocated at the end, the file has %d", f.End.Allocated, live)
		}
	}
	checkModel(t, f.Model)
	s := f.Score
	for _, c := range []simulate.Tally{s.Placements, s.Segments, s.OOMs, s.Blocks} {
		if c.Matched > c.Checked || c.Matched < 0 {
			t.Fatalf("score %+v", s)
		}
	}
	if s.Exact() != (s.First == nil) || s.Placements.Matched < s.Placements.Checked && s.First == nil {
		t.Fatalf("score %+v", s)
	}
	around := f.Surroundings()
	for _, w := range []simulate.WhatIf{
		{Config: r.cfg, Limit: r.limit},
		{Config: config.Default(), Limit: -1},
		{Config: expandable(), Limit: -1, Memory: 1 << 30},
	} {
		run := f.Requests.Once(around, w)
		if run.Ended < 0 || run.Ended > dev.Events.Len() || run.Completed != (run.Ended == dev.Events.Len()) {
			t.Fatalf("run %+v of %d events", run, dev.Events.Len())
		}
		if w.Memory > 0 && run.Stats.Reserved.Peak > w.Memory && len(dev.Initial.Segments) == 0 {
			t.Fatalf("%d reserved of %d", run.Stats.Reserved.Peak, w.Memory)
		}
	}
	if took := time.Since(begin); took > 5*time.Second {
		t.Fatalf("took %v for %d events", took, dev.Events.Len())
	}
	return f
}

// liveAtEnd is what the final state has, of blocks that live as far as events and start tell; nothing if its
// blocks do not lie in its segments, one behind the other.
func liveAtEnd(d *trace.Device) (n int64) {
	known := make([]bool, d.NumBlocks)
	for _, b := range d.Initial.Blocks {
		known[b.ID] = b.State == trace.BlockLive
	}
	for _, e := range d.Events.All() {
		if e.Block != trace.NoBlock {
			known[e.Block] = e.Op == trace.OpAlloc
		}
	}
	end, in := uint64(0), 0
	for _, b := range d.Final.Blocks {
		for in < len(d.Final.Segments) && d.Final.Segments[in].Addr+uint64(d.Final.Segments[in].Size) <= b.Addr {
			in++
		}
		if b.Addr < end || b.Size == 0 || in == len(d.Final.Segments) || b.Addr < d.Final.Segments[in].Addr ||
			b.Addr+uint64(b.Size) > d.Final.Segments[in].Addr+uint64(d.Final.Segments[in].Size) {
			return 0
		}
		end = b.Addr + uint64(b.Size)
		if b.State == trace.BlockLive && int(b.ID) < len(known) && known[b.ID] {
			n += b.Size
		}
	}
	return n
}

// checkModel checks that a model is in a state that an allocator can be in.
func checkModel(t *testing.T, a *caching.Allocator) {
	t.Helper()
	var placed []caching.Placed
	var reserved, allocated int64
	a.Layout(func(p caching.Placed) {
		placed = append(placed, p)
		reserved += p.Size
		if !p.Free && !p.Pending {
			allocated += p.Size
		}
	})
	slices.SortFunc(placed, func(a, b caching.Placed) int { return cmp.Compare(a.Addr, b.Addr) })
	for i, p := range placed {
		if p.Size <= 0 {
			t.Fatalf("a block of %d bytes at %#x", p.Size, p.Addr)
		}
		if i > 0 && placed[i-1].Addr+uint64(placed[i-1].Size) > p.Addr {
			t.Fatalf("blocks overlap: %+v and %+v", placed[i-1], p)
		}
	}
	if reserved != a.Reserved() || allocated != a.Allocated() {
		t.Fatalf("blocks of %d bytes, %d of them live; the model counts %d and %d", reserved, allocated, a.Reserved(), a.Allocated())
	}
}

func expandable() config.Config {
	c := config.Default()
	c.Expandable = true
	return c
}

// Whatever a recording says, following and replaying it end, soon, and count what it says.
func FuzzFollow(f *testing.F) {
	for _, seed := range followSeeds() {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<13 {
			t.Skip()
		}
		checkFollow(t, record(data))
	})
}

// followSeeds are programs of each setting, whole and damaged.
func followSeeds() [][]byte {
	var out [][]byte
	for flags := range byte(128) {
		for variant := range byte(3) {
			seed := []byte{flags}
			x := uint32(flags)*7919 + uint32(variant)*104729 + 1
			for range 200 {
				x = x*1664525 + 1013904223
				b := byte(x >> 24)
				if variant == 0 && b >= 214 {
					b -= 100
				}
				seed = append(seed, b)
			}
			out = append(out, seed)
		}
	}
	return out
}

// What the model does, recorded as PyTorch records, is followed without a difference.
func TestFollowModel(t *testing.T) {
	exact := 0
	for i, seed := range followSeeds() {
		r := record(seed)
		f := checkFollow(t, r)
		if r.damaged || r.untold {
			continue
		}
		exact++
		if !f.Score.Exact() {
			t.Errorf("seed %d: %+v, first %+v", i, f.Score, f.Score.First)
		}
	}
	if exact < 50 {
		t.Errorf("only %d recordings were whole", exact)
	}
}
