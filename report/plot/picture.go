// Package plot draws findings as pictures, PNG or SVG: the memory over time, what was lost to fragmentation,
// the sizes of blocks, what other allocators would have reserved, and where in the address space blocks lay.
// There is a file for each. It makes a panel, which is a gonum plot with a caption and notes, out of findings;
// a picture is one panel or several, under a title, and this file lays it out.
//
// A picture is laid out in points, 800 of them from left to right, whatever its size in pixels: a larger one
// is the same in more detail, so that letters can be read in each. Nothing in it is random or depends on the
// machine.
package plot

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Panel is a plot with what is to be said about it.
type Panel struct {
	Plot    *plot.Plot
	Caption string   // what it shows, in a few words
	Notes   []string // what is not known, or was assumed
	over    bool     // it goes over the recording, from left to right
}

// Picture is one panel or several under each other.
type Picture struct {
	Title  string // the file, the device, the peak
	Sub    string // where it is from
	Panels []*Panel
	Notes  []string // about all of them
}

const (
	layoutWidth = 800 // points
	rim         = 14
	noteLines   = 3 // that a note may take at most
)

// draw lays the picture out on a canvas.
func (pic *Picture) draw(c draw.Canvas) {
	c.SetColor(white)
	c.Fill(c.Rectangle.Path())
	c = draw.Crop(c, rim, -rim, rim, -rim)
	room := c.Max.X - c.Min.X
	top := c.Max.Y
	down := func(s draw.TextStyle, txt string) {
		c.FillText(aligned(s, draw.XLeft, draw.YTop), vg.Point{X: c.Min.X, Y: top}, txt)
		top -= s.Font.Size * 1.35
	}
	for _, l := range wrap(bold(letters(titleSize, ink)), clean(pic.Title), room, 2) {
		down(bold(letters(titleSize, ink)), l)
	}
	if pic.Sub != "" {
		s := letters(textSize, grey)
		down(s, shorten(s, clean(pic.Sub), room))
	}
	c.Max.Y = top - 8
	c.Min.Y += pic.notes(c)
	pic.panels(c)
}

// notes writes what must be said at the bottom, and says how high that is.
func (pic *Picture) notes(c draw.Canvas) vg.Length {
	notes := slices.Clone(pic.Notes)
	for _, p := range pic.Panels {
		for _, n := range p.Notes {
			if !slices.Contains(notes, n) {
				notes = append(notes, n)
			}
		}
	}
	s := letters(noteSize, grey)
	var lines []string
	for _, n := range notes {
		lines = append(lines, wrap(s, sentence(clean(n)), c.Max.X-c.Min.X, noteLines)...)
	}
	line := s.Font.Size * 1.3
	for i, l := range lines {
		c.FillText(aligned(s, draw.XLeft, draw.YBottom), vg.Point{X: c.Min.X, Y: c.Min.Y + line*vg.Length(len(lines)-1-i)}, l)
	}
	if len(lines) == 0 {
		return 0
	}
	return line*vg.Length(len(lines)) + 4
}

// sentence makes one of a note that others write in lists. The name of a setting stays as it is.
func sentence(s string) string {
	if first, _, _ := strings.Cut(s, " "); !strings.ContainsAny(first, "_:") {
		r, n := utf8.DecodeRuneInString(s)
		s = string(unicode.ToUpper(r)) + s[n:]
	}
	if !strings.HasSuffix(s, ".") {
		s += "."
	}
	return s
}

// panels draws the plots, equally high. Those that go over the recording have the same instants above each other.
func (pic *Picture) panels(c draw.Canvas) {
	const between = 10
	n := vg.Length(len(pic.Panels))
	height := (c.Max.Y - c.Min.Y - between*(n-1)) / n
	areas := make([]draw.Canvas, len(pic.Panels))
	var left, right vg.Length
	for i, p := range pic.Panels {
		area := draw.Crop(c, 0, 0, 0, 0)
		area.Max.Y = c.Max.Y - (height+between)*vg.Length(i)
		area.Min.Y = area.Max.Y - height
		if p.Caption != "" {
			s := bold(letters(textSize, ink))
			c.FillText(aligned(s, draw.XLeft, draw.YTop), vg.Point{X: area.Min.X, Y: area.Max.Y}, shorten(s, clean(p.Caption), area.Max.X-area.Min.X))
			area.Max.Y -= s.Font.Size*1.3 + 6
		}
		if p.over {
			data := p.Plot.DataCanvas(area)
			left, right = max(left, data.Min.X-area.Min.X), max(right, area.Max.X-data.Max.X)
		}
		areas[i] = area
	}
	for i, p := range pic.Panels {
		area := areas[i]
		if p.over {
			data := p.Plot.DataCanvas(area)
			area = draw.Crop(area, left-(data.Min.X-area.Min.X), (area.Max.X-data.Max.X)-right, 0, 0)
		}
		p.Plot.Draw(area)
	}
}
