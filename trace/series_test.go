package trace

import (
	"testing"

	"pgregory.net/rapid"
)

// However many samples there are, a series is short, its extremes are exact, and every point covers its samples.
func TestSeries(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s Series
		limit := rapid.IntRange(2, 40).Draw(t, "limit")
		s.Limit(limit)
		n := rapid.IntRange(1, 400).Draw(t, "n")
		times, values := make([]Time, n), make([]int64, n)
		var now Time
		least, most := int64(0), int64(0)
		for i := range n {
			now += Time(rapid.IntRange(0, 3).Draw(t, "after"))
			values[i] = rapid.Int64Range(-2, 5).Draw(t, "value")
			times[i] = now
			s.Add(now, values[i])
			if i == 0 {
				least, most = values[0], values[0]
			}
			least, most = min(least, values[i]), max(most, values[i])
		}
		if len(s.Points) > max(limit, 2) || s.Samples != n || s.Min != least || s.Max != most || s.Last() != values[n-1] || s.Backwards != 0 {
			t.Fatalf("%d points of at most %d, %+v", len(s.Points), limit, s)
		}
		first, last := s.Span()
		if first != times[0] || s.Coarse() == 1 && last != times[n-1] {
			t.Fatalf("from %d to %d, want %d to %d", first, last, times[0], times[n-1])
		}
		for i, at := range times {
			p, ok := s.At(at)
			if !ok {
				t.Fatalf("nothing at %d", at)
			}
			if s.Coarse() == 1 && (i+1 == n || times[i+1] > at) && p.Last != values[i] {
				t.Fatalf("at %d: %+v, want %d", at, p, values[i])
			}
		}
		for i := 1; i < len(s.Points); i++ {
			if s.Points[i].Time < s.Points[i-1].Time {
				t.Fatal("points are not in the order of their times")
			}
		}
		if _, ok := s.At(first - 1); ok {
			t.Fatal("a value before the first sample")
		}
	})
}

func TestSeriesBackwards(t *testing.T) {
	var s Series
	s.Add(10, 1)
	s.Add(5, 2)
	s.Add(12, 2)
	if s.Backwards != 1 || s.Points[1].Time != 10 || len(s.Points) != 3 {
		t.Errorf("%+v", s)
	}
}
