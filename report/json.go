package report

import (
	"encoding/json"
	"io"

	"github.com/vramscope/vramscope/trace"
)

// The JSON of an analysis, schema vramscope/analyze/v1. A value that the input cannot give is null.

type analysisJSON struct {
	Schema  string       `json:"schema"`
	File    string       `json:"file"`
	Source  sourceJSON   `json:"source"`
	Devices []deviceJSON `json:"devices"`
	Lacks   []lackJSON   `json:"lacks"`
	Beside  []besideJSON `json:"beside"`
}

type sourceJSON struct {
	Format   string        `json:"format"`
	Producer *string       `json:"producer"`
	Events   int           `json:"events"`
	Complete bool          `json:"complete"`
	Warnings []WarningJSON `json:"warnings"`
}

// WarningJSON is a warning as programs read it.
type WarningJSON struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Count   int    `json:"count"`
	Event   *int   `json:"first_event"`
}

type deviceJSON struct {
	Device        int                `json:"device"`
	Settings      *settingsJSON      `json:"settings"`
	PeakAllocated peakAllocatedJSON  `json:"peak_allocated"`
	PeakReserved  peakReservedJSON   `json:"peak_reserved"`
	End           endJSON            `json:"end"`
	Fragmentation *fragmentationJSON `json:"fragmentation"`
	Steps         *stepsJSON         `json:"steps"`
	Leaks         []leakJSON         `json:"leaks"`
	Growth        *growthJSON        `json:"growth"`
	OOMs          []oomJSON          `json:"ooms"`
	Help          []helpJSON         `json:"help"`
	Enough        *enoughJSON        `json:"enough_memory"`
	Assumptions   []string           `json:"assumptions"`
	Exact         *bool              `json:"exact"`
	Content       string             `json:"content"`
	Name          *string            `json:"name"`
	Series        []seriesJSON       `json:"series"`
	Live          *liveJSON          `json:"live"`
	Outside       []*outsideJSON     `json:"outside"`
	Warnings      []WarningJSON      `json:"warnings"`
	At            *atJSON            `json:"at"`
	Uses          *usesJSON          `json:"over_time"`
}

type settingsJSON struct {
	Conf        string   `json:"conf"`
	Expandable  bool     `json:"expandable_segments"`
	LimitBytes  *int64   `json:"limit_bytes"`
	MemoryBytes *int64   `json:"memory_bytes"`
	Findings    []string `json:"findings"`
}

type stackJSON struct {
	Stack  []string `json:"stack"`
	Bytes  int64    `json:"bytes"`
	Blocks int      `json:"blocks"`
}

type peakAllocatedJSON struct {
	Bytes        *int64      `json:"bytes"`
	Event        *int        `json:"event"`
	TimeUS       *int64      `json:"time_us"`
	Reserved     *int64      `json:"reserved_bytes"`
	Requested    *int64      `json:"requested_bytes"`
	Before       *int64      `json:"before_recording_bytes"`
	Unattributed *int64      `json:"unattributed_bytes"`
	ByStack      []stackJSON `json:"by_stack"`
	Tree         []treeJSON  `json:"tree"`
	sharesJSON
}

type peakReservedJSON struct {
	Bytes     *int64 `json:"bytes"`
	Event     *int   `json:"event"`
	TimeUS    *int64 `json:"time_us"`
	Allocated *int64 `json:"allocated_bytes"`
}

type endJSON struct {
	Allocated    *int64      `json:"allocated_bytes"`
	Reserved     *int64      `json:"reserved_bytes"`
	Before       *int64      `json:"before_recording_bytes"`
	Unattributed *int64      `json:"unattributed_bytes"`
	ByStack      []stackJSON `json:"by_stack"`
	sharesJSON
}

type fragmentationJSON struct {
	Stranded  int64          `json:"stranded_bytes"`
	Cached    int64          `json:"cached_bytes"`
	Rounding  int64          `json:"rounding_bytes"`
	Pending   int64          `json:"pending_bytes"`
	Private   *int64         `json:"private_pools_bytes"`
	Largest   int64          `json:"largest_free_bytes"` // in any pool
	PinnedBy  []pinJSON      `json:"pinned_by"`
	FreeSizes []freeSizeJSON `json:"free_sizes"`
	Pools     []poolUseJSON  `json:"pools"`
}

type pinJSON struct {
	Segment  int64    `json:"segment_bytes"`
	Live     int64    `json:"live_bytes"`
	Blocks   int      `json:"live_blocks"`
	Stack    []string `json:"stack"`       // of the largest of them
	Bytes    int64    `json:"stack_bytes"` // that it takes
	Born     *int     `json:"stack_event"` // null: it is older than the recording
	AgeUS    *int64   `json:"stack_age_us"`
	Category string   `json:"stack_category"`
	Pool     string   `json:"pool"`
}

type oomJSON struct {
	Event      *int   `json:"event"`
	TimeUS     *int64 `json:"time_us"`
	Requested  *int64 `json:"requested_bytes"`
	Tried      *int64 `json:"tried_bytes"`
	Allocated  int64  `json:"allocated_bytes"`
	Reserved   *int64 `json:"reserved_bytes"`
	DeviceFree *int64 `json:"device_free_bytes"`
	Largest    *int64 `json:"largest_free_bytes"` // that the request could have had, of its pool and stream
	Verdict    string `json:"verdict"`
	Why        string `json:"why"`

	ByStack       []stackJSON        `json:"by_stack"`
	Fragmentation *fragmentationJSON `json:"fragmentation"`
	Freeing       *freeingJSON       `json:"freeing"`
	sharesJSON
}

type helpJSON struct {
	Conf      string `json:"conf"`
	Completed bool   `json:"completed"`
	Peak      int64  `json:"peak_reserved_bytes"`
	Instead   int64  `json:"instead_of_bytes"`
	Prefix    bool   `json:"prefix"`
}

type enoughJSON struct {
	Bytes  int64 `json:"bytes"`
	Limit  bool  `json:"limit"` // of the process's own limit; otherwise of what the device gives
	Prefix bool  `json:"prefix"`
}

// WriteJSON renders an analysis for programs.
func (a *Analysis) WriteJSON(w io.Writer) error {
	out := analysisJSON{
		Schema: "vramscope/analyze/v1",
		File:   a.File,
		Source: sourceJSON{
			Format: a.Trace.Source.Format, Producer: known(a.Trace.Source.Producer), Complete: a.Complete,
			Warnings: Warnings(a.Trace.Warnings),
		},
		Devices: []deviceJSON{}, Lacks: lackList(a.Trace.Source.Lacks), Beside: besideList(a.Trace),
	}
	for i := range a.Devices {
		d := &a.Devices[i]
		out.Source.Events += d.Trace.Recorded()
		out.Source.Warnings = append(out.Source.Warnings, Warnings(d.Trace.Warnings)...)
		out.Devices = append(out.Devices, a.deviceJSON(d))
	}
	return WriteJSON(w, out)
}

// WriteJSON writes a document, indented.
func WriteJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

func (a *Analysis) deviceJSON(d *Device) deviceJSON {
	stacks := a.Trace.Stacks
	j := deviceJSON{
		Device: d.Index, Content: contents[d.Trace.Content], Name: known(d.Trace.Name),
		Series: seriesList(d.Trace.Series, a.Trace.Source.Clock), Live: liveOf(d.Trace), Outside: outsideList(d.Outside),
		PeakAllocated: peakAllocatedJSON{ByStack: []stackJSON{}}, End: endJSON{ByStack: []stackJSON{}},
		OOMs: []oomJSON{}, Help: []helpJSON{}, Assumptions: []string{}, Warnings: Warnings(d.Trace.Warnings),
	}
	f := d.Follow
	if f == nil {
		a.withoutEventsJSON(d, &j)
		return j
	}
	peak, end := d.PeakAllocated.Holders, d.End.Holders
	j.PeakAllocated = peakAllocatedJSON{
		Bytes: &d.PeakAllocated.Allocated, Event: eventOf(d.PeakAllocated), TimeUS: timeOf(d.PeakAllocated.Time),
		Reserved: d.reserved(&d.PeakAllocated), Requested: d.requested(&d.PeakAllocated),
		Before: &peak.Before, Unattributed: &peak.Unattributed, ByStack: stackList(stacks, peak),
		Tree: d.PeakAllocated.Breakdown.branches(), sharesJSON: d.PeakAllocated.Breakdown.sides(),
	}
	j.PeakReserved = peakReservedJSON{Bytes: d.reserved(&d.PeakReserved)}
	if j.PeakReserved.Bytes != nil {
		j.PeakReserved.Event, j.PeakReserved.TimeUS = eventOf(d.PeakReserved), timeOf(d.PeakReserved.Time)
		j.PeakReserved.Allocated = &d.PeakReserved.Allocated
	}
	j.End = endJSON{Allocated: &d.End.Allocated, Reserved: d.reserved(&d.End), Before: &end.Before,
		Unattributed: &end.Unattributed, ByStack: stackList(stacks, end), sharesJSON: d.End.Breakdown.sides()}
	j.At, j.Uses = a.atJSON(d), usesOver(d)
	j.Steps, j.Leaks, j.Growth = a.stepsAndLeaks(d)
	if d.Trace.Content == trace.Decisions {
		a.decisionsJSON(d, &j)
	}
	for _, o := range d.OOMs {
		j.OOMs = append(j.OOMs, oomJSON{
			Event: &o.Event, TimeUS: timeOf(o.Time), Requested: atLeast(o.Requested, 1), Tried: atLeast(o.Tried, 1), Allocated: o.Allocated,
			Reserved: d.reservedThen(&o), DeviceFree: atLeast(o.DeviceFree, 1), Largest: atLeast(o.LargestFree, 0), Verdict: o.Verdict, Why: o.Why,
			ByStack: stackList(stacks, o.Holders), Fragmentation: a.layoutJSON(d, o.Layout), sharesJSON: o.Breakdown.sides(),
		})
		if o.Layout != nil {
			j.OOMs[len(j.OOMs)-1].Freeing = a.freeingJSON(o.Layout.Freeing)
		}
	}
	if d.Enough != nil {
		j.Enough = &enoughJSON{d.Enough.Bytes, d.Enough.Limit, f.Requests.Prefix()}
	}
	for _, h := range d.Help {
		j.Help = append(j.Help, helpJSON(h))
	}
	return j
}

// decisionsJSON fills in what only a recording of an allocator's decisions has.
func (a *Analysis) decisionsJSON(d *Device, j *deviceJSON) {
	f := d.Follow
	exact := f.Score.Exact()
	j.Exact = &exact
	j.Assumptions = append(append(j.Assumptions, f.Score.Assumed...), d.loose()...)
	j.Settings = &settingsJSON{
		Conf: f.Config.String(), Expandable: f.Config.Expandable, Findings: []string{},
		LimitBytes: atLeast(f.Bounds.Limit, 0), MemoryBytes: atLeast(f.Bounds.Capacity, 1),
	}
	for _, s := range a.Settings {
		j.Settings.Findings = append(j.Settings.Findings, s.Message)
	}
	j.Fragmentation = a.layoutJSON(d, d.PeakReserved.Layout)
}

func stackList(stacks *trace.Stacks, h Holders) []stackJSON {
	out := make([]stackJSON, len(h.ByStack))
	for i, x := range h.ByStack {
		out[i] = stackJSON{fullStack(stacks, x.Stack), x.Bytes, x.Blocks}
	}
	return out
}

// Warnings renders warnings for programs.
func Warnings(list []trace.Warning) []WarningJSON {
	out := make([]WarningJSON, len(list))
	for i, w := range list {
		out[i] = WarningJSON{Code: w.Code, Message: w.Message, Count: w.Count}
		if w.First >= 0 {
			out[i].Event = &w.First
		}
	}
	return out
}

func known(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func atLeast(n, least int64) *int64 {
	if n < least {
		return nil
	}
	return &n
}

func eventOf(p Peak) *int {
	if p.Event < 0 {
		return nil
	}
	return &p.Event
}

func timeOf(t trace.Time) *int64 {
	if t == 0 {
		return nil
	}
	us := int64(t) / 1000
	return &us
}
