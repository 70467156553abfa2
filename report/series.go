package report

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/vramscope/vramscope/trace"
)

// Summary is what a series of samples comes down to. Values are in the unit of the quantity.
type Summary struct {
	trace.Quantity
	Name        string
	PID         int64 // 0 for none
	Samples     int
	First, Last trace.Time
	Min, Max    int64
	MaxAt       trace.Time
	End         int64 // the last value
	Coarse      int   // samples that a point of the series stands for; extremes are exact all the same
}

// Summarize comes down to what the series of a device say: those of the device as a whole first, then those
// of its processes, categories and operators, the largest first.
func Summarize(list []trace.Series) []Summary {
	var out []Summary
	for i := range list {
		s := &list[i]
		if s.Samples == 0 {
			continue
		}
		first, last := s.Span()
		out = append(out, Summary{Quantity: s.Quantity, Name: s.Name, PID: s.PID, Samples: s.Samples, First: first, Last: last,
			Min: s.Min, Max: s.Max, MaxAt: s.MaxAt, End: s.Last(), Coarse: s.Coarse()})
	}
	slices.SortStableFunc(out, func(a, b Summary) int {
		part := func(s Summary) int {
			if s.isPart() {
				return 1
			}
			return 0
		}
		if c := cmp.Compare(part(a), part(b)); c != 0 {
			return c
		}
		if a.isPart() {
			return cmp.Or(cmp.Compare(a.Quantity, b.Quantity), cmp.Compare(b.Max, a.Max))
		}
		return cmp.Compare(a.Quantity, b.Quantity)
	})
	return out
}

// isPart says whether the series is of a part of the device.
func (s Summary) isPart() bool { return s.PID != 0 || s.Name != "" }

type seriesJSON struct {
	Quantity string  `json:"quantity"`
	Unit     string  `json:"unit"`
	Name     *string `json:"name"`
	PID      *int64  `json:"pid"`
	Samples  int     `json:"samples"`
	SpanUS   *int64  `json:"span_us"`
	Min      int64   `json:"min"`
	Max      int64   `json:"max"`
	MaxUS    *int64  `json:"max_at_us"`
	End      int64   `json:"end"`
}

// seriesList renders series for programs. Values of memory are in bytes.
func seriesList(list []trace.Series, clock trace.Clock) []seriesJSON {
	out := []seriesJSON{}
	for _, s := range Summarize(list) {
		j := seriesJSON{Quantity: s.Quantity.String(), Unit: s.Unit(), Name: known(s.Name), PID: atLeast(s.PID, 1),
			Samples: s.Samples, Min: s.Min, Max: s.Max, End: s.End}
		if clock != trace.ClockNone {
			at, span := int64(s.MaxAt)/1000, int64(s.Last-s.First)/1000
			j.MaxUS, j.SpanUS = &at, &span
		}
		out = append(out, j)
	}
	return out
}

// quantityLabels are what people call the quantities.
var quantityLabels = map[trace.Quantity]string{
	trace.DeviceUsed: "used", trace.DeviceFree: "free", trace.DeviceTotal: "total", trace.DriverReserved: "kept by the driver",
	trace.ProcessUsed: "processes", trace.BAR1Used: "BAR1", trace.Allocated: "allocated", trace.AllocatorReserved: "reserved by the allocator",
	trace.Requested: "requested", trace.AllocatorFree: "free in the allocator", trace.LargestFree: "largest free block",
	trace.Stranded: "free, kept by blocks in use", trace.OfCategory: "categories of tensors", trace.NetOfOperator: "operators, allocated and not freed by themselves",
	trace.LifetimePeak: "allocated, ever", trace.Fragmentation: "free, not in one piece", trace.Busy: "device busy", trace.InstanceUsed: "instances (MIG)",
}

// showValue shows a value of a quantity.
func showValue(q trace.Quantity, v int64) string {
	if q.Unit() == "percent" {
		return fmt.Sprintf("%d %%", v)
	}
	return Bytes(v)
}

// series writes the series of a device as a table: a line for each of the device, the largest parts below.
func (p *page) series(list []trace.Series, clock trace.Clock) {
	sums := Summarize(list)
	if len(sums) == 0 {
		return
	}
	start := sums[0].First
	for _, s := range sums {
		start = min(start, s.First)
	}
	rows := p.style.Rows
	if rows == 0 {
		rows = 10
	}
	parts := map[trace.Quantity]int{}
	for _, s := range sums {
		if s.isPart() {
			parts[s.Quantity]++
		}
	}
	shown := map[trace.Quantity]int{}
	headed := false
	for _, s := range sums {
		if !s.isPart() {
			if !headed {
				p.line("  %-26s %11s %11s %11s", "", "least", "most", "at the end")
				headed = true
			}
			p.line("  %-26s %11s %11s %11s%s", quantityLabels[s.Quantity], showValue(s.Quantity, s.Min), showValue(s.Quantity, s.Max), showValue(s.Quantity, s.End), s.when(start, clock))
			continue
		}
		n := shown[s.Quantity]
		if shown[s.Quantity]++; n == 0 {
			p.line("  %s: %s", quantityLabels[s.Quantity], Count(parts[s.Quantity]))
		}
		switch {
		case n == rows:
			p.line("    and %s more", Count(parts[s.Quantity]-rows))
		case n < rows:
			p.line("    %11s  %s%s", showValue(s.Quantity, s.Max), s.label(), s.lived(start, clock))
		}
	}
}

// label names the part.
func (s Summary) label() string {
	switch {
	case s.PID == 0:
		return s.Name
	case s.Name == "":
		return fmt.Sprintf("pid %d", s.PID)
	}
	return fmt.Sprintf("pid %d %s", s.PID, s.Name)
}

// when says at which moment the most was reached.
func (s Summary) when(start trace.Time, clock trace.Clock) string {
	if clock == trace.ClockNone || s.Min == s.Max {
		return ""
	}
	return "  most at +" + Span(time.Duration(s.MaxAt-start))
}

// lived says from when to when a part was seen.
func (s Summary) lived(start trace.Time, clock trace.Clock) string {
	if clock == trace.ClockNone || s.Samples < 2 {
		return ""
	}
	from := "start"
	if s.First > start {
		from = "+" + Span(time.Duration(s.First-start))
	}
	return fmt.Sprintf("  %s to +%s, most at +%s", from, Span(time.Duration(s.Last-start)), Span(time.Duration(s.MaxAt-start)))
}

// sampled says how many samples a device has, over which time.
func sampled(list []trace.Series, clock trace.Clock) string {
	most := 0
	var first, last trace.Time
	for i := range list {
		s := &list[i]
		from, to := s.Span()
		if s.Samples == 0 {
			continue
		}
		if most == 0 || from < first {
			first = from
		}
		most, last = max(most, s.Samples), max(last, to)
	}
	text := plural(most, "sample")
	if clock != trace.ClockNone && last > first {
		text += " over " + Span(time.Duration(last-first))
	}
	return text
}

type countJSON struct {
	What string `json:"what"`
	N    int    `json:"count"`
}

func countList(list []trace.Count) []countJSON {
	out := []countJSON{}
	for _, c := range list {
		out = append(out, countJSON(c))
	}
	return out
}

// contents are what programs know the kinds of content by.
var contents = map[trace.Content]string{
	trace.Decisions: "decisions", trace.Requests: "requests", trace.Instant: "instant", trace.Samples: "samples",
}
