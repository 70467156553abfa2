package report

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/simulate"
	"github.com/vramscope/vramscope/trace"
)

// Diff is what differs between two recordings.
type Diff struct {
	A, B    string // files
	Devices []DeviceDiff
}

// DeviceDiff is what differs between two recordings of a device.
type DeviceDiff struct {
	A, B *Profiled

	Stacks    []StackDelta // those that changed, by the size of the change
	Unchanged int          // stacks of both that did not
	Requests  SameRequests
	Settings  []SettingDelta
	Cause     *Cause // what reserved memory differs by; nil where a recording does not tell or nothing differs
	Step      int    // the step that stacks are compared in, -1 for the peak of the whole run
	StepPeaks []StepPeak
}

// ChangeKind says what became of a stack.
type ChangeKind string

// The kinds of change.
const (
	Grew   ChangeKind = "grew"
	Shrank ChangeKind = "shrank"
	New    ChangeKind = "new"
	Gone   ChangeKind = "gone"
	// Moved is a stack that holds as much at most as it did, and another amount at the peak, because the peak
	// is at another moment.
	Moved ChangeKind = "other moment"
)

// StackDelta is a stack that changed. Bytes are those asked for.
type StackDelta struct {
	Kind  ChangeKind
	Stack trace.StackID // in the second run, or in the first if it is gone
	A, B  StackUse      // stacks that come to the same are added up
}

// Delta is the change at the peak.
func (d StackDelta) Delta() int64 { return d.B.Peak - d.A.Peak }

// weight orders changes: by what they do to the peak, then by what they do at other moments.
func (d StackDelta) weight() (peak, most int64) {
	return abs(d.Delta()), abs(d.B.Most - d.A.Most)
}

func abs(n int64) int64 { return max(n, -n) }

// SettingDelta is a setting that differs.
type SettingDelta struct {
	Key  string
	A, B string // values; empty for the default
}

// StepPeak is the most that was held in one step of both runs, as bytes asked for. Step is its number in the
// second.
type StepPeak struct {
	Step int
	A, B int64
}

// DiffOptions say what is known beside the files.
type DiffOptions struct {
	Device int // only this one; negative for all
}

// Compare says what differs between two recordings.
func Compare(fileA string, a *trace.Trace, fileB string, b *trace.Trace, o DiffOptions) (*Diff, error) {
	pairs, err := devicePairs(a, b, o.Device)
	if err != nil {
		return nil, err
	}
	d := &Diff{A: fileA, B: fileB}
	for _, p := range pairs {
		d.Devices = append(d.Devices, compareDevices(a, p[0], b, p[1]))
	}
	return d, nil
}

// devicePairs finds the devices to compare: those of the same number, or the only one of each.
func devicePairs(a, b *trace.Trace, wanted int) ([][2]*trace.Device, error) {
	x, y := withEvents(a, wanted), withEvents(b, wanted)
	for i, list := range [][]*trace.Device{x, y} {
		if len(list) > 0 {
			continue
		}
		return nil, fmt.Errorf("%s %w", [2]string{"the first file", "the second file"}[i], WithoutEvents([2]*trace.Trace{a, b}[i], wanted))
	}
	if len(x) == 1 && len(y) == 1 {
		return [][2]*trace.Device{{x[0], y[0]}}, nil
	}
	var pairs [][2]*trace.Device
	for _, d := range x {
		for _, e := range y {
			if d.Index == e.Index {
				pairs = append(pairs, [2]*trace.Device{d, e})
			}
		}
	}
	if len(pairs) == 0 {
		return nil, errors.New("the files have no device in common")
	}
	return pairs, nil
}

func withEvents(t *trace.Trace, wanted int) []*trace.Device {
	var out []*trace.Device
	for i := range t.Devices {
		if d := &t.Devices[i]; HasRequests(d) && (wanted < 0 || wanted == d.Index) {
			out = append(out, d)
		}
	}
	return out
}

func compareDevices(ta *trace.Trace, da *trace.Device, tb *trace.Trace, db *trace.Device) DeviceDiff {
	all := Options{Limit: -1, Device: -1}
	d := DeviceDiff{A: ProfileOf(ta, da, all), B: ProfileOf(tb, db, all), Step: -1}
	d.Requests = sameRequests(d.A.Analysis.Follow.Requests, d.B.Analysis.Follow.Requests)
	d.alignSteps()
	if d.Requests.Same {
		// The allocators may differ about the moment of the peak; the programs do not.
		d.Step = -1
		d.A.countAt(counterpart(d.B.Analysis, d.A.Analysis, d.B.Analysis.PeakAllocated.Event))
	}
	d.Stacks, d.Unchanged = CompareStacks(&d.A.Profile, &d.B.Profile)
	d.Settings = settingDeltas(d.A.Settings.String(), d.B.Settings.String())
	d.Cause = d.findCause()
	return d
}

// CompareStacks says what each stack of two profiles holds more or less, the largest change first, and how
// many hold the same.
func CompareStacks(a, b *Profile) (changed []StackDelta, unchanged int) {
	for _, p := range matchStacks(a, b) {
		d := StackDelta{A: sumUses(a.Uses, p.a), B: sumUses(b.Uses, p.b)}
		if len(p.b) > 0 {
			d.Stack = b.Uses[p.b[0]].Stack
		} else {
			d.Stack = a.Uses[p.a[0]].Stack
		}
		if d.A.Peak == d.B.Peak && d.A.Most == d.B.Most {
			unchanged++
			continue
		}
		d.Kind = kindOfChange(d)
		changed = append(changed, d)
	}
	slices.SortStableFunc(changed, func(x, y StackDelta) int {
		px, mx := x.weight()
		py, my := y.weight()
		return cmp.Or(cmp.Compare(py, px), cmp.Compare(my, mx))
	})
	return changed, unchanged
}

func kindOfChange(d StackDelta) ChangeKind {
	switch {
	case d.A.Most == 0:
		return New
	case d.B.Most == 0:
		return Gone
	case d.A.Most == d.B.Most:
		return Moved
	case d.Delta() > 0, d.Delta() == 0 && d.B.Most > d.A.Most:
		return Grew
	}
	return Shrank
}

// sumUses adds stacks up. The sum of the most is more than the most of the sum, if they are not held together.
func sumUses(uses []StackUse, indexes []int) StackUse {
	var sum StackUse
	for _, i := range indexes {
		u := uses[i]
		sum.Peak += u.Peak
		sum.Blocks += u.Blocks
		sum.Most += u.Most
		sum.End += u.End
		sum.Calls += u.Calls
	}
	return sum
}

// settingDeltas compares two settings in their one form.
func settingDeltas(a, b string) []SettingDelta {
	x, y := settingParts(a), settingParts(b)
	var out []SettingDelta
	for _, p := range x {
		if other := partOf(y, p.Key); other != p.A {
			out = append(out, SettingDelta{p.Key, p.A, other})
		}
	}
	for _, p := range y {
		if partOf(x, p.Key) == "" {
			out = append(out, SettingDelta{p.Key, "", p.A})
		}
	}
	return out
}

// settingParts takes a setting apart; the value is in A.
func settingParts(s string) []SettingDelta {
	var out []SettingDelta
	for s != "" {
		_, end := partAt(s, 0)
		key, value, _ := strings.Cut(s[:end], ":")
		out = append(out, SettingDelta{Key: key, A: value})
		s = strings.TrimPrefix(s[end:], ",")
	}
	return out
}

func partOf(parts []SettingDelta, key string) string {
	for _, p := range parts {
		if p.Key == key {
			return p.A
		}
	}
	return ""
}

// alignSteps compares the peaks of the steps that both runs have. Where the peaks of the runs are in different
// steps, stacks are compared in that of the second run: in different steps different data is worked on.
func (d *DeviceDiff) alignSteps() {
	a, b := d.A.peaksOfSteps(), d.B.peaksOfSteps()
	other := stepPairs(d.A.Analysis.Steps.Steps, d.B.Analysis.Steps.Steps)
	for j, i := range other {
		if i >= 0 {
			d.StepPeaks = append(d.StepPeaks, StepPeak{j, a[i].requested, b[j].requested})
		}
	}
	at, was := d.B.Analysis.Steps.Of(d.B.Analysis.PeakAllocated.Event), d.A.Analysis.Steps.Of(d.A.Analysis.PeakAllocated.Event)
	if at < len(b) && was < len(a) && other[at] >= 0 && other[at] != was && b[at].event == d.B.Analysis.PeakAllocated.Event {
		d.Step = at
		d.A.countAt(a[other[at]].event)
	}
}

// stepPairs gives for each step of the second run the same one of the first, or -1: that of the same name, if
// the program gave each a name of its own, or else that of the same number.
func stepPairs(a, b []simulate.Iteration) []int {
	named := map[string]int{}
	for i, s := range a {
		named[s.Name] = i
	}
	names := map[string]bool{}
	for _, s := range b {
		names[s.Name] = true
	}
	byName := len(named) == len(a) && len(names) == len(b)
	out := make([]int, len(b))
	for j, s := range b {
		i, ok := j, j < len(a)
		if byName {
			i, ok = named[s.Name]
		}
		if out[j] = -1; ok {
			out[j] = i
		}
	}
	return out
}

// stepPeak is the greatest moment of a step.
type stepPeak struct {
	event     int   // at which most was allocated
	allocated int64 // bytes then
	requested int64 // bytes asked for, at most
}

func (p *Profiled) peaksOfSteps() []stepPeak {
	out := make([]stepPeak, len(p.Analysis.Steps.Steps))
	f := p.Analysis.Follow
	asked := make([]int64, len(f.Sizes)) // by block
	allocated, requested := initialMoment(f).allocated, int64(0)
	for _, b := range f.Requests.Initial {
		if b.State == trace.BlockLive && int(b.ID) < len(asked) {
			asked[b.ID] = requestedOf(b.Block)
			requested += asked[b.ID]
		}
	}
	step := 0
	for i, e := range p.Analysis.Trace.Events.All() {
		for step < len(out) && i >= p.Analysis.Steps.Steps[step].To {
			step++
		}
		if int(e.Block) < len(asked) {
			switch e.Op {
			case trace.OpAlloc:
				asked[e.Block] = e.Size
				allocated += f.Sizes[e.Block]
				requested += e.Size
			case trace.OpFreeRequested, trace.OpFree:
				allocated -= f.Sizes[e.Block]
				requested -= asked[e.Block]
			}
		}
		if step < len(out) && i >= p.Analysis.Steps.Steps[step].From {
			out[step].requested = max(out[step].requested, requested)
			if allocated > out[step].allocated {
				out[step].event, out[step].allocated = i, allocated
			}
		}
	}
	return out
}
