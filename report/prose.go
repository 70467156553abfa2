package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/trace"
)

// What the text of an analysis says in sentences, for renderers that draw its tables themselves.

// Headline is the first line: what the file is.
func (a *Analysis) Headline() string { return a.headline() }

// Lead is what there is to say first of a device, a line each. What matters most is in **.
func (a *Analysis) Lead(d *Device) []string {
	lines := prose(func(p *page) { a.device(p, d) })
	if len(a.Devices) > 1 && len(lines) > 0 {
		lines = lines[1:] // the number of the device
	}
	for i, l := range lines {
		if l == "" {
			return lines[:i]
		}
	}
	return lines
}

// GrowthText is what there is to say of what grows from step to step.
func (a *Analysis) GrowthText(d *Device) []string { return prose(func(p *page) { a.growth(p, d) }) }

// NoteLines are what to bear in mind, a line each.
func (a *Analysis) NoteLines() []string {
	var notes []string
	for _, l := range prose(a.notes) {
		if note, ok := strings.CutPrefix(l, "- "); ok {
			notes = append(notes, note)
		}
	}
	return notes
}

// InstantLine says what existed at the one instant that a device shows.
func InstantLine(d *trace.Device) string { return liveLine(d) }

// SamplesLine says what the most was that a device's samples show: of what was in use, or else of the largest part.
func SamplesLine(list []trace.Series) string {
	sums := Summarize(list)
	of := ""
	if i := slices.IndexFunc(sums, func(s Summary) bool { return s.Quantity == trace.DeviceTotal && !s.isPart() }); i >= 0 {
		of = " of " + Bytes(sums[i].Max)
	}
	var most []string
	var parts []Summary
	for _, s := range sums {
		switch {
		case s.isPart():
			parts = append(parts, s)
		case s.Quantity == trace.DeviceUsed:
			most = append(most, Bytes(s.Max)+of+" used")
		case s.Quantity == trace.Allocated, s.Quantity == trace.AllocatorReserved, s.Quantity == trace.LifetimePeak:
			most = append(most, showValue(s.Quantity, s.Max)+" "+quantityLabels[s.Quantity])
		}
	}
	switch {
	case len(most) > 0:
		return "At most " + strings.Join(most, ", ") + "."
	case len(parts) > 0:
		return fmt.Sprintf("The largest of %s: %s, %s.", quantityLabels[parts[0].Quantity], showValue(parts[0].Quantity, parts[0].Max), parts[0].label())
	}
	return "Samples, and no events."
}

// Passage is a line of text, or a whole table of aligned lines.
type Passage struct {
	Text  string
	Table bool
}

// OutsideText is what there is to say of what was outside the allocator, by the logs that were held against a device.
func (a *Analysis) OutsideText(d *Device) []Passage {
	var out []Passage
	for _, o := range d.Outside {
		out = append(out, passages(func(p *page) { o.writeText(p, d.Trace) })...)
	}
	return out
}

// BesideLines are what memory there is that no device is charged with, a line each.
func (a *Analysis) BesideLines() []string {
	var out []string
	for _, l := range prose(func(p *page) { p.besides(a.Trace) }) {
		out = append(out, strings.TrimPrefix(strings.TrimSpace(l), "beside it: "))
	}
	return out
}

// prose is what is written outside of tables.
func prose(write func(*page)) []string {
	var lines []string
	for _, p := range passages(write) {
		if !p.Table {
			lines = append(lines, p.Text)
		}
	}
	return lines
}

// passages are what is written, tables apart.
func passages(write func(*page)) []Passage {
	var text strings.Builder
	write(&page{w: &text, style: Style{Markdown: true}, raw: true})
	var list []Passage
	table := false
	for line := range strings.Lines(text.String()) {
		switch line = strings.TrimRight(line, "\n"); {
		case line == "```":
			if table = !table; table {
				list = append(list, Passage{Table: true})
			}
		case table:
			list[len(list)-1].Text += line + "\n"
		default:
			list = append(list, Passage{Text: line})
		}
	}
	return list
}
