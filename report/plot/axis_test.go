package plot

import (
	"math"
	"math/bits"
	"slices"
	"strings"
	"testing"
	"time"

	"gonum.org/v1/plot"
	"pgregory.net/rapid"
)

func labels(ticks []plot.Tick) []string {
	var out []string
	for _, t := range ticks {
		out = append(out, t.Label)
	}
	return out
}

func TestByteTicks(t *testing.T) {
	for _, c := range []struct {
		high float64
		want string
	}{
		{12.4 * gib, "0, 2 GiB, 4 GiB, 6 GiB, 8 GiB, 10 GiB, 12 GiB"},
		{141 * gib, "0, 32 GiB, 64 GiB, 96 GiB, 128 GiB"},
		{1.1 * gib, "0, 0.25 GiB, 0.5 GiB, 0.75 GiB, 1 GiB"},
		{900 * mib, "0, 128 MiB, 256 MiB, 384 MiB, 512 MiB, 640 MiB, 768 MiB, 896 MiB"},
		{5000, "0, 1 KiB, 2 KiB, 3 KiB, 4 KiB"},
		{1, "0, 1 bytes"},
	} {
		if got := strings.Join(labels(byteTicks{8}.Ticks(0, c.high)), ", "); got != c.want {
			t.Errorf("to %v: %s, want %s", c.high, got, c.want)
		}
	}
}

// TestByteTicksRound checks that marks are powers of two apart, enough and not too many.
func TestByteTicksRound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		high := float64(rapid.Int64Range(16, 1<<44).Draw(t, "high"))
		ticks := byteTicks{8}.Ticks(0, high)
		if n := len(ticks); n < 5 || n > 9 {
			t.Fatalf("%d marks to %v", n, high)
		}
		step := ticks[1].Value
		if bits.OnesCount64(uint64(step)) != 1 {
			t.Fatalf("marks are %v apart", step)
		}
		for i, x := range ticks {
			if x.Value != float64(i)*step || x.Value > high {
				t.Fatalf("mark %d is at %v", i, x.Value)
			}
		}
		if names := labels(ticks); len(slices.Compact(names)) != len(ticks) {
			t.Fatalf("marks that look the same: %v", names)
		}
	})
}

func TestDecimalTicks(t *testing.T) {
	for _, c := range []struct {
		low, high float64
		show      func(v, step float64) string
		want      string
	}{
		{0, 6.2, showDecimal, "0 1 2 3 4 5 6"},
		{0, 0.0021, showDecimal, "0.0000 0.0005 0.0010 0.0015 0.0020"},
		{6.1, 7, showDecimal, "6.2 6.4 6.6 6.8 7.0"},
		{0, 5706, showCount, "0 1,000 2,000 3,000 4,000 5,000"},
		{0, 617706, showCount, "0 100,000 200,000 300,000 400,000 500,000 600,000"},
		{0, 3, showCount, "0  1  2  3"},
		{0, 1, showCount, "0     1"},
	} {
		if got := strings.Join(labels(decimalTicks{8, c.show}.Ticks(c.low, c.high)), " "); got != c.want {
			t.Errorf("%v to %v: %q, want %q", c.low, c.high, got, c.want)
		}
	}
}

func TestDecimalTicksAnywhere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		low := rapid.Float64Range(0, 1e9).Draw(t, "low")
		high := low + rapid.Float64Range(1e-6, 1e9).Draw(t, "span")
		if high == low {
			t.Skip("too close")
		}
		ticks := decimalTicks{8, showDecimal}.Ticks(low, high)
		if len(ticks) > 9 {
			t.Fatalf("%d marks", len(ticks))
		}
		for _, x := range ticks {
			if x.Value < low-1e-6*high || x.Value > high+1e-6*high || math.IsNaN(x.Value) {
				t.Fatalf("a mark at %v, outside of %v to %v", x.Value, low, high)
			}
		}
	})
}

func TestSizeTicks(t *testing.T) {
	if got, want := strings.Join(labels(sizeTicks{}.Ticks(9, 31)), " "), " 1 KiB  4 KiB  16 KiB  64 KiB  256 KiB  1 MiB  4 MiB  16 MiB  64 MiB  256 MiB  1 GiB "; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := powerOfTwo(0) + " " + powerOfTwo(62); got != "1 B 4 EiB" {
		t.Errorf("got %s", got)
	}
}

func TestMirrored(t *testing.T) {
	for _, x := range (mirrored{byteTicks{6}}).Ticks(-1.3*gib, 4.4*gib) {
		if strings.Contains(x.Label, "-") || x.Value < -1.3*gib || x.Value > 4.4*gib {
			t.Errorf("%q at %v", x.Label, x.Value)
		}
	}
}

func TestTimeUnit(t *testing.T) {
	for span, want := range map[time.Duration]string{3 * time.Microsecond: "µs", 70 * time.Millisecond: "ms", 59 * time.Second: "s", 50 * time.Minute: "s", 3 * time.Hour: "min", 40 * time.Hour: "h"} {
		if _, got := timeUnit(span); got != want {
			t.Errorf("%v: %s, want %s", span, got, want)
		}
	}
}
