package cuda

import (
	"math/bits"
	"time"
)

// Timings are distributions of how long calls took.
type Timings [kinds]Timing

// Timing is the distribution of one kind of call: exact in number, sum and greatest, and to within 1/64 in
// between. It keeps counts, not values, in bins of which there are 64 to each power of two.
type Timing struct {
	Calls  int64
	Failed int64 // those of Calls that the driver refused
	Total  time.Duration
	Max    time.Duration
	bins   []int64
}

const binBits = 6

func (t *Timings) add(ops []Op) {
	for i := range ops {
		if op := &ops[i]; op.Result != NotMade && op.Kind < kinds {
			t[op.Kind].Add(time.Duration(op.Nanos), op.Result != 0)
		}
	}
}

// Add counts a call.
func (t *Timing) Add(d time.Duration, failed bool) {
	t.Calls++
	if failed {
		t.Failed++
	}
	t.Total += d
	t.Max = max(t.Max, d)
	b := bin(d)
	for len(t.bins) <= b {
		t.bins = append(t.bins, make([]int64, b+1-len(t.bins))...)
	}
	t.bins[b]++
}

// bin is the number of the bin of a duration: itself below 64, then 64 to each power of two.
func bin(d time.Duration) int {
	n := uint64(max(d, 0))
	shift := bits.Len64(n) - 1 - binBits
	if shift <= 0 {
		return int(n)
	}
	return shift<<binBits + int(n>>shift)
}

// middle is the middle of a bin.
func middle(b int) time.Duration {
	shift := b>>binBits - 1
	if shift <= 0 {
		return time.Duration(b)
	}
	low := uint64(b-shift<<binBits) << shift
	return time.Duration(low + 1<<shift/2)
}

// Quantile is the duration that a share of the calls did not exceed: 0.5 is the median. It is 0 without
// calls.
func (t *Timing) Quantile(share float64) time.Duration {
	rank := int64(share * float64(t.Calls))
	if float64(rank) < share*float64(t.Calls) || rank == 0 {
		rank++
	}
	for b, n := range t.bins {
		if rank -= n; rank <= 0 {
			return min(middle(b), t.Max)
		}
	}
	return t.Max
}
