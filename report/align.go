package report

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/vramscope/vramscope/trace"
)

// Aligning a log with a recording.
//
// What a device has in use moves when the allocator takes or gives back memory. So of all offsets the right one is that at
// which the changes of the two cancel: what is left of the log's changes is least, compared to what there was
//
//	gain = Σ |Δused| − Σ |Δused − Δheld|   over neighbouring samples
//
// The most that it can be is Σ |Δheld|. If the log's clock shows the time of an unknown zone, only offsets of whole
// quarters of an hour are tried; if it is of an unknown day, or counts from nowhere, all that let the two overlap.

// aligner tries offsets.
type aligner struct {
	held     []level
	clock    trace.Clock // of the recording
	logClock trace.Clock
	given    LogOptions
}

// fitness is how well a log fits at an offset.
type fitness struct {
	samples int
	gain    int64 // bytes
	moved   int64 // bytes that the allocator took and gave back between the samples
	below   int   // samples at which less was used than held
}

// tolerance is how much less than held may be used at a sample: readings are not of exactly one moment.
const tolerance = 64 * mib

// better says whether a fit speaks more for its offset than another: it has samples of which fewer are impossible, and
// the changes cancel more.
func (f fitness) better(g fitness) bool {
	if (f.samples == 0) != (g.samples == 0) {
		return f.samples > 0
	}
	bad, worse := f.below*4 > f.samples, g.below*4 > g.samples
	if bad != worse {
		return worse
	}
	return f.gain > g.gain
}

// quality is how much of what moved cancels, at most 1.
func (f fitness) quality() float64 {
	if f.moved == 0 {
		return 0
	}
	return float64(f.gain) / float64(f.moved)
}

// try finds the offset of a series and holds it against the recording; nil if the two do not overlap.
func (a *aligner) try(s *trace.Series) (*Outside, fitness) {
	if s.Samples == 0 {
		return nil, fitness{}
	}
	var o Outside
	switch {
	case a.given.HasOffset:
		o.Offset, o.How, o.Sure = a.given.Offset, "The offset of "+showOffset(a.given.Offset)+" was given", true
	case a.clock == trace.ClockEpoch && a.logClock == trace.ClockEpoch:
		o.How, o.Sure = "Both clocks count from the same moment", true
	case a.clock == trace.ClockEpoch && a.logClock == trace.ClockLocal:
		a.zone(s, &o)
	default:
		a.slide(s, &o)
	}
	f := a.fit(s.Points, trace.Time(o.Offset), &o.Points)
	if f.samples == 0 {
		return nil, f
	}
	o.Below = f.below
	return &o, f
}

const quarter = 15 * time.Minute

// zone tries the zones that there are, from 14 hours ahead of UTC to 12 hours behind.
func (a *aligner) zone(s *trace.Series, o *Outside) {
	var best, second fitness
	overlaps := 0
	for k := -14 * 4; k <= 12*4; k++ {
		offset := time.Duration(k) * quarter
		f := a.fit(s.Points, trace.Time(offset), nil)
		if f.samples == 0 {
			continue
		}
		overlaps++
		alike := !f.better(best) && !best.better(f)
		if f.better(best) || alike && offset.Abs() < o.Offset.Abs() {
			best, second, o.Offset = f, best, offset
		} else if f.better(second) {
			second = f
		}
	}
	zone := "UTC" + showZone(-o.Offset)
	switch {
	case overlaps == 0:
	case overlaps == 1:
		o.How, o.Sure = "The log's clock shows "+zone+": in no other zone do the two overlap", true
	case best.quality() > 0.3 && best.gain > 2*second.gain:
		o.How, o.Sure = fmt.Sprintf("The log's clock shows %s: there %.0f %% of the allocator's changes are in the log as well", zone, 100*best.quality()), true
	default:
		o.How = "The log's clock is taken to show " + zone + ", which is not certain; --nvml-offset sets another"
	}
}

// slide tries all offsets that let the two overlap.
func (a *aligner) slide(s *trace.Series, o *Outside) {
	first, last := s.Span()
	start, end := a.held[0].at, a.held[len(a.held)-1].at
	from, to := start-last, end-first
	points := thin(s.Points, 2000)
	const tries = 4000
	step := max((to-from)/tries, 1_000_000)
	var best fitness
	var at trace.Time
	for offset := from; offset <= to; offset += step {
		if f := a.fit(points, offset, nil); f.better(best) {
			best, at = f, offset
		}
	}
	// Finer, around the best.
	for step > 1_000_000 {
		fine := max(step/16, 1_000_000)
		center := at
		for offset := center - step; offset <= center+step; offset += fine {
			if f := a.fit(s.Points, offset, nil); f.better(best) {
				best, at = f, offset
			}
		}
		step = fine
	}
	o.Offset = time.Duration(at)
	switch {
	case best.quality() > 0.3:
		o.Sure = true
		o.How = fmt.Sprintf("The log's times count from another moment: moved by %s, where %.0f %% of the allocator's changes are in the log as well",
			showOffset(o.Offset), 100*best.quality())
	default:
		o.How = fmt.Sprintf("The log's times count from another moment: moved by %s, which is hardly more than a guess; --nvml-offset sets another", showOffset(o.Offset))
	}
}

// thin takes every n-th point so that no more than most are left.
func thin(points []trace.Point, most int) []trace.Point {
	if len(points) <= most {
		return points
	}
	n := (len(points) + most - 1) / most
	var out []trace.Point
	for i := 0; i < len(points); i += n {
		out = append(out, points[i])
	}
	return out
}

// fit holds the samples that lie within the recording against it, and lists them if asked to.
func (a *aligner) fit(points []trace.Point, offset trace.Time, list *[]OutsidePoint) fitness {
	var f fitness
	start, end := a.held[0].at, a.held[len(a.held)-1].at
	i, _ := slices.BinarySearchFunc(points, start-offset, func(p trace.Point, t trace.Time) int {
		if p.Time < t {
			return -1
		}
		return 1
	})
	at := 0
	held := a.held[0].held
	var lastUsed, lastHeld int64
	if i > 0 { // the sample in front of the recording tells what was there before
		lastUsed, lastHeld = points[i-1].Last, held
	}
	for ; i < len(points); i++ {
		t := points[i].Time + offset
		if t > end {
			break
		}
		for at < len(a.held) && a.held[at].at <= t {
			held = a.held[at].held
			at++
		}
		used := points[i].Last
		if f.samples > 0 || i > 0 {
			du, dh := used-lastUsed, held-lastHeld
			f.gain += abs(du) - abs(du-dh)
			f.moved += abs(dh)
		}
		lastUsed, lastHeld = used, held
		f.samples++
		if used < held-tolerance {
			f.below++
		}
		if list != nil {
			*list = append(*list, OutsidePoint{Time: t, Used: used, Held: held})
		}
	}
	return f
}

// nothing says why a log could not be held against a recording.
func (a *aligner) nothing(d *trace.Device) error {
	var first, last trace.Time
	some := false
	for i := range d.Series {
		s := &d.Series[i]
		if s.Quantity != trace.DeviceUsed && s.Quantity != trace.ProcessUsed || s.Samples == 0 {
			continue
		}
		from, to := s.Span()
		if !some || from < first {
			first = from
		}
		last = max(last, to)
		some = true
	}
	if !some {
		return errors.New("the log does not have the memory in use: ask for memory.used")
	}
	const form = "2006-01-02 15:04:05"
	show := func(t trace.Time) string { return time.Unix(0, int64(t)).UTC().Format(form) }
	if a.logClock != trace.ClockEpoch && a.logClock != trace.ClockLocal || a.clock != trace.ClockEpoch {
		return errors.New("the log and the recording do not overlap; --nvml-offset says how far the log's clock is behind")
	}
	return fmt.Errorf("the log and the recording do not overlap in any zone: the log is from %s to %s by its clock, the recording from %s to %s UTC; --nvml-offset says how far the log's clock is behind",
		show(first), show(last), show(a.held[0].at), show(a.held[len(a.held)-1].at))
}

// showOffset shows an offset with its sign.
func showOffset(d time.Duration) string {
	if d < 0 {
		return "-" + Span(-d)
	}
	return "+" + Span(d)
}

// showZone shows the distance of a zone from UTC, "+02:00".
func showZone(d time.Duration) string {
	sign := "+"
	if d < 0 {
		sign, d = "-", -d
	}
	return fmt.Sprintf("%s%02d:%02d", sign, int(d.Hours()), int(d.Minutes())%60)
}
