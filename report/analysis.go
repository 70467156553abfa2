// Package report turns replays into findings, and findings into text, JSON and other forms. A finding is a
// plain struct that a function folds out of a followed recording; a renderer is a function from findings to
// bytes. Every figure in bytes is a count of bytes until it is rendered.
package report

import (
	"regexp"

	"github.com/vramscope/vramscope/allocators"
	"github.com/vramscope/vramscope/allocators/caching/config"
	"github.com/vramscope/vramscope/simulate"
	"github.com/vramscope/vramscope/trace"
)

// Analysis is what there is to say about one recording.
type Analysis struct {
	File     string
	Trace    *trace.Trace
	Complete bool
	Settings []config.Finding
	Devices  []Device
}

// Device is what there is to say about one GPU of a recording.
type Device struct {
	Index  int
	Trace  *trace.Device
	Follow *simulate.Following // nil where the file has no events
	Live   *Live               // what existed, where the file shows one instant

	PeakAllocated Peak
	PeakReserved  Peak
	End           Peak
	Fragmentation allocators.Fragmentation // at the reserved peak
	Fragmented    bool                     // Fragmentation and PinnedBy are known: the model had as much reserved then as the recording
	PinnedBy      []Pin                    // segments that small live blocks keep, the most wasteful first
	OOMs          []OOM
	Help          []Help
	Outside       []*Outside // beside logs of the device
	Steps         simulate.StepList
	Growth        simulate.Growth
}

// Peak is the memory at one instant.
type Peak struct {
	Event     int // number of the event, -1 if the recording has none
	Time      trace.Time
	Allocated int64 // bytes
	Reserved  int64 // bytes
	Requested int64 // bytes asked for, of what is allocated
	Holders   Holders
}

// Options say what is known beside the file.
type Options struct {
	Limit  int64 // bytes that the process may reserve, negative if not known
	Memory int64 // bytes that the device can give, 0 if not known
	Device int   // only this device, negative for all
	// From and To bound the events among which peaks are looked for; To is the first behind them, 0 for the end.
	From, To int
	Replay   bool           // whether to try what would have helped
	Step     *regexp.Regexp // annotations that are steps, nil to find out
}

// Analyze follows a trace and says what it shows.
func Analyze(file string, t *trace.Trace, o Options) *Analysis {
	cfg, findings := simulate.SettingsOf(t, config.DefaultVersion)
	a := &Analysis{File: file, Trace: t, Settings: findings, Complete: !t.Source.Cut}
	for i := range t.Devices {
		if o.Device >= 0 && t.Devices[i].Index != o.Device {
			continue
		}
		d := analyzeDevice(t, &t.Devices[i], cfg, o)
		a.Complete = a.Complete && (d.Follow == nil || !d.Follow.Truncated) && !contradicts(&t.Devices[i])
		a.Devices = append(a.Devices, d)
	}
	return a
}

// peaks watches a follow for its greatest moments.
type peaks struct {
	from, to            int
	allocated, reserved moment
	raised              bool // the event before this one raised reserved to a new peak
	failed              []OOM
	held                *trace.Series // what the allocator had reserved by its own count, nil if that is in the events
}

type moment struct {
	event               int
	allocated, reserved int64
}

func (p *peaks) watch(i int, e *trace.Event, now simulate.Now) {
	if p.held != nil {
		now.Reserved = levelAt(p.held, e.Time)
	}
	if e.Op == trace.OpOOM {
		p.failed = append(p.failed, OOM{Event: i, Time: e.Time, Requested: e.Size, DeviceFree: int64(e.Addr),
			Allocated: now.Allocated, Reserved: now.Reserved, LargestFree: now.Model.Fragmentation().Largest})
	}
	if i < p.from || i >= p.to {
		return
	}
	allocated, reserved := now.Allocated, now.Reserved
	if p.allocated.event < 0 || allocated > p.allocated.allocated {
		p.allocated = moment{i, allocated, reserved}
	}
	// The peak of reserved is after the request that raised it: what a segment is taken for is not unused.
	raised := p.reserved.event < 0 || reserved > p.reserved.reserved
	if raised || p.raised && e.Op == trace.OpAlloc && reserved == p.reserved.reserved {
		p.reserved = moment{i, allocated, reserved}
	}
	p.raised = raised && e.Op.IsSegment()
}

func analyzeDevice(t *trace.Trace, dev *trace.Device, cfg config.Config, o Options) Device {
	if dev.Content == trace.Samples || dev.Content == trace.Instant {
		return withoutEvents(dev)
	}
	p := peaks{held: countedBy(dev), from: o.From, to: o.To, allocated: moment{event: -1}, reserved: moment{event: -1}}
	if o.To <= 0 {
		p.to = dev.Events.Len()
	}
	follow := simulate.FollowOptions{Limit: o.Limit, Memory: o.Memory, Each: p.watch}
	f := simulate.Follow(dev, cfg, follow)
	d := Device{Index: dev.Index, Trace: dev, Follow: f}
	last := dev.Events.Len() - 1
	end := moment{last, f.End.Allocated, f.End.Reserved}
	if n := recordedReserved(dev); n >= 0 {
		end.reserved = n
	}
	if p.held != nil {
		end.reserved = p.held.Last()
	}
	if start := initialMoment(f); p.from == 0 && (p.allocated.event < 0 || start.allocated >= p.allocated.allocated) {
		p.allocated = start
	}
	if start := initialMoment(f); p.from == 0 && (p.reserved.event < 0 || start.reserved >= p.reserved.reserved) {
		p.reserved = start
	}
	d.PeakAllocated = d.peak(p.allocated)
	d.PeakAllocated.Holders = d.holders(p.allocated.event)
	d.PeakAllocated.Requested = d.PeakAllocated.Holders.Requested
	d.PeakReserved = d.peak(p.reserved)
	d.End = d.peak(end)
	d.End.Holders = d.holders(last)
	d.End.Requested = d.End.Holders.Requested
	if dev.Content == trace.Decisions {
		d.fragmentation(cfg, o, p.reserved.event)
		d.OOMs = d.outOfMemory(p.failed)
	} else {
		d.OOMs = unjudged(p.failed)
	}
	for i := range min(len(d.OOMs), mostHolders) {
		d.OOMs[i].Holders = d.holders(d.OOMs[i].Event)
	}
	if o.Replay && (dev.Content == trace.Decisions || p.held != nil) {
		d.Help = d.help()
	}
	d.Steps = simulate.Steps(t, dev, o.Step)
	d.Growth = f.Growth(d.Steps)
	return d
}

// mostHolders is for how many out-of-memory events the holders are listed.
const mostHolders = 4

// initialMoment is the state before the first event.
func initialMoment(f *simulate.Following) moment {
	m := moment{event: -1}
	for _, b := range f.Requests.Initial {
		if b.State == trace.BlockLive {
			m.allocated += b.Size
		}
	}
	for _, s := range f.Requests.Device.Initial.Segments {
		m.reserved += s.Size
	}
	return m
}

func (d *Device) peak(m moment) Peak {
	p := Peak{Event: m.event, Allocated: m.allocated, Reserved: m.reserved}
	if m.event >= 0 && m.event < d.Trace.Events.Len() {
		p.Time = d.Trace.Events.At(m.event).Time
	}
	return p
}
