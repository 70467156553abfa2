package simulate_test

import (
	"testing"

	"github.com/vramscope/vramscope/allocators/caching"
	"github.com/vramscope/vramscope/allocators/caching/config"
	"github.com/vramscope/vramscope/internal/recordtest"
	"github.com/vramscope/vramscope/simulate"
	"github.com/vramscope/vramscope/trace/source"
)

// Every recording that is here is reproduced: each placement, each segment event in its order, each failure,
// every final block, and what the real allocator counted.
func TestFollow(t *testing.T) {
	for _, r := range recordtest.Snapshots() {
		t.Run(r.Name, func(t *testing.T) { follow(t, r, r.Limit) })
		if r.Limit >= 0 {
			t.Run(r.Name+"/without limit", func(t *testing.T) { follow(t, r, -1) })
		}
	}
}

func follow(t *testing.T, r recordtest.Recording, limit int64) {
	tr, err := source.Open(r.File, source.Options{})
	if err != nil {
		t.Fatal(err)
	}
	cfg, _ := simulate.SettingsOf(tr, config.DefaultVersion)
	for i := range tr.Devices {
		d := &tr.Devices[i]
		f := simulate.Follow(d, cfg, simulate.FollowOptions{Limit: limit})
		s := f.Score
		for _, n := range []simulate.Tally{s.Placements, s.Segments, s.OOMs, s.Blocks} {
			if n.Checked != n.Matched || !s.Exact() {
				t.Errorf("device %d: %+v, first %+v", d.Index, s, s.First)
				break
			}
		}
		stats := f.Model.Stats()
		if f.End.Allocated != stats.Allocated.Current || f.End.Reserved != stats.Reserved.Current ||
			f.PeakAllocated != stats.Allocated.Peak || f.PeakReserved != stats.Reserved.Peak {
			t.Errorf("counted %+v, peaks %d and %d; the model has %+v", f.End, f.PeakAllocated, f.PeakReserved, stats)
		}
		if d.Index < len(r.Truth) {
			compareStats(t, r.Truth[d.Index], f, r.Late)
		}
	}
}

func compareStats(t *testing.T, truth map[string]int64, f *simulate.Following, late bool) {
	d := f.Model.Detail()
	before := map[string]int64{}
	if late {
		before = prelude(d.Segment[caching.All].Allocated > 0)
	}
	check := func(k string, got int64) {
		if want, ok := truth[k]; ok && want != got+before[k] {
			t.Errorf("%s: %d, the real allocator counted %d", k, got+before[k], want)
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
	if f.Truncated {
		return
	}
	check("num_ooms", d.NumOOMs)
	check("num_device_alloc", d.NumDeviceAlloc)
	check("num_device_free", d.NumDeviceFree)
	if f.Score.Retries {
		check("num_alloc_retries", d.NumAllocRetries)
		// A call of empty_cache that finds nothing leaves no trace, so this is a lower bound.
		if want, ok := truth["num_sync_all_streams"]; ok && d.NumSyncAllStreams+before["num_sync_all_streams"] > want {
			t.Errorf("num_sync_all_streams: %d, the real allocator counted %d", d.NumSyncAllStreams, want)
		}
	}
}

// prelude is what the programs behind late recordings did before: one float allocated, freed, empty_cache.
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
