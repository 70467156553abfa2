package kineto

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vramscope/vramscope/trace"
)

// Memory timelines. They say how much each category of tensors takes over time, and nothing about single
// blocks. There are two forms: raw, a list of changes,
//
//	[[time in ns or -1 for what was there before, action, ± bytes, category], …]
//
// and columns, a list of times in µs and one of rows, with a first number that is always 0 and one for each
// category:
//
//	[[time, …], [[0, bytes, …], …]]

// categories are the profiler's, by their numbers.
var categories = [...]string{"parameter", "optimizer state", "input", "temporary", "activation", "gradient", "autograd detail", "unknown"}

// actions of raw timelines, from 1.
var actions = [...]string{"pre-existing", "create", "increment version", "destroy"}

// isRaw reports whether a text begins like a raw timeline: with rows of four numbers.
func isRaw(head []byte) bool {
	n, next := firstRow(head)
	return n == 4 && next != "[["
}

// isColumns reports whether a text begins like a timeline in columns.
func isColumns(head []byte) bool {
	n, next := firstRow(head)
	return n > 0 && (n != 4 || next == "[[")
}

// firstRow counts the numbers of the first list in a list, and gives the brackets behind it. A list that does
// not end in the text has many.
func firstRow(head []byte) (n int, next string) {
	if len(head) == 0 || head[0] != '[' {
		return 0, ""
	}
	i := space(head, 1)
	if i >= len(head) || head[i] != '[' {
		return 0, ""
	}
	for i++; i < len(head); {
		i = space(head, i)
		end := i
		for end < len(head) && bytes.IndexByte([]byte("-+.eE0123456789"), head[end]) >= 0 {
			end++
		}
		if end == i {
			return 0, ""
		}
		n++
		i = space(head, end)
		if i >= len(head) {
			break
		}
		switch head[i] {
		case ',':
			i++
		case ']':
			rest := bytes.TrimLeft(head[i+1:], " \t\r\n,")
			for i := 0; i < len(rest) && len(next) < 2; i++ {
				if rest[i] == '[' {
					next += "["
				} else if rest[i] > ' ' {
					break
				}
			}
			return n, next
		default:
			return 0, ""
		}
	}
	if n == 4 {
		return 5, ""
	}
	return n, ""
}

// timeline gathers series by category.
type timeline struct {
	in      *input
	dec     *jsontext.Decoder
	total   trace.Series
	of      [len(categories)]trace.Series
	level   [len(categories)]int64
	changed [len(categories)]bool
	rows    int
	odd     int // rows that make no sense
	cut     bool
}

func newTimeline(r io.Reader) *timeline {
	l := &timeline{in: &input{r: r}, total: trace.Series{Quantity: trace.Allocated}}
	l.dec = jsontext.NewDecoder(l.in, jsonOptions...)
	for i := range l.of {
		l.of[i] = trace.Series{Quantity: trace.OfCategory, Name: categories[i]}
	}
	return l
}

// change adds to a category.
func (l *timeline) change(category int, by int64) {
	l.level[category] += by
	l.changed[category] = true
}

// sample notes the levels at a time: those that changed, or all.
func (l *timeline) sample(t trace.Time, all bool) {
	var sum int64
	for i, v := range l.level {
		sum += v
		if l.changed[i] || all {
			l.of[i].Add(t, v)
		}
		l.changed[i] = false
	}
	l.total.Add(t, sum)
}

// open reads brackets.
func (l *timeline) open(n int) error {
	for range n {
		tok, err := l.dec.ReadToken()
		if err != nil {
			return err
		}
		if tok.Kind() != '[' {
			return trace.Corrupt(l.dec.InputOffset(), "the timeline is damaged: a list was expected here")
		}
	}
	return nil
}

// numbers reads the rest of a list of numbers into row and returns how many there were.
func (l *timeline) numbers(row []int64) (n int, err error) {
	for {
		switch l.dec.PeekKind() {
		case ']':
			_, err := l.dec.ReadToken()
			return n, err
		case '0':
			raw, err := l.dec.ReadValue()
			if err != nil {
				return n, err
			}
			v, ok := integer(raw)
			if !ok {
				v = 0
				l.odd++
			}
			if n < len(row) {
				row[n] = v
			}
			n++
		default:
			if err := l.dec.SkipValue(); err != nil {
				return n, err
			}
			l.odd++
			n++
		}
	}
}

func readRaw(r io.Reader) (*trace.Trace, error) {
	l := newTimeline(r)
	var counts [len(actions)]int
	var last trace.Time
	begun := false
	err := l.open(1)
	for err == nil && l.dec.PeekKind() != ']' {
		var row [4]int64
		if err = l.open(1); err != nil {
			break
		}
		n := 0
		if n, err = l.numbers(row[:]); err != nil {
			break
		}
		l.rows++
		t, action, size, category := trace.Time(row[0]), row[1], row[2], row[3]
		if n != 4 || action < 1 || int(action) > len(actions) || category < 0 || int(category) >= len(categories) ||
			size > maxSize || size < -maxSize {
			l.odd++
			continue
		}
		counts[action-1]++
		if t > 0 {
			if !begun {
				l.sample(t, true) // what was there before
			} else if t != last {
				l.sample(last, false)
			}
			begun, last = true, t
		}
		l.change(int(category), size)
	}
	if err := l.finish(err); err != nil {
		return nil, err
	}
	if begun || l.rows > 0 {
		l.sample(last, false)
	}
	t := l.trace("memory timeline (raw)")
	for i, n := range counts {
		t.Source.Counts = append(t.Source.Counts, trace.Count{What: "rows " + actions[i], N: n})
	}
	return t, nil
}

func readColumns(r io.Reader) (*trace.Trace, error) {
	l := newTimeline(r)
	var times []int64
	err := l.open(2)
	for err == nil && l.dec.PeekKind() != ']' {
		var raw jsontext.Value
		if raw, err = l.dec.ReadValue(); err == nil {
			n, ok := integer(raw)
			if !ok {
				l.odd++
			}
			times = append(times, n)
		}
	}
	if err == nil {
		_, err = l.dec.ReadToken()
	}
	if err == nil {
		err = l.open(1)
	}
	for err == nil && l.dec.PeekKind() != ']' {
		var row [len(categories) + 1]int64
		if err = l.open(1); err != nil {
			break
		}
		n := 0
		if n, err = l.numbers(row[:]); err != nil {
			break
		}
		if n != len(row) || l.rows >= len(times) || times[l.rows] > 1<<62/1000 || times[l.rows] < 0 {
			l.odd++
			l.rows++
			continue
		}
		for i, v := range row[1:] {
			l.change(i, max(-maxSize, min(maxSize, v))-l.level[i])
		}
		l.sample(trace.Time(times[l.rows]*1000), true)
		l.rows++
	}
	if err := l.finish(err); err != nil {
		return nil, err
	}
	if l.rows != len(times) && !l.cut {
		l.odd++
	}
	t := l.trace("memory timeline")
	t.Source.Counts = []trace.Count{{What: "rows", N: l.rows}}
	return t, nil
}

// finish says whether an error leaves something to use: of a file that is cut, what came before.
func (l *timeline) finish(err error) error {
	var syntax *trace.SyntaxError
	switch {
	case err == nil && l.rows == 0:
		if _, err := l.dec.ReadToken(); err != nil { // the end of the list, or of a file that was cut before its first row
			return trace.Corrupt(l.dec.InputOffset(), "the timeline ends here, before its first row: it was cut while it was written or copied")
		}
		return nil
	case err == nil:
		if _, err := l.dec.ReadToken(); err != nil {
			l.cut = true
		}
		return nil
	case l.in.err != nil && !errors.Is(l.in.err, trace.ErrCorrupt):
		return l.in.err
	case errors.As(err, &syntax) && l.in.err == nil:
		return err
	case l.rows > 0 && (l.in.err != nil || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF)):
		l.cut = true
		return nil
	case l.in.err != nil:
		return l.in.err
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return trace.Corrupt(l.dec.InputOffset(), "the timeline ends here, before its first row: it was cut while it was written or copied")
	}
	return trace.Corrupt(l.dec.InputOffset(), "the JSON is damaged: %s", reasonOf(err))
}

func (l *timeline) trace(format string) *trace.Trace {
	d := trace.Device{Content: trace.Samples, Pools: []trace.Pool{{}}}
	d.Series = append(d.Series, l.total)
	for _, s := range l.of {
		if s.Samples > 0 && (s.Max > 0 || s.Min < 0) {
			d.Series = append(d.Series, s)
		}
	}
	t := &trace.Trace{Stacks: trace.NewStacks(), Devices: []trace.Device{d}}
	t.Settings.MaxSplitSize = -1
	t.Source = trace.Source{
		Format: format, Producer: "torch.profiler", Bytes: l.dec.InputOffset(), Cut: l.cut,
		Lacks: []trace.Lack{{
			What:    "single blocks, who allocated them, what was reserved, and which device it is",
			Instead: "a memory snapshot: " + snapshotHow,
		}},
	}
	if l.cut {
		t.Warnings = append(t.Warnings, trace.Warning{Code: "cut", Count: 1, First: -1,
			Message: fmt.Sprintf("the file ends in the middle, after %d rows: what came before is used", l.rows)})
	}
	if l.odd > 0 {
		t.Warnings = append(t.Warnings, trace.Warning{Code: "bad-row", Message: "rows make no sense and were left out", Count: l.odd, First: -1})
	}
	return t
}
