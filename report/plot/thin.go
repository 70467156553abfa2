package plot

import "cmp"

// point is a value from a place of the horizontal axis on.
type point struct {
	x float64
	v int64
}

// thinned is a line of steps with many points, brought down to what a picture can show: of all that fall into
// one column it keeps the first, the least, the most and the last. A picture of it looks the same, and has
// every extreme at its place, however many events there are.
type thinned struct {
	from, width float64 // of a column
	points      []point
	now         int // the column that is being filled
	filled      int // its points so far
	n           int // how many were added, which orders them
	first, last ordered
	low, high   ordered
}

type ordered struct {
	point
	n int
}

// thin makes an empty line from one place to another that has so many columns.
func thin(from, to float64, columns int) *thinned {
	return &thinned{from: from, width: max(to-from, 0) / float64(columns), now: -1}
}

// add appends a point. Places do not decrease.
func (t *thinned) add(x float64, v int64) {
	column := 0
	if t.width > 0 {
		column = int((x - t.from) / t.width)
	}
	p := ordered{point{x, v}, t.n}
	t.n++
	if column != t.now || t.filled == 0 {
		t.flush()
		t.now = column
		t.first, t.low, t.high = p, p, p
	}
	t.filled++
	t.last = p
	if v < t.low.v {
		t.low = p
	}
	if v > t.high.v {
		t.high = p
	}
}

// flush takes over the column that is being filled.
func (t *thinned) flush() {
	if t.filled == 0 {
		return
	}
	middle := []ordered{t.low, t.high}
	if cmp.Less(t.high.n, t.low.n) {
		middle[0], middle[1] = middle[1], middle[0]
	}
	at := -1
	for _, p := range []ordered{t.first, middle[0], middle[1], t.last} {
		if p.n > at {
			t.points = append(t.points, p.point)
			at = p.n
		}
	}
	t.filled = 0
}

// line is what was kept.
func (t *thinned) line() []point {
	t.flush()
	return t.points
}
