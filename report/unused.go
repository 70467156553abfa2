package report

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/allocators"
	"github.com/vramscope/vramscope/simulate"
	"github.com/vramscope/vramscope/trace"
)

// UsePoint is what was in use and what was not after one event. Where Known, and all in bytes:
//
//	Reserved = Allocated + Pending + Cached + Stranded
type UsePoint struct {
	Event     int // -1 for before the first
	Time      trace.Time
	Allocated int64
	Reserved  int64
	// Known says whether the recording keeps to the model's rules then, so that what follows is known.
	Known                    bool
	allocators.Fragmentation       // Largest is 0 but for the marked points
	Private                  int64 // of what is reserved, held for private pools
	Mark                     Mark
}

// Mark says why a point is there.
type Mark uint8

// The marks, which may be joined.
const (
	MarkPeakAllocated Mark = 1 << iota
	MarkPeakReserved
	MarkOOM
)

// String is what programs know the marks by, joined by a plus.
func (m Mark) String() string {
	var names []string
	for i, name := range []string{"peak_allocated", "peak_reserved", "oom"} {
		if m>>i&1 != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, "+")
}

const (
	useBuckets   = 256 // parts of a recording, of its events and of its time, of which the most and the least in use are kept
	mostMarkOOMs = 64
)

// uses folds what was in use over time into a bounded number of points. It cuts a recording into so many equal parts by
// its events and as many by its time, and of what lies between two cuts it keeps the points after which the most and the
// least was allocated: no peak is lost however long a recording is, nor what happens in little of its time, or seldom.
type uses struct {
	width     int        // events in a bucket
	start     trace.Time // of the first event
	duration  trace.Time // of a bucket
	bucket    [2]int     // by event and by time
	behind    int        // events from this on
	after     trace.Time // and from this time on are not of the bucket
	low, high UsePoint
	some      bool
	points    []UsePoint
	marked    []UsePoint // of the reserved peak, and of failures
	failures  int
}

func newUses(events *trace.Events) *uses {
	n := events.Len()
	u := &uses{width: max(1, (n+useBuckets-1)/useBuckets), duration: 1}
	if n > 0 {
		u.start = events.At(0).Time
		u.duration = max(1, (events.At(n-1).Time-u.start)/useBuckets)
	}
	return u
}

// pointOf is the point after an event.
func pointOf(i int, e *trace.Event, now *simulate.Now) UsePoint {
	p := UsePoint{Event: i, Time: e.Time, Allocated: now.Allocated, Reserved: now.Reserved}
	if m := now.Model; m != nil && m.Allocated() == now.Allocated && m.Reserved() == now.Reserved {
		p.Known, p.Fragmentation, p.Private = true, m.Unused(), m.Private()
	}
	return p
}

// add looks at an event. In the middle of a request the model is ahead of the recording: there is nothing to see.
func (u *uses) add(i int, e *trace.Event, now *simulate.Now) {
	if i >= u.behind || e.Time >= u.after { // there are two divisions in it, and few events that need them
		at := u.bucket
		at[0] = i / u.width
		at[1] = max(at[1], min(int((e.Time-u.start)/u.duration), useBuckets)) // threads may note their events late
		if at != u.bucket {
			u.settle()
			u.bucket = at
		}
		u.behind, u.after = (at[0]+1)*u.width, u.start+trace.Time(at[1]+1)*u.duration
		if at[1] == useBuckets {
			u.after = math.MaxInt64
		}
	}
	if e.Op == trace.OpOOM && u.failures < mostMarkOOMs {
		u.failures++
		u.mark(i, e, now, MarkOOM)
	}
	higher := !u.some || now.Allocated > u.high.Allocated
	if !higher && now.Allocated >= u.low.Allocated && u.high.Known {
		return
	}
	p := pointOf(i, e, now)
	if higher || !u.high.Known && p.Known && p.Allocated == u.high.Allocated {
		u.high = p
	}
	if !u.some || now.Allocated < u.low.Allocated {
		u.low = p
	}
	u.some = true
}

// mark keeps a point for what happened there.
func (u *uses) mark(i int, e *trace.Event, now *simulate.Now, m Mark) {
	p := pointOf(i, e, now)
	if p.Known {
		p.Fragmentation = now.Model.Fragmentation()
	}
	p.Mark = m
	u.marked = append(u.marked, p)
}

func (u *uses) settle() {
	if !u.some {
		return
	}
	first, second := u.low, u.high
	if first.Event > second.Event {
		first, second = second, first
	}
	u.points = append(u.points, first)
	if second.Event != first.Event {
		u.points = append(u.points, second)
	}
	u.some = false
}

// over gives all points in order.
func (u *uses) over(d *Device) []UsePoint {
	u.settle()
	points := append(u.points, u.marked...)
	for _, at := range []struct {
		Peak
		Mark
	}{{d.PeakAllocated, MarkPeakAllocated}, {d.PeakReserved, MarkPeakReserved}} {
		p := UsePoint{Event: at.Event, Time: at.Time, Allocated: at.Allocated, Reserved: at.Reserved, Mark: at.Mark}
		if l := at.Layout; l != nil {
			p.Known, p.Fragmentation, p.Private = true, l.Fragmentation, l.Private
		}
		points = append(points, p)
	}
	slices.SortStableFunc(points, func(a, b UsePoint) int { return cmp.Compare(a.Event, b.Event) })
	var out []UsePoint
	for _, p := range points {
		n := len(out)
		if n == 0 || out[n-1].Event != p.Event {
			out = append(out, p)
			continue
		}
		mark := out[n-1].Mark | p.Mark
		if better := !out[n-1].Known && p.Known || p.Largest > out[n-1].Largest; better {
			out[n-1] = p
		}
		out[n-1].Mark = mark
	}
	return out
}

// fewer leaves about so many of the points, besides those that are marked: of those next to each other the one with the
// most allocated.
func fewer(points []UsePoint, most int) []UsePoint {
	if len(points) <= most {
		return points
	}
	var out []UsePoint
	for k := range most {
		group := points[k*len(points)/most : (k+1)*len(points)/most]
		high := 0
		for i := range group {
			if group[i].Allocated > group[high].Allocated {
				high = i
			}
		}
		for i := range group {
			if i == high || group[i].Mark != 0 {
				out = append(out, group[i])
			}
		}
	}
	return out
}
