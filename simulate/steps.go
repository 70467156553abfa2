package simulate

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/trace"
)

// Steps of a program.
//
// A training program does the same thing over and over, and most questions about its memory are about one
// such step, or about what differs from one to the next. Nothing in a recording says outright what a step
// is. The names that the program gave to parts of its work do, if it gave any: those of a profiler's steps,
// those that somebody numbered by hand, and those that PyTorch gives to each call of an optimizer. Where there
// is none, the events themselves recur (pattern.go).

// Iteration is one step: the events From <= i < To. Steps do not overlap, and may have events between them
// that belong to none.
type Iteration struct {
	From, To int
	Name     string // as the program called it, empty if it did not
	// Begun and Ended say whether the recording has that edge: a ring buffer cuts the first step, an
	// out-of-memory error the last.
	Begun, Ended bool
}

// StepList is the steps of one device, in order.
type StepList struct {
	Steps  []Iteration
	Source string // how they were found, for people; empty if none were
	// Optimizing are ranges of events in which an optimizer was at work, whatever the steps are.
	Optimizing []Iteration
}

// Of gives the index of the step that an event lies in; one between two steps counts to the later. It is the
// number of steps for what comes after the last.
func (l *StepList) Of(event int) int {
	i, _ := slices.BinarySearchFunc(l.Steps, event, func(s Iteration, e int) int { return cmp.Compare(s.To, e+1) })
	return i
}

// Label names a step for people: by the number that the program gave it, otherwise by its place among them.
func (l *StepList) Label(i int) string {
	name := l.Steps[i].Name
	from := strings.IndexAny(name, "0123456789")
	if from >= 0 && strings.Count(numberless(name), "#")-strings.Count(name, "#") == 1 {
		digits := name[from:]
		return digits[:len(digits)-len(strings.TrimLeft(digits, "0123456789"))]
	}
	return fmt.Sprintf("%d of %d", i+1, len(l.Steps))
}

const (
	leastSteps   = 2 // fewer are no repetition
	optimizerRun = "Optimizer.step"
	zeroGrad     = "Optimizer.zero_grad"
	profilerStep = "ProfilerStep"
)

// stepLike are names that people give to steps.
var stepLike = regexp.MustCompile(`(?i)(^|[^a-z])(train|training|run|one)?[_ ]?(step|iter|iteration|batch|minibatch|microbatch)s?([^a-z]|$)`)

// Steps finds the steps of a device. A regular expression that is given decides which annotations are steps;
// otherwise those of a profiler come first, then names that sound like steps, then calls of an optimizer, and
// last the pattern of the events.
func Steps(t *trace.Trace, d *trace.Device, named *regexp.Regexp) StepList {
	scopes := scopesOf(t, d)
	optimizing := runsOf(scopes, d, optimizerRun)
	found := func(steps []Iteration, source string) StepList {
		return StepList{Steps: steps, Source: source, Optimizing: optimizing}
	}
	if named != nil {
		if steps, name := largest(matching(scopes, named), d, func(string) bool { return true }); len(steps) > 0 {
			return found(steps, "annotations: "+name)
		}
		return found(nil, "")
	}
	isProfiler := func(name string) bool { return strings.HasPrefix(name, profilerStep) }
	if steps, name := largest(scopes, d, isProfiler); len(steps) >= leastSteps {
		return found(steps, "annotations: "+name)
	}
	isStep := func(name string) bool { return stepLike.MatchString(name) && !strings.HasPrefix(name, "Optimizer.") }
	if steps, name := largest(scopes, d, isStep); len(steps) >= leastSteps {
		return found(steps, "annotations: "+name)
	}
	if steps := betweenRuns(optimizing, runsOf(scopes, d, zeroGrad), d); len(steps) >= leastSteps {
		return found(steps, "annotations: "+optimizerRun)
	}
	if steps := patternSteps(d); len(steps) >= leastSteps {
		return found(steps, "pattern of the trace")
	}
	return found(nil, "")
}

// Annotations lists the names of a trace, numbers replaced by #, the most frequent first.
func Annotations(t *trace.Trace) []string {
	count := map[string]int{}
	for i := range t.Markers {
		if t.Markers[i].Edge != trace.EdgeEnd {
			count[numberless(t.Markers[i].Name)]++
		}
	}
	names := make([]string, 0, len(count))
	for n := range count {
		names = append(names, n)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(count[b], count[a]), strings.Compare(a, b)) })
	return names
}

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
	return best
}

// betweenRuns makes steps that end with a run of the optimizer each, and what is freed directly after it, which is
// the gradients. What the program does before its first iteration, and after its last, is in none. Where the last
// step ends can be told only if the gradients are said to be freed there: what a program frees when it is done
// follows without a break.
func betweenRuns(runs, zeroed []Iteration, d *trace.Device) []Iteration {
	var out []Iteration
	at := 0
	for _, r := range runs {
		to, ended := beforeRequest(d, r.To), r.Ended
		if to == d.Events.Len() {
			i := slices.IndexFunc(zeroed, func(z Iteration) bool { return z.From >= r.To })
			if ended = ended && i >= 0 && zeroed[i].Ended; ended {
				to = zeroed[i].To
			} else {
				to = r.To
			}
		}
		if to > at || len(out) == 0 {
			out = append(out, Iteration{From: at, To: to, Name: r.Name, Begun: true, Ended: ended})
			at = to
		}
	}
	if len(out) < leastSteps {
		return out
	}
	out[0].From, out[0].Begun = loopStart(d, out)
	if n := d.Events.Len(); at < n {
		// A crash leaves a step unfinished; what a program tidies up when it ends is less than a step.
		last := out[len(out)-1]
		if 4*requestsIn(d, at, n) >= requestsIn(d, last.From, last.To) && requestsIn(d, at, n) > 0 {
			out = append(out, Iteration{From: at, To: n, Begun: true})
		}
	}
	return out
}

// loopStart is where the first iteration begins: where the allocation that begins the others is made first,
// if that can be told.
func loopStart(d *trace.Device, steps []Iteration) (at int, begun bool) {
	truncated := d.Overflow || len(d.Initial.Segments) > 0 || len(d.Initial.Blocks) > 0
	count := map[uint64]int{}
	var usual uint64
	for _, s := range steps[1:] {
		for i := s.From; i < s.To; i++ {
			if e := d.Events.At(i); e.Op == trace.OpAlloc {
				k := kindOf(e)
				if count[k]++; count[k] > count[usual] || len(count) == 1 {
					usual = k
				}
				break
			}
		}
	}
	if 2*count[usual] <= len(steps)-1 {
		return steps[0].From, !truncated
	}
	often := 0 // a step has more of the same
	for i := steps[1].From; i < steps[1].To; i++ {
		if e := d.Events.At(i); e.Op == trace.OpAlloc && kindOf(e) == usual {
			often++
		}
	}
	for i := steps[0].To - 1; i >= steps[0].From; i-- {
		if e := d.Events.At(i); e.Op == trace.OpAlloc && kindOf(e) == usual {
			if often--; often <= 0 {
				return i, true
			}
		}
	}
	return steps[0].From, !truncated
}

// beforeRequest is the end of the frees that begin at an event.
func beforeRequest(d *trace.Device, at int) int {
	for ; at < d.Events.Len(); at++ {
		switch d.Events.At(at).Op {
		case trace.OpFree, trace.OpFreeRequested, trace.OpFreeCompleted:
		default:
			return at
		}
	}
	return at
}

// requestsIn counts the requests among the events from <= i < to.
func requestsIn(d *trace.Device, from, to int) int {
	n := 0
	for i := from; i < to; i++ {
		if d.Events.At(i).Op == trace.OpAlloc {
			n++
		}
	}
	return n
}
