// Package check holds a recording against limits and against a baseline, for machines that decide whether a
// change may go in.
//
// A limit holds by itself. A baseline is what an earlier recording came to, kept in a small file beside the
// code; what may be added to it before a check fails is its tolerance. What depends on nothing but the requests
// of the program is compared exactly unless somebody allows more; what depends on the history of the process,
// as the memory that it has reserved, is given some room.
package check

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/simulate"
)

// Unit is what a figure counts.
type Unit string

// The units.
const (
	Bytes   Unit = "bytes"
	Share   Unit = "share" // from 0 to 1
	Number  Unit = "count"
	PerStep Unit = "bytes per step"
)

// metric is a figure that can be limited.
type metric struct {
	name      string
	what      string // the figure, for people
	say       string // a sentence with %s for the value
	unit      Unit
	value     func(*report.Profile) float64 // report.Unknown where the recording does not tell
	tolerance Tolerance                     // against a baseline, unless a policy has another
}

const mib = 1 << 20

// metrics in the order in which they are shown.
func metrics() []metric {
	whole := func(of func(*report.Profile) int64) func(*report.Profile) float64 {
		return func(p *report.Profile) float64 { return float64(of(p)) }
	}
	exact := Tolerance{}
	return []metric{
		{"peak-allocated", "peak allocated", "peak allocated %s", Bytes,
			whole(func(p *report.Profile) int64 { return p.PeakAllocated }), exact},
		{"peak-reserved", "peak reserved, as recorded", "peak reserved %s", Bytes,
			whole(func(p *report.Profile) int64 { return p.PeakReserved }), Tolerance{Relative: 0.05, Absolute: 64 * mib}},
		{"peak-reserved-replayed", "peak reserved, replayed from an empty cache", "peak reserved %s when replayed from an empty cache", Bytes,
			whole(func(p *report.Profile) int64 { return p.PeakReplayed }), exact},
		{"fragmentation", "share of what was reserved that was never in use", "fragmentation %s", Share,
			(*report.Profile).Fragmentation, Tolerance{Absolute: 0.05}},
		{"retries", "flushes of the cache for want of memory", "the cache was flushed for want of memory %s times", Number,
			whole(func(p *report.Profile) int64 { return p.Retries }), exact},
		{"ooms", "requests that ran out of memory", "%s requests ran out of memory", Number,
			whole(func(p *report.Profile) int64 { return p.OOMs }), exact},
		{"live-at-end", "memory in use at the end", "%s in use at the end", Bytes,
			whole(func(p *report.Profile) int64 { return p.End }), exact},
		{"leak-per-step", "growth of the memory in use from step to step", "memory in use grows by %s", PerStep,
			func(p *report.Profile) float64 { return p.Growth }, Tolerance{Absolute: 64 << 10}},
	}
}

// says is the figure with its value, as the beginning of a sentence.
func (m metric) says(v float64) string {
	s := fmt.Sprintf(m.say, m.unit.Show(v))
	if m.unit == Number && v == 1 {
		s = strings.NewReplacer("1 times", "once", "1 requests", "1 request").Replace(s)
	}
	return s
}

func findMetric(name string) (metric, bool) {
	for _, m := range metrics() {
		if m.name == name {
			return m, true
		}
	}
	return metric{}, false
}

// Show is a figure with its unit.
func (u Unit) Show(v float64) string {
	switch {
	case v == report.Unknown:
		return "–"
	case u == Share:
		return strconv.FormatFloat(math.Round(v*1000)/10, 'f', -1, 64) + " %"
	case u == Number:
		return report.Count(int(v))
	case u == PerStep:
		return report.Bytes(int64(math.Round(v))) + " a step"
	}
	return report.Bytes(int64(v))
}

// Tolerance is by how much a figure may exceed its baseline: whichever of the two allows more.
type Tolerance struct {
	Relative float64 // of the baseline
	Absolute float64 // in the figure's unit
	Off      bool    // it is not compared at all
}

// Allows is the most that a figure may be.
func (t Tolerance) Allows(baseline float64) float64 {
	return baseline + max(t.Relative*baseline, t.Absolute)
}

// ParseTolerance reads "2%", "64MiB", "2% or 64MiB", "0" or "off". Of a share, a percentage is added to it.
func ParseTolerance(s string, u Unit) (Tolerance, error) {
	var t Tolerance
	if s == "off" {
		return Tolerance{Off: true}, nil
	}
	for part := range strings.SplitSeq(s, " or ") {
		part = strings.TrimSpace(part)
		if share, ok := strings.CutSuffix(part, "%"); ok {
			x, err := strconv.ParseFloat(strings.TrimSpace(share), 64)
			if err != nil || x < 0 || math.IsInf(x, 0) || math.IsNaN(x) {
				return t, fmt.Errorf("%q is not a percentage", part)
			}
			if u == Share {
				t.Absolute = max(t.Absolute, x/100)
			} else {
				t.Relative = max(t.Relative, x/100)
			}
			continue
		}
		x, err := parseValue(part, u)
		if err != nil {
			return t, fmt.Errorf("%w; a tolerance is 2%%, 64MiB, or both with \"or\" between, or off", err)
		}
		t.Absolute = max(t.Absolute, x)
	}
	return t, nil
}

// parseValue reads a figure of a unit.
func parseValue(s string, u Unit) (float64, error) {
	switch u {
	case Share:
		return parseShare(s)
	case Number:
		n, err := strconv.ParseUint(strings.TrimSpace(s), 10, 31)
		if err != nil {
			return 0, fmt.Errorf("%q is not a number of times", s)
		}
		return float64(n), nil
	}
	n, err := simulate.ParseSize(s)
	return float64(n), err
}

// parseShare reads 20% or 0.2.
func parseShare(s string) (float64, error) {
	text, percent := strings.CutSuffix(strings.TrimSpace(s), "%")
	x, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if percent {
		x /= 100
	}
	switch {
	case err != nil || math.IsNaN(x) || x < 0:
		return 0, fmt.Errorf("%q is not a share: write 20%% or 0.2", s)
	case x > 1 && percent:
		return 0, fmt.Errorf("%q is more than all", s)
	case x > 1:
		return 0, fmt.Errorf("%q is not a share: write %s%% or 0.2", s, text)
	}
	return x, nil
}
