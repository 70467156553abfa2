// Package summary finds, in any log, the tables that PyTorch prints of its counters: torch.cuda.memory_summary(), and
// the profiler's table of operators with a column of memory. Both are sums; neither has a time or a single block.
package summary

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/vramscope/vramscope/trace"
)

// Scanner looks for tables in the lines of a log.
type Scanner struct {
	devices map[int]*trace.Device
	order   []int
	now     *trace.Device // whose summary is being read
	rows    int           // of it
	tables  int
	ooms    int64
	retries int64

	profile profile
}

const maxDevices = 1024

// NewScanner is a scanner at the beginning of a log.
func NewScanner() *Scanner { return &Scanner{devices: map[int]*trace.Device{}} }

// Line looks at a line, and says whether it belongs to a table.
func (s *Scanner) Line(line []byte) bool {
	return s.summaryLine(line) || s.profile.line(line)
}

const title = "memory summary, device ID "

// summaryLine reads a line of memory_summary. Sizes are cut to whole units, so the true ones may be up to one
// unit larger.
func (s *Scanner) summaryLine(line []byte) bool {
	i := bytes.IndexByte(line, '|')
	if i < 0 {
		return false
	}
	if j := bytes.Index(line, []byte(title)); j >= 0 {
		index, err := strconv.Atoi(string(bytes.TrimRight(line[j+len(title):], " |\t\r\n")))
		if err != nil || index < 0 || index > 1<<20 {
			return false
		}
		s.begin(index)
		return true
	}
	if s.now == nil {
		return false
	}
	if s.rows++; s.rows > 80 {
		s.now = nil
		return false
	}
	cells := bytes.Split(bytes.Trim(line[i:], "| \t\r\n"), []byte("|"))
	name := string(bytes.TrimSpace(cells[0]))
	switch {
	case strings.HasPrefix(name, "CUDA OOMs:"):
		s.ooms += numberIn(name)
		if len(cells) > 1 {
			s.retries += numberIn(string(cells[1]))
		}
		return true
	case len(cells) < 3:
		return true
	}
	q, ok := rows[name]
	if !ok {
		return true
	}
	now, a := size(string(cells[1]))
	peak, b := size(string(cells[2]))
	if a && b && now >= 0 && peak >= 0 {
		s.add(q, now, peak)
	}
	return true
}

// rows are the rows of memory_summary that are read.
var rows = map[string]trace.Quantity{
	"Allocated memory": trace.Allocated, "Requested memory": trace.Requested, "GPU reserved memory": trace.AllocatorReserved,
	"Non-releasable memory": trace.Stranded,
}

func (s *Scanner) begin(index int) {
	d := s.devices[index]
	if d == nil {
		if len(s.devices) >= maxDevices {
			s.now = nil
			return
		}
		d = &trace.Device{Content: trace.Samples, Index: index, Pools: []trace.Pool{{}}}
		s.devices[index] = d
		s.order = append(s.order, index)
	}
	s.now, s.rows = d, 0
	s.tables++
}

// add adds what a table says: the most there ever was, if that is news, and what there is now.
func (s *Scanner) add(q trace.Quantity, now, peak int64) {
	series := trace.FindSeries(s.now.Series, q)
	if series == nil {
		s.now.Series = append(s.now.Series, trace.Series{Quantity: q})
		series = &s.now.Series[len(s.now.Series)-1]
	}
	if t := trace.Time(series.Samples); series.Samples == 0 || peak > series.Max {
		series.Add(t, peak)
	}
	series.Add(trace.Time(series.Samples), now)
}

// Found says whether there was any table.
func (s *Scanner) Found() bool { return s.tables > 0 && s.anySeries() || len(s.profile.operators) > 0 }

func (s *Scanner) anySeries() bool {
	for _, d := range s.devices {
		if len(d.Series) > 0 {
			return true
		}
	}
	return false
}

const snapshotHow = "a memory snapshot: torch.cuda.memory._record_memory_history(max_entries=1000000) before the run and " +
	"torch.cuda.memory._dump_snapshot('run.pickle') after it"

// Trace makes the trace of what was found.
func (s *Scanner) Trace() *trace.Trace {
	t := &trace.Trace{Stacks: trace.NewStacks()}
	t.Settings.MaxSplitSize = -1
	t.Source = trace.Source{Clock: trace.ClockNone, Producer: "torch"}
	if s.anySeries() {
		t.Source.Format = "PyTorch memory_summary"
		t.Source.Counts = []trace.Count{{What: "tables", N: s.tables}, {What: "out-of-memory errors", N: int(min(s.ooms, math.MaxInt32))},
			{What: "cudaMalloc retries", N: int(min(s.retries, math.MaxInt32))}}
		t.Source.Lacks = []trace.Lack{{What: "single blocks, times, and sizes more exact than whole units (they are cut, not rounded)", Instead: snapshotHow}}
		slices.Sort(s.order)
		for _, i := range s.order {
			t.Devices = append(t.Devices, *s.devices[i])
		}
		return t
	}
	t.Source.Format = "torch.profiler table"
	t.Source.Counts = []trace.Count{{What: "operators", N: len(s.profile.operators)}}
	t.Source.Lacks = []trace.Lack{
		{What: "when memory was held, and which device it is: it has sums over all calls of an operator", Instead: snapshotHow},
		{What: "what was in use at once", Instead: "the trace of the same profile: prof.export_chrome_trace('trace.json')"},
	}
	t.Devices = []trace.Device{{Content: trace.Samples, Pools: []trace.Pool{{}}, Series: s.profile.operators}}
	return t
}

// numberIn is the first number in a text.
func numberIn(text string) int64 {
	i := strings.IndexFunc(text, func(r rune) bool { return r >= '0' && r <= '9' })
	if i < 0 {
		return 0
	}
	j := i
	for j < len(text) && text[j] >= '0' && text[j] <= '9' {
		j++
	}
	n, err := strconv.ParseInt(text[i:j], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// size reads "66560 KiB", "-3.19 GB" or "0 b". All units are binary, whatever they are called.
func size(text string) (int64, bool) {
	number, unit, _ := strings.Cut(strings.TrimSpace(text), " ")
	x, err := strconv.ParseFloat(number, 64)
	if err != nil || math.IsNaN(x) || math.Abs(x) > 1<<40 {
		return 0, false
	}
	shift, ok := map[string]uint{"b": 0, "kib": 10, "kb": 10, "mib": 20, "mb": 20, "gib": 30, "gb": 30, "tib": 40, "tb": 40}[strings.ToLower(strings.TrimSpace(unit))]
	if x *= float64(int64(1) << shift); !ok || math.Abs(x) > 1<<60 {
		return 0, false
	}
	return int64(math.Round(x)), true
}
