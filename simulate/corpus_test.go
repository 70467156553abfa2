package simulate_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/allocators/caching"
	"github.com/vramscope/vramscope/allocators/caching/config"
	"github.com/vramscope/vramscope/simulate"
	"github.com/vramscope/vramscope/trace/source"
)

// corpus lists the snapshots of all recordings that are here, or skips. VRAMSCOPE_CORPUS names folders,
// separated like a PATH.
func corpus(t *testing.T) []string {
	t.Helper()
	dirs := filepath.SplitList(os.Getenv("VRAMSCOPE_CORPUS"))
	if len(dirs) == 0 {
		dirs = []string{filepath.Join("..", "..", "shared", "data")}
	}
	var files []string
	for _, d := range dirs {
		for _, sub := range []string{"torch", "golden"} {
			found, _ := filepath.Glob(filepath.Join(d, sub, "*.pickle*"))
			files = append(files, found...)
		}
	}
	if len(files) == 0 {
		t.Skip("no recordings here; VRAMSCOPE_CORPUS names their folder")
	}
	return files
}

// limits are the memory fractions under which recordings were made, in MiB: no file has them.
var limits = map[string]int64{
	"gpt_varlen_capped": 12288, "seed_example": 1280, "frag_oom": 4096, "raw_capped": 8192,
	"gc": 2048, "frac": 2048, "gc_exp": 2048, "gc_streams": 2048, "small_limit": 110, "use_on_oom": 512,
	"oom": 1024, "oom_exp": 1024, "pending_flush": 1024, "midrun_free_capped": 3072,
}

func name(file string) string {
	return strings.SplitN(filepath.Base(file), ".pickle", 2)[0]
}

func readTruth(t *testing.T, file string) []map[string]any {
	data, err := os.ReadFile(filepath.Join(filepath.Dir(file), name(file)+".truth.json"))
	if err != nil {
		return nil
	}
	var many []map[string]any
	if json.Unmarshal(data, &many) == nil {
		return many
	}
	var one struct{ Stats map[string]any }
	if err := json.Unmarshal(data, &one); err != nil {
		t.Fatal(err)
	}
	return []map[string]any{one.Stats}
}

func TestFollowCorpus(t *testing.T) {
	for _, file := range corpus(t) {
		for _, known := range []bool{true, false} {
			limit, has := limits[strings.SplitN(name(file), ".", 2)[0]]
			if !has && !known {
				continue
			}
			label := name(file)
			if !known {
				label += "/without limit"
			}
			t.Run(label, func(t *testing.T) {
				tr, err := source.Open(file, source.Options{})
				if err != nil {
					t.Fatal(err)
				}
				cfg, _ := simulate.SettingsOf(tr, config.DefaultVersion)
				opt := simulate.FollowOptions{Limit: -1}
				if has && known {
					opt.Limit = limit << 20
				}
				facts := readTruth(t, file)
				for i := range tr.Devices {
					f := simulate.Follow(&tr.Devices[i], cfg, opt)
					s := f.Score
					if !s.Exact() || s.Placements.Checked != s.Placements.Matched || s.Segments.Checked != s.Segments.Matched || s.OOMs.Checked != s.OOMs.Matched {
						t.Errorf("device %d: %+v, first %+v", i, s, s.First)
					}
					stats := f.Model.Stats()
					if f.End.Allocated != stats.Allocated.Current || f.End.Reserved != stats.Reserved.Current ||
						f.PeakAllocated != stats.Allocated.Peak || f.PeakReserved != stats.Reserved.Peak {
						t.Errorf("counted %+v, peaks %d and %d; the model has %+v", f.End, f.PeakAllocated, f.PeakReserved, stats)
					}
					if len(s.Assumed) > 0 {
						t.Log(s.Assumed)
					}
					if facts != nil && tr.Devices[i].Index < len(facts) {
						compareStats(t, facts[tr.Devices[i].Index], f, known, filepath.Base(filepath.Dir(file)) == "golden")
					}
				}
			})
		}
	}
}

func compareStats(t *testing.T, facts map[string]any, f *simulate.Following, known, golden bool) {
	d := f.Model.Detail()
	get := func(k string) (int64, bool) {
		v, ok := facts[k].(float64)
		return int64(v), ok
	}
	before := map[string]int64{}
	if golden {
		before = prelude(d.Segment[caching.All].Allocated > 0)
	}
	check := func(k string, got int64) {
		got += before[k]
		if want, ok := get(k); ok && want != got {
			t.Errorf("%s: %d, the real allocator counted %d", k, got, want)
		}
	}
	metrics := map[string]caching.Metric{
		"allocation": d.Allocation, "segment": d.Segment, "active": d.Active, "inactive_split": d.InactiveSplit,
		"allocated_bytes": d.AllocatedBytes, "reserved_bytes": d.ReservedBytes, "active_bytes": d.ActiveBytes,
		"inactive_split_bytes": d.InactiveSplitBytes, "requested_bytes": d.RequestedBytes,
	}
	for name, m := range metrics {
		for k, kind := range []string{"all", "small_pool", "large_pool"} {
			c := m[k]
			key := name + "." + kind + "."
			check(key+"current", c.Current)
			if f.Truncated {
				continue
			}
			check(key+"peak", c.Peak)
			check(key+"allocated", c.Allocated)
			check(key+"freed", c.Freed)
		}
	}
	if !f.Truncated {
		check("num_ooms", d.NumOOMs)
		if f.Score.Retries {
			check("num_alloc_retries", d.NumAllocRetries)
			// A call of empty_cache that finds nothing leaves no trace, so this is a lower bound.
			if want, ok := get("num_sync_all_streams"); ok && d.NumSyncAllStreams+before["num_sync_all_streams"] > want {
				t.Errorf("num_sync_all_streams: %d, the real allocator counted %d", d.NumSyncAllStreams, want)
			}
		}
		check("num_device_alloc", d.NumDeviceAlloc)
		check("num_device_free", d.NumDeviceFree)
	}
}

// prelude is what the golden programs did before recording: one float allocated, freed, empty_cache.
func prelude(classic bool) map[string]int64 {
	m := map[string]int64{"num_device_alloc": 1, "num_device_free": 1, "num_sync_all_streams": 1}
	sizes := map[string]int64{"allocation": 1, "active": 1, "allocated_bytes": 512, "active_bytes": 512, "reserved_bytes": 2 << 20, "requested_bytes": 4}
	if classic {
		sizes["segment"], sizes["inactive_split"], sizes["inactive_split_bytes"] = 1, 1, 2<<20-512
	}
	for k, n := range sizes {
		for _, pool := range []string{"all", "small_pool"} {
			m[k+"."+pool+".allocated"], m[k+"."+pool+".freed"] = n, n
		}
	}
	return m
}
