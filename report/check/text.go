package check

import (
	"fmt"
	"io"
	"math"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/vramscope/vramscope/report"
)

// page writes lines until one cannot be written.
type page struct {
	w   io.Writer
	err error
}

func (p *page) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}

// WriteText renders a result for people: the answer, the rules, who grew, and what to do.
func (r *Result) WriteText(w io.Writer, style report.Style) error {
	p := &page{w: w}
	head := r.headline()
	switch {
	case style.Markdown:
		head = "**" + head + "**"
	case style.Color:
		head = "\x1b[1m" + head + "\x1b[0m"
	}
	p.line("%s", head)
	if len(r.Findings) > 0 {
		p.line("")
		r.table(p, style)
		r.grown(p, style)
	}
	r.ending(p, style)
	return p.err
}

// table lists the rules. Messages of those that failed follow, but for the first, which is the headline.
func (r *Result) table(p *page, style report.Style) {
	header := table.Row{"", "rule", "value", "baseline", "change", "at most"}
	if len(r.Profiles) > 1 {
		header = append(header, "device")
	}
	t := report.Grid(header...)
	var numbers []int
	for i := 3; i <= len(header); i++ {
		numbers = append(numbers, i)
	}
	t.SetColumnConfigs(report.RightAligned(numbers...))
	for i := range r.Findings {
		f := &r.Findings[i]
		verdict := "ok"
		if !f.Passed {
			verdict = "FAILED"
		}
		row := table.Row{verdict, f.Rule, f.Unit.column(f.Value), f.Unit.column(f.Baseline), f.change(), f.Unit.column(f.Limit)}
		if len(r.Profiles) > 1 {
			row = append(row, f.Device)
		}
		t.AppendRow(row)
	}
	for _, l := range report.GridLines(t, style.Markdown) {
		p.line("%s", l)
	}
	if style.Markdown {
		p.line("")
	}
	first := true
	for i := range r.Findings {
		f := &r.Findings[i]
		if f.Passed {
			continue
		}
		if !first {
			p.line("- %s%s: %s.", r.prefix(f), f.Rule, f.Message)
		}
		first = false
	}
}

// column is a figure in a table: sizes are in one unit, so that they can be compared.
func (u Unit) column(v float64) string {
	if v != report.Unknown && (u == Bytes || u == PerStep) {
		return report.MiB(int64(math.Round(v)))
	}
	return u.Show(v)
}

// change is how a figure differs from its baseline.
func (f *Finding) change() string {
	if f.Value == report.Unknown || f.Baseline == report.Unknown {
		return ""
	}
	if d := f.Value - f.Baseline; d > 0 {
		return "+" + f.Unit.column(d)
	} else if d < 0 {
		return "-" + f.Unit.column(-d)
	}
	return "0"
}

// grown lists the stacks that are blamed for anything, each once.
func (r *Result) grown(p *page, style report.Style) {
	seen := map[string]bool{}
	for i := range r.Findings {
		f := &r.Findings[i]
		for _, s := range f.Stacks {
			key := fmt.Sprint(f.Device, s.Frames)
			if f.Passed || seen[key] {
				continue
			}
			if len(seen) == 0 {
				p.line("")
				if style.Markdown {
					p.line("```")
				}
			}
			seen[key] = true
			p.line("%s", s.Where)
			for _, frame := range frameLines(s.Frames) {
				p.line("    %s", frame)
			}
		}
	}
	if len(seen) > 0 && style.Markdown {
		p.line("```")
	}
}

func (r *Result) ending(p *page, style report.Style) {
	code := func(s string) string {
		if style.Markdown {
			return "`" + s + "`"
		}
		return s
	}
	if len(r.Notes) > 0 {
		p.line("")
	}
	for _, n := range r.Notes {
		p.line("- %s", n)
	}
	against := false
	for i := range r.Findings {
		f := &r.Findings[i]
		against = against || !f.Passed && f.Baseline != report.Unknown
	}
	switch {
	case r.Written != "" && len(r.Findings) > 0:
		p.line("")
		p.line("This recording is the baseline now, in %s.", code(r.Written))
	case against && r.Baseline != "":
		p.line("")
		p.line("If this is meant, keep it as the new baseline: %s", code(r.again()))
	}
}

// again is the command that makes this recording the baseline.
func (r *Result) again() string {
	command := "vramscope check " + r.File
	if r.Policy != "" {
		command += " --policy " + r.Policy // its patterns are part of a baseline
	}
	return command + " --write-baseline " + r.Baseline
}
