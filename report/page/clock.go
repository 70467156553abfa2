package page

import "github.com/vramscope/vramscope/trace"

// clock is when the events of a device were, as ticks since the first.
type clock struct {
	prefix string
	events *trace.Events
	start  trace.Time
	tick   int64 // nanoseconds
}

// coarse is how many nanoseconds the clocks of most recorders go by.
const coarse = 1000

func newClock(dev *trace.Device, prefix string) *clock {
	c := &clock{prefix, &dev.Events, dev.Events.At(0).Time, coarse}
	for _, e := range c.events.All() {
		if (e.Time-c.start)%coarse != 0 {
			c.tick = 1
			break
		}
	}
	return c
}

// hasTimes says whether the events of a device have times.
func hasTimes(t *trace.Trace, dev *trace.Device) bool {
	n := dev.Events.Len()
	return t.Source.Clock != trace.ClockNone && n > 0 && dev.Events.At(0).Time != 0 && dev.Events.At(n-1).Time > dev.Events.At(0).Time
}

// clocks are those of a page. They are packed while the rest is made.
type clocks struct {
	list []*clock // by device, nil for one without times
	all  chan *packing
}

func packClocks(t *trace.Trace, devices []*trace.Device) *clocks {
	c := &clocks{list: make([]*clock, len(devices)), all: make(chan *packing, 1)}
	for i, dev := range devices {
		if hasTimes(t, dev) {
			c.list[i] = newClock(dev, prefixOf(i))
		}
	}
	go func() { c.all <- c.pack(1) }()
	return c
}

// pack packs the times of one event in so many.
func (c *clocks) pack(stride int) *packing {
	p := newPacking()
	for _, c := range c.list {
		if c == nil {
			continue
		}
		ticks := make([]uint64, 0, c.events.Len()/stride+1)
		last := c.start
		for i := 0; i < c.events.Len(); i += stride {
			t := c.events.At(i).Time
			ticks = append(ticks, zigzag(int64(t-last)/c.tick))
			last = t
		}
		add(p, c.prefix+"time", ticks)
	}
	p.done()
	return p
}

// mostStride is how many events there are at most from one whose time is told to the next.
const mostStride = 64

// into gives the times of as many events as there is room for: of every event, or every second, or fourth.
func (c *clocks) into(room int) (p *packing, stride int) {
	p, stride = <-c.all, 1
	for p.size() > room && stride < mostStride {
		for twice := stride; stride < mostStride && (stride == twice || p.size()*twice/stride > room); {
			stride *= 2
		}
		p = c.pack(stride)
	}
	return p, stride
}
