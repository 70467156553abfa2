package check

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/trace"
)

// Policy says what is allowed.
type Policy struct {
	Baseline   string               // file, relative to the policy's own folder; empty for none
	Limits     map[string]float64   // by metric, in its unit
	Tolerances map[string]Tolerance // by metric, and stackGrowth
	Patterns   []Pattern
}

// stackGrowth is the rule about single stacks: none may hold more than in the baseline, even if the whole
// device does not. Its tolerance is that of a stack.
const stackGrowth = "stack-growth"

// stackTolerance leaves small stacks alone.
var stackTolerance = Tolerance{Relative: 0.05, Absolute: mib}

// Pattern limits the stacks that it matches, together.
type Pattern struct {
	Text      string
	regexp    *regexp.Regexp
	Max       int64     // bytes held at once; negative for no limit
	Tolerance Tolerance // against the baseline
}

// NewPattern makes a pattern, which is matched with each "file:line function" of a stack.
func NewPattern(text string, maximum int64) (Pattern, error) {
	r, err := regexp.Compile(text)
	if err != nil {
		return Pattern{}, fmt.Errorf("pattern %q: %w", text, err)
	}
	return Pattern{Text: text, regexp: r, Max: maximum}, nil
}

// held is the most that the stacks which match held at once.
func (p *Pattern) held(d *report.Profiled) int64 {
	frames := make([]int8, d.Stacks.NumFrames()) // 1 matches, 2 does not
	matches := func(id trace.FrameID) bool {
		if frames[id] == 0 {
			frames[id] = 2
			if p.matches([]trace.Frame{d.Stacks.Frame(id)}) {
				frames[id] = 1
			}
		}
		return frames[id] == 1
	}
	return d.MostHeld(func(s trace.StackID) bool { return slices.ContainsFunc(d.Stacks.Frames(s), matches) })
}

// matches says whether any of some frames is matched.
func (p *Pattern) matches(frames []trace.Frame) bool {
	return slices.ContainsFunc(frames, func(f trace.Frame) bool {
		return p.regexp.MatchString(strings.ReplaceAll(frameText(f), `\`, "/"))
	})
}

// NewPolicy allows everything.
func NewPolicy() *Policy {
	return &Policy{Limits: map[string]float64{}, Tolerances: map[string]Tolerance{}}
}

// SetLimit limits a metric; text is in its unit.
func (p *Policy) SetLimit(name, text string) error {
	m, ok := findMetric(name)
	if !ok {
		return unknownRule(name)
	}
	v, err := parseValue(text, m.unit)
	if err != nil {
		return err
	}
	p.Limits[name] = v
	return nil
}

// everything is the name under which a tolerance is that of all metrics.
const everything = "default"

// SetTolerance allows a metric to exceed its baseline; the name default stands for all that are not named.
func (p *Policy) SetTolerance(name, text string) error {
	unit := Bytes
	if m, ok := findMetric(name); ok {
		unit = m.unit
	} else if name != stackGrowth && name != everything {
		return unknownRule(name)
	}
	t, err := ParseTolerance(text, unit)
	if err != nil {
		return err
	}
	p.Tolerances[name] = t
	return nil
}

// tolerance of a metric: its own, or that of all that count bytes, or the one that suits it.
func (p *Policy) tolerance(name string, unit Unit, usual Tolerance) Tolerance {
	if t, ok := p.Tolerances[name]; ok {
		return t
	}
	if t, ok := p.Tolerances[everything]; ok && (t.Off || unit == Bytes || unit == PerStep) {
		return t
	}
	return usual
}

func unknownRule(name string) error {
	var names []string
	for _, m := range metrics() {
		names = append(names, m.name)
	}
	return fmt.Errorf("there is no rule %q; there are %s, and %s", name, strings.Join(names, ", "), stackGrowth)
}

// Empty says whether nothing is limited.
func (p *Policy) Empty() bool { return len(p.Limits) == 0 && len(p.Patterns) == 0 }

type policyFile struct {
	Baseline  string
	Limits    map[string]any
	Tolerance map[string]any
	Stack     []struct {
		Pattern   string
		Max       any
		Tolerance any
	}
}

// ReadPolicy reads a policy in TOML.
func ReadPolicy(r io.Reader) (*Policy, error) {
	var f policyFile
	meta, err := report.DecodeTOML(r, &f)
	if err != nil {
		return nil, err
	}
	if left := meta.Undecoded(); len(left) > 0 {
		return nil, fmt.Errorf("there is no key %q; there are baseline, [limits], [tolerance] and [[stack]] with pattern, max and tolerance", left[0])
	}
	p := NewPolicy()
	p.Baseline = f.Baseline
	for _, key := range meta.Keys() { // in the order of the file, so that the first mistake is the one told of
		if len(key) != 2 || key[0] == "stack" {
			continue
		}
		set, from := p.SetLimit, f.Limits
		if key[0] == "tolerance" {
			set, from = p.SetTolerance, f.Tolerance
		}
		if err := set(key[1], asText(from[key[1]])); err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
	}
	for i, s := range f.Stack {
		x, err := NewPattern(s.Pattern, -1)
		if err == nil && s.Pattern == "" {
			err = fmt.Errorf("it has no pattern")
		}
		if err == nil && s.Max != nil {
			var v float64
			v, err = parseValue(asText(s.Max), Bytes)
			x.Max = int64(v)
		}
		if err == nil && s.Tolerance != nil {
			x.Tolerance, err = ParseTolerance(asText(s.Tolerance), Bytes)
		}
		if err != nil {
			return nil, fmt.Errorf("[[stack]] number %d: %w", i+1, err)
		}
		p.Patterns = append(p.Patterns, x)
	}
	return p, nil
}

// asText lets numbers be written without quotes.
func asText(v any) string {
	if b, ok := v.(bool); ok && !b {
		return "off"
	}
	return fmt.Sprint(v)
}
