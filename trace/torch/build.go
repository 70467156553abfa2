package torch

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/vramscope/vramscope/internal/pickle"
	"github.com/vramscope/vramscope/trace"
)

// build makes the trace of a snapshot that was folded to root.
func (f *folder) build(root value) (*trace.Trace, error) {
	t := &trace.Trace{Stacks: f.stacks}
	var tp top
	switch root.Kind() {
	case kindTop:
		tp = *f.tops.at(int(root.Index()))
	case kindList, kindEmpty: // torch 1.12 and 1.13: the segments alone
		tp.segments = root
		if items := f.list(root); len(items) > 0 && items[0].Kind() != kindSegment {
			return nil, notSnapshot("a file of plain values")
		}
	default:
		return nil, notSnapshot("a file of plain values")
	}
	b := builder{folder: f, trace: t, top: tp, byIndex: map[int]*trace.Device{}}
	b.budget.events, b.budget.segments, b.budget.blocks = f.events.Len(), f.segments.len(), f.blocks.len()
	b.budget.notes, b.budget.markers = f.notes.len(), f.markers.len()
	b.events()
	b.final()
	b.number()
	b.notes()
	b.settings()
	b.warnings()
	for i := range t.Devices {
		d := &t.Devices[i]
		trace.CutStale(d)
		trace.Rewind(d)
		trace.Pair(d)
	}
	t.Source.Format = "PyTorch snapshot"
	t.Source.Producer = b.producer()
	return t, nil
}

// builder puts the records together by device.
type builder struct {
	*folder
	trace   *trace.Trace
	top     top
	byIndex map[int]*trace.Device
	order   []int // indexes of devices
	gaps    tally // blocks that do not tile their segment

	// A pickle may refer to the same list any number of times, but a recording has each record once. So
	// no more are taken than there are, whatever the lists say.
	budget struct{ events, segments, blocks, notes, markers int }
	again  tally
}

// spend takes n records out of what is left of their kind, and says how many may be used.
func (b *builder) spend(left *int, n int) int {
	if n > *left {
		b.again.add(-1)
		n = *left
	}
	*left -= n
	return n
}

func (b *builder) device(i int) *trace.Device {
	d := b.byIndex[i]
	if d == nil {
		d = &trace.Device{Index: i}
		b.byIndex[i] = d
		b.order = append(b.order, i)
	}
	return d
}

// events gives each device its part of the events.
func (b *builder) events() {
	lists := b.list(b.top.traces)
	if slices.ContainsFunc(lists, func(v value) bool { return v.Kind() == kindEvent }) {
		lists = []value{b.top.traces} // the events of a single device, without the list around
	}
	i := 0
	for _, l := range lists {
		for j := range l.Count() {
			if i == maxDevices {
				return
			}
			if l.Kind() == kindList {
				b.deviceEvents(i, b.lists.at(int(l.Index())+j))
			}
			i++
		}
	}
}

func (b *builder) deviceEvents(device int, items []value) {
	d := b.device(device)
	for _, it := range items {
		switch it.Kind() {
		case kindEvent:
			b.take(d, int(it.Index()), b.spend(&b.budget.events, it.Count()))
		case kindMarker:
			for j := range b.spend(&b.budget.markers, it.Count()) {
				m := b.markers.at(int(it.Index()) + j)
				b.trace.Markers = append(b.trace.Markers, trace.Marker{Time: m.time, Device: device, Name: m.name, Edge: m.edge})
			}
		}
	}
}

// take moves n events from the common list to a device's.
func (b *builder) take(d *trace.Device, from, n int) {
	if from == 0 && n == b.folder.events.Len() && d.Events.Len() == 0 {
		d.Events, b.folder.events = b.folder.events, trace.Events{}
		return
	}
	for i := from; i < from+n && i < b.folder.events.Len(); i++ {
		if i%trace.PageEvents == 0 {
			b.folder.events.Release(i)
		}
		d.Events.Append(*b.folder.events.At(i))
	}
}

// final gives each device its segments and blocks.
func (b *builder) final() {
	segs := b.list(b.top.segments)
	for _, it := range segs {
		if it.Kind() != kindSegment {
			continue
		}
		for j := range b.spend(&b.budget.segments, it.Count()) {
			b.segment(b.segments.at(int(it.Index()) + j))
		}
	}
	told := b.top.segments.Kind() == kindList || b.top.segments.Kind() == kindEmpty
	for _, d := range b.byIndex {
		d.HasFinal = told
		slices.SortStableFunc(d.Final.Segments, func(x, y trace.Segment) int { return cmp.Compare(x.Addr, y.Addr) })
		slices.SortStableFunc(d.Final.Blocks, func(x, y trace.Block) int { return cmp.Compare(x.Addr, y.Addr) })
	}
}

func (b *builder) segment(s *rawSegment) {
	d := b.device(s.device)
	d.Final.Segments = append(d.Final.Segments, trace.Segment{
		Addr: s.addr, Size: s.size, Stream: trace.StreamID(s.stream), Pool: s.pool,
		Small: s.small, KindKnown: s.kindKnown, Expandable: s.expandable, Stack: s.stack,
	})
	at := s.addr
	for _, it := range b.list(s.blocks) {
		if it.Kind() != kindBlock {
			continue
		}
		for j := range b.spend(&b.budget.blocks, it.Count()) {
			r := b.blocks.at(int(it.Index()) + j)
			addr := at
			if r.hasAddr {
				addr = r.addr
			}
			if addr != at {
				b.gaps.add(-1)
			}
			d.Final.Blocks = append(d.Final.Blocks, trace.Block{
				ID: trace.NoBlock, State: r.state, Stream: trace.StreamID(s.stream),
				Addr: addr, Size: r.size, Requested: r.requested, Stack: r.stack,
			})
			at = addr + uint64(r.size)
		}
	}
	if at != s.addr+uint64(s.size) {
		b.gaps.add(-1)
	}
}

// number lists the devices by their index and gives streams and pools numbers of their own on each:
// streams by ascending handle, pools as they come.
func (b *builder) number() {
	slices.Sort(b.order)
	for _, i := range b.order {
		d := b.byIndex[i]
		usedStream := make([]bool, len(b.streams.list))
		usedPool := make([]bool, len(b.pools.list))
		usedPool[0] = true
		for i := range d.Final.Segments {
			s := &d.Final.Segments[i]
			usedStream[s.Stream] = true
			if s.Pool != trace.PoolUnknown {
				usedPool[s.Pool] = true
			}
		}
		if len(b.streams.list)+len(b.pools.list) > 2 {
			for _, e := range d.Events.All() {
				usedStream[e.Stream] = true
				if e.Pool != trace.PoolUnknown {
					usedPool[e.Pool] = true
				}
			}
		} else if d.Events.Len() > 0 {
			usedStream[0] = true
		}
		var streams []uint32
		for s, used := range usedStream {
			if used {
				streams = append(streams, uint32(s))
			}
		}
		slices.SortFunc(streams, func(x, y uint32) int { return cmp.Compare(b.streams.list[x], b.streams.list[y]) })
		streamOf := make([]trace.StreamID, len(usedStream))
		same := true
		for to, from := range streams {
			streamOf[from] = trace.StreamID(to)
			same = same && to == int(from)
			d.Streams = append(d.Streams, b.streams.list[from])
		}
		poolOf := make([]trace.PoolID, len(usedPool))
		for from, used := range usedPool {
			if used {
				poolOf[from] = trace.PoolID(len(d.Pools))
				same = same && int(poolOf[from]) == from
				d.Pools = append(d.Pools, b.pools.list[from])
			}
		}
		if !same {
			renumber(d, streamOf, poolOf)
		}
		b.trace.Devices = append(b.trace.Devices, *d)
	}
}

func renumber(d *trace.Device, streamOf []trace.StreamID, poolOf []trace.PoolID) {
	for _, e := range d.Events.All() {
		e.Stream = streamOf[e.Stream]
		if e.Pool != trace.PoolUnknown {
			e.Pool = poolOf[e.Pool]
		}
	}
	for i := range d.Final.Segments {
		s := &d.Final.Segments[i]
		s.Stream = streamOf[s.Stream]
		if s.Pool != trace.PoolUnknown {
			s.Pool = poolOf[s.Pool]
		}
	}
	for i := range d.Final.Blocks {
		d.Final.Blocks[i].Stream = streamOf[d.Final.Blocks[i].Stream]
	}
}

func (b *builder) notes() {
	for _, it := range b.list(b.top.notes) {
		if it.Kind() != kindNote {
			continue
		}
		for j := range b.spend(&b.budget.notes, it.Count()) {
			n := b.folder.notes.at(int(it.Index()) + j)
			b.trace.Markers = append(b.trace.Markers, trace.Marker{Time: n.time, Device: n.device, Name: n.name, Edge: n.edge})
		}
	}
}

func (b *builder) settings() {
	over, most := b.top.overflowed, b.top.maxEntries
	if v := b.top.settings; v.Kind() == kindSettings {
		s := b.folder.settings.at(int(v.Index()))
		b.trace.Settings = s.Settings
		if over.Kind() == pickle.KindNone {
			over = s.overflowed
		}
		if most.Kind() == pickle.KindNone {
			most = s.maxEntries
		}
	} else {
		b.trace.Settings.MaxSplitSize = -1
	}
	for i := range b.trace.Devices {
		d := &b.trace.Devices[i]
		if x, ok := b.perDevice(over, d.Index); ok && x != 0 {
			d.Overflow = true
		}
		if x, ok := b.perDevice(most, d.Index); ok && d.Overflow {
			d.Warnings = append(d.Warnings, trace.Warning{Code: "ring-overflow", Count: 1, First: 0,
				Message: fmt.Sprintf("the recording's ring buffer (%d entries) overflowed: the oldest events are lost", x)})
		} else if d.Overflow {
			d.Warnings = append(d.Warnings, trace.Warning{Code: "ring-overflow", Count: 1, First: 0,
				Message: "the recording's ring buffer overflowed: the oldest events are lost"})
		}
	}
}

// perDevice gives the value for a device of a setting that is one for all, a list or a dictionary.
func (b *builder) perDevice(v value, device int) (int64, bool) {
	switch v.Kind() {
	case kindPool: // a list of two integers
		return int64(b.pools.list[v.Index()][device&1]), device < 2
	case kindList:
		l := b.lists.at(int(v.Index()))
		for i := 0; i+1 < len(l); i += 2 {
			if l[i].Kind() == pickle.KindString && b.stringOf(l[i]) == fmt.Sprint(device) {
				return integer(l[i+1])
			}
		}
		if device < len(l) {
			return integer(l[device])
		}
		return 0, false
	}
	return integer(v)
}

// producer tells the oldest version of torch whose files have these keys.
func (b *builder) producer() string {
	k := b.top.keys
	since := func(v string) string { return "torch " + v + " or later" }
	switch {
	case k.has(keyHostSegments) || k.has(keyHostTraces):
		return since("2.13")
	case b.seen.has(keyPoolID) || b.seen.has(keyOverflowed):
		return since("2.12")
	case b.seen.has(keyUserMetadata):
		return since("2.10")
	case b.seen.has(keyStreamReuse):
		return since("2.9")
	case b.seen.has(keyCompileContext):
		return since("2.8")
	case k.has(keyExternalAnnotations):
		return since("2.5")
	case b.markers.len() > 0:
		return "torch 2.4"
	case k.has(keyAllocatorSettings):
		return since("2.3")
	case b.seen.has(keyTimeUs):
		return since("2.2")
	case b.seen.has(keySegmentPoolID) || b.seen.has(keyIsExpandable):
		return since("2.1")
	case b.top.keys == 0:
		return "torch 1.12 or 1.13"
	}
	return since("2.0")
}

// warnings tells what the file lacks or has that was not understood.
func (b *builder) warnings() {
	add := func(t tally, code, format string, args ...any) {
		if t.count > 0 {
			b.trace.Warnings = append(b.trace.Warnings, trace.Warning{
				Code: code, Message: fmt.Sprintf(format, args...), Count: t.count, First: t.first})
		}
	}
	for key, t := range b.missing {
		add(t, "missing-key", "records have no usable %q", names[key])
	}
	b.absent()
	var unknown []string
	for name := range b.actions {
		unknown = append(unknown, name)
	}
	slices.Sort(unknown)
	for _, name := range unknown {
		add(*b.actions[name], "unknown-action", "events with action %q are not known and were left out", name)
	}
	add(b.badTime, "bad-time", "times are not microseconds since 1970 and were left out")
	add(b.manyPools, "many-pools", "pools beyond the %dth are not told apart", trace.PoolUnknown)
	add(b.again, "repeated-records", "lists of records appear more than once; the repetitions were left out")
	add(b.gaps, "untiled-segment", "blocks do not tile their segment")
}

// absent tells which parts of a snapshot are not there at all.
func (b *builder) absent() {
	events, timed := 0, false
	for i := range b.trace.Devices {
		d := &b.trace.Devices[i]
		events += d.Events.Len()
		timed = timed || d.Events.Len() > 0 && d.Events.At(0).Time != 0
	}
	for _, w := range []struct {
		absent        bool
		code, message string
	}{
		{events == 0, "no-events", "the file has no events, only the state when it was written: the history was not recorded"},
		{events > 0 && !timed, "no-times", "events have no times (torch before 2.2)"},
		{b.top.segments.Kind() == pickle.KindNone, "no-segments", "the file has no segments: what was there at the end, and before the first event, is not known"},
		{!b.trace.Settings.Known, "no-settings", "the file has no allocator settings (torch before 2.3): the defaults are assumed"},
	} {
		if w.absent {
			b.trace.Warnings = append(b.trace.Warnings, trace.Warning{Code: w.code, Message: w.message, Count: 1, First: -1})
		}
	}
}
