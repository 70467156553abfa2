package plot

import (
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// key names areas in the margin at the right of a plot, in the order in which they lie on each other.
type key struct {
	title   string
	entries []entry
}

type entry struct {
	name, text string
	fill       color.Color
	hatched    bool
	line       draw.LineStyle // instead of an area, if its width is not 0
}

const (
	keySwatch = 14
	keyLine   = textSize * 1.25
)

// GlyphBoxes implements plot.GlyphBoxer: it asks for the room of the widest entry.
func (k key) GlyphBoxes(*plot.Plot) []plot.GlyphBox {
	w := letters(textSize, grey).Width(k.title)
	for _, e := range k.entries {
		s := letters(textSize, ink)
		w = max(w, keySwatch+5+max(bold(s).Width(e.name), s.Width(e.text)))
	}
	return []plot.GlyphBox{{X: 1, Y: 0.5, Rectangle: box(0, 0, w+endingGap, 0)}}
}

// Plot implements plot.Plotter.
func (k key) Plot(c draw.Canvas, _ *plot.Plot) {
	at := vg.Point{X: c.Max.X + endingGap, Y: c.Max.Y - keyLine/2}
	if k.title != "" {
		c.FillText(letters(textSize, grey), at, k.title)
		at.Y -= keyLine * 1.4
	}
	s := letters(textSize, ink)
	for _, e := range k.entries {
		swatch := box(at.X, at.Y-5, keySwatch, 10)
		if e.line.Width > 0 {
			c.StrokeLine2(e.line, at.X, at.Y, at.X+keySwatch, at.Y)
		} else {
			c.SetColor(e.fill)
			c.Fill(swatch.Path())
			if e.hatched {
				hatch(c, swatch)
			}
			c.SetLineStyle(stroke(grey, 0.5))
			c.Stroke(swatch.Path())
		}
		c.FillText(bold(s), vg.Point{X: at.X + keySwatch + 5, Y: at.Y}, e.name)
		at.Y -= keyLine
		if e.text != "" {
			c.FillText(s, vg.Point{X: at.X + keySwatch + 5, Y: at.Y}, e.text)
			at.Y -= keyLine * 1.2
		}
	}
}

// hatch draws slanted lines over rectangles, for those who do not see their colour.
func hatch(c draw.Canvas, list ...vg.Rectangle) {
	const apart = 5
	var path vg.Path
	for _, r := range list {
		// All lines lie on one grid, so that neighbours look like one.
		first := apart * vg.Length(math.Ceil(float64((r.Min.X-r.Max.Y)/apart)))
		for d := first; d < r.Max.X-r.Min.Y; d += apart {
			from, to := max(r.Min.X, r.Min.Y+d), min(r.Max.X, r.Max.Y+d)
			if from < to {
				path.Move(vg.Point{X: from, Y: from - d})
				path.Line(vg.Point{X: to, Y: to - d})
			}
		}
	}
	if len(path) > 0 {
		c.SetLineStyle(stroke(withAlpha(black, 0x90), 0.6))
		c.Stroke(path)
	}
}
