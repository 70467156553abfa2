package plot

import (
	"fmt"
	"image/color"
	"math"
	"math/bits"
	"strconv"

	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/trace"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Sizes draws how large blocks were: what was in use upwards, what was free downwards, by powers of two.
func Sizes(a *report.Analysis, d *report.Device) (*Panel, error) {
	h, err := sizesOf(a, d)
	if err != nil {
		return nil, err
	}
	panel := &Panel{Plot: newPlot(), Caption: "Sizes of blocks", Notes: h.notes}
	if d.At != nil {
		x := axisOf(a, d.Trace, report.Options{}, ByEither)
		panel.Caption += " (" + x.when(d.At.Event, d.At.Time) + ")"
	}
	p := panel.Plot
	low, high := 64, 0
	up, down := 0.0, 0.0
	for _, s := range h.used {
		low, high = min(low, log2(s.From)), max(high, log2(s.From))
		up = max(up, float64(s.Bytes))
	}
	for _, s := range h.free {
		low, high = min(low, log2(s.From)), max(high, log2(s.From))
		down = max(down, float64(s.Bytes))
	}
	if h.asked > 0 {
		low, high = min(low, log2(h.asked)), max(high, log2(h.asked))
	}
	if high-low < 7 {
		low, high = max(0, low-2), high+2
	}
	p.X.Min, p.X.Max = float64(low), float64(high+1)
	p.X.Label.Text = "size of a block: from this on, below the next"
	p.X.Tick.Marker = sizeTicks{}
	p.X.LineStyle.Width = 0
	p.Y.Tick.Marker = mirrored{byteTicks{most: 6}}
	if up == 0 && down == 0 {
		up = 1
	}
	top, bottom := up+0.16*(up+down), down+0.16*(up+down)
	if !h.hasFree {
		bottom = 0
	}
	p.Y.Min, p.Y.Max = -bottom, top
	p.Add(levels{})
	if h.asked > 0 {
		p.Add(asked{math.Log2(float64(h.asked)), "asked " + report.Bytes(h.asked) + ", and failed", h.freeText})
	}
	p.Add(bars{h.used, 1, sky, false})
	if h.hasFree {
		p.Add(bars{h.free, -1, orange, true})
	}
	p.Add(zero{}, heading{h.usedText, 1})
	if h.hasFree {
		p.Add(heading{h.freeText, -1})
	}
	return panel, nil
}

// histogram is what there is to draw.
type histogram struct {
	used, free         []report.SizeRange
	hasFree            bool
	usedText, freeText string
	asked              int64 // bytes of the request that failed then, 0 if none did
	notes              []string
}

// sizesOf finds the blocks in use at the peak, and the free ones at the moment that matters most: when memory ran out,
// otherwise when most was reserved. If the analysis was asked for an instant, both are of that.
func sizesOf(a *report.Analysis, d *report.Device) (histogram, error) {
	var h histogram
	switch {
	case d.Trace.Content == trace.Samples:
		return h, fmt.Errorf("the file has totals and no blocks%s", instead(a))
	case d.Trace.Content == trace.Instant:
		h.used, h.free = report.SizesOf(&d.Trace.Final)
		if len(h.used)+len(h.free) == 0 {
			return h, fmt.Errorf("the file has no sizes of single blocks%s", instead(a))
		}
		h.hasFree = d.Live.Held > 0
		h.usedText, h.freeText = total("in use", h.used, ""), total("free", h.free, "")
		if d.Live.Failed != nil {
			h.asked = d.Live.Failed.Requested
		}
		return h, nil
	}
	used, then := d.PeakAllocated, "in use at the peak"
	layout, when, event := d.PeakReserved.Layout, "free at the reserved peak", d.PeakReserved.Event
	switch {
	case d.At != nil:
		used, then = *d.At, "in use then"
		layout, when, event = d.At.Layout, "free then", d.At.Event
	case len(d.OOMs) > 0 && d.OOMs[0].Layout != nil:
		layout, when, h.asked = d.OOMs[0].Layout, "free when memory ran out", d.OOMs[0].Requested
	}
	h.used = d.LiveSizes(used.Event)
	h.usedText = total(then, h.used, "")
	if layout == nil {
		what := "what the allocator had free is not in this file" + instead(a)
		if d.Trace.Content == trace.Decisions {
			what = "which blocks were free is not known, " + unknown(d, event)
		}
		h.notes = append(h.notes, "Only blocks in use are shown: "+what+".")
		return h, nil
	}
	h.hasFree = true
	h.free = layout.FreeSizes
	h.freeText = total(when, h.free, fmt.Sprintf(", the largest %s", report.Bytes(layout.Largest)))
	return h, nil
}

// total sums a histogram up.
func total(what string, list []report.SizeRange, more string) string {
	var bytes int64
	blocks := 0
	for _, s := range list {
		bytes += s.Bytes
		blocks += s.Blocks
	}
	if blocks == 0 {
		return what + ": 0 bytes"
	}
	return fmt.Sprintf("%s: %s in %s%s", what, report.Bytes(bytes), countOf(blocks, "block"), more)
}

func log2(n int64) int { return bits.Len64(uint64(n)) - 1 }

// bars draws one for each range of sizes, with the number of blocks at its end.
type bars struct {
	list    []report.SizeRange
	sign    float64 // 1 for upwards
	fill    color.NRGBA
	hatched bool
}

// Plot implements plot.Plotter.
func (b bars) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := transforms(c, p)
	for _, r := range b.list {
		k := float64(log2(r.From))
		from, to := x(k+0.1), x(k+0.9)
		base, end := y(0), y(b.sign*float64(r.Bytes))
		bar := box(from, min(base, end), to-from, max(base, end)-min(base, end))
		c.SetColor(b.fill)
		c.Fill(bar.Path())
		if b.hatched {
			hatch(c, bar)
		}
		s := aligned(letters(noteSize, grey), draw.XCenter, draw.YBottom)
		at := vg.Point{X: (from + to) / 2, Y: end + 2}
		if b.sign < 0 {
			s.YAlign, at.Y = draw.YTop, end-2
		}
		if txt := "×" + report.Count(r.Blocks); s.Width(txt) < (to-from)*1.25 {
			c.FillText(s, at, txt)
		}
	}
}

// zero is the line between what was in use and what was free.
type zero struct{}

// Plot implements plot.Plotter.
func (zero) Plot(c draw.Canvas, p *plot.Plot) {
	_, y := transforms(c, p)
	c.StrokeLine2(stroke(grey, 0.75), c.Min.X, y(0), c.Max.X, y(0))
}

// heading says what one half of a plot shows, at its outer edge.
type heading struct {
	text string
	sign int
}

// Plot implements plot.Plotter.
func (h heading) Plot(c draw.Canvas, _ *plot.Plot) {
	s := aligned(bold(letters(textSize, ink)), draw.XLeft, draw.YTop)
	at := vg.Point{X: c.Min.X + 4, Y: c.Max.Y}
	if h.sign < 0 {
		s.YAlign, at.Y = draw.YBottom, c.Min.Y+1
	}
	w, high := s.Width(h.text), s.Font.Size*1.2
	y := at.Y
	if h.sign > 0 {
		y -= high
	}
	plaque(c, box(at.X-2, y, w+4, high))
	c.FillText(s, at, h.text)
}

// asked marks the size that a request could not get.
type asked struct {
	at    float64
	text  string
	below string // the heading that stands in the same row
}

// Plot implements plot.Plotter.
func (a asked) Plot(c draw.Canvas, p *plot.Plot) {
	x, _ := transforms(c, p)
	at := x(a.at)
	c.StrokeLine2(stroke(black, 1, 1.5, 2), at, c.Min.Y, at, c.Max.Y)
	s := aligned(letters(textSize, black), draw.XLeft, draw.YBottom)
	w := s.Width(a.text)
	from := at - w - 5
	if from < c.Min.X+bold(s).Width(a.below)+16 {
		from = min(at+5, c.Max.X-w)
	}
	y := c.Min.Y + 1
	if from < c.Min.X+bold(s).Width(a.below)+16 {
		y += textSize * 1.3
	}
	plaque(c, box(from-1, y, w+2, textSize*1.2))
	c.FillText(s, vg.Point{X: from, Y: y}, a.text)
}

// sizeTicks marks powers of two, on an axis that has their logarithms.
type sizeTicks struct{}

// Ticks implements plot.Ticker.
func (sizeTicks) Ticks(low, high float64) []plot.Tick {
	every := 1
	for (high-low)/float64(every) > 13 {
		every++
	}
	var out []plot.Tick
	for k := int(math.Ceil(low)); k <= int(high); k++ {
		t := plot.Tick{Value: float64(k)}
		if k%every == 0 {
			t.Label = powerOfTwo(k)
		}
		out = append(out, t)
	}
	return out
}

// powerOfTwo shows 2^k bytes.
func powerOfTwo(k int) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	u := min(max(k, 0)/10, len(units)-1)
	return strconv.Itoa(1<<(max(k, 0)-10*u)) + " " + units[u]
}

// mirrored marks sizes in both directions.
type mirrored struct{ byteTicks }

// Ticks implements plot.Ticker.
func (m mirrored) Ticks(low, high float64) []plot.Tick {
	most := max(high, -low)
	var out []plot.Tick
	for _, t := range (byteTicks{most: max(3, int(math.Round(float64(m.most)*most/(high-low))))}).Ticks(0, most) {
		if t.Value <= high {
			out = append(out, t)
		}
		if t.Value > 0 && -t.Value >= low {
			out = append(out, plot.Tick{Value: -t.Value, Label: t.Label})
		}
	}
	return out
}
