package plot

import (
	"image/color"
	"sort"
	"strings"
	"unicode"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// The colours of Okabe and Ito, which people of any colour vision tell apart. None stands alone: lines have
// styles of their own, areas their names beside them.
var (
	black     = color.NRGBA{0x00, 0x00, 0x00, 0xff}
	orange    = color.NRGBA{0xe6, 0x9f, 0x00, 0xff}
	sky       = color.NRGBA{0x56, 0xb4, 0xe9, 0xff}
	green     = color.NRGBA{0x00, 0x9e, 0x73, 0xff}
	blue      = color.NRGBA{0x00, 0x72, 0xb2, 0xff}
	vermilion = color.NRGBA{0xd5, 0x5e, 0x00, 0xff}
	purple    = color.NRGBA{0xcc, 0x79, 0xa7, 0xff}
	yellow    = color.NRGBA{0xf7, 0xf1, 0xa1, 0xff} // half of the full one, which would drown the others
)

// Shades of what is not data.
var (
	white = color.NRGBA{0xff, 0xff, 0xff, 0xff}
	ink   = color.NRGBA{0x22, 0x22, 0x22, 0xff}
	grey  = color.NRGBA{0x66, 0x66, 0x66, 0xff}
	faint = color.NRGBA{0xd8, 0xd8, 0xd8, 0xff}
	hint  = color.NRGBA{0xf3, 0xf3, 0xf3, 0xff}
)

// Sizes of letters in points, of a picture that is 800 points wide.
const (
	titleSize = 15
	textSize  = 11.5
	noteSize  = 10.5
)

func withAlpha(c color.NRGBA, a uint8) color.NRGBA {
	c.A = a
	return c
}

// letters is a style of text.
func letters(size float64, c color.Color) text.Style {
	return text.Style{
		Color: c, Handler: plot.DefaultTextHandler, XAlign: draw.XLeft, YAlign: draw.YCenter,
		Font: font.Font{Typeface: "Liberation", Variant: "Sans", Size: vg.Length(size)},
	}
}

// boldWeight is how the packages of fonts count weights: 0 is regular.
const boldWeight = 3

func bold(s text.Style) text.Style {
	s.Font.Weight = boldWeight
	return s
}

func aligned(s text.Style, x text.XAlignment, y text.YAlignment) text.Style {
	s.XAlign, s.YAlign = x, y
	return s
}

func stroke(c color.Color, width float64, dashes ...vg.Length) draw.LineStyle {
	return draw.LineStyle{Color: c, Width: vg.Length(width), Dashes: dashes}
}

// newPlot is an empty plot in the style of all.
func newPlot() *plot.Plot {
	p := plot.New()
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.LineStyle = stroke(grey, 0.75)
		a.Padding = 0
		a.Tick.LineStyle = stroke(grey, 0.75)
		a.Tick.Length = 4
		a.Label.TextStyle = letters(textSize, ink)
		a.Label.TextStyle.XAlign, a.Label.TextStyle.YAlign = draw.XCenter, draw.YBottom
		a.Label.Padding = 3
	}
	p.X.Tick.Label = aligned(letters(textSize, ink), draw.XCenter, draw.YTop)
	p.Y.Tick.Label = aligned(letters(textSize, ink), draw.XRight, draw.YCenter)
	p.Y.LineStyle.Width = 0
	p.Y.Tick.Length = 0
	return p
}

// clean takes out of a text what a picture cannot have: a file's name, and a name that a program gave to
// something, may hold any byte.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, strings.ToValidUTF8(s, string(unicode.ReplacementChar)))
}

// shorten cuts a text in its middle so that it is no wider than there is room.
func shorten(s text.Style, txt string, room vg.Length) string {
	const most = 1000 // letters that have room anywhere
	runes := []rune(txt)
	if len(runes) <= most && s.Width(txt) <= room {
		return txt
	}
	cut := func(n int) string { return string(runes[:n-n/2]) + "…" + string(runes[len(runes)-n/2:]) }
	n := sort.Search(min(len(runes)-1, most), func(n int) bool { return s.Width(cut(n+1)) > room })
	return cut(n)
}

// wrap breaks a text into lines that are no wider than there is room, at most so many.
func wrap(s text.Style, txt string, room vg.Length, most int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(txt) {
		longer := strings.TrimPrefix(line+" "+word, " ")
		if line != "" && s.Width(longer) > room {
			lines = append(lines, line)
			longer = word
		}
		line = longer
	}
	lines = append(lines, line)
	if len(lines) > most {
		lines = lines[:most]
		lines[most-1] += " …"
	}
	for i := range lines {
		lines[i] = shorten(s, lines[i], room)
	}
	return lines
}
