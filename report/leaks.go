package report

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/simulate"
	"github.com/vramscope/vramscope/trace"
)

// CheckStep says what is wrong with a regular expression for steps: that no annotation matches it.
func CheckStep(t *trace.Trace, named *regexp.Regexp) error {
	if named == nil {
		return nil
	}
	if len(t.Markers) == 0 {
		return fmt.Errorf("--step %s: this recording has no annotations; without --step the events are searched for a pattern", named)
	}
	for i := range t.Markers {
		if named.MatchString(t.Markers[i].Name) {
			return nil
		}
	}
	const shown = 5
	names := simulate.Annotations(t)
	more := ""
	if len(names) > shown {
		more = fmt.Sprintf(" and %d more", len(names)-shown)
	}
	return fmt.Errorf("--step %s: no annotation matches; there are (numbers as #) %s%s", named,
		strings.Join(names[:min(len(names), shown)], ", "), more)
}

// leakGroup is what piles up at a place in the code.
type leakGroup struct {
	where         string
	bytes, blocks float64 // a step
	confidence    float64 // of the least certain
	atEnd         int64   // bytes
	buffer        bool
}

// leakGroups adds up the leaking stacks that a person would call the same place, the fastest first.
func leakGroups(stacks *trace.Stacks, leaks []simulate.Leak) []leakGroup {
	index := map[string]int{}
	var out []leakGroup
	for _, l := range leaks {
		where := place(stacks.Stack(l.Stack)).String()
		if l.Stack == trace.NoStack {
			where = "recorded without a call stack"
		}
		i, ok := index[where]
		if !ok {
			i = len(out)
			index[where] = i
			out = append(out, leakGroup{where: where, confidence: l.Confidence, buffer: l.Buffer})
		}
		g := &out[i]
		g.bytes += l.Bytes.Slope
		g.blocks += l.Blocks.Slope
		g.atEnd += l.End
		g.confidence = min(g.confidence, l.Confidence)
		g.buffer = g.buffer && l.Buffer
	}
	slices.SortStableFunc(out, func(a, b leakGroup) int { return cmp.Compare(b.bytes, a.bytes) })
	return out
}

// growth says what grows from step to step.
func (a *Analysis) growth(p *page, d *Device) {
	g := &d.Growth
	title := p.bold("Growth")
	steps := d.Steps.Steps
	switch {
	case len(steps) == 0:
		if d.Trace.Events.Len() > 0 {
			p.line("%s: not known, no steps were found: no annotations that name them, and no pattern in the events.", title)
		}
		return
	case !g.Enough():
		p.line("%s: not known, %s too few to tell (%s).", title, areSteps(len(steps)), d.Steps.Source)
		return
	case len(g.Leaks) > 0:
		a.leaks(p, d)
	case g.LiveGrows:
		p.line("%s: %s over %s, and no one place in the code that keeps it (%s).", title, perStep(g.Live), overSteps(d), d.Steps.Source)
	case g.Live.Steps < g.Steps:
		p.line("%s: no place in the code keeps more and more over %s (%s).", title, overSteps(d), d.Steps.Source)
	default:
		p.line("%s: none over %s (%s; %s).", title, overSteps(d), perStep(g.Live), d.Steps.Source)
	}
	if g.WorkingGrows {
		p.line("  Each step needs more at its peak than the one before, and gives it back: %s. That is a working set that grows, not a leak.", perStep(g.Working))
	}
	if g.CacheGrows {
		p.line("  The allocator holds more and more beyond what was ever in use: %s. That is its cache, which fragments, not a leak.", perStep(g.Cache))
	}
}

// overSteps says how many steps were looked at.
func overSteps(d *Device) string {
	if g := &d.Growth; g.Warmup > 0 {
		return fmt.Sprintf("%s after %s of warm-up", plural(g.Steps, "step"), Count(g.Warmup))
	}
	return plural(d.Growth.Steps, "step")
}

func areSteps(n int) string {
	if n == 1 {
		return "1 step is"
	}
	return plural(n, "step") + " are"
}

// perStep shows a slope with its error.
func perStep(t simulate.Trend) string {
	slope, off := int64(t.Slope), int64(t.Error())
	if slope == 0 {
		return fmt.Sprintf("0 ± %s a step", Bytes(off))
	}
	return fmt.Sprintf("%s ± %s a step", Bytes(slope), Bytes(off))
}

// leaks lists what piles up.
func (a *Analysis) leaks(p *page, d *Device) {
	g := &d.Growth
	p.line("%s: %s over %s (%s). Candidates for a leak, as far as this recording goes:", p.caution("Growth"), perStep(g.Live),
		overSteps(d), d.Steps.Source)
	rows := p.rows()
	groups := leakGroups(a.Trace.Stacks, g.Leaks)
	p.fence()
	p.line("  %12s  %11s  %10s  %10s  %s", "bytes a step", "blocks", "confidence", "at the end", "where")
	var end int64
	var rest leakGroup
	for i, l := range groups {
		end += l.atEnd
		if i >= rows {
			rest.bytes += l.bytes
			rest.blocks += l.blocks
			rest.atEnd += l.atEnd
			continue
		}
		blocks := fmt.Sprintf("%.3g a step", l.blocks)
		if l.buffer {
			blocks = "one grows"
		}
		p.line("  %12s  %11s  %10s  %10s  %s", Bytes(int64(l.bytes)), blocks, confidence(l.confidence), Bytes(l.atEnd), l.where)
	}
	if n := len(groups) - rows; n > 0 {
		p.line("  %12s  %11s  %10s  %10s  %s more", Bytes(int64(rest.bytes)), fmt.Sprintf("%.3g a step", rest.blocks), "", Bytes(rest.atEnd), plural(n, "place"))
	}
	p.fence()
	if end == 0 {
		p.line("  All of it was freed before the recording ended.")
	}
}

// confidence shows a probability that is near to one.
func confidence(c float64) string {
	switch {
	case c >= 0.9995:
		return ">99.9 %"
	case c >= 0.99:
		return fmt.Sprintf("%.1f %%", c*100)
	}
	return fmt.Sprintf("%.0f %%", c*100)
}

// during says in which step an event was, as an addition to a text.
func (d *Device) during(event int) string {
	i := d.Steps.Of(event)
	if i >= len(d.Steps.Steps) || event < d.Steps.Steps[i].From {
		return ""
	}
	for _, r := range d.Steps.Optimizing {
		if r.From <= event && event < r.To {
			return ", step " + d.Steps.Label(i) + " optimizer"
		}
	}
	return ", step " + d.Steps.Label(i)
}

type stepsJSON struct {
	Count  int    `json:"count"`
	Source string `json:"source"`
}

type leakJSON struct {
	Stack         []string `json:"stack"`
	BytesPerStep  int64    `json:"bytes_per_step"`
	Steps         int      `json:"steps"`
	Confidence    float64  `json:"confidence"`
	BytesAtEnd    int64    `json:"bytes_at_end"`
	BytesLastStep int64    `json:"bytes_at_last_step"`
	BlocksPerStep float64  `json:"blocks_per_step"`
	Kind          string   `json:"kind"`
}

type growthJSON struct {
	Steps   int        `json:"steps"`
	Warmup  int        `json:"warmup_steps"`
	Live    *trendJSON `json:"live"` // null: too few steps end alike
	Working *trendJSON `json:"working_set"`
	Cache   *trendJSON `json:"allocator_cache"`
}

type trendJSON struct {
	Slope      int64    `json:"bytes_per_step"`
	Interval   [2]int64 `json:"interval_bytes"`
	Confidence float64  `json:"confidence"`
	Steps      int      `json:"steps"`
	Grows      bool     `json:"grows"`
}

// stepsAndLeaks renders steps, leaks and growth for programs; nil where the recording cannot give them.
func (a *Analysis) stepsAndLeaks(d *Device) (*stepsJSON, []leakJSON, *growthJSON) {
	if len(d.Steps.Steps) == 0 {
		return nil, nil, nil
	}
	g := &d.Growth
	leaks := []leakJSON{}
	for _, l := range g.Leaks {
		kind := "leak"
		if l.Buffer {
			kind = "growing-buffer"
		}
		leaks = append(leaks, leakJSON{
			Stack: fullStack(a.Trace.Stacks, l.Stack), BytesPerStep: int64(l.Bytes.Slope), Steps: l.Bytes.Steps,
			Confidence: l.Confidence, BytesAtEnd: l.End, BytesLastStep: l.LastStep, BlocksPerStep: l.Blocks.Slope, Kind: kind,
		})
	}
	steps := &stepsJSON{len(d.Steps.Steps), d.Steps.Source}
	if !g.Enough() {
		return steps, leaks, nil
	}
	show := func(t simulate.Trend, grows bool) *trendJSON {
		if t.Steps < simulate.LeastSteps {
			return nil
		}
		return &trendJSON{int64(t.Slope), [2]int64{int64(t.Low), int64(t.High)}, t.Confidence, t.Steps, grows}
	}
	return steps, leaks, &growthJSON{g.Steps, g.Warmup, show(g.Live, g.LiveGrows), show(g.Working, g.WorkingGrows), show(g.Cache, g.CacheGrows)}
}
