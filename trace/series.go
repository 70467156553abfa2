package trace

import "slices"

// Quantity says what a series measures.
type Quantity uint8

// The quantities. Those of memory are in bytes, the others in percent.
const (
	// DeviceUsed is what the driver calls used: of all processes, with contexts and whatever else.
	DeviceUsed Quantity = iota
	// DeviceFree is what the driver could still give.
	DeviceFree
	// DeviceTotal is what the device has.
	DeviceTotal
	// DriverReserved is what the driver and the device keep for themselves: total = reserved + used + free.
	DriverReserved
	// ProcessUsed is what one process has on the device, as the driver tells.
	ProcessUsed
	// BAR1Used is address space of the device that the host has mapped.
	BAR1Used
	// Allocated is what an allocator has handed out.
	Allocated
	// AllocatorReserved is what an allocator holds from the driver.
	AllocatorReserved
	// Requested is what an allocator was asked for, before rounding.
	Requested
	// AllocatorFree is what an allocator could still hand out.
	AllocatorFree
	// LargestFree is the largest block that an allocator could still hand out.
	LargestFree
	// Stranded is what an allocator holds and does not use, in segments that something in use keeps.
	Stranded
	// LifetimePeak is the most that an allocator had handed out, ever.
	LifetimePeak
	// OfCategory is what one category of tensors takes.
	OfCategory
	// NetOfOperator is what an operator allocated and did not free itself, in all of its calls.
	NetOfOperator
	// InstanceUsed is what is used of a part of a device that was split off (MIG).
	InstanceUsed
	// Fragmentation is the share of an allocator's free memory that lies outside of the largest free block.
	Fragmentation
	// Busy is the share of time in which the device worked.
	Busy
	numQuantities
)

var quantityNames = [numQuantities]string{
	"device_used", "device_free", "device_total", "driver_reserved", "process_used", "bar1_used",
	"allocated", "reserved", "requested", "allocator_free", "largest_free", "stranded", "lifetime_peak", "category", "net_of_operator",
	"instance_used", "fragmentation", "busy",
}

// String is the name that programs know the quantity by.
func (q Quantity) String() string {
	if q < numQuantities {
		return quantityNames[q]
	}
	return "unknown"
}

// Unit is "bytes" or "percent".
func (q Quantity) Unit() string {
	if q == Busy || q == Fragmentation {
		return "percent"
	}
	return "bytes"
}

// Series is a quantity that was sampled. It takes a bounded amount of memory however many samples there
// are: equal neighbours are kept as the first and the last of them, and once there are too many points,
// neighbouring ones are taken together. The extremes stay exact.
type Series struct {
	Quantity Quantity
	Name     string // of the process, category or operator; empty for the device as a whole
	PID      int64  // of the process, 0 for none
	Points   []Point
	Samples  int // those that had a value

	Min, Max  int64
	MaxAt     Time
	Backwards int // samples whose time lay before that of the one in front; they got its time
	limit     int // most points, 0 for maxPoints
	perPoint  int // samples that a point may stand for
	inLast    int // samples that the last point stands for
}

// Point is the value of a series from Time on. One that stands for several samples has their extremes and
// the last of them.
type Point struct {
	Time            Time
	Low, High, Last int64
}

// maxPoints is how many points a series has at most unless Limit says otherwise: more than any screen has columns.
const maxPoints = 1 << 14

// Limit sets how many points the series may have, at least 2, for where there are many of them.
func (s *Series) Limit(points int) { s.limit = max(points, 2) &^ 1 }

func (s *Series) most() int {
	if s.limit == 0 {
		return maxPoints
	}
	return s.limit
}

// Add appends a sample. Times should not decrease.
func (s *Series) Add(t Time, v int64) {
	if s.Samples == 0 {
		s.Min, s.Max, s.MaxAt, s.perPoint = v, v, t, 1
	}
	s.Samples++
	if n := len(s.Points); n > 0 && t < s.Points[n-1].Time {
		t = s.Points[n-1].Time
		s.Backwards++
	}
	s.Min = min(s.Min, v)
	if v > s.Max {
		s.Max, s.MaxAt = v, t
	}
	n := len(s.Points)
	if n >= 2 && s.Points[n-1].isFlat(v) && s.Points[n-2].isFlat(v) {
		s.Points[n-1].Time = t
		return
	}
	if n > 0 && s.inLast < s.perPoint {
		s.Points[n-1].join(Point{t, v, v, v})
		s.inLast++
		return
	}
	if n == s.most() {
		s.halve()
	}
	s.Points = append(s.Points, Point{t, v, v, v})
	s.inLast = 1
}

func (p *Point) isFlat(v int64) bool { return p.Low == v && p.High == v }

func (p *Point) join(q Point) {
	p.Low, p.High, p.Last = min(p.Low, q.Low), max(p.High, q.High), q.Last
}

// halve takes neighbouring points together.
func (s *Series) halve() {
	half := len(s.Points) / 2
	for i := range half {
		p := s.Points[2*i]
		p.join(s.Points[2*i+1])
		s.Points[i] = p
	}
	s.Points = s.Points[:half]
	s.perPoint *= 2
}

// Coarse is how many samples a point of the series may stand for; 1 if all are there.
func (s *Series) Coarse() int { return max(1, s.perPoint) }

// SetCoarse says how many samples a point of a series may stand for whose points come from elsewhere than Add.
func (s *Series) SetCoarse(samples int) { s.perPoint = samples }

// At is the point that holds at a time: the last one that is not after it; ok is false before the first.
func (s *Series) At(t Time) (p Point, ok bool) {
	i, found := slices.BinarySearchFunc(s.Points, t, func(p Point, t Time) int {
		switch {
		case p.Time < t:
			return -1
		case p.Time > t:
			return 1
		}
		return 0
	})
	if found {
		for i+1 < len(s.Points) && s.Points[i+1].Time == t {
			i++
		}
		return s.Points[i], true
	}
	if i == 0 {
		return Point{}, false
	}
	return s.Points[i-1], true
}

// Span is the time of the first and the last sample.
func (s *Series) Span() (first, last Time) {
	if len(s.Points) == 0 {
		return 0, 0
	}
	return s.Points[0].Time, s.Points[len(s.Points)-1].Time
}

// Last is the value of the last sample.
func (s *Series) Last() int64 {
	if len(s.Points) == 0 {
		return 0
	}
	return s.Points[len(s.Points)-1].Last
}

// FindSeries is the first series of a quantity, nil if there is none.
func FindSeries(list []Series, q Quantity) *Series {
	for i := range list {
		if list[i].Quantity == q {
			return &list[i]
		}
	}
	return nil
}
