package simulate

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// Trend is a straight line through values that were taken once a step, drawn so that a few odd ones do not
// bend it: its slope is the median of the slopes between all pairs (Theil and Sen), and whether there is one
// at all is asked of the order of the values alone (Mann and Kendall).
type Trend struct {
	Slope     float64 // bytes a step
	Low, High float64 // bytes a step: 19 in 20 times the true slope lies between
	// Confidence is the probability that values without a trend would not rise (or fall, as Slope says) as
	// consistently as these, from 0 to 1.
	Confidence float64
	Steps      int // values it was made of
}

// Error is the half of the interval that is the greater.
func (t Trend) Error() float64 { return max(t.High-t.Slope, t.Slope-t.Low) }

const (
	inInterval = 0.95 // of the cases the true slope lies between Low and High

	mostRanked = 512 // values that are compared with each other
	mostSloped = 128 // values between which slopes are taken: their number goes with the square
)

// trendOf fits a line to values a step apart.
func trendOf(values []int64) Trend {
	t := Trend{Steps: len(values)}
	if len(values) < 2 {
		return t
	}
	s, deviation := ranked(thinned(len(values), mostRanked), values)
	at := thinned(len(values), mostSloped)
	slopes := make([]float64, 0, len(at)*(len(at)-1)/2)
	for j := range at {
		for i := range j {
			slopes = append(slopes, float64(values[at[j]]-values[at[i]])/float64(at[j]-at[i]))
		}
	}
	slices.Sort(slopes)
	n := len(slopes)
	t.Slope = (slopes[(n-1)/2] + slopes[n/2]) / 2
	_, wide := ranked(at, values)
	half := distuv.UnitNormal.Quantile(1-(1-inInterval)/2) * wide
	low := int(math.Floor((float64(n) - half) / 2))
	t.Low, t.High = slopes[max(low, 0)], slopes[min(n-1-low, n-1)]
	if deviation > 0 {
		z := (math.Abs(s) - 1) / deviation // one less, since it moves in steps of two
		t.Confidence = max(0, distuv.UnitNormal.CDF(z))
		if s*t.Slope < 0 || s == 0 {
			t.Confidence = 0
		}
	}
	return t
}

// thinned gives the indices of at most so many values, evenly spread, the first and last among them.
func thinned(n, most int) []int {
	m := min(n, most)
	at := make([]int, m)
	for i := range at {
		if at[i] = i; m < n {
			at[i] = i * (n - 1) / (m - 1)
		}
	}
	return at
}

// ranked is Kendall's S, the pairs that rise less those that fall, and its standard deviation if there is no
// trend. Ties make it smaller.
func ranked(at []int, values []int64) (s, deviation float64) {
	sorted := make([]int64, len(at))
	for j, b := range at {
		sorted[j] = values[b]
		for _, a := range at[:j] {
			switch {
			case values[b] > values[a]:
				s++
			case values[b] < values[a]:
				s--
			}
		}
	}
	term := func(n float64) float64 { return n * (n - 1) * (2*n + 5) / 18 }
	variance := term(float64(len(at)))
	slices.Sort(sorted)
	for i := 0; i < len(sorted); {
		j := i
		for j < len(sorted) && sorted[j] == sorted[i] {
			j++
		}
		variance -= term(float64(j - i))
		i = j
	}
	return s, math.Sqrt(max(variance, 0))
}

// keepsGrowing says whether values grow all along: not in one leap, and not only in the beginning, as what a
// program sets up in its first steps does.
func keepsGrowing(values []int64) bool {
	n := len(values)
	if n < LeastSteps {
		return false
	}
	total := values[n-1] - values[0]
	if total <= 0 || 4*(values[n-1]-values[n/2]) < total {
		return false
	}
	var leap int64
	for i := 1; i < n; i++ {
		leap = max(leap, values[i]-values[i-1])
	}
	return 2*leap <= total
}
