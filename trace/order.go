package trace

import (
	"fmt"
	"slices"
	"sort"
)

// jitter is how far time may run back between two events without meaning anything: clocks are converted
// when a recording is written, and neighbours may change places by microseconds.
const jitter = Time(1_000_000)

// maxReversals is how often time may run back for the reason that CutStale knows.
const maxReversals = 1

// CutStale brings the events of a ring buffer back into the order in which they happened, and drops the
// oldest where something may be missing.
//
// A ring whose capacity was changed while it was recording comes out in pieces: a shrunk one has the
// newest events around or before a piece of stale ones, a grown one has a piece of the middle behind the
// newest. In both the pieces can be sorted by time, and events may be missing only behind the oldest
// piece; so that one goes. Times that run back in any other way are told, and the order of the file is kept.
func CutStale(d *Device) {
	at, n := reversals(&d.Events)
	if n == 0 {
		return
	}
	w := Warning{Code: "time-runs-back", Count: n, First: at}
	keep := []span(nil)
	if n <= maxReversals {
		keep = unwind(&d.Events, at)
	}
	if keep == nil {
		w.Message = "times run back between events: the order of the file is kept, do not trust the times"
		d.Warnings = append(d.Warnings, w)
		return
	}
	var sorted Events
	for _, s := range keep {
		for i := s.from; i < s.to; i++ {
			sorted.Append(*d.Events.At(i))
		}
	}
	w.Message = fmt.Sprintf("times run back where the recording's ring buffer was resized: %d stale events of %d were left out",
		d.Events.Len()-sorted.Len(), d.Events.Len())
	d.Events = sorted
	w.First = 0
	d.Warnings = append(d.Warnings, w)
}

type span struct{ from, to int }

// reversals counts the places where time runs back, and gives the first. Events without a time are
// passed over.
func reversals(l *Events) (first, n int) {
	first = -1
	var latest Time
	for i, e := range l.All() {
		if e.Time == 0 {
			continue
		}
		if e.Time < latest-jitter {
			if n == 0 {
				first = i
			}
			n++
		}
		latest = e.Time
	}
	return first, n
}

// unwind finds what to keep of a list in which time runs back once, at event cut: one of its two parts
// lies in a gap of the other. It returns nil if they interleave.
func unwind(l *Events, cut int) []span {
	n := l.Len()
	time := func(i int) Time { return l.At(i).Time }
	// The part behind the cut lies in a gap of the part before it: it is the middle of a ring that grew,
	// or, if it is older than everything, what was stale in one that shrank.
	first, last := time(cut), time(n-1)
	p := sort.Search(cut, func(i int) bool { return time(i) >= last })
	if p == 0 {
		return []span{{0, cut}}
	}
	if time(p-1) <= first {
		return []span{{cut, n}, {p, cut}}
	}
	// Or the other way round: stale events, then the newest, behind those in the middle.
	first, last = time(0), time(cut-1)
	p = cut + sort.Search(n-cut, func(i int) bool { return time(cut+i) >= last })
	if p > cut && time(p-1) <= first {
		return slices.DeleteFunc([]span{{0, cut}, {p, n}}, func(s span) bool { return s.from == s.to })
	}
	return nil
}
