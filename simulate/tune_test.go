package simulate_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/vramscope/vramscope/allocators/caching/config"
	"github.com/vramscope/vramscope/internal/recordtest"
	"github.com/vramscope/vramscope/simulate"
	"github.com/vramscope/vramscope/trace"
)

const peakKey = "reserved_bytes.all.peak"

// tune searches in a recording of the repository, in the memory that it ran in.
func tune(t testing.TB, file string, limit int64) (*simulate.Following, *simulate.Tuning) {
	t.Helper()
	f, around := followed(t, file, limit)
	return f, f.Requests.Tune(around, f.Config, options(f.Room()))
}

func options(room simulate.Room) simulate.TuneOptions {
	return simulate.TuneOptions{Room: room, Settings: 64, Top: 8, Version: config.DefaultVersion}
}

// measuredPeaks are the peaks reserved of the real allocator under each setting, by its text.
func measuredPeaks(workload string) map[string]int64 {
	out := map[string]int64{}
	for _, r := range recordtest.Truths() {
		if r.Workload() == workload && len(r.Truth) > 0 && len(r.Setting()) == 2 {
			out[r.Conf] = r.Truth[0][peakKey]
		}
	}
	return out
}

// The setting that is recommended saved as much when it was measured, and so did the others of the ranking
// that were.
func TestTuneAgainstMeasured(t *testing.T) {
	compared := 0
	for _, workload := range []string{"dynamic_batch", "resnet_train"} {
		_, tuning := tune(t, own("torch/"+workload+".c0"), -1)
		truth := measuredPeaks(workload)
		if got := tuning.Baseline.Stats.Reserved.Peak; got != truth[""] {
			t.Errorf("%s: %d reserved now, measured %d", workload, got, truth[""])
		}
		for _, c := range tuning.Candidates {
			if want, ok := truth[c.Conf]; ok {
				compared++
				if c.Stats.Reserved.Peak != want {
					t.Errorf("%s under %s: %d, measured %d", workload, c.Conf, c.Stats.Reserved.Peak, want)
				}
			}
		}
		r := tuning.Recommended
		if r == nil {
			t.Errorf("%s: nothing is recommended", workload)
			continue
		}
		if want, ok := truth[r.Candidate.Conf]; !ok || r.Saves != truth[""]-want {
			t.Errorf("%s: %s saves %d, measured %d", workload, r.Candidate.Conf, r.Saves, truth[""]-want)
		}
	}
	if compared < 2 {
		t.Errorf("only %d settings were measured", compared)
	}
}

// Under the limit of the recording the replay of its own settings is the recording, and what expandable
// segments would have done is what they did.
func TestTuneUnderLimit(t *testing.T) {
	dir := recordtest.Corpus()
	if dir == "" {
		t.Skip("no recording under a limit here; VRAMSCOPE_CORPUS names the folder of the corpus")
	}
	file := filepath.Join(dir, "torch", "gpt_varlen_capped.c0.pickle.zst")
	_, tuning := tune(t, file, recordtest.Read(file).Limit)
	truth := measuredPeaks("gpt_varlen_capped")
	if got := tuning.Baseline.Stats.Reserved.Peak; got != truth[""] {
		t.Errorf("%d reserved now, measured %d", got, truth[""])
	}
	const expandable = "expandable_segments:True"
	if r := tuning.Recommended; r == nil || r.Candidate.Conf != expandable || r.Saves != truth[""]-truth[expandable] {
		t.Errorf("recommended: %+v", r)
	}
	if !slices.ContainsFunc(tuning.Candidates, func(c simulate.Candidate) bool { return c.Config.GCThreshold > 0 }) {
		t.Error("with a limit garbage collection is worth a try")
	}
}

// In a long recording not everything is replayed under every guess, but what is recommended is.
func TestTuneLong(t *testing.T) {
	dir := recordtest.Corpus()
	if dir == "" || testing.Short() {
		t.Skip("no long recording here; VRAMSCOPE_CORPUS names the folder of the corpus")
	}
	_, tuning := tune(t, filepath.Join(dir, "torch", "gpt_long.c0.pickle.zst"), -1)
	base := &tuning.Baseline
	if want := measuredPeaks("gpt_long")[""]; base.Stats.Reserved.Peak != want {
		t.Errorf("%d reserved now, measured %d", base.Stats.Reserved.Peak, want)
	}
	few := 0
	for _, c := range tuning.Candidates {
		if c.Guesses > 1 && c.Guesses < base.Guesses {
			few++
		}
	}
	r := tuning.Recommended
	if few == 0 || r == nil || r.Candidate.Guesses != 1 && r.Candidate.Guesses < base.Guesses || r.Candidate.High >= base.Low {
		t.Errorf("%d ranges over few guesses, recommended %+v", few, r)
	}
}

// What holds for any search.
func TestTuneRanking(t *testing.T) {
	for _, name := range []string{"torch/dynamic_batch.c0", "torch/resnet_train.c0", "torch/graphs.c0", "torch/seed_example.c0",
		"gpt_oom", "golden/gc", "golden/maxsplit", "golden/expandable", "golden/roundup", "golden/lseg", "golden/driver_oom_exp", "golden/ring"} {
		t.Run(name, func(t *testing.T) {
			file := own(name)
			_, tuning := tune(t, file, recordtest.Read(file).Limit)
			base := &tuning.Baseline
			if tuning.Tried > 64 || len(tuning.Candidates) > 8 {
				t.Errorf("%d tried, %d shown", tuning.Tried, len(tuning.Candidates))
			}
			for i, c := range tuning.Candidates {
				parsed, _, err := config.Parse(c.Conf, config.DefaultVersion)
				if err != nil || parsed != c.Config {
					t.Errorf("%s: pasted, it is %+v, %v", c.Conf, parsed, err)
				}
				peak := c.Stats.Reserved.Peak
				if c.Low > peak || peak > c.High || c.Guesses < 1 || c.Finishing > c.Guesses {
					t.Errorf("%s: %d is not in %d..%d, or no range of %d guesses", c.Conf, peak, c.Low, c.High, c.Guesses)
				}
				if i == 0 {
					continue
				}
				b := tuning.Candidates[i-1]
				if c.Completed && (!b.Completed || b.Stats.Reserved.Peak > peak) {
					t.Errorf("%s is behind %s", c.Conf, b.Conf)
				}
			}
			if r := tuning.Recommended; r != nil {
				c := r.Candidate
				if !c.Completed || c.Finishing != c.Guesses {
					t.Errorf("recommended, and may run out of memory: %s", c.Conf)
				}
				if r.Rescues == base.Completed || base.Completed && (c.High >= base.Low || r.Saves*100 < base.Stats.Reserved.Peak) {
					t.Errorf("recommended, and saves no more than is uncertain: %s, %d..%d instead of %d..%d", c.Conf, c.Low, c.High, base.Low, base.High)
				}
			}
			if !tuning.Room.Own {
				for _, c := range tuning.Candidates {
					if c.Config.GCThreshold > 0 {
						t.Errorf("%s: without a limit it does nothing", c.Conf)
					}
				}
			}
		})
	}
}

// Settings that are not replayed because they are said to come to the same as others do so.
func TestTuneSkipped(t *testing.T) {
	all := 0
	for _, name := range []string{"torch/dynamic_batch.c0", "torch/graphs.c0", "golden/gc", "golden/maxsplit"} {
		f, around := followed(t, own(name), recordtest.Read(own(name)).Limit)
		tuning := f.Requests.Tune(around, f.Config, options(f.Room()))
		run := func(conf string) simulate.Run {
			w := setting(t, conf)
			w.Limit, w.Memory = tuning.Room.Limit, tuning.Room.Memory
			return f.Requests.Once(around, w)
		}
		for _, s := range tuning.Skipped {
			all++
			if d := cmp.Diff(run(s.Same), run(s.Conf), ignoreTime, cmpopts.EquateEmpty()); d != "" {
				t.Errorf("%s: %q is not the same as %q: %s", name, s.Conf, s.Same, d)
			}
		}
	}
	if all < 40 {
		t.Errorf("only %d settings were skipped", all)
	}
	_, tuning := tune(t, own("torch/dynamic_batch.c0"), -1)
	for _, want := range []string{"roundup_power2_divisions:1", "garbage_collection_threshold:0.8"} {
		if !slices.Contains(tuning.Skipped, simulate.Skipped{Conf: want, Same: ""}) {
			t.Errorf("%s does nothing here, and that is not said", want)
		}
	}
}

// The real allocator ran out of memory under expandable segments where it did not without: such a setting
// is ranked last, and never recommended.
func TestTuneRanksFailuresLast(t *testing.T) {
	file := own("torch/seed_example.c0")
	_, tuning := tune(t, file, recordtest.Read(file).Limit)
	if tuning.Recommended != nil {
		t.Errorf("recommended: %s", tuning.Recommended.Candidate.Conf)
	}
	last := tuning.Candidates[len(tuning.Candidates)-1]
	if last.Completed || !last.Config.Expandable {
		t.Errorf("last is %s, finishes %v", last.Conf, last.Completed)
	}
}

// Where the recording ran out of memory, what gets past that is recommended.
func TestTuneRescues(t *testing.T) {
	for _, limit := range []int64{-1, recordtest.Read(own("gpt_oom")).Limit} {
		_, tuning := tune(t, own("gpt_oom"), limit)
		r := tuning.Recommended
		if r == nil || !r.Rescues || !r.Candidate.Completed || tuning.Baseline.Completed {
			t.Errorf("limit %d: recommended %+v", limit, r)
		}
	}
}

// The memory that a recording ran in.
func TestRoom(t *testing.T) {
	peak := recordtest.Read(own("gpt_oom")).Truth[0][peakKey]
	for _, c := range []struct {
		file  string
		limit int64
		want  simulate.Room
	}{
		{"torch/dynamic_batch.c0", -1, simulate.Room{Limit: -1}},
		{"gpt_oom", 12 << 30, simulate.Room{Limit: 12 << 30, Own: true}},
		{"gpt_oom", -1, simulate.Room{Limit: peak, Own: true}},
		{"golden/driver_oom_exp", -1, simulate.Room{Limit: -1, Memory: recordtest.Memory}},
	} {
		f, _ := followed(t, own(c.file), c.limit)
		got := f.Room()
		if told := got.Told; (told == "") != (c.limit >= 0 || c.want == simulate.Room{Limit: -1}) {
			t.Errorf("%s: where it comes from is %q", c.file, told)
		}
		if got.Told = ""; got != c.want {
			t.Errorf("%s with limit %d: %+v, want %+v", c.file, c.limit, got, c.want)
		}
	}
}

func TestTuneSameOnAnyCores(t *testing.T) {
	for _, name := range []string{"torch/dynamic_batch.c0", "gpt_oom"} {
		f, around := followed(t, own(name), -1)
		do := func() *simulate.Tuning { return f.Requests.Tune(around, f.Config, options(f.Room())) }
		if d := cmp.Diff(onCores(1, do), onCores(4, do), ignoreTime, cmpopts.IgnoreUnexported(simulate.Candidate{})); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

// The budget is kept, and progress ends where it said that it would.
func TestTuneBudget(t *testing.T) {
	f, around := followed(t, own("torch/graphs.c0"), -1)
	for _, n := range []int{1, 3, 20} {
		o := options(f.Room())
		o.Settings, o.Top = n, 2
		done, total := 0, 0
		o.Progress = func(d, n int) { done, total = d, n }
		tuning := f.Requests.Tune(around, f.Config, o)
		if tuning.Tried > n || len(tuning.Candidates) > 2 || done != total {
			t.Errorf("%d allowed: %d tried, %d shown, progress %d of %d", n, tuning.Tried, len(tuning.Candidates), done, total)
		}
	}
}

// An old version is only given settings that it knows, and a recording with settings that the version lacks
// is of another.
func TestTuneVersions(t *testing.T) {
	f, around := followed(t, own("torch/dynamic_batch.c0"), -1)
	o := options(f.Room())
	o.Version = config.Version{Major: 2, Minor: 5}
	for _, c := range f.Requests.Tune(around, f.Config, o).Candidates {
		if strings.Contains(c.Conf, "large_segment_size_mb") {
			t.Errorf("%s came with 2.11", c.Conf)
		}
	}
	own := f.Config
	own.LargeSegmentSize, own.MaxNonSplitRounding = 64<<20, 64<<20
	if tuning := f.Requests.Tune(around, own, o); len(tuning.Candidates) == 0 {
		t.Error("nothing was tried")
	}
	for conf, want := range map[string]config.Version{
		"":                            {Major: 1, Minor: 10},
		"expandable_segments:True":    {Major: 2, Minor: 1},
		"large_segment_size_mb:32":    {Major: 2, Minor: 11},
		"roundup_power2_divisions:4":  {Major: 1, Minor: 12},
		"max_non_split_rounding_mb:4": {},
	} {
		if got := simulate.Since(conf); got != want {
			t.Errorf("%q is understood since %+v, want %+v", conf, got, want)
		}
	}
}

// A model is loaded in pairs of a buffer of 530 MiB that is freed at once and a weight of 270 MiB that
// stays. By default each weight takes the cached 530 MiB and strands 260; blocks that are kept whole above
// a size, and expandable segments, do not.
func TestTuneStrandedLoad(t *testing.T) {
	const buffer, weight, pairs = 530 << 20, 270 << 20, 12
	d := trace.Device{Streams: []uint64{0}, Pools: []trace.Pool{{}}, HasFinal: false, Content: trace.Requests}
	next := trace.BlockID(0)
	add := func(op trace.Op, b trace.BlockID, size int64) {
		d.Events.Append(trace.Event{Op: op, Block: b, Size: size, Addr: uint64(b+1) << 40, Pool: trace.PoolDefault})
	}
	for range pairs {
		add(trace.OpAlloc, next, buffer)
		add(trace.OpFree, next, buffer)
		add(trace.OpAlloc, next+1, weight)
		next += 2
	}
	d.NumBlocks = int(next)
	f := simulate.Follow(&d, config.Default(), simulate.FollowOptions{Limit: -1})
	tuning := f.Requests.Tune(f.Alike(), config.Default(), options(f.Room()))
	if want := int64(pairs * buffer); tuning.Baseline.Stats.Reserved.Peak != want {
		t.Errorf("%d reserved by default, want %d", tuning.Baseline.Stats.Reserved.Peak, want)
	}
	// The weights, and a buffer beside all but the last of them.
	least := int64(buffer + (pairs-1)*weight)
	for _, c := range tuning.Candidates {
		alone := c.Changed == 1 && (c.Config.Expandable || c.Config.MaxSplitSize != config.Unlimited)
		if peak := c.Stats.Reserved.Peak; alone && (peak < least || peak > least+buffer) {
			t.Errorf("%s: %d reserved, want about %d", c.Conf, peak, least)
		}
	}
	if r := tuning.Recommended; r == nil || r.Saves < (pairs-2)*260<<20 {
		t.Errorf("recommended: %+v", r)
	}
}

// The speed of a search: 64 settings, and the ranges of what comes of it.
func BenchmarkTune(b *testing.B) {
	tr := long(b)
	cfg, _ := simulate.SettingsOf(tr, config.DefaultVersion)
	f := simulate.Follow(&tr.Devices[0], cfg, simulate.FollowOptions{Limit: -1})
	around := f.Alike()
	for b.Loop() {
		f.Requests.Tune(around, f.Config, options(f.Room()))
	}
}
