package check

import (
	"fmt"
	"strings"

	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/trace"
)

// Options say what a recording is held against.
type Options struct {
	Policy   *Policy
	Baseline *Baseline // nil for none
	Device   int       // only this one; negative for all
	Limit    int64     // bytes that the recorded process could reserve, negative if not known
	Memory   int64     // bytes that its device could give, 0 if not known
}

// Result is what came of a check.
type Result struct {
	File     string
	Baseline string     // file, empty for none
	Policy   string     // file, empty for none
	Time     trace.Time // of the last event that has one, 0 if none does
	Profiles []*report.Profiled
	Findings []Finding
	Notes    []string
	Written  string // file that this recording became the baseline in, empty for none
}

// Finding is a rule, and whether it is kept.
type Finding struct {
	Rule     string
	What     string // the figure, for people
	Device   int
	Unit     Unit
	Limit    float64
	Value    float64 // report.Unknown if the recording does not tell
	Baseline float64 // report.Unknown without one
	Passed   bool
	Message  string
	Stacks   []Blame // who is to blame, or who held the most, the first first
}

// Blame is what a call stack has to do with a finding. Bytes are those asked for.
type Blame struct {
	Where  string // the line to look at
	Frames []trace.Frame
	Was    int64 // in the baseline; report.Unknown without one
	Is     int64
}

// Passed says whether every rule is kept.
func (r *Result) Passed() bool { return r.failed() == 0 }

func (r *Result) failed() int {
	n := 0
	for i := range r.Findings {
		if !r.Findings[i].Passed {
			n++
		}
	}
	return n
}

// Run checks a recording. It is an error if there is nothing in it that could be checked.
func Run(file string, t *trace.Trace, o Options) (*Result, error) {
	if o.Policy == nil {
		o.Policy = NewPolicy()
	}
	r := &Result{File: file}
	for i := range t.Devices {
		d := &t.Devices[i]
		if !report.HasRequests(d) || o.Device >= 0 && d.Index != o.Device {
			continue
		}
		r.Profiles = append(r.Profiles, report.ProfileOf(t, d, report.Options{Limit: o.Limit, Memory: o.Memory, Device: -1}))
		for _, e := range d.Events.All() {
			r.Time = max(r.Time, e.Time)
		}
	}
	if len(r.Profiles) == 0 {
		return nil, report.WithoutEvents(t, o.Device)
	}
	if t.Source.Clock != trace.ClockEpoch {
		r.Time = 0
	}
	if o.Baseline != nil {
		r.Baseline = o.Baseline.File
	}
	for _, p := range r.Profiles {
		r.device(p, o)
	}
	r.devices(o)
	return r, nil
}

// devices fails if the baseline has a device that the recording lacks.
func (r *Result) devices(o Options) {
	if o.Baseline == nil || o.Device >= 0 {
		return
	}
	for i := range o.Baseline.Devices {
		b := o.Baseline.Devices[i].Device
		if len(r.Profiles) == 1 && len(o.Baseline.Devices) == 1 || r.recorded(b) {
			continue
		}
		r.add(Finding{Rule: "devices", What: "devices", Device: b, Unit: Number, Limit: float64(len(o.Baseline.Devices)),
			Value: float64(len(r.Profiles)), Baseline: float64(len(o.Baseline.Devices)),
			Message: fmt.Sprintf("device %d of the baseline is not in the recording", b)})
	}
}

func (r *Result) add(f Finding) { r.Findings = append(r.Findings, f) }

// device judges one device.
func (r *Result) device(p *report.Profiled, o Options) {
	c := &judge{result: r, policy: o.Policy, now: p}
	if o.Baseline != nil {
		c.base = o.Baseline.of(p.Device, len(r.Profiles))
		if c.base == nil {
			r.add(Finding{Rule: "devices", What: "devices", Device: p.Device, Unit: Number, Limit: float64(len(o.Baseline.Devices)),
				Value: float64(len(r.Profiles)), Baseline: float64(len(o.Baseline.Devices)),
				Message: fmt.Sprintf("device %d is not in the baseline; write it anew with --write-baseline", p.Device)})
		}
	}
	if c.base != nil {
		c.compareStacks()
	}
	for _, m := range metrics() {
		if limit, ok := o.Policy.Limits[m.name]; ok {
			c.limit(m, limit)
		}
		if c.base != nil {
			c.compare(m)
		}
	}
	if c.base != nil {
		c.stacksAlone()
	}
	for i := range o.Policy.Patterns {
		c.pattern(&o.Policy.Patterns[i])
	}
	c.notes()
}

// notes says what makes a comparison doubtful.
func (c *judge) notes() {
	note := func(format string, args ...any) {
		text := fmt.Sprintf(format, args...)
		if len(c.result.Profiles) > 1 {
			text = fmt.Sprintf("device %d: %s", c.now.Device, text)
		}
		c.result.Notes = append(c.result.Notes, text)
	}
	if c.base != nil {
		if a, b := c.base.Settings.String(), c.now.Settings.String(); a != b {
			note("the allocator's settings are %s, in the baseline they were %s", orDefault(b), orDefault(a))
		}
		if c.base.Complete && !c.now.Complete {
			note("the recording begins in the middle of a run, the baseline's did not")
		}
	}
	if n := c.now.Analysis.Trace.Overflow; n {
		note("the recording has lost its beginning: raise max_entries, or peaks are missed")
	}
}

func orDefault(s string) string {
	if s == "" {
		return "the default"
	}
	return s
}

// headline is the answer.
func (r *Result) headline() string {
	failed := r.failed()
	if failed == 0 {
		p := r.Profiles[0]
		what := fmt.Sprintf("peak allocated %s", report.Bytes(p.PeakAllocated))
		if p.PeakReserved != report.Unknown {
			what += fmt.Sprintf(", reserved %s", report.Bytes(p.PeakReserved))
		}
		if len(r.Profiles) > 1 {
			what = fmt.Sprintf("%d devices", len(r.Profiles))
		}
		if len(r.Findings) == 0 && r.Written != "" {
			return "The baseline is " + r.Written + ": " + what + "."
		}
		return fmt.Sprintf("Passed, %s: %s.", rules(len(r.Findings)), what)
	}
	for i := range r.Findings {
		if f := &r.Findings[i]; !f.Passed {
			return "Failed: " + r.prefix(f) + f.Message + "."
		}
	}
	return ""
}

// prefix names the device of a finding if there are several.
func (r *Result) prefix(f *Finding) string {
	if len(r.Profiles) > 1 {
		return fmt.Sprintf("device %d: ", f.Device)
	}
	return ""
}

func rules(n int) string {
	if n == 1 {
		return "1 rule"
	}
	return fmt.Sprintf("%d rules", n)
}

// plain is a message as one line of text, for forms in which line ends mean something.
func plain(s string) string { return strings.Join(strings.Fields(s), " ") }
