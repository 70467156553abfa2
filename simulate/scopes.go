package simulate

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/trace"
)

// Annotations beside events. A marker has a time and no place among the events, so it is put before the first
// event that is not earlier. The edges of all markers whose names differ in numbers alone make a scope, and a
// scope is turned into ranges of events: with what may be missing, since annotations have a ring buffer of their
// own, and come from several threads.

// numberless is a name with each run of digits replaced by #: what the annotations of all steps have in common.
func numberless(name string) string {
	if !strings.ContainsAny(name, "0123456789") {
		return name
	}
	var b strings.Builder
	in := false
	for _, r := range name {
		digit := r >= '0' && r <= '9'
		switch {
		case digit && !in:
			b.WriteByte('#')
		case !digit:
			b.WriteRune(r)
		}
		in = digit
	}
	return b.String()
}

// scope is all annotations of one name, numbers aside.
type scope struct {
	name  string
	edges []edge // in order of time
}

// edge is a marker beside the events: it comes before the event at.
type edge struct {
	at   int
	name string
	kind trace.Edge
	old  bool // older than the first event
}

// scopesOf relates the markers of a device to its events, by time.
func scopesOf(t *trace.Trace, d *trace.Device) []*scope {
	marks := markersOf(t, d)
	n := d.Events.Len()
	if len(marks) == 0 || n == 0 {
		return nil
	}
	first := firstTime(d)
	if first == 0 {
		return nil // events without times cannot be told from each other by markers
	}
	index := map[string]*scope{}
	common := map[string]string{}
	var out []*scope
	next := 0
	for _, m := range marks {
		for next < n && d.Events.At(next).Time < m.Time {
			next++
		}
		name, ok := common[m.Name]
		if !ok {
			name = numberless(m.Name)
			common[m.Name] = name
		}
		s := index[name]
		if s == nil {
			s = &scope{name: name}
			index[name] = s
			out = append(out, s)
		}
		s.edges = append(s.edges, edge{at: unsplit(d, next), name: m.Name, kind: m.Edge, old: m.Time < first})
	}
	return out
}

// markersOf are those that name the device or none; all, if there are none such.
func markersOf(t *trace.Trace, d *trace.Device) []trace.Marker {
	var out []trace.Marker
	for _, m := range t.Markers {
		if m.Device == d.Index || m.Device < 0 {
			out = append(out, m)
		}
	}
	if len(out) == 0 {
		out = slices.Clone(t.Markers)
	}
	slices.SortStableFunc(out, func(a, b trace.Marker) int { return cmp.Compare(a.Time, b.Time) })
	return out
}

func firstTime(d *trace.Device) trace.Time {
	for _, e := range d.Events.All() {
		if e.Time != 0 {
			return e.Time
		}
	}
	return 0
}

// unsplit moves a place between the two events of one free behind them: clocks are not fine enough to mean it.
func unsplit(d *trace.Device, at int) int {
	if at > 0 && at < d.Events.Len() {
		e, before := d.Events.At(at), d.Events.At(at-1)
		if e.Op == trace.OpFreeCompleted && before.Op == trace.OpFreeRequested && e.Block == before.Block {
			return at + 1
		}
	}
	return at
}

// matching leaves only the annotations whose names match.
func matching(scopes []*scope, named *regexp.Regexp) []*scope {
	known := map[string]bool{}
	matches := func(name string) bool {
		m, ok := known[name]
		if !ok {
			m = named.MatchString(name)
			known[name] = m
		}
		return m
	}
	var out []*scope
	for _, s := range scopes {
		kept := scope{name: s.name}
		for _, e := range s.edges {
			if matches(e.name) {
				kept.edges = append(kept.edges, e)
			}
		}
		if len(kept.edges) > 0 {
			out = append(out, &kept)
		}
	}
	return out
}

// largest turns annotations into steps. Where several names are possible it takes those that cover the most
// events: a step rather than what is done within it.
func largest(scopes []*scope, d *trace.Device, possible func(name string) bool) (best []Iteration, name string) {
	covers := -1
	for _, s := range scopes {
		if !possible(s.name) {
			continue
		}
		steps := s.steps(d)
		n := 0
		for _, x := range steps {
			n += x.To - x.From
		}
		enough, had := len(steps) >= leastSteps, len(best) >= leastSteps
		if enough && !had || enough == had && n > covers {
			best, name, covers = steps, s.name, n
		}
	}
	return best, name
}

// steps turns edges into disjoint ranges of events, without those that have no event.
func (s *scope) steps(d *trace.Device) []Iteration {
	ranges := s.ranges(d)
	slices.SortStableFunc(ranges, func(a, b Iteration) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(b.To, a.To)) })
	var out []Iteration
	for _, r := range ranges {
		if r.From >= r.To {
			continue
		}
		if n := len(out); n > 0 && r.From < out[n-1].To {
			last := &out[n-1]
			if r.Name == last.Name && r.To <= last.To {
				continue // the same step in another thread, or in itself
			}
			if last.To = r.From; last.From == last.To {
				out = out[:n-1]
			}
		}
		out = append(out, r)
	}
	return out
}

// ranges pairs the edges. An end belongs to the latest start of its name that has none. A start without an
// end, and a point, reach to the next of their kind; an end without a start reaches back to the one before.
func (s *scope) ranges(d *trace.Device) []Iteration {
	truncated := d.Overflow || len(d.Initial.Segments) > 0 || len(d.Initial.Blocks) > 0
	var out []Iteration
	open := map[string][]int{} // by name: those that have no end yet, by their index in out
	for _, e := range s.edges {
		if e.kind != trace.EdgeEnd {
			open[e.name] = append(open[e.name], len(out))
			out = append(out, Iteration{From: e.at, To: -1, Name: e.name, Begun: !e.old || !truncated, Ended: e.kind == trace.EdgePoint})
			continue
		}
		if stack := open[e.name]; len(stack) > 0 {
			x := &out[stack[len(stack)-1]]
			x.To, x.Ended = e.at, true
			open[e.name] = stack[:len(stack)-1]
			continue
		}
		from := 0
		if len(out) > 0 {
			from = max(out[len(out)-1].To, out[len(out)-1].From)
		}
		out = append(out, Iteration{From: from, To: e.at, Name: e.name, Ended: true})
	}
	end := d.Events.Len()
	for i := len(out) - 1; i >= 0; i-- {
		x := &out[i]
		if x.To < 0 {
			x.To = end
			if end == d.Events.Len() {
				x.Ended = false
			}
		}
		end = min(end, x.From)
	}
	return out
}

// runsOf are the ranges of annotations that begin so, of the optimizer that ran most often.
func runsOf(scopes []*scope, d *trace.Device, what string) []Iteration {
	var best []Iteration
	for _, s := range scopes {
		if !strings.HasPrefix(s.name, what) {
			continue
		}
		var runs []Iteration
		for _, r := range s.ranges(d) {
			if r.To > 0 {
				runs = append(runs, r)
			}
		}
		if len(runs) > len(best) {
			best = runs
		}
	}
	slices.SortStableFunc(best, func(a, b Iteration) int { return cmp.Compare(a.To, b.To) })
	return best
}
