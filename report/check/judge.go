package check

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/report"
)

// judge holds one device against a policy and a baseline.
type judge struct {
	result *Result
	policy *Policy
	now    *report.Profiled
	base   *BaselineDevice

	reduced *report.Profile     // now, in the terms of the baseline
	deltas  []report.StackDelta // against the baseline
}

const mostBlamed = 5 // stacks named with a finding

// limit holds a figure against what the policy allows.
func (c *judge) limit(m metric, limit float64) {
	v := m.value(&c.now.Profile)
	f := Finding{Rule: "max-" + m.name, What: m.what, Device: c.now.Device, Unit: m.unit, Limit: limit, Value: v, Baseline: report.Unknown}
	switch {
	case v == report.Unknown:
		f.Message = fmt.Sprintf("%s: this recording cannot tell", m.what) + c.whyUnknown(m)
	case v <= limit:
		f.Passed = true
		f.Message = fmt.Sprintf("%s, within the limit of %s", m.says(v), m.unit.Show(limit))
	default:
		f.Message = fmt.Sprintf("%s, %sover the limit of %s", m.says(v), c.over(m.unit, v, limit), m.unit.Show(limit))
		f.Stacks = c.holders(m)
		f.Message += most(f.Stacks)
	}
	c.result.add(f)
}

func (c *judge) whyUnknown(m metric) string {
	if m.unit == PerStep {
		return "; it shows too few steps; mark them with torch.profiler.record_function(\"## step N ##\") while recording, or record more"
	}
	return "; it shows what was asked of the allocator, not what that did"
}

// holders are those who held the most, for a figure of which a limit was exceeded.
func (c *judge) holders(m metric) []Blame {
	by := func(u report.StackUse) int64 { return u.Peak }
	switch m.name {
	case "live-at-end":
		by = func(u report.StackUse) int64 { return u.End }
	case "leak-per-step":
		return c.leaks()
	case "retries", "ooms", "fragmentation":
		return nil
	}
	p, _ := c.now.Reduced(0)
	uses := slices.Clone(p.Uses)
	slices.SortStableFunc(uses, func(x, y report.StackUse) int { return cmp.Compare(by(y), by(x)) })
	var out []Blame
	for _, u := range uses[:min(len(uses), mostBlamed)] {
		if by(u) > 0 {
			frames := p.Stacks.Stack(u.Stack)
			out = append(out, Blame{Where: report.WhereIn(frames), Frames: frames, Was: report.Unknown, Is: by(u)})
		}
	}
	return out
}

// leaks are the call stacks that grow, with what they held at the end of the last step.
func (c *judge) leaks() []Blame {
	var out []Blame
	for _, l := range c.now.Analysis.Growth.Leaks[:min(len(c.now.Analysis.Growth.Leaks), mostBlamed)] {
		b := Blame{Was: report.Unknown, Is: int64(math.Round(l.Bytes.Slope)), Frames: c.now.Stacks.Stack(l.Stack)}
		if b.Where = report.WhereIn(b.Frames); b.Where == "" {
			b.Where = "blocks without a call stack"
		}
		out = append(out, b)
	}
	return out
}

// compare holds a figure against the baseline.
func (c *judge) compare(m metric) {
	t := c.policy.tolerance(m.name, m.unit, m.tolerance)
	was, is := m.value(&c.base.Profile), m.value(&c.now.Profile)
	if t.Off || was == report.Unknown {
		return
	}
	f := Finding{Rule: m.name, What: m.what, Device: c.now.Device, Unit: m.unit, Limit: t.Allows(was), Value: is, Baseline: was}
	switch {
	case is == report.Unknown:
		f.Message = fmt.Sprintf("%s: this recording cannot tell, and the baseline has it", m.what) + c.whyUnknown(m)
	case is <= f.Limit:
		f.Passed = true
		f.Message = m.says(is) + c.beside(m.unit, is, was)
	default:
		f.Message = fmt.Sprintf("%s, %sover the baseline of %s", m.says(is), c.over(m.unit, is, was), m.unit.Show(was))
		if f.Limit > was {
			f.Message += fmt.Sprintf(", at most %s is tolerated", m.unit.Show(f.Limit))
		}
		f.Stacks = c.blame(m)
		f.Message += c.because(m, f.Stacks)
	}
	c.result.add(f)
}

// over says by how much, of sizes.
func (c *judge) over(u Unit, is, allowed float64) string {
	if u != Bytes {
		return ""
	}
	over := u.Show(is - allowed)
	if p := percentOf(is-allowed, allowed); p != "" {
		over += " (" + p + ")"
	}
	return over + " "
}

// beside says how a figure that passes stands to its baseline.
func (c *judge) beside(u Unit, is, was float64) string {
	switch {
	case is == was:
		return ", as in the baseline"
	case is > was:
		return fmt.Sprintf(", more than the %s of the baseline, which is tolerated", u.Show(was))
	}
	return fmt.Sprintf(", less than the %s of the baseline", u.Show(was))
}

func percentOf(part, whole float64) string {
	if whole <= 0 {
		return ""
	}
	p := 100 * part / whole
	if p < 0.1 {
		return "<0.1 %"
	}
	if p < 10 {
		return fmt.Sprintf("%.1f %%", p)
	}
	return fmt.Sprintf("%.0f %%", p)
}

// compareStacks finds what each stack holds more or less than in the baseline.
func (c *judge) compareStacks() {
	c.reduced, _ = c.now.Reduced(0)
	deltas, _ := report.CompareStacks(&c.base.Profile, c.reduced)
	for _, d := range deltas {
		if d.Kind != report.New || d.B.Most > c.base.Floor {
			c.deltas = append(c.deltas, d)
		}
	}
}

// blame lists who holds more than in the baseline, as far as it bears on a figure.
func (c *judge) blame(m metric) []Blame {
	more := func(d report.StackDelta) int64 { return d.Delta() }
	pair := func(d report.StackDelta) (int64, int64) { return d.A.Peak, d.B.Peak }
	switch m.name {
	case "live-at-end":
		more = func(d report.StackDelta) int64 { return d.B.End - d.A.End }
		pair = func(d report.StackDelta) (int64, int64) { return d.A.End, d.B.End }
	case "leak-per-step":
		return c.leaks()
	case "retries", "ooms", "fragmentation", "peak-reserved":
		if c.now.PeakAllocated <= c.base.PeakAllocated && c.now.PeakReplayed <= c.base.PeakReplayed {
			return nil // the program asks for no more than it did
		}
	}
	out := c.worst(more, pair, func(d report.StackDelta) bool { return d.Kind != report.Moved })
	if len(out) == 0 && m.name != "live-at-end" {
		// What holds no more at the peak may at another moment, which is then the one that counts.
		out = c.worst(func(d report.StackDelta) int64 { return d.B.Most - d.A.Most },
			func(d report.StackDelta) (int64, int64) { return d.A.Most, d.B.Most }, func(report.StackDelta) bool { return true })
	}
	return out
}

// worst lists the stacks that hold more, those that hold the most more first.
func (c *judge) worst(more func(report.StackDelta) int64, pair func(report.StackDelta) (was, is int64), counts func(report.StackDelta) bool) []Blame {
	var list []report.StackDelta
	for _, d := range c.deltas {
		if more(d) > 0 && counts(d) {
			list = append(list, d)
		}
	}
	slices.SortStableFunc(list, func(x, y report.StackDelta) int { return cmp.Compare(more(y), more(x)) })
	var out []Blame
	for _, d := range list[:min(len(list), mostBlamed)] {
		b := Blame{Frames: c.reduced.Stacks.Stack(d.Stack)}
		b.Where = report.WhereIn(b.Frames)
		b.Was, b.Is = pair(d)
		out = append(out, b)
	}
	return out
}

// because ends the message of a finding with who is to blame.
func (c *judge) because(m metric, stacks []Blame) string {
	if len(stacks) == 0 {
		switch {
		case m.name == "peak-reserved" && c.now.PeakReplayed <= c.base.PeakReplayed:
			return "; no stack holds more, and replayed from an empty cache no more is reserved: it comes of the history of the process or of its settings, compare peak-reserved-replayed instead"
		case c.now.Unattributed.Peak > c.base.Unattributed.Peak:
			return fmt.Sprintf("; blocks without a call stack hold %s more", report.Bytes(c.now.Unattributed.Peak-c.base.Unattributed.Peak))
		case c.now.Before.Peak > c.base.Before.Peak:
			return fmt.Sprintf("; blocks older than the recording hold %s more", report.Bytes(c.now.Before.Peak-c.base.Before.Peak))
		}
		return ""
	}
	if m.unit == PerStep {
		return most(stacks)
	}
	var parts []string
	for _, s := range stacks[:min(len(stacks), 3)] {
		parts = append(parts, fmt.Sprintf("%s +%s (%s → %s)", s.Where, report.Bytes(s.Is-s.Was), report.Bytes(s.Was), report.Bytes(s.Is)))
	}
	return ": " + strings.Join(parts, ", ")
}

// most names those who held the most.
func most(stacks []Blame) string {
	var parts []string
	for _, s := range stacks[:min(len(stacks), 3)] {
		parts = append(parts, fmt.Sprintf("%s %s", s.Where, report.Bytes(s.Is)))
	}
	if len(parts) == 0 {
		return ""
	}
	return "; most of it: " + strings.Join(parts, ", ")
}

// stacksAlone finds stacks that grew by themselves: what the whole device does not show today it will show
// when something else is made smaller.
func (c *judge) stacksAlone() {
	t := stackTolerance
	if own, ok := c.policy.Tolerances[stackGrowth]; ok {
		t = own
	} else if all, ok := c.policy.Tolerances[everything]; ok {
		t = Tolerance{max(t.Relative, all.Relative), max(t.Absolute, all.Absolute), all.Off}
	}
	if t.Off {
		return
	}
	f := Finding{Rule: stackGrowth, What: "the stack that grew most", Device: c.now.Device, Unit: Bytes, Baseline: report.Unknown, Value: report.Unknown}
	var grown []report.StackDelta
	for _, d := range c.deltas {
		if d.A.Most > 0 && float64(d.B.Most) > t.Allows(float64(d.A.Most)) {
			grown = append(grown, d)
		}
	}
	if len(grown) == 0 {
		f.Passed, f.Limit = true, t.Absolute
		f.Message = "no stack holds more than in the baseline, beyond what is tolerated"
		c.result.add(f)
		return
	}
	slices.SortStableFunc(grown, func(x, y report.StackDelta) int { return cmp.Compare(y.B.Most-y.A.Most, x.B.Most-x.A.Most) })
	worst := grown[0]
	f.Baseline, f.Value, f.Limit = float64(worst.A.Most), float64(worst.B.Most), t.Allows(float64(worst.A.Most))
	for _, d := range grown[:min(len(grown), mostBlamed)] {
		frames := c.reduced.Stacks.Stack(d.Stack)
		f.Stacks = append(f.Stacks, Blame{Where: report.WhereIn(frames), Frames: frames, Was: d.A.Most, Is: d.B.Most})
	}
	f.Message = fmt.Sprintf("%s holds %s at most, %s (%s) more than in the baseline", f.Stacks[0].Where, report.Bytes(worst.B.Most),
		report.Bytes(worst.B.Most-worst.A.Most), percentOf(float64(worst.B.Most-worst.A.Most), float64(worst.A.Most)))
	if n := len(grown) - 1; n > 0 {
		f.Message += fmt.Sprintf(", and %d more stacks grew", n)
	}
	c.result.add(f)
}

// pattern holds the stacks that a pattern matches against its limit and the baseline.
func (c *judge) pattern(p *Pattern) {
	held := float64(p.held(c.now))
	what := fmt.Sprintf("what %q matches", p.Text)
	f := Finding{What: what, Device: c.now.Device, Unit: Bytes, Value: held, Baseline: report.Unknown}
	if p.Max >= 0 {
		f.Rule, f.Limit = "max-stack "+p.Text, float64(p.Max)
		f.Passed = held <= f.Limit
		f.Message = fmt.Sprintf("%s holds %s at once, at most %s is allowed", what, report.Bytes(int64(held)), report.Bytes(p.Max))
		c.result.add(f)
	}
	if c.base == nil || p.Tolerance.Off {
		return
	}
	f.Rule = "stack " + p.Text
	was, ok := c.base.Patterns[p.Text]
	if !ok {
		if p.Max < 0 {
			f.Passed, f.Limit = false, report.Unknown
			f.Message = fmt.Sprintf("the baseline knows nothing of the pattern %q: write it anew with this policy", p.Text)
			c.result.add(f)
		}
		return
	}
	f.Baseline, f.Limit = float64(was), p.Tolerance.Allows(float64(was))
	if f.Passed = held <= f.Limit; f.Passed {
		f.Message = fmt.Sprintf("%s holds %s at once%s", what, report.Bytes(int64(held)), c.beside(Bytes, held, f.Baseline))
	} else {
		f.Message = fmt.Sprintf("%s holds %s at once, %s more than in the baseline", what, report.Bytes(int64(held)), report.Bytes(int64(held)-was))
		f.Stacks = c.worst(func(d report.StackDelta) int64 { return d.B.Most - d.A.Most },
			func(d report.StackDelta) (int64, int64) { return d.A.Most, d.B.Most },
			func(d report.StackDelta) bool {
				return d.Kind != report.Gone && p.matches(c.reduced.Stacks.Stack(d.Stack))
			})
	}
	c.result.add(f)
}
