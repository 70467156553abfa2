// Package perfetto writes a recording as a file in Chrome's trace event format, for ui.perfetto.dev and
// chrome://tracing.
//
// Each device is a process with
//
//   - counters: allocated, reserved, and what the places in the code held that held most at the peak;
//   - threads: steps, what the allocator took from the driver and gave back, and the program's annotations;
//   - its blocks as async slices, those of one place in the code in one track;
//   - points of the whole process: the peak, and where memory ran out.
//
// What no device has, such as annotations that name none and pinned host memory, is in a process of its own. Samples
// become counters.
//
// Viewers hold a file in memory whole, so its size is bounded, whatever the recording has: counters are thinned out
// with their extremes kept, and of blocks, segments and annotations those that took most are written. The result says
// what was left out. Times are microseconds since the first moment of the recording.
package perfetto

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/trace"
)

// ErrNoTimes is of a recording of one moment, or of sums.
var ErrNoTimes = errors.New("nothing over time that could be drawn")

// How much of each kind is written at most, for each device.
const (
	mostPoints      = 1 << 16 // of a counter
	mostPlacePoints = 1 << 12 // of the counter of a place in the code
	mostPlaces      = 10
	mostBlocks      = 20_000
	mostSegments    = 20_000
	mostAnnotations = 50_000
	mostLanes       = 32
)

// The process of what is no device's, and the first of a device. The numbers of threads are those of their process
// with threadBits more bits, since viewers want them to be unique in the whole file.
const (
	programPID  = 1
	devicePID   = 2
	threadBits  = 8
	stepsTID    = 1
	segmentsTID = 2
	lanesTID    = 3
)

// Left is how much of what a recording has is not in the file.
type Left struct {
	What string // "blocks", …
	Of   int    // how many the recording has
	Out  int
}

// file is a file that is being written.
type file struct {
	*writer
	t    *trace.Trace
	zero trace.Time // what times count from
	last int64      // the last moment, in nanoseconds since zero
	left []Left
}

// Write writes an analysis, or nothing and ErrNoTimes.
func Write(w io.Writer, a *report.Analysis) ([]Left, error) {
	if !Drawable(a) {
		return nil, ErrNoTimes
	}
	f := &file{writer: newWriter(w), t: a.Trace}
	f.span(a)
	f.raw(`{"displayTimeUnit":"ms","otherData":{` + f.about(a) + `},"traceEvents":[`)
	f.program()
	for i := range a.Devices {
		d := &a.Devices[i]
		pid := devicePID + d.Index
		f.meta(pid, 0, deviceName(d))
		if d.Follow != nil && d.Trace.Events.Len() > 0 {
			f.device(pid, d)
		} else {
			f.sampled(pid, d.Trace.Series)
		}
		f.annotations(pid, func(m *trace.Marker) bool { return m.Device == d.Index })
	}
	f.raw("\n]}\n")
	return f.left, f.flush()
}

// Drawable says whether an analysis has anything over time.
func Drawable(a *report.Analysis) bool {
	for i := range a.Devices {
		d := a.Devices[i].Trace
		if a.Devices[i].Follow != nil && d.Events.Len() > 0 {
			return true
		}
		for j := range d.Series {
			if first, last := d.Series[j].Span(); last > first && a.Trace.Source.Clock != trace.ClockNone {
				return true
			}
		}
	}
	return false
}

// about is what the file says of itself.
func (f *file) about(a *report.Analysis) string {
	s := a.Trace.Source
	b := []byte(`"producer":"vramscope convert"`)
	add := func(key, value string) {
		b = append(b, `,"`...)
		b = append(b, key...)
		b = append(b, `":`...)
		b = quote(b, value)
	}
	add("file", filepath.Base(a.File))
	add("format", s.Format)
	add("clock", s.Clock.String())
	if f.zero != 0 {
		add("zero_ns", strconv.FormatInt(int64(f.zero), 10))
	}
	return string(b)
}

func deviceName(d *report.Device) string {
	if d.Trace.Name == "" {
		return fmt.Sprintf("GPU %d", d.Index)
	}
	return fmt.Sprintf("GPU %d (%s)", d.Index, d.Trace.Name)
}

// span finds the first and the last moment.
func (f *file) span(a *report.Analysis) {
	var first, last trace.Time
	found := false
	see := func(t trace.Time) {
		if t == 0 && a.Trace.Source.Clock != trace.ClockRecording && a.Trace.Source.Clock != trace.ClockDay {
			return // not known
		}
		if !found || t < first {
			first = t
		}
		if !found || t > last {
			last = t
		}
		found = true
	}
	for i := range a.Devices {
		d := a.Devices[i].Trace
		for _, e := range d.Events.All() {
			see(e.Time)
		}
		for j := range d.Series {
			for _, p := range d.Series[j].Points {
				see(p.Time)
			}
		}
	}
	if found {
		for i := range f.t.Markers {
			see(f.t.Markers[i].Time)
		}
	}
	f.zero, f.last = first, int64(last-first)
}

// leave notes what is not written.
func (f *file) leave(what string, of, out int) {
	if out > 0 {
		f.left = append(f.left, Left{what, of, out})
	}
}

// program writes what is no device's.
func (f *file) program() {
	if len(f.t.Beside) == 0 && !slices.ContainsFunc(f.t.Markers, func(m trace.Marker) bool { return m.Device < 0 }) {
		return
	}
	f.meta(programPID, 0, "program")
	for i := range f.t.Beside {
		f.beside(&f.t.Beside[i])
	}
	f.annotations(programPID, func(m *trace.Marker) bool { return m.Device < 0 })
}

// beside writes the counter of memory that is no device's.
func (f *file) beside(d *trace.Device) {
	if d.Events.Len() == 0 {
		for i := range d.Series {
			f.series(programPID, d.Name+" "+d.Series[i].Quantity.String(), &d.Series[i], f.zero)
		}
		return
	}
	s := trace.Series{Quantity: trace.Allocated}
	s.Limit(mostPlacePoints)
	sizes := make([]int64, d.NumBlocks)
	var used int64
	for _, b := range d.Initial.Blocks {
		if int(b.ID) < len(sizes) {
			sizes[b.ID] = b.Requested
			used += b.Requested
		}
	}
	for _, e := range d.Events.All() {
		if int(e.Block) >= len(sizes) {
			continue
		}
		switch e.Op {
		case trace.OpAlloc:
			sizes[e.Block] = e.Size
			used += e.Size
		case trace.OpFree, trace.OpFreeRequested:
			used -= sizes[e.Block]
		}
		s.Add(e.Time, used)
	}
	f.series(programPID, d.Name, &s, f.zero)
}

// sampled writes series as counters.
func (f *file) sampled(pid int, list []trace.Series) {
	for i := range list {
		s := &list[i]
		name := s.Quantity.String()
		if s.Name != "" || s.PID != 0 {
			name += " " + s.Name
			if s.PID != 0 {
				name += fmt.Sprintf(" (pid %d)", s.PID)
			}
		}
		f.series(pid, name, s, f.zero)
	}
}

// annotations writes the markers that are wanted.
func (f *file) annotations(pid int, wanted func(*trace.Marker) bool) {
	if f.zero == 0 && f.last == 0 {
		return // events without times cannot be told from each other by markers
	}
	var marks []trace.Marker
	for i := range f.t.Markers {
		if m := &f.t.Markers[i]; wanted(m) {
			marks = append(marks, *m)
		}
	}
	sortMarkers(marks)
	spans, points := spansOf(marks, f.zero, f.last)
	all := len(spans) + len(points)
	spans, out := most(spans, mostAnnotations)
	lanes, unplaced := lanesOf(spans, mostLanes)
	tid := func(lane int) int { return pid<<threadBits + lanesTID + lane }
	for i, lane := range lanes {
		name := "annotations"
		if i > 0 {
			name = fmt.Sprintf("annotations %d", i+1)
		}
		f.meta(pid, tid(i), name)
		for _, s := range lane {
			f.complete(pid, tid(i), "annotation", s.name, s.from, s.to)
			f.end("}")
		}
	}
	if len(points) > mostAnnotations {
		out += len(points) - mostAnnotations
		points = points[:mostAnnotations]
	}
	if len(points) > 0 && len(lanes) == 0 {
		f.meta(pid, tid(0), "annotations")
	}
	for _, p := range points {
		f.instant(pid, tid(0), "annotation", p.name, p.from)
		f.end("}")
	}
	f.leave("annotations", all, out+unplaced)
}
