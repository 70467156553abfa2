package oom

import (
	"io"
	"strings"

	"github.com/vramscope/vramscope/trace/oomlog"
)

// writeMarkdown writes what writeText does, for an issue or a page.
func writeMarkdown(w io.Writer, log *oomlog.Log, findings []Finding) error {
	p := &printer{w: w}
	if len(findings) == 0 {
		p.line("No out-of-memory message in %s.", extent(log))
	}
	for i := range findings {
		if i >= maxFull+maxShort {
			p.line("")
			p.line("And %d more messages.", len(findings)-i)
			break
		}
		f := &findings[i]
		if i > 0 {
			p.line("")
		}
		p.line("### %s", capital(f.Headline))
		p.line("")
		p.line("`%s` · %s", f.Judgement.Verdict, where(&f.Message))
		if len(f.Rows) > 0 {
			p.line("")
			p.line("| | amount | |")
			p.line("| --- | ---: | --- |")
			for _, r := range f.Rows {
				p.line("| %s | %s | %s |", r.Sign, r.Amount, strings.TrimSpace(r.What))
			}
		}
		p.line("")
		p.line("%s", f.Why)
		p.line("")
		for _, d := range f.Do {
			p.line("- %s", d)
		}
		if f.Adds != "" {
			p.line("")
			p.line("A snapshot would add: %s.", f.Adds)
			p.line("")
			p.line("```python")
			for _, l := range f.Record {
				p.line("%s", l)
			}
			p.line("```")
		}
	}
	p.notes(log.Notes)
	return p.err
}
