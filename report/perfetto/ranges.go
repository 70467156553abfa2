package perfetto

import (
	"cmp"
	"slices"

	"github.com/vramscope/vramscope/trace"
)

// Annotations are ranges that a program named, from several threads that nobody tells apart, so they need not lie
// within each other. A thread of the trace event format wants that, so they are laid out in lanes: each is put into
// the first where it lies within, or behind, what is there.

// span is a range with a name.
type span struct {
	name     string
	from, to int64 // nanoseconds
}

// spansOf pairs the edges of markers, which are in order of time. An end belongs to the latest start of its name; what
// has no end reaches to the end of the recording, and an end without a start began before it. Points come apart.
func spansOf(marks []trace.Marker, zero trace.Time, end int64) (spans, points []span) {
	open := map[string][]int{}
	for _, m := range marks {
		at := max(int64(m.Time-zero), 0) // a marker without a time was there from the start
		switch m.Edge {
		case trace.EdgePoint:
			points = append(points, span{m.Name, at, at})
		case trace.EdgeStart:
			open[m.Name] = append(open[m.Name], len(spans))
			spans = append(spans, span{m.Name, at, max(at, end)})
		case trace.EdgeEnd:
			if list := open[m.Name]; len(list) > 0 {
				spans[list[len(list)-1]].to = at
				open[m.Name] = list[:len(list)-1]
				continue
			}
			spans = append(spans, span{m.Name, 0, at})
		}
	}
	return spans, points
}

// most keeps the n that last longest.
func most(spans []span, n int) (kept []span, left int) {
	if len(spans) <= n {
		return spans, 0
	}
	slices.SortStableFunc(spans, func(a, b span) int { return cmp.Compare(b.to-b.from, a.to-a.from) })
	return spans[:n], len(spans) - n
}

// lanesOf lays ranges out. What fits into none of the lanes is left out.
func lanesOf(spans []span, lanes int) (out [][]span, left int) {
	slices.SortStableFunc(spans, func(a, b span) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(b.to, a.to)) })
	var open [][]int64 // by lane: the ends of the ranges that are not over, the innermost last
place:
	for _, s := range spans {
		for i := range out {
			ends := open[i]
			for len(ends) > 0 && ends[len(ends)-1] <= s.from {
				ends = ends[:len(ends)-1]
			}
			open[i] = ends
			if len(ends) == 0 || ends[len(ends)-1] >= s.to {
				open[i] = append(ends, s.to)
				out[i] = append(out[i], s)
				continue place
			}
		}
		if len(out) == lanes {
			left++
			continue
		}
		out = append(out, []span{s})
		open = append(open, []int64{s.to})
	}
	return out, left
}

func sortMarkers(marks []trace.Marker) {
	slices.SortStableFunc(marks, func(a, b trace.Marker) int { return cmp.Compare(a.Time, b.Time) })
}
