package check

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/vramscope/vramscope/allocators/caching/config"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/trace"
)

// Schema is the name of the baseline's form.
const Schema = "vramscope/baseline/v1"

// mostStacks is how many stacks a baseline keeps of each device.
const mostStacks = 200

// Baseline is what an earlier recording came to.
type Baseline struct {
	File    string // that it was read from, as far as it was
	Devices []BaselineDevice
}

// BaselineDevice is one device of it.
type BaselineDevice struct {
	report.Profile
	Floor    int64            // stacks that never held more than this are left out, bytes
	Patterns map[string]int64 // most held at once by the stacks that a pattern matches, bytes
}

type baselineJSON struct {
	Schema  string               `json:"schema"`
	Devices []baselineDeviceJSON `json:"devices"`
}

type baselineDeviceJSON struct {
	Device        int                 `json:"device"`
	Settings      string              `json:"settings"`
	Complete      bool                `json:"complete"`
	PeakAllocated *int64              `json:"peak_allocated_bytes"`
	PeakRequested *int64              `json:"peak_requested_bytes"`
	PeakReserved  *int64              `json:"peak_reserved_bytes"`
	PeakReplayed  *int64              `json:"peak_reserved_replayed_bytes"`
	End           *int64              `json:"live_at_end_bytes"`
	Retries       *int64              `json:"retries"`
	OOMs          *int64              `json:"ooms"`
	Steps         int                 `json:"steps"`
	Growth        *float64            `json:"leak_per_step_bytes"`
	Before        int64               `json:"before_recording_bytes"`
	Unattributed  int64               `json:"unattributed_bytes"`
	Patterns      map[string]int64    `json:"patterns,omitempty"`
	Floor         int64               `json:"stacks_omitted_to_bytes"`
	Stacks        []baselineStackJSON `json:"stacks"`
}

type baselineStackJSON struct {
	Peak   int64    `json:"peak_bytes"`
	Most   int64    `json:"most_bytes"`
	End    int64    `json:"end_bytes"`
	Frames []string `json:"frames"`
}

// Write writes a baseline, a line for each stack, so that a change of it can be read.
func (b *Baseline) Write(w io.Writer) error {
	var out bytes.Buffer
	fmt.Fprintf(&out, "{\n  \"schema\": %q,\n  \"devices\": [", Schema)
	for i := range b.Devices {
		if i > 0 {
			out.WriteByte(',')
		}
		if err := b.Devices[i].write(&out); err != nil {
			return err
		}
	}
	out.WriteString("\n  ]\n}\n")
	_, err := w.Write(out.Bytes())
	return err
}

func (d *BaselineDevice) write(out *bytes.Buffer) error {
	j := baselineDeviceJSON{
		Device: d.Device, Settings: d.Settings.String(), Complete: d.Complete,
		PeakAllocated: known(d.PeakAllocated), PeakRequested: known(d.PeakRequested), PeakReserved: known(d.PeakReserved),
		PeakReplayed: known(d.PeakReplayed), End: known(d.End), Retries: known(d.Retries), OOMs: known(d.OOMs), Steps: d.Steps,
		Before: d.Before.Peak, Unattributed: d.Unattributed.Peak, Patterns: d.Patterns, Floor: d.Floor, Stacks: []baselineStackJSON{},
	}
	if d.Growth != report.Unknown {
		j.Growth = &d.Growth
	}
	head, err := indented(j, "    ")
	if err != nil {
		return err
	}
	out.WriteString("\n    " + strings.TrimSuffix(head, "[]\n    }") + "[")
	for i, u := range d.Uses {
		s := baselineStackJSON{Peak: u.Peak, Most: u.Most, End: u.End, Frames: frameLines(d.Stacks.Stack(u.Stack))}
		line, err := compact(s)
		if err != nil {
			return err
		}
		if i > 0 {
			out.WriteByte(',')
		}
		out.WriteString("\n        " + line)
	}
	out.WriteString("\n      ]\n    }")
	return nil
}

func known(n int64) *int64 {
	if n == report.Unknown {
		return nil
	}
	return &n
}

func indented(v any, prefix string) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent(prefix, "  ")
	err := e.Encode(v)
	return strings.TrimSpace(b.String()), err
}

func compact(v any) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return strings.TrimSpace(b.String()), err
}

// maxBaseline is how large a file is that is taken for a baseline, in bytes.
const maxBaseline = 64 << 20

// ReadBaseline reads what Write wrote.
func ReadBaseline(file string, r io.Reader) (*Baseline, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxBaseline+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxBaseline {
		return nil, fmt.Errorf("is over %d MiB: not a baseline", maxBaseline>>20)
	}
	var j baselineJSON
	if err := json.Unmarshal(data, &j); err != nil {
		var at *json.SyntaxError
		if errors.As(err, &at) {
			return nil, fmt.Errorf("offset %d: %v; write it anew with --write-baseline", at.Offset, err)
		}
		return nil, fmt.Errorf("is not a baseline: %v", err)
	}
	if j.Schema != Schema {
		return nil, fmt.Errorf("is not a baseline: its schema is %q, not %q; write one with --write-baseline", j.Schema, Schema)
	}
	b := &Baseline{File: file}
	for _, d := range j.Devices {
		b.Devices = append(b.Devices, d.profile())
	}
	return b, nil
}

func (j *baselineDeviceJSON) profile() BaselineDevice {
	or := func(n *int64) int64 {
		if n == nil {
			return report.Unknown
		}
		return *n
	}
	d := BaselineDevice{Floor: j.Floor, Patterns: j.Patterns}
	cfg, _, _ := config.Parse(j.Settings, config.Latest) // one that makes no sense only differs from others
	d.Profile = report.Profile{
		Device: j.Device, Settings: cfg, Complete: j.Complete, PeakAllocated: or(j.PeakAllocated), PeakRequested: or(j.PeakRequested),
		PeakReserved: or(j.PeakReserved), PeakReplayed: or(j.PeakReplayed), End: or(j.End), EndReserved: report.Unknown,
		Retries: or(j.Retries), OOMs: or(j.OOMs), Steps: j.Steps, Growth: report.Unknown, Stacks: trace.NewStacks(),
		Before: report.StackUse{Peak: j.Before}, Unattributed: report.StackUse{Peak: j.Unattributed},
	}
	if j.Growth != nil {
		d.Growth = *j.Growth
	}
	for _, s := range j.Stacks {
		var ids []trace.FrameID
		for _, f := range s.Frames {
			ids = append(ids, d.Stacks.AddFrame(parseFrame(f)))
		}
		d.Uses = append(d.Uses, report.StackUse{Stack: d.Stacks.AddStack(ids), Peak: s.Peak, Most: s.Most, End: s.End})
	}
	return d
}

// parseFrame takes "file:line function" apart.
func parseFrame(s string) trace.Frame {
	// The file may have spaces and colons; the line is the last number with both around it.
	for i := len(s) - 1; i > 0; i-- {
		if s[i] != ' ' {
			continue
		}
		place, fn := s[:i], s[i+1:]
		colon := strings.LastIndexByte(place, ':')
		if colon < 0 {
			continue
		}
		if n, err := strconv.Atoi(place[colon+1:]); err == nil {
			return trace.Frame{File: place[:colon], Func: fn, Line: n}
		}
	}
	return trace.Frame{Func: s}
}

// Make makes a baseline of the devices of a recording. Patterns are those of a policy.
func Make(devices []*report.Profiled, patterns []Pattern) *Baseline {
	b := &Baseline{}
	for _, d := range devices {
		reduced, floor := d.Reduced(mostStacks)
		x := BaselineDevice{Profile: *reduced, Floor: floor}
		for _, p := range patterns {
			if x.Patterns == nil {
				x.Patterns = map[string]int64{}
			}
			x.Patterns[p.Text] = p.held(d)
		}
		b.Devices = append(b.Devices, x)
	}
	return b
}

// of is the baseline of a device: that of the same number, or the only one if there is only one device.
func (b *Baseline) of(device, devices int) *BaselineDevice {
	for i := range b.Devices {
		if d := &b.Devices[i]; d.Device == device || devices == 1 && len(b.Devices) == 1 {
			return d
		}
	}
	return nil
}
