package report

import (
	"io"
	"strings"
)

// Converted is what came of writing a recording in another form.
type Converted struct {
	File   string // that was read
	Output string // that was written
	Form   string // "pprof", …
	Sums   []Amount
	Notes  []string // what was left out, and what had to be made up
	Open   string   // the command that opens it, or the page; "" for none
}

// Amount is a count with its name.
type Amount struct {
	Name  string // in the plural, where it is no size
	Value int64
	Bytes bool // the value is in bytes
}

type convertedJSON struct {
	Schema string           `json:"schema"`
	File   string           `json:"file"`
	Output string           `json:"output"`
	Form   string           `json:"form"`
	Counts map[string]int64 `json:"counts"`
	Notes  []string         `json:"notes"`
	Open   *string          `json:"open"`
}

// WriteJSON renders it for programs, schema vramscope/convert/v1.
func (c *Converted) WriteJSON(w io.Writer) error {
	out := convertedJSON{Schema: "vramscope/convert/v1", File: c.File, Output: c.Output, Form: c.Form,
		Counts: map[string]int64{}, Notes: append([]string{}, c.Notes...), Open: known(c.Open)}
	for _, s := range c.Sums {
		name := s.Name
		if s.Bytes {
			name += "_bytes"
		}
		out.Counts[name] = s.Value
	}
	return WriteJSON(w, out)
}

// WriteText renders it for people.
func (c *Converted) WriteText(w io.Writer, style Style) error {
	p := &page{w: w, style: style}
	line := c.Output + " · " + c.Form
	for _, s := range c.Sums {
		if s.Bytes {
			line += " · " + s.Name + " " + Bytes(s.Value)
		} else {
			line += " · " + plural(int(s.Value), strings.TrimSuffix(s.Name, "s"))
		}
	}
	p.line("%s", p.bold(line))
	if c.Open != "" {
		p.line("open it: %s", c.Open)
	}
	for _, n := range c.Notes {
		p.line("- %s", n)
	}
	return p.err
}
