package record

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"time"
)

// header names the columns as nvidia-smi's queries do. Sizes are in bytes, which its own are not.
const header = "timestamp, index, uuid, gpu_name, driver_version, memory.total [B], memory.used [B], memory.free [B], utilization.gpu [%], pid, process_name, used_gpu_memory [B]\n"

// flushEvery is how much of the log a crash of this program can cost.
const flushEvery = time.Second

// journal writes the log. Each moment has at least a row for each device, and one for each process on it; the row of a
// device without processes has pid 0.
type journal struct {
	w       *bufio.Writer
	meter   *Meter
	flushed time.Time
	summary Summary
	err     error // of writing
}

func newJournal(w io.Writer, m *Meter) *journal {
	j := &journal{w: bufio.NewWriterSize(w, 64<<10), meter: m, flushed: time.Now()}
	for range m.Devices {
		j.summary.Peak = append(j.summary.Peak, -1)
	}
	_, j.err = j.w.WriteString(header)
	return j
}

// sample reads all devices once.
func (j *journal) sample() {
	for i, d := range j.meter.Devices {
		r, err := j.meter.Read(i)
		now := time.Now()
		if err != nil {
			j.summary.Failed++
			if j.summary.Error == nil {
				j.summary.Error = fmt.Errorf("device %d: %w", d.Index, err)
			}
			continue
		}
		j.summary.Peak[i] = max(j.summary.Peak[i], r.Used)
		if len(r.Processes) == 0 {
			r.Processes = []Process{{}}
		}
		for _, p := range r.Processes {
			j.row(now, &d, &r, &p)
		}
	}
	j.summary.Samples++
	if time.Since(j.flushed) >= flushEvery {
		j.flush()
	}
}

func (j *journal) row(now time.Time, d *Device, r *Reading, p *Process) {
	if j.err != nil {
		return
	}
	_, j.err = fmt.Fprintf(j.w, "%s, %d, %s, %s, %s, %s, %s, %s, %s, %d, %s, %s\n", now.UTC().Format("2006/01/02 15:04:05.000000"),
		d.Index, cell(d.UUID), cell(d.Name), cell(j.meter.Driver), figure(r.Total, " B"), figure(r.Used, " B"), figure(r.Free, " B"),
		figure(int64(r.Busy), " %"), p.PID, cell(p.Name), figure(p.Used, " B"))
}

func (j *journal) flush() {
	if j.err == nil {
		j.err = j.w.Flush()
	}
	j.flushed = time.Now()
}

// figure is a number with its unit, or what nvidia-smi writes where there is none.
func figure(n int64, unit string) string {
	if n < 0 {
		return "[N/A]"
	}
	return fmt.Sprintf("%d%s", n, unit)
}

// cell keeps a text from ending its cell. An empty one is a dash.
func cell(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r == ',':
			return ';'
		case r < ' ':
			return ' '
		}
		return r
	}, strings.TrimSpace(s))
	if s == "" {
		return "-"
	}
	return s
}
