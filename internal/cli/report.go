package cli

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/vramscope/vramscope/allocators/caching/config"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/report/page"
	"github.com/vramscope/vramscope/report/plot"
	"github.com/vramscope/vramscope/trace"
)

// reportForm is a form of report, with the endings of the names of files that ask for it.
type reportForm struct {
	name    string
	endings []string
	write   func(r *reporting, w io.Writer) error
}

// reportForms are all of them; the first ending of each is its short name.
func reportForms() []reportForm {
	return []reportForm{
		{"html", []string{".html", ".htm"}, (*reporting).page},
		{"markdown", []string{".md", ".markdown"}, func(r *reporting, w io.Writer) error {
			return r.analysis.WriteText(visible{w}, report.Style{Markdown: true})
		}},
		{"json", []string{".json"}, func(r *reporting, w io.Writer) error { return r.analysis.WriteJSON(w) }},
		{"text", []string{".txt", ".text"}, func(r *reporting, w io.Writer) error { return r.analysis.WriteText(visible{w}, report.Style{}) }},
		{"png", []string{".png"}, func(r *reporting, w io.Writer) error { return r.picture(w, ".png") }},
		{"svg", []string{".svg"}, func(r *reporting, w io.Writer) error { return r.picture(w, ".svg") }},
	}
}

// formOf finds the form that is asked for by name, or by the ending of a file's name.
func formOf(format, file string) (reportForm, error) {
	var names, endings []string
	for _, f := range reportForms() {
		names, endings = append(names, f.name), append(endings, f.endings[0])
		if format != "" && (format == f.name || "."+format == f.endings[0]) {
			return f, nil
		}
		for _, e := range f.endings {
			if format == "" && strings.EqualFold(filepath.Ext(file), e) {
				return f, nil
			}
		}
	}
	switch {
	case format != "":
		return reportForm{}, fmt.Errorf("--format %s: there are %s", format, strings.Join(names, ", "))
	case file == "" || file == "-":
		return reportForm{}, errors.New("where to? -o report.html writes the page; other names end in " + strings.Join(endings[1:], ", "))
	}
	return reportForm{}, fmt.Errorf("-o %s: the name should end in one of %s, or --format say the form", file, strings.Join(endings, ", "))
}

// reporting is a report on its way.
type reporting struct {
	analysis *report.Analysis
	trace    *trace.Trace
	options  report.Options
	device   int // that pictures are of
	wanted   wanted
	drawn    *plot.Picture        // nil in other forms
	tunes    map[int]*report.Tune // by device, for a page
	replay   bool
}

func newReport(e *env) *cobra.Command {
	var (
		out      output
		analysis analysisFlags
		plots    plotFlags
		format   string
	)
	c := &cobra.Command{
		Use:   "report FILE -o report.html",
		Short: "A page to look at in a browser, or a picture, Markdown or JSON, by the ending of the name",
		Long: `Writes what a recording shows in a form to keep or to show to others. The ending of the
name says which:

  .html        a page that is complete in itself: what analyze says, and every block of the
               recording to look at, over time, by address and by who called whom
  .png, .svg   pictures: memory over time and what was lost to fragmentation, or those
               that --plot asks for
  .md .txt     the text of analyze
  .json        the same for programs

The page loads nothing and sends nothing; it opens from a disk, without a network. It holds
the call stacks of the recording: --redact leaves the folders of files out.`,
		Args: oneFile,
		RunE: func(c *cobra.Command, args []string) error {
			form, err := formOf(format, out.file)
			if err != nil {
				return usageError{err}
			}
			if err := unread("-o", out.file, append(args, analysis.files()...)...); err != nil {
				return err
			}
			picture := form.name == "png" || form.name == "svg"
			if flag := plots.given(); flag != "" && !picture {
				return usageError{fmt.Errorf("%s is for pictures, and this is %s", flag, form.name)}
			}
			r := reporting{device: analysis.device, replay: !analysis.noReplay}
			if r.wanted, err = plots.check(); err != nil {
				return err
			}
			if r.analysis, r.options, err = analysis.analyze(e, c, args[0]); err != nil {
				return err
			}
			r.trace = r.analysis.Trace
			if form.name == "html" {
				r.tune()
			}
			if picture {
				if r.drawn, err = r.wanted.picture(r.analysis, r.options, r.trace, r.device); err != nil {
					return &inputError{args[0], err}
				}
			}
			return out.write(e.stdout, func(w io.Writer) error { return form.write(&r, w) })
		},
	}
	f := c.Flags()
	f.StringVarP(&out.file, "output", "o", "", "write to this `file`, whole or not at all")
	f.StringVar(&format, "format", "", "html, markdown, json, text, png or svg, whatever the name ends in")
	analysis.flags(c)
	plots.flags(c)
	return c
}

// mostTuned is how many events a recording may have for a page to come with a search for better settings, which replays
// it some hundred times.
const mostTuned = 60_000

// tune searches for better settings.
func (r *reporting) tune() {
	r.tunes = map[int]*report.Tune{}
	for i := range r.analysis.Devices {
		d := &r.analysis.Devices[i]
		if n := d.Trace.Events.Len(); d.Follow == nil || n == 0 || n > mostTuned || !r.replay {
			continue
		}
		r.tunes[d.Index] = report.TuneSettings(r.analysis.File, r.trace, d.Trace, report.TuneOptions{
			Limit: r.options.Limit, Memory: r.options.Memory, RecordedLimit: r.options.Limit, Settings: 32, Top: 6, Version: config.DefaultVersion})
	}
}

func (r *reporting) page(w io.Writer) error {
	return page.Write(w, r.analysis, page.Options{Version: version, Tunes: r.tunes})
}

func (r *reporting) picture(w io.Writer, ending string) error {
	return r.wanted.write(r.drawn, w, ending)
}
