package oomlog

import (
	"math"
	"testing"
)

func TestFlatten(t *testing.T) {
	for _, c := range []struct{ name, raw, want string }{
		{"blanks", "CUDA  out\tof\r\nmemory", "cudaoutofmemory"},
		{"colours", "\x1b[31mCUDA\x1b[0m out", "cudaout"},
		{"title", "\x1b]0;train\x07CUDA", "cuda"},
		{"json line ends", `already\nallocated\\nnow`, "alreadyallocatednow"},
		{"json colours", `\u001b[0;31mRuntime\u001b[0m\x1b[1mError`, "runtimeerror"},
		{"windows path", `C:\tools\render`, "c:toolsrender"},
		{"entities", "memory is &gt;&gt; &quot;allocated&#39; & more", "memoryisallocatedmore"},
		{"tags", "20.00<br/>MiB <span class=\"x\">free</span> a < b", "20.00mibfreeab"},
		{"quotes", "> `20.00 MiB`\n> 'free'", "20.00mibfree"},
		{"comments", "# already\n# allocated\n// free", "alreadyallocatedfree"},
		{"box", "│ 9.57 GiB │\n│ already │", "9.57gibalready"},
		{"no-break space", "20.00\u00a0MiB", "20.00mib"},
		{"prefix of a rank", "[rank1]: Currently allocated : 4 GiB\n[rank1]: Requested : 1 GiB\n", "[rank1]:currentlyallocated:4gibrequested:1gib"},
		{"prefix with a clock", "10:00:01.117 w2 | a\n10:00:01.228 w2 | b\n", "10:00:01.117w2ab"},
	} {
		var f flat
		mark := 0
		if c.name == "prefix of a rank" {
			mark = 9
		}
		if c.name == "prefix with a clock" {
			mark = 18
		}
		f.flatten([]byte(c.raw), mark)
		if string(f.text) != c.want {
			t.Errorf("%s: %q, want %q", c.name, f.text, c.want)
		}
		for i, r := range f.raw {
			if i > 0 && r <= f.raw[i-1] || lower(c.raw[r]) != f.text[i] {
				t.Errorf("%s: byte %d is said to stand at %d", c.name, i, r)
				break
			}
		}
	}
}

func TestParseSize(t *testing.T) {
	const g = 1 << 30
	for _, c := range []struct {
		text          string
		bytes, lo, hi int64
		length        int
	}{
		{"20.00mib(gpu", 20 << 20, 20<<20 - 5243, 20<<20 + 5243, 8},
		{"0bytes", 0, 0, 0, 6},
		{"512bytesfree", 512, 512, 512, 8},
		{"9.57gibalready", 10275709256, 10270340547, 10281077965, 7},
		{"378.60m(396990720bytes)", 396990874, 396985631, 397006602 - 10485, 7},
		{"3.621826gbmemory", 3888906055, 3888905518, 3888906592, 10},
		{"1,073,741,824bytes(", g, g, g, 18},
		{"0.000000b.", 0, 0, 0, 9},
		{"8559mib/", 8559 << 20, 8559<<20 - 1<<19, 8559<<20 + 1<<19, 7},
		{"85.412131tb", 93911631215231, 0, math.MaxInt64, 11},
		{"99999999999999999999999gib", math.MaxInt64, math.MaxInt64, math.MaxInt64, 26},
		{"gib", 0, 0, 0, 0}, {"12", 0, 0, 0, 0}, {"1.gib", 0, 0, 0, 0}, {"", 0, 0, 0, 0},
	} {
		s, n := parseSize([]byte(c.text))
		if n != c.length || n > 0 && !near(s.Bytes, c.bytes) || s.Low > s.Bytes || s.High < s.Bytes || n > 0 && (s.Low < c.lo-2 || s.High > c.hi && c.hi > 0 && s.High-c.hi > 2) {
			t.Errorf("%q: %+v of %d bytes, want %d in %d to %d of %d", c.text, s, n, c.bytes, c.lo, c.hi, c.length)
		}
	}
}

// near allows for the last digit of what was worked out by hand for terabytes.
func near(a, b int64) bool {
	return a-b < 1<<20 && b-a < 1<<20 && (b > 1<<42 || a == b || b-a < 2 && a-b < 2)
}

func TestRanks(t *testing.T) {
	for _, c := range []struct {
		before string
		want   int
	}{
		{"[rank3]: ", 3}, {"(VllmWorker rank=1 pid=194255) ERROR 05-08 ", 1}, {"(Worker_TP12 pid=1) ", 12}, {"[default5]:", 5},
		{"[1,7]<stderr>:", 7}, {"12: ", 12}, {"old line [rank9]\nplain ", -1}, {"\x1b[36m[rank4]\x1b[0m:", 4}, {"RANK 2 | ", 2}, {"frankly 3 ", -1}, {"", -1},
	} {
		r := ranksOf([]byte(c.before))
		got := -1
		if len(r) > 0 {
			got = r[0]
		}
		if got != c.want {
			t.Errorf("%q: rank %d, want %d", c.before, got, c.want)
		}
	}
}
