package plot

import (
	"errors"
	"fmt"
	"image/color"

	"github.com/vramscope/vramscope/allocators"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/trace"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// part is a share of what is reserved.
type part struct {
	name string
	fill color.NRGBA
	of   func(allocated int64, f allocators.Fragmentation) int64
}

const strandedName = "stranded"

// parts are what the reserved memory consists of, from below:
//
//	reserved = in use + rounding + pending + stranded + cached
//	allocated = in use + rounding
func parts() []part {
	return []part{
		{"in use", sky, func(allocated int64, f allocators.Fragmentation) int64 { return allocated - f.Rounding }},
		{"rounding", green, func(_ int64, f allocators.Fragmentation) int64 { return f.Rounding }},
		{"pending", purple, func(_ int64, f allocators.Fragmentation) int64 { return f.Pending }},
		{strandedName, orange, func(_ int64, f allocators.Fragmentation) int64 { return f.Stranded }},
		{"cached", yellow, func(_ int64, f allocators.Fragmentation) int64 { return f.Cached }},
	}
}

// Fragmentation draws what the reserved memory consisted of over a recording, as areas that stand on each other.
// Of a recording of which a part was analysed, that part is drawn.
func Fragmentation(a *report.Analysis, d *report.Device, o report.Options, by By) (*Panel, error) {
	if d.Trace.Content != trace.Decisions {
		return nil, fmt.Errorf("the file does not show what the allocator held and did not use%s", instead(a))
	}
	if len(d.Uses) == 0 || d.Trace.Events.Len() == 0 {
		return nil, fmt.Errorf("the file has no events that could be drawn over time%s", instead(a))
	}
	x := axisOf(a, d.Trace, o, by)
	all := parts()
	k := stackOf(d, &x, all)
	if k.unknown == len(k.reserved) {
		return nil, errors.New("what was free in which segment is not known: the recording does not keep to the allocator's rules; vramscope verify says where")
	}
	p := newPlot()
	x.mark(&p.X)
	most := d.PeakReserved.Reserved
	for i, q := range k.reserved {
		most = max(most, q.v, k.sums[len(all)-1][i].v) // more may be in use than the file shows to be reserved
	}
	vertical(&p.Y, float64(most))
	panel := &Panel{Plot: p, Caption: "What was reserved, and what of it was in use", over: true}
	for i := len(all) - 1; i >= 0; i-- {
		p.Add(area{k.sums[i], x.high, all[i].fill})
	}
	p.Add(hatching{k.sums[2], k.sums[3], x.high}, levels{})
	lines := []steps{{k.sums[1], x.high, stroke(blue, 1)}, {k.reserved, x.high, stroke(vermilion, 1.5, 6, 2.5)}}
	if k.most > 0 {
		lines = append(lines, steps{k.private, x.high, stroke(black, 1, 1.5, 2)})
	}
	for _, l := range lines {
		p.Add(l)
	}
	at := d.PeakReserved
	var marks []callout
	if at.Reserved > 0 {
		marks = append(marks, callout{x.at(at.Event, at.Time), float64(at.Reserved),
			fmt.Sprintf("peak %s reserved, %s", report.Bytes(at.Reserved), x.when(at.Event, at.Time)), vermilion, draw.BoxGlyph{}})
	}
	marks = append(marks, failureCallouts(d, &x, true)...)
	p.Add(failures{d, &x}, callouts{marks, lines, 0}, fragmentKey(d, all, k.most))
	if k.unknown > 0 {
		panel.Notes = append(panel.Notes, fmt.Sprintf("At %d of the %d instants that are drawn the recording does not keep to the allocator's rules: what was not in use is left white there.", k.unknown, len(k.reserved)))
	}
	panel.Notes = append(panel.Notes, "Stranded: free, in segments that something in use keeps. Cached: whole free segments, or pages, which could be given back. Rounding: in use beyond what was asked for. Pending: freed, waiting for a stream.")
	panel.Notes = append(panel.Notes, caveats(d)...)
	return panel, nil
}

// stack is the parts on each other, at the instants that are known.
type stack struct {
	sums              [][]point // up to and with each part
	reserved, private []point
	most              int64 // bytes of private pools
	unknown           int   // of the instants, those of which only what was allocated and reserved is known
}

func stackOf(d *report.Device, x *axis, all []part) stack {
	k := stack{sums: make([][]point, len(all))}
	now := 0.0
	for _, u := range d.Uses {
		if !u.Known && d.Follow.Score.Exact() {
			continue // in the middle of a request
		}
		if now = max(now, x.at(u.Event, u.Time)); now > x.high {
			break
		}
		if n := len(k.reserved); now < x.low && n > 0 { // only the last of those before the part that is drawn counts
			k = stack{sums: make([][]point, len(all))}
		}
		k.add(u, all, max(now, x.low))
	}
	return k
}

// add puts the parts of an instant on each other.
func (k *stack) add(u report.UsePoint, all []part, now float64) {
	k.reserved = append(k.reserved, point{now, u.Reserved})
	k.private = append(k.private, point{now, u.Private})
	k.most = max(k.most, u.Private)
	if !u.Known {
		k.unknown++
	}
	sum := int64(0)
	for i := range all {
		if u.Known {
			sum += all[i].of(u.Allocated, u.Fragmentation)
		} else {
			sum = u.Allocated // the rest is not known, and left white
		}
		k.sums[i] = append(k.sums[i], point{now, sum})
	}
}

// fragmentKey names the areas, with their sizes at the reserved peak.
func fragmentKey(d *report.Device, all []part, private int64) key {
	k := key{title: "at the reserved peak"}
	for i := len(all) - 1; i >= 0; i-- {
		text := "not known"
		if d.Fragmented {
			text = report.Bytes(all[i].of(d.PeakReserved.Allocated, d.Fragmentation))
		}
		k.entries = append(k.entries, entry{name: all[i].name, text: text, fill: all[i].fill, hatched: all[i].name == strandedName})
	}
	if private > 0 {
		k.entries = append(k.entries, entry{name: "private pools", text: "at most " + report.Bytes(private), line: stroke(black, 1, 1.5, 2)})
	}
	return k
}

// hatching draws slanted lines between two lines of steps with the same places.
type hatching struct {
	low, high []point
	end       float64
}

// Plot implements plot.Plotter.
func (h hatching) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := transforms(c, p)
	var list []vg.Rectangle
	for i, q := range h.high {
		to := h.end
		if i+1 < len(h.high) {
			to = h.high[i+1].x
		}
		low, high := y(float64(h.low[i].v)), y(float64(q.v))
		if left, right := x(q.x), x(to); left < right && low < high {
			list = append(list, box(left, low, right-left, high-low))
		}
	}
	hatch(c, list...)
}
