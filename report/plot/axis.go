package plot

import (
	"math"
	"strconv"
	"time"

	"github.com/vramscope/vramscope/report"
	"gonum.org/v1/plot"
)

const (
	kib = 1 << 10
	mib = 1 << 20
	gib = 1 << 30
)

// byteTicks marks sizes that are round in binary units: the distance is a power of two.
type byteTicks struct{ most int }

// Ticks implements plot.Ticker.
func (t byteTicks) Ticks(_, high float64) []plot.Tick {
	step := 1.0
	for step*float64(t.most) < high {
		step *= 2
	}
	var out []plot.Tick
	for v := 0.0; v <= high; v += step {
		out = append(out, plot.Tick{Value: v, Label: roundBytes(v, high)})
	}
	return out
}

// roundBytes shows a round size in the unit that suits the end of its axis.
func roundBytes(v, high float64) string {
	unit, name := 1.0, "bytes"
	switch {
	case high >= gib:
		unit, name = gib, "GiB"
	case high >= mib:
		unit, name = mib, "MiB"
	case high >= kib:
		unit, name = kib, "KiB"
	}
	if v == 0 {
		return "0"
	}
	return strconv.FormatFloat(v/unit, 'f', -1, 64) + " " + name
}

// decimalTicks marks round numbers: 1, 2 or 5 times a power of ten apart.
type decimalTicks struct {
	most int
	show func(v, step float64) string
}

// Ticks implements plot.Ticker.
func (t decimalTicks) Ticks(low, high float64) []plot.Tick {
	step := decimalStep((high - low) / float64(t.most))
	var out []plot.Tick
	for i := math.Ceil(low / step); i*step <= high; i++ {
		out = append(out, plot.Tick{Value: i * step, Label: t.show(i*step, step)})
	}
	return out
}

// decimalStep is the least round number that is not below another.
func decimalStep(least float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(least)))
	for _, f := range []float64{1, 2, 5} {
		if f*power >= least*(1-1e-9) {
			return f * power
		}
	}
	return 10 * power
}

// showDecimal shows a mark with as many digits as the distance between marks needs.
func showDecimal(v, step float64) string {
	digits := max(0, int(math.Ceil(-math.Log10(step)-1e-9)))
	return strconv.FormatFloat(v, 'f', digits, 64)
}

// showCount shows a whole number; where marks are closer, those between have no label.
func showCount(v, _ float64) string {
	if v != math.Round(v) {
		return ""
	}
	return report.Count(int(v))
}

// timeUnit is the unit that suits a span of time.
func timeUnit(span time.Duration) (unit time.Duration, name string) {
	switch {
	case span >= 10*time.Hour:
		return time.Hour, "h"
	case span >= time.Hour:
		return time.Minute, "min"
	case span >= time.Second:
		return time.Second, "s"
	case span >= time.Millisecond:
		return time.Millisecond, "ms"
	}
	return time.Microsecond, "µs"
}

// noTicks marks nothing.
type noTicks struct{}

// Ticks implements plot.Ticker.
func (noTicks) Ticks(_, _ float64) []plot.Tick { return nil }
