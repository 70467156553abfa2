package page

import (
	"bufio"
	"fmt"
	"html/template"
	"path/filepath"
	"strings"

	"github.com/vramscope/vramscope/report"
)

// bodyData is what the template of a page is filled with.
type bodyData struct {
	Title    string
	Policy   string
	Style    template.CSS
	Facts    []string // of the headline, behind the file's name
	Version  string
	Devices  []deviceData
	Notes    []string
	Beside   []string
	Lacks    []lackData
	Several  bool
	Redacted bool
}

type lackData struct{ What, Instead string }

// deviceData is what there is to say of a device without drawing.
type deviceData struct {
	Key     string
	Title   string
	Events  bool
	Lead    []sentence
	Growth  []sentence
	Outside []sentence
	Leaks   []leakData
	Tune    *tuneData
	Help    []helpData
	Try     string // the commands that tell more
}

// sentence is a line of text.
type sentence struct {
	Text   string
	Strong bool
	Under  bool // it belongs to the one before
	Table  bool // it is several aligned lines
}

type leakData struct {
	Bytes, Blocks, Confidence, AtEnd, Where string
}

type tuneData struct {
	Answer   string
	Under    string
	Header   []string
	Rows     []tuneRow
	Warnings []string
	Most     int64 // bytes, of the largest peak
}

type tuneRow struct {
	report.TuneRow
	Width int // of its bar, out of 100
}

type helpData struct {
	Conf, Peak, Instead, Completed string
}

// writeBody writes the page up to its columns.
func writeBody(out *bufio.Writer, a *report.Analysis, o Options) error {
	facts := strings.Split(a.Headline(), " · ")
	data := bodyData{
		Title: filepath.Base(a.File), Policy: policy(), Style: template.CSS(style()), Version: o.Version,
		Facts: facts[min(1, len(facts)):], Several: len(a.Devices) > 1, Notes: a.NoteLines(), Beside: a.BesideLines(),
	}
	for _, l := range a.Trace.Source.Lacks {
		data.Lacks = append(data.Lacks, lackData{l.What, l.Instead})
	}
	for i := range a.Devices {
		data.Devices = append(data.Devices, describe(a, i, o))
	}
	t, err := template.New("page").Parse(markup())
	if err != nil {
		return fmt.Errorf("the page's template: %w", err)
	}
	return t.Execute(out, data)
}

func describe(a *report.Analysis, i int, o Options) deviceData {
	d := &a.Devices[i]
	x := deviceData{Key: fmt.Sprint(i), Title: title(d), Events: d.Follow != nil, Lead: lead(a, d)}
	x.Growth = sentences(a.GrowthText(d))
	for _, p := range a.OutsideText(d) {
		if p.Table {
			x.Outside = append(x.Outside, sentence{Text: p.Text, Table: true})
		} else {
			x.Outside = append(x.Outside, sentences([]string{p.Text})...)
		}
	}
	for _, l := range a.LeakRows(d) {
		blocks := fmt.Sprintf("%.3g a step", l.Blocks)
		if l.Buffer {
			blocks = "one grows"
		}
		x.Leaks = append(x.Leaks, leakData{report.Bytes(int64(l.Bytes)), blocks, report.Confidence(l.Confidence), report.Bytes(l.AtEnd), l.Where})
	}
	if t := o.Tunes[d.Index]; t != nil {
		x.Tune = tuned(t)
	}
	for _, h := range d.Help {
		conf := h.Conf
		if conf == "" {
			conf = "(default)"
		}
		done := "runs out of memory"
		if h.Completed {
			done = "finishes"
		}
		x.Help = append(x.Help, helpData{conf, report.Bytes(h.Peak), report.Bytes(h.Instead), done})
	}
	if file := filepath.Base(a.File); d.Follow != nil {
		x.Try = fmt.Sprintf("vramscope tune %s · vramscope fit %s", file, file)
	}
	return x
}

// lead is what there is to say first of a device.
func lead(a *report.Analysis, d *report.Device) []sentence {
	switch {
	case d.Follow != nil:
		return sentences(a.Lead(d))
	case d.Live != nil:
		list := []sentence{{Text: report.InstantLine(d.Trace) + ".", Strong: true}}
		if d.Live.Failed != nil {
			list = append(sentences(a.Lead(d)), list...)
		}
		return list
	}
	return []sentence{{Text: report.SamplesLine(d.Trace.Series), Strong: true}}
}

// sentences takes the marks off lines of text.
func sentences(lines []string) []sentence {
	var out []sentence
	for _, l := range lines {
		s := sentence{Text: shown(strings.ReplaceAll(strings.TrimSpace(l), "**", "")), Strong: strings.HasPrefix(l, "**"), Under: strings.HasPrefix(l, "  ")}
		if text, ok := strings.CutPrefix(s.Text, "Growth: "); ok && text != "" {
			s.Text = strings.ToUpper(text[:1]) + text[1:]
		}
		if !strings.HasPrefix(s.Text, "More settings: ") {
			out = append(out, s)
		}
	}
	return out
}

func tuned(t *report.Tune) *tuneData {
	x := &tuneData{Answer: t.Answer(), Under: t.Under(), Header: report.TuneHeader(), Warnings: t.Warnings()}
	rows := t.Rows()
	for _, r := range rows {
		x.Most = max(x.Most, r.Peak)
	}
	for _, r := range rows {
		x.Rows = append(x.Rows, tuneRow{r, int(100 * r.Peak / max(1, x.Most))})
	}
	return x
}
