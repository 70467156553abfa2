package cupti

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/trace"
)

// Finish puts the trace together: devices, memory that is none of theirs, markers and warnings. The source
// adds what it knows of the file.
func (r *Recording) Finish() *trace.Trace {
	r.drain(farthest)
	r.ranges.nest()
	r.attribute()
	r.fail()
	t := &trace.Trace{Stacks: r.Stacks, Settings: trace.Settings{MaxSplitSize: -1}}
	for _, l := range r.order {
		l.sortEvents()
		l.dropRepeated()
		l.streams.Settle(&l.Device)
		trace.Pair(&l.Device)
	}
	r.devices(t)
	r.beside(t)
	t.Markers = r.markers()
	r.warnings(t)
	return t
}

// attribute gives the allocations their stacks.
func (r *Recording) attribute() {
	for _, l := range r.order {
		for _, o := range l.origins {
			e := l.Events.At(int(o.event))
			chain := trace.StackID(o.chain)
			if o.call != 0 {
				chain = trace.NoStack // nobody looked for the call
			}
			e.Stack = r.ranges.stack(r.Stacks, o.thread, int64(e.Time)-r.Epoch, chain)
		}
		l.origins = nil
	}
}

// sortEvents brings the events into the order of time, if they are not.
func (l *lane) sortEvents() {
	if !l.unsorted {
		return
	}
	all := make([]trace.Event, 0, l.Events.Len())
	for _, e := range l.Events.All() {
		all = append(all, *e)
	}
	slices.SortStableFunc(all, func(a, b trace.Event) int { return cmp.Compare(a.Time, b.Time) })
	l.Events = trace.EventsOf(all...)
}

// dropRepeated leaves out allocations of managed memory that is there already: managed variables are told
// once for each library and context that sees them.
func (l *lane) dropRepeated() {
	if l.class != managedClass {
		return
	}
	var all trace.Events
	live := map[uint64]int64{}
	for _, e := range l.Events.All() {
		switch e.Op {
		case trace.OpAlloc:
			if size, ok := live[e.Addr]; ok && size == e.Size {
				continue
			}
			live[e.Addr] = e.Size
		case trace.OpFree:
			delete(live, e.Addr)
		}
		all.Append(*e)
	}
	l.Events = all
}

// devices puts the lanes of device memory together by GPU.
func (r *Recording) devices(t *trace.Trace) {
	index := r.indexes()
	byGPU := map[int][]*lane{}
	for _, l := range r.order {
		if l.class == deviceClass {
			i := index(l)
			byGPU[i] = append(byGPU[i], l)
		}
	}
	for _, i := range slices.Sorted(maps.Keys(byGPU)) {
		d := merge(byGPU[i])
		d.Index = i
		if g := r.gpuOf(byGPU[i][0]); g != nil {
			d.Name, d.UUID, d.Capacity = clean(g.Name), clean(g.UUID), max(0, min(g.Memory, trace.MaxSize))
		}
		if n := len(byGPU[i]); n > 1 {
			d.Warnings = append(d.Warnings, trace.Warning{Code: "several-processes", Count: n, First: -1,
				Message: "processes used this device: their memory is counted together, and addresses of one may be those of another"})
		}
		t.Devices = append(t.Devices, d)
	}
}

// indexes says by which number to call the device of a lane: the ordinal that the program uses, unless
// processes mean different GPUs by one ordinal, or one GPU by different ordinals.
func (r *Recording) indexes() func(*lane) int {
	gpuOf, ordinalOf, clear := map[int64]int64{}, map[int64]int64{}, true
	for _, l := range r.order {
		if l.class != deviceClass {
			continue
		}
		g := r.gpuOf(l)
		if g == nil {
			return func(l *lane) int { return int(l.device) }
		}
		a, seenA := gpuOf[l.device]
		b, seenB := ordinalOf[g.ID]
		clear = clear && (!seenA || a == g.ID) && (!seenB || b == l.device)
		gpuOf[l.device], ordinalOf[g.ID] = g.ID, l.device
	}
	if clear {
		return func(l *lane) int { return int(l.device) }
	}
	return func(l *lane) int { return int(r.gpuOf(l).ID) }
}

// gpuOf is the GPU that the process of a lane means, nil if the file does not tell.
func (r *Recording) gpuOf(l *lane) *GPU {
	id, told := int64(-1), false
	for _, m := range r.Mappings {
		if m.Ordinal == l.device && m.PID == PIDOf(l.process) {
			id, told = m.GPU, true
		}
	}
	for i := range r.GPUs {
		g := &r.GPUs[i]
		if told && g.ID == id || !told && (g.CUDevice == l.device || g.CUDevice < 0 && g.ID == l.device) {
			return g
		}
	}
	return nil
}

// beside puts the lanes of other memory together by class.
func (r *Recording) beside(t *trace.Trace) {
	for c := deviceClass + 1; c < numClasses; c++ {
		var lanes []*lane
		for _, l := range r.order {
			if l.class == c {
				lanes = append(lanes, l)
			}
		}
		if len(lanes) == 0 {
			continue
		}
		d := merge(lanes)
		d.Index, d.Name = -1, classNames[c]
		t.Beside = append(t.Beside, d)
	}
}

// merge makes one device of lanes whose blocks have been paired: events in the order of time, each with its
// block, stream and pool, which are counted on from lane to lane.
func merge(lanes []*lane) trace.Device {
	d := lanes[0].Device
	if len(lanes) == 1 {
		return d
	}
	type source struct {
		*lane
		next    int
		block   trace.BlockID
		streams []trace.StreamID
		pool    trace.PoolID
	}
	d.Events, d.Streams, d.Pools, d.PoolInfo, d.NumBlocks, d.Initial, d.Warnings = trace.Events{}, nil, nil, nil, 0, trace.State{}, nil
	for _, l := range lanes {
		d.Streams = append(d.Streams, l.Streams...)
	}
	slices.Sort(d.Streams)
	d.Streams = slices.Compact(d.Streams)
	from := make([]source, len(lanes))
	for i, l := range lanes {
		s := source{lane: l, block: trace.BlockID(d.NumBlocks), pool: trace.PoolID(max(0, len(d.Pools)-1))}
		for _, h := range l.Streams {
			k, _ := slices.BinarySearch(d.Streams, h)
			s.streams = append(s.streams, trace.StreamID(k))
		}
		d.NumBlocks += l.NumBlocks
		skip := min(i, 1) // the default pool is one for all
		if room := int(trace.PoolUnknown) - len(d.Pools); room >= len(l.Pools) {
			d.Pools = append(d.Pools, l.Pools[skip:]...)
			d.PoolInfo = append(d.PoolInfo, l.PoolInfo[skip:]...)
		}
		for _, b := range l.Initial.Blocks {
			b.ID += s.block
			b.Stream = s.streams[b.Stream]
			d.Initial.Blocks = append(d.Initial.Blocks, b)
		}
		for _, w := range l.Warnings {
			w.First = -1
			d.Warnings = add(d.Warnings, w)
		}
		from[i] = s
	}
	slices.SortStableFunc(d.Initial.Blocks, func(a, b trace.Block) int { return cmp.Compare(a.Addr, b.Addr) })
	for {
		var s *source
		for i := range from {
			if x := &from[i]; x.next < x.Events.Len() && (s == nil || x.Events.At(x.next).Time < s.Events.At(s.next).Time) {
				s = x
			}
		}
		if s == nil {
			return d
		}
		e := *s.Events.At(s.next)
		s.next++
		if e.Block != trace.NoBlock {
			e.Block += s.block
		}
		e.Stream = s.streams[e.Stream]
		if e.Pool != trace.PoolDefault && e.Pool != trace.PoolUnknown {
			if e.Pool += s.pool; int(e.Pool) >= len(d.Pools) {
				e.Pool = trace.PoolUnknown
			}
		}
		d.Events.Append(e)
	}
}

// add puts a warning to one of its kind, if there is one.
func add(list []trace.Warning, w trace.Warning) []trace.Warning {
	for i := range list {
		if list[i].Code == w.Code && list[i].Message == w.Message {
			list[i].Count += w.Count
			return list
		}
	}
	return append(list, w)
}

func (r *Recording) warnings(t *trace.Trace) {
	add := func(n int, code, message string) {
		if n > 0 {
			t.Warnings = append(t.Warnings, trace.Warning{Code: code, Message: message, Count: n, First: -1})
		}
	}
	add(r.badSizes, "bad-record", "memory events have a negative size, or free nothing: they were left out")
	add(r.badTimes, "bad-time", "times are none that a recording can have: they were left out")
	add(r.manyPools, "many-pools", "events are in pools beyond those that are told apart")
	if len(t.Devices) > 0 { // otherwise it is the same of all calls, and said elsewhere
		add(r.unplaced, "oom-unplaced", "calls were refused memory, of a process of which no memory is known")
	}
	for i := range t.Devices {
		t.Devices[i].Warnings = append(t.Devices[i].Warnings, sizeUnknown(&t.Devices[i])...)
	}
	if len(r.other) > 0 {
		names := slices.Sorted(maps.Keys(r.other))
		n := 0
		for _, c := range r.other {
			n += c
		}
		names = slices.DeleteFunc(names, func(s string) bool { return s == "" })
		which := ""
		if len(names) > 0 {
			which = " (" + strings.Join(names[:min(3, len(names))], ", ") + ")"
		}
		add(n, "other-oom", "calls failed for lack of memory that allocate none by name"+which)
	}
}

// sizeUnknown tells that failures are recorded without the size that was asked for, and what can be guessed
// of it: programs often ask for the same again until there is no more.
func sizeUnknown(d *trace.Device) []trace.Warning {
	failures, repeated, size := 0, 0, int64(-1)
	for _, e := range d.Events.All() {
		switch {
		case e.Op == trace.OpOOM:
			failures++
		case failures > 0 || e.Op.IsSegment():
		case e.Op != trace.OpAlloc:
			size = -1
		case e.Size == size:
			repeated++
		default:
			size, repeated = e.Size, 1
		}
	}
	if failures == 0 {
		return nil
	}
	message := "calls were refused memory; how much they asked for was not recorded"
	if size >= 0 && repeated >= 3 {
		message += fmt.Sprintf(", but the %d allocations before the first of them were of %d bytes each", repeated, size)
	}
	return []trace.Warning{{Code: "oom-size-unknown", Message: message, Count: failures, First: -1}}
}
