package rmm

import (
	"bufio"
	"io"
	"maps"
	"slices"

	"github.com/vramscope/vramscope/internal/lines"
	"github.com/vramscope/vramscope/trace"
)

// Rows become events as they come. Times are those of a day without a date: where one lies more than half a
// day before the one in front of it, a day has gone by; by less, threads have overtaken each other, and the
// order of the file is kept.

const (
	day        = int64(86400 * 1e9)
	maxDevices = 64
)

// log is a log that is being read.
type log struct {
	*lines.Reader
	columns
	headed  bool // a header was seen
	devices map[int64]*device
	clock   trace.Clock

	rows, allocs, frees, failures int
	days, last                    int64

	bad, other, nulls, reallocs lines.Tally
	unseen                      int // rows of devices beyond those that are told apart
}

type device struct {
	trace.Device
	streams trace.StreamSet
	sizes   map[uint64]int64 // of live blocks, where frees do not tell theirs
	used    int64            // where rows have no pointers
}

func readLog(in *bufio.Reader) (*trace.Trace, error) {
	l := &log{Reader: lines.New(in), columns: bareColumns, devices: map[int64]*device{}, clock: trace.ClockDay}
	for {
		line, err := l.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		line = lines.Trim(line)
		if len(line) > 0 {
			l.line(line)
		}
	}
	return l.finish(), nil
}

func (l *log) line(line []byte) {
	var r row
	if !l.parse(line, &r) {
		c, ok := headerOf(line)
		switch {
		case ok:
			l.columns, l.headed = c, true
		case l.headed && !l.Cut:
			l.bad.Add(l.Number)
		case !l.headed:
			l.other.Add(l.Number)
		}
		return
	}
	l.rows++
	d := l.device(r.device)
	if d == nil {
		l.unseen++
		return
	}
	if r.total > 0 {
		d.Capacity = r.total
	}
	if r.realloc {
		l.reallocs.Add(l.Number)
		return
	}
	e := trace.Event{Time: l.time(&r), Addr: r.addr, Size: r.size, Block: trace.NoBlock, Stream: d.streams.ID(r.stream)}
	switch r.action {
	case allocate:
		l.allocs++
		e.Op = trace.OpAlloc
	case free:
		l.frees++
		e.Op = trace.OpFree
	case fail:
		l.failures++
		e.Op, e.Addr = trace.OpOOM, 0
	}
	if l.pointer < 0 {
		d.count(e)
		return
	}
	if r.addr == 0 && r.action != fail {
		if r.size > 0 {
			l.nulls.Add(l.Number)
		}
		return
	}
	if l.columns.device >= 0 { // a csv_log, whose frees do not tell sizes
		if r.action == free {
			e.Size = d.sizes[r.addr]
			delete(d.sizes, r.addr)
		} else {
			d.sizes[r.addr] = r.size
		}
	}
	d.Events.Append(e)
}

// count adds up what is in use, where there are no pointers to tell blocks apart by.
func (d *device) count(e trace.Event) {
	if len(d.Series) == 0 {
		d.Content = trace.Samples
		d.Series = []trace.Series{{Quantity: trace.Requested}}
	}
	switch e.Op {
	case trace.OpAlloc:
		d.used += e.Size
	case trace.OpFree:
		d.used -= e.Size
	}
	d.Series[0].Add(e.Time, d.used)
}

// time makes a time of a row's.
func (l *log) time(r *row) trace.Time {
	switch {
	case l.start >= 0:
		l.clock = trace.ClockRecording
		return trace.Time(r.start * 1e9)
	case r.time < 0:
		l.clock = trace.ClockNone
		return 0
	case r.epoch:
		l.clock = trace.ClockEpoch
		return trace.Time(r.time)
	}
	if t := r.time; t < l.last-day/2 {
		l.days++
	} else if t > l.last+day/24*23 && l.days > 0 { // a thread that wrote late, just after midnight
		return trace.Time((l.days-1)*day + t)
	}
	l.last = r.time
	return trace.Time(l.days*day + r.time)
}

func (l *log) device(index int64) *device {
	d := l.devices[index]
	if d == nil && len(l.devices) < maxDevices {
		d = &device{sizes: map[uint64]int64{}}
		d.Content, d.Index, d.Pools = trace.Requests, int(index), []trace.Pool{{}}
		l.devices[index] = d
	}
	return d
}

func (l *log) finish() *trace.Trace {
	t := &trace.Trace{Stacks: trace.NewStacks(), Settings: trace.Settings{MaxSplitSize: -1}}
	t.Source = trace.Source{Format: Format, Producer: "RMM of " + l.era, Bytes: l.Offset, Clock: l.clock, Lacks: lacks(),
		Counts: []trace.Count{{What: "allocations", N: l.allocs}, {What: "frees", N: l.frees}, {What: "failures", N: l.failures}}}
	for _, i := range slices.Sorted(maps.Keys(l.devices)) {
		d := l.devices[i]
		d.streams.Settle(&d.Device)
		if d.Content == trace.Requests {
			trace.Pair(&d.Device)
		}
		t.Devices = append(t.Devices, d.Device)
	}
	if l.Cut && l.rows > 0 {
		// Whether the last line is whole nobody can tell: RMM ends each with a newline.
		t.Source.Cut = true
		t.Warnings = append(t.Warnings, trace.Warning{Code: "cut", Count: 1, First: -1,
			Message: "the log ends without the end of a line: it was cut, or the program is still running or was killed"})
	}
	t.Warnings = append(t.Warnings, warning(l.bad, "bad-line", "lines are no rows of the log and were left out")...)
	t.Warnings = append(t.Warnings, warning(l.other, "other-text", "lines of other text lie between the rows")...)
	t.Warnings = append(t.Warnings, warning(l.nulls, "null-pointer", "rows have no address and were left out")...)
	t.Warnings = append(t.Warnings, warning(l.reallocs, "realloc", "reallocations do not tell the old address and were left out")...)
	if l.rows > 0 && l.pointer < 0 {
		t.Warnings = append(t.Warnings, trace.Warning{Code: "no-addresses", Count: 1, First: -1,
			Message: "the log has no addresses, so only the sum in use is known; a newer RMM logs them: " + makeLog})
	}
	if l.unseen > 0 {
		t.Warnings = append(t.Warnings, trace.Warning{Code: "many-devices", Count: l.unseen, First: -1,
			Message: "rows are of devices beyond those that are told apart"})
	}
	if l.rows == 0 {
		t.Warnings = append(t.Warnings, trace.Warning{Code: "no-events", Count: 1, First: -1,
			Message: "the log has a header and no rows: nothing was allocated through it, or it was not flushed (rmm.flush_logger, or end the program)"})
	}
	return t
}
