package nvml

import (
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/vramscope/vramscope/trace"
)

// The CSV of nvitop's collector: a row for each interval, columns named by a path,
//
//	<tag>/cuda:0 (gpu:3)/memory_used (MiB)/max
//
// The name has both the number that the program saw and that of the device. Of the statistics of an interval,
// the largest is read where it is there, since peaks are what matters here.

var nvitopKey = regexp.MustCompile(`(?:cuda:\d+ \(gpu:(\d+)(?::\d+)?\)|gpu:(\d+)|cuda:(\d+))/(memory_used|memory_free|memory_total|gpu_memory|gpu_utilization) \((MiB|%)\)/(max|last|mean)$`)

var nvitopQuantities = map[string]trace.Quantity{
	"memory_used": trace.DeviceUsed, "memory_free": trace.DeviceFree, "memory_total": trace.DeviceTotal, "gpu_utilization": trace.Busy,
	"gpu_memory": trace.ProcessUsed,
}

// nvitopPID finds the process in a column's name.
var nvitopPID = regexp.MustCompile(`pid:(\d+)`)

// isNVITop reports whether a line is the header of such a CSV.
func isNVITop(line []byte) bool {
	return bytes.Contains(line, []byte("/memory_used (MiB)/")) && bytes.Contains(line, []byte(","))
}

// nvitopColumn is a column that is read.
type nvitopColumn struct {
	at   int
	gpu  string
	stat string
	part
}

func readNVITop(in *lines) (*log, error) {
	l := newLog("nvitop CSV")
	r := csv.NewReader(in.text())
	r.FieldsPerRecord = -1
	r.LazyQuotes = true
	r.ReuseRecord = true
	var columns []nvitopColumn
	clock, width := -1, 0
	for {
		row, err := r.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			var syntax *csv.ParseError
			if errors.As(err, &syntax) {
				l.badRow(syntax.Line)
				continue
			}
			in.err = err
			break
		}
		line, _ := r.FieldPos(0)
		in.n = line
		if isNVITop([]byte(strings.Join(row, ","))) {
			columns, clock, width = nvitopHeader(row)
			continue
		}
		if columns == nil {
			continue
		}
		if len(row) != width {
			l.badRow(line)
			continue
		}
		l.nvitopRow(row, columns, clock, line)
	}
	if clock < 0 {
		l.clockIs = trace.ClockNone
	}
	return l, nil
}

// nvitopHeader finds the columns to read: of each quantity one statistic.
func nvitopHeader(row []string) (columns []nvitopColumn, clock, width int) {
	clock = -1
	best := map[string]int{}
	rank := map[string]int{"mean": 0, "last": 1, "max": 2}
	for i, name := range row {
		if strings.HasSuffix(name, "/timestamp") || name == "timestamp" {
			clock = i
		}
		m := nvitopKey.FindStringSubmatch(name)
		if m == nil {
			continue
		}
		c := nvitopColumn{at: i, gpu: m[1] + m[2] + m[3], stat: m[6], part: part{quantity: nvitopQuantities[m[4]]}}
		if c.quantity == trace.ProcessUsed {
			if p := nvitopPID.FindStringSubmatch(name); p != nil {
				c.pid, _ = strconv.ParseInt(p[1], 10, 62)
			} else {
				c.name = "this process"
			}
		}
		key := strings.TrimSuffix(name, m[6])
		if at, ok := best[key]; ok {
			if rank[c.stat] > rank[columns[at].stat] {
				columns[at] = c
			}
			continue
		}
		best[key] = len(columns)
		columns = append(columns, c)
	}
	return columns, clock, len(row)
}

func (l *log) nvitopRow(row []string, columns []nvitopColumn, clock, line int) {
	t := trace.Time(l.rows) * second
	if clock >= 0 {
		x, err := strconv.ParseFloat(row[clock], 64)
		if err != nil || x < 0 || x >= 1<<33 {
			l.badRow(line)
			return
		}
		t = trace.Time(x*1000) * 1_000_000
	}
	l.rows++
	for _, c := range columns {
		cell := strings.TrimSpace(row[c.at])
		if cell == "" || strings.EqualFold(cell, "nan") || cell == "N/A" {
			l.missing++
			continue
		}
		x, err := strconv.ParseFloat(cell, 64)
		scale := float64(mib)
		if c.quantity == trace.Busy {
			scale = 1
		}
		n, fits := scaled(x, scale)
		if err != nil || !fits {
			l.badRow(line)
			continue
		}
		d := l.device(identity{index: []byte(c.gpu)})
		if d == nil {
			continue
		}
		l.sample(d, c.part, t, n)
	}
}
