package perfetto

import (
	"bufio"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vramscope/vramscope/trace"
)

// writer writes events in the trace event format, one a line, as they come. Times are nanoseconds since the zero of
// the file, and are written as the microseconds that the format has.
type writer struct {
	w     *bufio.Writer
	line  []byte
	begun bool // an event was written
}

func newWriter(w io.Writer) *writer { return &writer{w: bufio.NewWriterSize(w, 64<<10)} }

func quote(b []byte, s string) []byte {
	b, _ = jsontext.AppendQuote(b, strings.ToValidUTF8(s, "�")) // what is valid can be quoted
	return b
}

// raw writes a part of the file that is no event. The writer keeps errors until flush.
func (w *writer) raw(s string) { _, _ = w.w.WriteString(s) }

func (w *writer) flush() error { return w.w.Flush() }

// event begins an event: its phase, name and process.
func (w *writer) event(phase byte, name string, pid int) {
	w.line = append(w.line[:0], `{"ph":"`...)
	w.line = append(w.line, phase, '"')
	w.text("name", name)
	w.number("pid", int64(pid))
}

func (w *writer) key(key string) {
	if last := w.line[len(w.line)-1]; last != '{' {
		w.line = append(w.line, ',')
	}
	w.line = append(w.line, '"')
	w.line = append(w.line, key...)
	w.line = append(w.line, '"', ':')
}

func (w *writer) text(key, value string) {
	w.key(key)
	w.line = quote(w.line, value)
}

func (w *writer) number(key string, value int64) {
	w.key(key)
	w.line = strconv.AppendInt(w.line, value, 10)
}

func (w *writer) hex(key string, value uint64) {
	w.key(key)
	w.line = append(w.line, `"0x`...)
	w.line = strconv.AppendUint(w.line, value, 16)
	w.line = append(w.line, '"')
}

// micros writes nanoseconds as microseconds. Nothing is before the zero of the file.
func (w *writer) micros(key string, ns int64) {
	ns = max(ns, 0)
	w.key(key)
	w.line = strconv.AppendInt(w.line, ns/1000, 10)
	if rest := ns % 1000; rest != 0 {
		w.line = append(w.line, '.', byte('0'+rest/100), byte('0'+rest/10%10), byte('0'+rest%10))
	}
}

func (w *writer) args() { w.line = append(w.line, `,"args":{`...) }

// end ends an event; braces closes its arguments as well.
func (w *writer) end(braces string) {
	w.line = append(w.line, braces...)
	sep := ",\n"
	if !w.begun {
		sep, w.begun = "\n", true
	}
	w.raw(sep)
	_, _ = w.w.Write(w.line)
}

// meta names a process or a thread, and gives its place among them.
func (w *writer) meta(pid, tid int, name string) {
	what := "process"
	if tid != 0 {
		what = "thread"
	}
	for _, kind := range []string{"_name", "_sort_index"} {
		w.event('M', what+kind, pid)
		if tid != 0 {
			w.number("tid", int64(tid))
		}
		w.args()
		if kind == "_name" {
			w.text("name", name)
		} else {
			w.number("sort_index", int64(max(tid, pid)))
		}
		w.end("}}")
	}
}

// counter writes one value of a counter.
func (w *writer) counter(pid int, name, unit string, ns, value int64) {
	w.event('C', name, pid)
	w.micros("ts", ns)
	w.args()
	w.number(unit, value)
	w.end("}}")
}

// series writes all values of a counter. Of a point that stands for several samples it writes the extremes and the
// last of them.
func (w *writer) series(pid int, name string, s *trace.Series, zero trace.Time) {
	unit := s.Quantity.Unit()
	var last int64
	for i, p := range s.Points {
		for _, v := range []int64{p.High, p.Low, p.Last} {
			if i == 0 || i == len(s.Points)-1 || v != last {
				w.counter(pid, name, unit, int64(p.Time-zero), v)
				last = v
			}
			if p.High == p.Low {
				break
			}
		}
	}
}

// complete writes a slice of a thread.
func (w *writer) complete(pid, tid int, category, name string, from, to int64) {
	w.event('X', name, pid)
	w.number("tid", int64(tid))
	w.text("cat", category)
	w.micros("ts", from)
	w.micros("dur", to-from)
}

// instant begins a point of a thread, or with tid 0 of the whole process.
func (w *writer) instant(pid, tid int, category, name string, ns int64) {
	w.event('i', name, pid)
	scope := "p"
	if tid != 0 {
		w.number("tid", int64(tid))
		scope = "t"
	}
	w.text("s", scope)
	w.text("cat", category)
	w.micros("ts", ns)
}

// async begins the begin ('b') or the end ('e') of a slice that may overlap others.
func (w *writer) async(phase byte, pid int, category, name string, id uint64, ns int64) {
	w.event(phase, name, pid)
	w.number("tid", int64(pid))
	w.text("cat", category)
	w.hex("id", id)
	w.micros("ts", ns)
}
