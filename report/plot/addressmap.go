package plot

import (
	"errors"
	"fmt"
	"image/color"
	"strconv"

	"github.com/vramscope/vramscope/allocators/caching"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/trace"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// use is what a piece of memory is used for.
type use int

const (
	inUse use = iota
	inPrivate
	pending
	stranded
	cached
	numUses
)

// useStyle is how a use is called and looks.
type useStyle struct {
	name    string
	fill    color.NRGBA
	hatched bool
}

func useStyles() [numUses]useStyle {
	return [numUses]useStyle{
		{"in use", blue, false},
		{"in use, private pools", green, false},
		{"pending", purple, false},
		{strandedName, orange, true},
		{"cached", yellow, false},
	}
}

// piece is memory of one use, in the order of addresses.
type piece struct {
	addr    uint64
	size    int64
	use     use
	segment bool // it begins one
}

// AddressMap draws the segments that an allocator held at one instant and the blocks in them, in the order of their
// addresses: at the instant that the analysis was asked for, otherwise when memory ran out first, otherwise when most was
// reserved. The options are those of the analysis.
func AddressMap(a *report.Analysis, d *report.Device, o report.Options) (*Panel, error) {
	if d.Trace.Content == trace.Instant {
		return instantMap(a, d)
	}
	if d.Trace.Content != trace.Decisions {
		return nil, fmt.Errorf("the file does not show where in the allocator's memory blocks were%s", instead(a))
	}
	at, when := d.PeakReserved, "at the reserved peak"
	if len(d.OOMs) > 0 {
		f := d.OOMs[0]
		at, when = report.Peak{Event: f.Event, Time: f.Time, Allocated: f.Allocated, Reserved: f.Reserved, Layout: f.Layout}, "when memory ran out"
	}
	if d.At != nil {
		at, when = *d.At, "then"
	}
	blocks, ok := d.BlocksAt(o, at)
	if !ok {
		return nil, errors.New("where blocks were " + when + " is not known: " + unknown(d, at.Event))
	}
	pieces, segments := piecesOf(blocks)
	if len(pieces) == 0 {
		return nil, errors.New("nothing was reserved then, so there is nothing to draw")
	}
	x := axisOf(a, d.Trace, report.Options{}, ByEither)
	where := x.when(at.Event, at.Time)
	if at.Event >= 0 && !x.byEvent {
		where += ", event " + report.Count(at.Event)
	}
	panel := mapPanel(pieces, when, strandedName)
	panel.Caption = fmt.Sprintf("The %s reserved %s (%s), by address: %s, %s a row",
		report.Bytes(at.Reserved), when, where, countOf(segments, "segment"), report.Bytes(rowBytes(at.Reserved)))
	if at.Layout != nil {
		panel.pins(a, at.Layout, pieces)
	}
	return panel.Panel, nil
}

// unknown says why it is not known how memory lay after an event.
func unknown(d *report.Device, event int) string {
	if d.Follow.Score.Exact() {
		return fmt.Sprintf("event %s is one of several that the allocator made for one request, the last of which is the instant to look at", report.Count(event))
	}
	return "the recording does not keep to the allocator's rules; vramscope verify says where"
}

// instantMap draws the one instant that a file shows.
func instantMap(a *report.Analysis, d *report.Device) (*Panel, error) {
	if len(d.Trace.Final.Blocks) == 0 || d.Live.Held == 0 {
		return nil, fmt.Errorf("the file does not tell the addresses of blocks%s", instead(a))
	}
	starts := map[uint64]bool{}
	for _, s := range d.Trace.Final.Segments {
		starts[s.Addr] = true
	}
	var pieces []piece
	var held int64
	for i := range d.Trace.Final.Blocks {
		b := &d.Trace.Final.Blocks[i]
		p := piece{b.Addr, b.Size, inUse, starts[b.Addr]}
		switch b.State {
		case trace.BlockFree:
			p.use = stranded
		case trace.BlockPending:
			p.use = pending
		}
		pieces = append(pieces, p)
		held += b.Size
	}
	panel := mapPanel(pieces, "then", "free")
	panel.Caption = fmt.Sprintf("The %s held at the instant of the file, by address: %s, %s a row",
		report.Bytes(held), countOf(len(starts), "region"), report.Bytes(rowBytes(held)))
	return panel.Panel, nil
}

func countOf(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return report.Count(n) + " " + one + "s"
}

// piecesOf cuts free blocks into what a flush would give back and what it would not, and counts segments.
func piecesOf(blocks []caching.Placed) (pieces []piece, segments int) {
	for i := range blocks {
		b := &blocks[i]
		segment := i == 0 || b.First || blocks[i-1].Addr+uint64(blocks[i-1].Size) != b.Addr
		if segment {
			segments++
		}
		add := func(addr uint64, size int64, u use) {
			if size > 0 {
				pieces = append(pieces, piece{addr, size, u, segment})
				segment = false
			}
		}
		switch {
		case b.Free && b.SpareSize > 0:
			before := int64(b.Spare - b.Addr)
			add(b.Addr, before, stranded)
			add(b.Spare, b.SpareSize, cached)
			add(b.Spare+uint64(b.SpareSize), b.Size-before-b.SpareSize, stranded)
		case b.Free:
			add(b.Addr, b.Size, stranded)
		case b.Pending:
			add(b.Addr, b.Size, pending)
		case b.Pool != 0:
			add(b.Addr, b.Size, inPrivate)
		default:
			add(b.Addr, b.Size, inUse)
		}
	}
	return pieces, segments
}

const (
	mapRows    = 16  // at most
	mapColumns = 600 // in a row: what is smaller than one shares it
)

// rowBytes is how much memory a row of the map has: a round size.
func rowBytes(held int64) int64 {
	n := int64(512)
	for n*mapRows < held {
		n *= 2
	}
	return n
}

// addressMap is the plot.
type addressMap struct {
	pieces []piece
	row    int64 // bytes
	rows   int
	marks  []mapMark
}

// mapMark is a number at an address.
type mapMark struct {
	offset int64 // bytes of what is held that lie before it
	text   string
}

// mapped is a panel with its map, to be added to.
type mapped struct {
	*Panel
	shown *addressMap
}

// mapPanel makes the panel, with the sums in its margin. Free memory of which nobody knows more has a name of its own.
func mapPanel(pieces []piece, when, free string) mapped {
	var held int64
	var sums [numUses]int64
	for _, p := range pieces {
		held += p.size
		sums[p.use] += p.size
	}
	m := &addressMap{pieces: pieces, row: rowBytes(held)}
	m.rows = int((held + m.row - 1) / m.row)
	p := newPlot()
	p.HideAxes()
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, 1, 0, 1
	k := key{title: when}
	for u, s := range useStyles() {
		if use(u) == stranded {
			s.name = free
		}
		if sums[u] > 0 || use(u) == inUse || use(u) == stranded || use(u) == cached && free == strandedName {
			k.entries = append(k.entries, entry{name: s.name, text: report.Bytes(sums[u]), fill: s.fill, hatched: s.hatched})
		}
	}
	p.Add(m, k)
	return mapped{&Panel{Plot: p}, m}
}

// pins marks the segments that waste most, and says who keeps them.
func (m mapped) pins(a *report.Analysis, l *report.Layout, pieces []piece) {
	const most = 3
	at := map[uint64]int64{}
	var offset int64
	for _, p := range pieces {
		at[p.addr] = offset
		offset += p.size
	}
	for _, pin := range l.PinnedBy {
		if len(m.shown.marks) == most || pin.Stranded()*100 < offset {
			break
		}
		start, ok := at[pin.Addr]
		if !ok {
			continue
		}
		n := strconv.Itoa(len(m.shown.marks) + 1)
		who := report.PlaceOf(a.Trace.Stacks, pin.Stack).String()
		switch {
		case who == "" && pin.Old:
			who = "allocated before recording began"
		case who == "":
			who = "recorded without a call stack"
		}
		m.shown.marks = append(m.shown.marks, mapMark{start, n})
		m.Notes = append(m.Notes, fmt.Sprintf("(%s) %s in use keep %s: %s, the largest %s of %s.", n, report.Bytes(pin.Live), report.Bytes(pin.Segment),
			countOf(pin.Blocks, "block"), report.Bytes(pin.StackSize), who))
	}
}

// addressRoom is for the addresses at the left, in points.
const addressRoom = 88

// GlyphBoxes implements plot.GlyphBoxer.
func (m *addressMap) GlyphBoxes(*plot.Plot) []plot.GlyphBox {
	return []plot.GlyphBox{{X: 0, Y: 0.5, Rectangle: box(-addressRoom, 0, addressRoom, 0)}}
}

// Plot implements plot.Plotter.
func (m *addressMap) Plot(c draw.Canvas, _ *plot.Plot) {
	pitch := (c.Max.Y - c.Min.Y) / vg.Length(max(m.rows, 6))
	place := func(offset int64) vg.Point { // the lower left corner of a byte
		row := offset / m.row
		return vg.Point{X: c.Min.X + (c.Max.X-c.Min.X)*vg.Length(float64(offset%m.row)/float64(m.row)), Y: c.Max.Y - pitch*vg.Length(row+1) + pitch*0.12}
	}
	high := pitch * 0.76
	fills := m.fills(c, place, high)
	for u, s := range useStyles() {
		if len(fills[u]) == 0 {
			continue
		}
		c.SetColor(s.fill)
		var path vg.Path
		for _, r := range fills[u] {
			path = append(path, r.Path()...)
		}
		c.Fill(path)
		if s.hatched {
			hatch(c, fills[u]...)
		}
	}
	m.edges(c, place, high)
	s := aligned(letters(textSize, white), draw.XCenter, draw.YCenter)
	for _, k := range m.marks {
		at := place(k.offset)
		at.X, at.Y = min(at.X+9, c.Max.X-8), at.Y+high/2
		c.DrawGlyph(draw.GlyphStyle{Color: white, Radius: 8, Shape: draw.CircleGlyph{}}, at)
		c.DrawGlyph(draw.GlyphStyle{Color: black, Radius: 7, Shape: draw.CircleGlyph{}}, at)
		c.FillText(s, at, k.text)
	}
}

// edges draws where segments begin, and the address of each row.
func (m *addressMap) edges(c draw.Canvas, place func(int64) vg.Point, high vg.Length) {
	const tight = 3 // points
	segments := 0
	for _, p := range m.pieces {
		if p.segment {
			segments++
		}
	}
	each := vg.Length(segments)*tight < (c.Max.X-c.Min.X)*vg.Length(m.rows)
	s := aligned(letters(noteSize, grey), draw.XRight, draw.YCenter)
	var offset int64
	row := int64(-1)
	for _, p := range m.pieces {
		if p.segment && each {
			at := place(offset)
			c.StrokeLine2(stroke(black, 0.9), at.X, at.Y-2, at.X, at.Y+high+2)
		}
		for r := row + 1; r*m.row < offset+p.size; r++ {
			row = r
			at := place(r * m.row)
			c.FillText(s, vg.Point{X: at.X - 6, Y: at.Y + high/2}, fmt.Sprintf("%#x", p.addr+uint64(max(r*m.row-offset, 0))))
		}
		offset += p.size
	}
}

// fills finds the rectangles of each use. Pieces that are smaller than a column share it: each has as much of its
// height as it has of its bytes.
func (m *addressMap) fills(c draw.Canvas, place func(int64) vg.Point, high vg.Length) [numUses][]vg.Rectangle {
	var out [numUses][]vg.Rectangle
	width := (c.Max.X - c.Min.X) / mapColumns
	column := max(1, float64(m.row)/mapColumns)
	var shares [numUses]float64
	now, filled := 0, 0.0
	settle := func() {
		if filled == 0 {
			return
		}
		at := place(int64(now/mapColumns) * m.row)
		at.X += width * vg.Length(now%mapColumns)
		w := width * vg.Length(1)
		if filled < column*0.999 && int64(now%mapColumns) >= 0 {
			w = width * vg.Length(filled/column) // the last one
		}
		for u, n := range shares {
			if n == 0 {
				continue
			}
			h := high * vg.Length(n/filled)
			r := box(at.X, at.Y, w, h)
			list := out[u]
			if k := len(list); k > 0 && n == filled && list[k-1].Min.Y == r.Min.Y && list[k-1].Max.Y == r.Max.Y && list[k-1].Max.X > r.Min.X-width/4 {
				list[k-1].Max.X = r.Max.X
			} else {
				out[u] = append(list, r)
			}
			at.Y += h
		}
		shares, filled = [numUses]float64{}, 0
	}
	var offset float64
	for _, p := range m.pieces {
		for left := float64(p.size); left > 0; {
			k := int(offset / column)
			if k != now {
				settle()
				now = k
			}
			n := min(left, max(column*float64(k+1)-offset, 1e-3*column))
			shares[p.use] += n
			filled += n
			left -= n
			offset += n
		}
	}
	settle()
	return out
}
