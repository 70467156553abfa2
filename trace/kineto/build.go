package kineto

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/vramscope/vramscope/trace"
)

// noLane marks an event whose thread the file does not tell.
const noLane = trace.StackID(math.MaxUint32)

// device gathers a device's events. Until build, an event has in Stack the number of its lane, in Size what
// the file has, so less than 0 for a free, and in Block the number of the level that the allocator had reserved then,
// counted from 1.
type device struct {
	events trace.Events
	noAddr int

	levels    map[int64]uint32 // numbers of levels
	reserved  []int64          // levels; there are few different ones
	first     int64            // what the allocator had in use before the first event
	firstTime trace.Time
	hasTotals bool

	mostAllocated, mostReserved int64 // as the allocator counted, bytes
}

// totals notes what the allocator said that it had after an event.
func (d *device) totals(e *trace.Event, allocated, reserved int64) {
	if !d.hasTotals || e.Time < d.firstTime {
		d.hasTotals, d.firstTime = true, e.Time
		d.first = allocated
		if e.Op == trace.OpAlloc {
			d.first -= e.Size // alloc or free, by its sign
		}
	}
	d.mostAllocated = max(d.mostAllocated, allocated)
	d.mostReserved = max(d.mostReserved, reserved)
	n, ok := d.levels[reserved]
	if !ok {
		d.reserved = append(d.reserved, reserved)
		n = uint32(len(d.reserved))
		d.levels[reserved] = n
	}
	e.Block = trace.BlockID(n)
}

// Kinds of devices, as c10 numbers them.
const (
	kindCPU  = 0
	kindCUDA = 1
	kindHIP  = 6
)

var kindNames = map[int64]string{kindCPU: "CPU", kindCUDA: "CUDA", kindHIP: "HIP", 9: "XLA", 12: "XPU", 13: "MPS", 15: "HPU", 19: "MTIA", 20: "PrivateUse1"}

// build makes the trace.
func (c *chrome) build(s *stream) *trace.Trace {
	t := &trace.Trace{Stacks: c.stacks}
	t.Settings.MaxSplitSize = -1
	shift := c.clock(t)
	slices.SortStableFunc(c.order, func(a, b deviceKey) int {
		return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.kind, b.kind))
	})
	host := 0
	for _, k := range c.order {
		d := c.device1(k, shift)
		if k.kind == kindCPU {
			d.Index, d.Name = -1, "CPU"
			host += d.Events.Len()
			t.Beside = append(t.Beside, d)
			continue
		}
		p := c.props[k.id]
		d.Index = int(max(-1, min(k.id, math.MaxInt32)))
		d.Name, d.Capacity = p.name, p.capacity
		if d.Name == "" || k.kind != kindCUDA && k.kind != kindHIP {
			d.Name, d.Capacity = kindNames[k.kind], 0
		}
		t.Devices = append(t.Devices, d)
	}
	for _, m := range c.markers {
		t.Markers = append(t.Markers,
			trace.Marker{Time: trace.Time(m.start + shift), Device: -1, Name: m.name, Edge: trace.EdgeStart},
			trace.Marker{Time: trace.Time(m.end + shift), Device: -1, Name: m.name, Edge: trace.EdgeEnd})
	}
	slices.SortStableFunc(t.Markers, func(a, b trace.Marker) int { return cmp.Compare(a.Time, b.Time) })
	t.Source.Format = "Kineto trace"
	t.Source.Producer = "torch.profiler"
	t.Source.Bytes = s.offset()
	t.Source.Cut = s.cut
	t.Source.Rank = c.rank
	t.Source.Counts = []trace.Count{{What: "events in the file", N: s.events}, {What: "memory events", N: c.memory}, {What: "memory events of the host", N: host}}
	t.Source.Lacks = c.lacks(len(t.Devices) > 0)
	c.warnings(t, s)
	return t
}

// clock says what times count from, and what to add to them. The base time stands behind the events, so
// that a file which was cut may lack it; times since the epoch are far larger than any without.
func (c *chrome) clock(t *trace.Trace) (shift int64) {
	if c.base > 0 {
		return c.base
	}
	const year2000 = 946684800 * 1_000_000_000
	for _, d := range c.devices {
		if d.events.Len() > 0 && d.events.At(0).Time < year2000 {
			t.Source.Clock = trace.ClockRecording
		}
	}
	return 0
}

// device1 makes one device of what was gathered of it.
func (c *chrome) device1(k deviceKey, shift int64) trace.Device {
	g := c.devices[k]
	d := trace.Device{Content: trace.Requests, Rounded: true, Streams: []uint64{0}, Pools: []trace.Pool{{}}}
	sortByTime(&g.events)
	c.name(&g.events)
	reserved := trace.Series{Quantity: trace.AllocatorReserved}
	for _, e := range g.events.All() {
		e.Time += trace.Time(shift)
		if e.Block != 0 {
			reserved.Add(e.Time, g.reserved[e.Block-1])
		}
		e.Block, e.Pool = trace.NoBlock, trace.PoolUnknown
		if e.Op == trace.OpAlloc && e.Size < 0 {
			e.Op, e.Size = trace.OpFree, -e.Size
		}
	}
	d.Events = g.events
	if reserved.Samples > 0 && g.mostReserved > 0 {
		d.Series = append(d.Series, reserved)
	}
	if g.noAddr > 0 {
		guessAddresses(&d.Events)
		d.Warnings = append(d.Warnings, trace.Warning{Code: "no-addresses", Count: g.noAddr, First: -1,
			Message: "memory events have no addresses (torch before 1.10): a free is taken to be of the newest block of its size"})
	}
	trace.Pair(&d)
	for i := range d.Initial.Blocks {
		b := &d.Initial.Blocks[i]
		b.Size = b.Requested // sizes are rounded already
	}
	if g.hasTotals {
		older(&d, g.first)
	}
	return d
}

// older adds the memory that was in use before the first event and was not freed after it, which shows only in
// the allocator's totals, as one block without an address.
func older(d *trace.Device, level int64) {
	for _, b := range d.Initial.Blocks {
		level -= b.Requested
	}
	if level <= 0 {
		return
	}
	d.Initial.Blocks = slices.Insert(d.Initial.Blocks, 0, trace.Block{
		ID: trace.BlockID(d.NumBlocks), State: trace.BlockLive, Size: level, Requested: level})
	d.NumBlocks++
}

// sortByTime brings the events into the order of their times; those with the same keep theirs.
func sortByTime(l *trace.Events) {
	n := l.Len()
	sorted := true
	for i := 1; i < n && sorted; i++ {
		sorted = l.At(i-1).Time <= l.At(i).Time
	}
	if sorted {
		return
	}
	from := make([]uint32, n) // which event goes to a place
	for i := range from {
		from[i] = uint32(i)
	}
	slices.SortStableFunc(from, func(a, b uint32) int { return cmp.Compare(l.At(int(a)).Time, l.At(int(b)).Time) })
	for i := range from {
		if int(from[i]) == i {
			continue
		}
		first, at := *l.At(i), i
		for int(from[at]) != i {
			next := int(from[at])
			*l.At(at) = *l.At(next)
			from[at] = uint32(at)
			at = next
		}
		*l.At(at) = first
		from[at] = uint32(at)
	}
}

// name gives the events, which are sorted, the stacks of what enclosed them.
func (c *chrome) name(l *trace.Events) {
	sweeps := make([]*sweep, len(c.lanes))
	var buf []trace.FrameID
	for _, e := range l.All() {
		if e.Stack == noLane {
			e.Stack = trace.NoStack
			continue
		}
		s := sweeps[e.Stack]
		if s == nil {
			s = c.lanes[e.Stack].sweep()
			sweeps[e.Stack] = s
		}
		e.Stack, buf = s.at(int64(e.Time), c.stacks, buf)
	}
}

// guessAddresses gives blocks addresses of their own where the file has none.
func guessAddresses(l *trace.Events) {
	const far = 1 << 52 // addresses there are no device's
	next := uint64(far)
	live := map[int64][]uint64{} // by size, the newest last
	for _, e := range l.All() {
		if e.Addr != 0 || e.Op != trace.OpAlloc && e.Op != trace.OpFree {
			continue
		}
		if own := live[e.Size]; e.Op == trace.OpFree && len(own) > 0 {
			e.Addr = own[len(own)-1]
			live[e.Size] = own[:len(own)-1]
			continue
		}
		e.Addr = next
		next += uint64(e.Size)
		if e.Op == trace.OpAlloc {
			live[e.Size] = append(live[e.Size], e.Addr)
		}
	}
}

// lacks says what such a trace cannot tell.
func (c *chrome) lacks(devices bool) []trace.Lack {
	const profile = "torch.profiler.profile(profile_memory=True, with_stack=True, record_shapes=True)"
	if c.memory == 0 {
		return []trace.Lack{{What: "memory: it was recorded without profile_memory", Instead: profile}}
	}
	l := []trace.Lack{
		{What: "streams, private pools, segments, and the sizes that were asked for (these are rounded to 512 bytes)",
			Instead: "a memory snapshot: " + snapshotHow},
	}
	if !c.python && !c.text {
		l = append(l, trace.Lack{What: "the lines of code, only operators", Instead: profile})
	}
	if !devices {
		l = append(l, trace.Lack{What: "any device's memory, only the host's", Instead: "profile a run on a GPU"})
	}
	return l
}

func (c *chrome) warnings(t *trace.Trace, s *stream) {
	add := func(code string, count, first int, format string, args ...any) {
		if count > 0 {
			t.Warnings = append(t.Warnings, trace.Warning{Code: code, Message: fmt.Sprintf(format, args...), Count: count, First: first})
		}
	}
	if s.cut {
		add("cut", 1, -1, "the file ends in the middle, after %d events: what came before is used", s.events)
	}
	if c.memory == 0 {
		add("no-memory-events", 1, -1, "the trace has no [memory] events: it was recorded without profile_memory=True")
	}
	if t.Source.Clock == trace.ClockRecording {
		add("no-base-time", 1, -1, "the time that the others count from is missing: they are relative")
	}
	add("bad-event", s.bad, -1, "events are no JSON and were left out, the first at byte %d", s.firstBad)
	add("bad-memory-event", c.badMemory.count, -1, "memory events lack a size, a device or a time and were left out")
	add("more-annotations", c.oddMarkers, -1, "annotations beyond the first %d were left out", maxMarkers)
	add("more-devices", c.oddDevices, -1, "memory events are of devices beyond the first %d and were left out", maxDevices)
}
