package fleet

import (
	"io"

	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/simulate/fleet"
)

// The JSON of a job, schema vramscope/fleet/v1. A value that the recordings cannot give is null.

type fleetJSON struct {
	Schema     string             `json:"schema"`
	Traces     int                `json:"traces"`
	Failed     []failedJSON       `json:"failed"`
	Skipped    []failedJSON       `json:"skipped"`
	Devices    []memberJSON       `json:"devices"`
	Worst      map[string]*atJSON `json:"worst"`
	Imbalance  imbalanceJSON      `json:"imbalance"`
	Outliers   []outlierJSON      `json:"outliers"`
	OOMs       []ranOutJSON       `json:"ran_out"`
	Growth     growthJSON         `json:"growth"`
	Unused     unusedJSON         `json:"fragmentation"`
	Common     []commonJSON       `json:"peak_by_stack"`
	StacksCut  int64              `json:"peak_by_stack_cut_bytes"` // of all devices, see unsure_bytes
	Bare       int64              `json:"peak_without_stack_bytes"`
	Before     int64              `json:"peak_before_recording_bytes"`
	Settings   []settingsJSON     `json:"settings"`
	Tune       *tuneJSON          `json:"tune"`
	Duplicates bool               `json:"ranks_repeat"` // some rank has several files
}

type failedJSON struct {
	File  string `json:"file"`
	Error string `json:"error"`
}

// atJSON is where a figure was found.
type atJSON struct {
	File   string `json:"file"`
	Rank   *int   `json:"rank"`
	Device int    `json:"device"`
	Bytes  int64  `json:"bytes"`
	Median int64  `json:"median_bytes"`
	Over   *int64 `json:"over_next_bytes"` // more than the next; null for one device
}

type memberJSON struct {
	File          string         `json:"file"`
	Rank          *int           `json:"rank"`
	Host          *string        `json:"host"`
	LocalRank     *int           `json:"local_rank"`
	Position      map[string]int `json:"position"`
	Device        int            `json:"device"`
	Name          *string        `json:"name"`
	Format        string         `json:"format"`
	Events        int            `json:"events"`
	SpanUS        int64          `json:"span_us"`
	Complete      bool           `json:"complete"`
	Conf          *string        `json:"conf"`
	PeakAllocated *int64         `json:"peak_allocated_bytes"`
	PeakReserved  *int64         `json:"peak_reserved_bytes"`
	Unused        *int64         `json:"unused_at_peak_bytes"`
	EndAllocated  *int64         `json:"end_allocated_bytes"`
	EndReserved   *int64         `json:"end_reserved_bytes"`
	Fragmentation *fleet.Parts   `json:"fragmentation_at_peak"`
	Steps         *int           `json:"steps"`
	PerStep       *int64         `json:"growth_per_step_bytes"`
	Retries       int64          `json:"retries"`
	OOMs          int            `json:"ooms"`
	Lost          *string        `json:"lost"` // why the file could not be looked at again
}

type imbalanceJSON struct {
	Spreads map[string]spreadJSON `json:"all"`
	By      []positionJSON        `json:"by_position"`
}

type spreadJSON struct {
	Devices int      `json:"devices"`
	Min     int64    `json:"min_bytes"`
	Median  int64    `json:"median_bytes"`
	P90     int64    `json:"p90_bytes"`
	Max     int64    `json:"max_bytes"`
	Total   int64    `json:"total_bytes"`
	Ratio   *float64 `json:"max_over_median"`
}

type positionJSON struct {
	Axis     string                `json:"axis"`
	Position int                   `json:"position"`
	Devices  int                   `json:"devices"`
	Spreads  map[string]spreadJSON `json:"measures"`
}

type outlierJSON struct {
	File    string      `json:"file"`
	Rank    *int        `json:"rank"`
	Device  int         `json:"device"`
	Measure string      `json:"measure"`
	Bytes   int64       `json:"bytes"`
	Median  int64       `json:"median_bytes"`
	Spread  int64       `json:"usual_distance_bytes"`
	Among   int         `json:"among"`
	At      string      `json:"at"`
	Because *becauseRow `json:"because"`
}

// becauseRow is the stack that tells a device from the others.
type becauseRow struct {
	Stack []string `json:"stack"`
	Bytes int64    `json:"bytes"`
	Usual int64    `json:"median_bytes"`
}

type ranOutJSON struct {
	File      string      `json:"file"`
	Rank      *int        `json:"rank"`
	Device    int         `json:"device"`
	Event     int         `json:"event"`
	Requested int64       `json:"requested_bytes"`
	Allocated int64       `json:"allocated_bytes"`
	Reserved  int64       `json:"reserved_bytes"`
	Free      *int64      `json:"device_free_bytes"`
	Verdict   *string     `json:"verdict"`
	Why       *string     `json:"why"`
	OOMs      int         `json:"ooms"`
	Different []string    `json:"different"`
	Because   *becauseRow `json:"because"`
}

type growthJSON struct {
	Devices int           `json:"devices"` // with steps enough to tell
	Stacks  []growsJSON   `json:"stacks"`
	Unsaid  int           `json:"growing_without_stack"`
	Rates   []growAllJSON `json:"growing"`
}

type growsJSON struct {
	Stack   []string `json:"stack"`
	On      string   `json:"on"` // all, one, "12 of 96"
	Devices int      `json:"devices"`
	PerStep int64    `json:"per_step_bytes"` // of all
	Max     atStep   `json:"max"`
	AtEnd   int64    `json:"at_end_bytes"`
	Kind    string   `json:"kind"`
}

type atStep struct {
	File    string `json:"file"`
	Rank    *int   `json:"rank"`
	Device  int    `json:"device"`
	PerStep int64  `json:"per_step_bytes"`
}

// growAllJSON is a device whose memory as a whole grows from step to step.
type growAllJSON struct {
	File    string `json:"file"`
	Rank    *int   `json:"rank"`
	Device  int    `json:"device"`
	PerStep int64  `json:"per_step_bytes"`
}

type unusedJSON struct {
	AtPeak *sharesJSON `json:"share_at_reserved_peak"` // over devices; exact
	Time   *sharesJSON `json:"share_over_time"`        // over devices and time
	Error  float64     `json:"share_over_time_error"`  // by which its quantiles may be off, at most
}

type sharesJSON struct {
	Devices int     `json:"devices"`
	P10     float64 `json:"p10"`
	P50     float64 `json:"p50"`
	P90     float64 `json:"p90"`
	P99     float64 `json:"p99"`
	Max     float64 `json:"max"`
}

type commonJSON struct {
	Stack   []string `json:"stack"`
	Bytes   int64    `json:"bytes"`
	Unsure  int64    `json:"unsure_bytes"` // by which bytes may be too small, at most
	Devices int      `json:"devices"`
	Max     atJSON   `json:"max"`
}

type settingsJSON struct {
	Conf    string `json:"conf"`
	Devices int    `json:"devices"`
}

type tuneJSON struct {
	Searched    []searchedJSON   `json:"searched_on"`
	Tried       int              `json:"settings_tried"`
	Baseline    choiceJSON       `json:"baseline"`
	Candidates  []choiceJSON     `json:"candidates"`
	Recommended *recommendedJSON `json:"recommended"`
	Why         string           `json:"why"`
	Lost        int              `json:"devices_lost"`
	Unreplayed  int              `json:"devices_without_requests"`
}

type searchedJSON struct {
	File        string   `json:"file"`
	Rank        *int     `json:"rank"`
	Device      int      `json:"device"`
	Why         []string `json:"why"`
	Recommended *string  `json:"recommended"`
}

type choiceJSON struct {
	Conf      *string  `json:"conf"` // null: each device's own settings
	Devices   int      `json:"devices"`
	Completed int      `json:"completed"`
	Rescued   int      `json:"rescued"`
	Broken    int      `json:"broken"`
	Peak      int64    `json:"peak_reserved_bytes"`
	Range     [2]int64 `json:"peak_reserved_range_bytes"`
	Worst     *atJSON  `json:"worst"`
	Saves     *int64   `json:"saves_bytes"`
	Grew      int      `json:"devices_that_reserve_more"`
	Total     int64    `json:"total_reserved_bytes"`
	Cost      costJSON `json:"cost"`
}

type costJSON struct {
	Calls   int64   `json:"device_calls"`
	Retries int64   `json:"retries"`
	Slow    float64 `json:"slowest_share"`
}

type recommendedJSON struct {
	Conf  string  `json:"conf"`
	Env   string  `json:"env"`
	Saves int64   `json:"saves_bytes"`
	Why   string  `json:"why"`
	Since *string `json:"needs_torch"`
}

// WriteJSON renders a job for programs.
func (f *Fleet) WriteJSON(w io.Writer) error {
	out := fleetJSON{Schema: "vramscope/fleet/v1", Traces: f.Traces, Failed: failures(f.Failed), Skipped: failures(f.Other),
		Devices: []memberJSON{}, Worst: map[string]*atJSON{}, Outliers: []outlierJSON{}, OOMs: []ranOutJSON{}, StacksCut: f.Cut,
		Common: []commonJSON{}, Settings: []settingsJSON{}, Imbalance: imbalanceJSON{Spreads: spreads(f.Spreads), By: []positionJSON{}}}
	for _, m := range f.Members {
		out.Devices = append(out.Devices, m.json())
		out.Duplicates = out.Duplicates || m.Rank >= 0 && m.twice
		out.Bare += m.Facts.Unattributed
		out.Before += m.Facts.Before
	}
	for i := range f.Spreads {
		s := &f.Spreads[i]
		out.Worst[s.Name] = nil
		if s.Worst != nil {
			at := s.Worst.at(s.Max, s.Median)
			at.Over = f.overNext(s)
			out.Worst[s.Name] = &at
		}
	}
	for _, p := range f.Positions {
		out.Imbalance.By = append(out.Imbalance.By, positionJSON{p.Axis, p.N, p.Members, spreads(p.Spreads)})
	}
	for _, o := range f.Outliers {
		out.Outliers = append(out.Outliers, outlierJSON{o.Member.File, o.Member.rank(), o.Member.Index, o.Name, o.Value, o.Median, o.Usual, o.Among, o.At,
			f.because(o.Stack, o.Held, o.HeldUsually)})
	}
	for i := range f.RanOut {
		r := &f.RanOut[i]
		x := &r.First
		out.OOMs = append(out.OOMs, ranOutJSON{r.Member.File, r.Member.rank(), r.Member.Index, x.Event, x.Requested, x.Allocated, x.Reserved,
			orNil(x.DeviceFree, 1), known(x.Verdict), known(x.Why), r.OOMs, append([]string{}, r.Different...), f.because(r.Stack, r.Held, r.Usual)})
	}
	out.Growth = f.growthJSON()
	out.Unused = f.unusedJSON()
	for _, c := range f.Common[:min(len(f.Common), mostCommon)] {
		out.Common = append(out.Common, commonJSON{f.lines(c.Stack), c.Bytes, c.Unsure, c.Members, c.Worst.at(c.Max, 0)})
	}
	for _, s := range f.Settings {
		out.Settings = append(out.Settings, settingsJSON{s.Conf, len(s.Members)})
	}
	out.Tune = f.tuneJSON()
	return report.WriteJSON(w, out)
}

// mostCommon is how many stacks the JSON lists of all that held memory at the peaks.
const mostCommon = 100

func (m *Member) json() memberJSON {
	f := m.Facts
	j := memberJSON{File: m.File, Rank: m.rank(), Host: known(m.Host), Device: m.Index, Name: known(f.Name), Format: f.Format, Events: f.Events,
		SpanUS: f.Span, Complete: f.Complete, PeakAllocated: orNil(f.PeakAllocated, 0), PeakReserved: orNil(f.PeakReserved, 0),
		Unused: orNil(f.Unused, 0), EndAllocated: orNil(f.EndAllocated, 0), EndReserved: orNil(f.EndReserved, 0), Fragmentation: f.Parts,
		Retries: f.Retries, OOMs: len(f.OOMs), Lost: known(m.Lost), Position: map[string]int{}}
	if f.Format == snapshotFormat {
		j.Conf = &f.Conf
	}
	if m.Local >= 0 {
		j.LocalRank = &m.Local
	}
	for _, a := range m.At {
		j.Position[a.Name] = a.N
	}
	if f.Steps > 0 {
		j.Steps = &f.Steps
	}
	if f.Growing {
		j.PerStep = &f.PerStep
	}
	return j
}

func (m *Member) rank() *int {
	if m.Rank < 0 {
		return nil
	}
	return &m.Rank
}

func (m *Member) at(n, median int64) atJSON {
	return atJSON{File: m.File, Rank: m.rank(), Device: m.Index, Bytes: n, Median: median}
}

// overNext is by how much the worst member exceeds the next, nil if there is none.
func (f *Fleet) overNext(s *Spread) *int64 {
	next := int64(-1)
	for _, m := range f.Members {
		if m != s.Worst {
			next = max(next, s.Of(m.Facts))
		}
	}
	if next < 0 {
		return nil
	}
	by := s.Max - next
	return &by
}

func spreads(list []Spread) map[string]spreadJSON {
	out := map[string]spreadJSON{}
	for i := range list {
		s := &list[i]
		j := spreadJSON{s.Members, s.Min, s.Median, s.P90, s.Max, s.Total, nil}
		if r := s.Ratio(); r > 0 {
			j.Ratio = &r
		}
		out[s.Name] = j
	}
	return out
}

func (f *Fleet) because(p fleet.Print, held, usual int64) *becauseRow {
	if held == usual {
		return nil
	}
	return &becauseRow{f.lines(p), held, usual}
}

func (f *Fleet) growthJSON() growthJSON {
	g := growthJSON{Devices: f.Looked, Stacks: []growsJSON{}, Unsaid: f.GrowUnsaid, Rates: []growAllJSON{}}
	for i := range f.Growth {
		x := &f.Growth[i]
		kind := "leak"
		if x.Buffer {
			kind = "growing-buffer"
		}
		first := x.Members[0]
		g.Stacks = append(g.Stacks, growsJSON{f.lines(x.Stack), x.Spread(f.Looked), len(x.Members), x.Total(),
			atStep{first.File, first.rank(), first.Index, x.PerStep[0]}, x.AtEnd, kind})
	}
	for _, m := range f.Members {
		if m.Facts.Grows {
			g.Rates = append(g.Rates, growAllJSON{m.File, m.rank(), m.Index, m.Facts.PerStep})
		}
	}
	return g
}

func (f *Fleet) unusedJSON() unusedJSON {
	u := unusedJSON{Error: 1.0 / 256}
	if list := f.Unused.AtPeak; len(list) > 0 {
		at := func(q float64) float64 { return float64(fleet.Quantile(list, q)) / 1000 }
		u.AtPeak = &sharesJSON{len(list), at(0.1), at(0.5), at(0.9), at(0.99), at(1)}
	}
	if f.Unused.Members > 0 {
		at := func(q float64) float64 {
			v, _ := f.Unused.Time.Quantile(q)
			return v
		}
		u.Time = &sharesJSON{f.Unused.Members, at(0.1), at(0.5), at(0.9), at(0.99), at(1)}
	}
	return u
}

func (f *Fleet) tuneJSON() *tuneJSON {
	t := f.Tuning
	if t == nil {
		return nil
	}
	j := &tuneJSON{Searched: []searchedJSON{}, Tried: t.Tried, Baseline: f.choiceJSON(&t.Own), Candidates: []choiceJSON{}, Why: t.Why,
		Lost: t.Lost, Unreplayed: t.Unreplayed}
	for _, s := range t.Searched {
		j.Searched = append(j.Searched, searchedJSON{s.File, f.member(s.Device).rank(), s.Index, s.Why, s.Search.Recommended})
	}
	for i := range t.Choices {
		j.Candidates = append(j.Candidates, f.choiceJSON(&t.Choices[i]))
	}
	if c := t.Recommended; c != nil {
		j.Recommended = &recommendedJSON{c.Conf, report.EnvLine(c.Conf), t.Saves(c), t.Why, known(since(c.Conf))}
	}
	return j
}

func (f *Fleet) choiceJSON(c *Choice) choiceJSON {
	j := choiceJSON{Devices: c.Devices, Completed: c.Completed, Rescued: c.Rescued, Broken: c.Broken, Peak: c.Peak, Range: [2]int64{c.Low, c.High},
		Grew: c.Grew, Total: c.Total, Cost: costJSON{c.Calls, c.Retries, c.Slow}}
	if !c.Own {
		j.Conf = &c.Conf
		if f.Tuning.Own.Devices == c.Devices {
			n := f.Tuning.Saves(c)
			j.Saves = &n
		}
	}
	if c.Worst != nil {
		at := f.member(c.Worst).at(c.Peak, 0)
		j.Worst = &at
	}
	return j
}

// member is the member that a device is.
func (f *Fleet) member(d *fleet.Device) *Member {
	for _, m := range f.Members {
		if m.Device == d {
			return m
		}
	}
	return &Member{Device: d, Place: fleet.Place{Rank: -1, Local: -1}} // unreachable: every device with facts is a member
}

// lines are the frames of a stack, as all JSON of the tool has them.
func (f *Fleet) lines(p fleet.Print) []string { return report.StackLines(f.Stacks[p]) }

func failures(list []fleet.Failure) []failedJSON {
	out := []failedJSON{}
	for _, x := range list {
		out = append(out, failedJSON{x.File, x.Error})
	}
	return out
}

func orNil(n, least int64) *int64 {
	if n < least {
		return nil
	}
	return &n
}

func known(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
