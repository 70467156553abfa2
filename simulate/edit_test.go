package simulate

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vramscope/vramscope/trace"
	"pgregory.net/rapid"
)

func TestParseEdit(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"empty-cache", "cache every 1"},
		{"empty-cache:step-end", "cache every 1"},
		{"empty-cache:every=10steps", "cache every 10"},
		{"empty-cache:every=1step", "cache every 1"},
		{"empty-cache:every=7", "cache every 7"},
		{"empty-cache:before=4711", "cache before 4711"},
		{"empty-cache:before=0", "cache before 0"},
		{"empty-cache:before=+2.5s", "cache after 2.5s"},
		{"largest-first", "largest"},
		{"prealloc=8GiB", "prealloc 8589934592"},
		{"prealloc=1.5m", "prealloc 1572864"},
		{"without-leaks", "leaks"},
		{"drop-stack=model.py:31", "drop model.py:31"},
		{"drop-stack=a=b", "drop a=b"},
		{"scale=1.5", "scale 1.5"},
		{"scale=0.5", "scale 0.5"},
	} {
		e, err := ParseEdit(c.text)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		var got string
		switch e.Kind {
		case EditEmptyCache:
			switch {
			case e.Every > 0:
				got = fmt.Sprintf("cache every %d", e.Every)
			case e.Before >= 0:
				got = fmt.Sprintf("cache before %d", e.Before)
			default:
				got = fmt.Sprintf("cache after %v", e.After)
			}
		case EditLargestFirst:
			got = "largest"
		case EditPrealloc:
			got = fmt.Sprintf("prealloc %d", e.Size)
		case EditWithoutLeaks:
			got = "leaks"
		case EditDropStack:
			got = "drop " + e.Pattern.String()
		case EditScale:
			got = fmt.Sprintf("scale %g", e.Factor)
		}
		if got != c.want || e.Text != c.text {
			t.Errorf("%s: got %q, want %q", c.text, got, c.want)
		}
	}
}

func TestParseEditErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", `edit "": character 1: there are empty-cache,`},
		{"emptycache", `edit "emptycache": character 1: there are empty-cache,`},
		{"empty-cache:now", `character 12: ":now" does not say when`},
		{"empty-cache:every=", `character 19: "" is not a number of steps`},
		{"empty-cache:every=0steps", `character 19: "0steps" is not a number of steps`},
		{"empty-cache:every=10stps", `character 21: "stps" is no unit`},
		{"empty-cache:before=x", `character 20: "x" is neither`},
		{"empty-cache:before=-1", `character 20: "-1" is neither`},
		{"empty-cache:before=+soon", `character 20: "+soon" is not a time`},
		{"largest-first=2", `character 14: "=2" is too much`},
		{"prealloc", `character 9: a value is missing`},
		{"prealloc=", `character 9: a value is missing`},
		{"prealloc=lots", `character 10: "lots" is not a size`},
		{"prealloc=0", `character 10: a block of 0 bytes`},
		{"drop-stack=[", `character 12: not a regular expression`},
		{"scale=0", `character 7: "0" is not a factor`},
		{"scale=-1", `character 7: "-1" is not a factor`},
		{"scale=NaN", `character 7: "NaN" is not a factor`},
		{"scale=1e9", `character 7: "1e9" is not a factor`},
	} {
		_, err := ParseEdit(c.text)
		var e *EditError
		if !errors.As(err, &e) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", c.text, err, c.want)
		}
	}
}

// words writes the requests as script reads them, with | before an event at which the cache is emptied.
func words(r *Requests) string {
	var out []string
	acts := r.Acts
	for i, e := range r.Device.Events.All() {
		for len(acts) > 0 && acts[0].Event <= i {
			out = append(out, "|")
			acts = acts[1:]
		}
		switch e.Op {
		case trace.OpAlloc:
			out = append(out, fmt.Sprintf("a%d:%d", e.Block, e.Size))
		case trace.OpFree:
			out = append(out, fmt.Sprintf("f%d", e.Block))
		case trace.OpFreeRequested:
			out = append(out, fmt.Sprintf("q%d", e.Block))
		case trace.OpFreeCompleted:
			out = append(out, fmt.Sprintf("c%d", e.Block))
		case trace.OpSegmentAlloc:
			out = append(out, fmt.Sprintf("s%d", e.Size))
		}
	}
	return strings.Join(out, " ")
}

// stacksOf makes stacks 1, 2, …, each of one frame: file.py:1 f1, and so on.
func stacksOf(n int) *trace.Stacks {
	s := trace.NewStacks()
	for i := 1; i <= n; i++ {
		s.AddStack([]trace.FrameID{s.AddFrame(trace.Frame{File: "file.py", Func: fmt.Sprintf("f%d", i), Line: i})})
	}
	return s
}

func TestEdits(t *testing.T) {
	// Block 0 is a weight, block 9 what goes on from step to step. Step 1 is events 1 to 4, step 2 events 5 to 10,
	// the larger; 11 to 14 are step 3, and then the program frees what it has.
	const program = "a0:1000@1 a1:10@2 a2:20@3 f2 f1 a3:10@2 a4:2000@3 q4 a9:30@4 c4 f3 a5:10@2 a6:20@3 f6 f5 f9 f0"
	list := StepList{Source: "test", Steps: []Iteration{{From: 1, To: 5, Ended: true, Name: "step 1"}, {From: 5, To: 11, Ended: true, Name: "step 2"}, {From: 11, To: 15, Ended: true, Name: "step 3"}}}
	for _, c := range []struct{ name, edits, want string }{
		{"none", "", "a0:1000 a1:10 a2:20 f2 f1 a3:10 a4:2000 q4 a9:30 c4 f3 a5:10 a6:20 f6 f5 f9 f0"},
		{"cache", "empty-cache", "a0:1000 a1:10 a2:20 f2 f1 | a3:10 a4:2000 q4 a9:30 c4 f3 | a5:10 a6:20 f6 f5 | f9 f0"},
		{"cache, every other step", "empty-cache:every=2steps", "a0:1000 a1:10 a2:20 f2 f1 a3:10 a4:2000 q4 a9:30 c4 f3 | a5:10 a6:20 f6 f5 f9 f0"},
		{"cache before an event", "empty-cache:before=2", "a0:1000 a1:10 | a2:20 f2 f1 a3:10 a4:2000 q4 a9:30 c4 f3 a5:10 a6:20 f6 f5 f9 f0"},
		// Event i is at 10·i+10 ns, and time counts from event 0.
		{"cache at a time", "empty-cache:before=+21ns", "a0:1000 a1:10 a2:20 | f2 f1 a3:10 a4:2000 q4 a9:30 c4 f3 a5:10 a6:20 f6 f5 f9 f0"},
		{"a block at the start", "prealloc=1k", "a10:1024 f10 a0:1000 a1:10 a2:20 f2 f1 a3:10 a4:2000 q4 a9:30 c4 f3 a5:10 a6:20 f6 f5 f9 f0"},
		// Blocks 3 and 4 live in step 2; block 9 is freed after step 3, and so is not given back by the step.
		{"largest first", "largest-first",
			"a0:1000 a10:10 a11:2000 q11 c11 f10 a1:10 a2:20 f2 f1 a3:10 a4:2000 q4 a9:30 c4 f3 a5:10 a6:20 f6 f5 f9 f0"},
		{"a stack less", "drop-stack=f3$", "a0:1000 a1:10 f1 a3:10 a9:30 f3 a5:10 f5 f9 f0"},
		{"a line less", "drop-stack=file.py:[23] ", "a0:1000 a9:30 f9 f0"},
		{"activations half as large again", "scale=1.5",
			"a0:1000 a1:15 a2:30 f2 f1 a3:15 a4:3000 q4 a9:30 c4 f3 a5:15 a6:30 f6 f5 f9 f0"},
		// Edits are made together, whatever their order: the copy has the new size, and lacks what is dropped.
		{"together", "largest-first;scale=2;prealloc=512;empty-cache:every=3steps;drop-stack=f2$",
			"a12:512 f12 a0:1000 a11:4000 q11 c11 a2:40 f2 a4:4000 q4 a9:30 c4 a6:40 f6 | f9 f0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := script(t, program)
			f := followed(d)
			var edits []Edit
			for _, text := range strings.Split(c.edits, ";") {
				if text == "" {
					continue
				}
				e, err := ParseEdit(text)
				if err != nil {
					t.Fatal(err)
				}
				edits = append(edits, e)
			}
			out, err := f.Edit(&trace.Trace{Stacks: stacksOf(4)}, list, edits)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, words(out.Requests)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(strings.Join(strings.Fields(withoutStacks(program)), " "), words(f.Requests)); diff != "" {
				t.Error("the recording was changed:", diff)
			}
		})
	}
}

// An edit puts a block in front, so that every request has another number: the packing must be that of the
// edited requests.
func TestEditedPacking(t *testing.T) {
	f := followed(script(t, "a0:4000000 a1:12000000 f1 f0"))
	e, err := ParseEdit("prealloc=16MiB")
	if err != nil {
		t.Fatal(err)
	}
	out, err := f.Edit(&trace.Trace{Stacks: stacksOf(1)}, StepList{}, []Edit{e})
	if err != nil {
		t.Fatal(err)
	}
	s := &Surroundings{initial: &initialState{}, known: true}
	for _, r := range []*Requests{f.Requests, out.Requests} {
		run := r.Once(s, WhatIf{Model: "packing", Limit: -1})
		if !run.Completed || run.Stats.DeviceAllocs != 1 {
			t.Errorf("%s: %d allocations of the device, want one that holds all", words(r), run.Stats.DeviceAllocs)
		}
	}
}

func withoutStacks(text string) string {
	for i := 1; i <= 4; i++ {
		text = strings.ReplaceAll(text, fmt.Sprintf("@%d", i), "")
	}
	return text
}

// A block that leaks is freed when its step ends, and its own free is gone.
func TestEditWithoutLeaks(t *testing.T) {
	d, list := iterations(t, 6, func(i int) string { return fmt.Sprintf("a%d:512@1 a%d:64@2 f%d", i, 100+i, 100+i) }, "f0 f1 f2 f3 f4 f5")
	out, err := followed(d).Edit(&trace.Trace{Stacks: stacksOf(2)}, list, []Edit{{Kind: EditWithoutLeaks}})
	if err != nil {
		t.Fatal(err)
	}
	want := ""
	for i := range 6 {
		want += fmt.Sprintf("a%d:512 a%d:64 f%d f%d ", i, 100+i, 100+i, i)
	}
	if diff := cmp.Diff(strings.TrimSpace(want), words(out.Requests)); diff != "" {
		t.Error(diff)
	}
	c := out.Changes[0]
	if c.Blocks != 6 || c.Bytes != 6*512 || len(c.Leaks) != 1 || c.AtPeak != 6*512 {
		t.Errorf("got %+v, want six blocks of one leak", c)
	}
	if out.PeakAllocated != 1024 {
		t.Errorf("peak is %d, want a block of each kind", out.PeakAllocated)
	}
}

// Activations are not gradients, nor states, nor copies of weights.
func TestEditScaleTellsActivations(t *testing.T) {
	// 0 is a weight of 8 KiB, with its state 1 made by the optimizer in the first step. In each step: the batch
	// (stack 3, carried over), a copy of the weight in half precision (4 KiB), a gradient without a stack that the
	// optimizer sees, an activation, and what the optimizer needs for itself (stack 6).
	step := func(i int) string {
		b := 10 * (i + 1)
		carried := ""
		if i > 0 {
			carried = fmt.Sprintf("f%d ", b-10)
		}
		state := ""
		if i == 0 {
			state = "a1:8192@2 "
		}
		return fmt.Sprintf("a%d:100@3 %sa%d:4096@4 a%d:600@5 f%d f%d a%d:8192 %sa%d:8192@6 f%d f%d ",
			b, carried, b+1, b+2, b+2, b+1, b+3, state, b+4, b+4, b+3)
	}
	var text string
	var list StepList
	words1 := "a0:8192@1 "
	at := 1
	for i := range 4 {
		s := step(i)
		n := len(strings.Fields(s))
		run := 0
		for k, w := range strings.Fields(s) {
			if strings.HasSuffix(w, "@6") || strings.HasSuffix(w, "@2") {
				run = k
				break
			}
		}
		list.Steps = append(list.Steps, Iteration{From: at, To: at + n, Ended: true})
		list.Optimizing = append(list.Optimizing, Iteration{From: at + run, To: at + n - 1})
		at += n
		text += s
	}
	d := script(t, words1+text+"f40 f1 f0")
	e, err := ParseEdit("scale=2")
	if err != nil {
		t.Fatal(err)
	}
	out, err := followed(d).Edit(&trace.Trace{Stacks: stacksOf(6)}, list, []Edit{e})
	if err != nil {
		t.Fatal(err)
	}
	got := map[trace.StackID]map[int64]int{}
	for _, e := range out.Requests.Device.Events.All() {
		if e.Op == trace.OpAlloc {
			if got[e.Stack] == nil {
				got[e.Stack] = map[int64]int{}
			}
			got[e.Stack][e.Size]++
		}
	}
	want := map[trace.StackID]map[int64]int{
		0: {8192: 4}, 1: {8192: 1}, 2: {8192: 1}, 3: {200: 4}, 4: {4096: 4}, 5: {1200: 4}, 6: {8192: 4},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Blocks that are older than the recording are freed at its start.
func TestEditDropOldBlocks(t *testing.T) {
	d := script(t, "a1:10@2 f0 f1")
	d.Initial.Blocks = []trace.Block{{ID: 0, State: trace.BlockLive, Size: 512, Requested: 500, Stack: 1}}
	f := followed(d)
	f.Requests.Initial = []InitialBlock{{Block: d.Initial.Blocks[0]}}
	f.Sizes[0] = 512
	e, err := ParseEdit("drop-stack=f1")
	if err != nil {
		t.Fatal(err)
	}
	out, err := f.Edit(&trace.Trace{Stacks: stacksOf(2)}, StepList{}, []Edit{e})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := words(out.Requests), "f0 a1:10 f1"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if out.PeakAllocated != 512 {
		t.Errorf("peak is %d, want 512: the old block goes before the other comes", out.PeakAllocated)
	}
}

func TestEditErrors(t *testing.T) {
	for _, c := range []struct{ edit, want string }{
		{"empty-cache", "no steps were found"},
		{"largest-first", "no steps were found"},
		{"scale=2", "no steps were found"},
		{"without-leaks", "no steps were found"},
		{"drop-stack=nowhere", "no block has a call stack"},
		{"empty-cache:before=99", "ends before that, after 2 events"},
		{"empty-cache:before=+1s", "ends before that"},
	} {
		e, err := ParseEdit(c.edit)
		if err != nil {
			t.Fatal(err)
		}
		_, err = followed(script(t, "a0:1@1 f0")).Edit(&trace.Trace{Stacks: stacksOf(1)}, StepList{}, []Edit{e})
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.edit) {
			t.Errorf("%s: got %v, want %s", c.edit, err, c.want)
		}
	}
}

// Whatever is edited, each block is allocated once and freed at most once, after that, under a number that the
// device has; pools and acts keep up, and events of the recording keep their order.
func TestEditsKeepRequestsSound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b strings.Builder
		var live []int
		blocks := rapid.IntRange(1, 60).Draw(t, "blocks")
		events := 0
		for id := 0; id < blocks; {
			if len(live) > 0 && rapid.Bool().Draw(t, "free") {
				k := rapid.IntRange(0, len(live)-1).Draw(t, "which")
				if rapid.Bool().Draw(t, "deferred") {
					fmt.Fprintf(&b, "q%d c%d ", live[k], live[k])
					events++
				} else {
					fmt.Fprintf(&b, "f%d ", live[k])
				}
				live = append(live[:k], live[k+1:]...)
			} else {
				fmt.Fprintf(&b, "a%d:%d@%d ", id, 1+rapid.IntRange(0, 5000).Draw(t, "size"), rapid.IntRange(0, 3).Draw(t, "stack"))
				live = append(live, id)
				id++
			}
			events++
		}
		d := script(t, b.String())
		f := followed(d)
		f.Requests.Pools = make([]uint32, d.NumBlocks)
		var list StepList
		for at := 0; at < events; {
			n := rapid.IntRange(1, 12).Draw(t, "step")
			to := unsplit(d, min(at+n, events))
			list.Steps = append(list.Steps, Iteration{From: at, To: to, Ended: true})
			at = to
		}
		var edits []Edit
		for _, text := range rapid.SliceOfN(rapid.SampledFrom([]string{"empty-cache:every=2steps", "largest-first", "prealloc=1k",
			"without-leaks", "drop-stack=f1", "scale=1.5", "scale=0.1"}), 1, 4).Draw(t, "edits") {
			e, err := ParseEdit(text)
			if err != nil {
				t.Fatal(err)
			}
			edits = append(edits, e)
		}
		out, err := f.Edit(&trace.Trace{Stacks: stacksOf(3)}, list, edits)
		if err != nil {
			if strings.Contains(err.Error(), "no block has") {
				return
			}
			t.Fatal(err)
		}
		r := out.Requests
		if len(r.Pools) != r.Device.NumBlocks {
			t.Fatalf("%d pools for %d blocks", len(r.Pools), r.Device.NumBlocks)
		}
		state := make([]int, r.Device.NumBlocks) // 0 new, 1 live, 2 waiting, 3 gone
		last := 0
		for i, e := range r.Device.Events.All() {
			if at := r.Recorded(i); at < last {
				t.Fatalf("event %d goes back to %d of the recording, after %d", i, at, last)
			} else {
				last = at
			}
			from, to := map[trace.Op]int{trace.OpAlloc: 0, trace.OpFree: 1, trace.OpFreeRequested: 1, trace.OpFreeCompleted: 2}[e.Op],
				map[trace.Op]int{trace.OpAlloc: 1, trace.OpFree: 3, trace.OpFreeRequested: 2, trace.OpFreeCompleted: 3}[e.Op]
			if state[e.Block] != from || e.Size < 0 {
				t.Fatalf("event %d, %v of block %d in state %d", i, e.Op, e.Block, state[e.Block])
			}
			state[e.Block] = to
		}
		for i, a := range r.Acts {
			if a.Event > r.Device.Events.Len() || i > 0 && a.Event < r.Acts[i-1].Event {
				t.Fatalf("acts %v are out of order", r.Acts)
			}
		}
	})
}
