package nvprof

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

// What nvprof prints: traces of the GPU or of the API, and summaries, as CSV or in columns. None of them has
// allocations, tracked or not. So all that is read is what there is: how many kernels, copies and calls.
//
// A header names the columns. In CSV a row with their units follows, in columns each cell has its own. Lines
// that begin with == are nvprof's own, and the program's may lie anywhere between.

const longestLine = 60 << 10

// ReadText reads what nvprof prints. It returns trace.ErrUnrecognized itself, with nothing taken, if the input
// does not look like it.
func ReadText(in *bufio.Reader) (*trace.Trace, error) {
	head, _ := in.Peek(in.Size())
	if isSession(head) {
		return nil, &trace.SyntaxError{Offset: -1, Err: trace.ErrUnrecognized,
			Msg: "is a session of NVIDIA's visual profiler, which only says where the profile lies; give that file, or make one with " + howTo}
	}
	if !isText(head) {
		return nil, trace.ErrUnrecognized
	}
	p := &printed{Reader: lines.New(in), counts: map[string]int{}, calls: map[string]int{}}
	for {
		line, err := p.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		p.line(line)
	}
	return p.finish(), nil
}

// isSession says whether a file is an XML session of the visual profiler.
func isSession(head []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(head, "\xef\xbb\xbf \t\r\n"), []byte("<")) && bytes.Contains(head[:min(len(head), 1024)], []byte("<session"))
}

// isText says whether there is a line of nvprof's own in the head of a file, or a header.
func isText(head []byte) bool {
	for len(head) > 0 {
		line, rest, _ := bytes.Cut(head, []byte("\n"))
		head = rest
		line = bytes.TrimRight(line, "\r")
		if text, ok := own(line); ok && (bytes.HasPrefix(text, []byte("NVPROF is profiling")) || bytes.HasPrefix(text, []byte("Profiling "))) {
			return true
		}
		if h := headerOf(line); h != nil && h.csv {
			return true
		}
	}
	return false
}

// own gives the text of one of nvprof's own lines, ==123== or ========.
func own(line []byte) (text []byte, ok bool) {
	rest, ok := bytes.CutPrefix(line, []byte("=="))
	if !ok {
		return nil, false
	}
	rest = bytes.TrimLeft(rest, "0123456789=")
	return bytes.CutPrefix(rest, []byte(" "))
}

// header says which columns a table has.
type header struct {
	csv  bool
	cols []column
	name int // the column of names
}

type column struct {
	name     string
	from, to int    // of a table in columns: the cells lie between
	unit     string // of a CSV
}

// headerOf reads a line as a header; nil if it is none.
func headerOf(line []byte) *header {
	if len(line) > 1000 {
		return nil
	}
	h := &header{name: -1}
	s := string(line)
	if strings.HasPrefix(s, `"`) {
		h.csv = true
		for _, c := range strings.Split(s, ",") {
			h.cols = append(h.cols, column{name: strings.Trim(c, `"`)})
		}
	} else {
		for at := 0; at < len(s); {
			for at < len(s) && s[at] == ' ' {
				at++
			}
			from := at
			for at < len(s) && !strings.HasPrefix(s[at:], "  ") {
				at++
			}
			if from < len(s) {
				h.cols = append(h.cols, column{name: strings.TrimSpace(s[from:at]), to: at})
			}
		}
		for i := 1; i < len(h.cols); i++ {
			h.cols[i].from = h.cols[i-1].to
		}
	}
	for i, c := range h.cols {
		if c.name == "Name" {
			h.name = i
		}
	}
	if h.name < 2 || h.col("Duration") < 0 && (h.col("Time") < 0 || h.col("Calls") < 0) {
		return nil
	}
	if !h.csv { // names are as long as they like, and begin where the header says
		h.cols[h.name].from = h.cols[h.name].to - len("Name")
		h.cols[h.name].to = longestLine
	}
	return h
}

func (h *header) col(name string) int {
	for i, c := range h.cols {
		if c.name == name {
			return i
		}
	}
	return -1
}

// cells takes a row apart; nil if it is none. In CSV quotes in names are not escaped, so what stands before
// the name is taken from the left, and what stands behind it from the right.
func (h *header) cells(line []byte) []string {
	s := string(line)
	out := make([]string, len(h.cols))
	if !h.csv {
		for i, c := range h.cols {
			if from := min(c.from, len(s)); from < min(c.to, len(s)) {
				out[i] = strings.TrimSpace(s[from:min(c.to, len(s))])
			}
		}
		return out
	}
	for i := range h.name {
		cell, rest, ok := cut(s)
		if !ok {
			return nil
		}
		out[i], s = cell, rest
	}
	for i := len(h.cols) - 1; i > h.name; i-- {
		at := strings.LastIndexByte(s, ',')
		if at < 0 {
			return nil
		}
		out[i], s = strings.Trim(s[at+1:], `"`), s[:at]
	}
	out[h.name] = strings.Trim(s, `"`)
	return out
}

// cut takes the first cell off a row.
func cut(s string) (cell, rest string, ok bool) {
	if strings.HasPrefix(s, `"`) {
		end := strings.Index(s, `",`)
		if end < 1 {
			return "", "", false
		}
		return s[1:end], s[end+2:], true
	}
	return strings.Cut(s, ",")
}

// printed is what nvprof printed, as it is read.
type printed struct {
	*lines.Reader

	header *header
	units  bool // the row of units is next
	rows   int
	counts map[string]int
	calls  map[string]int // of functions, by name
	bytes  int64          // that were copied

	bad, firstBad int
}

func (p *printed) line(line []byte) {
	if len(bytes.TrimSpace(line)) == 0 {
		return
	}
	if text, ok := own(line); ok {
		if bytes.HasSuffix(bytes.TrimSpace(text), []byte("result:")) {
			p.header = nil // another table begins, which may be one that is not read
		}
		return
	}
	if h := headerOf(line); h != nil {
		p.header, p.units = h, h.csv
		return
	}
	if p.header == nil {
		return // the program's own output
	}
	if p.units {
		p.units = false
		if !bytes.HasPrefix(line, []byte(`"`)) {
			for i, u := range strings.Split(string(line), ",") {
				if i < len(p.header.cols) {
					p.header.cols[i].unit = u
				}
			}
			return
		}
	}
	cells := p.header.cells(line)
	if cells == nil || !p.row(cells) {
		if p.header.csv && !p.Cut && (cells != nil || bytes.ContainsRune(line, '"')) { // others are the program's
			if p.bad++; p.bad == 1 {
				p.firstBad = p.Number
			}
		}
	}
}

// row counts a row; false if it is none.
func (p *printed) row(cells []string) bool {
	h := p.header
	name := cells[h.name]
	if i := strings.LastIndex(name, " ["); i > 0 && strings.HasSuffix(name, "]") {
		name = name[:i] // the correlation id that old versions put there
	}
	n := 1
	if i := h.col("Calls"); i >= 0 {
		calls, err := strconv.Atoi(cells[i])
		if err != nil || calls < 0 {
			return false
		}
		n = calls
	} else if i := h.col("Duration"); cells[i] != "" {
		if _, ok := quantity(cells[i], h.cols[i].unit); !ok {
			return false
		}
	}
	if name == "" {
		return false
	}
	p.rows++
	function := cupti.FunctionName(name)
	switch {
	case strings.HasPrefix(name, "[CUDA memcpy"):
		p.counts["copies"] += n
		if i := h.col("Size"); i >= 0 {
			size, _ := quantity(cells[i], h.cols[i].unit)
			p.bytes += int64(math.Round(min(size, 1<<50)))
		}
	case strings.HasPrefix(name, "[CUDA memset"):
		p.counts["sets"] += n
	case strings.HasPrefix(name, "["):
		p.counts["events of unified memory"] += n
	case function != "" && h.col("Device") < 0:
		p.counts["CUDA calls"] += n
		if strings.Contains(function, "Alloc") || strings.Contains(function, "Malloc") || strings.HasPrefix(function, "cudaFree") || strings.HasPrefix(function, "cuMemFree") {
			p.calls[function] += n
		}
	default:
		p.counts["kernels"] += n
	}
	return true
}

// quantity reads a number with its unit, which may stand behind it.
func quantity(cell, unit string) (float64, bool) {
	digits := strings.TrimRight(cell, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ/%")
	if digits != cell {
		unit = cell[len(digits):]
	}
	x, err := strconv.ParseFloat(digits, 64)
	if err != nil || x < 0 {
		return 0, false
	}
	switch unit { // sizes are binary
	case "KB":
		x *= 1 << 10
	case "MB":
		x *= 1 << 20
	case "GB":
		x *= 1 << 30
	}
	return x, true
}

func (p *printed) finish() *trace.Trace {
	t := &trace.Trace{Stacks: trace.NewStacks(), Settings: trace.Settings{MaxSplitSize: -1}}
	t.Source = trace.Source{Format: "nvprof (text)", Bytes: p.Offset, Clock: trace.ClockRecording, Lacks: append([]trace.Lack{
		{What: "allocations, frees and what is in use", Instead: howTo}}, lacks()...)}
	for _, what := range []string{"kernels", "copies", "sets", "events of unified memory", "CUDA calls"} {
		if n := p.counts[what]; n > 0 {
			t.Source.Counts = append(t.Source.Counts, trace.Count{What: what, N: n})
		}
	}
	t.Source.Counts = append(t.Source.Counts, countsOf(p.calls)...)
	message := "what nvprof prints has no allocations, whatever it was told to track"
	if p.bytes > 0 {
		message += fmt.Sprintf(" (copies moved %d bytes)", p.bytes)
	}
	t.Warnings = append(t.Warnings, trace.Warning{Code: "no-memory-events", Count: 1, First: -1, Message: message + ": " + howTo})
	if p.bad > 0 {
		t.Warnings = append(t.Warnings, trace.Warning{Code: "bad-line", Count: p.bad, First: -1,
			Message: fmt.Sprintf("lines are no rows of their table, the first is line %d", p.firstBad)})
	}
	return t
}
