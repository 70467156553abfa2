package report

import (
	"fmt"
	"path/filepath"

	"github.com/vramscope/vramscope/trace"
)

// What can be said of recordings that do not show an allocator's decisions: requests alone, samples, or one
// instant.

// countedBy is what the allocator itself counted as reserved, where events do not show it.
func countedBy(dev *trace.Device) *trace.Series {
	if dev.Content != trace.Requests {
		return nil
	}
	return trace.FindSeries(dev.Series, trace.AllocatorReserved)
}

// levelAt is the value of a series at a time, 0 before its first sample.
func levelAt(s *trace.Series, t trace.Time) int64 {
	p, _ := s.At(t)
	return p.Last
}

// withoutEvents is what there is to say about a device that has none.
func withoutEvents(dev *trace.Device) Device {
	none := Peak{Event: -1, Allocated: -1, Reserved: -1, Requested: -1}
	d := Device{Index: dev.Index, Trace: dev, PeakAllocated: none, PeakReserved: none, End: none}
	if s := trace.FindSeries(dev.Series, trace.Allocated); s != nil && s.Samples > 0 {
		d.PeakAllocated.Allocated, d.PeakAllocated.Time = s.Max, s.MaxAt
		d.End.Allocated = s.Last()
	}
	if s := trace.FindSeries(dev.Series, trace.LifetimePeak); s != nil && s.Max > d.PeakAllocated.Allocated {
		d.PeakAllocated.Allocated, d.PeakAllocated.Time = s.Max, s.MaxAt
	}
	if dev.Content == trace.Samples && len(dev.Final.Groups) > 0 {
		l := LiveOf(dev)
		d.PeakAllocated.Holders = Holders{ByStack: l.ByStack, Unattributed: l.Unattributed, Unknown: int(l.Unknown)}
	}
	if s := trace.FindSeries(dev.Series, trace.AllocatorReserved); s != nil && s.Samples > 0 {
		d.PeakReserved.Reserved, d.PeakReserved.Time = s.Max, s.MaxAt
		d.End.Reserved = s.Last()
	}
	if dev.Content == trace.Instant {
		l := LiveOf(dev)
		d.Live = &l
		d.End.Allocated = l.Used
		d.End.Holders = Holders{ByStack: l.ByStack, Unattributed: l.Unattributed, Unknown: int(l.Unknown)}
		if l.Held > 0 {
			d.End.Reserved = l.Held
		}
	}
	return d
}

// unjudged takes failures as they are: without the decisions around them there is no telling why.
func unjudged(failed []OOM) []OOM {
	for i := range failed {
		o := &failed[i]
		o.Tried, o.LargestFree = o.Requested, -1
		o.Verdict = Untold
		o.Why = "this kind of recording does not tell what the device had free, nor in which pieces"
	}
	return failed
}

// Untold is the verdict where a recording has too little for one.
const Untold = "unknown-partial"

// reserved is what was reserved at a peak, nil where the recording does not tell.
func (d *Device) reserved(p *Peak) *int64 {
	if p.Reserved < 0 || d.Trace.Content == trace.Requests && p.Reserved == 0 {
		return nil
	}
	return &p.Reserved
}

// requested is what was asked for at a peak, nil where the recording has rounded sizes only.
func (d *Device) requested(p *Peak) *int64 {
	if p.Requested < 0 || d.Trace.Rounded {
		return nil
	}
	return &p.Requested
}

// withoutEventsJSON fills in what there is of a device without events.
func (a *Analysis) withoutEventsJSON(d *Device, j *deviceJSON) {
	j.PeakAllocated.Bytes, j.PeakAllocated.TimeUS = atLeast(d.PeakAllocated.Allocated, 0), timeOf(d.PeakAllocated.Time)
	j.PeakReserved.Bytes, j.PeakReserved.TimeUS = atLeast(d.PeakReserved.Reserved, 0), timeOf(d.PeakReserved.Time)
	j.End.Allocated, j.End.Reserved = atLeast(d.End.Allocated, 0), atLeast(d.End.Reserved, 0)
	j.PeakAllocated.ByStack = stackList(a.Trace.Stacks, d.PeakAllocated.Holders)
	j.PeakAllocated.Tree, j.PeakAllocated.sharesJSON = d.PeakAllocated.Breakdown.branches(), d.PeakAllocated.Breakdown.sides()
	j.End.sharesJSON = d.End.Breakdown.sides()
	if d.Live == nil {
		return
	}
	j.End.Unattributed = &d.Live.Unattributed
	j.End.ByStack = stackList(a.Trace.Stacks, d.End.Holders)
	if f := d.Live.Failed; f != nil {
		verdict, why := d.Live.judge(d.Trace)
		j.OOMs = append(j.OOMs, oomJSON{TimeUS: timeOf(f.Time), Requested: atLeast(f.Requested, 1), Tried: atLeast(f.Requested, 1), Allocated: d.Live.Used,
			Reserved: atLeast(d.Live.Held, 1), Largest: atLeast(d.Live.LargestFree, 0), Verdict: verdict, Why: why, ByStack: []stackJSON{}})
	}
	if d.Live.Held > 0 {
		j.Fragmentation = &fragmentationJSON{Stranded: d.Live.Free, Largest: d.Live.LargestFree, PinnedBy: []pinJSON{},
			FreeSizes: freeSizesOf(&d.Trace.Final), Pools: []poolUseJSON{}}
	}
}

// head says what a recording without events has, for the first line; nothing if it has some.
func (a *Analysis) head() string {
	if len(a.Devices) == 0 {
		return ""
	}
	for i := range a.Devices {
		if a.Devices[i].Follow != nil {
			return ""
		}
	}
	d := a.Devices[0].Trace
	if d.Content == trace.Instant {
		return "one instant"
	}
	return sampled(d.Series, a.Trace.Source.Clock)
}

// plainDevice writes what there is to say about a device without events.
func (a *Analysis) plainDevice(p *page, d *Device) {
	if d.Live == nil {
		p.line("%s", p.bold(SamplesLine(d.Trace.Series)))
		p.fence()
		p.series(d.Trace.Series, a.Trace.Source.Clock)
		p.fence()
		if h := d.PeakAllocated.Holders; len(h.ByStack) > 0 {
			a.holders(p, "What is told of the peak", LiveOf(d.Trace).Used, h)
		}
		return
	}
	a.live(p, d)
}

// live writes what existed at one instant, and why the request failed for which it was written down.
func (a *Analysis) live(p *page, d *Device) {
	l := d.Live
	part := ""
	if !d.Trace.HasFinal {
		part = ", as far as the file goes"
	}
	if l.Failed != nil {
		line := "Ran out of memory: asked " + Bytes(l.Failed.Requested)
		if d.Trace.HasFinal {
			line += fmt.Sprintf(", with %s in use of %s held", Bytes(l.Used), Bytes(l.Held))
		}
		p.line("%s", p.bold(line+"."))
		switch verdict, why := l.judge(d.Trace); {
		case verdict != "":
			p.line("  %s: %s.", verdict, why)
		case why != "":
			p.line("  %s.", why)
		}
		p.line("")
	}
	if l.Held == 0 && l.Failed == nil && l.Blocks > 0 {
		p.line("%s", p.bold(liveLine(d.Trace)+"."))
	}
	if l.Held > 0 {
		p.line("%s: %s held, %s in use in %s, %s free in %s.", p.bold("Memory"+part), Bytes(l.Held), Bytes(l.Used), plural(int(l.Blocks), "block"),
			Bytes(l.Free), plural(int(l.FreeBlocks), "block"))
		p.line("  The largest free block has %s: %.1f %% of the free memory lies outside it.", Bytes(l.LargestFree), l.External())
	}
	if l.Held > 0 {
		p.chunks(&d.Trace.Final)
	}
	if len(l.Kinds) > 1 {
		for _, k := range l.Kinds {
			p.line("  %s: %s in %s", k.Kind, Bytes(k.Bytes), plural(int(k.Blocks), "block"))
		}
	}
	if len(l.ByStack) > 0 {
		a.holders(p, "In use", l.Used, d.End.Holders)
	}
	if severalInstants(d.Trace) {
		p.line("%s", p.bold("Over all dumps"))
		p.fence()
		p.series(d.Trace.Series, a.Trace.Source.Clock)
		p.fence()
	}
}

// requestsDevice writes about requests what is not about reserved memory.
func (a *Analysis) requestsDevice(p *page, d *Device) {
	most := d.PeakAllocated.Allocated
	line := fmt.Sprintf("Peak %s allocated", Bytes(most))
	if held := d.reserved(&d.PeakReserved); held != nil {
		whose := "reserved by the allocator's own count"
		if len(d.Trace.PoolInfo) > 0 && d.Trace.PoolInfo[0].Direct {
			whose = "taken from the driver"
		}
		line += fmt.Sprintf(", %s %s%s", Bytes(*held), whose, beyond(*held, most, "more than was ever in use"))
	}
	p.line("%s", p.bold(line+"."))
	for i, o := range d.OOMs {
		if i == 3 {
			p.line("And %s after that.", plural(len(d.OOMs)-i, "failure"))
			break
		}
		p.line("%s", p.bold(fmt.Sprintf("Ran out of memory%s: asked %s, with %s in use.", d.when(o.Event), amountAsked(o.Requested), Bytes(o.Allocated))))
	}
	d.helps(p, filepath.Base(a.File))
	a.instants(p, d)
	if held := d.reserved(&d.PeakReserved); held != nil {
		p.line("%s: %s. Which of it is cached and which is in pieces, this recording does not tell.",
			p.bold("Reserved but not in use at the reserved peak"+d.when(d.PeakReserved.Event)), Bytes(*held-d.PeakReserved.Allocated))
	}
	if len(d.Steps.Steps) > 0 {
		a.growth(p, d)
	}
	end := Bytes(d.End.Allocated) + " allocated"
	if held := d.reserved(&d.End); held != nil {
		end += ", " + Bytes(*held) + " reserved"
	}
	p.line("%s: %s.", p.bold("At the end"), end)
}
