package nvml

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/vramscope/vramscope/trace"
)

const (
	mib = 1 << 20

	maxDevices   = 1024
	maxParts     = 2000 // series of processes and instances
	maxPartPoint = 1024 // points of such a series
)

// log gathers what a monitor wrote.
type log struct {
	format   string
	producer string
	clockIs  trace.Clock
	clock    clock
	devices  []*device
	byKey    map[string]*device
	key      []byte // of the last lookup
	parts    int

	rows     int // that had something to read
	bad      int // that made no sense
	firstBad int // line of the first of them
	missing  int // values that the monitor did not have
	more     int // rows of devices or processes beyond those that are kept
	cut      bool
	memory   bool // there was memory in it
	perApp   bool // there was memory of processes in it
	notes    []trace.Warning
	lacks    []trace.Lack
}

// device gathers a device's series.
type device struct {
	index  int
	name   string
	uuid   string
	total  int64
	series []trace.Series
	byPart map[part]int
}

// part names a series of a device.
type part struct {
	quantity trace.Quantity
	pid      int64
	name     string
}

func newLog(format string) *log {
	return &log{format: format, byKey: map[string]*device{}}
}

// identity is what a record says about which device it is of. The most telling one counts.
type identity struct {
	uuid, bus, index, name []byte
	position               int // number of the row among those of one moment, if there is nothing else
}

// device finds or makes the device of an identity; nil if there are too many.
func (l *log) device(id identity) *device {
	key := l.key[:0]
	switch {
	case len(id.uuid) > 0:
		key = append(append(key, 'u'), id.uuid...)
	case len(id.bus) > 0:
		key = append(append(key, 'b'), bytes.ToLower(id.bus)...)
	case len(id.index) > 0:
		key = append(append(key, 'i'), id.index...)
	case len(id.name) > 0:
		key = append(append(key, 'n'), id.name...)
	default:
		key = strconv.AppendInt(append(key, '#'), int64(id.position), 10)
	}
	l.key = key
	d := l.byKey[string(key)]
	if d == nil {
		if len(l.devices) >= maxDevices {
			l.more++
			return nil
		}
		d = &device{index: -1, byPart: map[part]int{}}
		if n, ok := digits(id.index); ok && n < math.MaxInt32 {
			d.index = int(n)
		}
		l.devices = append(l.devices, d)
		l.byKey[string(key)] = d
	}
	if d.name == "" {
		d.name = string(id.name)
	}
	if d.uuid == "" {
		d.uuid = string(id.uuid)
	}
	return d
}

// sample adds a value to a series of a device.
func (l *log) sample(d *device, p part, t trace.Time, v int64) {
	i, ok := d.byPart[p]
	if !ok {
		s := trace.Series{Quantity: p.quantity, PID: p.pid, Name: p.name}
		if p.pid != 0 || p.name != "" {
			if l.parts >= maxParts {
				l.more++
				return
			}
			l.parts++
			s.Limit(maxPartPoint)
		}
		i = len(d.series)
		d.byPart[p] = i
		d.series = append(d.series, s)
	}
	d.series[i].Add(t, v)
	if p.quantity.Unit() == "bytes" {
		l.memory = true
	}
	if p.quantity == trace.ProcessUsed {
		l.perApp = true
	}
	if p.quantity == trace.DeviceTotal {
		d.total = max(d.total, v)
	}
}

// process adds what a process had. Names are paths of somebody's files, of which only the last part is kept.
func (l *log) process(d *device, pid int64, name string, t trace.Time, v int64) {
	l.sample(d, part{trace.ProcessUsed, pid, baseName(name)}, t, v)
}

// baseName is the last part of a program's path, without arguments.
func baseName(path string) string {
	path = strings.TrimSpace(path)
	if strings.Contains(path, "/") { // not of Windows, where blanks in paths are common
		path, _, _ = strings.Cut(path, " ")
	}
	if i := strings.LastIndexAny(path, `/\`); i >= 0 {
		path = path[i+1:]
	}
	if len(path) > 64 {
		path = path[:64]
	}
	return strings.ToValidUTF8(path, "")
}

// badRow counts a row that makes no sense.
func (l *log) badRow(line int) {
	if l.bad == 0 {
		l.firstBad = line
	}
	l.bad++
}

func (l *log) note(code string, count int, format string, args ...any) {
	if count > 0 {
		l.notes = append(l.notes, trace.Warning{Code: code, Message: fmt.Sprintf(format, args...), Count: count, First: -1})
	}
}

// trace makes the trace.
func (l *log) trace() *trace.Trace {
	t := &trace.Trace{Stacks: trace.NewStacks()}
	t.Settings.MaxSplitSize = -1
	used := map[int]bool{}
	for _, d := range l.devices {
		used[d.index] = true
	}
	next := 0
	for _, d := range l.devices {
		for d.index < 0 && used[next] {
			next++
		}
		if d.index < 0 {
			d.index = next
			next++
		}
	}
	slices.SortStableFunc(l.devices, func(a, b *device) int { return cmp.Compare(a.index, b.index) })
	back := 0
	for _, d := range l.devices {
		for i := range d.series {
			back += d.series[i].Backwards
		}
		t.Devices = append(t.Devices, trace.Device{Content: trace.Samples, Index: d.index, Name: d.name, UUID: d.uuid, Capacity: d.total,
			Pools: []trace.Pool{{}}, Series: d.series})
	}
	l.note("bad-row", l.bad, "rows make no sense and were left out, the first in line %d", l.firstBad)
	l.note("more-parts", l.more, "samples are of more devices or processes than are kept")
	l.note("clock-set-back", l.clock.back, "the clock was set back by an hour: times go on from there")
	l.note("time-runs-back", back, "times run back between samples, which then have that of the one in front")
	t.Warnings = l.notes
	t.Source = trace.Source{Format: l.format, Producer: l.producer, Clock: l.clockIs, Cut: l.cut,
		Counts: []trace.Count{{What: "rows", N: l.rows}, {What: "values that were not available", N: l.missing}}, Lacks: l.lacks}
	t.Source.Lacks = append(t.Source.Lacks, trace.Lack{
		What: "what inside a program held the memory, and what its allocator made of it",
		Instead: "a memory snapshot: torch.cuda.memory._record_memory_history(max_entries=1000000) before the run and " +
			"torch.cuda.memory._dump_snapshot('run.pickle') after it",
	})
	if !l.perApp {
		t.Source.Lacks = append(t.Source.Lacks, trace.Lack{What: "the memory of single processes",
			Instead: "nvidia-smi --query-compute-apps=timestamp,gpu_uuid,pid,process_name,used_gpu_memory --format=csv -l 1 > apps.csv"})
	}
	if l.clockIs == trace.ClockNone || l.clockIs == trace.ClockRecording {
		t.Source.Lacks = append(t.Source.Lacks, trace.Lack{What: "when it was",
			Instead: "nvidia-smi --query-gpu=timestamp,index,uuid,memory.used,memory.free,memory.total --format=csv -lms 500 > smi.csv"})
	}
	return t
}

// isMissing says whether a cell stands for a value that the driver does not have.
func isMissing(cell []byte) bool {
	return len(cell) == 0 || cell[0] == '[' || string(cell) == "-" || bytes.EqualFold(cell, []byte("N/A")) ||
		bytes.HasPrefix(cell, []byte("Not ")) || bytes.HasPrefix(cell, []byte("Unknown")) || bytes.HasPrefix(cell, []byte("Requested "))
}

// number splits "4526 MiB" into its number and its unit.
func number(cell []byte) (x float64, unit string, ok bool) {
	i := 0
	for i < len(cell) && isDigit(cell[i]) {
		i++
	}
	if n, whole := digits(cell[:i]); whole && (i == len(cell) || cell[i] != '.') && n < 1<<53 {
		return float64(n), unitOf(cell[i:]), true
	}
	i = 0
	for i < len(cell) && (isDigit(cell[i]) || cell[i] == '.' || cell[i] == '-' && i == 0) {
		i++
	}
	if i == 0 || i > 24 {
		return 0, "", false
	}
	x, err := strconv.ParseFloat(string(cell[:i]), 64)
	if err != nil || math.IsNaN(x) {
		return 0, "", false
	}
	return x, unitOf(cell[i:]), true
}

// unitOf is what stands behind a number. The usual ones are not copied.
func unitOf(rest []byte) string {
	switch rest = bytes.TrimSpace(rest); string(rest) {
	case "":
		return ""
	case "MiB":
		return "MiB"
	case "%":
		return "%"
	}
	return string(rest)
}

// memory reads a cell of memory in bytes; without a unit of its own it has the given one.
func memory(cell []byte, unit string) (int64, bool) {
	x, own, ok := number(cell)
	if !ok || x < 0 {
		return 0, false
	}
	if own != "" {
		unit = own
	}
	scale, ok := unitScale(unit)
	if !ok {
		return 0, false
	}
	return scaled(x, scale)
}

// scaled is a number of units as a whole number, if there can be so many.
func scaled(x, scale float64) (int64, bool) {
	if !(x >= 0) || x*scale > 1<<60 {
		return 0, false
	}
	return int64(math.Round(x * scale)), true
}

// unitScale is how many bytes a unit has. What these programs call MB is 2^20 bytes as well.
func unitScale(unit string) (float64, bool) {
	switch strings.ToLower(unit) {
	case "b", "bytes":
		return 1, true
	case "kib", "kb", "k":
		return 1 << 10, true
	case "mib", "mb", "m", "":
		return mib, true
	case "gib", "gb", "g":
		return 1 << 30, true
	}
	return 0, false
}

// percent reads "35 %".
func percent(cell []byte) (int64, bool) {
	x, unit, ok := number(cell)
	if !ok || unit != "" && unit != "%" || x < 0 || x > 1e6 {
		return 0, false
	}
	return int64(math.Round(x)), true
}
