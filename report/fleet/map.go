// Package fleet looks at many recordings as one: it sums each up (Map), plans what has to be looked at more closely
// (Next), says what the job as a whole shows (Of), and renders that.
package fleet

import (
	"errors"
	"fmt"

	"github.com/vramscope/vramscope/allocators/caching/config"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/simulate"
	"github.com/vramscope/vramscope/simulate/fleet"
	"github.com/vramscope/vramscope/trace"
)

// Options say how recordings are looked at. They are the same for all.
type Options struct {
	Limit  int64 // bytes that each process may reserve, negative if not given
	Memory int64 // bytes that each device can give, 0 if not given
	Redact bool  // leave out what tells whose a recording is
	// Build is the program's: what another build found, and a Pool kept, is found again.
	Build string
	// Open reads a recording.
	Open func(file string) (*trace.Trace, error)
}

// Task is what is to be found out about one file. What it finds is a summary.
type Task struct {
	File string `json:"file"`
	// First says that nothing is known of the file yet.
	First bool `json:"first,omitzero"`
	// Found says that nobody named the file: it lay in a folder.
	Found  bool   `json:"found,omitzero"`
	Search []int  `json:"search,omitzero"` // devices for which to search settings
	Try    []Wish `json:"try,omitzero"`
}

// Wish is settings to replay a device under.
type Wish struct {
	Device int      `json:"device"`
	Confs  []string `json:"confs"`
	Close  bool     `json:"close,omitzero"` // also what no recording tells
}

// Map does a task. It always comes to something: a file that cannot be read is a failure in the summary.
func Map(t Task, o Options) (s *fleet.Summary) {
	// A recording that the program itself fails on must not take thousands of others with it.
	defer func() {
		if x := recover(); x != nil {
			s = t.failed(fmt.Errorf("the program failed on this file, which is its fault and not the file's: %v", x))
		}
	}()
	tr, err := o.Open(t.File)
	if err != nil {
		return t.failed(err)
	}
	if o.Redact {
		report.Redact(tr)
	}
	s = &fleet.Summary{}
	if t.First {
		if len(tr.Devices) == 0 {
			return t.failed(errors.New("no device in this file has memory or events"))
		}
		s = sumUp(t.File, tr, o)
	}
	for _, index := range t.Search {
		s = fleet.Merge(s, one(t.File, index, searchOn(tr, index, o)))
	}
	for _, w := range t.Try {
		s = fleet.Merge(s, one(t.File, w.Device, tryOn(tr, w, o)))
	}
	return s
}

// one is a summary of one device.
func one(file string, index int, d fleet.Device) *fleet.Summary {
	d.File, d.Index = file, index
	return &fleet.Summary{Devices: []fleet.Device{d}}
}

// failed is what comes of a file that cannot be read. If it could once, the devices that were to be looked at again
// are lost.
func (t Task) failed(err error) *fleet.Summary {
	s := &fleet.Summary{}
	if t.First {
		s.Failed = []fleet.Failure{{File: t.File, Error: err.Error(), Other: t.Found && errors.Is(err, trace.ErrUnrecognized) && !isRecordingName(t.File)}}
	}
	for _, index := range t.Search {
		s = fleet.Merge(s, one(t.File, index, fleet.Device{Lost: err.Error()}))
	}
	for _, w := range t.Try {
		s = fleet.Merge(s, one(t.File, w.Device, fleet.Device{Lost: err.Error()}))
	}
	return s
}

// sumUp says in short what a recording shows.
func sumUp(file string, t *trace.Trace, o Options) *fleet.Summary {
	s := &fleet.Summary{}
	a := report.Analyze(file, t, report.Options{Limit: o.Limit, Memory: o.Memory, Device: -1})
	cfg, _ := simulate.SettingsOf(t, config.DefaultVersion)
	for i := range a.Devices {
		d := &a.Devices[i]
		f := facts(s, a, d)
		f.Conf = cfg.String()
		if d.Follow != nil {
			f.Conf = d.Follow.Config.String()
		}
		s.Devices = append(s.Devices, fleet.Device{File: file, Index: d.Index, Facts: f})
	}
	// Sorts, and folds two devices of one number, which a file that is mangled may have.
	parts := make([]*fleet.Summary, len(s.Devices))
	for i := range s.Devices {
		parts[i] = &fleet.Summary{Devices: s.Devices[i : i+1]}
	}
	return fleet.Merge(append(parts, &fleet.Summary{Stacks: s.Stacks})...)
}

func facts(s *fleet.Summary, a *report.Analysis, d *report.Device) *fleet.Facts {
	dev := d.Trace
	f := &fleet.Facts{
		Format: a.Trace.Source.Format, Name: dev.Name, Events: dev.Events.Len(), Complete: !a.Trace.Source.Cut,
		Rank: a.Trace.Source.Rank, Steps: len(d.Steps.Steps), Growing: d.Growth.Enough(), Warnings: len(dev.Warnings),
		PeakAllocated: d.PeakAllocated.Allocated, PeakReserved: d.PeakReserved.Reserved, Unused: -1,
		EndAllocated: d.End.Allocated, EndReserved: d.End.Reserved, Capacity: dev.Capacity, Limit: -1,
	}
	if n := dev.Events.Len(); n > 0 {
		f.Span = max(0, int64(dev.Events.At(n-1).Time-dev.Events.At(0).Time)/1000)
	}
	reserves := dev.Content == trace.Decisions || d.PeakReserved.Reserved > 0
	if !reserves {
		f.PeakReserved, f.EndReserved = -1, -1
	} else if d.PeakReserved.Reserved >= 0 && d.PeakReserved.Allocated >= 0 && dev.Content != trace.Samples {
		f.Unused = d.PeakReserved.Reserved - d.PeakReserved.Allocated
	}
	holders := d.PeakAllocated.Holders
	if dev.Content == trace.Instant {
		holders = d.End.Holders
	}
	f.Held = held(s, a.Trace.Stacks, holders.ByStack)
	if n := len(holders.ByStack); n > fleet.MostStacks {
		f.Floor = holders.ByStack[fleet.MostStacks-1].Bytes
	}
	f.Before, f.Unattributed = holders.Before, holders.Unattributed
	for _, x := range d.OOMs {
		f.OOMs = append(f.OOMs, fleet.OOM{Event: x.Event, Requested: x.Requested, Allocated: x.Allocated, Reserved: x.Reserved,
			DeviceFree: x.DeviceFree, Verdict: x.Verdict, Why: x.Why})
	}
	f.OOMs = f.OOMs[:min(len(f.OOMs), mostOOMs)]
	if d.Follow == nil {
		return f
	}
	f.Complete = f.Complete && !d.Follow.Truncated
	f.Replayable = (dev.Content == trace.Decisions || dev.Content == trace.Requests) && dev.Events.Len() > 0
	f.Limit, f.Capacity = d.Follow.Bounds.Limit, max(f.Capacity, d.Follow.Bounds.Capacity)
	f.Retries = d.Follow.Model.Stats().Retries
	if d.Fragmented {
		p := d.Fragmentation
		f.Parts = &fleet.Parts{Stranded: p.Stranded, Cached: p.Cached, Rounding: p.Rounding, Pending: p.Pending}
	}
	if g := &d.Growth; g.Enough() {
		f.PerStep, f.Grows = int64(g.Live.Slope), g.LiveGrows
		for _, l := range g.Leaks[:min(len(g.Leaks), fleet.MostStacks)] {
			f.Leaks = append(f.Leaks, fleet.Leak{Stack: s.Add(a.Trace.Stacks, l.Stack), PerStep: int64(l.Bytes.Slope), Steps: l.Bytes.Steps,
				Confidence: l.Confidence, AtEnd: l.End, Buffer: l.Buffer})
		}
	}
	if dev.Content == trace.Decisions {
		f.Time = unusedTime(d, a.Trace.Source.Clock)
	}
	return f
}

// mostOOMs is how many failures are kept of a device; what a program does after the first is mostly the same again.
const mostOOMs = 8

func held(s *fleet.Summary, stacks *trace.Stacks, list []report.Holder) []fleet.Held {
	var out []fleet.Held
	for _, h := range list[:min(len(list), fleet.MostStacks)] {
		out = append(out, fleet.Held{Stack: s.Add(stacks, h.Stack), Bytes: h.Bytes, Blocks: h.Blocks})
	}
	return out
}

// unusedTime is how long which share of the reserved memory was not allocated. Without times each event counts alike.
func unusedTime(d *report.Device, clock trace.Clock) fleet.Shares {
	var c fleet.Counter
	var reserved, allocated int64
	sizes := d.Follow.Sizes
	size := func(b trace.BlockID) int64 {
		if int(b) < len(sizes) {
			return sizes[b]
		}
		return 0
	}
	for _, s := range d.Trace.Initial.Segments {
		reserved += s.Size
	}
	for _, b := range d.Follow.Requests.Initial {
		if b.State == trace.BlockLive {
			allocated += b.Size
		}
	}
	var last trace.Time
	for i, e := range d.Trace.Events.All() {
		weight := int64(1)
		if clock != trace.ClockNone {
			weight = int64(e.Time - last)
		}
		if i > 0 {
			c.Add(reserved-allocated, reserved, weight)
		}
		last = e.Time
		switch e.Op {
		case trace.OpAlloc:
			allocated += size(e.Block)
		case trace.OpFree, trace.OpFreeRequested:
			allocated -= size(e.Block)
		case trace.OpSegmentAlloc, trace.OpSegmentMap:
			reserved += e.Size
		case trace.OpSegmentFree, trace.OpSegmentUnmap:
			reserved -= e.Size
		}
	}
	return c.Shares()
}

// deviceOf finds a device of a recording.
func deviceOf(t *trace.Trace, index int) *trace.Device {
	for i := range t.Devices {
		if d := &t.Devices[i]; d.Index == index && d.Events.Len() > 0 {
			return d
		}
	}
	return nil
}

const gone = "this device is not in the file any more: it was written anew meanwhile"

// searchOn looks for settings that would suit one device.
func searchOn(t *trace.Trace, index int, o Options) fleet.Device {
	d := deviceOf(t, index)
	if d == nil {
		return fleet.Device{Lost: gone}
	}
	r := report.TuneSettings("", t, d, report.TuneOptions{Limit: o.Limit, Memory: o.Memory, RecordedLimit: o.Limit,
		Settings: searched, Top: shortest, Version: config.DefaultVersion})
	s := &fleet.Search{Tried: r.Tried, Confs: []string{}}
	for i := range r.Candidates {
		if c := &r.Candidates[i]; c.Completed || !r.Baseline.Completed {
			s.Confs = append(s.Confs, c.Conf)
		}
	}
	if r.Recommended != nil {
		s.Recommended = &r.Recommended.Candidate.Conf
	}
	return fleet.Device{Search: s}
}

// tryOn replays a device under settings.
func tryOn(t *trace.Trace, w Wish, o Options) fleet.Device {
	d := deviceOf(t, w.Device)
	if d == nil {
		return fleet.Device{Lost: gone}
	}
	own, _ := simulate.SettingsOf(t, config.DefaultVersion)
	f := simulate.Follow(d, own, simulate.FollowOptions{Limit: o.Limit})
	room := simulate.Room{Limit: o.Limit, Memory: o.Memory}
	if o.Limit < 0 && o.Memory <= 0 && d.Content == trace.Decisions {
		room = f.Room()
	}
	around := f.Alike()
	out := fleet.Device{}
	for _, conf := range w.Confs {
		cfg := f.Config
		if conf != cfg.String() {
			parsed, err := parseConf(conf)
			if err != nil {
				return fleet.Device{Lost: fmt.Sprintf("%s: %v", conf, err)}
			}
			cfg = parsed
		}
		what := simulate.WhatIf{Config: cfg, Limit: room.Limit, Memory: room.Memory}
		var p simulate.Prediction
		if w.Close {
			p = f.Requests.Predict(around, what)
		} else {
			p.Run = f.Requests.Once(around, what)
			p.Low, p.High = p.Stats.Reserved.Peak, p.Stats.Reserved.Peak
		}
		trial := fleet.Trial{Conf: conf, Completed: p.Completed, Peak: p.Stats.Reserved.Peak, Low: p.Low, High: p.High, Close: w.Close,
			Calls: p.Stats.DeviceAllocs + p.Stats.DeviceFrees, Retries: p.Stats.Retries, Ended: p.Ended}
		out = fleet.Merge(one("", 0, out), one("", 0, fleet.Device{Trials: []fleet.Trial{trial}})).Devices[0]
	}
	return out
}

// parseConf reads a setting that a search came to.
func parseConf(conf string) (config.Config, error) {
	c, _, err := config.Parse(conf, config.DefaultVersion)
	if err != nil {
		c, _, err = config.Parse(conf, config.Latest)
	}
	return c, err
}
