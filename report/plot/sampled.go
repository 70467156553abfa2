package plot

import (
	"cmp"
	"fmt"
	"image/color"
	"slices"
	"time"

	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/trace"
	"gonum.org/v1/plot/vg/draw"
)

// mostSeries is how many lines a plot of samples has: more cannot be told apart.
const mostSeries = 5

// seriesStyles are those of the lines, each with dashes of its own.
func seriesStyles() []draw.LineStyle {
	return []draw.LineStyle{stroke(blue, 1.5), stroke(vermilion, 1.5, 6, 2.5), stroke(green, 1.5, 2, 2), stroke(purple, 1.5, 8, 2, 2, 2), stroke(orange, 1.5, 1, 3)}
}

// sampled draws a file that has samples of totals, and no events.
func sampled(a *report.Analysis, d *report.Device) (*Panel, error) {
	if d.Trace.Content != trace.Samples {
		return nil, fmt.Errorf("the file shows one instant, which is no line over time%s", instead(a))
	}
	total, list, left := chosenSeries(d.Trace.Series)
	if len(list) == 0 {
		return nil, fmt.Errorf("the file has no samples of memory%s", instead(a))
	}
	first, end := list[0].Span()
	most := 0.0
	for _, s := range list {
		from, to := s.Span()
		first, end = min(first, from), max(end, to)
		most = max(most, float64(s.Max))
	}
	if a.Trace.Source.Clock == trace.ClockNone || end == first {
		return nil, fmt.Errorf("the file does not tell when its samples were taken%s", instead(a))
	}
	unit, name := timeUnit(time.Duration(end - first))
	place := func(t trace.Time) float64 { return float64(t-first) / float64(unit) }
	p := newPlot()
	p.X.Min, p.X.Max = 0, place(end)
	p.X.Label.Text = fmt.Sprintf("time since the first sample (%s)", name)
	p.X.Tick.Marker = decimalTicks{most: 10, show: showDecimal}
	panel := &Panel{Plot: p, Caption: "Samples of the memory over time"}
	if total > 0 && float64(total) <= 1.6*most {
		most = max(most, float64(total))
	}
	vertical(&p.Y, most)
	p.Add(levels{})
	if total > 0 && float64(total) <= most {
		p.Add(across{float64(total), "the device has " + report.Bytes(total), stroke(black, 1, 2, 2)})
	}
	var ends endings
	var peaks []callout
	var lines []steps
	for i, s := range list {
		line := seriesStyles()[i]
		c := line.Color.(color.NRGBA)
		t := thin(0, place(end), columns)
		for _, q := range s.Points {
			for _, v := range []int64{q.Low, q.High, q.Last} {
				t.add(place(q.Time), v)
			}
		}
		points := t.line()
		from, to := s.Span()
		lines = append(lines, steps{points, place(to), line})
		p.Add(lines[i])
		if from == to { // no line, since it was seen only once
			peaks = append(peaks, callout{place(from), float64(s.Max), "", c, draw.CircleGlyph{}})
		}
		label := report.SeriesLabel(s)
		ends = append(ends, ending{float64(last(points)), label + "\nat the end\n" + report.Bytes(last(points)), c, line})
		if i == 0 || s.Max > list[0].Max {
			peaks = append(peaks, callout{place(max(s.MaxAt, from)), float64(s.Max), fmt.Sprintf("most %s: %s, +%s",
				label, report.Bytes(s.Max), report.Span(time.Duration(s.MaxAt-first))), c, draw.CircleGlyph{}})
		}
	}
	p.Add(callouts{peaks, lines, 0}, ends)
	panel.Notes = append(panel.Notes, "The file has samples: what came and went between two of them is not in it.")
	if left > 0 {
		panel.Notes = append(panel.Notes, fmt.Sprintf("The largest %d are drawn; %s more.", len(list), countOf(left, "series")))
	}
	return panel, nil
}

// chosenSeries picks the series to draw: those of the device as a whole, and if there is room the largest of its
// parts. It says how many are left out.
func chosenSeries(all []trace.Series) (total int64, list []*trace.Series, left int) {
	for i := range all {
		s := &all[i]
		if s.Samples == 0 || s.Quantity.Unit() != "bytes" {
			continue
		}
		switch s.Quantity {
		case trace.DeviceTotal:
			total = max(total, s.Max)
			continue
		case trace.DeviceFree, trace.AllocatorFree, trace.LargestFree, trace.LifetimePeak, trace.NetOfOperator, trace.BAR1Used, trace.DriverReserved:
			continue
		}
		list = append(list, s)
	}
	part := func(s *trace.Series) int {
		if s.PID != 0 || s.Name != "" {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(list, func(a, b *trace.Series) int {
		return cmp.Or(cmp.Compare(part(a), part(b)), cmp.Compare(b.Max, a.Max))
	})
	most := min(len(list), mostSeries)
	return total, list[:most], len(list) - most
}

// instead says which recording has what a file lacks.
func instead(a *report.Analysis) string { return report.Instead(&a.Trace.Source) }
