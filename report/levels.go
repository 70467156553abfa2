package report

import "github.com/vramscope/vramscope/trace"

// Level is what was allocated and reserved after an event, in bytes.
type Level struct {
	Event               int // -1 is before the first event
	Time                trace.Time
	Allocated, Reserved int64
}

// Levels goes through the memory of a device that has events, event by event: first what was there before the
// first, then what there is after each. The largest of each are the peaks of the analysis, where that looks at
// the whole recording.
func (d *Device) Levels(do func(Level)) {
	if d.Follow == nil || d.Trace.Events.Len() == 0 {
		return
	}
	// What was there before is what there is at the end, without what the events did.
	l := Level{Event: -1, Time: d.Trace.Events.At(0).Time, Allocated: d.Follow.End.Allocated, Reserved: d.Follow.End.Reserved}
	for _, e := range d.Trace.Events.All() {
		allocated, reserved := d.change(e)
		l.Allocated -= allocated
		l.Reserved -= reserved
	}
	held := countedBy(d.Trace)
	if held != nil {
		l.Reserved = levelAt(held, l.Time)
	}
	do(l)
	for i, e := range d.Trace.Events.All() {
		allocated, reserved := d.change(e)
		l.Event, l.Time = i, e.Time
		l.Allocated += allocated
		l.Reserved += reserved
		if held != nil {
			l.Reserved = levelAt(held, e.Time)
		}
		do(l)
	}
}

// change is what an event adds to what is allocated and reserved.
func (d *Device) change(e *trace.Event) (allocated, reserved int64) {
	switch e.Op {
	case trace.OpSegmentAlloc, trace.OpSegmentMap:
		return 0, e.Size
	case trace.OpSegmentFree, trace.OpSegmentUnmap:
		return 0, -e.Size
	}
	sizes, pools := d.Follow.Sizes, d.Trace.PoolInfo
	if int(e.Block) >= len(sizes) {
		return 0, 0
	}
	switch e.Op {
	case trace.OpAlloc:
		allocated = sizes[e.Block]
	case trace.OpFreeRequested, trace.OpFree:
		allocated = -sizes[e.Block]
	}
	if int(e.Pool) < len(pools) && pools[e.Pool].Direct {
		reserved = allocated // it was taken from the driver by itself
	}
	return allocated, reserved
}

// TellsReserved says whether the recording shows what the allocator held from the driver.
func (d *Device) TellsReserved() bool { return d.reserved(&d.PeakReserved) != nil }

// SeriesLabel is what people call a series of samples.
func SeriesLabel(s *trace.Series) string {
	if sum := (Summary{Quantity: s.Quantity, Name: s.Name, PID: s.PID}); sum.isPart() {
		return sum.label()
	}
	return quantityLabels[s.Quantity]
}
