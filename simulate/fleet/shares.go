package fleet

import (
	"math"
	"slices"
)

// Shares is how a share, from 0 to 1, was distributed: a list of steps and of how many parts in a million lay in
// each, in the order of the steps. A share is known to half a step, an absolute error of 1/256.
type Shares [][2]int64

const (
	shareSteps = 128
	million    = 1_000_000
)

// Counter counts shares, each with a weight.
type Counter struct{ weight [shareSteps]int64 }

// Add counts part of whole.
func (c *Counter) Add(part, whole, weight int64) {
	if whole <= 0 || part < 0 || part > whole || weight <= 0 {
		return
	}
	at := int(float64(part) / float64(whole) * shareSteps)
	c.weight[min(at, shareSteps-1)] += weight
}

// Shares is what was counted. The parts add up to a million; nil if nothing was counted.
func (c *Counter) Shares() Shares {
	var total float64
	for _, w := range c.weight {
		total += float64(w)
	}
	if total == 0 {
		return nil
	}
	var out Shares
	var sum float64
	var given int64
	for i, w := range c.weight {
		sum += float64(w)
		// What is given so far is the rounded part of what was counted so far, so that rounding never adds up.
		if n := int64(sum/total*million+0.5) - given; n > 0 {
			out = append(out, [2]int64{int64(i), n})
			given += n
		}
	}
	return out
}

// Sum adds distributions up, each with the same weight.
func Sum(list ...Shares) Shares {
	var total [shareSteps]int64
	for _, s := range list {
		for _, p := range s {
			if p[0] >= 0 && p[0] < shareSteps && p[1] > 0 {
				total[p[0]] += p[1]
			}
		}
	}
	var out Shares
	for i, n := range total {
		if n > 0 {
			out = append(out, [2]int64{int64(i), n})
		}
	}
	return out
}

// Quantile is the share that a part q of all lies at or below, in the middle of its step; false if there is none.
func (s Shares) Quantile(q float64) (float64, bool) {
	var total, below int64
	for _, p := range s {
		total += p[1]
	}
	if total <= 0 {
		return 0, false
	}
	for _, p := range s {
		if below += p[1]; float64(below) >= q*float64(total) {
			return middle(p[0]), true
		}
	}
	return middle(s[len(s)-1][0]), true
}

func middle(step int64) float64 { return (float64(step) + 0.5) / shareSteps }

// Quantile is the least value of a sorted list that a part q of all values do not exceed; 0 for an empty list.
func Quantile(sorted []int64, q float64) int64 {
	n := len(sorted)
	if n == 0 {
		return 0
	}
	i := int(math.Ceil(q*float64(n)-1e-9)) - 1
	return sorted[min(max(i, 0), n-1)]
}

// Median is the middle of values, the mean of the two middle ones if their number is even.
func Median(values []int64) int64 {
	v := slices.Sorted(slices.Values(values))
	n := len(v)
	if n == 0 {
		return 0
	}
	a, b := v[(n-1)/2], v[n/2]
	return a + (b-a)/2
}
