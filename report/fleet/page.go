package fleet

import (
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"strings"

	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/simulate/fleet"
)

// Page is a job as one HTML file that needs nothing else: no network, and without scripts still the lists.
type Page struct {
	*Fleet
	Title string
}

//go:embed html
var pageFiles embed.FS

// pageData is what the script draws. Lists are by member, in the order of the result.
type pageData struct {
	Labels   []string       `json:"labels"`
	Where    []string       `json:"where"`
	Host     []string       `json:"host"`
	Axes     []string       `json:"axes"` // kinds of parallelism that the names tell
	At       [][]int        `json:"at"`   // position along each of Axes, -1 if not told
	Measures []pageMeasure  `json:"measures"`
	OOM      []bool         `json:"oom"`
	Odd      []bool         `json:"odd"`
	Failed   int            `json:"failed"`
	Places   []string       `json:"places"` // of Holds
	Holds    [][]pageHolder `json:"holds"`  // the most that each held at its peak
}

type pageMeasure struct {
	Name   string  `json:"name"`
	Values []int64 `json:"values"` // bytes, -1 if not known
	Median int64   `json:"median"`
}

// pageHolder is an index into Places, and bytes.
type pageHolder [2]int64

// mostHolders is how many places the page shows of what a member held.
const mostHolders = 5

type pageView struct {
	Title    string
	Headline string
	Answers  []string
	Style    template.CSS
	Script   template.JS
	Data     template.JS
	Lists    template.HTML
}

// Write renders the page.
func (p Page) Write(w io.Writer) error {
	css, err := pageFiles.ReadFile("html/page.css")
	if err != nil {
		return err
	}
	js, err := pageFiles.ReadFile("html/page.js")
	if err != nil {
		return err
	}
	t, err := template.ParseFS(pageFiles, "html/page.html")
	if err != nil {
		return err
	}
	data, err := json.Marshal(p.data()) // escapes what would end a script
	if err != nil {
		return err
	}
	var lists strings.Builder
	p.lists(&lists)
	answers := p.Answers()
	for i := range answers {
		answers[i] = report.Visible(answers[i])
	}
	return t.Execute(w, pageView{Title: p.Title, Headline: p.headline(), Answers: answers, Style: template.CSS(css), Script: template.JS(js),
		Data: template.JS(data), Lists: template.HTML(lists.String())})
}

func (p Page) data() pageData {
	d := pageData{Failed: len(p.Failed)}
	for _, axis := range []string{"pp", "tp", "ep", "cp", "sp", "dp"} {
		for _, m := range p.Members {
			if _, ok := m.On(axis); ok {
				d.Axes = append(d.Axes, axis)
				break
			}
		}
	}
	odd := map[*Member]bool{}
	for _, o := range p.Outliers {
		odd[o.Member] = true
	}
	places := map[string]int{}
	for _, m := range p.Members {
		d.Labels = append(d.Labels, report.Visible(m.Label()))
		d.Where = append(d.Where, m.Where())
		d.Host = append(d.Host, m.Host)
		d.OOM = append(d.OOM, len(m.Facts.OOMs) > 0)
		d.Odd = append(d.Odd, odd[m])
		at := []int{}
		for _, axis := range d.Axes {
			n, ok := m.On(axis)
			if !ok {
				n = -1
			}
			at = append(at, n)
		}
		d.At = append(d.At, at)
		holds := []pageHolder{}
		for _, h := range p.byPlace(m) {
			i, ok := places[h.where]
			if !ok {
				i = len(d.Places)
				places[h.where] = i
				d.Places = append(d.Places, report.Visible(h.where))
			}
			holds = append(holds, pageHolder{int64(i), h.bytes})
		}
		d.Holds = append(d.Holds, holds)
	}
	for i := range p.Spreads {
		s := &p.Spreads[i]
		x := pageMeasure{Name: s.Title, Median: s.Median}
		for _, m := range p.Members {
			x.Values = append(x.Values, s.Of(m.Facts))
		}
		d.Measures = append(d.Measures, x)
	}
	if p.Looked > 0 {
		x := pageMeasure{Name: "growth a step"}
		for _, m := range p.Members {
			v := int64(-1)
			if m.Facts.Growing {
				v = max(0, m.Facts.PerStep)
			}
			x.Values = append(x.Values, v)
		}
		d.Measures = append(d.Measures, x)
	}
	return d
}

type heldPlace struct {
	where string
	bytes int64
}

// byPlace is what a member held at its peak by the place in the code, the most first.
func (p Page) byPlace(m *Member) []heldPlace {
	var out []heldPlace
	index := map[string]int{}
	for _, h := range m.Facts.Held {
		where := p.place(h.Stack)
		i, ok := index[where]
		if !ok {
			i = len(out)
			index[where] = i
			out = append(out, heldPlace{where: where})
		}
		out[i].bytes += h.Bytes
	}
	for i := 1; i < len(out); i++ {
		for j := i; j > 0 && out[j].bytes > out[j-1].bytes; j-- {
			out[j], out[j-1] = out[j-1], out[j]
		}
	}
	return out[:min(len(out), mostHolders)]
}

// lists are the parts of the result that are tables and need no script.
func (p Page) lists(w *strings.Builder) {
	esc := template.HTMLEscapeString
	section := func(title string, rows int, header []string, row func(i int) []string) {
		if rows == 0 {
			return
		}
		fmt.Fprintf(w, "<section><h2>%s</h2><div class=scroll><table><thead><tr>", esc(title))
		for _, h := range header {
			class := ""
			if isNumber(h) {
				class = " class=n"
			}
			fmt.Fprintf(w, "<th%s>%s</th>", class, esc(h))
		}
		w.WriteString("</tr></thead><tbody>")
		const most = 200
		for i := range min(rows, most) {
			w.WriteString("<tr>")
			for c, cell := range row(i) {
				class := ""
				if isNumber(header[c]) {
					class = " class=n"
				}
				fmt.Fprintf(w, "<td%s>%s</td>", class, esc(report.Visible(cell)))
			}
			w.WriteString("</tr>")
		}
		w.WriteString("</tbody></table></div>")
		if rows > most {
			fmt.Fprintf(w, "<p class=quiet>and %s more, which --json has</p>", report.Count(rows-most))
		}
		w.WriteString("</section>")
	}
	section("Ran out of memory", len(p.RanOut), []string{"rank", "asked", "allocated", "reserved", "verdict", "what was different"}, func(i int) []string {
		r := &p.RanOut[i]
		return []string{r.Member.Full(), report.Bytes(r.First.Requested), report.Bytes(r.First.Allocated), report.Bytes(r.First.Reserved), r.First.Verdict, strings.Join(r.Different, "; ")}
	})
	section("Far from the others", len(p.Outliers), []string{"rank", "measure", "has", "the others", "among", "most of the difference"}, func(i int) []string {
		o := &p.Outliers[i]
		why := ""
		if o.Held != o.HeldUsually {
			why = fmt.Sprintf("%s held %s, in the others %s", p.place(o.Stack), report.Bytes(o.Held), report.Bytes(o.HeldUsually))
		}
		return []string{o.Member.Full(), o.Title, report.Bytes(o.Value), fmt.Sprintf("%s ± %s", report.Bytes(o.Median), report.Bytes(o.Usual)), report.Count(o.Among), why}
	})
	section("What grows from step to step", len(p.Growth), []string{"on", "most a step", "where most", "at the end, all", "stack"}, func(i int) []string {
		g := &p.Growth[i]
		return []string{g.Spread(p.Looked), report.Bytes(g.PerStep[0]), g.Members[0].Full(), report.Bytes(g.AtEnd), p.place(g.Stack)}
	})
	if t := p.Tuning; t != nil && t.Own.Devices > 0 {
		list := append([]Choice{t.Own}, t.Choices...)
		section("One setting for all ranks", len(list), []string{"settings", "most reserved", "which", "saves", "finish", "reserve more", "device calls"}, func(i int) []string {
			row := p.choiceRow("", &list[i])
			out := []string{}
			for _, c := range row[1:] {
				out = append(out, fmt.Sprint(c))
			}
			if c := t.Recommended; c != nil && i > 0 && list[i].Conf == c.Conf {
				out[0] += " ← recommended"
			}
			return out
		})
	}
	section("By position", len(p.Positions), []string{"position", "devices", "median allocated", "most allocated", "median reserved", "most reserved"}, func(i int) []string {
		x := &p.Positions[i]
		out := []string{fmt.Sprintf("%s %d", x.Axis, x.N), report.Count(x.Members), "–", "–", "–", "–"}
		for k := range 2 {
			if s := &x.Spreads[k]; s.Members > 0 {
				out[2+2*k], out[3+2*k] = report.Bytes(s.Median), report.Bytes(s.Max)
			}
		}
		return out
	})
	total, held := p.worst("peak_allocated").Total, p.places()
	section("Held at the peaks, all devices together", min(len(held), 50), []string{"bytes", "share", "may be more by", "devices", "most in one", "which", "where"}, func(i int) []string {
		c := &held[i]
		return []string{report.Bytes(c.Bytes), report.Percent(c.Bytes, total), report.Bytes(c.Unsure), report.Count(c.Members), report.Bytes(c.Max), c.Worst.Label(), c.where}
	})
	section("Could not be read", len(p.Failed), []string{"file", "error"}, func(i int) []string { return []string{p.Failed[i].File, p.Failed[i].Error} })
	if list := p.Unused.AtPeak; len(list) > 0 {
		at := func(q float64) string { return fmt.Sprintf("%.0f %%", float64(fleet.Quantile(list, q))/10) }
		fmt.Fprintf(w, "<section><h2>Reserved but not in use</h2><p>At the reserved peak: %s in the median device, %s in the tenth that is worst, %s at most.</p></section>", at(0.5), at(0.9), at(1))
	}
}

// isNumber says whether a column is aligned as numbers are.
func isNumber(header string) bool {
	switch header {
	case "rank", "verdict", "what was different", "measure", "most of the difference", "stack", "where", "which", "where most", "settings", "file", "error", "on", "position":
		return false
	}
	return true
}
