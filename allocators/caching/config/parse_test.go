package config

import (
	"errors"
	"strings"
	"testing"
)

var (
	v23  = Version{2, 3}
	v29  = Version{2, 9}
	v210 = Version{2, 10}
)

// table is the beginning of a table of divisions, the last number repeated to its end.
func table(ds ...int) (t [16]int) {
	for i := range t {
		t[i] = ds[min(i, len(ds)-1)]
	}
	return t
}

// with is the default configuration with some changes.
func with(change func(*Config)) Config {
	c := Default()
	change(&c)
	return c
}

func TestParse(t *testing.T) {
	for _, c := range []struct {
		text string
		v    Version
		want Config
	}{
		{"", Version{}, Default()},
		{" ", Version{}, Default()},
		{"backend:native", Version{}, Default()},
		{"backend:cudaMallocAsync", Version{}, with(func(c *Config) { c.Backend = Async })},
		{"expandable_segments:True", Version{}, with(func(c *Config) { c.Expandable = true })},
		{"expandable_segments:True,expandable_segments:False", Version{}, Default()},
		{"expandable_segments:True,", Version{}, with(func(c *Config) { c.Expandable = true })},
		{" expandable _segments : Tr ue ", Version{}, with(func(c *Config) { c.Expandable = true })},
		{"\texpandable_segments:True\n", v210, with(func(c *Config) { c.Expandable = true })},
		{"max_split_size_mb:64", v29, with(func(c *Config) { c.MaxSplitSize = 64 * MiB })},
		{"max_split_size_mb:21", v29, with(func(c *Config) { c.MaxSplitSize = 21 * MiB })},
		{"max_split_size_mb:20", v210, with(func(c *Config) { c.MaxSplitSize = 20 * MiB })},
		{"max_split_size_mb:128;", Version{}, with(func(c *Config) { c.MaxSplitSize = 128 * MiB })},
		{"max_split_size_mb:128MB", Version{}, with(func(c *Config) { c.MaxSplitSize = 128 * MiB })},
		{"max_split_size_mb:-1", Version{}, Default()},
		{"max_split_size_mb:18446744073709551615", Version{}, Default()},
		{"large_segment_size_mb:64,max_split_size_mb:64", Version{}, with(func(c *Config) {
			c.LargeSegmentSize, c.MaxNonSplitRounding, c.MaxSplitSize = 64*MiB, 64*MiB, 64*MiB
		})},
		{"max_split_size_mb:12,large_segment_size_mb:12", Version{}, with(func(c *Config) { // read first wherever it stands
			c.LargeSegmentSize, c.MaxNonSplitRounding, c.MaxSplitSize = 12*MiB, 12*MiB, 12*MiB
		})},
		{"max_non_split_rounding_mb:100,large_segment_size_mb:40", Version{}, with(func(c *Config) {
			c.LargeSegmentSize, c.MaxNonSplitRounding = 40*MiB, 100*MiB
		})},
		{"garbage_collection_threshold:0.8", Version{}, with(func(c *Config) { c.GCThreshold = 0.8 })},
		{"garbage_collection_threshold:.8", Version{}, with(func(c *Config) { c.GCThreshold = 0.8 })},
		{"garbage_collection_threshold:8e-1", Version{}, with(func(c *Config) { c.GCThreshold = 0.8 })},
		{"per_process_memory_fraction:0", Version{}, with(func(c *Config) { c.MemoryFraction = 0 })},
		{"per_process_memory_fraction:1.0", Version{}, Default()},
		{"release_lock_on_hipmalloc:True", Version{}, with(func(c *Config) { c.ReleaseLock = true })},
		{"graph_capture_record_stream_reuse:True", Version{}, with(func(c *Config) { c.GraphCaptureReuse = true })},
		{"throw_on_cudamalloc_oom:True,per_process_memory_fraction:.5", Latest, with(func(c *Config) { c.ThrowOnOOM, c.MemoryFraction = true, 0.5 })},
		{"expandable_segments_reserve:0.5", Latest, with(func(c *Config) { c.ReserveFraction = 0.5 })},
		{"expandable_segments_reserve:2", Latest, with(func(c *Config) { c.ReserveFraction = 1.125 })},
		{"expandable_segments_reserve:40G", Latest, with(func(c *Config) { c.ReserveBytes = 40 * gib })},
		{"expandable_segments_reserve:nothing", Latest, Default()},
		{"expandable_segments_reserve_by_class:[a:0.5,b:8G],backend:native", Latest, Default()},
		{"pinned_use_cuda_host_register:True,pinned_num_register_threads:8,pinned_use_background_threads:True,pinned_reserve_segment_size_mb:2048,pinned_free_catch_all:True", Latest,
			with(func(c *Config) {
				c.PinnedUseHostRegister, c.PinnedRegisterThreads, c.PinnedBackgroundThreads = true, 8, true
				c.PinnedReserveSegmentSize, c.PinnedFreeCatchAll = 2*gib, true
			})},
		// From 2.10 on PyTorch does not look at what stands between key, value and the next key.
		{"max_split_size_mb,64:expandable_segments]True", v210, with(func(c *Config) { c.MaxSplitSize, c.Expandable = 64*MiB, true })},
	} {
		got, _, err := Parse(c.text, c.v)
		if err != nil {
			t.Errorf("%q in %s: %v", c.text, c.v, err)
		} else if got != c.want {
			t.Errorf("%q in %s:\n got %+v\nwant %+v", c.text, c.v, got, c.want)
		}
	}
}

func TestParseRoundup(t *testing.T) {
	for _, c := range []struct {
		value string
		v     Version
		want  [16]int
	}{
		{"4", Version{}, table(4)},
		{"1", Version{}, table(1)},
		{"[256:1,512:2,1024:4,>:8]", v29, table(1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 8)},
		{"[256:1,512:2,1024:4,>:8]", v210, table(1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 4, 8)},
		{"[64:8,256:4]", Version{}, table(8, 8, 8, 8, 8, 8, 8, 0, 4, 0)},
		{"[1:2]", Version{}, table(2, 0)},
		{"[>:4]", v29, table(4)},
		{"[>:4]", v210, table(0, 4)},
		{"[65536:4]", Version{}, table(4)},
		{"[512:2,256:1]", Version{}, table(2, 2, 2, 2, 2, 2, 2, 2, 1, 2, 0)},
		{"[64:0,128:8,>:8]", Version{}, table(0, 0, 0, 0, 0, 0, 0, 8)},
		{"[ 64 : 8 , ]", Version{}, table(8, 8, 8, 8, 8, 8, 8, 0)},
		{"[]", Version{}, table(0)},
		{"4,roundup_power2_divisions:[2:8]", Version{}, table(8, 8, 4)}, // a second value goes over the first
	} {
		got, _, err := Parse("roundup_power2_divisions:"+c.value, c.v)
		if err != nil {
			t.Errorf("%q in %s: %v", c.value, c.v, err)
		} else if got.Roundup != c.want {
			t.Errorf("%q in %s:\n got %v\nwant %v", c.value, c.v, got.Roundup, c.want)
		}
	}
	for v, want := range map[Version]bool{v23: true, {2, 4}: false, {}: false} {
		if got, _, _ := Parse("roundup_power2_divisions:1", v); got.LegacyDiv1 != want {
			t.Errorf("in %s sizes with divisions of 1 are unrounded: %t", v, got.LegacyDiv1)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for _, c := range []struct {
		text   string
		v      Version
		code   string
		offset int
		write  string
	}{
		{"expandeable_segments:True", Version{}, "unknown-key", 0, "expandable_segments"},
		{"backend:native, max_split_size:128", Version{}, "unknown-key", 16, "max_split_size_mb"},
		{"Expandable-Segments:True", Version{}, "unknown-key", 0, "expandable_segments"},
		{"garbage_collect_threshold:0.8", Version{}, "unknown-key", 0, "garbage_collection_threshold"},
		{"“expandable_segments:True”", Version{}, "unknown-key", 0, "expandable_segments"},
		{"C:\\cudart", Version{}, "unknown-key", 0, ""},
		{"page_size:1g", Version{}, "unknown-key", 0, ""},
		{"max_split_size_mb=128", Version{}, "no-colon", 0, "max_split_size_mb:128"},
		{"max_split_size_mb 128", Version{}, "no-colon", 0, "max_split_size_mb:128"},
		{"max_split_size=128", Version{}, "unknown-key", 0, "max_split_size_mb:128"},
		{"expandable_segments", Version{}, "missing-value", 19, ""},
		{"expandable_segments:", Version{}, "missing-value", 20, ""},
		{"expandable_segments:,backend:native", Version{}, "missing-value", 20, ""},
		{"backend:native,,backend:native", Version{}, "missing-key", 15, ""},
		{",backend:native", Version{}, "missing-key", 0, ""},
		{"expandable_segments:true", Version{}, "not-boolean", 20, "expandable_segments:True"},
		{"expandable_segments:1", Version{}, "not-boolean", 20, "expandable_segments:True"},
		{"expandable_segments:True;max_split_size_mb:64", Version{}, "semicolon", 24, ""},
		{"max_split_size_mb:64;expandable_segments:True", v29, "semicolon", 20, ""},
		{"max_split_size_mb:64;expandable_segments:True", v210, "semicolon", 20, ""},
		{"expandable_segments:True;", Version{}, "not-boolean", 20, "expandable_segments:True"},
		{"expandable_segments:True max_split_size_mb:64", Version{}, "not-boolean", 20, ""},
		{"\texpandable_segments:True,\tbackend:native", v29, "unknown-key", 26, "backend"}, // only spaces are dropped
		{"max_split_size_mb:20", v29, "too-small", 18, "max_split_size_mb:21"},
		{"max_split_size_mb:19", v210, "too-small", 18, "max_split_size_mb:20"},
		{"max_split_size_mb:20,large_segment_size_mb:32", Version{}, "too-small", 18, "max_split_size_mb:32"},
		{"max_non_split_rounding_mb:19", Version{}, "too-small", 26, "max_non_split_rounding_mb:20"},
		{"large_segment_size_mb:10", Version{}, "too-small", 22, "large_segment_size_mb:11"},
		{"max_split_size_mb:2GB", Version{}, "too-small", 18, "max_split_size_mb:2048"},
		{"max_split_size_mb:none", Version{}, "not-a-number", 18, ""},
		{"max_split_size_mb:3000000000", v29, "not-a-number", 18, ""}, // 32 bits
		{"max_split_size_mb:99999999999999999999", v210, "not-a-number", 18, ""},
		{"max_split_size_mb,64", v29, "separator", 17, ""},
		{"max_split_size_mb:64:backend:native", v29, "separator", 20, ""},
		{"garbage_collection_threshold:1", Version{}, "not-a-fraction", 29, ""},
		{"garbage_collection_threshold:0", Version{}, "not-a-fraction", 29, ""},
		{"garbage_collection_threshold:80%", Version{}, "not-a-fraction", 29, "garbage_collection_threshold:0.8"},
		{"garbage_collection_threshold:nan", Version{}, "not-a-fraction", 29, ""},
		{"per_process_memory_fraction:1.1", Version{}, "not-a-fraction", 28, ""},
		{"backend:cudamallocasync", Version{}, "unknown-backend", 8, "backend:cudaMallocAsync"},
		{"roundup_power2_divisions:3", Version{}, "not-power-of-two", 25, ""},
		{"roundup_power2_divisions:0", Version{}, "not-power-of-two", 25, ""},
		{"roundup_power2_divisions:[64:3]", Version{}, "not-power-of-two", 29, ""},
		{"roundup_power2_divisions:[64:0]", v23, "not-power-of-two", 29, ""},
		{"roundup_power2_divisions:[100:4]", Version{}, "not-power-of-two", 26, ""},
		{"roundup_power2_divisions:[64:4", Version{}, "open-list", 25, ""},
		{"roundup_power2_divisions:[64:4,", Version{}, "open-list", 25, ""},
		{"roundup_power2_divisions:[64:]", Version{}, "missing-value", 29, ""},
		{"roundup_power2_divisions:[64]", v29, "separator", 28, ""},
		{"roundup_power2_divisions:[,64:4]", Version{}, "missing-key", 26, ""},
		{"roundup_power2_divisions:[64:4]", Version{1, 13}, "list-of-other-version", 25, ""},
		{"roundup_bypass_threshold_mb:64", Version{}, "key-of-other-version", 0, ""},
		{"large_segment_size_mb:64", v210, "key-of-other-version", 0, ""},
		{"throw_on_cudamalloc_oom:True", Version{}, "key-of-other-version", 0, ""},
		{"pinned_num_register_threads:3", Version{}, "not-power-of-two", 28, ""},
		{"pinned_num_register_threads:256", Version{}, "not-power-of-two", 28, ""},
		{"expandable_segments_reserve_by_class:0.5", Latest, "not-a-list", 37, ""},
	} {
		_, findings, err := Parse(c.text, c.v)
		var e *SyntaxError
		if !errors.As(err, &e) {
			t.Errorf("%q in %s: error %v", c.text, c.v, err)
			continue
		}
		if e.Code != c.code || e.Offset != c.offset || e.Write != c.write {
			t.Errorf("%q in %s: %s at %d, write %q; want %s at %d, %q", c.text, c.v, e.Code, e.Offset, e.Write, c.code, c.offset, c.write)
		}
		if e.Msg == "" || e.Do == "" || strings.HasSuffix(e.Do, ".") {
			t.Errorf("%q: %q lacks what is wrong or what to do", c.text, e)
		}
		found := false
		for _, f := range findings {
			found = found || f == e.finding()
		}
		if !found {
			t.Errorf("%q: the error is not among the findings %v", c.text, findings)
		}
	}
}

// One mistake does not hide the others, nor the settings that are right.
func TestParseGoesOn(t *testing.T) {
	c, findings, err := Parse("max_split:64,roundup_power2_divisions:[64:3,128:4],expandable_segments:yes,garbage_collection_threshold:0.7,per_process_memory_fraction:0.9", Version{})
	var offsets []int
	for _, f := range findings {
		if f.Severity == Error {
			offsets = append(offsets, f.Offset)
		}
	}
	if len(offsets) != 3 || offsets[0] != 0 || offsets[1] != 42 || offsets[2] != 71 {
		t.Errorf("errors at %v", offsets)
	}
	if err == nil || c.GCThreshold != 0.7 || c.MemoryFraction != 0.9 {
		t.Errorf("error %v, %+v", err, c)
	}
}

func TestParseVersion(t *testing.T) {
	for s, want := range map[string]Version{"2.11": {2, 11}, "2.11.0+cu130": {2, 11}, "2.12.0a0+git12": {2, 12}, "v1.13.1": {1, 13}, " 2.4 ": {2, 4}} {
		if got, err := ParseVersion(s); err != nil || got != want {
			t.Errorf("%q: %v, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "2", "2.", "two.one", "-1.2", "2.99999999999999999999"} {
		if got, err := ParseVersion(s); err == nil {
			t.Errorf("%q: %v", s, got)
		}
	}
}
