package pprof

import (
	"fmt"
	"time"

	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/trace"
)

// device adds what one device held.
func (b *builder) device(d *report.Device) {
	switch {
	case d.Follow != nil:
		b.blocks(d)
	case d.Live != nil:
		b.instant(d)
	default:
		b.told(d)
	}
}

// never is behind the last event.
const never = int(^uint(0) >> 1)

// blocks adds the blocks of a recording, one by one: a block is held after its allocation and up to the free that the
// program asked for.
func (b *builder) blocks(d *report.Device) {
	b.has[atPeak], b.has[atEnd], b.has[ever] = true, true, true
	dev := d.Trace
	freed := make([]int, dev.NumBlocks)
	for i := range freed {
		freed[i] = never
	}
	for i, e := range dev.Events.All() {
		if (e.Op == trace.OpFreeRequested || e.Op == trace.OpFree) && int(e.Block) < len(freed) && freed[e.Block] == never {
			freed[e.Block] = i
		}
	}
	failure := never
	if len(d.OOMs) > 0 {
		b.has[atFailure] = true
		failure = d.OOMs[0].Event
	}
	instants := [...]struct {
		moment
		event int // the last one that counts, never for no such moment
	}{{atPeak, d.PeakAllocated.Event}, {atEnd, dev.Events.Len() - 1}, {atFailure, failure}}
	hold := func(h holder, from, to int, size int64) {
		x := b.of(h)
		for _, at := range instants {
			if at.event != never && from <= at.event && at.event < to {
				x[at.moment].add(size, 1)
			}
		}
		if from >= 0 {
			x[ever].add(size, 1)
		}
	}
	for _, old := range d.Follow.Requests.Initial {
		if old.State != trace.BlockLive || int(old.ID) >= len(freed) {
			continue
		}
		h := holder{device: dev, stack: old.Stack, name: b.bareName(old.Stack, true), placed: true, stream: old.Stream, pool: old.Pool}
		hold(h, -1, freed[old.ID], d.Follow.Sizes[old.ID])
	}
	for i, e := range dev.Events.All() {
		if e.Op != trace.OpAlloc || int(e.Block) >= len(freed) {
			continue
		}
		h := holder{device: dev, stack: e.Stack, name: b.bareName(e.Stack, false), placed: true, stream: e.Stream, pool: poolOf(d, e)}
		hold(h, i, freed[e.Block], d.Follow.Sizes[e.Block])
	}
	b.times(dev)
	b.comment("device %d: most allocated%s, %d bytes, of %d reserved then", d.Index, at(dev, d.PeakAllocated.Event), d.PeakAllocated.Allocated, d.PeakAllocated.Reserved)
	if failure != never {
		b.comment("device %d: ran out of memory first%s", d.Index, at(dev, failure))
	}
}

// at says at which event something was, and how long after the first.
func at(dev *trace.Device, event int) string {
	if event < 0 {
		return " before the recording began"
	}
	first, then := dev.Events.At(0).Time, dev.Events.At(event).Time
	if first == 0 || then < first {
		return fmt.Sprintf(" at event %d", event)
	}
	return fmt.Sprintf(" at event %d, +%s", event, report.Span(time.Duration(then-first)))
}

// times says when the recording was made, if it tells.
func (b *builder) times(dev *trace.Device) {
	n := dev.Events.Len()
	if n == 0 {
		return
	}
	first, last := int64(dev.Events.At(0).Time), int64(dev.Events.At(n-1).Time)
	if first <= 0 || last < first {
		return
	}
	p := b.profile
	if p.DurationNanos < last-first {
		p.DurationNanos = last - first
	}
	if b.a.Trace.Source.Clock == trace.ClockEpoch && (p.TimeNanos == 0 || first < p.TimeNanos) {
		p.TimeNanos = first
	}
}

// instant adds what existed at the one moment that a file shows: that is its end.
func (b *builder) instant(d *report.Device) {
	b.has[atEnd] = true
	dev := d.Trace
	for i := range dev.Final.Blocks {
		x := &dev.Final.Blocks[i]
		if x.State != trace.BlockFree {
			b.of(holder{device: dev, stack: x.Stack, name: b.bareName(x.Stack, false)})[atEnd].add(x.Size, 1)
		}
	}
	b.groups(d, atEnd)
	b.comment("device %d: one instant, %d bytes in use", d.Index, d.Live.Used)
}

func (b *builder) groups(d *report.Device, m moment) (sum int64) {
	for _, g := range d.Trace.Final.Groups {
		h := holder{device: d.Trace, stack: g.Stack, name: b.bareName(g.Stack, false), kind: g.Kind}
		b.of(h)[m].add(g.Bytes, g.Blocks)
		sum += g.Bytes
	}
	return sum
}

// rest is what a peak has beyond the blocks that a file names.
const rest = "not told by the recording"

// told adds what a file of totals tells of the blocks at its peak, if it does.
func (b *builder) told(d *report.Device) {
	if len(d.PeakAllocated.Holders.ByStack) == 0 || d.PeakAllocated.Allocated < 0 {
		return
	}
	b.has[atPeak] = true
	sum := b.groups(d, atPeak)
	if more := d.PeakAllocated.Allocated - sum; more > 0 {
		b.of(holder{device: d.Trace, name: rest})[atPeak].add(more, 0)
	}
	b.comment("device %d: most allocated, %d bytes, of which the recording names %d", d.Index, d.PeakAllocated.Allocated, sum)
}

// poolOf is the pool of the block that an event allocates: as the model found out where an allocator is followed,
// otherwise as the file says.
func poolOf(d *report.Device, e *trace.Event) uint32 {
	if d.Trace.Content != trace.Decisions && e.Pool != trace.PoolUnknown {
		return uint32(e.Pool)
	}
	return d.Follow.Requests.Pool(e.Block)
}
