package report_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vramscope/vramscope/internal/recordtest"
	"github.com/vramscope/vramscope/internal/tracetest"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/simulate"
	"github.com/vramscope/vramscope/trace"
	"github.com/vramscope/vramscope/trace/source"
)

const mib = tracetest.MiB

// growthOf is the part of the first screen about growth.
func growthOf(t *testing.T, tr *trace.Trace, o report.Options) string {
	t.Helper()
	var out bytes.Buffer
	o.Limit, o.Device = -1, -1
	if err := report.Analyze("test", tr, o).WriteText(&out, report.Style{}); err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(out.String(), "Growth: ")
	if !found {
		return ""
	}
	before, _, _ := strings.Cut(after, "At the end: ")
	return strings.TrimSpace(before)
}

// steps records a program that does the same in each step.
func steps(n int, do func(r *tracetest.Recorder, i int)) *trace.Trace {
	r := tracetest.New("", -1)
	for i := range n {
		r.Step(fmt.Sprintf("step %d", i), func() { do(r, i) })
	}
	return r.Trace()
}

func TestGrowthInWords(t *testing.T) {
	const (
		line  = "/home/user/train.py:31 log"
		other = "/home/user/train.py:40 train"
	)
	for _, c := range []struct {
		name string
		tr   *trace.Trace
		want string
	}{
		{"none", steps(12, func(r *tracetest.Recorder, i int) { r.Free(r.Alloc(5*mib, other)) }),
			"none over 11 steps after 1 of warm-up (0 ± 0 bytes a step; annotations: step #)."},
		{"a leak that stays", steps(12, func(r *tracetest.Recorder, i int) {
			r.Free(r.Alloc(5*mib, other))
			r.Alloc(3*mib, line)
			r.Alloc(3*mib, "/home/user/train.py:31 log < "+other)
		}), `6.0 MiB ± 0 bytes a step over 11 steps after 1 of warm-up (annotations: step #). Candidates for a leak, as far as this recording goes:
  bytes a step       blocks  confidence  at the end  where
       6.0 MiB     2 a step     >99.9 %    72.0 MiB  train.py:31 log`},
		{"a leak that is tidied up", func() *trace.Trace {
			r := tracetest.New("", -1)
			var kept []int
			for i := range 8 {
				r.Step(fmt.Sprintf("step %d", i), func() { kept = append(kept, r.Alloc(1<<20, line)) })
			}
			r.Free(kept...)
			return r.Trace()
		}(), `1.0 MiB ± 0 bytes a step over 7 steps after 1 of warm-up (annotations: step #). Candidates for a leak, as far as this recording goes:
  bytes a step       blocks  confidence  at the end  where
       1.0 MiB     1 a step      99.9 %     0 bytes  train.py:31 log
  All of it was freed before the recording ended.`},
		{"a working set", steps(12, func(r *tracetest.Recorder, i int) { r.Free(r.Alloc(int64(i+1)*mib, other)) }),
			`none over 11 steps after 1 of warm-up (0 ± 0 bytes a step; annotations: step #).
  Each step needs more at its peak than the one before, and gives it back: 1.0 MiB ± 0 bytes a step. That is a working set that grows, not a leak.`},
		{"a buffer", func() *trace.Trace {
			last := -1
			return steps(12, func(r *tracetest.Recorder, i int) {
				next := r.Alloc(int64(i+1)*mib, line)
				r.Free(last)
				last = next
			})
		}(), `1.0 MiB ± 0 bytes a step over 11 steps after 1 of warm-up (annotations: step #). Candidates for a leak, as far as this recording goes:
  bytes a step       blocks  confidence  at the end  where
       1.0 MiB    one grows     >99.9 %    12.0 MiB  train.py:31 log
  Each step needs more at its peak than the one before, and gives it back: 1.0 MiB ± 0 bytes a step. That is a working set that grows, not a leak.`},
		{"too few", steps(3, func(r *tracetest.Recorder, i int) { r.Alloc(mib, line) }), "not known, 3 steps are too few to tell (annotations: step #)."},
		{"no steps", func() *trace.Trace {
			r := tracetest.New("", -1)
			r.Alloc(mib, line)
			return r.Trace()
		}(), "not known, no steps were found: no annotations that name them, and no pattern in the events."},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, growthOf(t, c.tr, report.Options{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The cache grows where what is freed never serves what is asked for next: each step leaves one block of its own
// size in use for a while, and asks for more than any hole has.
func TestGrowthOfTheCacheInWords(t *testing.T) {
	var kept []int
	tr := steps(12, func(r *tracetest.Recorder, i int) {
		big := r.Alloc(int64(30+2*i)*mib, "/home/user/train.py:1 f") // a segment of its own, larger than all before
		kept = append(kept, r.Alloc(1<<10, "/home/user/train.py:2 g"))
		r.Free(big)
		if len(kept) > 1 {
			r.Free(kept[0])
			kept = kept[1:]
		}
	})
	got := growthOf(t, tr, report.Options{})
	if !strings.Contains(got, "none over") || !strings.Contains(got, "The allocator holds more and more beyond what was ever in use") {
		t.Errorf("got %q, want a cache that grows", got)
	}
}

// The recording that comes with the repository: five gradients are cloned in each step, the embedding's of
// 32,000 by 512 and four of 512 numbers, and all are freed at the end.
func TestLeakJSON(t *testing.T) {
	tr, err := source.Open(filepath.Join(recordtest.Testdata(), "torch", "gpt_leak_grads.c0.pickle.zst"), source.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := report.Analyze("x", tr, report.Options{Limit: -1, Device: -1}).WriteJSON(&out); err != nil {
		t.Fatal(err)
	}
	type leak struct {
		Stack        []string
		BytesPerStep int64 `json:"bytes_per_step"`
		Steps        int
		Confidence   float64
		BytesAtEnd   *int64 `json:"bytes_at_end"`
	}
	var doc struct {
		Devices []struct {
			Steps *struct {
				Count  int
				Source string
			}
			Leaks []leak
		}
	}
	if err := json.Unmarshal(out.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	d := doc.Devices[0]
	if d.Steps == nil || d.Steps.Count != 12 || d.Steps.Source != "annotations: ## step # ##" {
		t.Errorf("steps are %+v, want twelve", d.Steps)
	}
	if len(d.Leaks) != 1 {
		t.Fatalf("%d leaks, want one", len(d.Leaks))
	}
	l := d.Leaks[0]
	if l.BytesPerStep != 4*(32000*512+4*512) || l.Steps != 11 || l.Confidence < 0.99 || l.BytesAtEnd == nil || *l.BytesAtEnd != 0 ||
		!strings.HasSuffix(l.Stack[0], ":81 <lambda>") {
		t.Errorf("the leak is %+v", l)
	}
}

// What the recording cannot give is null, and not an empty list.
func TestLeakJSONWithoutSteps(t *testing.T) {
	r := tracetest.New("", -1)
	r.Alloc(mib, "")
	for _, c := range []struct {
		tr   *trace.Trace
		want string
	}{
		{r.Trace(), "null null null"},
		{steps(2, func(r *tracetest.Recorder, i int) { r.Alloc(mib, "") }), "{…} [] null"},
		{steps(9, func(r *tracetest.Recorder, i int) { r.Free(r.Alloc(mib, "")) }), "{…} [] {…}"},
	} {
		var out bytes.Buffer
		if err := report.Analyze("x", c.tr, report.Options{Limit: -1, Device: -1}).WriteJSON(&out); err != nil {
			t.Fatal(err)
		}
		var doc struct{ Devices []map[string]any }
		if err := json.Unmarshal(out.Bytes(), &doc); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, field := range []string{"steps", "leaks", "growth"} {
			switch v := doc.Devices[0][field].(type) {
			case nil:
				got = append(got, "null")
			case []any:
				got = append(got, fmt.Sprint(v))
			default:
				got = append(got, "{…}")
			}
		}
		if diff := cmp.Diff(c.want, strings.Join(got, " ")); diff != "" {
			t.Error(diff)
		}
	}
}

func TestCheckStep(t *testing.T) {
	tr := steps(2, func(r *tracetest.Recorder, i int) { r.Step("forward", func() { r.Alloc(mib, "") }) })
	bare := *tr
	bare.Markers = nil
	for _, c := range []struct {
		tr          *trace.Trace
		named, want string
	}{
		{tr, "^step", ""},
		{tr, "^epoch", "--step ^epoch: no annotation matches; there are (numbers as #) forward, step #"},
		{&bare, "step", "--step step: this recording has no annotations; without --step the events are searched for a pattern"},
	} {
		got := ""
		if err := report.CheckStep(c.tr, regexp.MustCompile(c.named)); err != nil {
			got = err.Error()
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Error(diff)
		}
	}
	if err := report.CheckStep(&bare, nil); err != nil {
		t.Error(err)
	}
}

func TestReplayEdited(t *testing.T) {
	tr := steps(6, func(r *tracetest.Recorder, i int) {
		r.Free(r.Alloc(int64(20+10*i)*mib, "/home/user/train.py:5 train"))
		r.Alloc(30*mib, "/home/user/train.py:9 log")
	})
	replay := func(texts ...string) *report.Replays {
		o := report.ReplayOptions{Limit: -1, RecordedLimit: -1}
		for _, text := range texts {
			e, err := simulate.ParseEdit(text)
			if err != nil {
				t.Fatal(err)
			}
			o.Edits = append(o.Edits, e)
		}
		r, err := report.Replay("test", tr, &tr.Devices[0], o)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	for _, c := range []struct {
		edits []string
		want  string
	}{
		{[]string{"without-leaks"}, `Edit without-leaks: 6 blocks are freed at the end of their step, 150 MiB of the 220 MiB at the recorded peak.
  It leaks 30.0 MiB a step: train.py:9 log.
Steps: 6 (annotations: step #).`},
		{[]string{"drop-stack=train.py:9 "}, "Edit drop-stack=train.py:9 : 6 blocks are never allocated, 150 MiB of the 220 MiB at the recorded peak."},
		{[]string{"prealloc=1GiB"}, "Edit prealloc=1GiB: one block of 1.00 GiB is taken at the start, and given back."},
		{[]string{"largest-first", "empty-cache"}, `Edit largest-first: step 5 has the highest peak; the 1 block that it takes and gives back go before the first step once more.
Edit empty-cache: 6 calls of empty_cache added.
Steps: 6 (annotations: step #).`},
	} {
		var out bytes.Buffer
		if err := replay(c.edits...).WriteText(&out, report.Style{}); err != nil {
			t.Fatal(err)
		}
		_, after, _ := strings.Cut(out.String(), "set one.\n")
		got, table, _ := strings.Cut(after, "\n\n")
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Error(diff)
		}
		if !strings.Contains(table, "without the edits") {
			t.Errorf("the table does not say what was without the edits: %s", table)
		}
	}
	// 30 MiB are kept in each of the six steps, and each next step asks for 10 MiB more than the one before.
	// Without the leak the last is all there is: 70 MiB and 30 of its own.
	r := replay("without-leaks")
	if got, want := r.Runs[0].Stats.Allocated.Peak, int64(70*mib); got != want {
		t.Errorf("peak allocated is %d, want %d", got, want)
	}
}

// A request that fails is shown where the recording has it, whatever was put before it.
func TestReplayEditedSaysWhereItFails(t *testing.T) {
	r := tracetest.New("", -1)
	a := r.Alloc(100*mib, "") // events 0 and 1: a segment, and the block
	r.Free(a)
	r.Alloc(200*mib, "") // events 4 and 5
	tr := r.Trace()
	e, err := simulate.ParseEdit("prealloc=10MiB")
	if err != nil {
		t.Fatal(err)
	}
	o := report.ReplayOptions{Memory: 150 * mib, Limit: -1, RecordedLimit: -1, EditOptions: report.EditOptions{Edits: []simulate.Edit{e}}}
	x, err := report.Replay("test", tr, &tr.Devices[0], o)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := x.WriteJSON(&out); err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Edits []struct{ Edit string }
		Runs  []struct {
			FirstOOM *struct{ Event int } `json:"first_oom"`
			Unedited *int64               `json:"unedited_peak_reserved_bytes"`
		}
	}
	if err := json.Unmarshal(out.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	if f := doc.Runs[0].FirstOOM; f == nil || f.Event != 5 {
		t.Errorf("fails at %+v, want event 5 of the recording", f)
	}
	if len(doc.Edits) != 1 || doc.Runs[0].Unedited == nil {
		t.Errorf("edits and what was without them are missing: %s", out.String())
	}
}
