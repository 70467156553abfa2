package config

import "testing"

// recorded is what a snapshot of torch 2.11 says after a start without settings.
func recorded() Snapshot {
	return Snapshot{MaxSplitSize: -1, HasMaxSplitSize: true, HasGCThreshold: true, HasExpandable: true, HasRoundup: true}
}

func TestFromSnapshot(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Snapshot)
		want   func(*Config)
		found  string
	}{
		{"defaults", func(s *Snapshot) {}, func(c *Config) {}, ""},
		{"values of the text", func(s *Snapshot) {
			s.Text, s.MaxSplitSize = "max_split_size_mb:64", 64*MiB
		}, func(c *Config) { c.MaxSplitSize = 64 * MiB }, "0 risk split-cost"},
		{"values that only the text has", func(s *Snapshot) {
			s.Text = "large_segment_size_mb:40,max_non_split_rounding_mb:50,per_process_memory_fraction:0.5"
		}, func(c *Config) {
			c.LargeSegmentSize, c.MaxNonSplitRounding, c.MemoryFraction = 40*MiB, 50*MiB, 0.5
		}, "25 no-effect non-split-alone"},
		{"expandable", func(s *Snapshot) { // on a platform that can do it
			s.Text, s.Expandable = "expandable_segments:True", true
		}, func(c *Config) { c.Expandable = true }, "0 risk expandable-ipc"},
		{"expandable in vain", func(s *Snapshot) {
			s.Text = "expandable_segments:True"
		}, func(c *Config) {}, "0 ignored not-in-force"},
		{"values without text", func(s *Snapshot) {
			s.Expandable, s.MaxSplitSize, s.GCThreshold, s.Roundup = true, 64*MiB, 0.5, table(4)
		}, func(c *Config) {
			c.Expandable, c.MaxSplitSize, c.GCThreshold, c.Roundup = true, 64*MiB, 0.5, table(4)
		}, "-1 risk expandable-ipc; -1 risk expandable-max-split; -1 no-effect expandable-gc; -1 no-effect gc-without-limit"},
		{"all changed since", func(s *Snapshot) {
			s.Text = "max_split_size_mb:64,garbage_collection_threshold:0.5,roundup_power2_divisions:4"
		}, func(c *Config) {}, "0 ignored not-in-force; 21 ignored not-in-force; 54 ignored not-in-force"},
		{"the table of an older version", func(s *Snapshot) {
			s.Text, s.Roundup = "roundup_power2_divisions:[256:4,512:2,>:8]", table(4, 4, 4, 4, 4, 4, 4, 4, 4, 8)
		}, func(c *Config) { c.Roundup = table(4, 4, 4, 4, 4, 4, 4, 4, 4, 8) }, ""},
		{"a key of a newer version", func(s *Snapshot) {
			s.Text = "throw_on_cudamalloc_oom:True,per_process_memory_fraction:0.5"
		}, func(c *Config) { c.ThrowOnOOM, c.MemoryFraction = true, 0.5 }, ""},
		{"a text that no version reads", func(s *Snapshot) {
			s.Text, s.Expandable = "segment_size_mb:64,expandable_segments:True", true
		}, func(c *Config) { c.Expandable = true }, "0 error unknown-key; 19 risk expandable-ipc"},
		{"a table that cannot be", func(s *Snapshot) {
			s.Text, s.Roundup = "roundup_power2_divisions:4", table(3)
		}, func(c *Config) { c.Roundup = table(4) }, ""},
		{"no values", func(s *Snapshot) {
			*s = Snapshot{Text: "max_split_size_mb:64,roundup_power2_divisions:4,garbage_collection_threshold:0.5,per_process_memory_fraction:0.5"}
		}, func(c *Config) {
			c.MaxSplitSize, c.Roundup, c.GCThreshold, c.MemoryFraction = 64*MiB, table(4), 0.5, 0.5
		}, "0 risk split-cost"},
		{"flags", func(s *Snapshot) { s.ReleaseLock, s.GraphReuse = true, true },
			func(c *Config) { c.ReleaseLock, c.GraphCaptureReuse = true, true }, ""},
	} {
		s := recorded()
		c.change(&s)
		got, fs := FromSnapshot(s, Version{})
		if want := with(c.want); got != want {
			t.Errorf("%s:\n got %+v\nwant %+v", c.name, got, want)
		}
		if found := summary(fs); found != c.found {
			t.Errorf("%s:\n got %s\nwant %s", c.name, found, c.found)
		}
	}
}
