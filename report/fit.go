package report

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/vramscope/vramscope/allocators/caching/config"
	"github.com/vramscope/vramscope/simulate"
	"github.com/vramscope/vramscope/trace"
)

// FitOptions say what to find the smallest memory for.
type FitOptions struct {
	Models        []string  // names of allocators; none: PyTorch's
	Settings      []Setting // for PyTorch's; none: the recording's own
	RecordedLimit int64     // bytes the process could reserve when it was recorded, negative if not known
	Progress      simulate.Progress
}

// Fits is the smallest memory in which a recording finishes, for some allocators and settings.
type Fits struct {
	Replayed
	Live int64 // peak of what was in use, bytes as asked for
	Fits []FitRun
}

// Replayed is a recording whose requests are replayed.
type Replayed struct {
	File     string
	Device   int
	Events   int
	Recorded int64 // peak reserved, bytes; negative if the recording does not tell
	Prefix   bool  // the recording ends where it ran out of memory
	Source   trace.Source
	Content  trace.Content
	Follow   *simulate.Following
}

func replayed(file string, t *trace.Trace, d *trace.Device, f *simulate.Following) Replayed {
	r := Replayed{File: file, Device: d.Index, Events: d.Events.Len(), Recorded: f.PeakReserved, Prefix: f.Requests.Prefix(),
		Source: t.Source, Content: d.Content, Follow: f}
	if s := countedBy(d); s != nil {
		r.Recorded = s.Max
	} else if d.Content == trace.Requests && r.Recorded == 0 {
		r.Recorded = -1
	}
	return r
}

// FitRun is one of them.
type FitRun struct {
	Allocator string
	Setting   Setting
	simulate.Fit
}

// Fit follows a recording to find its requests, and looks for the smallest memory in which they are served.
func Fit(file string, t *trace.Trace, d *trace.Device, o FitOptions) *Fits {
	cfg, _ := simulate.SettingsOf(t, config.DefaultVersion)
	f := simulate.Follow(d, cfg, simulate.FollowOptions{Limit: o.RecordedLimit})
	r := &Fits{Replayed: replayed(file, t, d, f), Live: f.Requests.PeakLive()}
	settings := o.Settings
	if len(settings) == 0 {
		settings = []Setting{{Text: f.Config.String(), Config: f.Config}}
	}
	models := o.Models
	if len(models) == 0 {
		models = []string{simulate.Caching}
	}
	var asked []simulate.WhatIf
	for _, name := range models {
		m, _ := simulate.FindModel(name)
		under := settings
		if !m.Settings {
			under = []Setting{{Config: f.Config}}
		}
		for _, s := range under {
			asked = append(asked, simulate.WhatIf{Model: name, Config: s.Config})
			r.Fits = append(r.Fits, FitRun{Allocator: name, Setting: s})
		}
	}
	for i, fit := range f.Requests.Fits(f.Alike(), asked, o.Progress) {
		r.Fits[i].Fit = fit
	}
	return r
}

type fitJSON struct {
	Schema        string       `json:"schema"`
	File          string       `json:"file"`
	Device        int          `json:"device"`
	Events        int          `json:"events"`
	PeakLive      int64        `json:"peak_live_bytes"`
	PeakAllocated int64        `json:"recorded_peak_allocated_bytes"`
	PeakReserved  *int64       `json:"recorded_peak_reserved_bytes"`
	Prefix        bool         `json:"prefix"`
	Exact         *bool        `json:"recording_reproduced"`
	Assumptions   []string     `json:"assumptions"`
	Fits          []fitRunJSON `json:"fits"`
}

type fitRunJSON struct {
	Allocator    string     `json:"allocator"`
	Conf         string     `json:"conf"`
	MinMemory    *int64     `json:"min_memory_bytes"`
	MemoryRange  *[2]int64  `json:"min_memory_range_bytes"`
	MinLimit     *int64     `json:"min_limit_bytes"`
	LimitRange   *[2]int64  `json:"min_limit_range_bytes"`
	Monotone     *bool      `json:"monotone"`
	SafeMemory   *int64     `json:"safe_memory_bytes"`
	SafeLimit    *int64     `json:"safe_limit_bytes"`
	Fails        [][2]int64 `json:"fails_bytes"`
	Every        bool       `json:"every_size_settled"`
	Tried        int        `json:"sizes_tried"`
	Unlimited    int64      `json:"unlimited_peak_reserved_bytes"`
	PeakReserved *int64     `json:"peak_reserved_bytes"`
	DeviceAllocs *int64     `json:"device_allocs"`
	DeviceFrees  *int64     `json:"device_frees"`
	Retries      *int64     `json:"retries"`
	Findings     []string   `json:"findings"`
}

// WriteJSON renders fits for programs, schema vramscope/fit/v1. The figures of a run are those in the
// smallest memory.
func (r *Fits) WriteJSON(w io.Writer) error {
	out := fitJSON{Schema: "vramscope/fit/v1", File: r.File, Device: r.Device, Events: r.Events, PeakLive: r.Live,
		PeakAllocated: r.Follow.PeakAllocated, PeakReserved: atLeast(r.Recorded, 0), Prefix: r.Prefix, Exact: r.exact(),
		Assumptions: r.assumptions(), Fits: []fitRunJSON{}}
	for i := range r.Fits {
		x := &r.Fits[i]
		j := fitRunJSON{Allocator: x.Allocator, Conf: x.Setting.Text, Fails: [][2]int64{}, Findings: []string{},
			Every: x.Memory.Every, Tried: x.Memory.Tried, Unlimited: x.Unlimited.Stats.Reserved.Peak}
		if m := &x.Memory; m.Bytes > 0 {
			s, monotone := &m.Run.Stats, m.Monotone()
			j.MinMemory, j.MemoryRange, j.SafeMemory, j.Monotone = &m.Bytes, &[2]int64{m.Low, m.High}, &m.Safe, &monotone
			j.PeakReserved, j.DeviceAllocs, j.DeviceFrees, j.Retries = &s.Reserved.Peak, &s.DeviceAllocs, &s.DeviceFrees, &s.Retries
			for _, f := range m.Fails {
				j.Fails = append(j.Fails, [2]int64{f.From, f.To})
			}
		}
		if l := x.Limit; l != nil && l.Bytes > 0 {
			j.MinLimit, j.LimitRange, j.SafeLimit = &l.Bytes, &[2]int64{l.Low, l.High}, &l.Safe
		}
		for _, f := range x.Setting.Findings {
			j.Findings = append(j.Findings, f.Message)
		}
		out.Fits = append(out.Fits, j)
	}
	return WriteJSON(w, out)
}

// WriteText renders fits for people, the answer first.
func (r *Fits) WriteText(w io.Writer, style Style) error {
	p := &page{w: w, style: style}
	p.line("%s", p.bold(r.answer()))
	p.line("%s", r.headline())
	p.line("")
	t := Grid("allocator", "memory", "range", "own limit", "over live", "retries then", "larger sizes")
	t.SetColumnConfigs(rightAligned(2, 6))
	for i := range r.Fits {
		x := &r.Fits[i]
		m := &x.Memory
		if m.Bytes == 0 {
			t.AppendRow(table.Row{labelOf(x.Allocator, x.Setting), "–", "", "", "", "", "runs out in any size that was tried"})
			continue
		}
		limit := "–"
		if x.Limit != nil && x.Limit.Bytes > 0 {
			limit = Bytes(x.Limit.Bytes)
		}
		t.AppendRow(table.Row{labelOf(x.Allocator, x.Setting), Bytes(m.Bytes), rangeOf(m.Low, m.High), limit,
			percent(m.Bytes-r.Live, r.Live), Count(int(m.Run.Stats.Retries)), largerSizes(m)})
	}
	p.grid(t)
	p.notes(r.notes())
	return p.err
}

// least is the fit that needs least, nil if none fits.
func (r *Fits) least() *FitRun {
	var best *FitRun
	for i := range r.Fits {
		if x := &r.Fits[i]; x.Memory.Bytes > 0 && (best == nil || x.Memory.Bytes < best.Memory.Bytes) {
			best = x
		}
	}
	return best
}

// answer is the first line.
func (r *Fits) answer() string {
	best := r.least()
	if best == nil {
		return "This run finishes in no size of memory that was tried."
	}
	what := "This run finishes"
	switch {
	case r.Prefix:
		what = "Up to where it ran out of memory, this run finishes"
	case r.Follow.Truncated:
		what = "From where the recording begins, this run finishes"
	}
	text := fmt.Sprintf("%s in %s", what, Bytes(best.Memory.Bytes))
	if len(r.Fits) == 1 {
		if best.Setting.Text != "" || best.Allocator != simulate.Caching {
			text += " with " + labelOf(best.Allocator, best.Setting)
		}
		return text + fmt.Sprintf(", %s over the %s that it had live at most.", percent(best.Memory.Bytes-r.Live, r.Live), Bytes(r.Live))
	}
	with := labelOf(best.Allocator, best.Setting)
	if with == defaultLabel {
		with = "the default settings"
	}
	return text + fmt.Sprintf(" with %s, the least of %d; %s were live at most.", with, len(r.Fits), Bytes(r.Live))
}

// largerSizes says how it goes in more than the smallest.
func largerSizes(m *simulate.Least) string {
	switch {
	case !m.Monotone():
		return fmt.Sprintf("fails in %s, not from %s on", failing(m.Fails), exactBytes(m.Safe))
	case m.Every:
		return "all finish"
	}
	return "none seen to fail"
}

func failing(list []simulate.Sizes) string {
	const most = 3
	var parts []string
	for _, s := range list {
		if len(parts) == most {
			return strings.Join(parts, ", ") + " and more"
		}
		if s.From == s.To {
			parts = append(parts, exactBytes(s.From))
		} else {
			parts = append(parts, exactBytes(s.From)+" – "+exactBytes(s.To))
		}
	}
	return strings.Join(parts, ", ")
}

// exactBytes shows a size in whole MiB if it is one, since rounded to GiB neighbours look the same.
func exactBytes(n int64) string {
	if n%mib == 0 {
		return Count(int(n/mib)) + " MiB"
	}
	return Bytes(n)
}

func (r *Fits) notes() []string {
	notes := []string{"this is what the allocator must be able to get: the CUDA context, other libraries and other processes take theirs beside it"}
	if r.Prefix {
		notes = append(notes, "the recording ends where it ran out of memory: the whole run needs at least this, and nobody knows how much more")
	}
	notes = append(notes, r.Replayed.notes()...)
	for i := range r.Fits {
		notes = append(notes, settingNotes(r.Fits[i].Setting)...)
	}
	return notes
}

// headline names a recording.
func (r *Replayed) headline() string {
	peak := Bytes(r.Follow.PeakAllocated) + " allocated"
	if r.Recorded >= 0 {
		peak = Bytes(r.Recorded) + " reserved, " + peak
	}
	return fmt.Sprintf("%s · device %d · %s · recorded peak %s", filepath.Base(r.File), r.Device, plural(r.Events, "event"), peak)
}

// exact says whether the model reproduces the recording, nil for one that has no decisions to compare.
func (r *Replayed) exact() *bool {
	if r.Content != trace.Decisions {
		return nil
	}
	exact := r.Follow.Score.Exact()
	return &exact
}

func (r *Replayed) assumptions() []string {
	return append(append([]string{}, r.Follow.Score.Assumed...), r.lower()...)
}

func (r *Replayed) lower() []string {
	return (&Replays{Source: r.Source, Content: r.Content}).lower()
}

// notes are what to know about a recording before its replays are believed.
func (r *Replayed) notes() []string {
	var notes []string
	f := r.Follow
	if !f.Score.Exact() {
		notes = append(notes, "the model does not reproduce this recording exactly (vramscope verify): take the figures as estimates")
	}
	if n := len(f.Requests.Failed); n > 1 || n == 1 && !r.Prefix {
		notes = append(notes, fmt.Sprintf("%s failed in the recording: what the program would have done with the memory is not in it", plural(n, "request")))
	}
	if f.Truncated {
		notes = append(notes, "the recording begins in the middle of a run: under all settings alike the blocks that are older are laid out anew, and what else the allocator held then is left out")
	}
	return append(notes, r.assumptions()...)
}

// settingNotes are what to know about a setting, but for its risks.
func settingNotes(s Setting) []string {
	var notes []string
	for _, f := range s.Findings {
		if f.Severity != config.Risk {
			notes = append(notes, fmt.Sprintf("%s: %s", s.Text, f.Message))
		}
	}
	return notes
}

// labelOf names what was replayed: a setting of PyTorch's allocator, or another allocator.
func labelOf(allocator string, s Setting) string {
	switch {
	case allocator != simulate.Caching:
		return allocator
	case s.Text == "":
		return defaultLabel
	}
	return s.Text
}

const defaultLabel = "(default)"

func rangeOf(low, high int64) string {
	switch {
	case low == high:
		return "±0"
	case Bytes(low) == Bytes(high):
		return exactBytes(low) + " – " + exactBytes(high)
	}
	return Bytes(low) + " – " + Bytes(high)
}

func (p *page) notes(notes []string) {
	for i, n := range notes {
		if i == 0 {
			p.line("")
		}
		p.line("- %s", n)
	}
}
