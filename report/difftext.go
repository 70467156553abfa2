package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
)

// MiB shows a size in MiB whatever it is, so that sizes can be compared down a column.
func MiB(n int64) string {
	switch {
	case n == Unknown:
		return "–"
	case n == 0:
		return "0"
	case abs(n) < mib/10:
		return Bytes(n)
	case abs(n) < 100*mib && n%mib != 0:
		return fmt.Sprintf("%.1f MiB", float64(n)/mib)
	case n < 0:
		return Count(int((n-mib/2)/mib)) + " MiB"
	}
	return Count(int((n+mib/2)/mib)) + " MiB"
}

// signed puts a plus before what grew.
func signed(n int64, show func(int64) string) string {
	if n > 0 {
		return "+" + show(n)
	}
	return show(n)
}

// WriteText renders a comparison for people, or as Markdown for a pull request.
func (d *Diff) WriteText(w io.Writer, style Style) error {
	p := &page{w: w, style: style}
	for i := range d.Devices {
		x := &d.Devices[i]
		if i > 0 {
			p.line("")
		}
		head := x.headline()
		if len(d.Devices) > 1 {
			head = fmt.Sprintf("Device %d: %s", x.B.Device, head)
		}
		p.line("%s", p.bold(head))
		if style.Markdown {
			p.line("")
			p.line("A: `%s`, B: `%s`", d.A, d.B)
		} else {
			p.line("A: %s", d.A)
			p.line("B: %s", d.B)
		}
		p.line("")
		x.totals(p)
		x.stacks(p)
		x.causes(p)
		x.stepText(p)
		x.notes(p)
	}
	return p.err
}

// headline is the answer: what the program does otherwise, and what became of the memory held for it.
func (d *DeviceDiff) headline() string {
	answer := d.stackAnswer() + "; " + d.reservedAnswer()
	switch {
	case d.A.OOMs == 0 && d.B.OOMs > 0:
		answer = "B ran out of memory, A did not; " + answer
	case d.A.OOMs > 0 && d.B.OOMs == 0:
		answer = "A ran out of memory, B does not; " + answer
	}
	return capitalized(answer) + "."
}

func capitalized(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

func (d *DeviceDiff) stackAnswer() string {
	a, b := d.A.PeakAllocated, d.B.PeakAllocated
	groups := d.groups()
	if len(groups) == 0 {
		if d.Requests.Same {
			return "no stack changed, the same blocks are asked for in the same order"
		}
		return "no stack changed"
	}
	most := groups[0]
	for _, g := range groups { // rather one that can be looked up, if it is not much smaller
		if g.named && 2*abs(g.change()) >= abs(most.change()) {
			most = g
			break
		}
	}
	by := fmt.Sprintf("%s (%s)", most.where, signed(most.change(), MiB))
	if n := len(groups) - 1; n > 0 {
		by += fmt.Sprintf(" and %s", plural(n, "other place"))
	}
	if d.Step >= 0 {
		by = fmt.Sprintf("in step %d, where B has its peak, %s", d.Step, by)
	}
	how := "rose"
	switch {
	case !slices.ContainsFunc(groups, func(g changedPlace) bool { return !slices.Equal(g.kinds, []ChangeKind{Moved}) }):
		return "no stack holds more or less at most, but the peak is at another moment"
	case a == b:
		return fmt.Sprintf("peak allocated is the same, %s, but %s changed", MiB(b), by)
	case b < a:
		how = "fell"
	}
	return fmt.Sprintf("peak allocated %s by %s%s to %s: %s", how, MiB(abs(b-a)), inPercent(a, b), MiB(b), by)
}

func inPercent(a, b int64) string {
	if s := changePercent(a, b); s != "" {
		return " (" + s + ")"
	}
	return ""
}

func (d *DeviceDiff) reservedAnswer() string {
	a, b, what := d.A.PeakReserved, d.B.PeakReserved, "peak reserved"
	if a == Unknown || b == Unknown {
		a, b, what = d.A.PeakReplayed, d.B.PeakReplayed, "peak reserved, replayed,"
	}
	if a == b {
		return fmt.Sprintf("%s is the same, %s", what, MiB(b))
	}
	verb := "rose"
	if b < a {
		verb = "fell"
	}
	if by := d.settingsToBlame(b - a); by != "" {
		if verb = "raised"; b < a {
			verb = "lowered"
		}
		return fmt.Sprintf("%s %s %s from %s to %s", by, verb, what, MiB(a), MiB(b))
	}
	return fmt.Sprintf("%s %s by %s%s to %s", what, verb, MiB(abs(b-a)), inPercent(a, b), MiB(b))
}

// settingsToBlame names the settings that account for most of a change.
func (d *DeviceDiff) settingsToBlame(change int64) string {
	if d.Cause == nil || len(d.Settings) == 0 || d.Cause.BySettings()*2 < change == (change > 0) {
		return ""
	}
	var names []string
	for _, e := range d.Cause.Settings {
		if len(d.Settings) == 1 || abs(e.Peak-d.Cause.A)*4 >= abs(d.Cause.BySettings()) {
			names = append(names, e.String())
		}
	}
	return strings.Join(names, ", ")
}

// String is the setting as it became.
func (s SettingDelta) String() string {
	if s.B == "" {
		return "dropping " + s.Key + ":" + s.A
	}
	return s.Key + ":" + s.B
}

// totals is the table of figures.
func (d *DeviceDiff) totals(p *page) {
	t := newTable(table.Row{"", "A", "B", "change", ""}, 2, 5)
	sizes := func(what string, a, b int64) {
		if a == Unknown && b == Unknown {
			return
		}
		row := table.Row{what, MiB(a), MiB(b), "", ""}
		if a != Unknown && b != Unknown {
			row[3], row[4] = signed(b-a, MiB), changePercent(a, b)
		}
		t.AppendRow(row)
	}
	a, b := d.A, d.B
	sizes("peak allocated", a.PeakAllocated, b.PeakAllocated)
	sizes("  of it asked for", a.PeakRequested, b.PeakRequested)
	sizes("peak reserved", a.PeakReserved, b.PeakReserved)
	sizes("  replayed from empty", a.PeakReplayed, b.PeakReplayed)
	sizes("allocated at the end", a.End, b.End)
	counts := func(what string, a, b int64) {
		if a > 0 || b > 0 {
			t.AppendRow(table.Row{what, countOrNone(a), countOrNone(b), signed(b-a, func(n int64) string { return Count(int(n)) }), ""})
		}
	}
	counts("requests", int64(a.requests()), int64(b.requests()))
	counts("retries", a.Retries, b.Retries)
	counts("out of memory", a.OOMs, b.OOMs)
	for _, s := range d.Settings {
		t.AppendRow(table.Row{s.Key, orDefault(s.A), orDefault(s.B), "", ""})
	}
	p.grid(t)
}

func (p *Profile) requests() int {
	n := p.Before.Calls + p.Unattributed.Calls
	for _, u := range p.Uses {
		n += u.Calls
	}
	return n
}

func countOrNone(n int64) string {
	if n < 0 {
		return "–"
	}
	return Count(int(n))
}

func orDefault(s string) string {
	if s == "" {
		return "default"
	}
	return s
}

func changePercent(a, b int64) string {
	if a <= 0 || a == b {
		return ""
	}
	x := 100 * float64(b-a) / float64(a)
	if x > -0.05 && x < 0.05 {
		return "<0.1 %"
	}
	if x > -10 && x < 10 {
		return fmt.Sprintf("%+.1f %%", x)
	}
	return fmt.Sprintf("%+.0f %%", x)
}

// changedPlace is a line of code whose stacks changed.
type changedPlace struct {
	where string
	named bool // it is a line of code
	kinds []ChangeKind
	a, b  StackUse
}

// change is what it does to the peak, or to what it holds at most if the peak does not see it.
func (c changedPlace) change() int64 {
	if c.a.Peak != c.b.Peak {
		return c.b.Peak - c.a.Peak
	}
	return c.b.Most - c.a.Most
}

// groups adds up the stacks that a person would call the same place.
func (d *DeviceDiff) groups() []changedPlace {
	index := map[string]int{}
	var out []changedPlace
	for _, s := range d.Stacks {
		where := place(d.stacksOf(s).Stack(s.Stack)).String()
		i, ok := index[where]
		if !ok {
			i = len(out)
			index[where] = i
			out = append(out, changedPlace{where: where, named: true})
		}
		g := &out[i]
		g.a, g.b = addUse(g.a, s.A), addUse(g.b, s.B)
		if !slices.Contains(g.kinds, s.Kind) {
			g.kinds = append(g.kinds, s.Kind)
		}
	}
	add := func(where string, a, b StackUse) {
		if a.Peak != b.Peak || a.Most != b.Most {
			kind := kindOfChange(StackDelta{A: a, B: b})
			out = append(out, changedPlace{where: where, kinds: []ChangeKind{kind}, a: a, b: b})
		}
	}
	add("before recording began", d.A.Before, d.B.Before)
	add("no call stack was recorded", d.A.Unattributed, d.B.Unattributed)
	slices.SortStableFunc(out, func(x, y changedPlace) int {
		a, b := abs(y.b.Peak-y.a.Peak), abs(x.b.Peak-x.a.Peak)
		if a == b {
			a, b = abs(y.b.Most-y.a.Most), abs(x.b.Most-x.a.Most)
		}
		switch {
		case a > b:
			return 1
		case a < b:
			return -1
		}
		return 0
	})
	return out
}

func addUse(a, b StackUse) StackUse {
	return StackUse{Peak: a.Peak + b.Peak, Blocks: a.Blocks + b.Blocks, Most: a.Most + b.Most, End: a.End + b.End, Calls: a.Calls + b.Calls}
}

// stacks is the table of what changed.
func (d *DeviceDiff) stacks(p *page) {
	groups := d.groups()
	if len(groups) == 0 {
		return
	}
	title := "By line, what each asked for and held when most was allocated"
	if d.Step >= 0 {
		title = fmt.Sprintf("By line, what each asked for and held when most was allocated in step %d, where B has its peak", d.Step)
	}
	p.line("")
	p.line("%s", p.bold(title))
	if p.style.Markdown {
		p.line("")
	}
	t := newTable(table.Row{"change", "A", "B", "", "where"}, 1, 3)
	rows := p.style.Rows
	if rows == 0 {
		rows = 10
	}
	for i, g := range groups {
		if i == rows {
			var a, b StackUse
			for _, x := range groups[i:] {
				a, b = addUse(a, x.a), addUse(b, x.b)
			}
			t.AppendRow(table.Row{signed(b.Peak-a.Peak, MiB), MiB(a.Peak), MiB(b.Peak), "", plural(len(groups)-i, "place") + " more"})
			break
		}
		t.AppendRow(table.Row{signed(g.b.Peak-g.a.Peak, MiB), MiB(g.a.Peak), MiB(g.b.Peak), g.kind(), g.where})
	}
	p.grid(t)
	if p.style.Markdown {
		p.line("")
	}
	if d.Unchanged > 0 {
		p.line("%s did not change.", plural(d.Unchanged, "stack"))
	}
}

// kind is one word for what became of a place.
func (c changedPlace) kind() string {
	switch {
	case len(c.kinds) == 1 && c.a.Peak == c.b.Peak:
		return fmt.Sprintf("%s, %s at most", c.kinds[0], signed(c.b.Most-c.a.Most, MiB))
	case len(c.kinds) == 1:
		return string(c.kinds[0])
	case c.change() > 0:
		return string(Grew)
	}
	return string(Shrank)
}

// causes says what the difference in reserved memory comes from.
func (d *DeviceDiff) causes(p *page) {
	c := d.Cause
	if c == nil {
		return
	}
	p.line("")
	p.line("%s", p.bold("Why"))
	for _, e := range c.Settings {
		if e.Peak == c.A {
			p.line("- %s: makes no difference to A's requests, replayed from an empty cache.", e.SettingDelta)
			continue
		}
		p.line("- %s: A's requests, replayed from an empty cache, reserve %s with it and %s without: %s.", e.SettingDelta, MiB(e.Peak), MiB(c.A),
			mechanism(e.SettingDelta, d.A, d.B))
	}
	if n := len(d.Settings) - len(c.Settings); n > 0 {
		p.line("- %s more were not tried alone", plural(n, "setting"))
	}
	switch {
	case c.BySettings() != 0:
		p.line("- replayed from an empty cache the settings account for %s of the difference, the requests for %s.",
			signed(c.BySettings(), MiB), signed(c.ByRequests(), MiB))
	case c.ByRequests() != 0:
		p.line("- replayed from an empty cache B's requests reserve %s, A's %s: %s.", MiB(c.B), MiB(c.A), signed(c.ByRequests(), MiB))
	}
	recorded, replayed := d.B.PeakReserved-d.A.PeakReserved, c.B-c.A
	if recorded != replayed {
		also := ""
		if d.A.OOMs > 0 || d.B.OOMs > 0 {
			also = "the limit that was run into, "
		}
		p.line("- the recordings differ by %s, the replays by %s: the rest comes of %swhat the process did before, where the driver put its memory, and when other streams were done.",
			signed(recorded, MiB), signed(replayed, MiB), also)
	}
}

func (d *DeviceDiff) stepText(p *page) {
	if len(d.StepPeaks) == 0 {
		return
	}
	worst, differ := d.StepPeaks[0], 0
	for _, s := range d.StepPeaks {
		if s.A != s.B {
			differ++
		}
		if s.B-s.A > worst.B-worst.A {
			worst = s
		}
	}
	p.line("")
	steps := fmt.Sprintf("%s in A, %d in B", plural(d.A.Steps, "step"), d.B.Steps)
	if d.A.Steps == d.B.Steps {
		steps = plural(d.A.Steps, "step")
	}
	switch {
	case differ == 0:
		p.line("%s (%s): each asks for as much at its peak as before.", steps, d.B.Analysis.Steps.Source)
	case worst.B > worst.A:
		p.line("%s (%s): what is asked for at their peaks differs in %d; it grew most in step %d, by %s to %s.", steps, d.B.Analysis.Steps.Source, differ,
			worst.Step, MiB(worst.B-worst.A), MiB(worst.B))
	default:
		p.line("%s (%s): what is asked for at their peaks differs in %d and grew in none.", steps, d.B.Analysis.Steps.Source, differ)
	}
}

func (d *DeviceDiff) notes(p *page) {
	var notes []string
	for i, x := range []*Profiled{d.A, d.B} {
		name := string(rune('A' + i))
		if !x.Complete {
			notes = append(notes, name+" begins in the middle of a run: what it held before is counted as it was found")
		}
		if len(x.Uses) == 0 {
			notes = append(notes, name+" was recorded without call stacks")
		}
		if x.OOMs > 0 {
			notes = append(notes, name+" ran out of memory: what a program would have asked for after that is not in its recording")
		}
		if !x.Analysis.Follow.Score.Exact() {
			notes = append(notes, "the model does not reproduce "+name+" exactly (vramscope verify): take what is replayed as estimates")
		}
	}
	if !d.Requests.Same && len(d.Stacks) == 0 {
		notes = append(notes, fmt.Sprintf("the order of requests and frees differs from the %s on", ordinal(d.Requests.Until+1)))
	}
	for i, n := range notes {
		if i == 0 {
			p.line("")
		}
		p.line("- %s.", n)
	}
}

func ordinal(n int) string {
	end := "th"
	if n%100 < 11 || n%100 > 13 {
		end = map[int]string{1: "st", 2: "nd", 3: "rd"}[n%10]
		if end == "" {
			end = "th"
		}
	}
	return Count(n) + end
}

// newTable is a table whose columns from to to are numbers.
func newTable(header table.Row, from, to int) table.Writer {
	t := Grid(header...)
	t.SetColumnConfigs(rightAligned(from, to))
	return t
}
