package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/vramscope/vramscope/internal/recordtest"
	"github.com/vramscope/vramscope/internal/tracetest"
	"github.com/vramscope/vramscope/simulate"
	"github.com/vramscope/vramscope/trace"
	"github.com/vramscope/vramscope/trace/source"
)

const testMiB = tracetest.MiB

// training is a run of the small program, with sizes and frames changed.
func training(conf string, steps int, change func(string, int64) int64, rename func(trace.Frame) trace.Frame) *trace.Trace {
	r := tracetest.New(conf, -1)
	r.Rename = rename
	r.Training(steps, change)
	return r.Trace()
}

func compare(t *testing.T, a, b *trace.Trace) *DeviceDiff {
	t.Helper()
	d, err := Compare("a", a, "b", b, DiffOptions{Device: -1})
	if err != nil {
		t.Fatal(err)
	}
	return &d.Devices[0]
}

func larger(line string, percent int64) func(string, int64) int64 {
	return func(where string, size int64) int64 {
		if strings.Contains(where, line) {
			return size * (100 + percent) / 100
		}
		return size
	}
}

// One stack that holds more is the only one that changed, by what it holds more, also when it is the same
// stack in both (tools that compare sets of stacks see nothing then).
func TestDiffGrown(t *testing.T) {
	for _, factor := range []int64{10, 800} {
		d := compare(t, training("", 3, nil, nil), training("", 3, larger("functional.py:3504", factor), nil))
		if len(d.Stacks) != 1 || d.Unchanged != 9 {
			t.Fatalf("%d changed, %d did not", len(d.Stacks), d.Unchanged)
		}
		s := d.Stacks[0]
		want := 40 * testMiB * factor / 100
		if s.Kind != Grew || s.Delta() != want || s.A.Peak != 40*testMiB || d.B.PeakAllocated-d.A.PeakAllocated != want {
			t.Errorf("%+v, peak %d → %d", s, d.A.PeakAllocated, d.B.PeakAllocated)
		}
		if head := d.headline(); !strings.Contains(head, "train.py:36 train · functional.py:3504 cross_entropy (+"+MiB(want)+")") {
			t.Errorf("headline: %s", head)
		}
		if d.Requests.Same || d.Requests.A != d.Requests.B {
			t.Errorf("%+v", d.Requests)
		}
	}
}

// Code that moved is the same code: lines inserted above and within a function, another folder, another
// version of a library.
func TestDiffMovedLines(t *testing.T) {
	shift := func(by func(int) int) func(trace.Frame) trace.Frame {
		return func(f trace.Frame) trace.Frame {
			f.Line = by(f.Line)
			f.File = strings.Replace(f.File, "/home/user/", "/ci/build/7/", 1)
			f.File = strings.Replace(f.File, "/usr/lib/python3/", `C:\venv\`, 1)
			return f
		}
	}
	for name, by := range map[string]func(int) int{
		"none":       func(n int) int { return n },
		"all by one": func(n int) int { return n + 1 },
		"up by two":  func(n int) int { return n - 2 },
		"from within": func(n int) int {
			if n > 32 {
				return n + 5
			}
			return n
		},
	} {
		d := compare(t, training("", 2, nil, nil), training("", 2, nil, shift(by)))
		if len(d.Stacks) != 0 || !d.Requests.Same || d.Unchanged != 10 {
			t.Errorf("%s: %d changed, %d did not: %+v", name, len(d.Stacks), d.Unchanged, d.Stacks)
		}
		// The one that grew is found all the same.
		d = compare(t, training("", 2, nil, nil), training("", 2, larger("model.py:33 forward", 0), shift(by)))
		if len(d.Stacks) != 0 {
			t.Errorf("%s: %d changed", name, len(d.Stacks))
		}
	}
}

// However the lines of each function moved, as long as none was put before another, nothing changed.
func TestDiffMovedAny(t *testing.T) {
	type call struct {
		fn, line, callee int
		size             int64
	}
	program := func(calls []call, move func(fn, line int) int) *trace.Trace {
		r := tracetest.New("", -1)
		var held []int
		for _, c := range calls {
			held = append(held, r.Alloc(c.size, fmt.Sprintf("/l/site-packages/torch/lib.py:%d op%d < /p/m.py:%d f%d < /p/m.py:%d main",
				c.callee, c.callee, move(c.fn, c.line), c.fn, move(9, c.fn))))
		}
		r.Free(held...)
		return r.Trace()
	}
	rapid.Check(t, func(t *rapid.T) {
		var calls []call
		for range rapid.IntRange(1, 40).Draw(t, "calls") {
			calls = append(calls, call{rapid.IntRange(0, 3).Draw(t, "fn"), rapid.IntRange(0, 15).Draw(t, "line"), rapid.IntRange(0, 2).Draw(t, "callee"),
				int64(rapid.IntRange(1, 8).Draw(t, "size")) * 512})
		}
		var moved [10][16]int
		for fn := range moved {
			at := 0
			for line := range moved[fn] {
				at += rapid.IntRange(1, 3).Draw(t, "gap")
				moved[fn][line] = at
			}
		}
		a := program(calls, func(_, line int) int { return 10 + line })
		b := program(calls, func(fn, line int) int { return moved[fn][line] })
		d, err := Compare("a", a, "b", b, DiffOptions{Device: -1})
		if err != nil {
			t.Fatal(err)
		}
		if len(d.Devices[0].Stacks) != 0 {
			t.Fatalf("%d stacks changed: %+v", len(d.Devices[0].Stacks), d.Devices[0].Stacks)
		}
	})
}

// A line that is new in a function is new, and those around it are not.
func TestDiffNewLine(t *testing.T) {
	program := func(lines ...int) *trace.Trace {
		r := tracetest.New("", -1)
		var held []int
		for i, n := range lines {
			call := "conv"
			if n%2 == 0 {
				call = "norm"
			}
			held = append(held, r.Alloc(int64(10+i)*testMiB, fmt.Sprintf("lib.py:5 %s < /p/m.py:%d forward < /p/m.py:90 main", call, n)))
		}
		r.Free(held...)
		return r.Trace()
	}
	d := compare(t, program(11, 12, 13), program(11, 13, 14, 15))
	kinds := map[ChangeKind]int{}
	for _, s := range d.Stacks {
		kinds[s.Kind]++
	}
	// conv norm conv became conv conv norm conv: a conv was put in.
	if kinds[New] != 1 || kinds[Gone] != 0 {
		t.Errorf("%v: %+v", kinds, d.Stacks)
	}
}

// A function that has another name, and a caller more, are matched by the innermost line of the program.
func TestDiffRenamedCaller(t *testing.T) {
	rename := func(f trace.Frame) trace.Frame {
		if f.Func == "main" {
			f.Func = "run_training"
		}
		return f
	}
	d := compare(t, training("", 2, nil, nil), training("", 2, nil, rename))
	if len(d.Stacks) != 0 {
		t.Errorf("%+v", d.Stacks)
	}
}

// Settings that differ are named and blamed for what they do, to the byte.
func TestDiffSettings(t *testing.T) {
	sizes := func(r *tracetest.Recorder) {
		for i := range 40 {
			n := r.Alloc(int64(70+(i*37)%50)*testMiB, "/p/a.py:1 f")
			r.Free(n)
		}
	}
	a, b := tracetest.New("", -1), tracetest.New("max_split_size_mb:64", -1)
	sizes(a)
	sizes(b)
	d := compare(t, a.Trace(), b.Trace())
	if len(d.Stacks) != 0 || !d.Requests.Same {
		t.Errorf("stacks %+v, requests %+v", d.Stacks, d.Requests)
	}
	if len(d.Settings) != 1 || d.Settings[0] != (SettingDelta{"max_split_size_mb", "", "64"}) {
		t.Fatalf("%+v", d.Settings)
	}
	if d.Cause == nil || d.Cause.BySettings() != d.B.PeakReserved-d.A.PeakReserved || d.Cause.ByRequests() != 0 || d.Cause.BySettings() <= 0 {
		t.Errorf("%+v; recorded %d → %d", d.Cause, d.A.PeakReserved, d.B.PeakReserved)
	}
	if head := d.headline(); !strings.Contains(head, "max_split_size_mb:64 raised peak reserved from "+MiB(d.A.PeakReserved)+" to "+MiB(d.B.PeakReserved)) {
		t.Error(head)
	}
	back := compare(t, b.Trace(), a.Trace())
	if head := back.headline(); !strings.Contains(head, "dropping max_split_size_mb:64 lowered") {
		t.Error(head)
	}
}

// Where the peaks are in different steps, stacks are compared in the same one.
func TestDiffAlignsSteps(t *testing.T) {
	run := func(sizes ...int64) *trace.Trace {
		r := tracetest.New("", -1)
		for i, n := range sizes {
			r.Step(fmt.Sprintf("## step %d ##", i), func() {
				x := r.Alloc(n*testMiB, "/p/data.py:3 load < /p/t.py:9 main")
				y := r.Alloc(30*testMiB, "/p/net.py:7 forward < /p/t.py:9 main")
				r.Free(x, y)
			})
		}
		return r.Trace()
	}
	d := compare(t, run(50, 90, 40, 60, 20), run(50, 40, 40, 65, 20))
	if d.Step != 3 || len(d.Stacks) != 1 || d.Stacks[0].Delta() != 5*testMiB {
		t.Errorf("step %d: %+v", d.Step, d.Stacks)
	}
	if d.A.PeakRequested != 120*testMiB {
		t.Errorf("the whole run's peak became %d MiB", d.A.PeakRequested/testMiB)
	}
	if len(d.StepPeaks) != 5 || d.StepPeaks[1] != (StepPeak{1, 120 * testMiB, 70 * testMiB}) {
		t.Errorf("%+v", d.StepPeaks)
	}
}

func TestStepPairs(t *testing.T) {
	steps := func(names ...string) []simulate.Iteration {
		var out []simulate.Iteration
		for _, n := range names {
			out = append(out, simulate.Iteration{Name: n})
		}
		return out
	}
	for _, c := range []struct {
		a, b []simulate.Iteration
		want string
	}{
		{steps("", "", ""), steps("", "", "", ""), "[0 1 2 -1]"},
		{steps("s0", "s1", "s2"), steps("s1", "s2", "s3"), "[1 2 -1]"}, // a ring buffer has lost the first
		{steps("s", "s"), steps("s", "s"), "[0 1]"},
		{nil, steps("a"), "[-1]"},
	} {
		if got := fmt.Sprint(stepPairs(c.a, c.b)); got != c.want {
			t.Errorf("%v, %v: %s, want %s", c.a, c.b, got, c.want)
		}
	}
}

func TestDevicePairs(t *testing.T) {
	device := func(index ...int) *trace.Trace {
		tr := &trace.Trace{Stacks: trace.NewStacks()}
		for _, i := range index {
			d := trace.Device{Index: i}
			d.Events.Append(trace.Event{Op: trace.OpSnapshot, Block: trace.NoBlock})
			tr.Devices = append(tr.Devices, d)
		}
		return tr
	}
	for _, c := range []struct {
		a, b   *trace.Trace
		wanted int
		want   string
	}{
		{device(0), device(0), -1, "0-0"},
		{device(0), device(3), -1, "0-3"}, // two ranks
		{device(0, 1), device(1, 2), -1, "1-1"},
		{device(0, 1), device(0, 1), 1, "1-1"},
		{device(0, 1), device(2), -1, "the files have no device in common"},
		{device(), device(0), -1, "the first file does not show"},
		{device(0), device(0), 4, "the first file has no device 4; it has 0"},
	} {
		pairs, err := devicePairs(c.a, c.b, c.wanted)
		var got []string
		for _, p := range pairs {
			got = append(got, fmt.Sprintf("%d-%d", p[0].Index, p[1].Index))
		}
		if err != nil {
			got = []string{err.Error()}
		}
		if !strings.HasPrefix(strings.Join(got, " "), c.want) {
			t.Errorf("%v, want %s", got, c.want)
		}
	}
}

func TestPairFiles(t *testing.T) {
	got := pairFiles(
		[]string{"/a/pkg/x/__init__.py", "/a/pkg/y/__init__.py", "/a/train.py", "/b/util.py"},
		[]string{"/c/pkg/y/__init__.py", "/c/pkg/x/__init__.py", `D:\train.py`, "/b/util.py", "/c/new.py"})
	for b, a := range map[string]string{"/c/pkg/y/__init__.py": "/a/pkg/y/__init__.py", "/c/pkg/x/__init__.py": "/a/pkg/x/__init__.py",
		`D:\train.py`: "/a/train.py", "/b/util.py": "/b/util.py", "/c/new.py": ""} {
		if got[b] != a {
			t.Errorf("%s is taken for %q, not %q", b, got[b], a)
		}
	}
}

// The recordings of one workload under several settings: the requests are the same, so no stack changed, and
// what a setting does to reserved memory is what the real allocator did.
func TestDiffRecordings(t *testing.T) {
	corpus := recordtest.Corpus()
	if corpus == "" {
		t.Skip("the corpus is not here")
	}
	open := func(name string) *trace.Trace {
		tr, err := source.Open(filepath.Join(corpus, "torch", name+".pickle.zst"), source.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return tr
	}
	for _, c := range []struct {
		workload, setting string
		head              string
	}{
		{"gpt_varlen", "c1", "No stack changed; max_split_size_mb:64 raised peak reserved from 8,426 MiB to 29,330 MiB."},
		{"gpt_varlen", "c2", "No stack changed; expandable_segments:True lowered peak reserved from 8,426 MiB to "},
		{"dynamic_batch", "c1", "No stack changed"},
		{"dynamic_batch", "c2", "No stack changed"},
		{"dynamic_batch", "c3", "No stack changed"},
		{"resnet_train", "c1", "No stack changed"}, // the allocator's peak is at another moment
		{"resnet_train", "c2", "No stack changed"},
		{"resnet_train", "c3", "No stack changed"},
		{"raw_empty", "c3", "No stack changed"},
	} {
		d := compare(t, open(c.workload+".c0"), open(c.workload+"."+c.setting))
		if head := d.headline(); !strings.HasPrefix(head, c.head) {
			t.Errorf("%s.%s: %s", c.workload, c.setting, head)
		}
	}
}

// Text and Markdown of a comparison.
func TestDiffGolden(t *testing.T) {
	a := training("", 3, nil, nil)
	grown := training("", 3, larger("functional.py:3504", 10), nil)
	other := training("expandable_segments:True,roundup_power2_divisions:4", 3, larger("functional.py:3504", -20), nil)
	for _, c := range []struct {
		name     string
		b        *trace.Trace
		markdown bool
	}{{"same.txt", a, false}, {"grown.txt", grown, false}, {"grown.md", grown, true}, {"settings.txt", other, false}} {
		d, err := Compare("before.pickle", a, "after.pickle", c.b, DiffOptions{Device: -1})
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := d.WriteText(&out, Style{Markdown: c.markdown}); err != nil {
			t.Fatal(err)
		}
		golden(t, filepath.Join("testdata", "diff", c.name), out.Bytes())
		out.Reset()
		if err := d.WriteJSON(&out); err != nil {
			t.Fatal(err)
		}
		var j map[string]any
		if err := json.Unmarshal(out.Bytes(), &j); err != nil || j["schema"] != "vramscope/diff/v1" || j["totals"] == nil || j["stacks"] == nil {
			t.Errorf("%s: %v %s", c.name, err, out.Bytes())
		}
	}
}

// golden compares with a file that was read; UPDATE_GOLDEN=1 writes it.
func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, got) {
		t.Errorf("%s differs; got:\n%s", file, got)
	}
}
