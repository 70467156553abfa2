package report

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/vramscope/vramscope/trace"
)

// Outside puts a log of what a device had in use beside what a recording's allocator held of it:
//
//	outside = used − held
//
// That is what no allocator's recording shows: the context of the process, libraries that allocate for themselves
// (NCCL, cuBLAS, cuDNN), and other processes.
type Outside struct {
	Log       string // file
	Format    string
	LogDevice int
	Name      string // of the device in the log
	PID       int64  // the process whose memory is used, 0 where it is the device's
	Process   string

	Offset time.Duration // what was added to the times of the log
	How    string        // how the offset is known, for people
	Sure   bool          // nothing speaks for another one
	Points []OutsidePoint
	Below  int // samples at which less was used than held, which cannot be

	Own *Outside // of the process itself, where the log has processes beside the device; nil if not
}

// OutsidePoint is one sample of the log with what the allocator held then.
type OutsidePoint struct {
	Time       trace.Time // of the recording
	Used, Held int64      // bytes
}

// Outside is what was in use outside of the allocator, in bytes.
func (p OutsidePoint) Outside() int64 { return p.Used - p.Held }

// LogOptions say what is known about a log beside its content.
type LogOptions struct {
	Offset    time.Duration // to add to the log's times
	HasOffset bool
}

// level is what an allocator held from a time on.
type level struct {
	at   trace.Time
	held int64
}

// heldOver is what a device's allocator held over time, changes only. Where a recording shows no allocator, it is
// what the program had.
func heldOver(dev *trace.Device) []level {
	if s := countedBy(dev); s != nil {
		var out []level
		for _, p := range s.Points {
			out = append(out, level{p.Time, p.Last})
		}
		return out
	}
	var now int64
	for _, s := range dev.Initial.Segments {
		now += s.Size
	}
	segments := len(dev.Initial.Segments) > 0 || len(dev.Final.Segments) > 0
	for _, e := range dev.Events.All() {
		segments = segments || e.Op.IsSegment()
	}
	sizes := map[trace.BlockID]int64{}
	if !segments {
		for _, b := range dev.Initial.Blocks {
			now += max(b.Size, b.Requested)
			sizes[b.ID] = max(b.Size, b.Requested)
		}
	}
	var out []level
	for i, e := range dev.Events.All() {
		before := now
		switch {
		case e.Op == trace.OpSegmentAlloc, e.Op == trace.OpSegmentMap:
			now += e.Size
		case e.Op == trace.OpSegmentFree, e.Op == trace.OpSegmentUnmap:
			now -= e.Size
		case segments:
		case e.Op == trace.OpAlloc:
			now += e.Size
			sizes[e.Block] = e.Size
		case e.Op == trace.OpFree, e.Op == trace.OpFreeRequested:
			now -= sizes[e.Block]
			delete(sizes, e.Block)
		}
		switch {
		case e.Time == 0:
		case i == 0 || len(out) == 0:
			out = append(out, level{e.Time - 1, before}, level{e.Time, now})
		case now != before:
			if out[len(out)-1].at >= e.Time {
				out[len(out)-1].held = now
			} else {
				out = append(out, level{e.Time, now})
			}
		}
	}
	if n := dev.Events.Len(); n > 0 && len(out) > 0 {
		if last := dev.Events.At(n - 1).Time; last > out[len(out)-1].at {
			out = append(out, level{last, now})
		}
	}
	return out
}

// AddLog holds a log against each device of the analysis that it has.
func (a *Analysis) AddLog(file string, log *trace.Trace, o LogOptions) error {
	var failed error
	some := false
	for i := range a.Devices {
		d := &a.Devices[i]
		if d.Follow == nil {
			continue
		}
		out, err := outsideOf(d.Trace, a.Trace.Source.Clock, log, o)
		if err != nil {
			failed = cmp.Or(failed, err)
			continue
		}
		for x := out; x != nil; x = x.Own {
			x.Log, x.Format = file, log.Source.Format
		}
		d.Outside = append(d.Outside, out)
		some = true
	}
	switch {
	case some:
		return nil
	case failed != nil:
		return failed
	}
	return errors.New("the recording has no events to hold the log against")
}

func outsideOf(dev *trace.Device, clock trace.Clock, log *trace.Trace, o LogOptions) (*Outside, error) {
	held := heldOver(dev)
	if len(held) < 2 {
		return nil, errors.New("the recording has no times: a log cannot be held against it (torch before 2.2 records none)")
	}
	other, err := logDevice(log, dev)
	if err != nil {
		return nil, err
	}
	align := aligner{held: held, clock: clock, logClock: log.Source.Clock, given: o}
	var whole *Outside
	if s := trace.FindSeries(other.Series, trace.DeviceUsed); s != nil {
		whole, _ = align.try(s)
	}
	if whole != nil {
		align.given = LogOptions{Offset: whole.Offset, HasOffset: true}
	}
	own := align.process(other)
	switch {
	case whole == nil && own == nil:
		return nil, align.nothing(other)
	case whole == nil:
		whole = own
	default:
		whole.Own = own
	}
	whole.LogDevice, whole.Name = other.Index, other.Name
	return whole, nil
}

// process finds the process of the recording among those of a log: the one whose memory moves with what the allocator
// holds, and is never less.
func (a *aligner) process(d *trace.Device) *Outside {
	var best *Outside
	var fit fitness
	for i := range d.Series {
		s := &d.Series[i]
		if s.Quantity != trace.ProcessUsed {
			continue
		}
		out, f := a.try(s)
		if out == nil || f.below*4 > f.samples || best != nil && !f.better(fit) {
			continue
		}
		best, fit = out, f
		best.PID, best.Process = s.PID, s.Name
	}
	return best
}

// logDevice is the device of a log that a recording's is: by its UUID or number, or the only one.
func logDevice(log *trace.Trace, dev *trace.Device) (*trace.Device, error) {
	for i := range log.Devices {
		if d := &log.Devices[i]; d.UUID != "" && d.UUID == dev.UUID {
			return d, nil
		}
	}
	for i := range log.Devices {
		if d := &log.Devices[i]; d.Index == dev.Index {
			return d, nil
		}
	}
	if len(log.Devices) == 1 {
		return &log.Devices[0], nil
	}
	var have []string
	for i := range log.Devices {
		have = append(have, fmt.Sprint(log.Devices[i].Index))
	}
	return nil, fmt.Errorf("the log has no device %d; it has %s", dev.Index, join(have))
}

// Spread is the least, the median and the most of a number of values.
type Spread struct{ Least, Median, Most int64 }

func spreadOf(points []OutsidePoint, value func(OutsidePoint) int64) Spread {
	var v []int64
	for _, p := range points {
		v = append(v, value(p))
	}
	slices.Sort(v)
	if len(v) == 0 {
		return Spread{}
	}
	return Spread{v[0], v[len(v)/2], v[len(v)-1]}
}

// Spreads are those of what was used, held and outside.
func (o *Outside) Spreads() (used, held, outside Spread) {
	return spreadOf(o.Points, func(p OutsidePoint) int64 { return p.Used }),
		spreadOf(o.Points, func(p OutsidePoint) int64 { return p.Held }),
		spreadOf(o.Points, OutsidePoint.Outside)
}

// process names the process.
func (o *Outside) process() string {
	if o.Process == "" {
		return fmt.Sprintf("pid %d", o.PID)
	}
	return fmt.Sprintf("pid %d %s", o.PID, o.Process)
}

// rowsOver are so many of the points, spread over time, with the one where the most was outside.
func (o *Outside) rowsOver(n int) []OutsidePoint {
	if len(o.Points) <= n {
		return o.Points
	}
	most := 0
	for i, p := range o.Points {
		if p.Outside() > o.Points[most].Outside() {
			most = i
		}
	}
	var out []OutsidePoint
	last := -1
	for k := range n {
		i := k * (len(o.Points) - 1) / (n - 1)
		if most > last && most < i {
			out = append(out, o.Points[most])
		}
		out = append(out, o.Points[i])
		last = i
	}
	return out
}

// writeText writes what was outside, over time.
func (o *Outside) writeText(p *page, dev *trace.Device) {
	what := "the device"
	if o.PID != 0 {
		what = o.process()
	}
	used, held, outside := o.Spreads()
	p.line("%s", p.bold(fmt.Sprintf("Outside the allocator: %s to %s, by %s (%s).", Bytes(outside.Least), Bytes(outside.Most), filepath.Base(o.Log), plural(len(o.Points), "sample"))))
	p.line("  %s.", o.How)
	p.fence()
	p.line("  %-26s %11s %11s %11s", "", "least", "median", "most")
	row := func(name string, s Spread) {
		p.line("  %-26s %11s %11s %11s", name, Bytes(s.Least), Bytes(s.Median), Bytes(s.Most))
	}
	row("used by "+what, used)
	row("held by the allocator", held)
	row("outside", outside)
	if len(o.Points) > 1 {
		p.line("")
		p.line("  %12s %11s %11s %11s", "at", "used", "held", "outside")
		start := dev.Events.At(0).Time
		for _, x := range o.rowsOver(10) {
			sign, after := "+", time.Duration(x.Time-start)
			if after < 0 {
				sign, after = "-", -after
			}
			p.line("  %12s %11s %11s %11s", sign+Span(after), Bytes(x.Used), Bytes(x.Held), Bytes(x.Outside()))
		}
	}
	p.fence()
	switch {
	case o.Below*4 > len(o.Points):
		p.line("  At %s less was used than the allocator held, which cannot be: the offset, or the device, is another one.", plural(o.Below, "sample"))
	case o.PID != 0:
		p.line("  This is the context of the process, and libraries that allocate for themselves (NCCL, cuBLAS, cuDNN).")
	default:
		p.line("  This is the contexts of processes, libraries that allocate for themselves (NCCL, cuBLAS, cuDNN), and other processes.")
	}
	if own := o.Own; own != nil {
		_, _, s := own.Spreads()
		p.line("  The process itself seems to be %s: of it, %s to %s are beyond its allocator.", own.process(), Bytes(s.Least), Bytes(s.Most))
	}
}

type outsideJSON struct {
	Log       string             `json:"log"`
	Format    string             `json:"format"`
	LogDevice int                `json:"log_device"`
	PID       *int64             `json:"pid"`
	OffsetUS  int64              `json:"offset_us"`
	How       string             `json:"how"`
	Sure      bool               `json:"sure"`
	Below     int                `json:"samples_below_held"`
	Used      spreadJSON         `json:"used"`
	Held      spreadJSON         `json:"held"`
	Outside   spreadJSON         `json:"outside"`
	Points    []outsidePointJSON `json:"points"`
	Own       *outsideJSON       `json:"own_process"`
}

type spreadJSON struct {
	Least  int64 `json:"least_bytes"`
	Median int64 `json:"median_bytes"`
	Most   int64 `json:"most_bytes"`
}

type outsidePointJSON struct {
	TimeUS  int64 `json:"time_us"`
	Used    int64 `json:"used_bytes"`
	Held    int64 `json:"held_bytes"`
	Outside int64 `json:"outside_bytes"`
}

// toJSON renders it for programs, nil for none.
func (o *Outside) toJSON() *outsideJSON {
	if o == nil {
		return nil
	}
	used, held, outside := o.Spreads()
	j := &outsideJSON{Log: o.Log, Format: o.Format, LogDevice: o.LogDevice, PID: atLeast(o.PID, 1), OffsetUS: o.Offset.Microseconds(), How: o.How,
		Sure: o.Sure, Below: o.Below, Used: spreadJSON(used), Held: spreadJSON(held), Outside: spreadJSON(outside), Points: []outsidePointJSON{}, Own: o.Own.toJSON()}
	for _, p := range o.Points {
		j.Points = append(j.Points, outsidePointJSON{int64(p.Time) / 1000, p.Used, p.Held, p.Outside()})
	}
	return j
}

// outsideList renders what several logs show for programs.
func outsideList(list []*Outside) []*outsideJSON {
	out := []*outsideJSON{}
	for _, o := range list {
		out = append(out, o.toJSON())
	}
	return out
}
