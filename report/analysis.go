// Package report turns replays into findings, and findings into text, JSON and other forms. A finding is a
// plain struct that a function folds out of a followed recording; a renderer is a function from findings to
// bytes. Every figure in bytes is a count of bytes until it is rendered.
package report

import (
	"regexp"
	"slices"

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
	At            *Peak                    // the instant that was asked for, nil if none was
	Uses          []UsePoint               // what was in use and what was not, over time; nil where the file has no events
	OOMs          []OOM
	Help          []Help
	Enough        *Enough         // memory that would have been enough, nil if it did not run out, or that was not looked for
	Outside       []*Outside      // beside logs of the device
	Roles         *simulate.Roles // what its blocks are for; nil where the file has no events
	Steps         simulate.StepList
	Growth        simulate.Growth

	cfg config.Config // at the start
}

// Peak is the memory at one instant.
type Peak struct {
	Event     int // number of the event, -1 if the recording has none
	Time      trace.Time
	Allocated int64 // bytes
	Reserved  int64 // bytes
	Requested int64 // bytes asked for, of what is allocated
	Holders   Holders
	Breakdown *Breakdown // the same from other sides; nil if it was not looked at
	Layout    *Layout    // how the allocator's memory lay; nil if it is not known, or was not looked at
}

// Options say what is known beside the file.
type Options struct {
	Limit  int64 // bytes that the process may reserve, negative if not known
	Memory int64 // bytes that the device can give, 0 if not known
	Device int   // only this device, negative for all
	// From and To bound the events among which peaks are looked for; To is the first behind them, 0 for the end.
	From, To int
	At       *int            // an instant to look at: after this event, -1 for before the first; nil for none
	Replay   bool            // whether to try what would have helped: the whole recording, so not where From or To are set
	Step     *regexp.Regexp  // annotations that are steps, nil to find out
	Rules    []simulate.Rule // what blocks are for, where the person knows better
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
		d.look(t, o)
		a.Complete = a.Complete && (d.Follow == nil || !d.Follow.Truncated) && !contradicts(&t.Devices[i])
		a.Devices = append(a.Devices, d)
	}
	return a
}

func analyzeDevice(t *trace.Trace, dev *trace.Device, cfg config.Config, o Options) Device {
	if dev.Content == trace.Samples || dev.Content == trace.Instant {
		return withoutEvents(dev)
	}
	f, p := o.watch(dev, cfg)
	d := Device{Index: dev.Index, Trace: dev, Follow: f, cfg: cfg}
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
	d.PeakReserved = d.peak(p.reserved)
	d.End = d.peak(end)
	if p.at != nil {
		if p.at.event < 0 {
			*p.at = initialMoment(f)
		}
		at := d.peak(*p.at)
		d.At = &at
	}
	if dev.Content == trace.Decisions {
		d.OOMs = d.outOfMemory(p.failed)
		d.lay(o)
	} else {
		d.OOMs = unjudged(p.failed)
	}
	if whole := o.From == 0 && o.To <= 0; o.Replay && whole && (dev.Content == trace.Decisions || p.held != nil) {
		d.Help, d.Enough = d.help(), d.enough()
	}
	d.Uses = p.uses.over(&d)
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

// timeAt is when an event happened, 0 if there is no such event or no telling.
func (d *Device) timeAt(event int) trace.Time {
	if event < 0 || event >= d.Trace.Events.Len() {
		return 0
	}
	return d.Trace.Events.At(event).Time
}

// lay looks at how memory lay at the instants that matter.
func (d *Device) lay(o Options) {
	events := []int{d.PeakReserved.Event, d.PeakAllocated.Event}
	if d.At != nil {
		events = append(events, d.At.Event)
	}
	slices.Sort(events)
	found := d.layouts(o, slices.Compact(events)...)
	of := []*Layout{}
	for _, p := range []*Peak{&d.PeakAllocated, &d.PeakReserved, d.At} {
		if p != nil && found[p.Event] != nil {
			p.Layout = found[p.Event]
			of = append(of, p.Layout)
		}
	}
	for i := range d.OOMs {
		of = append(of, d.OOMs[i].Layout)
	}
	d.attribute(of...)
	if l := d.PeakReserved.Layout; l != nil {
		d.Fragmented, d.Fragmentation, d.PinnedBy = true, l.Fragmentation, l.PinnedBy
	}
}

// look says of the instants that matter what was allocated then, from all sides.
func (d *Device) look(t *trace.Trace, o Options) {
	if d.Follow == nil {
		d.lookOnce(t.Stacks)
		return
	}
	d.Roles = d.Follow.Roles(t, d.Steps, o.Rules)
	for _, p := range []*Peak{&d.PeakAllocated, &d.End, d.At} {
		if p != nil {
			p.Breakdown = d.breakdown(t.Stacks, p.Event)
			p.Holders, p.Requested = p.Breakdown.Holders, p.Breakdown.Requested
		}
	}
	for i := range min(len(d.OOMs), mostHolders) {
		o := &d.OOMs[i]
		o.Breakdown = d.breakdown(t.Stacks, o.Event)
		o.Holders = o.Breakdown.Holders
	}
}

func (d *Device) peak(m moment) Peak {
	p := Peak{Event: m.event, Allocated: m.allocated, Reserved: m.reserved}
	if m.event >= 0 && m.event < d.Trace.Events.Len() {
		p.Time = d.Trace.Events.At(m.event).Time
	}
	return p
}
