package check

import (
	"fmt"
	"io"
	"strings"

	"github.com/vramscope/vramscope/report"
)

// WriteAnnotations writes a line for each finding that failed in the form that GitHub's runner shows beside the
// code.
func (r *Result) WriteAnnotations(w io.Writer, source Checkout) error {
	p := &page{w: w}
	for i := range r.Findings {
		f := &r.Findings[i]
		if f.Passed {
			continue
		}
		props := []string{"title=" + property("vramscope: "+f.Rule)}
		for _, s := range f.Stacks {
			if at, ok := source.find(s.Frames); ok {
				props = append([]string{"file=" + property(at.file), fmt.Sprintf("line=%d", at.line)}, props...)
				break
			}
		}
		p.line("::error %s::%s", strings.Join(props, ","), message(r.prefix(f)+f.Message))
	}
	return p.err
}

// message escapes what ends a command.
func message(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(s)
}

// property escapes what ends a property as well.
func property(s string) string {
	return strings.NewReplacer(":", "%3A", ",", "%2C").Replace(message(s))
}

// WriteSummary writes the result as a part of a job's summary, which is Markdown.
func (r *Result) WriteSummary(w io.Writer) error {
	p := &page{w: w}
	mark := "✅"
	if !r.Passed() {
		mark = "❌"
	}
	p.line("### %s Memory of `%s`", mark, strings.ReplaceAll(r.File, "`", "'"))
	p.line("")
	if p.err != nil {
		return p.err
	}
	if err := r.WriteText(w, report.Style{Markdown: true}); err != nil {
		return err
	}
	p.line("")
	return p.err
}
