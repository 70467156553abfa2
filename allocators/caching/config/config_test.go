package config

import (
	"testing"

	"pgregory.net/rapid"
)

const gib = 1 << 30

// uniform is a configuration with the same divisions for all sizes.
func uniform(d int) Config {
	c := Default()
	for i := range c.Roundup {
		c.Roundup[i] = d
	}
	return c
}

func TestRoundSize(t *testing.T) {
	for _, c := range []struct{ n, plain, d2, d4, d8, d16 int64 }{
		{0, 512, 512, 512, 512, 512},
		{1, 512, 512, 512, 512, 512},
		{511, 512, 512, 512, 512, 512},
		{512, 512, 512, 512, 512, 512},
		{513, 1024, 1024, 1024, 1024, 1024},
		{1000, 1024, 1024, 1024, 1024, 1024},
		{1025, 1536, 1536, 1536, 1536, 1536},
		{1200, 1536, 1536, 1536, 1536, 1536},
		{4097, 4608, 6144, 5120, 4608, 4608},
		{1048576, 1048576, 1048576, 1048576, 1048576, 1048576},
		{1300000, 1300480, 1572864, 1310720, 1310720, 1310720},
		{3145729, 3146240, 4194304, 3670016, 3407872, 3276800},
		{4194304, 4194304, 4194304, 4194304, 4194304, 4194304},
		{4194305, 4194816, 6291456, 5242880, 4718592, 4456448},
		{5000000, 5000192, 6291456, 5242880, 5242880, 5242880},
	} {
		for _, w := range []struct {
			d    int
			want int64
		}{{0, c.plain}, {1, c.plain}, {2, c.d2}, {4, c.d4}, {8, c.d8}, {16, c.d16}} {
			cfg := uniform(w.d)
			if got := cfg.RoundSize(c.n); got != w.want {
				t.Errorf("divisions %d: RoundSize(%d) = %d, want %d", w.d, c.n, got, w.want)
			}
		}
	}
}

// Before 2.4 divisions of 1 let a size through as it is, except the very small ones.
func TestRoundSizeLegacy(t *testing.T) {
	cfg := uniform(1)
	cfg.LegacyDiv1 = true
	for n, want := range map[int64]int64{1: 512, 512: 512, 513: 513, 1300001: 1300001} {
		if got := cfg.RoundSize(n); got != want {
			t.Errorf("RoundSize(%d) = %d, want %d", n, got, want)
		}
	}
}

// Every size uses the entry of its own power of two, the ends of the table stand for all beyond them.
func TestBuckets(t *testing.T) {
	for _, c := range []struct {
		n    int64
		want int
	}{
		{1, 0}, {MiB - 1, 0}, {MiB, 0}, {2*MiB - 1, 0}, {2 * MiB, 1}, {4*MiB - 1, 1}, {256 * MiB, 8}, {512*MiB - 1, 8},
		{gib, 10}, {32*gib - 1, 14}, {32 * gib, 15}, {64 * gib, 15}, {1 << 50, 15},
	} {
		if got := bucket(c.n); got != c.want {
			t.Errorf("bucket(%d) = %d, want %d", c.n, got, c.want)
		}
	}
}

func TestSegmentSize(t *testing.T) {
	for _, c := range []struct{ large, rounded, want int64 }{
		{20, 512, 2 * MiB},
		{20, MiB, 2 * MiB},
		{20, MiB + 512, 20 * MiB},
		{20, 10*MiB - 512, 20 * MiB},
		{20, 10 * MiB, 10 * MiB},
		{20, 10*MiB + 512, 12 * MiB},
		{20, 21 * MiB, 22 * MiB},
		{64, MiB, 2 * MiB},
		{64, 5 * MiB, 64 * MiB},
		{64, 11 * MiB, 12 * MiB},
	} {
		cfg := Default()
		cfg.LargeSegmentSize = c.large * MiB
		if got := cfg.SegmentSize(c.rounded); got != c.want {
			t.Errorf("large segments of %d MiB: SegmentSize(%d) = %d, want %d", c.large, c.rounded, got, c.want)
		}
	}
}

// Rounding is up, to a multiple of 512, by less than a step of its power of two, and rounding what is
// round changes nothing.
func TestRoundSizeProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := rapid.IntRange(0, 6).Draw(t, "log2 divisions")
		cfg := uniform(1 << log)
		n := rapid.Int64Range(1, 1<<rapid.IntRange(1, 45).Draw(t, "bits")).Draw(t, "n")
		z := cfg.RoundSize(n)
		floor := int64(1)
		for floor*2 <= n {
			floor *= 2
		}
		step := max(floor>>log, MinBlock)
		if log == 0 {
			step = MinBlock
		}
		if z < n || z%MinBlock != 0 || z-n >= step || cfg.RoundSize(z) != z {
			t.Fatalf("RoundSize(%d) = %d, steps of %d, again %d", n, z, step, cfg.RoundSize(z))
		}
		if s := cfg.SegmentSize(z); s < z || s%(2*MiB) != 0 {
			t.Fatalf("SegmentSize(%d) = %d", z, s)
		}
	})
}

func BenchmarkRoundSize(b *testing.B) {
	for _, text := range []string{"", "roundup_power2_divisions:4"} {
		b.Run(text, func(b *testing.B) {
			cfg, _, err := Parse(text, Latest)
			if err != nil {
				b.Fatal(err)
			}
			var sum, n int64
			for b.Loop() {
				n = (n + 7777) & (1<<28 - 1)
				z := cfg.RoundSize(n)
				sum += cfg.SegmentSize(z)
			}
			if sum == 0 {
				b.Fatal("no size")
			}
		})
	}
}
