package oom

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/vramscope/vramscope/trace/oomlog"
)

// Limits of the text: so many findings are told in full, and so many more in a line each.
const (
	maxFull  = 5
	maxShort = 30
	width    = 100
)

// writeText tells a person: the answer first, then where it comes from, then what to do.
func writeText(w io.Writer, log *oomlog.Log, findings []Finding) error {
	p := &printer{w: w}
	if len(findings) == 0 {
		p.line("No out-of-memory message in %s.", extent(log))
		p.notes(log.Notes)
		return p.err
	}
	p.line("%s", capital(findings[0].Headline))
	if len(findings) > 1 {
		p.line("%s", others(findings))
	}
	shown := full(findings)
	recorded := false // how to record is said once
	for n, i := range shown {
		f := &findings[i]
		p.line("")
		if n > 0 {
			p.line("── %s", capital(f.Headline))
		}
		p.finding(f)
		if f.Adds != "" && !recorded {
			recorded = true
			p.recording(f)
		}
	}
	p.short(findings, shown)
	if log.Omitted > 0 {
		p.line("")
		p.line("%d further messages were too many to keep.", log.Omitted)
	}
	p.notes(log.Notes)
	return p.err
}

// full picks the findings to tell in full: the first, and the first of each further verdict.
func full(findings []Finding) []int {
	var picked []int
	seen := map[Verdict]bool{}
	for i := range findings {
		if v := findings[i].Judgement.Verdict; !seen[v] && len(picked) < maxFull {
			seen[v] = true
			picked = append(picked, i)
		}
	}
	return picked
}

// others says how many messages there are in all.
func others(findings []Finding) string {
	copies := 0
	count := map[Verdict]int{}
	var order []Verdict
	for i := range findings {
		copies += findings[i].Message.Repeated
		v := findings[i].Judgement.Verdict
		if count[v] == 0 {
			order = append(order, v)
		}
		count[v]++
	}
	parts := make([]string, len(order))
	for i, v := range order {
		parts[i] = fmt.Sprintf("%d %s", count[v], v)
	}
	return fmt.Sprintf("That is the first of %d different messages (%d with copies): %s.", len(findings), copies, strings.Join(parts, ", "))
}

type printer struct {
	w   io.Writer
	err error
}

func (p *printer) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, strings.TrimRight(format, " ")+"\n", args...)
	}
}

func (p *printer) finding(f *Finding) {
	p.line("%s · %s", where(&f.Message), f.Judgement.Verdict)
	if len(f.Rows) > 0 {
		p.line("")
	}
	wide := 0
	for _, r := range f.Rows {
		wide = max(wide, utf8.RuneCountInString(r.Amount))
	}
	for _, r := range f.Rows {
		sign := r.Sign
		if sign == "" {
			sign = " "
		}
		p.line("  %s %s%s  %s", sign, strings.Repeat(" ", wide-utf8.RuneCountInString(r.Amount)), r.Amount, r.What)
	}
	p.line("")
	p.wrapped("Why: ", f.Why)
	for i, d := range f.Do {
		head := "     "
		if i == 0 {
			head = "Do:  "
		}
		p.wrapped(head+"- ", d)
	}
}

// recording says what a snapshot would add and how to get one.
func (p *printer) recording(f *Finding) {
	p.line("")
	p.wrapped("A snapshot would add ", f.Adds+". These lines at the start of the program write one when it fails; vramscope analyze oom.pickle reads it:")
	for _, l := range f.Record {
		p.line("    %s", l)
	}
}

// short lists the findings that were not told in full.
func (p *printer) short(findings []Finding, shown []int) {
	told := map[int]bool{}
	for _, i := range shown {
		told[i] = true
	}
	n := 0
	for i := range findings {
		if told[i] {
			continue
		}
		if n == 0 {
			p.line("")
			p.line("Also:")
		}
		if n++; n > maxShort {
			continue
		}
		f := &findings[i]
		p.line("  %s · %s", where(&f.Message), f.Headline)
	}
	if n > maxShort {
		p.line("  and %d more; --json has them all", n-maxShort)
	}
}

// where says which message: its line, its shape, its ranks and how often it is there.
func where(m *oomlog.Message) string {
	s := fmt.Sprintf("line %d · %s", m.Line, m.Format)
	if m.Backend != "" && m.Backend != "cuda" && !strings.Contains(strings.ToLower(m.Format), m.Backend) {
		s += " (" + strings.ToUpper(m.Backend) + ")"
	}
	if len(m.Ranks) > 0 {
		s += " · " + ranks(m.Ranks)
	}
	if m.Repeated > 1 {
		s += fmt.Sprintf(" · %d copies", m.Repeated)
	}
	return s
}

// ranks writes sorted ranks with ranges: "ranks 0-7, 12".
func ranks(r []int) string {
	var parts []string
	for i := 0; i < len(r); {
		k := i
		for k+1 < len(r) && r[k+1] == r[k]+1 {
			k++
		}
		if k > i+1 {
			parts = append(parts, fmt.Sprintf("%d-%d", r[i], r[k]))
		} else {
			for n := i; n <= k; n++ {
				parts = append(parts, fmt.Sprint(r[n]))
			}
		}
		i = k + 1
	}
	if len(r) == 1 {
		return "rank " + parts[0]
	}
	return "ranks " + strings.Join(parts, ", ")
}

func extent(log *oomlog.Log) string {
	unit := "lines"
	if log.Lines == 1 {
		unit = "line"
	}
	return fmt.Sprintf("%d %s (%s)", log.Lines, unit, amount(log.Bytes))
}

// noteTexts explain what is often taken for a failure.
var noteTexts = map[oomlog.NoteKind]string{
	oomlog.NoteSoftBFC:     "TensorFlow's allocator was short of memory and went on with less; it says itself that this is not a failure",
	oomlog.NoteCacheFlush:  "DeepSpeed: PyTorch could not get memory, emptied its cache and succeeded; that is slow, and close to the limit",
	oomlog.NoteSkippedPlan: "TensorRT skipped a tactic that needs more memory than there was",
	oomlog.NoteTable:       "a table of what the devices hold; nothing in it says that something failed",
	oomlog.NoteSummary:     "a memory_summary that counts no failure",
	oomlog.NoteGrowth:      "what is in use grows with every reading from here on, by about as much each time: a leak may be behind the failure",
}

func (p *printer) notes(notes []oomlog.Note) {
	notes = slices.Clone(notes)
	slices.SortStableFunc(notes, func(a, b oomlog.Note) int { return a.Line - b.Line })
	for i, n := range notes {
		if i == 0 {
			p.line("")
			p.line("Also seen, no failures:")
		}
		times := ""
		if n.Count > 1 {
			times = fmt.Sprintf(" (%d times)", n.Count)
		}
		p.wrapped("  ", fmt.Sprintf("line %d%s: %s", n.Line, times, noteTexts[n.Kind]))
	}
}

// wrapped writes text in lines of at most width, the further ones indented under the first.
func (p *printer) wrapped(head, text string) {
	indent := strings.Repeat(" ", min(utf8.RuneCountInString(head), 7))
	line := head
	length := utf8.RuneCountInString(head)
	for i, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		if i > 0 && length+1+n > width {
			p.line("%s", line)
			line, length = indent+word, len(indent)+n
			continue
		}
		if i > 0 {
			line += " "
			length++
		}
		line += word
		length += n
	}
	p.line("%s", line)
}

func capital(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
