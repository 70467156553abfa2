package plot

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/trace"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// columns is how many columns of a plot lines are thinned to: about what a picture of the usual size has.
const columns = 1000

// across is how a recording is laid along the horizontal axis: by time, or by the number of the event.
type axis struct {
	byEvent     bool
	low, high   float64 // the part that is drawn
	crowded     bool    // it is by event since time would show little
	start, last trace.Time
	events      int
	unit        time.Duration
	name        string // of the unit
}

// By says what the horizontal axis counts.
type By uint8

// The ways to lay out a recording: by time, by event, or by that of the two which shows more of it.
const (
	ByEither By = iota
	ByTime
	ByEvent
)

// axisOf lays out a device's events, those that the analysis was asked for. Where a file has no times, it is by event.
func axisOf(a *report.Analysis, d *trace.Device, o report.Options, by By) axis {
	x := axis{byEvent: by == ByEvent, events: d.Events.Len()}
	if x.events > 0 {
		x.start, x.last = d.Events.At(0).Time, d.Events.At(0).Time
	}
	for _, e := range d.Events.All() {
		x.last = max(x.last, e.Time)
	}
	if a.Trace.Source.Clock == trace.ClockNone || x.last == x.start {
		x.byEvent = true
	} else if by == ByEither {
		x.byEvent = crowded(d, o)
		x.crowded = x.byEvent
	}
	x.unit, x.name = timeUnit(time.Duration(x.last - x.start))
	x.high = x.end()
	if from := min(o.From, x.events-1); from > 0 {
		x.low = x.at(from, d.Events.At(from).Time)
	}
	if to := o.To - 1; to >= 0 && to < x.events-1 {
		x.high = x.at(to, d.Events.At(to).Time)
	}
	if x.high <= x.low { // all at one time
		x.low, x.high = 0, x.end()
	}
	return x
}

// ending says where the right edge of the plot is.
func (x *axis) ending() string {
	switch {
	case x.high >= x.end():
		return "at the end"
	case x.byEvent:
		return "at event " + report.Count(int(x.high)-1)
	}
	return "at +" + report.Span(time.Duration(x.high*float64(x.unit)))
}

// shows says whether a place is in the part that is drawn.
func (x *axis) shows(at float64) bool { return at >= x.low && at <= x.high }

// crowded says whether half of the events lie in so little of their time that nothing could be told apart there.
func crowded(d *trace.Device, o report.Options) bool {
	from, to := max(0, o.From), d.Events.Len()
	if o.To > 0 {
		to = min(to, o.To)
	}
	half := (to - from) / 2
	if half <= 0 {
		return false
	}
	span := d.Events.At(to-1).Time - d.Events.At(from).Time
	for i := from + half; i < to; i++ {
		if (d.Events.At(i).Time-d.Events.At(i-half).Time)*10 < span {
			return true
		}
	}
	return false
}

// at is the place of an event; -1 is before the first.
func (x *axis) at(event int, t trace.Time) float64 {
	if x.byEvent {
		return float64(event + 1)
	}
	return float64(max(t, x.start)-x.start) / float64(x.unit)
}

// end is the place where the recording ends.
func (x *axis) end() float64 {
	if x.byEvent {
		return float64(max(x.events, 1))
	}
	return float64(x.last-x.start) / float64(x.unit)
}

// mark writes the axis.
func (x *axis) mark(a *plot.Axis) {
	a.Min, a.Max = x.low, x.high
	if x.byEvent {
		a.Label.Text = "events"
		a.Tick.Marker = decimalTicks{most: 8, show: showCount}
		return
	}
	a.Label.Text = fmt.Sprintf("time since the first event (%s)", x.name)
	a.Tick.Marker = decimalTicks{most: 10, show: showDecimal}
}

// when says at which place of the axis an event was, in words.
func (x *axis) when(event int, t trace.Time) string {
	switch {
	case event < 0:
		return "before recording began"
	case x.byEvent:
		return "event " + report.Count(event)
	}
	return "+" + report.Span(time.Duration(t-x.start))
}

// Timeline draws what was allocated and reserved over a recording, with the peaks, the failures and the steps.
// Of a recording of which a part was analysed, that part is drawn.
func Timeline(a *report.Analysis, d *report.Device, o report.Options, by By) (*Panel, error) {
	if d.Follow == nil {
		return sampled(a, d)
	}
	if d.Trace.Events.Len() == 0 {
		return nil, fmt.Errorf("the file has no events that could be drawn over time%s", instead(a))
	}
	x := axisOf(a, d.Trace, o, by)
	p := newPlot()
	x.mark(&p.X)
	allocated, reserved := levelLines(d, &x)
	held := d.TellsReserved()
	most := d.PeakAllocated.Allocated
	for _, l := range append(allocated, reserved...) {
		most = max(most, l.v)
	}
	panel := &Panel{Plot: p, Caption: "Memory over time", over: true}
	if x.byEvent {
		panel.Caption = "Memory event by event"
		if x.crowded {
			panel.Caption += " (half of the events are in a tenth of the time)"
		}
	}
	top := float64(most)
	limit := d.Follow.Bounds.Limit
	if limit > 0 && float64(limit) <= 1.6*top {
		top = max(top, float64(limit))
	}
	vertical(&p.Y, top)
	p.Add(levels{}, stepBands{d, &x})
	if limit > 0 && float64(limit) <= top {
		p.Add(across{float64(limit), "limit of the process: " + report.Bytes(limit), stroke(black, 1, 2, 2)})
	}
	solid, dashed := stroke(blue, 1.25), stroke(vermilion, 1.5, 6, 2.5)
	lines := []steps{{allocated, x.high, solid}}
	if held {
		lines = append(lines, steps{reserved, x.high, dashed})
	}
	p.Add(area{allocated, x.high, withAlpha(sky, 0x70)})
	for _, l := range lines {
		p.Add(l)
	}
	ends := endings{{float64(last(allocated)), "allocated\n" + x.ending() + "\n" + report.Bytes(last(allocated)), blue, solid}}
	if held {
		ends = append(ends, ending{float64(last(reserved)), "reserved\n" + x.ending() + "\n" + report.Bytes(last(reserved)), vermilion, dashed})
	} else {
		panel.Notes = append(panel.Notes, "What the allocator reserved is not in this recording"+instead(a))
	}
	p.Add(failures{d, &x}, callouts{append(peakCallouts(d, &x, held), failureCallouts(d, &x, held)...), lines, stepRow(d)}, ends)
	panel.Notes = append(panel.Notes, caveats(d)...)
	return panel, nil
}

// levelLines folds a recording into the two lines.
func levelLines(d *report.Device, x *axis) (allocated, reserved []point) {
	a, r := thin(x.low, x.high, columns), thin(x.low, x.high, columns)
	now := 0.0
	var before report.Level
	cut := false // before is the last one in front of what is drawn
	d.Levels(func(l report.Level) {
		now = max(now, x.at(l.Event, l.Time))                             // threads may note their events late
		l.Allocated, l.Reserved = max(0, l.Allocated), max(0, l.Reserved) // a damaged file may free what it never had
		switch {
		case now < x.low:
			before, cut = l, true
			return
		case now > x.high:
			return
		case cut:
			a.add(x.low, before.Allocated)
			r.add(x.low, before.Reserved)
			cut = false
		}
		a.add(now, l.Allocated)
		r.add(now, l.Reserved)
	})
	return a.line(), r.line()
}

func last(line []point) int64 {
	if len(line) == 0 {
		return 0
	}
	return line[len(line)-1].v
}

// vertical makes an axis of bytes from 0 to a size, with room for labels above it.
func vertical(a *plot.Axis, most float64) {
	a.Min, a.Max = 0, max(most, 1)*1.18
	a.Tick.Marker = byteTicks{most: 8}
}

// peakCallouts names the peaks, with one label if they are the same.
func peakCallouts(d *report.Device, x *axis, held bool) []callout {
	var out []callout
	p, r := d.PeakAllocated, d.PeakReserved
	name := func(what string, size int64, at report.Peak) string {
		return fmt.Sprintf("peak %s %s, %s", report.Bytes(size), what, x.when(at.Event, at.Time))
	}
	if held && p.Allocated == r.Reserved {
		return []callout{{x.at(p.Event, p.Time), float64(p.Allocated), name("allocated and reserved", p.Allocated, p), blue, draw.CircleGlyph{}}}
	}
	if held {
		out = append(out, callout{x.at(r.Event, r.Time), float64(r.Reserved), name("reserved", r.Reserved, r), vermilion, draw.BoxGlyph{}})
	}
	if p.Allocated > 0 {
		out = append(out, callout{x.at(p.Event, p.Time), float64(p.Allocated), name("allocated", p.Allocated, p), blue, draw.CircleGlyph{}})
	}
	return out
}

// failureCallouts names the first request that ran out of memory, and counts the others.
func failureCallouts(d *report.Device, x *axis, held bool) []callout {
	shown := slices.DeleteFunc(slices.Clone(d.OOMs), func(o report.OOM) bool { return !x.shows(x.at(o.Event, o.Time)) })
	if len(shown) == 0 {
		return nil
	}
	first := shown[0]
	txt := "out of memory"
	if first.Requested > 0 {
		txt += ": asked " + report.Bytes(first.Requested)
	}
	txt += ", " + x.when(first.Event, first.Time)
	if n := len(shown) - 1; n > 0 {
		txt += fmt.Sprintf(", and %s more", countOf(n, "time"))
	}
	at := first.Allocated
	if held {
		at = first.Reserved
	}
	return []callout{{x.at(first.Event, first.Time), float64(at), txt, black, cross{}}}
}

// failures marks all places where memory ran out.
type failures struct {
	d *report.Device
	x *axis
}

// Plot implements plot.Plotter.
func (f failures) Plot(c draw.Canvas, p *plot.Plot) {
	px, _ := transforms(c, p)
	last := vg.Length(math.Inf(-1))
	for _, o := range f.d.OOMs {
		at := px(f.x.at(o.Event, o.Time))
		if at-last < 0.5 || !f.x.shows(f.x.at(o.Event, o.Time)) {
			continue // a program may try again a thousand times
		}
		last = at
		c.StrokeLine2(stroke(black, 1, 1.5, 2), at, c.Min.Y, at, c.Max.Y)
	}
}

// stepBands shades every other step and numbers them along the top, as far as there is room.
type stepBands struct {
	d *report.Device
	x *axis
}

// stepRow is how much room the numbers of the steps take at the top, in points.
func stepRow(d *report.Device) vg.Length {
	if len(d.Steps.Steps) == 0 {
		return 0
	}
	return noteSize * 1.3
}

const leastBand = 4 // points; narrower ones would be a grey mist

// Plot implements plot.Plotter.
func (b stepBands) Plot(c draw.Canvas, p *plot.Plot) {
	px, _ := transforms(c, p)
	list := &b.d.Steps
	place := func(event int) vg.Length {
		if event >= b.x.events {
			return px(b.x.high)
		}
		at := b.x.at(event-1, b.d.Trace.Events.At(event).Time)
		return px(min(max(at, b.x.low), b.x.high))
	}
	s := aligned(letters(noteSize, grey), draw.XCenter, draw.YTop)
	free := c.Min.X - 2
	shaded := len(list.Steps) < 40 || (c.Max.X-c.Min.X)/vg.Length(len(list.Steps)) >= leastBand
	for i, step := range list.Steps {
		from, to := place(step.From), place(step.To)
		if from >= to {
			continue
		}
		if i%2 == 1 && shaded {
			c.SetColor(hint)
			c.Fill(box(from, c.Min.Y, max(to-from, 0), c.Max.Y-c.Min.Y).Path())
		}
		label := list.Label(i)
		if n, _, ok := strings.Cut(label, " of "); ok {
			label = n
		}
		if free < c.Min.X {
			label = "step " + label
		}
		at, w := (from+to)/2, s.Width(label)
		if at = max(at, c.Min.X+w/2); at-w/2 < free+4 || at+w/2 > c.Max.X {
			continue
		}
		c.FillText(s, vg.Point{X: at, Y: c.Max.Y - 1}, label)
		if !shaded {
			c.StrokeLine2(stroke(grey, 0.75), (from+to)/2, c.Max.Y, (from+to)/2, c.Max.Y+3)
		}
		free = at + w/2
	}
}

// caveats are what a reader of a picture of the memory must know.
func caveats(d *report.Device) []string {
	var out []string
	if d.Follow.Truncated {
		out = append(out, "The recording begins in the middle of a run: what is older counts as far as the file knows of it.")
	}
	return out
}
