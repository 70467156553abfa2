package report

import (
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// Grid is a table with a header, in the style that all tables have.
func Grid(header ...any) table.Writer {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.Style().Options = table.OptionsNoBordersAndSeparators
	t.Style().Format.Header = text.FormatDefault
	t.AppendHeader(header)
	return t
}

// RightAligned are columns of numbers.
func RightAligned(columns ...int) []table.ColumnConfig {
	var out []table.ColumnConfig
	for _, n := range columns {
		out = append(out, table.ColumnConfig{Number: n, Align: text.AlignRight, AlignHeader: text.AlignRight})
	}
	return out
}

// rightAligned are columns of numbers, from one up to and including another.
func rightAligned(from, to int) []table.ColumnConfig {
	var columns []int
	for n := from; n <= to; n++ {
		columns = append(columns, n)
	}
	return RightAligned(columns...)
}

// GridLines are the lines of a table, of which none ends in blanks.
func GridLines(t table.Writer, markdown bool) []string {
	if markdown {
		return []string{t.RenderMarkdown()}
	}
	lines := strings.Split(t.Render(), "\n")
	for i, l := range lines {
		lines[i] = strings.TrimRight(l, " ")
	}
	return lines
}

func (p *page) grid(t table.Writer) {
	for _, l := range GridLines(t, p.style.Markdown) {
		p.line("%s", l)
	}
}
