package report

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/vramscope/vramscope/trace"
)

// Style says how text may look.
type Style struct {
	Markdown bool
	Color    bool
	Rows     int // rows of a table of stacks; 0 for ten
}

// page writes lines.
type page struct {
	w     io.Writer
	style Style
	err   error
}

func (p *page) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}

func (p *page) bold(s string) string {
	switch {
	case p.style.Markdown:
		return "**" + s + "**"
	case p.style.Color:
		return "\x1b[1m" + s + "\x1b[0m"
	}
	return s
}

// table begins and ends a block of aligned lines.
func (p *page) fence() {
	if p.style.Markdown {
		p.line("```")
	}
}

// WriteText renders an analysis for a terminal, or as Markdown.
func (a *Analysis) WriteText(w io.Writer, style Style) error {
	p := &page{w: w, style: style}
	p.line("%s", p.bold(a.headline()))
	if len(a.Devices) == 0 {
		p.line("")
		p.line("No device in this file has memory or events: was recording switched on?")
	}
	for i := range a.Devices {
		p.line("")
		a.device(p, &a.Devices[i])
		for _, o := range a.Devices[i].Outside {
			p.line("")
			o.writeText(p, a.Devices[i].Trace)
		}
	}
	p.besides(a.Trace)
	a.notes(p)
	if len(a.Trace.Source.Lacks) > 0 {
		p.line("")
		p.lacks(a.Trace.Source)
	}
	return p.err
}

func (a *Analysis) headline() string {
	events := 0
	var first, last trace.Time
	for i := range a.Devices {
		t := a.Devices[i].Trace
		n := t.Events.Len()
		events += n
		if n == 0 {
			continue
		}
		from, to := t.Events.At(0).Time, t.Events.At(n-1).Time
		if first == 0 || from < first {
			first = from
		}
		last = max(last, to)
	}
	parts := []string{filepath.Base(a.File), a.Trace.Source.Format, plural(len(a.Devices), "device")}
	if text := a.head(); text != "" {
		return strings.Join(append(parts, text), " · ")
	}
	if events == 0 {
		return strings.Join(append(parts, "no events, only the state at the end"), " · ")
	}
	span := plural(events, "event")
	if last > first {
		span += " over " + Span(time.Duration(last-first))
	}
	parts = append(parts, span)
	if a.Complete {
		parts = append(parts, "complete, starts from empty")
	} else {
		parts = append(parts, "begins in the middle of a run")
	}
	return strings.Join(parts, " · ")
}

func (a *Analysis) device(p *page, d *Device) {
	if len(a.Devices) > 1 {
		p.line("%s", p.bold(fmt.Sprintf("Device %d", d.Index)))
	}
	switch {
	case d.Follow == nil:
		a.plainDevice(p, d)
		return
	case d.Trace.Content == trace.Requests:
		a.requestsDevice(p, d)
		return
	}
	most, held := d.PeakAllocated.Allocated, d.PeakReserved.Reserved
	ever := "more than was ever in use"
	if d.Follow.Truncated {
		ever = "more than was in use since recording began"
	}
	p.line("%s", p.bold(fmt.Sprintf("Peak %s allocated, %s reserved: %s (%s) %s.",
		Bytes(most), Bytes(held), Bytes(held-most), percent(held-most, held), ever)))
	d.failures(p)
	d.helps(p, filepath.Base(a.File))
	p.line("")
	a.holders(p, "At the peak"+d.when(d.PeakAllocated.Event), d.PeakAllocated.Allocated, d.PeakAllocated.Holders)
	if len(d.OOMs) > 0 && d.OOMs[0].Holders.ByStack != nil && d.OOMs[0].Allocated != d.PeakAllocated.Allocated {
		first := d.OOMs[0]
		a.holders(p, "When it ran out"+d.when(first.Event), first.Allocated, first.Holders)
	}
	d.fragments(p, a.Trace.Stacks)
	a.growth(p, d)
	d.ending(p)
}

// when says at which moment of the recording an event was.
func (d *Device) when(event int) string {
	if event < 0 {
		return " (before recording began)"
	}
	start, at := d.Trace.Events.At(0).Time, d.Trace.Events.At(event).Time
	if at == 0 || start == 0 {
		return fmt.Sprintf(" (event %s%s)", Count(event), d.during(event))
	}
	return fmt.Sprintf(" (+%s, event %s%s)", Span(time.Duration(at-start)), Count(event), d.during(event))
}

func (d *Device) failures(p *page) {
	if len(d.OOMs) == 0 {
		return
	}
	first := d.OOMs[0]
	free := "unknown"
	if first.DeviceFree > 0 {
		free = Bytes(first.DeviceFree)
	}
	p.line("%s", p.bold(fmt.Sprintf("Ran out of memory%s: asked %s, %s free on the device, %s reserved but not usable (largest piece %s).",
		d.when(first.Event), Bytes(first.Requested), free, Bytes(first.Unusable()), Bytes(first.LargestFree))))
	p.line("  %s: %s.", first.Verdict, first.Why)
	if n := len(d.OOMs) - 1; n > 0 {
		p.line("  And %s after that; the program went on.", plural(n, "time"))
	}
}

func (d *Device) helps(p *page, file string) {
	for _, h := range d.Help {
		gain := h.Instead - h.Peak
		prefix := ""
		if h.Prefix {
			prefix = ", up to where the recording ends"
		}
		from := ""
		if d.Follow.Truncated {
			from = " from where the recording begins"
		}
		switch name := confName(h.Conf); {
		case len(d.OOMs) > 0 && h.Completed:
			p.line("It would have got past that with %s (peak %s reserved, replayed%s).", name, Bytes(h.Peak), prefix)
		case len(d.OOMs) > 0:
			p.line("It runs out of memory with %s as well (replayed).", name)
		case gain*100 >= h.Instead*2:
			p.line("With %s it would have reserved %s instead of %s%s, %s less (replayed).", name, Bytes(h.Peak), Bytes(h.Instead), from, Bytes(gain))
		default:
			p.line("With %s it would have reserved %s instead of %s%s (replayed): that does not help.", name, Bytes(h.Peak), Bytes(h.Instead), from)
		}
		p.line("More settings: vramscope tune %s · the least memory: vramscope fit %s", file, file)
	}
}

func (a *Analysis) holders(p *page, title string, allocated int64, h Holders) {
	rows := p.style.Rows
	if rows == 0 {
		rows = 10
	}
	p.line("%s: %s by the line that allocated", p.bold(title), Bytes(allocated))
	p.fence()
	groups := groupByPlace(a.Trace.Stacks, h.ByStack)
	row := func(n int64, what string, blocks int) {
		p.line("  %10s  %5s  %7s  %s", Bytes(n), percent(n, allocated), Count(blocks), what)
	}
	p.line("  %10s  %5s  %7s  %s", "bytes", "share", "blocks", "where")
	var rest Holder
	for i, g := range groups {
		if i >= rows {
			rest.Bytes += g.Bytes
			rest.Blocks += g.Blocks
		}
	}
	folded := groups[:min(rows, len(groups))]
	add := func(n int64, what string, blocks int) {
		if n > 0 {
			folded = append(folded[:len(folded):len(folded)], group{Holder: Holder{Bytes: n, Blocks: blocks}, where: what})
		}
	}
	add(h.Before, BeforeRecording, h.BeforeBlocks)
	why := WithoutStack
	if len(h.ByStack) == 0 {
		why = WithoutStacks
	}
	add(h.Unattributed, why, h.Unknown)
	slices.SortStableFunc(folded, func(x, y group) int { return cmp.Compare(y.Bytes, x.Bytes) })
	for _, g := range folded {
		row(g.Bytes, g.where, g.Blocks)
	}
	if rest.Blocks > 0 {
		row(rest.Bytes, fmt.Sprintf("%s more", plural(len(groups)-rows, "place")), rest.Blocks)
	}
	p.fence()
}

func (d *Device) fragments(p *page, stacks *trace.Stacks) {
	if !d.Fragmented {
		p.line("%s: not known, since the recording does not keep to the rules of the allocator.", p.bold("Reserved but not in use at the reserved peak"))
		return
	}
	f := d.Fragmentation
	p.line("%s: %s", p.bold("Reserved but not in use at the reserved peak"+d.when(d.PeakReserved.Event)),
		Bytes(f.Stranded+f.Cached+f.Pending))
	p.fence()
	p.line("  %10s  stranded: free, in segments that something in use keeps", Bytes(f.Stranded))
	p.line("  %10s  cached: whole free segments, which could be given back", Bytes(f.Cached))
	p.line("  %10s  waiting for other streams", Bytes(f.Pending))
	p.line("  The largest free block has %s; blocks in use have %s more than was asked for (rounding).", Bytes(f.Largest), Bytes(f.Rounding))
	p.fence()
	const shown = 3
	n := 0
	for _, pin := range d.PinnedBy {
		if n == shown || pin.Stranded() < max(d.PeakReserved.Reserved/200, mib) {
			break
		}
		n++
		who := place(stacks.Stack(pin.Stack)).String()
		switch {
		case who == "" && pin.Old:
			who = "allocated before recording began"
		case who == "":
			who = "recorded without a call stack"
		}
		p.line("  %s in use keep %s: %s, the largest %s of %s", Bytes(pin.Live), Bytes(pin.Segment), plural(pin.Blocks, "block"), Bytes(pin.StackSize), who)
	}
}

func (d *Device) ending(p *page) {
	e := d.End
	p.line("%s: %s allocated, %s reserved.", p.bold("At the end"), Bytes(e.Allocated), Bytes(e.Reserved))
}

func (a *Analysis) notes(p *page) {
	var lines []string
	for _, f := range a.Settings {
		lines = append(lines, fmt.Sprintf("setting %s: %s", f.Key, f.Message))
	}
	warn := func(prefix string, list []trace.Warning) {
		for _, w := range list {
			text := prefix + w.Message
			if w.Count > 1 {
				text += fmt.Sprintf(" (×%s)", Count(w.Count))
			}
			lines = append(lines, text)
		}
	}
	warn("", a.Trace.Warnings)
	for i := range a.Devices {
		d := &a.Devices[i]
		prefix := ""
		if len(a.Devices) > 1 {
			prefix = fmt.Sprintf("device %d: ", d.Index)
		}
		warn(prefix, d.Trace.Warnings)
		if d.Follow == nil {
			continue
		}
		s := &d.Follow.Score
		for _, t := range append(d.loose(), s.Assumed...) {
			lines = append(lines, prefix+t)
		}
		if !s.Exact() {
			lines = append(lines, prefix+fmt.Sprintf("the model decided otherwise than the recording at %s of %s decisions; vramscope verify says where",
				Count(s.Decisions().Checked-s.Decisions().Matched), Count(s.Decisions().Checked)))
		}
	}
	if len(lines) == 0 {
		return
	}
	p.line("")
	p.line("%s", p.bold("Mind"))
	for _, l := range lines {
		p.line("- %s", l)
	}
}
