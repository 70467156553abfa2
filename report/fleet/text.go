package fleet

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/simulate/fleet"
	"github.com/vramscope/vramscope/trace"
)

// page writes lines until one cannot be written.
type page struct {
	w     io.Writer
	style report.Style
	rows  int
	err   error
}

func (p *page) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}

// head begins a part.
func (p *page) head(format string, args ...any) {
	p.line("")
	s := fmt.Sprintf(format, args...)
	switch {
	case p.style.Markdown:
		p.line("**%s**", s)
		p.line("")
	case p.style.Color:
		p.line("\x1b[1m%s\x1b[0m", s)
	default:
		p.line("%s", s)
	}
}

// item is a line of a list.
func (p *page) item(format string, args ...any) { p.line("- "+format, args...) }

// more says how many lines of a list are left out.
func (p *page) more(total int, what string) {
	if n := total - p.rows; n > 0 {
		p.item("and %s more; --rows %d shows all, --json has them too", report.Plural(n, what), total)
	}
}

func (p *page) table(header table.Row, numbers []int, rows []table.Row) {
	t := report.Grid(header...)
	t.AppendRows(rows)
	t.SetColumnConfigs(report.RightAligned(numbers...))
	for _, l := range report.GridLines(t, p.style.Markdown) {
		p.line("%s", l)
	}
}

// WriteText renders a job for people: what is worst, who is odd, what grows, what to set.
func (f *Fleet) WriteText(w io.Writer, style report.Style) error {
	p := &page{w: w, style: style, rows: style.Rows}
	if p.rows == 0 {
		p.rows = 10
	}
	p.line("%s", f.headline())
	if len(f.Members) > 0 {
		p.line("")
		for _, s := range f.Answers() {
			if p.style.Markdown {
				p.item("%s", s)
			} else {
				p.line("%s", s)
			}
		}
		f.writeSpreads(p)
		f.writePositions(p)
		f.writeOutliers(p)
		f.writeRanOut(p)
		f.writeGrowth(p)
		f.writeCommon(p)
		f.writeUnused(p)
		f.writeTuning(p)
	}
	f.writeFailed(p)
	f.writeMind(p)
	return p.err
}

// headline says what was looked at.
func (f *Fleet) headline() string {
	parts := []string{report.Plural(f.Traces, "recording"), report.Plural(len(f.Members), "device")}
	hosts := map[string]bool{}
	for _, m := range f.Members {
		if m.Host != "" {
			hosts[m.Host] = true
		}
	}
	if len(hosts) > 1 {
		parts = append(parts, report.Plural(len(hosts), "machine"))
	}
	if n := len(f.Failed); n > 0 {
		parts = append(parts, fmt.Sprintf("%s could not be read", report.Count(n)))
	}
	return strings.Join(parts, " · ")
}

// Answers are the sentences that come first: which rank is worst, which ran out, what to set.
func (f *Fleet) Answers() []string {
	var out []string
	reserved, allocated := f.worst("peak_reserved"), f.worst("peak_allocated")
	switch {
	case reserved.Worst != nil && reserved.Worst == allocated.Worst:
		out = append(out, fmt.Sprintf("%s needs the most: at its peak it has %s allocated%s, and %s reserved%s.", upper(reserved.Worst.Full()),
			report.Bytes(allocated.Max), over(allocated), report.Bytes(reserved.Max), over(reserved)))
	case reserved.Worst != nil && allocated.Worst != nil:
		out = append(out, fmt.Sprintf("%s reserves the most, %s%s.", upper(reserved.Worst.Full()), report.Bytes(reserved.Max), over(reserved)),
			fmt.Sprintf("%s allocates the most, %s at its peak%s.", upper(allocated.Worst.Full()), report.Bytes(allocated.Max), over(allocated)))
	case allocated.Worst != nil:
		out = append(out, fmt.Sprintf("%s allocates the most, %s at its peak%s.", upper(allocated.Worst.Full()), report.Bytes(allocated.Max), over(allocated)))
	}
	if n := len(f.RanOut); n > 0 {
		first := f.RanOut[0]
		who := fmt.Sprintf("%s of %s ran out of memory, %s among them", report.Count(n), report.Plural(len(f.Members), "device"), first.Member.Label())
		if n == 1 {
			who = upper(first.Member.Full()) + " ran out of memory"
			if len(f.Members) > 1 {
				who += ", no other did"
			}
		}
		out = append(out, who+".")
	}
	for i := range f.Growth {
		if g := &f.Growth[i]; i == 0 {
			out = append(out, f.growing(g))
		}
	}
	if t := f.Tuning; t != nil {
		if c := t.Recommended; c != nil {
			out = append(out, fmt.Sprintf("One setting for all ranks: %s (%s).", report.EnvLine(c.Conf), t.Why))
		} else {
			out = append(out, fmt.Sprintf("Keep the present settings: %s.", t.Why))
		}
	}
	if len(out) == 0 {
		out = append(out, "Nothing here shows what was allocated when"+report.Instead(new(trace.Source))+".")
	}
	return out
}

func (f *Fleet) worst(name string) *Spread {
	i := slices.IndexFunc(f.Spreads, func(s Spread) bool { return s.Name == name })
	return &f.Spreads[i]
}

// over says how the most compares with the median.
func over(s *Spread) string {
	switch r := s.Ratio(); {
	case s.Members == 2 && s.Max > s.Min:
		return fmt.Sprintf(", %s more than %s", report.Bytes(s.Max-s.Min), s.Best.Label())
	case s.Members < 2 || r == 0:
		return ""
	case s.Min == s.Max:
		return ", as all others do"
	default:
		return fmt.Sprintf(", %.2f times the median", r)
	}
}

// upper begins a sentence.
func upper(s string) string {
	for _, word := range []string{"rank ", "device "} {
		if strings.HasPrefix(s, word) {
			return strings.ToUpper(s[:1]) + s[1:]
		}
	}
	return s
}

func (f *Fleet) growing(g *Growth) string {
	where := f.place(g.Stack)
	if len(g.Members) == 1 && f.Looked > 1 {
		return fmt.Sprintf("%s grows by %s a step on %s alone: %s.", kindOf(g), report.Bytes(g.PerStep[0]), g.Members[0].Full(), where)
	}
	on := fmt.Sprintf("%s of %s", report.Count(len(g.Members)), report.Plural(f.Looked, "device"))
	if len(g.Members) == f.Looked {
		on = "every device"
	}
	return fmt.Sprintf("%s grows on %s, by up to %s a step: %s.", kindOf(g), on, report.Bytes(g.PerStep[0]), where)
}

func kindOf(g *Growth) string {
	if g.Buffer {
		return "A buffer"
	}
	return "Memory"
}

func (f *Fleet) writeSpreads(p *page) {
	var rows []table.Row
	for i := range f.Spreads {
		s := &f.Spreads[i]
		if s.Members == 0 {
			continue
		}
		rows = append(rows, table.Row{s.Title, report.Bytes(s.Min), report.Bytes(s.Median), report.Bytes(s.P90), report.Bytes(s.Max), times2(s.Ratio()), s.Worst.Label()})
	}
	if len(rows) == 0 {
		return
	}
	p.head("How even it is")
	p.table(table.Row{"", "least", "median", "9 in 10 up to", "most", "most/median", "which"}, []int{2, 3, 4, 5, 6}, rows)
}

func times2(r float64) string {
	if r == 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f", r)
}

// axisTitles are what people call the kinds of parallelism.
var axisTitles = map[string]string{"pp": "pipeline stage", "tp": "tensor position", "ep": "expert position", "cp": "context position", "sp": "sequence position"}

func (f *Fleet) writePositions(p *page) {
	axis := ""
	var rows []table.Row
	flush := func() {
		if len(rows) == 0 {
			return
		}
		p.head("By %s%s", axisTitles[axis], f.apart(axis))
		shown := rows[:min(len(rows), max(p.rows, 16))]
		p.table(table.Row{axis, "devices", "median allocated", "most allocated", "median reserved", "most reserved", "most/median", "which"}, []int{1, 2, 3, 4, 5, 6, 7}, shown)
		if n := len(rows) - len(shown); n > 0 {
			p.item("and %s more; --json has them", report.Plural(n, "position"))
		}
		rows = nil
	}
	for i := range f.Positions {
		x := &f.Positions[i]
		if x.Axis != axis {
			flush()
			axis = x.Axis
		}
		a, r := &x.Spreads[0], &x.Spreads[1]
		row := table.Row{x.N, report.Count(x.Members), "–", "–", "–", "–", "–", "–"}
		if a.Members > 0 {
			row[2], row[3], row[6], row[7] = report.Bytes(a.Median), report.Bytes(a.Max), times2(a.Ratio()), a.Worst.Label()
		}
		if r.Members > 0 {
			row[4], row[5], row[6], row[7] = report.Bytes(r.Median), report.Bytes(r.Max), times2(r.Ratio()), r.Worst.Label()
		}
		rows = append(rows, row)
	}
	flush()
}

// apart says how far the positions along an axis are from each other.
func (f *Fleet) apart(axis string) string {
	if r := f.between(axis, 1); r > 1.05 {
		return fmt.Sprintf(": the median of the fullest is %.2f times that of the emptiest", r)
	}
	return ": all about alike"
}

func (f *Fleet) writeOutliers(p *page) {
	if len(f.Outliers) == 0 {
		if len(f.Members) >= leastAlike {
			p.head("No rank is far from the others")
		}
		return
	}
	p.head("Far from the others")
	var order []*Member
	lines := map[*Member][]string{}
	for _, o := range f.Outliers {
		at := ""
		if o.At != "" {
			at = " at " + o.At
		}
		if lines[o.Member] == nil {
			order = append(order, o.Member)
		}
		lines[o.Member] = append(lines[o.Member], fmt.Sprintf("%s %s, where the others%s have %s ± %s", report.Bytes(o.Value), o.Title, at, report.Bytes(o.Median), report.Bytes(o.Usual)))
		if o.Held != o.HeldUsually {
			lines[o.Member] = append(lines[o.Member], fmt.Sprintf("most of it: %s held %s, in the others %s", f.place(o.Stack), report.Bytes(o.Held), report.Bytes(o.HeldUsually)))
		}
	}
	for _, m := range order[:min(len(order), p.rows)] {
		p.item("%s: %s", m.Full(), lines[m][0])
		for _, l := range lines[m][1:] {
			p.line("  %s", l)
		}
	}
	p.more(len(order), "device")
}

func (f *Fleet) writeRanOut(p *page) {
	if len(f.RanOut) == 0 {
		return
	}
	p.head("Ran out of memory")
	for i := range f.RanOut[:min(len(f.RanOut), p.rows)] {
		r := &f.RanOut[i]
		verdict := ""
		if r.First.Verdict != "" {
			verdict = " (" + r.First.Verdict + ")"
		}
		asked := "a request"
		if r.First.Requested > 0 {
			asked = "asked " + report.Bytes(r.First.Requested)
		}
		p.item("%s at event %s: %s with %s allocated and %s reserved%s", r.Member.Full(), report.Count(r.First.Event), asked,
			report.Bytes(r.First.Allocated), report.Bytes(r.First.Reserved), verdict)
		if r.First.Why != "" {
			p.line("  %s", r.First.Why)
		}
		if len(r.Different) > 0 {
			p.line("  What was different: %s", strings.Join(r.Different, "; "))
		} else if len(f.RanOut) < len(f.Members) {
			p.line("  Nothing that was compared sets it apart from those that did not run out")
		}
	}
	p.more(len(f.RanOut), "device")
}

func (f *Fleet) writeGrowth(p *page) {
	switch {
	case f.Looked == 0:
		p.head("What grows from step to step is not known: no recording has steps enough")
		return
	case len(f.Growth) == 0 && f.GrowUnsaid == 0:
		p.head("Nothing grows from step to step, on %s", report.Plural(f.Looked, "device"))
		return
	}
	p.head("What grows from step to step, of %s that can tell", report.Plural(f.Looked, "device"))
	var rows []table.Row
	for i := range f.Growth[:min(len(f.Growth), p.rows)] {
		g := &f.Growth[i]
		rows = append(rows, table.Row{g.Spread(f.Looked), report.Bytes(g.PerStep[0]), g.Members[0].Label(), report.Bytes(g.AtEnd), f.place(g.Stack)})
	}
	if len(rows) > 0 {
		p.table(table.Row{"on", "most a step", "where most", "at the end, all", "stack"}, []int{1, 2, 4}, rows)
	}
	p.more(len(f.Growth), "stack")
	if f.GrowUnsaid > 0 {
		p.item("%s grow, and no one place in the code keeps it", report.Plural(f.GrowUnsaid, "device"))
	}
}

func (f *Fleet) writeCommon(p *page) {
	list := f.places()
	if len(list) == 0 {
		return
	}
	total := f.worst("peak_allocated").Total
	p.head("Held at the peaks, all devices together")
	var rows []table.Row
	unsure := false
	for _, g := range list[:min(len(list), p.rows)] {
		bytes := report.Bytes(g.Bytes)
		if g.Unsure*100 > g.Bytes {
			bytes, unsure = bytes+" + "+report.Bytes(g.Unsure), true
		}
		rows = append(rows, table.Row{bytes, report.Percent(g.Bytes, total), report.Count(g.Members), report.Bytes(g.Max), g.Worst.Label(), g.where})
	}
	p.table(table.Row{"bytes", "share", "devices", "most in one", "which", "where"}, []int{1, 2, 3, 4}, rows)
	if unsure {
		p.line("+: at most so much more, in devices of which only the %d largest stacks are kept.", fleet.MostStacks)
	}
}

func (f *Fleet) writeUnused(p *page) {
	list := f.Unused.AtPeak
	if len(list) == 0 {
		return
	}
	at := func(q float64) string { return fmt.Sprintf("%.0f %%", float64(fleet.Quantile(list, q))/10) }
	p.head("Reserved but not in use")
	p.line("At the reserved peak: %s in the median device, %s in the tenth that is worst, %s at most.", at(0.5), at(0.9), at(1))
	if f.Unused.Members > 0 {
		over := func(q float64) string {
			v, _ := f.Unused.Time.Quantile(q)
			return fmt.Sprintf("%.0f %%", min(v*100, 99)) // nothing is above all of it
		}
		p.line("Over time: above %s half of the time, above %s for a tenth of it, above %s for a hundredth (to within 0.4 points).", over(0.5), over(0.9), over(0.99))
	}
}

func (f *Fleet) writeTuning(p *page) {
	t := f.Tuning
	if t == nil {
		return
	}
	var where []string
	for _, s := range t.Searched {
		where = append(where, f.member(s.Device).Label()+" ("+strings.Join(s.Why, ", ")+")")
	}
	p.head("One setting for all ranks")
	p.line("%s replayed on %s: %s.", report.Plural(t.Tried, "setting"), report.Plural(len(t.Searched), "rank"), strings.Join(where, ", "))
	if t.Own.Devices > 0 {
		rows := []table.Row{f.choiceRow("now", &t.Own)}
		for i := range t.Choices {
			rows = append(rows, f.choiceRow(fmt.Sprint(i+1), &t.Choices[i]))
		}
		p.table(table.Row{"", "settings", "most reserved", "which", "saves", "finish", "reserve more", "device calls"}, []int{3, 5, 6, 7, 8}, rows)
	}
	if c := t.Recommended; c != nil {
		p.line("")
		p.line("To use it, on every rank, before the program starts:")
		p.line("")
		fence := func() {
			if p.style.Markdown {
				p.line("```")
			}
		}
		fence()
		if c.Conf == "" {
			p.line("unset PYTORCH_CUDA_ALLOC_CONF")
		} else {
			p.line("export %s", report.EnvLine(c.Conf))
		}
		fence()
		if v := since(c.Conf); v != "" {
			p.line("")
			p.line("It needs PyTorch %s or newer; older ones raise.", v)
		}
	}
}

func (f *Fleet) choiceRow(rank string, c *Choice) table.Row {
	row := table.Row{rank, named(c.Conf), report.Bytes(c.Peak), "–", "–", fmt.Sprintf("%s of %s", report.Count(c.Completed), report.Count(c.Devices)), report.Count(c.Grew), report.Count(int(c.Calls))}
	if c.Worst != nil {
		row[3] = f.member(c.Worst).Label()
	}
	if c.Own {
		row[1] = "as they ran"
		if len(f.Settings) == 1 {
			row[1] = named(f.Settings[0].Conf)
		}
	} else if n := f.Tuning.Saves(c); n < 0 {
		row[4] = "−" + report.Bytes(-n)
	} else {
		row[4] = report.Bytes(n)
	}
	return row
}

func (f *Fleet) writeFailed(p *page) {
	if len(f.Failed) == 0 {
		return
	}
	p.head("Could not be read")
	for _, x := range f.Failed[:min(len(f.Failed), p.rows)] {
		p.item("%s: %s", oneLine(x.File), oneLine(x.Error))
	}
	p.more(len(f.Failed), "file")
}

func (f *Fleet) writeMind(p *page) {
	var notes []string
	say := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	if n := len(f.Other); n > 0 {
		if n == 1 {
			say("%s is no recording and was passed over", oneLine(f.Other[0].File))
		} else {
			say("%s in the folders are no recordings and were passed over, %s the first", report.Plural(n, "file"), oneLine(f.Other[0].File))
		}
	}
	if len(f.Settings) > 1 {
		var parts []string
		for _, s := range f.Settings[:min(len(f.Settings), 4)] {
			parts = append(parts, fmt.Sprintf("%s on %s", named(s.Conf), report.Plural(len(s.Members), "device")))
		}
		say("the ranks did not all run under the same settings: %s", strings.Join(parts, ", "))
	}
	partial, repeated := 0, 0
	for _, m := range f.Members {
		if !m.Facts.Complete {
			partial++
		}
		if m.Rank >= 0 && m.twice {
			repeated++
		}
	}
	if partial > 0 {
		say("%s %s no whole recording: what was before it began is known only as far as its final state tells", report.Plural(partial, "device"), haveOf(partial))
	}
	if repeated > 0 {
		say("%s share a rank with another file: they are several runs or moments, and are named by their files", report.Plural(repeated, "device"))
	}
	if f.Tuning == nil && f.replayable() {
		say("one setting for all ranks was not looked for: fleet without --no-tune does, and fleet merge --tune")
	}
	if t := f.Tuning; t != nil && t.Lost > 0 {
		say("%s could be read once and not again, and the settings were not replayed there", report.Plural(t.Lost, "device"))
	}
	if t := f.Tuning; t != nil && t.Unreplayed > 0 {
		say("%s %s no requests that could be replayed under other settings", report.Plural(t.Unreplayed, "device"), haveOf(t.Unreplayed))
	}
	for i, n := range notes {
		if i == 0 {
			p.head("Mind")
		}
		p.item("%s", n)
	}
}

// replayable says whether any device has requests that can be replayed.
func (f *Fleet) replayable() bool {
	return slices.ContainsFunc(f.Members, func(m *Member) bool { return m.Facts.Replayable })
}

func haveOf(n int) string {
	if n == 1 {
		return "has"
	}
	return "have"
}
