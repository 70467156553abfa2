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
	optimizing = joined(optimizing, t, d)
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

// joined makes one run of those between which no module of a model was called: of several optimizers, or of those that
// change each weight as soon as its gradient is there. It leaves them as they are where no stack tells of modules.
func joined(runs []Iteration, t *trace.Trace, d *trace.Device) []Iteration {
	if len(runs) < 2 {
		return runs
	}
	var out []Iteration
	v := newEvidence(t.Stacks)
	called, ever, at := true, false, 0
	next := func() {
		if called {
			out = append(out, runs[at])
		} else {
			last := &out[len(out)-1]
			last.To, last.Ended = runs[at].To, runs[at].Ended
		}
		called = false
		at++
	}
	for i, e := range d.Events.All() {
		for at < len(runs) && runs[at].To <= i {
			next()
		}
		if e.Op == trace.OpAlloc && v.of(e.Stack)&phases == inModule {
			called, ever = true, true
		}
	}
	for at < len(runs) {
		next()
	}
	if !ever {
		return runs
	}
	return out
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
