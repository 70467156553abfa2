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
	var bestZone, bestLate time.Duration
	overlaps := 0
	whole := inSeconds(s.Points)
	for k := -14 * 4; k <= 12*4; k++ {
		zone := time.Duration(k) * quarter
		f, late := a.fitLate(s.Points, zone, whole)
		if f.samples == 0 {
			continue
		}
		overlaps++
		alike := !f.better(best) && !best.better(f)
		if f.better(best) || alike && zone.Abs() < bestZone.Abs() {
			best, second, bestZone, bestLate = f, best, zone, late
		} else if f.better(second) {
			second = f
		}
	}
	o.Offset = bestZone + bestLate
	zone := "UTC" + showZone(-bestZone)
	switch {
	case overlaps == 0:
		return
	case overlaps == 1:
		o.How, o.Sure = "The log's clock shows "+zone+": in no other zone do the two overlap", true
	case best.quality() > 0.3 && best.gain > 2*second.gain:
		o.How, o.Sure = fmt.Sprintf("The log's clock shows %s: there %.0f %% of the allocator's changes are in the log as well", zone, 100*best.quality()), true
	default:
		o.How = "The log's clock is taken to show " + zone + ", which is not certain; --nvml-offset sets another"
	}
	if bestLate > 0 {
		o.How += fmt.Sprintf("; its times are cut to whole seconds, and fit best %s later", Span(bestLate))
	}
}

// inSeconds says whether all times are whole seconds: cut, not rounded.
func inSeconds(points []trace.Point) bool {
	return !slices.ContainsFunc(points, func(p trace.Point) bool { return p.Time%trace.Time(time.Second) != 0 })
}

// fitLate is the fit in a zone; of times that are cut to seconds, with the part of a second later that fits best.
func (a *aligner) fitLate(points []trace.Point, zone time.Duration, whole bool) (best fitness, late time.Duration) {
	best = a.fit(points, trace.Time(zone), nil)
	for l := 50 * time.Millisecond; whole && l < time.Second; l += 50 * time.Millisecond {
		if f := a.fit(points, trace.Time(zone+l), nil); f.better(best) {
			best, late = f, l
		}
	}
	return best, late
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
	type tried struct {
		at trace.Time
		fitness
	}
	var all []tried
	for offset := from; offset <= to; offset += step {
		f := a.fit(points, offset, nil)
		all = append(all, tried{offset, f})
		if f.better(best) {
			best, at = f, offset
		}
	}
	// Finer, around the best.
	center := at
	for step > 1_000_000 {
		fine := max(step/16, 1_000_000)
		for offset := at - step; offset <= at+step; offset += fine {
			if f := a.fit(s.Points, offset, nil); f.better(best) {
				best, center = f, offset
			}
		}
		at, step = center, fine
	}
	o.Offset = time.Duration(at)
	// Somewhere else the two may fit nearly as well.
	near := 5 * (last - first) / trace.Time(max(1, len(s.Points)))
	rivals := 0
	for _, x := range all {
		if (x.at-at > near || at-x.at > near) && x.below*4 <= x.samples && 10*x.gain > 7*best.gain {
			rivals++
		}
	}
	begins, where := time.Duration(first+at-start), "after"
	if begins < 0 {
		begins, where = -begins, "before"
	}
	o.How = fmt.Sprintf("The log's clock counts from another moment: it is taken to begin %s %s the recording", Span(begins), where)
	if o.Sure = best.quality() > 0.3 && rivals == 0; o.Sure {
		o.How += fmt.Sprintf(", where %.0f %% of the allocator's changes are in the log as well", 100*best.quality())
	} else {
		o.How += ", which is little more than a guess; --nvml-offset sets another"
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
	if length := a.held[len(a.held)-1].at - a.held[0].at; length < last-first && !a.given.HasOffset && a.clock == trace.ClockEpoch &&
		(a.logClock == trace.ClockEpoch || a.logClock == trace.ClockLocal) && a.within(first, last) {
		return fmt.Errorf("no sample of the log lies within the recording, which lasts %s: sample more often (nvidia-smi -lms 50)", Span(time.Duration(length)))
	}
	const form = "2006-01-02 15:04:05"
	show := func(t trace.Time) string { return time.Unix(0, int64(t)).UTC().Format(form) }
	if a.logClock != trace.ClockEpoch && a.logClock != trace.ClockLocal || a.clock != trace.ClockEpoch {
		return errors.New("the log and the recording do not overlap; --nvml-offset says how far the log's clock is behind")
	}
	return fmt.Errorf("the log and the recording do not overlap in any zone: the log is from %s to %s by its clock, the recording from %s to %s UTC; --nvml-offset says how far the log's clock is behind",
		show(first), show(last), show(a.held[0].at), show(a.held[len(a.held)-1].at))
}

// within says whether the log goes over the recording in some zone.
func (a *aligner) within(first, last trace.Time) bool {
	start, end := a.held[0].at, a.held[len(a.held)-1].at
	for k := -14 * 4; k <= 12*4; k++ {
		offset := trace.Time(k) * trace.Time(quarter)
		if first+offset <= start && end <= last+offset {
			return true
		}
	}
	return false
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
