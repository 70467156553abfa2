package report

import "fmt"

// Rows of tables, for renderers that draw them themselves.

// TuneHeader is what the columns of a TuneRow are called.
func TuneHeader() []string {
	return []string{"settings", "peak reserved", "range", "saves", "device calls", "they take", "retries", "finishes"}
}

// TuneRow is one setting that was tried.
type TuneRow struct {
	Cells []string // as TuneHeader names them
	Peak  int64    // bytes reserved
	Now   bool     // it is the recording's own
	Best  bool     // it is recommended
}

// Rows are the settings worth looking at, the recording's own first.
func (t *Tune) Rows() []TuneRow {
	row := func(i int) TuneRow {
		c := &t.Baseline
		if i >= 0 {
			c = &t.Candidates[i]
		}
		r := TuneRow{Peak: c.Stats.Reserved.Peak, Now: i < 0, Best: t.Recommended != nil && t.Recommended.Candidate.Conf == c.Conf}
		for _, cell := range t.row("", c)[1:] {
			r.Cells = append(r.Cells, fmt.Sprint(cell))
		}
		return r
	}
	list := []TuneRow{row(-1)}
	for i := range t.Candidates {
		list = append(list, row(i))
	}
	return list
}

// Answer is what the search comes to, in a sentence.
func (t *Tune) Answer() string { return t.answer() }

// Under says in how much memory everything was replayed.
func (t *Tune) Under() string { return t.under() }

// Warnings are what to know about the figures and about the setting that is recommended.
func (t *Tune) Warnings() []string {
	var list []string
	if whose := whoseAllocator(&t.Source, t.Content); whose != "" {
		list = append(list, whose)
	}
	if t.Recommended == nil {
		return list
	}
	return append(list, t.warnings(t.Recommended.Candidate)...)
}

// LeakRow is what piles up at one place in the code.
type LeakRow struct {
	Where         string
	Bytes, Blocks float64 // a step
	Confidence    float64 // from 0 to 1
	AtEnd         int64   // bytes
	Buffer        bool    // the number of blocks stays the same: one is made anew, larger each time
}

// LeakRows are the candidates for a leak by place, the fastest first.
func (a *Analysis) LeakRows(d *Device) []LeakRow {
	var out []LeakRow
	for _, g := range leakGroups(a.Trace.Stacks, d.Growth.Leaks) {
		out = append(out, LeakRow{g.where, g.bytes, g.blocks, g.confidence, g.atEnd, g.buffer})
	}
	return out
}

// Confidence shows a probability that is near to one.
func Confidence(c float64) string { return confidence(c) }
