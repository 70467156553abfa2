package report

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Style says how text may look.
type Style struct {
	Markdown bool
	Color    bool
	Width    int  // columns of the terminal, 0 for lines of any length
	Rows     int  // rows of a table of stacks; 0 for ten
	Tree     bool // show the tree of calls at the peak as well
}

// page writes lines.
type page struct {
	w      io.Writer
	style  Style
	err    error
	fenced bool // within a block of aligned lines
	listed bool // the line before is an item of a Markdown list
	raw    bool // the Markdown is not for a renderer of Markdown: names stand as they are
}

// plainMarkdown keeps names such as <lambda> and __init__ from being taken for markup. The two stars of what is bold are ours.
var plainMarkdown = strings.NewReplacer("<", `\<`, "__", `\_\_`)

func (p *page) line(format string, args ...any) {
	if p.err != nil {
		return
	}
	text := fmt.Sprintf(format, args...)
	switch {
	case p.style.Markdown && !p.fenced:
		if !p.raw {
			text = plainMarkdown.Replace(text)
		}
		if p.listed && text != "" {
			text = "\n" + text // otherwise it would be part of the last item
		}
		p.listed = false
	case p.style.Width <= 0 || p.style.Markdown:
	case p.fenced:
		text = cutTo(text, p.style.Width)
	default:
		text = wrap(text, p.style.Width)
	}
	_, p.err = io.WriteString(p.w, text+"\n")
}

// item writes a line below another: in Markdown, an item of a list.
func (p *page) item(format string, args ...any) {
	if !p.style.Markdown {
		p.line("  "+format, args...)
		return
	}
	p.listed = false
	p.line("- "+format, args...)
	p.listed = true
}

// rows is how many rows of a table are shown.
func (p *page) rows() int {
	if p.style.Rows == 0 {
		return 10
	}
	return p.style.Rows
}

// Escapes of terminals.
const (
	bold   = "\x1b[1m"
	red    = "\x1b[1;31m"
	yellow = "\x1b[1;33m"
	dim    = "\x1b[2m"
	plain  = "\x1b[0m"
)

func (p *page) bold(s string) string { return p.marked(bold, s) }

// alarm is bold for what went wrong, caution for what might.
func (p *page) alarm(s string) string   { return p.marked(red, s) }
func (p *page) caution(s string) string { return p.marked(yellow, s) }

func (p *page) marked(escape, s string) string {
	switch {
	case p.style.Markdown:
		return "**" + s + "**"
	case p.style.Color:
		return escape + s + plain
	}
	return s
}

// faint is for what matters least.
func (p *page) faint(s string) string {
	if p.style.Color && !p.style.Markdown {
		return dim + s + plain
	}
	return s
}

// fence begins and ends a block of aligned lines.
func (p *page) fence() {
	p.fenced = !p.fenced
	if p.style.Markdown && p.err == nil {
		p.listed = false
		_, p.err = io.WriteString(p.w, "```\n")
	}
}

// wrap breaks a line between words so that none of its parts is longer than width, if its words allow. What follows is
// indented by two more than the line. Rows of tables are left as they are.
func wrap(text string, width int) string {
	indent := text[:len(text)-len(strings.TrimLeft(text, " "))]
	if columns(text) <= width || strings.Contains(text[len(indent):], "   ") {
		return text // it fits, or is a row of a table
	}
	var out strings.Builder
	out.WriteString(indent)
	used, first := len(indent), true
	for _, word := range together(strings.Fields(text)) {
		n := columns(word)
		switch {
		case first:
		case used+1+n > width:
			out.WriteString("\n" + indent + "  ")
			used = len(indent) + 2
		default:
			out.WriteByte(' ')
			used++
		}
		out.WriteString(word)
		used += n
		first = false
	}
	return out.String()
}

// together joins what belongs on one line: a number and its unit.
func together(words []string) []string {
	out := words[:0]
	for _, w := range words {
		switch strings.TrimRight(w, "),.;:") {
		case "KiB", "MiB", "GiB", "bytes", "%", "ms", "s", "µs":
			if n := len(out); n > 0 {
				out[n-1] += " " + w
				continue
			}
		}
		out = append(out, w)
	}
	return out
}

// cutTo leaves out what is beyond so many columns, except escapes.
func cutTo(text string, width int) string {
	if columns(text) <= width {
		return text
	}
	var out strings.Builder
	used, cut := 0, false
	for i := 0; i < len(text); {
		if n := escapeLen(text[i:]); n > 0 {
			out.WriteString(text[i : i+n])
			i += n
			continue
		}
		_, n := utf8.DecodeRuneInString(text[i:])
		switch {
		case used < width-1:
			out.WriteString(text[i : i+n])
			used++
		case !cut:
			out.WriteString("…")
			cut = true
		}
		i += n
	}
	return out.String()
}

// columns is how wide a text is on a terminal.
func columns(text string) int {
	n := 0
	for i := 0; i < len(text); {
		if e := escapeLen(text[i:]); e > 0 {
			i += e
			continue
		}
		_, size := utf8.DecodeRuneInString(text[i:])
		i += size
		n++
	}
	return n
}

// escapeLen is the length of the escape that a text begins with, 0 if it begins with none of ours.
func escapeLen(text string) int {
	if !strings.HasPrefix(text, "\x1b[") {
		return 0
	}
	return strings.IndexByte(text, 'm') + 1
}
