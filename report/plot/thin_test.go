package plot

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestThin draws a line and its thinned form and compares what a column of the picture shows: the least and the most, and
// what the line comes in and goes out with. No extreme is lost, and none is where it was not.
func TestThin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const columns = 20
		end := rapid.Float64Range(0, 1000).Draw(t, "end")
		places := rapid.SliceOfN(rapid.Float64Range(0, end), 1, 400).Draw(t, "places")
		slices.Sort(places)
		full := make([]point, len(places))
		line := thin(0, end, columns)
		for i, x := range places {
			full[i] = point{x, rapid.Int64Range(0, 1<<40).Draw(t, "v")}
			line.add(full[i].x, full[i].v)
		}
		short := line.line()
		if len(short) > 4*(columns+1) {
			t.Fatalf("%d points of %d columns", len(short), columns)
		}
		if !slices.IsSortedFunc(short, func(a, b point) int { return slices.Compare([]float64{a.x}, []float64{b.x}) }) {
			t.Fatalf("not in order: %v", short)
		}
		if got, want := columnsOf(short, end, columns), columnsOf(full, end, columns); !slices.Equal(got, want) {
			t.Fatalf("thinned to\n%v, not\n%v", got, want)
		}
	})
}

// seen is what a column of a picture shows of a line.
type seen struct{ first, low, high, last int64 }

func columnsOf(line []point, end float64, n int) []seen {
	out := make([]seen, n+1)
	for i := range out {
		out[i] = seen{first: -1}
	}
	for _, p := range line {
		k := 0
		if end > 0 {
			k = int(p.x / (end / float64(n)))
		}
		c := &out[k]
		if c.first < 0 {
			*c = seen{p.v, p.v, p.v, p.v}
		}
		c.low, c.high, c.last = min(c.low, p.v), max(c.high, p.v), p.v
	}
	return out
}

// TestThinFew keeps all points where there is room.
func TestThinFew(t *testing.T) {
	line := thin(0, 10, 1000)
	var want []point
	for i := range 11 {
		p := point{float64(i), int64(i * i % 7)}
		want = append(want, p)
		line.add(p.x, p.v)
	}
	if got := line.line(); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
