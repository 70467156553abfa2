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
		what := "no events, only the state at the end"
		if len(a.Devices) == 0 {
			what = "no events of memory"
		}
		return strings.Join(append(parts, what), " · ")
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
	p.line("%s", p.bold(fmt.Sprintf("Peak %s allocated, %s reserved%s.", Bytes(most), Bytes(held), beyond(held, most, ever))))
	a.failures(p, d)
	d.helps(p, filepath.Base(a.File))
	a.instants(p, d)
	a.fragments(p, d)
	a.growth(p, d)
	d.ending(p)
}

// beyond says how much of what was held at the peak is more than was ever in use.
func beyond(held, most int64, ever string) string {
	switch {
	case held < most:
		return ", which is less: not all that was reserved is in the recording"
	case held == most && held > 0:
		return ", all of it in use at once"
	}
	return fmt.Sprintf(": %s (%s) %s", Bytes(held-most), percent(held-most, held), ever)
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

func (a *Analysis) failures(p *page, d *Device) {
	if len(d.OOMs) == 0 {
		return
	}
	first := d.OOMs[0]
	free, piece := "unknown", ""
	if first.DeviceFree > 0 {
		free = Bytes(first.DeviceFree)
	}
	if first.LargestFree >= 0 {
		piece = fmt.Sprintf(" (largest piece for it %s)", Bytes(first.LargestFree))
	}
	p.line("%s", p.alarm(fmt.Sprintf("Ran out of memory%s: asked %s, %s free on the device, %s reserved but not usable%s.",
		d.when(first.Event), Bytes(first.Requested), free, Bytes(first.Unusable()), piece)))
	p.line("  %s: %s.", first.Verdict, first.Why)
	if first.Layout != nil {
		a.freeing(p, first.Layout.Freeing)
	}
	if n := len(d.OOMs) - 1; n > 0 {
		p.line("  And %s after that; the program went on.", plural(n, "time"))
	}
}

// freeing says what would have made room.
func (a *Analysis) freeing(p *page, f *Freeing) {
	if f == nil {
		return
	}
	const shown = 2
	var who []string
	h := f.holders()
	groups := groupByPlace(a.Trace.Stacks, h.ByStack)
	for _, g := range groups[:min(len(groups), shown)] {
		who = append(who, fmt.Sprintf("%s of %s", Bytes(g.Bytes), g.where))
	}
	if h.Before > 0 {
		who = append(who, fmt.Sprintf("%s from before recording began", Bytes(h.Before)))
	}
	if h.Unattributed > 0 {
		who = append(who, fmt.Sprintf("%s without a call stack", Bytes(h.Unattributed)))
	}
	if n := len(groups) - shown; n > 0 {
		who = append(who, plural(n, "place")+" more")
	}
	what := fmt.Sprintf("%s in %s", Bytes(f.Bytes), plural(len(f.Blocks), "block"))
	if len(who) == 1 && len(groups) == 1 {
		who[0] = groups[0].where
	}
	if f.Segments > 0 {
		p.line("  Freeing %s (%s) would have made room: %s given back to the device.", what, strings.Join(who, ", "), Bytes(f.Room))
		return
	}
	p.line("  Freeing %s (%s) would have made room: %s in one piece.", what, strings.Join(who, ", "), Bytes(f.Room))
}

func (d *Device) helps(p *page, file string) {
	prefix := ""
	if d.Follow.Requests.Prefix() {
		prefix = ", up to where the recording ends"
	}
	enough := ""
	if d.Enough != nil {
		enough = Bytes(d.Enough.Bytes)
		if d.Enough.Limit {
			enough = "a limit of " + enough
		}
	}
	for _, h := range d.Help {
		gain := h.Instead - h.Peak
		from := ""
		if d.Follow.Truncated {
			from = " from where the recording begins"
		}
		switch name := confName(h.Conf); {
		case len(d.OOMs) > 0 && h.Completed && enough != "":
			p.line("It would have got past that with %s (peak %s reserved), or on the present settings with %s (both replayed%s).", name, Bytes(h.Peak), enough, prefix)
			enough = ""
		case len(d.OOMs) > 0 && h.Completed:
			p.line("It would have got past that with %s (peak %s reserved, replayed%s).", name, Bytes(h.Peak), prefix)
		case len(d.OOMs) > 0:
			p.line("It runs out of memory with %s as well (replayed).", name)
		case gain*100 >= h.Instead*2:
			p.line("With %s it would have reserved %s instead of %s%s, %s less (replayed).", name, Bytes(h.Peak), Bytes(h.Instead), from, Bytes(gain))
		default:
			p.line("With %s it would have reserved %s instead of %s%s (replayed): that does not help.", name, Bytes(h.Peak), Bytes(h.Instead), from)
		}
	}
	if enough != "" {
		p.line("It would have got past that on the present settings with %s (replayed%s).", enough, prefix)
	}
	if len(d.Help) > 0 {
		p.line("More settings: vramscope tune %s · the least memory: vramscope fit %s", file, file)
	}
}

func (a *Analysis) holders(p *page, title string, allocated int64, h Holders) {
	if allocated == 0 && len(h.ByStack) == 0 {
		p.line("%s: nothing is allocated", p.bold(title))
		return
	}
	rows := p.rows()
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

// instants says who held the memory at the instants that matter.
func (a *Analysis) instants(p *page, d *Device) {
	d.timeline(p)
	p.line("")
	instant := func(title string, event int, allocated int64, h Holders, b *Breakdown) {
		title += d.when(event)
		a.holders(p, title, allocated, h)
		a.sides(p, d, allocated, b)
		if p.style.Tree {
			a.calls(p, "Calls: "+title, allocated, h)
		}
	}
	if at := d.At; at != nil {
		instant("As asked", at.Event, at.Allocated, at.Holders, at.Breakdown)
		if at.Layout != nil {
			a.layout(p, d, "Reserved but not in use then", at.Layout, at.Reserved)
		} else if d.Trace.Content == trace.Decisions {
			p.line("%s: not known in the middle of a request, or where the recording does not keep to the rules of the allocator.", p.bold("Reserved but not in use then"))
		}
		p.line("")
	}
	instant("At the peak", d.PeakAllocated.Event, d.PeakAllocated.Allocated, d.PeakAllocated.Holders, d.PeakAllocated.Breakdown)
	if len(d.OOMs) > 0 && d.OOMs[0].Holders.ByStack != nil && d.OOMs[0].Allocated != d.PeakAllocated.Allocated {
		first := d.OOMs[0]
		instant("When it ran out", first.Event, first.Allocated, first.Holders, first.Breakdown)
	}
}

func (a *Analysis) fragments(p *page, d *Device) {
	title := "Reserved but not in use at the reserved peak"
	if l := d.PeakReserved.Layout; l != nil {
		a.layout(p, d, title+d.when(d.PeakReserved.Event), l, d.PeakReserved.Reserved)
		return
	}
	p.line("%s: not known, since the recording does not keep to the rules of the allocator.", p.bold(title))
}

// layout says how memory lay at an instant.
func (a *Analysis) layout(p *page, d *Device, title string, f *Layout, reserved int64) {
	p.line("%s: %s", p.bold(title), Bytes(f.Stranded+f.Cached+f.Pending))
	p.fence()
	p.line("  %10s  stranded: free, in segments that something in use keeps", Bytes(f.Stranded))
	p.line("  %10s  cached: whole free segments, which could be given back", Bytes(f.Cached))
	p.line("  %10s  waiting for other streams", Bytes(f.Pending))
	if f.Private > 0 {
		p.line("  %10s  of what is reserved belongs to private pools (CUDA graphs, MemPools), for nobody else to use", Bytes(f.Private))
	}
	p.fence()
	p.item("The largest free block has %s; blocks in use have %s more than was asked for (rounding).", Bytes(f.Largest), Bytes(f.Rounding))
	if len(f.FreeSizes) > 1 && (f.Stranded+f.Cached)*worthSizes >= reserved {
		p.item("Free blocks: %s", freeSizesText(f.FreeSizes))
	}
	const shown = 3
	n := 0
	for _, pin := range f.PinnedBy {
		if n == shown || pin.Stranded() < max(reserved/200, mib) {
			break
		}
		n++
		who := place(a.Trace.Stacks.Stack(pin.Stack)).String()
		switch {
		case who == "" && pin.Old:
			who = "allocated before recording began"
		case who == "":
			who = "recorded without a call stack"
		}
		p.item("%s in use keep %s: %s, the largest %s of %s%s", Bytes(pin.Live), Bytes(pin.Segment), plural(pin.Blocks, "block"), Bytes(pin.StackSize), who,
			d.since(pin.Born, f.Event))
	}
}

// worthSizes is one part of so many of what is reserved that must be free for the sizes of free blocks to tell anything.
const worthSizes = 20

// freeSizesText counts free blocks by size, in steps of 16.
func freeSizesText(list []SizeRange) string {
	var parts []string
	for i := 0; i < len(list); {
		from := int64(512)
		for from*16 <= list[i].From {
			from *= 16
		}
		sum := SizeRange{From: from}
		for ; i < len(list) && list[i].From < from*16; i++ {
			sum.Bytes += list[i].Bytes
			sum.Blocks += list[i].Blocks
		}
		parts = append(parts, fmt.Sprintf("%s of %s to %s (%s)", Count(sum.Blocks), shortBytes(from), shortBytes(from*16), Bytes(sum.Bytes)))
	}
	return strings.Join(parts, " · ")
}

// shortBytes shows a power of two.
func shortBytes(n int64) string {
	for _, u := range []struct {
		n    int64
		name string
	}{{gib, "GiB"}, {mib, "MiB"}, {kib, "KiB"}} {
		if n >= u.n {
			return fmt.Sprintf("%d %s", n/u.n, u.name)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}

// since says how old a block is, as an addition to a text; nothing if it is not known, or of this instant.
func (d *Device) since(born, event int) string {
	if born < 0 || event-born < 2 {
		return ""
	}
	if now, then := d.timeAt(event), d.timeAt(born); then > 0 && now > then {
		return fmt.Sprintf(", %s old (event %s%s)", Span(time.Duration(now-then)), Count(born), d.during(born))
	}
	return fmt.Sprintf(", since event %s%s", Count(born), d.during(born))
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
		if d.Roles != nil {
			for _, r := range d.Roles.Idle {
				lines = append(lines, prefix+fmt.Sprintf("category %q: no block's call stack and no annotation matches %s", r.Name, r.Match))
			}
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
