package perfetto

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/trace"
)

// device is a device that is being written.
type device struct {
	*file
	*report.Device
	pid      int
	at       []int64      // when each event was, in nanoseconds since zero; never decreasing
	places   []place      // what held most at the peak
	ofStack  []int32      // by stack: its number in places, -1 for none
	lives    []life       // by block
	names    []string     // by stack: the place in the code; "" as long as nobody asked
	reserved trace.Series // what the allocator held, nothing where events do not show it
}

// place is a place in the code, or a kind of blocks without one.
type place struct {
	name   string
	bytes  int64 // at the peak
	held   int64 // now
	levels trace.Series
}

// life is what the file shows of a block: from its allocation to the free that the program asked for.
type life struct {
	from, to  int64
	requested int64
	addr      uint64
	stack     trace.StackID
	stream    trace.StreamID
	seen      bool // it was allocated in the recording, or is older
	old       bool // older than the recording
	freed     bool
}

// device writes a recording of events.
func (f *file) device(pid int, d *report.Device) {
	x := &device{file: f, Device: d, pid: pid}
	x.times()
	x.findPlaces()
	x.walk()
	x.steps()
	x.segments()
	x.failures()
	x.blocks()
}

func (d *device) tid(n int) int { return d.pid<<threadBits + n }

// times says when each event was. Without times an event is a microsecond.
func (d *device) times() {
	n := d.Trace.Events.Len()
	d.at = make([]int64, n)
	timed := d.last > 0 || d.zero > 0
	var last int64
	for i, e := range d.Trace.Events.All() {
		switch {
		case !timed:
			last = int64(i) * 1000
		case e.Time != 0 || d.zero == 0:
			last = max(last, int64(e.Time-d.zero))
		}
		d.at[i] = last
	}
}

// nameOf is the place in the code of a stack.
func (d *device) nameOf(s trace.StackID, old bool) string {
	switch {
	case s == trace.NoStack && old:
		return report.BeforeRecording
	case s == trace.NoStack && d.t.Stacks.Len() <= 1:
		return report.WithoutStacks
	case s == trace.NoStack:
		return report.WithoutStack
	}
	if d.names == nil {
		d.names = make([]string, d.t.Stacks.Len())
	}
	if int(s) >= len(d.names) {
		return report.WithoutStack
	}
	if d.names[s] == "" {
		d.names[s] = report.PlaceOf(d.t.Stacks, s).String()
	}
	return d.names[s]
}

// findPlaces finds what held most at the peak.
func (d *device) findPlaces() {
	h := &d.PeakAllocated.Holders
	index := map[string]int{}
	add := func(name string, bytes int64) {
		i, ok := index[name]
		if !ok {
			i = len(d.places)
			index[name] = i
			d.places = append(d.places, place{name: name})
		}
		d.places[i].bytes += bytes
	}
	for _, x := range h.ByStack {
		add(d.nameOf(x.Stack, false), x.Bytes)
	}
	add(d.nameOf(trace.NoStack, true), h.Before)
	add(d.nameOf(trace.NoStack, false), h.Unattributed)
	d.places = slices.DeleteFunc(d.places, func(p place) bool { return p.bytes == 0 })
	slices.SortStableFunc(d.places, func(a, b place) int { return cmp.Compare(b.bytes, a.bytes) })
	d.places = d.places[:min(len(d.places), mostPlaces)]
	clear(index)
	for i := range d.places {
		d.places[i].levels.Quantity = trace.Allocated
		d.places[i].levels.Limit(mostPlacePoints)
		index[d.places[i].name] = i
	}
	d.ofStack = make([]int32, d.t.Stacks.Len())
	for s := range d.ofStack {
		d.ofStack[s] = -1
		if s == int(trace.NoStack) {
			continue
		}
		if i, ok := index[d.nameOf(trace.StackID(s), false)]; ok {
			d.ofStack[s] = int32(i)
		}
	}
}

// placeOf is the place that a block counts for, nil for none that is shown.
func (d *device) placeOf(l *life) *place {
	if l.stack == trace.NoStack {
		name := d.nameOf(trace.NoStack, l.old)
		for i := range d.places {
			if d.places[i].name == name {
				return &d.places[i]
			}
		}
		return nil
	}
	if int(l.stack) < len(d.ofStack) && d.ofStack[l.stack] >= 0 {
		return &d.places[d.ofStack[l.stack]]
	}
	return nil
}

// walk goes through the events once: it adds up the counters, writes them, and finds out how long each block lived.
func (d *device) walk() {
	dev, sizes := d.Trace, d.Follow.Sizes
	allocated := trace.Series{Quantity: trace.Allocated}
	allocated.Limit(mostPoints)
	d.reserved.Quantity = trace.AllocatorReserved
	d.reserved.Limit(mostPoints)
	d.lives = make([]life, min(dev.NumBlocks, len(sizes)))
	var used, held int64
	end := d.at[len(d.at)-1]
	hold := func(l *life, id trace.BlockID, sign int64, ns int64) {
		used += sign * sizes[id]
		if p := d.placeOf(l); p != nil {
			p.held += sign * sizes[id]
			p.levels.Add(trace.Time(ns), p.held)
		}
	}
	for _, b := range d.Follow.Requests.Initial {
		if b.State != trace.BlockLive || int(b.ID) >= len(d.lives) {
			continue
		}
		l := &d.lives[b.ID]
		*l = life{to: end, requested: b.Requested, addr: b.Addr, stack: b.Stack, stream: b.Stream, seen: true, old: true}
		hold(l, b.ID, 1, 0)
	}
	held = d.heldBefore()
	allocated.Add(0, used)
	d.reserved.Add(0, held)
	for i, e := range dev.Events.All() {
		ns := d.at[i]
		if int(e.Block) < len(d.lives) {
			l := &d.lives[e.Block]
			switch e.Op {
			case trace.OpAlloc:
				*l = life{from: ns, to: end, requested: e.Size, addr: e.Addr, stack: e.Stack, stream: e.Stream, seen: true}
				hold(l, e.Block, 1, ns)
			case trace.OpFreeRequested, trace.OpFree:
				if l.seen && !l.freed {
					l.freed, l.to = true, ns
					hold(l, e.Block, -1, ns)
				}
			}
		}
		held += d.took(e)
		allocated.Add(trace.Time(ns), used)
		d.reserved.Add(trace.Time(ns), held)
	}
	d.series(d.pid, "allocated", &allocated, 0)
	if counted := trace.FindSeries(dev.Series, trace.AllocatorReserved); dev.Content == trace.Requests && counted != nil {
		d.series(d.pid, "reserved", counted, d.zero)
	} else if d.reserved.Max > 0 {
		d.series(d.pid, "reserved", &d.reserved, 0)
	}
	for i := range d.places {
		p := &d.places[i]
		p.levels.Add(trace.Time(end), p.held)
		d.series(d.pid, "held by "+p.name, &p.levels, 0)
	}
	d.point("peak: "+report.Bytes(d.PeakAllocated.Allocated)+" allocated", d.PeakAllocated)
}

// point marks a peak.
func (d *device) point(name string, p report.Peak) {
	var ns int64
	if p.Event >= 0 {
		ns = d.at[p.Event]
	}
	d.instant(d.pid, 0, "peak", name, ns)
	d.args()
	d.number("allocated_bytes", p.Allocated)
	if p.Reserved > 0 {
		d.number("reserved_bytes", p.Reserved)
	}
	d.number("event", int64(p.Event))
	d.end("}}")
}

// took is by how much an event changes what is held from the driver.
func (d *device) took(e *trace.Event) int64 {
	switch e.Op {
	case trace.OpSegmentAlloc, trace.OpSegmentMap:
		return e.Size
	case trace.OpSegmentFree, trace.OpSegmentUnmap:
		return -e.Size
	}
	if int(e.Pool) >= len(d.Trace.PoolInfo) || !d.Trace.PoolInfo[e.Pool].Direct || int(e.Block) >= len(d.Follow.Sizes) {
		return 0
	}
	switch e.Op {
	case trace.OpAlloc:
		return d.Follow.Sizes[e.Block]
	case trace.OpFreeRequested, trace.OpFree:
		return -d.Follow.Sizes[e.Block]
	}
	return 0
}

// heldBefore is what was held before the first event: what was held at the end, less what came and went.
func (d *device) heldBefore() int64 {
	n := d.Follow.End.Reserved
	for _, e := range d.Trace.Events.All() {
		n -= d.took(e)
	}
	return n
}

// steps writes the steps of the program.
func (d *device) steps() {
	steps := d.Steps.Steps
	if len(steps) == 0 {
		return
	}
	d.meta(d.pid, d.tid(stepsTID), "steps ("+d.Steps.Source+")")
	for i, s := range steps {
		if i == mostAnnotations {
			d.leave("steps", len(steps), len(steps)-i)
			break
		}
		if s.From >= s.To || s.To > len(d.at) {
			continue
		}
		to := d.at[s.To-1]
		d.complete(d.pid, d.tid(stepsTID), "step", "step "+d.Steps.Label(i), d.at[s.From], to)
		d.args()
		d.number("first_event", int64(s.From))
		d.number("events", int64(s.To-s.From))
		d.end("}}")
	}
}

// segments writes what the allocator took of the driver and gave back, the largest if there is much of it.
func (d *device) segments() {
	var list []int
	for i, e := range d.Trace.Events.All() {
		if e.Op.IsSegment() {
			list = append(list, i)
		}
	}
	if len(list) == 0 {
		return
	}
	all := len(list)
	if all > mostSegments {
		size := func(i int) int64 { return d.Trace.Events.At(i).Size }
		slices.SortStableFunc(list, func(a, b int) int { return cmp.Compare(size(b), size(a)) })
		list = list[:mostSegments]
		slices.Sort(list)
	}
	d.leave("segment events", all, all-len(list))
	tid := d.tid(segmentsTID)
	d.meta(d.pid, tid, "segments")
	for _, i := range list {
		e := d.Trace.Events.At(i)
		d.instant(d.pid, tid, "segment", e.Op.String()+" "+report.Bytes(e.Size), d.at[i])
		d.args()
		d.number("bytes", e.Size)
		d.hex("address", e.Addr)
		d.text("stream", report.StreamName(d.Trace, e.Stream))
		d.number("event", int64(i))
		d.end("}}")
	}
}

// failures writes where memory ran out.
func (d *device) failures() {
	for i, o := range d.OOMs {
		if i == mostAnnotations {
			d.leave("out-of-memory events", len(d.OOMs), len(d.OOMs)-i)
			break
		}
		name := "out of memory"
		if o.Requested > 0 {
			name += ": asked " + report.Bytes(o.Requested)
		}
		d.instant(d.pid, 0, "oom", name, d.at[o.Event])
		d.args()
		if o.Requested > 0 {
			d.number("requested_bytes", o.Requested)
		}
		d.number("allocated_bytes", o.Allocated)
		if o.Reserved > 0 {
			d.number("reserved_bytes", o.Reserved)
		}
		if o.DeviceFree > 0 {
			d.number("device_free_bytes", o.DeviceFree)
		}
		d.text("verdict", o.Verdict)
		d.text("why", o.Why)
		d.number("event", int64(o.Event))
		d.end("}}")
	}
}

// blocks writes the blocks, those that took most memory for longest if there are many.
func (d *device) blocks() {
	var list []trace.BlockID
	for id := range d.lives {
		if d.lives[id].seen && d.Follow.Sizes[id] > 0 {
			list = append(list, trace.BlockID(id))
		}
	}
	all := len(list)
	if all > mostBlocks {
		weight := func(id trace.BlockID) float64 {
			l := &d.lives[id]
			return float64(d.Follow.Sizes[id]) * float64(l.to-l.from+1)
		}
		slices.SortStableFunc(list, func(a, b trace.BlockID) int { return cmp.Compare(weight(b), weight(a)) })
		list = list[:mostBlocks]
	}
	slices.SortStableFunc(list, func(a, b trace.BlockID) int { return cmp.Compare(d.lives[a].from, d.lives[b].from) })
	d.leave("blocks", all, all-len(list))
	for _, id := range list {
		d.block(id)
	}
}

func (d *device) block(id trace.BlockID) {
	l := &d.lives[id]
	name := d.nameOf(l.stack, l.old)
	number := uint64(d.Index)<<32 | uint64(id)
	d.async('b', d.pid, "block", name, number, l.from)
	d.args()
	d.number("bytes", d.Follow.Sizes[id])
	if l.requested > 0 && !d.Trace.Rounded {
		d.number("requested_bytes", l.requested)
	}
	if l.addr != 0 {
		d.hex("address", l.addr)
	}
	d.text("stream", report.StreamName(d.Trace, l.stream))
	if s := d.stackText(l.stack); s != "" {
		d.text("stack", s)
	}
	if !l.freed {
		d.text("freed", "never")
	}
	d.end("}}")
	d.async('e', d.pid, "block", name, number, l.to)
	d.end("}")
}

// mostFrames is how many frames of a stack are written, from the innermost on.
const mostFrames = 12

func (d *device) stackText(s trace.StackID) string {
	frames := d.t.Stacks.Stack(s)
	var b strings.Builder
	for i, f := range frames[:min(len(frames), mostFrames)] {
		if i > 0 {
			b.WriteString(" < ")
		}
		if f.File == "" || f.File == "??" {
			b.WriteString(f.Func)
			continue
		}
		fmt.Fprintf(&b, "%s:%d %s", f.File, f.Line, f.Func)
	}
	if n := len(frames) - mostFrames; n > 0 {
		fmt.Fprintf(&b, " < %d frames more", n)
	}
	return b.String()
}
