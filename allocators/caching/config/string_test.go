package config

import (
	"errors"
	"testing"

	"pgregory.net/rapid"
)

func TestString(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{"backend:native,expandable_segments:False", ""},
		{"max_split_size_mb:64,expandable_segments:True", "expandable_segments:True,max_split_size_mb:64"},
		{"large_segment_size_mb:40", "large_segment_size_mb:40"},
		{"large_segment_size_mb:40,max_non_split_rounding_mb:40", "large_segment_size_mb:40"},
		{"garbage_collection_threshold:8e-1,per_process_memory_fraction:0.50", "garbage_collection_threshold:0.8,per_process_memory_fraction:0.5"},
		{"roundup_power2_divisions:[64:8,>:8]", "roundup_power2_divisions:8"},
		{"roundup_power2_divisions:[64:8,256:4]", "roundup_power2_divisions:[64:8,256:4]"},
		{"roundup_power2_divisions:[8192:0,>:2]", "roundup_power2_divisions:[8192:0,16384:2,32768:2]"},
		{"expandable_segments_reserve:1.5G", "expandable_segments_reserve:1.5G"},
		{"release_lock_on_hipmalloc:True", "release_lock_on_cudamalloc:True"},
	} {
		cfg, _, err := Parse(c.text, Latest)
		if err != nil {
			t.Fatal(err)
		}
		if got := cfg.String(); got != c.want {
			t.Errorf("%q is written %q, want %q", c.text, got, c.want)
		}
	}
}

// anyConfig draws a configuration that a text can express.
func anyConfig(t *rapid.T) Config {
	c := Default()
	yes := func(name string) bool { return rapid.Bool().Draw(t, name) }
	if yes("async") {
		c.Backend = Async
	}
	c.Expandable, c.ReleaseLock, c.GraphCaptureReuse, c.ThrowOnOOM = yes("expandable"), yes("lock"), yes("graph"), yes("throw")
	if yes("large segment") {
		c.LargeSegmentSize = rapid.Int64Range(11, 4096).Draw(t, "large") * MiB
		c.MaxNonSplitRounding = c.LargeSegmentSize
	}
	if yes("split") {
		c.MaxSplitSize = rapid.Int64Range(c.LargeSegmentSize/MiB, 1<<22).Draw(t, "split size") * MiB
	}
	if yes("non-split") {
		c.MaxNonSplitRounding = rapid.Int64Range(c.LargeSegmentSize/MiB, 1<<22).Draw(t, "rounding") * MiB
	}
	if yes("roundup") {
		for i := range c.Roundup {
			c.Roundup[i] = rapid.SampledFrom([]int{0, 0, 1, 2, 4, 8, 64}).Draw(t, "divisions")
		}
	}
	if yes("gc") {
		c.GCThreshold = rapid.Float64Range(1e-9, 0.999999).Draw(t, "threshold")
	}
	if yes("fraction") {
		c.MemoryFraction = rapid.Float64Range(0, 1).Draw(t, "fraction")
	}
	switch rapid.IntRange(0, 2).Draw(t, "reserve") {
	case 1:
		c.ReserveFraction = rapid.Float64Range(1e-6, 1.125).Draw(t, "share")
	case 2:
		c.ReserveBytes = rapid.Int64Range(1, 1<<45).Draw(t, "bytes")
	}
	c.PinnedUseHostRegister, c.PinnedBackgroundThreads, c.PinnedFreeCatchAll = yes("register"), yes("background"), yes("catch")
	c.PinnedRegisterThreads = 1 << rapid.IntRange(0, 7).Draw(t, "threads")
	c.PinnedReserveSegmentSize = rapid.Int64Range(0, 1<<20).Draw(t, "pinned") * MiB
	return c
}

func TestStringParsesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := anyConfig(t)
		got, _, err := Parse(c.String(), Latest)
		if err != nil || got != c {
			t.Fatalf("%q: %v\n got %+v\nwant %+v", c, err, got, c)
		}
	})
}

// The written form has no part that versions read differently.
func TestStringMeansTheSameInAllVersions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Default()
		for i := range c.Roundup {
			c.Roundup[i] = rapid.SampledFrom([]int{0, 2, 4}).Draw(t, "divisions")
		}
		c.Expandable = rapid.Bool().Draw(t, "expandable")
		for _, v := range []Version{{2, 4}, {2, 9}, {2, 10}, Latest} {
			if got, _, err := Parse(c.String(), v); err != nil || got != c {
				t.Fatalf("%q in %s: %v\n got %+v\nwant %+v", c, v, err, got, c)
			}
		}
	})
}

var fuzzSeeds = []string{
	"", " ", ",", ":", "[", "]", "a:[", "backend:", "backend:native,", "expandable_segments:True",
	"expandable_segments:True,max_split_size_mb:128,garbage_collection_threshold:0.8",
	"roundup_power2_divisions:[256:1,512:2,1024:4,>:8]", "roundup_power2_divisions:[>:4,64:0,]", "roundup_power2_divisions:18446744073709551615",
	"roundup_power2_divisions:9223372036854775808", "large_segment_size_mb:99999999999999,max_split_size_mb:-1",
	"per_process_memory_fraction:1e-400", "garbage_collection_threshold:+.5e", "expandable_segments_reserve:1e300G",
	"expandable_segments_reserve_by_class:[a:1,b:2G]", "pinned_reserve_segment_size_mb:-1,pinned_num_register_threads:-128",
	`export PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True"`, `os.environ["PYTORCH_ALLOC_CONF"]='max_split_size_mb:64'`,
	"_set_allocator_settings(\"\xff\")", "\"\"", "max_split_size_mb=128;backend=native", "“backend:native”", "\x00\t\n\u0085",
}

// Any text gives an answer, whose parts agree: positions inside of the text, an error exactly if there is a
// finding of one, values that the models can add up, and a written form that reads back the same.
func FuzzParse(f *testing.F) {
	for i, s := range fuzzSeeds {
		f.Add(s, uint8(i))
	}
	versions := []Version{{}, Latest, {2, 9}, {2, 3}, {1, 13}, {1, 9}, {2, 10}}
	f.Fuzz(func(t *testing.T, text string, n uint8) {
		v := versions[int(n)%len(versions)]
		c, fs, err := Parse(text, v)
		errs := 0
		for _, f := range fs {
			if f.Offset < 0 || f.Offset > len(text) || f.Code == "" || f.Message == "" {
				t.Errorf("finding %+v of a text of %d bytes", f, len(text))
			}
			if f.Severity == Error {
				errs++
			}
		}
		var e *SyntaxError
		if (err != nil) != (errs > 0) || err != nil && !errors.As(err, &e) {
			t.Errorf("error %v with %d findings of errors", err, errs)
		}
		if c.MaxSplitSize < 20*MiB && c.MaxSplitSize < c.LargeSegmentSize || c.LargeSegmentSize <= 10*MiB || c.LargeSegmentSize > maxBytes ||
			c.MaxNonSplitRounding < 11*MiB || c.MaxNonSplitRounding > maxBytes || !usable(c.Roundup) || c.ReserveBytes < 0 {
			t.Errorf("%+v", c)
		}
		for _, n := range []int64{1, 513, 5000000, 1 << 40} {
			if z := c.RoundSize(n); z < n || c.SegmentSize(z) < z {
				t.Errorf("RoundSize(%d) = %d, SegmentSize %d", n, z, c.SegmentSize(z))
			}
		}
		c.LegacyDiv1 = false
		back, _, err := Parse(c.String(), Latest)
		if err != nil || back != c {
			t.Errorf("%q is written %q and read %+v, %v; was %+v", text, c.String(), back, err, c)
		}
	})
}
