package simulate

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vramscope/vramscope/trace"
	"pgregory.net/rapid"
)

// script makes a device of words: "a3:512@7" allocates block 3, 512 bytes, with stack 7; "f3" frees it, "q3" asks
// for its free and "c3" completes it; "s2048" takes a segment. Event number i happens at time 10·i+10.
func script(t interface{ Fatalf(string, ...any) }, text string) *trace.Device {
	d := &trace.Device{Content: trace.Requests}
	number := func(s string) int64 {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			t.Fatalf("%q in a script: %v", s, err)
		}
		return n
	}
	for _, w := range strings.Fields(text) {
		e := trace.Event{Time: trace.Time(10*d.Events.Len() + 10), Block: trace.NoBlock}
		rest := w[1:]
		if before, stack, ok := strings.Cut(rest, "@"); ok {
			e.Stack, rest = trace.StackID(number(stack)), before
		}
		if before, size, ok := strings.Cut(rest, ":"); ok {
			e.Size, rest = number(size), before
		}
		switch w[0] {
		case 'a':
			e.Op = trace.OpAlloc
		case 'f':
			e.Op = trace.OpFree
		case 'q':
			e.Op = trace.OpFreeRequested
		case 'c':
			e.Op = trace.OpFreeCompleted
		case 's':
			e.Op, e.Size = trace.OpSegmentAlloc, number(rest)
		default:
			t.Fatalf("%q in a script", w)
		}
		if e.Op != trace.OpSegmentAlloc {
			e.Block = trace.BlockID(number(rest))
			d.NumBlocks = max(d.NumBlocks, int(e.Block)+1)
		}
		d.Events.Append(e)
	}
	return d
}

// markers are words too: "[step 1@3" starts before event 3, "]step 1@5" ends before event 5, "!x@2" is a point;
// separated by semicolons. A number behind a slash is the device.
func markers(t testing.TB, text string) []trace.Marker {
	t.Helper()
	var out []trace.Marker
	for _, w := range strings.Split(text, ";") {
		if w = strings.TrimSpace(w); w == "" {
			continue
		}
		name, at, _ := strings.Cut(w[1:], "@")
		at, device, has := strings.Cut(at, "/")
		m := trace.Marker{Name: name, Device: -1, Edge: map[byte]trace.Edge{'[': trace.EdgeStart, ']': trace.EdgeEnd, '!': trace.EdgePoint}[w[0]]}
		n, err := strconv.Atoi(at)
		if err != nil {
			t.Fatal(err)
		}
		m.Time = trace.Time(10*n + 5)
		if has {
			m.Device, _ = strconv.Atoi(device)
		}
		out = append(out, m)
	}
	return out
}

// show writes steps as the tests do: from–to, with a parenthesis where the recording lacks the edge.
func show(l StepList) string {
	var parts []string
	for _, s := range l.Steps {
		left, right := "[", "]"
		if !s.Begun {
			left = "("
		}
		if !s.Ended {
			right = ")"
		}
		parts = append(parts, fmt.Sprintf("%s%d %d%s", left, s.From, s.To, right))
	}
	return strings.TrimSpace(l.Source + " " + strings.Join(parts, " "))
}

func TestStepsOfAnnotations(t *testing.T) {
	// Twelve events: six blocks, each freed at once.
	const events = "a0:1 f0 a1:1 f1 a2:1 f2 a3:1 f3 a4:1 f4 a5:1 f5"
	for _, c := range []struct{ name, markers, named, want string }{
		{"numbered", "[step 1@0;]step 1@4;[step 2@4;]step 2@8;[step 3@8;]step 3@12", "", "annotations: step # [0 4] [4 8] [8 12]"},
		{"with gaps", "[step 1@2;]step 1@4;[step 2@6;]step 2@8", "", "annotations: step # [2 4] [6 8]"},
		{"unnumbered", "[train_step@0;]train_step@6;[train_step@6;]train_step@12", "", "annotations: train_step [0 6] [6 12]"},
		{"the last has no end", "[step 1@0;]step 1@4;[step 2@4", "", "annotations: step # [0 4] [4 12)"},
		{"one in the middle has no end", "[step@0;[step@4;]step@8;[step@8;]step@12", "", "annotations: step [0 4) [4 8] [8 12]"},
		{"the first has no start", "]step 1@4;[step 2@4;]step 2@8", "", "annotations: step # (0 4] [4 8]"},
		{"two threads do one step", "[step 1@0;[step 1@1;]step 1@3;]step 1@4;[step 2@4;[step 2@5;]step 2@8;]step 2@9", "", "annotations: step # [0 4] [4 9]"},
		{"threads overlap", "[step 1@0;[step 2@3;]step 1@5;]step 2@8", "", "annotations: step # [0 3] [3 8]"},
		{"batches in a step", "[step 1@0;[batch 1@0;]batch 1@2;[batch 2@2;]batch 2@4;]step 1@6;[step 2@6;[batch 1@6;]batch 1@8;]step 2@12", "",
			"annotations: step # [0 6] [6 12]"},
		{"a profiler's come first", "[step 1@0;]step 1@6;[step 2@6;]step 2@12;[ProfilerStep#7@0;]ProfilerStep#7@2;[ProfilerStep#8@2;]ProfilerStep#8@4", "",
			"annotations: ProfilerStep## [0 2] [2 4]"},
		{"points", "!step 1@2;!step 2@6;!step 3@8", "", "annotations: step # [2 6] [6 8] [8 12)"},
		{"other names are none", "[forward@0;]forward@6;[forward@6;]forward@12", "", ""},
		{"named ones are", "[forward@0;]forward@6;[forward@6;]forward@12", "^for", "annotations: forward [0 6] [6 12]"},
		{"one that is named is enough", "[forward@2;]forward@6", "forward", "annotations: forward [2 6]"},
		{"a name that is not there", "[step 1@0;]step 1@4;[step 2@4;]step 2@8", "phase", ""},
		{"an optimizer ends steps", "[Optimizer.step#A.step@3;]Optimizer.step#A.step@4;[Optimizer.step#A.step@7;]Optimizer.step#A.step@8", "",
			"annotations: Optimizer.step [0 4] [4 8] [8 12)"},
		{"another device", "[step 1@0/0;]step 1@4/0;[step 2@4/0;]step 2@8/0;[step 1@0/1;]step 1@2/1", "", "annotations: step # [0 4] [4 8]"},
		{"only of another device", "[step 1@0/3;]step 1@4/3;[step 2@4/3;]step 2@8/3", "", "annotations: step # [0 4] [4 8]"},
		{"between the events of one free", "[step 1@0;]step 1@4;[step 2@4;]step 2@8", "", "annotations: step # [0 4] [4 8]"},
		{"a name of both kinds", "[iter 1@0;]iter 1@12;[iterator@0;]iterator@6;[iterator@6;]iterator@12", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := script(t, events)
			tr := &trace.Trace{Markers: markers(t, c.markers), Stacks: trace.NewStacks()}
			var named *regexp.Regexp
			if c.named != "" {
				named = regexp.MustCompile(c.named)
			}
			if diff := cmp.Diff(c.want, show(Steps(tr, d, named))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What an optimizer frees when it is done belongs to its step; the last step ends where the gradients are gone,
// not where the program is.
func TestStepsOfAnOptimizer(t *testing.T) {
	// Blocks: 9 a weight, 1 and 3 batches, 2 and 4 gradients. The batch has stack 7.
	const events = "a9:8@1 a1:4@7 a2:8 f1 f2 a3:4@7 a4:8 f3 f4 f9"
	tr := &trace.Trace{Stacks: trace.NewStacks(), Markers: markers(t,
		"[Optimizer.step#A@3;]Optimizer.step#A@3;[Optimizer.zero_grad#A@4;]Optimizer.zero_grad#A@5;"+
			"[Optimizer.step#A@7;]Optimizer.step#A@7;[Optimizer.zero_grad#A@8;]Optimizer.zero_grad#A@9")}
	want := "annotations: Optimizer.step [1 5] [5 9]"
	if got := show(Steps(tr, script(t, events), nil)); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	tr.Markers = markers(t, "[Optimizer.step#A@3;]Optimizer.step#A@3;[Optimizer.step#A@7;]Optimizer.step#A@7")
	want = "annotations: Optimizer.step [1 5] [5 7)"
	if got := show(Steps(tr, script(t, events), nil)); got != want {
		t.Errorf("without zero_grad: got %q, want %q", got, want)
	}
}

// A marker between the two events of a free comes after both.
func TestStepsDoNotSplitFrees(t *testing.T) {
	d := script(t, "a0:1 q0 c0 a1:1 q1 c1")
	tr := &trace.Trace{Stacks: trace.NewStacks(), Markers: markers(t, "[step 1@0;]step 1@2;[step 2@2;]step 2@5")}
	if got, want := show(Steps(tr, d, nil)), "annotations: step # [0 3] [3 6]"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestStepsWithoutTimes(t *testing.T) {
	d := script(t, "a0:1 f0 a1:1 f1")
	for _, e := range d.Events.All() {
		e.Time = 0
	}
	tr := &trace.Trace{Stacks: trace.NewStacks(), Markers: markers(t, "[step 1@0;]step 1@2;[step 2@2;]step 2@4")}
	if got := show(Steps(tr, d, nil)); got != "" {
		t.Errorf("got %q, want none", got)
	}
}

// A ring buffer that lost the beginning cuts the step that was going on.
func TestStepsOfARing(t *testing.T) {
	d := script(t, "f9 a0:1 f0 a1:1 f1")
	d.Initial.Blocks = []trace.Block{{ID: 9, State: trace.BlockLive, Size: 1}}
	tr := &trace.Trace{Stacks: trace.NewStacks(), Markers: markers(t, "[step 4@-3;]step 4@-2;[step 5@-1;]step 5@1;[step 6@1;]step 6@3;[step 7@3;]step 7@5")}
	if got, want := show(Steps(tr, d, nil)), "annotations: step # (0 1] [1 3] [3 5]"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// loop writes the events of a program that sets up, and then iterates: a batch, three layers, a loss, backward.
func loop(iterations int, sizes func(i int) int) (text string, starts []int) {
	var b strings.Builder
	block, events := 0, 0
	word := func(format string, args ...any) {
		fmt.Fprintf(&b, format+" ", args...)
		events++
	}
	for range 5 {
		word("a%d:4096@1", block)
		block++
	}
	for i := range iterations {
		starts = append(starts, events)
		first := block
		n := sizes(i)
		word("a%d:%d@10", block, n)
		block++
		for range 3 {
			word("a%d:%d@20", block, 2*n)
			word("a%d:%d@21", block+1, 3*n)
			block += 2
		}
		word("a%d:4@30", block)
		word("a%d:%d@31", block+1, n)
		block += 2
		for id := first; id < block; id++ {
			word("f%d", id)
		}
	}
	return b.String(), starts
}

func TestStepsOfThePattern(t *testing.T) {
	for _, c := range []struct {
		name  string
		sizes func(i int) int
	}{
		{"fixed", func(int) int { return 1024 }},
		{"varying", func(i int) int { return 512 * (1 + i*7%11) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			text, starts := loop(12, c.sizes)
			l := Steps(&trace.Trace{Stacks: trace.NewStacks()}, script(t, text), nil)
			if l.Source != "pattern of the trace" || len(l.Steps) != len(starts) {
				t.Fatalf("found %q, want %d iterations", show(l), len(starts))
			}
			for i, s := range l.Steps {
				if s.From != starts[i] || s.Ended != (i+1 < len(starts)) {
					t.Errorf("iteration %d is %+v, want it to begin at %d", i, s, starts[i])
				}
			}
		})
	}
}

// Without stacks the sizes tell, if they are the same in each iteration.
func TestStepsOfThePatternWithoutStacks(t *testing.T) {
	text, starts := loop(12, func(int) int { return 1024 })
	text = regexp.MustCompile(`@\d+`).ReplaceAllString(text, "")
	// The batch and the last block of an iteration have one size and no stack: the loss and these are the only
	// kinds, and no choir.
	text = strings.ReplaceAll(text, ":4 ", ":4 a900:7 f900 a901:9 f901 ")
	text = renumbered(text)
	l := Steps(&trace.Trace{Stacks: trace.NewStacks()}, script(t, text), nil)
	if len(l.Steps) != len(starts) {
		t.Errorf("found %q, want %d iterations", show(l), len(starts))
	}
}

// renumbered gives each use of block 900 and 901 a number of its own.
func renumbered(text string) string {
	next := 10_000
	now := map[string]int{}
	words := strings.Fields(text)
	for i, w := range words {
		for _, id := range []string{"900", "901"} {
			switch {
			case strings.HasPrefix(w, "a"+id+":"):
				next++
				now[id] = next
				words[i] = "a" + strconv.Itoa(next) + strings.TrimPrefix(w, "a"+id)
			case w == "f"+id:
				words[i] = "f" + strconv.Itoa(now[id])
			}
		}
	}
	return strings.Join(words, " ")
}

func TestNoPattern(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var b strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&b, "a%d:%d@%d f%d ", i, 1+r.IntN(2000), 1+r.IntN(300), i)
	}
	if l := Steps(&trace.Trace{Stacks: trace.NewStacks()}, script(t, b.String()), nil); len(l.Steps) > 0 {
		t.Errorf("found %d steps in noise (%s)", len(l.Steps), l.Source)
	}
}

func TestOf(t *testing.T) {
	l := StepList{Steps: []Iteration{{From: 2, To: 4}, {From: 4, To: 7}, {From: 9, To: 10}}}
	for event, want := range []int{0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3} {
		if got := l.Of(event); got != want {
			t.Errorf("event %d is in step %d, want %d", event, got, want)
		}
	}
}

func TestLabel(t *testing.T) {
	l := StepList{Steps: []Iteration{{Name: "## step 14 ##"}, {Name: "epoch 1 step 3"}, {Name: "Optimizer.step"}}}
	for i, want := range []string{"14", "2 of 3", "3 of 3"} {
		if got := l.Label(i); got != want {
			t.Errorf("step %d is called %q, want %q", i, got, want)
		}
	}
}

// Whatever markers say, steps are in order, disjoint and within the recording.
func TestStepsAreDisjoint(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text, _ := loop(rapid.IntRange(0, 5).Draw(t, "iterations"), func(i int) int { return 100 * (i + 1) })
		d := script(t, text)
		d.Overflow = rapid.Bool().Draw(t, "overflow")
		tr := &trace.Trace{Stacks: trace.NewStacks()}
		names := []string{"step 1", "step 2", "step", "ProfilerStep#3", "Optimizer.step#A", "Optimizer.zero_grad#A", "batch 7", "forward", ""}
		for range rapid.IntRange(0, 30).Draw(t, "markers") {
			tr.Markers = append(tr.Markers, trace.Marker{
				Time: trace.Time(rapid.IntRange(-50, 10*d.Events.Len()+50).Draw(t, "time")), Device: rapid.IntRange(-1, 1).Draw(t, "device"),
				Name: rapid.SampledFrom(names).Draw(t, "name"), Edge: trace.Edge(rapid.IntRange(0, 2).Draw(t, "edge")),
			})
		}
		var named *regexp.Regexp
		if rapid.Bool().Draw(t, "named") {
			named = regexp.MustCompile("step|forward")
		}
		l := Steps(tr, d, named)
		at := 0
		for i, s := range l.Steps {
			if s.From < at || s.To < s.From || s.To > d.Events.Len() {
				t.Fatalf("step %d is %+v, after %d, of %d events (%s)", i, s, at, d.Events.Len(), l.Source)
			}
			at = s.To
			if l.Label(i) == "" {
				t.Fatal("a step without a label")
			}
		}
		if (len(l.Steps) == 0) != (l.Source == "") {
			t.Fatalf("%d steps of %q", len(l.Steps), l.Source)
		}
		g := followed(d).Growth(l)
		if g.Steps+g.Warmup > len(l.Steps) {
			t.Fatalf("%+v of %d steps", g, len(l.Steps))
		}
	})
}
