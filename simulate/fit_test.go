package simulate_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/vramscope/vramscope/allocators/caching/config"
	"github.com/vramscope/vramscope/internal/recordtest"
	"github.com/vramscope/vramscope/simulate"
	"github.com/vramscope/vramscope/trace/source"
)

// followed is a recording with what was found out about it.
func followed(t testing.TB, file string, limit int64) (*simulate.Following, *simulate.Surroundings) {
	t.Helper()
	tr, err := source.Open(file, source.Options{})
	if err != nil {
		t.Fatal(err)
	}
	cfg, _ := simulate.SettingsOf(tr, config.DefaultVersion)
	f := simulate.Follow(&tr.Devices[0], cfg, simulate.FollowOptions{Limit: limit})
	return f, f.Alike()
}

func own(name string) string {
	return filepath.Join(recordtest.Testdata(), name+".pickle.zst")
}

func setting(t testing.TB, conf string) simulate.WhatIf {
	t.Helper()
	c, _, err := config.Parse(conf, config.DefaultVersion)
	if err != nil {
		t.Fatal(err)
	}
	return simulate.WhatIf{Config: c, Limit: -1}
}

// Under memory limits in steps, the real allocator ran out in one and finished in the next: the smallest
// limit that a fit finds lies between the two, under each setting.
func TestFitWithinMeasured(t *testing.T) {
	dir := recordtest.Corpus()
	files, _ := filepath.Glob(filepath.Join(dir, "capacity", "*.cap*.truth.json"))
	if dir == "" || len(files) == 0 {
		t.Skip("no measurements under limits here; VRAMSCOPE_CORPUS names the folder of the corpus")
	}
	type bracket struct{ fails, finishes float64 } // GiB
	measured := map[string]map[string]bracket{}    // by workload and setting
	for _, file := range files {
		var run struct {
			Conf string
			OOM  *string
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(data, &run); err != nil {
			t.Fatal(err)
		}
		workload, rest, _ := strings.Cut(filepath.Base(file), ".cap")
		rest = strings.TrimSuffix(rest, ".truth.json")
		limit, err := strconv.ParseFloat(rest[:strings.LastIndexByte(rest, '.')], 64)
		if err != nil {
			t.Fatal(err)
		}
		if measured[workload] == nil {
			measured[workload] = map[string]bracket{}
		}
		b := measured[workload][run.Conf]
		if run.OOM != nil {
			b.fails = max(b.fails, limit)
		} else if b.finishes == 0 || limit < b.finishes {
			b.finishes = limit
		}
		measured[workload][run.Conf] = b
	}
	for workload, settings := range measured {
		f, around := followed(t, filepath.Join(dir, "torch", workload+".c0.pickle.zst"), recordtest.Read(workload+".pickle").Limit)
		var asked []simulate.WhatIf
		var confs []string
		for conf := range settings {
			confs = append(confs, conf)
			asked = append(asked, setting(t, conf))
		}
		for i, fit := range f.Requests.Fits(around, asked, nil) {
			b := settings[confs[i]]
			least := float64(fit.Limit.Bytes) / (1 << 30)
			if least <= b.fails || b.finishes > 0 && least > b.finishes {
				t.Errorf("%s under %q: %.3f GiB; measured: runs out in %v, finishes in %v", workload, confs[i], least, b.fails, b.finishes)
			}
			t.Logf("%s under %q: limit %.3f GiB, measured (%v, %v]; memory %.3f", workload, confs[i], least, b.fails, b.finishes,
				float64(fit.Memory.Bytes)/(1<<30))
		}
	}
}

// What the real allocator reserved at most without a limit was enough for it, so no more is needed; and no
// allocator does with less than was live.
func TestFitBounds(t *testing.T) {
	for _, workload := range []string{"dynamic_batch", "graphs", "resnet_train"} {
		f, around := followed(t, own("torch/"+workload+".c0"), -1)
		live := f.Requests.PeakLive()
		truth := recordtest.Read(own("torch/" + workload + ".c0")).Truth[0]
		if live != truth["requested_bytes.all.peak"] {
			t.Errorf("%s: at most %d live, the real allocator counted %d", workload, live, truth["requested_bytes.all.peak"])
		}
		var asked []simulate.WhatIf
		var peaks []int64
		for _, r := range recordtest.Truths() {
			if r.Workload() == workload && r.Own {
				asked = append(asked, setting(t, r.Conf))
				peaks = append(peaks, r.Truth[0]["reserved_bytes.all.peak"])
			}
		}
		if len(asked) < 8 {
			t.Fatalf("%d measurements of %s", len(asked), workload)
		}
		for i, fit := range f.Requests.Fits(around, asked, nil) {
			conf := fit.Config.String()
			if fit.Memory.Bytes > peaks[i] || fit.Memory.Bytes < live {
				t.Errorf("%s under %q: fits in %d, but reserved %d at most, and %d were live", workload, conf, fit.Memory.Bytes, peaks[i], live)
			}
			checkLeast(t, workload+" under "+conf, &fit.Memory, func(bytes int64) bool {
				w := fit.WhatIf
				w.Memory = bytes
				return f.Requests.Once(around, w).Completed
			})
			checkLeast(t, workload+" limited under "+conf, fit.Limit, func(bytes int64) bool {
				w := fit.WhatIf
				w.Limit = bytes
				return f.Requests.Once(around, w).Completed
			})
		}
	}
}

// checkLeast replays at the ends of what a fit says.
func checkLeast(t *testing.T, what string, l *simulate.Least, finishes func(int64) bool) {
	t.Helper()
	if !finishes(l.Bytes) || finishes(l.Bytes-simulate.FitStep) {
		t.Errorf("%s: %d is not the least, with its neighbour failing", what, l.Bytes)
	}
	if l.Low > l.Bytes || l.High < l.Bytes || l.Safe < l.Bytes || l.Monotone() != (l.Safe == l.Bytes) {
		t.Errorf("%s: %+v", what, l)
	}
	for _, f := range l.Fails {
		if finishes(f.From) || finishes(f.To) || !finishes(f.To+simulate.FitStep) {
			t.Errorf("%s: it is said to fail in %+v", what, f)
		}
	}
}

// Where every size is said to be settled, a replay of each one agrees: also where more memory is less.
func TestFitEverySize(t *testing.T) {
	f, around := followed(t, own("torch/dynamic_batch.c0"), -1)
	settled, broken := 0, 0
	for _, conf := range []string{"", "roundup_power2_divisions:4", "max_split_size_mb:64", "expandable_segments:True"} {
		fit := f.Requests.Fits(around, []simulate.WhatIf{setting(t, conf)}, nil)[0]
		if !fit.Memory.Every {
			continue
		}
		settled++
		fails := map[int64]bool{}
		for _, s := range fit.Memory.Fails {
			for b := s.From; b <= s.To; b += simulate.FitStep {
				fails[b] = true
				broken++
			}
		}
		first := (f.Requests.PeakLive() + simulate.FitStep - 1) / simulate.FitStep * simulate.FitStep
		for b := first; b <= fit.Unlimited.Stats.Reserved.Peak; b += simulate.FitStep {
			w := fit.WhatIf
			w.Memory = b
			run := f.Requests.Once(around, w)
			if want := b >= fit.Memory.Bytes && !fails[b]; run.Completed != want {
				t.Errorf("%q in %d: finishes %v, the fit says %v", conf, b, run.Completed, want)
			}
			// A limit of the process is the same to this allocator.
			w.Memory, w.Limit = 0, b
			if limited := f.Requests.Once(around, w); limited.Completed != run.Completed || limited.Stats != run.Stats {
				t.Errorf("%q: limited to %d it goes otherwise than in a device with so much", conf, b)
			}
		}
	}
	if settled < 2 || broken == 0 {
		t.Errorf("%d settings settled, %d sizes that fail above the least: this does not test what it should", settled, broken)
	}
}

// A recording that ends where it ran out is a beginning; one that goes on is not.
func TestFitPrefix(t *testing.T) {
	for file, want := range map[string]bool{"gpt_oom": true, "torch/dynamic_batch.c0": false, "torch/seed_example.c0": false} {
		f, around := followed(t, own(file), recordtest.Read(own(file)).Limit)
		if got := f.Requests.Prefix(); got != want {
			t.Errorf("%s ends where it ran out: %v", file, got)
		}
		if !want {
			continue
		}
		// It ran out, so what it had was not enough.
		fit := f.Requests.Fits(around, []simulate.WhatIf{{Config: f.Config, Limit: -1}}, nil)[0]
		if limit := recordtest.Read(own(file)).Limit; fit.Limit.Bytes <= limit {
			t.Errorf("%s fits in %d, and ran out in %d", file, fit.Limit.Bytes, limit)
		}
	}
}

// Every allocator finds room, or says that it does not, and none needs less than was live.
func TestFitAllocators(t *testing.T) {
	f, around := followed(t, own("torch/dynamic_batch.c0"), -1)
	var asked []simulate.WhatIf
	for _, m := range simulate.Models() {
		asked = append(asked, simulate.WhatIf{Model: m.Name, Config: f.Config, Limit: -1})
	}
	for _, fit := range f.Requests.Fits(around, asked, nil) {
		if fit.Memory.Bytes == 0 {
			continue
		}
		if fit.Memory.Bytes < f.Requests.PeakLive() {
			t.Errorf("%s needs %d, and %d were live", fit.Model, fit.Memory.Bytes, f.Requests.PeakLive())
		}
		checkLeast(t, fit.Model, &fit.Memory, func(bytes int64) bool {
			w := fit.WhatIf
			w.Memory = bytes
			return f.Requests.Once(around, w).Completed
		})
	}
}

// ignoreTime leaves out what differs from run to run.
var ignoreTime = cmpopts.IgnoreFields(simulate.Run{}, "Elapsed")

// onCores runs something with so many cores.
func onCores[T any](n int, do func() T) T {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(n))
	return do()
}

func TestFitSameOnAnyCores(t *testing.T) {
	f, around := followed(t, own("torch/resnet_train.c0"), -1)
	asked := []simulate.WhatIf{setting(t, ""), setting(t, "expandable_segments:True"), setting(t, "max_split_size_mb:64")}
	do := func() []simulate.Fit { return f.Requests.Fits(around, asked, nil) }
	if d := cmp.Diff(onCores(1, do), onCores(4, do), ignoreTime); d != "" {
		t.Error(d)
	}
}

// Progress only ever moves on, and ends where it said that it would.
func TestFitProgress(t *testing.T) {
	f, around := followed(t, own("torch/graphs.c0"), -1)
	done, total := 0, 0
	f.Requests.Fits(around, []simulate.WhatIf{setting(t, "")}, func(d, n int) {
		if d < done || n < total || d > n {
			t.Errorf("%d of %d after %d of %d", d, n, done, total)
		}
		done, total = d, n
	})
	if done != total || done == 0 {
		t.Errorf("ended at %d of %d", done, total)
	}
}
