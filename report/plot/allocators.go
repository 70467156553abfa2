package plot

import (
	"errors"
	"fmt"
	"strings"

	"github.com/vramscope/vramscope/report"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// mostRuns is how many bars can be read in one picture.
const mostRuns = 16

// Allocators draws what was reserved at the peak under each setting and allocator that a recording was replayed through,
// as bars with their ranges.
func Allocators(r *report.Replays) (*Panel, error) {
	if len(r.Runs) == 0 {
		return nil, errors.New("nothing was replayed, so there is nothing to compare")
	}
	if len(r.Runs) > mostRuns {
		return nil, fmt.Errorf("%d replays are too many for one picture; up to %d", len(r.Runs), mostRuns)
	}
	p := newPlot()
	panel := &Panel{Plot: p, Caption: "Peak reserved if the same requests are replayed"}
	most := max(r.Live, r.Recorded)
	for _, x := range r.Runs {
		most = max(most, x.High, x.Stats.Reserved.Peak)
	}
	p.X.Min, p.X.Max = 0, float64(max(most, 1))*1.04
	p.X.Tick.Marker = byteTicks{most: 8}
	p.X.Label.Text = "reserved at the peak"
	p.Y.Min, p.Y.Max = 0, 1
	p.Y.Tick.Marker = noTicks{}
	b := runBars{r}
	p.Add(b)
	panel.Notes = append([]string{r.Under()}, b.why()...)
	panel.Notes = append(panel.Notes, r.Mind()...)
	return panel, nil
}

// runBars draws a row for each replay.
type runBars struct{ r *report.Replays }

const widestName = 230 // points

// GlyphBoxes implements plot.GlyphBoxer: it asks for room for the names at the left and the figures at the right.
func (b runBars) GlyphBoxes(*plot.Plot) []plot.GlyphBox {
	figures := b.figures()
	return []plot.GlyphBox{
		{X: 0, Y: 0.5, Rectangle: box(-b.names()-endingGap, 0, b.names()+endingGap, 0)},
		{X: 1, Y: 0.5, Rectangle: box(0, 0, figures+endingGap, 0)},
	}
}

// figures is how wide the widest figure is.
func (b runBars) figures() vg.Length {
	w := vg.Length(0)
	for i := range b.r.Runs {
		w = max(w, bold(letters(textSize, ink)).Width(report.Bytes(b.r.Runs[i].Stats.Reserved.Peak)))
	}
	return w
}

// names is how wide the widest name is.
func (b runBars) names() vg.Length {
	w := vg.Length(0)
	for i := range b.r.Runs {
		w = max(w, letters(textSize, ink).Width(clean(b.r.Label(b.r.Runs[i]))))
	}
	return min(w, widestName)
}

// Plot implements plot.Plotter.
func (b runBars) Plot(c draw.Canvas, p *plot.Plot) {
	x, _ := transforms(c, p)
	for _, t := range p.X.Tick.Marker.Ticks(p.X.Min, p.X.Max) {
		if at := x(t.Value); t.Value > 0 && at <= c.Max.X {
			c.StrokeLine2(stroke(faint, 0.5), at, c.Min.Y, at, c.Max.Y)
		}
	}
	const top = 22 // for what the lines across mean
	pitch := min((c.Max.Y-c.Min.Y-top)/vg.Length(len(b.r.Runs)), 40)
	middle := func(i int) vg.Length { return c.Max.Y - top - pitch*(vg.Length(i)+0.5) }
	for i := range b.r.Runs {
		b.bar(c, x, &b.r.Runs[i], middle(i), pitch*0.62)
	}
	b.lines(c, x)
	for i := range b.r.Runs {
		b.label(c, x, &b.r.Runs[i], middle(i))
	}
}

// why says where the first few replays end that do not finish.
func (b runBars) why() []string {
	const most = 3
	var out []string
	for i := range b.r.Runs {
		if run := &b.r.Runs[i]; fails(run) && len(out) < most {
			out = append(out, fmt.Sprintf("does not finish: %s, %s", b.r.Label(*run), strings.TrimPrefix(b.r.Finishes(*run), "no: ")))
		}
	}
	return out
}

// fails says whether a replay ends where it runs out of memory.
func fails(run *report.ReplayRun) bool { return run.FirstOOM != nil && !run.Completed }

// bar draws one replay and its range.
func (b runBars) bar(c draw.Canvas, x func(float64) vg.Length, run *report.ReplayRun, middle, high vg.Length) {
	bar := box(x(0), middle-high/2, x(float64(run.Stats.Reserved.Peak))-x(0), high)
	c.SetColor(sky)
	if fails(run) {
		c.SetColor(orange)
	}
	c.Fill(bar.Path())
	if fails(run) {
		hatch(c, bar)
	}
	if run.Low < run.High {
		low, high := x(float64(run.Low)), x(float64(run.High))
		line := stroke(black, 1)
		c.StrokeLine2(line, low, middle, high, middle)
		c.StrokeLine2(line, low, middle-3, low, middle+3)
		c.StrokeLine2(line, high, middle-3, high, middle+3)
	}
}

// label writes a replay's name, its figure, and how it ends if it does not.
func (b runBars) label(c draw.Canvas, x func(float64) vg.Length, run *report.ReplayRun, middle vg.Length) {
	s := letters(textSize, ink)
	name := aligned(s, draw.XRight, draw.YCenter)
	c.FillText(name, vg.Point{X: c.Min.X - endingGap, Y: middle}, shorten(s, clean(b.r.Label(*run)), widestName))
	at := x(float64(max(run.High, run.Stats.Reserved.Peak))) + 5
	figure := report.Bytes(run.Stats.Reserved.Peak)
	w := bold(s).Width(figure)
	plaque(c, box(at-1, middle-7, w+3, 14))
	c.FillText(bold(s), vg.Point{X: at, Y: middle}, figure)
	if fails(run) {
		txt := "does not finish"
		inside := s.Width(txt) + 8
		from := at + w + 6
		if from+inside > c.Max.X+endingGap {
			from = max(x(0)+4, x(float64(run.Stats.Reserved.Peak))-inside)
		}
		plaque(c, box(from-2, middle-7, s.Width(txt)+4, 14))
		c.FillText(s, vg.Point{X: from, Y: middle}, txt)
	}
}

// lines draws what every allocator needs, and what the recording's own reserved.
func (b runBars) lines(c draw.Canvas, x func(float64) vg.Length) {
	s := aligned(letters(textSize, blue), draw.XRight, draw.YTop)
	at := x(float64(b.r.Live))
	c.StrokeLine2(stroke(blue, 1.25), at, c.Min.Y, at, c.Max.Y)
	left, right := "allocated "+report.Bytes(b.r.Live), ""
	if b.r.Recorded >= 0 {
		right = "recorded " + report.Bytes(b.r.Recorded)
	}
	c.FillText(s, vg.Point{X: max(at-4, c.Min.X-b.names()+s.Width(left)), Y: c.Max.Y}, left)
	if right == "" {
		return
	}
	at = x(float64(b.r.Recorded))
	c.StrokeLine2(stroke(vermilion, 1.5, 6, 2.5), at, c.Min.Y, at, c.Max.Y)
	s = aligned(letters(textSize, vermilion), draw.XLeft, draw.YTop)
	from := min(at+4, c.Max.X+b.figures()+endingGap-s.Width(right))
	plaque(c, box(from-1, c.Max.Y-14, s.Width(right)+2, 14))
	c.FillText(s, vg.Point{X: from, Y: c.Max.Y}, right)
}
