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

// mostStride is how many events there are at most between two whose times are told.
const mostStride = 64

// packClocks packs the times of as many events as there is room for: of every event, or every second, or fourth.
func packClocks(clocks []*clock, room int) (*packing, int) {
	for stride := 1; ; stride *= 2 {
		p := newPacking()
		for _, c := range clocks {
			var ticks []uint64
			last := c.start
			for i := 0; i < c.events.Len(); i += stride {
				t := c.events.At(i).Time
				ticks = append(ticks, zigzag(int64(t-last)/c.tick))
				last = t
			}
			add(p, c.prefix+"time", ticks)
		}
		p.done()
		if p.size() <= room || stride == mostStride {
			return p, stride
		}
	}
}
