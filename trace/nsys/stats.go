package nsys

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/vramscope/vramscope/internal/lines"
	"github.com/vramscope/vramscope/trace"
	"github.com/vramscope/vramscope/trace/cupti"
)

// The CSV of nsys stats. Several reports may follow each other, with lines for the console between them. None
// has allocations; that of the API has calls that were refused memory, and that of NVTX has ranges. Units are
// in the cells of the header, "Start (ns)", and MB are 10^6 bytes here.

// isStats says whether there is a report in the head of a file.
func isStats(head []byte) bool {
	for _, line := range lines.OfHead(head) {
		if reportOf(line) != nil {
			return true
		}
	}
	return false
}

// report is one of the reports: its columns, by name without unit.
type report struct {
	columns map[string]int
	units   map[string]string
	count   int
}

// reportOf reads a line as a report's header; nil if it is none.
func reportOf(line []byte) *report {
	first, _, _ := bytes.Cut(line, []byte(","))
	switch name, unit := unitOf(string(first)); {
	case name == "Start" && unit != "", name == "Time" && unit == "%", name == "Total" && unit != "":
	default:
		return nil
	}
	r := &report{columns: map[string]int{}, units: map[string]string{}}
	for i, c := range splitCSV(string(line)) {
		name, unit := unitOf(c)
		name = strings.ToLower(name)
		r.columns[name], r.units[name] = i, unit
		r.count = i + 1
	}
	for _, known := range []string{"duration", "total time", "count"} {
		if _, ok := r.columns[known]; ok {
			return r
		}
	}
	return nil
}

// unitOf takes a cell of a header apart: Start (ns).
func unitOf(cell string) (name, unit string) {
	name, unit, ok := strings.Cut(cell, " (")
	if !ok || !strings.HasSuffix(unit, ")") {
		return cell, ""
	}
	return name, strings.TrimSuffix(unit, ")")
}

// splitCSV takes a row apart; quotes are doubled within quotes.
func splitCSV(s string) []string {
	var out []string
	for {
		if !strings.HasPrefix(s, `"`) {
			cell, rest, more := strings.Cut(s, ",")
			out = append(out, cell)
			if !more {
				return out
			}
			s = rest
			continue
		}
		end := 1
		for end < len(s) && (s[end] != '"' || end+1 < len(s) && s[end+1] == '"') {
			if s[end] == '"' {
				end++
			}
			end++
		}
		out = append(out, strings.ReplaceAll(s[1:min(end, len(s))], `""`, `"`))
		if end+1 >= len(s) {
			return out
		}
		s = strings.TrimPrefix(s[end+1:], ",")
	}
}

// ReadStats reads the CSV of nsys stats. It returns trace.ErrUnrecognized itself, with nothing taken, if the
// input does not look like it.
func ReadStats(in *bufio.Reader) (*trace.Trace, error) {
	if head, _ := in.Peek(in.Size()); !isStats(head) {
		return nil, trace.ErrUnrecognized
	}
	s := &stats{Reader: lines.New(in), rec: cupti.New(), counts: map[string]int{}}
	for {
		line, err := s.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		s.line(line)
	}
	return s.finish(), nil
}

// stats reads reports.
type stats struct {
	*lines.Reader
	rec    *cupti.Recording
	report *report
	n      found
	counts map[string]int
	copied float64 // bytes
	bad    lines.Tally
}

func (s *stats) line(line []byte) {
	if r := reportOf(line); r != nil {
		s.report = r
		return
	}
	if len(line) == 0 || bytes.HasPrefix(line, []byte("Processing [")) || bytes.HasPrefix(line, []byte(" ** ")) || bytes.HasPrefix(line, []byte("SKIPPED")) {
		s.report = nil // it ends here
		return
	}
	if s.report == nil {
		return
	}
	cells := splitCSV(string(line))
	if len(cells) != s.report.count {
		if !s.Cut {
			s.bad.Add(s.Number)
		}
		return
	}
	s.row(cells)
}

// cell is a cell of a row, "" if the report has no such column.
func (s *stats) cell(cells []string, name string) string {
	if i, ok := s.report.columns[name]; ok {
		return cells[i]
	}
	return ""
}

// ns is a time of a row's, in nanoseconds.
func (s *stats) ns(cells []string, name string) (int64, bool) {
	text := s.cell(cells, name)
	scale := map[string]float64{"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9, "sec": 1e9}[s.report.units[name]]
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && scale == 1 {
		return n, true
	}
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || math.Abs(x*scale) > 1e18 {
		return 0, false
	}
	return int64(math.Round(x * scale)), scale != 0
}

func (s *stats) row(cells []string) {
	name := s.cell(cells, "name")
	start, timed := s.ns(cells, "start")
	_, isAPI := s.report.columns["result"]
	_, isRange := s.report.columns["rangestack"]
	_, isGPU := s.report.columns["strm"]
	switch {
	case isAPI && timed:
		s.n.calls++
		function := cupti.FunctionName(name)
		if strings.Contains(function, "alloc") || strings.Contains(function, "Alloc") {
			s.counts["calls of "+function]++
		}
		if s.cell(cells, "result") != "2" {
			return
		}
		s.n.failed++
		process, thread := s.thread(cells)
		s.rec.Fail(&cupti.Call{Start: start, Process: process, Thread: thread, Name: function, Result: cupti.OutOfMemory})
	case isRange && timed:
		end, ended := s.ns(cells, "end")
		_, thread := s.thread(cells)
		s.rec.AddRange(cupti.PushPop, thread, start, end, ended, s.rec.RangeName([]byte(strings.TrimPrefix(name, ":"))))
	case isGPU && timed:
		s.device(s.cell(cells, "device"))
		switch {
		case strings.HasPrefix(name, "[CUDA memcpy"):
			s.counts["copies"]++
			if x, err := strconv.ParseFloat(s.cell(cells, "bytes"), 64); err == nil && x >= 0 {
				s.copied += x * map[string]float64{"B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "": 1}[s.report.units["bytes"]]
			}
		case strings.HasPrefix(name, "[CUDA memset"):
			s.counts["sets"]++
		default:
			s.counts["kernels"]++
		}
	}
}

// thread numbers the process and the thread of a row.
func (s *stats) thread(cells []string) (process, thread uint64) {
	pid, _ := lines.Whole([]byte(s.cell(cells, "pid")))
	tid, _ := lines.Whole([]byte(s.cell(cells, "tid")))
	process = uint64(pid&0xffffff) << 24
	return process, process | uint64(tid&0xffffff)
}

// device takes a cell of the form "NVIDIA H200 (0)".
func (s *stats) device(cell string) {
	name, number, ok := strings.Cut(strings.TrimSuffix(cell, ")"), " (")
	n, numeric := lines.Whole([]byte(number))
	if !ok || !numeric || len(s.rec.GPUs) >= 64 {
		return
	}
	for _, g := range s.rec.GPUs {
		if g.ID == n {
			return
		}
	}
	s.rec.GPUs = append(s.rec.GPUs, cupti.GPU{ID: n, Name: name, CUDevice: n})
}

func (s *stats) finish() *trace.Trace {
	t := s.rec.Finish()
	t.Source = trace.Source{Format: Format + " (stats)", Bytes: s.Offset, Clock: trace.ClockRecording}
	if s.bad.N > 0 {
		t.Warnings = append(t.Warnings, trace.Warning{Code: "bad-line", Count: s.bad.N, First: -1,
			Message: fmt.Sprintf("lines are no rows of their report and were left out, the first in line %d", s.bad.First)})
	}
	s.n.tell(t)
	t.Source.Counts = append([]trace.Count{{What: "CUDA calls", N: s.n.calls}}, sortedCounts(s.counts)...)
	if s.copied > 0 {
		t.Source.Counts = append(t.Source.Counts, trace.Count{What: "bytes copied", N: int(min(s.copied, 1<<60))})
	}
	return t
}
