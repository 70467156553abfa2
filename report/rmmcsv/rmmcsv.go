// Package rmmcsv writes what a recording asked of its allocator as a log of RAPIDS' memory manager: the CSV that its
// logging adaptor writes and that its replay benchmark reads.
//
//	Thread,Time,Action,Pointer,Size,Stream
//
// A row is a request: an allocation, the free that the program asked for, or an allocation that failed. What the
// allocator did for it has no place there. The size of a free is that of its allocation, which a replay needs. Blocks
// older than the recording are allocated in front of everything else, so that a replay has them. Pointers that a
// recording does not have are made up: they only tell which free belongs to which allocation.
package rmmcsv

import (
	"bufio"
	"errors"
	"io"
	"strconv"
	"time"

	"github.com/vramscope/vramscope/trace"
)

// ErrNoRequests is of a device of which nobody recorded what was asked.
var ErrNoRequests = errors.New("no single allocations and frees")

// Rows says what a log has.
type Rows struct {
	Allocs, Frees, Failures int
	Old                     int   // allocations of blocks older than the recording
	OldBytes                int64 // of those
	MadeUp                  bool  // the recording has no addresses, so pointers are numbers
	Untold                  int   // failures of which the recording does not tell the size; they are left out
}

// Has says whether a device has something to write.
func Has(d *trace.Device) bool {
	return (d.Content == trace.Decisions || d.Content == trace.Requests) && (d.Events.Len() > 0 || len(d.Initial.Blocks) > 0)
}

// unit is between the pointers that are made up: they look like those of RMM, which are multiples of 256.
const unit = 256

// log is a log that is being written.
type log struct {
	w      *bufio.Writer
	d      *trace.Device
	rows   Rows
	sizes  []int64 // bytes asked for, by block; -1 for one that is not live
	line   []byte
	untime bool // no event has a time: an event is a microsecond
}

// Write writes the requests of one device; ErrNoRequests if it has none.
func Write(w io.Writer, d *trace.Device) (Rows, error) {
	if !Has(d) {
		return Rows{}, ErrNoRequests
	}
	l := &log{w: bufio.NewWriterSize(w, 64<<10), d: d, sizes: make([]int64, d.NumBlocks)}
	for i := range l.sizes {
		l.sizes[i] = -1
	}
	l.look()
	_, _ = l.w.WriteString("Thread,Time,Action,Pointer,Size,Stream\n") // the writer keeps errors until it is flushed
	l.before()
	for i, e := range d.Events.All() {
		l.event(i, e)
	}
	return l.rows, l.w.Flush()
}

// look finds out what the recording does not have.
func (l *log) look() {
	l.untime = true
	for _, e := range l.d.Events.All() {
		l.untime = l.untime && e.Time == 0
		if e.Op == trace.OpAlloc && e.Addr == 0 {
			l.rows.MadeUp = true
		}
	}
}

// before allocates what was there before the first event.
func (l *log) before() {
	var at trace.Time
	if l.d.Events.Len() > 0 {
		at = l.d.Events.At(0).Time
	}
	for i := range l.d.Initial.Blocks {
		b := &l.d.Initial.Blocks[i]
		if b.State != trace.BlockLive || int(b.ID) >= len(l.sizes) {
			continue
		}
		size := b.Requested
		if size == 0 {
			size = b.Size
		}
		l.sizes[b.ID] = size
		l.rows.Old++
		l.rows.OldBytes += size
		l.row(at, "allocate", l.pointer(b.Addr, b.ID), size, b.Stream)
	}
}

// nowhere is where no device has memory: blocks lie there of which alone the recording has no address.
const nowhere = 1 << 60

func (l *log) pointer(addr uint64, id trace.BlockID) uint64 {
	switch number := (uint64(id) + 1) * unit; {
	case l.rows.MadeUp:
		return number
	case addr == 0:
		return nowhere + number
	}
	return addr
}

func (l *log) event(i int, e *trace.Event) {
	at := e.Time
	if l.untime {
		at = trace.Time(i) * trace.Time(time.Microsecond)
	}
	known := int(e.Block) < len(l.sizes)
	switch e.Op {
	case trace.OpAlloc:
		if known {
			l.sizes[e.Block] = e.Size
			l.rows.Allocs++
			l.row(at, "allocate", l.pointer(e.Addr, e.Block), e.Size, e.Stream)
		}
	case trace.OpFreeRequested, trace.OpFree:
		if known && l.sizes[e.Block] >= 0 {
			l.rows.Frees++
			l.row(at, "free", l.pointer(e.Addr, e.Block), l.sizes[e.Block], e.Stream)
			l.sizes[e.Block] = -1
		}
	case trace.OpOOM:
		if e.Size <= 0 {
			l.rows.Untold++
			return
		}
		l.rows.Failures++
		l.row(at, "allocate failure", 0, e.Size, e.Stream)
	}
}

// row writes a row. All are of one thread, since recordings do not tell theirs.
func (l *log) row(at trace.Time, action string, pointer uint64, size int64, stream trace.StreamID) {
	l.line = append(l.line[:0], '1', ',')
	l.line = l.timeOfDay(l.line, at)
	l.line = append(l.line, ',')
	l.line = append(l.line, action...)
	l.line = append(l.line, ",0x"...)
	l.line = strconv.AppendUint(l.line, pointer, 16)
	l.line = append(l.line, ',')
	l.line = strconv.AppendInt(l.line, size, 10)
	l.line = append(l.line, ",0x"...)
	var handle uint64
	if int(stream) < len(l.d.Streams) {
		handle = l.d.Streams[stream]
	}
	l.line = strconv.AppendUint(l.line, handle, 16)
	l.line = append(l.line, '\n')
	_, _ = l.w.Write(l.line)
}

// timeOfDay writes HH:MM:SS.ffffff. Times since the epoch are of UTC.
func (l *log) timeOfDay(b []byte, at trace.Time) []byte {
	const day = trace.Time(24 * time.Hour)
	at %= day
	if at < 0 {
		at += day
	}
	micros := int64(at) / 1000
	two := func(n int64) { b = append(b, byte('0'+n/10), byte('0'+n%10)) }
	seconds := micros / 1_000_000
	two(seconds / 3600)
	b = append(b, ':')
	two(seconds / 60 % 60)
	b = append(b, ':')
	two(seconds % 60)
	b = append(b, '.')
	for unit := int64(100_000); unit > 0; unit /= 10 {
		b = append(b, byte('0'+micros/unit%10))
	}
	return b
}
