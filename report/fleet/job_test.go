package fleet_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vramscope/vramscope/internal/fleettest"
	"github.com/vramscope/vramscope/internal/recordtest"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/report/fleet"
	summaries "github.com/vramscope/vramscope/simulate/fleet"
	"github.com/vramscope/vramscope/trace"
	"github.com/vramscope/vramscope/trace/source"
)

var ranks = flag.Int("ranks", 60, "how many ranks the job of the tests has")

// job is the recordings that the tests look at: made once.
type job struct {
	dir       string
	truth     *fleettest.Truth
	inputs    []fleet.Input
	far, leak int
	ranOut    int
	stages    int
}

func opened(file string) (*trace.Trace, error) { return source.Open(file, source.Options{}) }

func options() fleet.Options { return fleet.Options{Limit: -1, Open: opened} }

func makeJob(t *testing.T) *job {
	t.Helper()
	j := &job{dir: t.TempDir(), far: *ranks * 2 / 5, leak: *ranks / 3, ranOut: *ranks / 7, stages: 4}
	var err error
	j.truth, err = fleettest.Make(j.dir, filepath.Join(recordtest.Testdata(), "torch", "dynamic_batch.c0.pickle.zst"), fleettest.Job{Ranks: *ranks, Seed: 7,
		Stages: j.stages, Far: j.far, Leak: j.leak, OOM: j.ranOut, Broken: 13})
	if err != nil {
		t.Fatal(err)
	}
	if j.inputs, err = fleet.Expand([]string{j.dir}, nil); err != nil {
		t.Fatal(err)
	}
	return j
}

func quietly(string) func(done, total int) { return func(int, int) {} }

func run(t *testing.T, p fleet.Pool, inputs []fleet.Input, tune bool) *summaries.Summary {
	t.Helper()
	if p.Kept.Get == nil {
		p.Kept = fleet.Nothing()
	}
	s, err := p.All(inputs, options(), tune, quietly)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func asJSON(t *testing.T, s *summaries.Summary) string {
	t.Helper()
	var b bytes.Buffer
	if err := fleet.Of(s).WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestJob holds what is said of a job against how it was made.
func TestJob(t *testing.T) {
	j := makeJob(t)
	s := run(t, fleet.Pool{Workers: 2}, j.inputs, true)
	f := fleet.Of(s)
	if f.Traces != *ranks || len(f.Members) != *ranks-len(j.truth.Broken) {
		t.Errorf("%d recordings, %d devices; made were %d, %d of them broken", f.Traces, len(f.Members), *ranks, len(j.truth.Broken))
	}

	// Every rank's peaks, and the worst.
	worst := 0
	for _, m := range f.Members {
		if m.File != j.truth.Files[m.Rank] || m.Facts.PeakAllocated != j.truth.PeakAllocated[m.Rank] || m.Facts.PeakReserved != j.truth.PeakReserved[m.Rank] {
			t.Errorf("%s, %s: %d allocated, %d reserved, meant are %d and %d", m.Label(), m.File, m.Facts.PeakAllocated, m.Facts.PeakReserved,
				j.truth.PeakAllocated[m.Rank], j.truth.PeakReserved[m.Rank])
		}
		if j.truth.PeakReserved[m.Rank] > j.truth.PeakReserved[worst] {
			worst = m.Rank
		}
	}
	if worst != j.far {
		t.Errorf("the rank made to be worst is %d, and %d is", j.far, worst)
	}
	for i, want := range [][]int64{j.truth.PeakAllocated, j.truth.PeakReserved} {
		sp := &f.Spreads[i]
		var total int64
		for _, n := range want {
			total += n
		}
		if sp.Worst.Rank != j.far || sp.Max != slices.Max(want) || sp.Total != total {
			t.Errorf("%s: %d on rank %d, %d in all; meant are %d on rank %d, %d in all", sp.Title, sp.Max, sp.Worst.Rank, sp.Total, slices.Max(want), j.far, total)
		}
	}

	// Stages are compared with themselves, so only those that were made to be odd are.
	odd := map[int]bool{}
	for _, o := range f.Outliers {
		if o.Name != "unused" {
			odd[o.Member.Rank] = true
		}
		if o.Member.Rank == j.leak && o.Name == "peak_allocated" && (o.Stack == "" || f.Stacks[o.Stack][0].Func != "remember") {
			t.Errorf("rank %d is odd for %v", j.leak, f.Stacks[o.Stack])
		}
	}
	for rank := range odd {
		if rank != j.far && rank != j.leak && rank != j.ranOut {
			t.Errorf("rank %d is said to be odd", rank)
		}
	}
	if !odd[j.far] || !odd[j.leak] {
		t.Errorf("odd are said to be %v, made were %d and %d", odd, j.far, j.leak)
	}
	if len(f.Positions) != j.stages || f.Positions[3].Spreads[0].Median <= f.Positions[0].Spreads[0].Median {
		t.Errorf("stages: %+v", f.Positions)
	}

	// The leak.
	if len(f.Growth) != 1 || len(f.Growth[0].Members) != 1 || f.Growth[0].Members[0].Rank != j.leak {
		t.Fatalf("growth: %+v", f.Growth)
	}
	inner := f.Stacks[f.Growth[0].Stack][0]
	if got := inner.File + ":17 " + inner.Func; got != fleettest.LeakStack || f.Growth[0].PerStep[0] != 3<<20+512 || f.Growth[0].Spread(f.Looked) != "one" {
		t.Errorf("the leak is %s, %d bytes a step, on %s", got, f.Growth[0].PerStep[0], f.Growth[0].Spread(f.Looked))
	}

	// Who ran out, and what was different.
	if len(f.RanOut) != 1 || f.RanOut[0].Member.Rank != j.ranOut || len(f.RanOut[0].Different) == 0 {
		t.Errorf("ran out: %+v", f.RanOut)
	}

	// Every file that cannot be read is listed with one line of error.
	var failed []string
	for _, x := range f.Failed {
		failed = append(failed, x.File)
		if x.Error == "" || strings.ContainsRune(x.Error, '\n') {
			t.Errorf("%s: %q", x.File, x.Error)
		}
	}
	if !slices.Equal(failed, slices.Sorted(slices.Values(j.truth.Broken))) {
		t.Errorf("failed are said to be %v, broken are %v", failed, j.truth.Broken)
	}

	// One setting for all, replayed on every rank.
	u := f.Tuning
	if u == nil || u.Recommended == nil {
		t.Fatalf("tuning: %+v", u)
	}
	if c := u.Recommended; c.Devices != len(f.Members) || c.Broken != 0 || u.Saves(c) <= 0 || !slices.ContainsFunc(u.Searched, func(x fleet.Searched) bool { return x.File == j.truth.Files[j.far] }) {
		t.Errorf("recommended %+v, searched on %+v", c, u.Searched)
	}
	alone(t, j, u)

	// The same from another number of workers, another order, in shards, and with bounded memory.
	want := asJSON(t, s)
	shuffled := slices.Clone(j.inputs)
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(shuffled), func(a, b int) { shuffled[a], shuffled[b] = shuffled[b], shuffled[a] })
	if asJSON(t, run(t, fleet.Pool{Workers: 5, InFlight: 1}, shuffled, true)) != want {
		t.Error("the result depends on the order of the files or the number of workers")
	}
	p := fleet.Pool{Workers: 1, Kept: fleet.Nothing()}
	sharded := func(tasks []fleet.Task, n int) *summaries.Summary {
		var parts []*summaries.Summary
		for i := range n {
			part, err := p.Run(fleet.Share(tasks, i, n), j.inputs, options())
			if err != nil {
				t.Fatal(err)
			}
			parts = append(parts, part)
		}
		slices.Reverse(parts)
		return summaries.Merge(append(parts, parts[0])...)
	}
	all := sharded(fleet.Tasks(j.inputs), 7)
	for tasks := fleet.Next(all); len(tasks) > 0; tasks = fleet.Next(all) {
		all = summaries.Merge(all, sharded(tasks, 3))
	}
	if asJSON(t, all) != want {
		t.Error("the result depends on how the work is spread")
	}
}

// alone holds the verification of a setting against a replay of single recordings.
func alone(t *testing.T, j *job, u *fleet.Tuning) {
	t.Helper()
	var most int64
	for _, rank := range []int{j.far, j.leak, 0} {
		tr, err := opened(j.truth.Files[rank])
		if err != nil {
			t.Fatal(err)
		}
		r := report.TuneSettings("", tr, &tr.Devices[0], report.TuneOptions{Limit: -1, RecordedLimit: -1, Settings: 64, Top: 12})
		for i := range r.Candidates {
			if r.Candidates[i].Conf == u.Recommended.Conf {
				most = max(most, r.Candidates[i].Stats.Reserved.Peak)
			}
		}
	}
	if most != 0 && most != u.Recommended.Peak {
		t.Errorf("%s: no rank is said to reserve more than %d, and one alone reserves %d", u.Recommended.Conf, u.Recommended.Peak, most)
	}
}

// TestGoesOn: work that was ended goes on where it was, whenever that was, and comes to the same.
func TestGoesOn(t *testing.T) {
	j := makeJob(t)
	j.inputs = j.inputs[:30]
	want := asJSON(t, run(t, fleet.Pool{Workers: 2}, j.inputs, true))
	var mu sync.Mutex
	kept := map[string][]byte{}
	opens := map[string]int{}
	o := options()
	o.Open = func(file string) (*trace.Trace, error) {
		mu.Lock()
		opens[file]++
		mu.Unlock()
		return opened(file)
	}
	left := 0
	store := fleet.Kept{
		Get: func(key string) []byte { mu.Lock(); defer mu.Unlock(); return kept[key] },
		Put: func(key string, value []byte) error {
			mu.Lock()
			defer mu.Unlock()
			if left--; left < 0 {
				return os.ErrClosed // the process ends here
			}
			kept[key] = value
			return nil
		},
	}
	var s *summaries.Summary
	for tries := 0; s == nil; tries++ {
		if tries > 30 {
			t.Fatal("it does not get on")
		}
		left = 7
		s, _ = fleet.Pool{Workers: 2, Kept: store}.All(j.inputs, o, true, quietly)
	}
	if asJSON(t, s) != want {
		t.Error("it comes to something else")
	}
	opens = map[string]int{}
	left = 1000
	if again, err := (fleet.Pool{Workers: 2, Kept: store}).All(j.inputs, o, true, quietly); err != nil || asJSON(t, again) != want || len(opens) > 0 {
		t.Errorf("of what is known already %d files were opened again: %v", len(opens), err)
	}
	// A file that changed is read again, and only that.
	j.inputs[3].Stamp++
	if _, err := (fleet.Pool{Workers: 2, Kept: store}).All(j.inputs, o, false, quietly); err != nil || len(opens) != 1 || opens[j.inputs[3].File] != 1 {
		t.Errorf("opened again: %v, %v", opens, err)
	}
	// Under other options nothing that is known counts.
	o.Memory = 8 << 30
	opens = map[string]int{}
	if _, err := (fleet.Pool{Workers: 2, Kept: store}).All(j.inputs, o, false, quietly); err != nil || len(opens) != len(j.inputs) {
		t.Errorf("%d files were read again under other options: %v", len(opens), err)
	}
	clear(opens)
	o.Build = "another"
	if _, err := (fleet.Pool{Workers: 2, Kept: store}).All(j.inputs, o, false, quietly); err != nil || len(opens) != len(j.inputs) {
		t.Errorf("by another build %d of %d files were opened (%v)", len(opens), len(j.inputs), err)
	}
}

// TestOneFails: a recording that makes the program itself fail is one row.
func TestOneFails(t *testing.T) {
	j := makeJob(t)
	o := options()
	o.Open = func(file string) (*trace.Trace, error) {
		if file == j.inputs[2].File {
			panic("a mistake")
		}
		return opened(file)
	}
	s, err := fleet.Pool{Workers: 2, Kept: fleet.Nothing()}.All(j.inputs[:6], o, false, quietly)
	if err != nil || len(s.Devices) != 5 || len(s.Failed) != 1 || !strings.Contains(s.Failed[0].Error, "the program failed on this file") {
		t.Errorf("%+v, %v", s.Failed, err)
	}
	// One that is gone when it is looked at again is lost, and the rest goes on.
	o.Open = func(file string) (*trace.Trace, error) {
		if file == j.inputs[1].File {
			return nil, os.ErrNotExist
		}
		return opened(file)
	}
	whole := run(t, fleet.Pool{Workers: 2}, j.inputs[:6], false)
	s, err = fleet.Pool{Workers: 2, Kept: fleet.Nothing()}.Tune(whole, j.inputs[:6], o, true, quietly)
	if err != nil {
		t.Fatal(err)
	}
	if f := fleet.Of(s); f.Tuning == nil || f.Tuning.Lost != 1 || len(f.Members) != 6 {
		t.Errorf("%+v", f.Tuning)
	}
}

// TestCostIsFlat: a recording among many takes no more than among few. The bound is wide, since machines are noisy.
func TestCostIsFlat(t *testing.T) {
	if testing.Short() {
		t.Skip("slow, skipped under -short")
	}
	j := makeJob(t)
	few, many := j.inputs[:8], j.inputs
	timed := func(inputs []fleet.Input) time.Duration {
		best := time.Hour
		for range 3 {
			begin := time.Now()
			fleet.Of(run(t, fleet.Pool{Workers: runtime.GOMAXPROCS(0)}, inputs, false))
			best = min(best, time.Since(begin)/time.Duration(len(inputs)))
		}
		return best
	}
	a, b := timed(few), timed(many)
	if b > 4*a {
		t.Errorf("%v a recording among %d, %v among %d", a, len(few), b, len(many))
	}
}

// TestSchema checks the fields that scripts rely on, and that what is not known is null.
func TestSchema(t *testing.T) {
	j := makeJob(t)
	smi := filepath.Join(recordtest.Testdata(), "inputs", "smi.csv")
	inputs := append(slices.Clone(j.inputs[:15]), fleet.Input{File: smi})
	var doc map[string]any
	if err := json.Unmarshal([]byte(asJSON(t, run(t, fleet.Pool{Workers: 2}, inputs, true))), &doc); err != nil {
		t.Fatal(err)
	}
	if doc["schema"] != "vramscope/fleet/v1" || doc["traces"] != 16.0 {
		t.Errorf("%v, %v", doc["schema"], doc["traces"])
	}
	for _, field := range []string{"failed", "devices", "worst", "imbalance", "tune"} {
		if doc[field] == nil {
			t.Errorf("%s is missing", field)
		}
	}
	seen := 0
	for _, d := range doc["devices"].([]any) {
		d := d.(map[string]any)
		for _, field := range []string{"file", "rank", "device", "peak_allocated_bytes", "peak_reserved_bytes", "ooms"} {
			if _, ok := d[field]; !ok {
				t.Errorf("%s is missing of %v", field, d["file"])
			}
		}
		if d["file"] == smi {
			seen++
			if d["peak_allocated_bytes"] != nil || d["rank"] != nil || d["conf"] != nil {
				t.Errorf("of an NVML log: %v", d)
			}
		}
	}
	if seen == 0 {
		t.Error("the NVML log has no row")
	}
}
