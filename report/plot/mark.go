package plot

import (
	"image/color"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// What plots are made of, beside what gonum has: lines of steps, since memory jumps from one value to the
// next; areas under them; and labels that keep out of each other's way.

// transforms are those of a plot, kept within its axes. What is drawn beyond them cannot be seen, and a renderer walks
// there pixel by pixel.
func transforms(c draw.Canvas, p *plot.Plot) (x, y func(float64) vg.Length) {
	px, py := p.Transforms(&c)
	return func(v float64) vg.Length { return px(min(max(v, p.X.Min), p.X.Max)) },
		func(v float64) vg.Length { return py(min(max(v, p.Y.Min), p.Y.Max)) }
}

// steps draws a value that holds from each point to the next, and from the last to the end.
type steps struct {
	points []point
	end    float64
	line   draw.LineStyle
}

// Plot implements plot.Plotter.
func (s steps) Plot(c draw.Canvas, p *plot.Plot) {
	if len(s.points) == 0 {
		return
	}
	c.SetLineStyle(s.line)
	c.Stroke(stepPath(nil, c, p, s.points, s.end))
}

// stepPath walks along a line of steps.
func stepPath(path vg.Path, c draw.Canvas, p *plot.Plot, points []point, end float64) vg.Path {
	x, y := transforms(c, p)
	to := func(at vg.Point) {
		if len(path) == 0 {
			path.Move(at)
			return
		}
		path.Line(at)
	}
	var last vg.Length
	for i, q := range points {
		at := vg.Point{X: x(q.x), Y: y(float64(q.v))}
		if i > 0 && at.Y != last {
			to(vg.Point{X: at.X, Y: last})
		}
		if i == 0 || at.Y != last {
			to(at)
		}
		last = at.Y
	}
	to(vg.Point{X: x(end), Y: last})
	return path
}

// area fills what is below a line of steps.
type area struct {
	points []point
	end    float64
	fill   color.Color
}

// Plot implements plot.Plotter.
func (a area) Plot(c draw.Canvas, p *plot.Plot) {
	if len(a.points) == 0 {
		return
	}
	x, y := transforms(c, p)
	var path vg.Path
	path.Move(vg.Point{X: x(a.points[0].x), Y: y(0)})
	path = stepPath(path, c, p, a.points, a.end)
	path.Line(vg.Point{X: x(a.end), Y: y(0)})
	path.Close()
	c.SetColor(a.fill)
	c.Fill(path)
}

// levels draws faint lines across, at the marks of the vertical axis.
type levels struct{}

// Plot implements plot.Plotter.
func (levels) Plot(c draw.Canvas, p *plot.Plot) {
	_, y := transforms(c, p)
	for _, t := range p.Y.Tick.Marker.Ticks(p.Y.Min, p.Y.Max) {
		if at := y(t.Value); t.Value > p.Y.Min && at <= c.Max.Y {
			c.StrokeLine2(stroke(faint, 0.5), c.Min.X, at, c.Max.X, at)
		}
	}
}

// across draws a line at a value, with a name that stands on it at the left.
type across struct {
	value float64
	name  string
	line  draw.LineStyle
}

// Plot implements plot.Plotter.
func (a across) Plot(c draw.Canvas, p *plot.Plot) {
	_, y := transforms(c, p)
	at := y(a.value)
	c.StrokeLine2(a.line, c.Min.X, at, c.Max.X, at)
	s := aligned(letters(noteSize, a.line.Color), draw.XLeft, draw.YBottom)
	c.FillText(s, vg.Point{X: c.Min.X + 6, Y: at + 2}, a.name)
}

// callout is a label with a mark at the point that it speaks of.
type callout struct {
	x, y  float64
	text  string // empty for a mark alone
	color color.NRGBA
	glyph draw.GlyphDrawer
}

// callouts places labels beside their points so that they keep off each other, and off the lines as far as they can.
// The first ones have the choice.
type callouts struct {
	list  []callout
	lines []steps
	top   vg.Length // what is taken at the top, in points
}

const markRadius = 3.5

// Plot implements plot.Plotter.
func (o callouts) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := transforms(c, p)
	var taken []vg.Rectangle
	for _, l := range o.list {
		at := vg.Point{X: x(l.x), Y: y(l.y)}
		taken = append(taken, box(at.X-markRadius, at.Y-markRadius, 2*markRadius, 2*markRadius))
	}
	var paths []vg.Path
	for _, s := range o.lines {
		paths = append(paths, stepPath(nil, c, p, s.points, s.end))
	}
	for _, l := range o.list {
		if l.text == "" {
			continue
		}
		at := vg.Point{X: x(l.x), Y: y(l.y)}
		s := letters(textSize, l.color)
		within := c.Rectangle
		within.Max.Y -= o.top
		where := place(within, taken, paths, at, s, l.text)
		taken = append(taken, where)
		plaque(c, where)
		c.FillText(s, vg.Point{X: where.Min.X + plaqueRim, Y: (where.Min.Y + where.Max.Y) / 2}, l.text)
	}
	for _, l := range o.list {
		at := vg.Point{X: x(l.x), Y: y(l.y)}
		c.DrawGlyph(draw.GlyphStyle{Color: white, Radius: markRadius + 1.25, Shape: l.glyph}, at)
		c.DrawGlyph(draw.GlyphStyle{Color: l.color, Radius: markRadius, Shape: l.glyph}, at)
	}
}

const plaqueRim = 3

// plaque clears the place of a label, so that it can be read on anything.
func plaque(c draw.Canvas, r vg.Rectangle) {
	c.SetColor(withAlpha(white, 0xd8))
	c.Fill(r.Path())
}

func box(x, y, w, h vg.Length) vg.Rectangle {
	return vg.Rectangle{Min: vg.Point{X: x, Y: y}, Max: vg.Point{X: x + w, Y: y + h}}
}

// place finds room for a label beside a point: as close as can be without covering another label, and with as little of
// the lines behind it as possible.
func place(within vg.Rectangle, taken []vg.Rectangle, lines []vg.Path, at vg.Point, s text.Style, txt string) vg.Rectangle {
	w, h := s.Width(txt)+2*plaqueRim, s.Font.Size*1.3
	const gap = 6
	w = min(w, within.Max.X-within.Min.X)
	best, least := box(within.Min.X, within.Min.Y, w, h), math.Inf(1)
	for i := range 16 {
		d := vg.Length(i) * h / 2
		for side, r := range []vg.Rectangle{
			box(at.X-w/2, at.Y+gap+d, w, h),
			box(at.X-w-gap-1, at.Y-h/2-d, w, h),
			box(at.X+gap+1, at.Y-h/2-d, w, h),
			box(at.X-w-gap-1, at.Y-h/2+d, w, h),
			box(at.X+gap+1, at.Y-h/2+d, w, h),
		} {
			x := min(max(r.Min.X, within.Min.X), within.Max.X-w)
			cost := float64(i) + float64(side)/10 + math.Abs(float64(r.Min.X-x))/20
			r = box(x, r.Min.Y, w, h)
			if r.Min.Y < within.Min.Y || r.Max.Y > within.Max.Y {
				continue
			}
			for _, t := range taken {
				if overlap(r, t) {
					cost += 1000
				}
			}
			for _, l := range lines {
				cost += 0.7 * math.Sqrt(covered(r, l))
			}
			if cost < least {
				best, least = r, cost
			}
		}
	}
	return best
}

// covered is how much of a line a rectangle hides, in points. The line goes across and up or down, and has a width.
func covered(r vg.Rectangle, line vg.Path) float64 {
	const width = 1.5
	r.Min.Y, r.Max.Y = r.Min.Y-width, r.Max.Y+width
	sum := vg.Length(0)
	for i := 1; i < len(line); i++ {
		a, b := line[i-1].Pos, line[i].Pos
		x0, x1 := max(min(a.X, b.X), r.Min.X), min(max(a.X, b.X), r.Max.X)
		y0, y1 := max(min(a.Y, b.Y), r.Min.Y), min(max(a.Y, b.Y), r.Max.Y)
		if x0 <= x1 && y0 <= y1 {
			sum += x1 - x0 + y1 - y0
		}
	}
	return float64(sum)
}

func overlap(a, b vg.Rectangle) bool {
	return a.Min.X < b.Max.X && b.Min.X < a.Max.X && a.Min.Y < b.Max.Y && b.Min.Y < a.Max.Y
}

// ending names a line or an area at its right end.
type ending struct {
	value float64 // where it ends
	text  string  // of one or more lines, the first of which is the name
	color color.NRGBA
	line  draw.LineStyle // a sample of it, none if Width is 0
}

// endings stand in the margin at the right of a plot, each as close to the end of its line as the others leave
// room for.
type endings []ending

const (
	endingGap    = 8
	endingSample = 18
)

// GlyphBoxes implements plot.GlyphBoxer: it asks for the room of the widest.
func (list endings) GlyphBoxes(*plot.Plot) []plot.GlyphBox {
	var w vg.Length
	for _, e := range list {
		w = max(w, e.width())
	}
	return []plot.GlyphBox{{X: 1, Y: 0.5, Rectangle: box(0, 0, w+endingGap, 0)}}
}

func (e ending) width() vg.Length {
	w := vg.Length(0)
	for i, l := range strings.Split(e.text, "\n") {
		s := letters(textSize, e.color)
		if i == 0 {
			s = bold(s)
		}
		w = max(w, s.Width(l))
	}
	if e.line.Width > 0 {
		w += endingSample + 4
	}
	return w
}

// Plot implements plot.Plotter.
func (list endings) Plot(c draw.Canvas, p *plot.Plot) {
	_, y := transforms(c, p)
	line := vg.Length(textSize * 1.25)
	order := slices.Clone(list)
	slices.SortStableFunc(order, func(a, b ending) int {
		switch {
		case a.value > b.value:
			return -1
		case a.value < b.value:
			return 1
		}
		return 0
	})
	heights, centres := make([]vg.Length, len(order)), make([]vg.Length, len(order))
	for i, e := range order {
		heights[i] = line * vg.Length(1+strings.Count(e.text, "\n"))
		centres[i] = y(e.value)
	}
	spread(centres, heights, c.Min.Y, c.Max.Y)
	for i, e := range order {
		at := vg.Point{X: c.Max.X + endingGap, Y: centres[i] + heights[i]/2 - line/2}
		if e.line.Width > 0 {
			c.StrokeLine2(e.line, at.X, at.Y, at.X+endingSample, at.Y)
			at.X += endingSample + 4
		}
		for n, l := range strings.Split(e.text, "\n") {
			s := letters(textSize, e.color)
			if n == 0 {
				s = bold(s)
			}
			c.FillText(s, at, l)
			at.Y -= line
		}
	}
}

// spread moves things that are sorted from top to bottom apart so that none overlaps the next, and none leaves
// the range if they have room in it.
func spread(centres, heights []vg.Length, low, high vg.Length) {
	for i := range centres {
		top := high
		if i > 0 {
			top = centres[i-1] - heights[i-1]/2
		}
		centres[i] = min(centres[i], top-heights[i]/2)
	}
	for i := len(centres) - 1; i >= 0; i-- {
		bottom := low
		if i+1 < len(centres) {
			bottom = centres[i+1] + heights[i+1]/2
		}
		centres[i] = max(centres[i], bottom+heights[i]/2)
	}
}

// cross is a mark of two strokes that can be seen.
type cross struct{}

// DrawGlyph implements draw.GlyphDrawer.
func (cross) DrawGlyph(c *draw.Canvas, s draw.GlyphStyle, at vg.Point) {
	r := s.Radius
	line := stroke(s.Color, float64(r)/2)
	c.StrokeLine2(line, at.X-r, at.Y-r, at.X+r, at.Y+r)
	c.StrokeLine2(line, at.X-r, at.Y+r, at.X+r, at.Y-r)
}
