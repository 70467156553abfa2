package report

import (
	"strings"
	"time"
)

// The timeline of a terminal: a row of block elements for what was allocated, one for what was reserved. Columns are of
// as many events each: a program allocates in bursts, and would be a few strokes on an axis of time.

const (
	timelineWidth = 64 // columns at most
	leastTimeline = 16 // events of which a timeline shows anything
)

var eighths = []rune(" ▁▂▃▄▅▆▇█")

// timeline writes what was in use over the recording.
func (d *Device) timeline(p *page) {
	n := d.Trace.Events.Len()
	if n < leastTimeline || len(d.Uses) == 0 || d.PeakAllocated.Allocated <= 0 {
		return
	}
	width := timelineWidth
	if w := p.style.Width; w > 0 {
		width = max(min(width, w-34), 16)
	}
	allocated, reserved := make([]int64, width), make([]int64, width)
	failed := make([]bool, width)
	var top int64
	from := 0
	last := &d.Uses[0]
	for i := range d.Uses {
		u := &d.Uses[i]
		at := min(max(u.Event, 0)*width/n, width-1)
		for ; from <= at; from++ {
			allocated[from], reserved[from] = last.Allocated, last.Reserved
		}
		allocated[at], reserved[at] = max(allocated[at], u.Allocated), max(reserved[at], u.Reserved)
		failed[at] = failed[at] || u.Mark&MarkOOM != 0
		top = max(top, u.Allocated, u.Reserved)
		last = u
	}
	for ; from < width; from++ {
		allocated[from], reserved[from] = last.Allocated, last.Reserved
	}
	held := d.reserved(&d.PeakReserved)
	p.line("")
	p.fence()
	p.line("  allocated %s %s", strokes(allocated, top), p.faint("most "+Bytes(d.PeakAllocated.Allocated)))
	if held != nil {
		p.line("  reserved  %s %s", strokes(reserved, top), p.faint("most "+Bytes(*held)))
	}
	if len(d.OOMs) > 0 {
		marks := strings.Repeat(" ", width)
		line := []rune(marks)
		for i, x := range failed {
			if x {
				line[i] = '×'
			}
		}
		p.line("  ran out   %s", strings.TrimRight(string(line), " "))
	}
	p.line("            %s", p.faint(d.timelineAxis(width)))
	p.fence()
}

// timelineAxis says what the columns are: where there are times, at which the recording begins, is half through its
// events, and ends.
func (d *Device) timelineAxis(width int) string {
	n := d.Trace.Events.Len()
	start, middle, end := d.timeAt(0), d.timeAt(n/2), d.timeAt(n-1)
	left, right := "event 0", "event "+Count(n-1)
	half := ""
	if start > 0 && end > start {
		at := func(t time.Duration) string { return "+" + Span(t) }
		left, right, half = "+0 s", at(time.Duration(end-start)), at(time.Duration(middle-start))
	}
	gap := width - columns(left) - columns(right)
	if between := gap - columns(half); half != "" && between >= 8 {
		before := width/2 - columns(left)
		return left + strings.Repeat(" ", before) + half + strings.Repeat(" ", between-before) + right + "  by event"
	}
	return left + strings.Repeat(" ", max(gap, 1)) + right + "  by event"
}

// strokes draws values against the highest there is. What is there at all is seen.
func strokes(values []int64, top int64) string {
	var b strings.Builder
	for _, v := range values {
		n := int64(0)
		if v > 0 {
			n = min(max((v*8+top/2)/max(top, 1), 1), 8)
		}
		b.WriteRune(eighths[n])
	}
	return b.String()
}
