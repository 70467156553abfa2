package torch

import (
	"cmp"
	"math/bits"
	"slices"

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
	runs    []run
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
			if l.Kind() == kindList && i < maxDevices {
				b.deviceEvents(i, b.lists.at(int(l.Index())+j))
			}
			i++
		}
	}
	b.deal()
}

// deviceEvents notes which events are a device's, and takes the annotations among them.
func (b *builder) deviceEvents(device int, items []value) {
	b.device(device)
	first := len(b.runs)
	for _, it := range items {
		switch it.Kind() {
		case kindEvent:
			from, n := int(it.Index()), b.spend(&b.budget.events, it.Count())
			if last := len(b.runs) - 1; last >= 0 && b.runs[last].device == device && b.runs[last].to == from {
				b.runs[last].to += n // an annotation stood between them
			} else {
				b.runs = append(b.runs, run{device, from, from + n})
			}
		case kindMarker:
			for j := range b.spend(&b.budget.markers, it.Count()) {
				m := b.markers.at(int(it.Index()) + j)
				b.trace.Markers = append(b.trace.Markers, trace.Marker{Time: m.time, Device: device, Name: m.name, Edge: m.edge})
			}
		}
	}
	for _, r := range b.runs[first:] {
		b.tagged(device, r.from, r.to)
	}
}

// run is a part of the common list of events that belongs to a device.
type run struct{ device, from, to int }

// deal gives the devices their events.
func (b *builder) deal() {
	var lengths []int // of gaps and runs in turn
	at, seen := 0, map[int]bool{}
	for _, r := range b.runs {
		if r.from < at || seen[r.device] {
			b.dealSlowly()
			return
		}
		lengths = append(lengths, r.from-at, r.to-r.from)
		at, seen[r.device] = r.to, true
	}
	for i, part := range b.folder.events.Split(lengths...) {
		if i%2 == 1 {
			b.device(b.runs[i/2].device).Events = part
		}
	}
}

// dealSlowly is for runs in another order than that of the file, which no writer of snapshots makes.
func (b *builder) dealSlowly() {
	for _, r := range b.runs {
		d := b.device(r.device)
		for i := r.from; i < r.to; i++ {
			d.Events.Append(*b.folder.events.At(i))
		}
	}
	b.folder.events = trace.Events{}
}

// final gives each device its segments and blocks.
func (b *builder) final() {
	segs := b.list(b.top.segments)
	for _, it := range segs {
		if it.Kind() != kindSegment {
			continue
		}
		// Room for all that this part of the list brings, so that large states do not grow by copying.
		n := b.spend(&b.budget.segments, it.Count())
		segments, blocks := map[int]int{}, map[int]int{}
		for j := range n {
			s := b.segments.at(int(it.Index()) + j)
			segments[s.device]++
			for _, k := range b.list(s.blocks) {
				blocks[s.device] += k.Count()
			}
		}
		for i := range segments {
			d := b.device(i)
			d.Final.Segments = slices.Grow(d.Final.Segments, segments[i])
			d.Final.Blocks = slices.Grow(d.Final.Blocks, min(blocks[i], b.budget.blocks))
		}
		for j := range n {
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
	b.lacks(s.missing)
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
			b.lacks(r.missing)
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

// lacks tells the keys that a record of the final state should have.
func (b *builder) lacks(k keys) {
	for ; k != 0; k &= k - 1 {
		b.missing[bits.TrailingZeros64(uint64(k))].add(-1)
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

// notes takes the annotations that stand apart from the events.
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
