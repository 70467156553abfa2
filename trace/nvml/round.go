package nvml

import (
	"slices"

	"github.com/vramscope/vramscope/trace"
)

// round deals rows that do not say which device they are of to devices in turn. How many there are shows by the
// times: those of one reading are some milliseconds apart, readings much more.
type round struct {
	size    int
	settled bool
	times   []trace.Time
	n       int
}

// rowsToWatch is after how many rows the number of devices is settled.
const rowsToWatch = 256

// watch notes the time of a row and says whether it has seen enough.
func (r *round) watch(t trace.Time, rows int) bool {
	r.times = append(r.times, t)
	return rows >= rowsToWatch
}

// settle finds the number of devices.
func (r *round) settle() {
	if r.settled {
		return
	}
	r.settled, r.size = true, 1
	if len(r.times) < 2 || r.times[0] == 0 {
		return
	}
	var gaps []trace.Time
	for i := range r.times[1:] {
		gaps = append(gaps, r.times[i+1]-r.times[i])
	}
	sorted := slices.Clone(gaps)
	slices.Sort(sorted)
	largest := sorted[len(sorted)*9/10]
	if most := sorted[len(sorted)-1]; largest*4 < most {
		largest = most // few readings of many devices
	}
	if sorted[0]*4 >= largest {
		if largest == 0 {
			r.size = len(r.times) // all at once
		}
		return // all are alike: one device, or nobody can tell
	}
	var sizes []int
	n := 1
	for _, g := range gaps {
		if g*4 >= largest {
			sizes = append(sizes, n)
			n = 0
		}
		n++
	}
	if len(sizes) == 0 {
		return
	}
	slices.Sort(sizes)
	r.size = max(1, sizes[len(sizes)/2])
}

// next is the position of the next row.
func (r *round) next() int {
	r.settle()
	p := r.n % r.size
	r.n++
	return p
}
