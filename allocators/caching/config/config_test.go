package config

import "testing"

func TestRoundSize(t *testing.T) {
	for _, c := range []struct{ n, plain, d2, d4, d8, d16 int64 }{
		{1025, 1536, 1536, 1536, 1536, 1536},
		{1200, 1536, 1536, 1536, 1536, 1536},
		{4097, 4608, 6144, 5120, 4608, 4608},
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
			cfg := Default()
			for i := range cfg.Roundup {
				cfg.Roundup[i] = w.d
			}
			if got := cfg.RoundSize(c.n); got != w.want {
				t.Errorf("divisions %d: RoundSize(%d) = %d, want %d", w.d, c.n, got, w.want)
			}
		}
	}
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
