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

// Setting is a setting to replay under.
type Setting struct {
	Text     string
	Config   config.Config
	Findings []config.Finding
}

// ReplayOptions say what to replay under.
type ReplayOptions struct {
	Models        []string    // names of allocators; none: PyTorch's
	Settings      []Setting   // for PyTorch's; none: the recording's own
	Limit         int64       // bytes the process may reserve, negative for no limit
	Memory        int64       // bytes the device can give, 0 for no limit
	RecordedLimit int64       // bytes the process could reserve when it was recorded, negative if not known
	Device        *RealDevice // to replay over; nil for simulated ones
	EditOptions
}

// Replays is what came of replaying a recording.
type Replays struct {
	File     string
	Device   int
	Events   int
	Limit    int64
	Memory   int64
	Follow   *simulate.Following
	Recorded int64 // peak reserved of the recording, bytes
	Live     int64 // peak allocated of it, bytes
	Source   trace.Source
	Content  trace.Content
	Runs     []ReplayRun
	On       *RealDevice      // nil for simulated ones
	Edited   *simulate.Edited // nil if nothing was to be changed
	Steps    simulate.StepList
	Stacks   *trace.Stacks // of the leaks that Edited knows of
}

// ReplayRun is one of them.
type ReplayRun struct {
	Allocator string
	Setting   Setting
	simulate.Prediction
	Unedited *simulate.Run // without the edits, if there are any
}

// beyondLimit is by how much what is reserved can go beyond a limit: by less than a page of an expandable segment.
const beyondLimit = 20 * mib

// followIn follows a recording under the limit that it is said to have had. Where that is only the limit to be tried, and
// the recording went beyond it, it had another one, which nobody knows.
func followIn(d *trace.Device, cfg config.Config, recorded, tried int64) *simulate.Following {
	f := simulate.Follow(d, cfg, simulate.FollowOptions{Limit: recorded})
	if recorded >= 0 && recorded == tried && f.PeakReserved > recorded+beyondLimit {
		return simulate.Follow(d, cfg, simulate.FollowOptions{Limit: -1})
	}
	return f
}

// Replay follows a recording to find its requests, changes them if that is asked for, and replays them. An
// error is about the edits.
func Replay(file string, t *trace.Trace, d *trace.Device, o ReplayOptions) (*Replays, error) {
	cfg, _ := simulate.SettingsOf(t, config.DefaultVersion)
	f := followIn(d, cfg, o.RecordedLimit, o.Limit)
	r := &Replays{File: file, Device: d.Index, Events: d.Events.Len(), Limit: o.Limit, Memory: o.Memory, Follow: f,
		Recorded: f.PeakReserved, Live: f.PeakAllocated, Source: t.Source, Content: d.Content}
	if s := countedBy(d); s != nil {
		r.Recorded = s.Max
	} else if d.Content == trace.Requests && r.Recorded == 0 {
		r.Recorded = -1
	}
	requests, err := r.edit(t, d, o)
	if err != nil {
		return nil, err
	}
	settings := o.Settings
	if len(settings) == 0 {
		settings = []Setting{{Text: f.Config.String(), Config: f.Config}}
	}
	models := o.Models
	if len(models) == 0 {
		models = []string{simulate.Caching}
	}
	around := f.Surroundings()
	for _, name := range models {
		m, _ := simulate.FindModel(name)
		under := settings
		if !m.Settings {
			under = []Setting{{Config: f.Config}}
		}
		for _, s := range under {
			w := simulate.WhatIf{Model: name, Config: s.Config, Limit: o.Limit, Memory: o.Memory}
			x := ReplayRun{Allocator: name, Setting: s}
			if x.Prediction, err = o.replay(requests, around, w); err != nil {
				return nil, err
			}
			if r.Edited != nil {
				run := f.Requests.Once(around, w)
				x.Unedited = &run
			}
			r.Runs = append(r.Runs, x)
		}
	}
	r.On = o.Device
	return r, nil
}

type replayJSON struct {
	Schema      string     `json:"schema"`
	File        string     `json:"file"`
	Device      int        `json:"device"`
	Events      int        `json:"events"`
	Driver      string     `json:"driver"` // sim or cuda
	Recorded    *int64     `json:"recorded_peak_reserved_bytes"`
	Exact       *bool      `json:"recording_reproduced"`
	Assumptions []string   `json:"assumptions"`
	Edits       []editJSON `json:"edits"`
	Steps       *stepsJSON `json:"steps"` // that the edits are about
	Runs        []runJSON  `json:"runs"`
}

// WriteJSON renders replays for programs, schema vramscope/replay/v1.
func (r *Replays) WriteJSON(w io.Writer) error {
	out := replayJSON{Schema: "vramscope/replay/v1", File: r.File, Device: r.Device, Events: r.Events, Driver: "sim", Recorded: atLeast(r.Recorded, 0),
		Assumptions: append([]string{}, r.Follow.Score.Assumed...), Runs: []runJSON{}}
	if r.Content == trace.Decisions {
		exact := r.Follow.Score.Exact()
		out.Exact = &exact
	} else {
		out.Assumptions = append(out.Assumptions, r.lower()...)
	}
	if r.On != nil {
		out.Driver = "cuda"
	}
	out.Edits = r.editsJSON()
	if r.Steps.Source != "" {
		out.Steps = &stepsJSON{len(r.Steps.Steps), r.Steps.Source}
	}
	for _, x := range r.Runs {
		j := newRunJSON(x.Allocator, x.Setting.Text, x.Setting.Findings, simulate.Room{Memory: r.Memory, Limit: r.Limit}, x.Prediction)
		if j.FirstOOM != nil {
			j.FirstOOM.Event = r.event(j.FirstOOM.Event)
		}
		if x.Unedited != nil {
			j.Unedited = &x.Unedited.Stats.Reserved.Peak
		}
		out.Runs = append(out.Runs, j)
	}
	return WriteJSON(w, out)
}

// WriteText renders replays for people, as a table.
func (r *Replays) WriteText(w io.Writer, style Style) error {
	p := &page{w: w, style: style}
	recorded := Bytes(r.Live) + " allocated"
	if r.Recorded >= 0 {
		recorded = Bytes(r.Recorded) + " reserved, " + recorded
	}
	p.line("%s", p.bold(fmt.Sprintf("%s · device %d · %s · recorded peak %s", filepath.Base(r.File), r.Device, plural(r.Events, "event"), recorded)))
	p.line("%s", r.Under())
	r.edits(p)
	p.line("")
	header := table.Row{"allocator", "peak reserved", "range", "over live", "device calls", "retries", "finishes"}
	live := r.Live
	if r.Edited != nil {
		header = append(header, "without the edits")
		live = r.Edited.PeakAllocated
	}
	t := Grid(header...)
	t.SetColumnConfigs(rightAligned(2, 6))
	for _, x := range r.Runs {
		s := x.Stats
		row := table.Row{r.Label(x), Bytes(s.Reserved.Peak), rangeOf(x.Low, x.High), percent(s.Reserved.Peak-live, live),
			Count(int(s.DeviceAllocs + s.DeviceFrees)), Count(int(s.Retries)), r.Finishes(x)}
		if x.Unedited != nil {
			row = append(row, unedited(x))
		}
		t.AppendRow(row)
	}
	p.grid(t)
	r.notes(p)
	return p.err
}

// Label names a run: a setting of PyTorch's allocator, or another allocator.
func (r *Replays) Label(x ReplayRun) string { return labelOf(x.Allocator, x.Setting) }

// Under says in how much memory the requests were replayed.
func (r *Replays) Under() string {
	switch {
	case r.On != nil && r.Limit >= 0:
		return fmt.Sprintf("Replayed on %s, in %s of its memory, %s of it allowed to the process.", r.On.Name, Bytes(r.On.Memory), Bytes(r.Limit))
	case r.On != nil:
		return fmt.Sprintf("Replayed on %s, in %s of its memory.", r.On.Name, Bytes(r.On.Memory))
	case r.Limit >= 0 && r.Memory > 0:
		return fmt.Sprintf("Replayed in %s of device memory, %s of it allowed to the process.", Bytes(r.Memory), Bytes(r.Limit))
	case r.Limit >= 0:
		return fmt.Sprintf("Replayed with %s allowed to the process.", Bytes(r.Limit))
	case r.Memory > 0:
		return fmt.Sprintf("Replayed in %s of device memory.", Bytes(r.Memory))
	}
	return "Replayed without a limit of memory; --memory or --limit set one."
}

// Finishes says whether a run gets to its end.
func (r *Replays) Finishes(x ReplayRun) string {
	o := x.FirstOOM
	switch {
	case o == nil:
		return "yes"
	case x.Completed:
		return fmt.Sprintf("yes, as recorded after %s", plural(int(x.Stats.OOMs), "failure"))
	}
	return fmt.Sprintf("no: event %s, %s more with %s reserved", Count(r.event(o.Event)), Bytes(o.Requested), Bytes(o.Reserved))
}

// Mind is what a reader of the figures must know.
func (r *Replays) Mind() []string {
	var notes []string
	f := r.Follow
	if !f.Score.Exact() {
		notes = append(notes, "the model does not reproduce this recording exactly (vramscope verify): take the figures as estimates")
	}
	if f.Requests.Prefix() {
		notes = append(notes, "the recording ends where it ran out of memory: what the program would have done after that is not in it")
	}
	if f.Truncated {
		notes = append(notes, "the recording begins in the middle of a run: blocks older than it are taken as they were")
	}
	for _, x := range r.Runs {
		if x.Guess {
			notes = append(notes, "addresses in this recording do not follow the rules of the driver that is modelled: the range is a guess")
			break
		}
	}
	notes = append(notes, f.Score.Assumed...)
	notes = append(notes, r.lower()...)
	for _, x := range r.Runs {
		for _, s := range x.Setting.Findings {
			if s.Severity != config.Risk {
				notes = append(notes, fmt.Sprintf("%s: %s", x.Setting.Text, s.Message))
			}
		}
	}
	return notes
}

func (r *Replays) notes(p *page) {
	for i, n := range r.Mind() {
		if i == 0 {
			p.line("")
		}
		p.line("- %s", n)
	}
}

// WriteModels lists the allocators that requests can be replayed through.
func WriteModels(w io.Writer, models []simulate.Model) error {
	for _, m := range models {
		if _, err := fmt.Fprintf(w, "%-12s %s\n", m.Name, m.What); err != nil {
			return err
		}
	}
	return nil
}

// whoseAllocator says that figures of PyTorch's allocator may not be of the allocator that a program had, nothing if they are.
func whoseAllocator(s *trace.Source, content trace.Content) string {
	if content == trace.Decisions || strings.Contains(s.Producer, "torch") || strings.HasPrefix(s.Format, "STAlloc") {
		return ""
	}
	return "what is said of PyTorch's allocator is what it would have done with these requests; that the program ran on it, this kind of file does not tell"
}

// lower says why the replay of a recording that has requests only is of lower fidelity, and of whose allocator it tells.
func (r *Replays) lower() []string {
	if r.Content == trace.Decisions {
		return nil
	}
	var out []string
	if whose := whoseAllocator(&r.Source, r.Content); whose != "" {
		out = append(out, whose)
	}
	for _, l := range r.Source.Lacks {
		out = append(out, fmt.Sprintf("lower fidelity: this kind of file does not tell %s; for that: %s", l.What, l.Instead))
	}
	return out
}
