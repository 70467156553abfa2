package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/vramscope/vramscope/simulate"
	"github.com/vramscope/vramscope/trace"
)

// WriteText renders a search for people: the answer, the table, the line to paste, the risks.
func (t *Tune) WriteText(w io.Writer, style Style) error {
	p := &page{w: w, style: style}
	p.line("%s", p.bold(t.answer()))
	p.line("%s · %s tried", t.headline(), plural(t.Tried, "setting"))
	p.line("%s", t.under())
	p.line("")
	header := []any{""}
	for _, h := range TuneHeader() {
		header = append(header, h)
	}
	tab := Grid(header...)
	tab.SetColumnConfigs(rightAligned(3, 8))
	tab.AppendRow(t.row("now", &t.Baseline))
	for i := range t.Candidates {
		tab.AppendRow(t.row(fmt.Sprint(i+1), &t.Candidates[i]))
	}
	p.grid(tab)
	if r := t.Recommended; r != nil {
		p.line("")
		p.line("To use it, before the program starts:")
		p.line("")
		p.fence()
		if r.Candidate.Conf == "" {
			p.line("unset PYTORCH_CUDA_ALLOC_CONF")
		} else {
			p.line("export %s", envLine(r.Candidate.Conf))
		}
		p.fence()
		if list := t.warnings(r.Candidate); len(list) > 0 {
			p.line("")
			p.line("What to know about it:")
			for _, l := range list {
				p.line("- %s", l)
			}
		}
	}
	p.notes(t.notes())
	return p.err
}

// answer is the first line.
func (t *Tune) answer() string {
	base := &t.Baseline
	r := t.Recommended
	switch {
	case r != nil && r.Rescues && t.Prefix:
		return fmt.Sprintf("With %s this run would have got past where it ran out of memory (peak %s reserved up to there).",
			named(r.Candidate), Bytes(r.Candidate.Stats.Reserved.Peak))
	case r != nil && r.Rescues:
		return fmt.Sprintf("With %s this run would have finished (peak %s reserved); with its present settings it runs out of memory at event %s.",
			named(r.Candidate), Bytes(r.Candidate.Stats.Reserved.Peak), Count(base.Ended))
	case r != nil:
		begin := ""
		if t.Follow.Truncated {
			begin = " from where the recording begins"
		}
		return fmt.Sprintf("With %s this run would have reserved %s instead of %s%s (−%s, %s).", named(r.Candidate),
			Bytes(r.Candidate.Stats.Reserved.Peak), Bytes(base.Stats.Reserved.Peak), begin, Bytes(r.Saves), percent(r.Saves, base.Stats.Reserved.Peak))
	case !base.Completed:
		return fmt.Sprintf("Under none of %s tried is it sure that this run finishes; vramscope fit says how much memory it needs.", plural(t.Tried, "setting"))
	}
	return fmt.Sprintf("Keep the present settings (%s): %s.", named(base), t.whyNot())
}

// whyNot says why nothing is recommended although the present settings suffice.
func (t *Tune) whyNot() string {
	if len(t.Candidates) == 0 {
		return "no other that was tried changes anything"
	}
	best := &t.Candidates[0]
	saved := t.Baseline.Stats.Reserved.Peak - best.Stats.Reserved.Peak
	switch {
	case !best.Completed || saved <= 0:
		return fmt.Sprintf("none of %d others reserves less", t.Tried)
	case saved*100 < t.Baseline.Stats.Reserved.Peak:
		return fmt.Sprintf("the best of %d others, %s, saves %s, less than one in a hundred", t.Tried, named(best), Bytes(saved))
	case best.High >= t.Baseline.Low:
		return fmt.Sprintf("the best of %d others, %s, saves %s, less than is uncertain", t.Tried, named(best), Bytes(saved))
	}
	return fmt.Sprintf("the best of %d others, %s, saves %s but slows the program down or may not finish", t.Tried, named(best), Bytes(saved))
}

func named(c *simulate.Candidate) string {
	if c.Conf == "" {
		return "the default settings"
	}
	return c.Conf
}

func (t *Tune) under() string {
	text := ""
	switch r := t.Room; {
	case r.Limit >= 0 && r.Memory > 0:
		text = fmt.Sprintf("Replayed in %s of device memory, %s of it allowed to the process", Bytes(r.Memory), Bytes(r.Limit))
	case r.Limit >= 0:
		text = fmt.Sprintf("Replayed with %s allowed to the process", Bytes(r.Limit))
	case r.Memory > 0:
		text = fmt.Sprintf("Replayed in %s of device memory", Bytes(r.Memory))
	default:
		return "Replayed without a limit of memory; --memory or --limit set one."
	}
	if t.Room.Told != "" {
		text += ": " + t.Room.Told + " (--limit or --memory say otherwise)"
	}
	return text + "."
}

func (t *Tune) row(rank string, c *simulate.Candidate) table.Row {
	saves := "–"
	if n := t.saves(c); n != nil && c != &t.Baseline {
		saves = savedBytes(*n)
	}
	conf := c.Conf
	if conf == "" {
		conf = defaultLabel
	}
	return table.Row{rank, conf, Bytes(c.Stats.Reserved.Peak), rangeOf(c.Low, c.High), saves, Count(int(c.Calls())),
		Micros(c.DeviceTime), Count(int(c.Stats.Retries)), t.finishes(c)}
}

// savedBytes shows what is saved: a setting that reserves more saves less than nothing.
func savedBytes(n int64) string {
	if n < 0 {
		return "−" + Bytes(-n)
	}
	return Bytes(n)
}

func (t *Tune) finishes(c *simulate.Candidate) string {
	switch o := c.FirstOOM; {
	case !c.Completed:
		return fmt.Sprintf("no: event %s, %s more with %s reserved", Count(o.Event), Bytes(o.Requested), Bytes(o.Reserved))
	case o != nil:
		return fmt.Sprintf("yes, as recorded after %s", plural(int(c.Stats.OOMs), "failure"))
	case c.Guesses > 0 && c.Finishing < c.Guesses:
		return fmt.Sprintf("perhaps: under %d of %d guesses", c.Finishing, c.Guesses)
	}
	return "yes"
}

func (t *Tune) notes() []string {
	var notes []string
	if r := t.Recommended; r != nil && r.Over != nil {
		notes = append(notes, t.over())
	}
	if !t.Room.Own {
		notes = append(notes, "garbage_collection_threshold was not tried: it counts only if the process sets itself a limit of memory (--limit says that it does)")
	}
	for i := range t.Candidates {
		if n := t.Candidates[i].Guesses; n > 1 && n < t.Baseline.Guesses {
			notes = append(notes, fmt.Sprintf("the recording is long: the ranges are over %d guesses each, those of the present settings and of what is recommended over all", n))
			break
		}
	}
	if s := t.skipped(); len(s) > 0 {
		notes = append(notes, fmt.Sprintf("%s not replayed, since they come to the same as others in this recording: %s as %s",
			settingsWere(len(s)), s[0].Conf, sameAs(s[0].Same)))
	}
	if t.Prefix {
		notes = append(notes, "the recording ends where it ran out of memory: what the program would have asked for after that is not in it")
	}
	if p := t.Recorded; t.Content == trace.Decisions && !t.Follow.Truncated && t.Baseline.Completed && t.Baseline.Stats.Reserved.Peak != p {
		notes = append(notes, fmt.Sprintf("the recording itself reserved %s at most: it had other memory than is replayed here", Bytes(p)))
	}
	for i := range t.Candidates {
		if t.Candidates[i].Guess {
			notes = append(notes, "addresses in this recording do not follow the rules of the driver that is modelled: the range is a guess")
			break
		}
	}
	return append(notes, t.Replayed.notes()...)
}

// skipped are the settings that were not replayed for another reason than that there is no limit.
func (t *Tune) skipped() []simulate.Skipped {
	var out []simulate.Skipped
	for _, s := range t.Skipped {
		if t.Room.Own || !strings.Contains(s.Conf, "garbage_collection_threshold") {
			out = append(out, s)
		}
	}
	return out
}

func sameAs(conf string) string {
	if conf == "" {
		return "the default"
	}
	return conf
}

func settingsWere(n int) string {
	if n == 1 {
		return "1 setting was"
	}
	return plural(n, "setting") + " were"
}
