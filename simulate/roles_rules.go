package simulate

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/trace"
)

// MostRules is how many rules may be given.
const MostRules = 100

// Rule puts the blocks whose stack it matches into a category, whatever else is known of them.
type Rule struct {
	Name string
	// Match is tried on each frame of a stack, written "path/file.py:66 function", and on the annotations that a block
	// was allocated in.
	Match *regexp.Regexp
}

// byRules applies what the person told.
func (r *roles) byRules(t *trace.Trace, rules []Rule) {
	if len(rules) == 0 {
		return
	}
	names := map[string]Category{}
	for i, n := range r.out.Names {
		names[n] = Category(i)
	}
	number := make([]Category, len(rules))
	for i, x := range rules {
		c, ok := names[x.Name]
		if !ok {
			c = Category(len(r.out.Names))
			names[x.Name] = c
			r.out.Names = append(r.out.Names, x.Name)
		}
		number[i] = c
	}
	used := make([]bool, len(rules))
	frames := newMatches(r.stacks, rules)
	within := annotated(t, r.dev, rules)
	r.each(func(b trace.BlockID, stack trace.StackID, _ int64) {
		first := frames.first(stack)
		if born := int(r.born[b]); born >= 0 {
			for k := range min(first, len(rules)) {
				if within[k].has(born) {
					first = k
				}
			}
		}
		if first < len(rules) {
			r.out.Of[b] = number[first]
			used[first] = true
		}
	})
	for i, x := range rules {
		if !used[i] {
			r.out.Idle = append(r.out.Idle, x)
		}
	}
}

// annotated are the ranges of events in annotations that rules match.
func annotated(t *trace.Trace, d *trace.Device, rules []Rule) []spans {
	scopes := scopesOf(t, d)
	out := make([]spans, len(rules))
	for k, x := range rules {
		var ranges []Iteration
		for _, s := range matching(scopes, x.Match) {
			ranges = append(ranges, s.ranges(d)...)
		}
		out[k] = spansOf(ranges)
	}
	return out
}

// matches knows which rule is the first to match each stack.
type matches struct {
	stacks *trace.Stacks
	rules  []Rule
	frames []int16 // by frame: the first rule + 1, 0 if it was not looked at
	stack  []int16
}

func newMatches(s *trace.Stacks, rules []Rule) *matches {
	return &matches{stacks: s, rules: rules, frames: make([]int16, s.NumFrames()), stack: make([]int16, s.Len())}
}

// first is the number of the first rule that matches, that of the rules if none does.
func (m *matches) first(id trace.StackID) int {
	if int(id) >= len(m.stack) {
		return len(m.rules)
	}
	if m.stack[id] == 0 {
		best := int16(len(m.rules))
		for _, f := range m.stacks.Frames(id) {
			if m.frames[f] == 0 {
				text := strings.ReplaceAll(FrameText(m.stacks.Frame(f)), `\`, "/")
				at := slices.IndexFunc(m.rules, func(x Rule) bool { return x.Match.MatchString(text) })
				if at < 0 {
					at = len(m.rules)
				}
				m.frames[f] = int16(at) + 1
			}
			best = min(best, m.frames[f]-1)
		}
		m.stack[id] = best + 1
	}
	return int(m.stack[id] - 1)
}

// FrameText is a frame as rules see it, and programs.
func FrameText(f trace.Frame) string {
	if f.File == "" {
		return f.Func
	}
	return fmt.Sprintf("%s:%d %s", f.File, f.Line, f.Func)
}
