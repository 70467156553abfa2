package nvml

import (
	"bytes"
	"strings"

	"github.com/vramscope/vramscope/trace"
)

// nvidia-smi dmon and pmon, and dcgmi dmon: columns in blanks, under headers that are repeated now and then. Columns
// are known by their names; which there are and in what order is what was asked for.

// dmonColumns are the names of a header.
type dmonColumns map[string]int

// isDmonHeader reports whether a line is the first of the two header lines of dmon or pmon.
func isDmonHeader(line []byte) bool {
	_, names := dmonHeader(line)
	return names != nil
}

// dmonHeader reads a header line: in front of the names may stand Date and Time.
func dmonHeader(line []byte) (c dmonColumns, names []string) {
	trimmed := bytes.TrimSpace(line)
	if !bytes.HasPrefix(trimmed, []byte("#")) {
		return nil, nil
	}
	names = strings.Fields(strings.ToLower(string(trimmed[1:])))
	c = dmonColumns{}
	for i, n := range names {
		if _, ok := c[n]; !ok {
			c[n] = i
		}
	}
	gpu, ok := c["gpu"]
	if !ok || gpu > 2 || len(names) < gpu+2 {
		return nil, nil
	}
	for i := range gpu {
		if names[i] != "date" && names[i] != "time" {
			return nil, nil
		}
	}
	return c, names
}

// dmon is a log that is being read.
type dmon struct {
	*log
	columns dmonColumns
	width   int
	tick    tick
}

// tick counts readings where they have no times: a device that comes again begins another one.
type tick struct {
	n    int64
	seen map[string]bool
}

func (t *tick) of(device string) trace.Time {
	if t.seen == nil || t.seen[device] {
		if t.seen != nil {
			t.n++
		}
		t.seen = map[string]bool{}
	}
	t.seen[device] = true
	return trace.Time(t.n) * second
}

func readDmon(in *lines) (*log, error) {
	d := &dmon{log: newLog("nvidia-smi dmon")}
	for {
		line, ok := in.next()
		if !ok {
			break
		}
		if c, names := dmonHeader(line); names != nil {
			d.header(c, names)
			continue
		}
		trimmed := bytes.TrimSpace(line)
		if len(trimmed) == 0 || trimmed[0] == '#' || d.columns == nil {
			continue
		}
		cells := bytes.Fields(trimmed)
		if _, process := d.columns["command"]; !in.ended && (process || len(cells) <= d.width) {
			d.cut = true // the last cell may be half of one
			break
		}
		if !d.row(cells) {
			d.badRow(in.n)
		}
	}
	if d.columns == nil {
		return d.log, nil
	}
	_, process := d.columns["command"]
	if _, ok := d.columns["fb"]; !ok {
		how := "nvidia-smi dmon -s mu -o DT > dmon.txt"
		if process {
			how = "nvidia-smi pmon -s um -o DT > pmon.txt"
		}
		d.lacks = append(d.lacks, trace.Lack{What: "any memory: its columns were not asked for (mem is the use of the memory's bandwidth)", Instead: how})
		d.note("no-memory-column", 1, "there is no column fb: memory was not asked for with -s m")
	}
	if d.clockIs == trace.ClockRecording {
		d.note("no-times", 1, "rows have no times: readings are taken to be a second apart, as is the default")
	}
	return d.log, nil
}

func (d *dmon) header(c dmonColumns, names []string) {
	d.columns, d.width = c, len(names)
	if _, ok := c["command"]; ok {
		d.format = "nvidia-smi pmon"
	}
	_, hasDate := c["date"]
	_, hasTime := c["time"]
	switch {
	case hasDate && hasTime:
		d.clockIs = trace.ClockLocal
	case hasTime:
		d.clockIs, d.clock.days = trace.ClockDay, true
	default:
		d.clockIs = trace.ClockRecording
	}
}

// row reads a row and says whether it makes sense.
func (d *dmon) row(cells [][]byte) bool {
	command, process := d.columns["command"]
	if len(cells) < d.width && !(process && len(cells) >= command) || len(cells) > d.width && !process {
		return false
	}
	gpu := cells[d.columns["gpu"]]
	if _, ok := digits(gpu); !ok {
		return false
	}
	t, ok := d.time(cells, string(gpu), process)
	if !ok {
		return false
	}
	d.rows++
	dev := d.device(identity{index: gpu})
	if dev == nil {
		return true
	}
	fb, hasMemory := d.columns["fb"]
	if !process {
		for _, c := range [...]struct {
			name     string
			quantity trace.Quantity
		}{{"fb", trace.DeviceUsed}, {"bar1", trace.BAR1Used}, {"sm", trace.Busy}} {
			i, ok := d.columns[c.name]
			if !ok || c.name == "sm" && !hasMemory {
				continue
			}
			n, ok := digits(cells[i])
			switch {
			case !ok && isMissing(cells[i]):
				d.missing++
			case !ok || n > 1<<30:
				return false
			case c.quantity == trace.Busy:
				d.sample(dev, part{quantity: c.quantity}, t, n)
			default:
				d.sample(dev, part{quantity: c.quantity}, t, n*mib)
			}
		}
		return true
	}
	pid, ok := digits(cells[d.columns["pid"]])
	if !ok || !hasMemory {
		return ok || isMissing(cells[d.columns["pid"]]) // an idle device
	}
	n, ok := digits(cells[fb])
	if !ok {
		d.missing++
		return isMissing(cells[fb])
	}
	if n > 1<<30 {
		return false
	}
	name := ""
	if command < len(cells) {
		name = string(bytes.Join(cells[command:], []byte(" ")))
	}
	d.process(dev, pid, name, t, n*mib)
	return true
}

// time is that of a row.
func (d *dmon) time(cells [][]byte, gpu string, process bool) (t trace.Time, ok bool) {
	if d.clockIs == trace.ClockRecording {
		if process {
			gpu += " " + string(cells[d.columns["pid"]])
		}
		return d.tick.of(gpu), true
	}
	t, ok = timeOfDay(cells[d.columns["time"]])
	if !ok {
		return 0, false
	}
	if i, dated := d.columns["date"]; dated {
		day, ok := compactDate(cells[i])
		if !ok {
			return 0, false
		}
		t += day
	}
	return d.clock.at(t), true
}

// isDCGMHeader reports whether a line is the header of dcgmi dmon.
func isDCGMHeader(line []byte) bool {
	return bytes.HasPrefix(bytes.TrimSpace(line), []byte("#Entity"))
}

// dcgmFields are what dcgmi calls fields of memory in its headers, in MiB.
var dcgmFields = map[string]trace.Quantity{
	"fbttl": trace.DeviceTotal, "fbfre": trace.DeviceFree, "fbusd": trace.DeviceUsed, "fbrsv": trace.DriverReserved, "gputl": trace.Busy,
}

func readDCGM(in *lines) (*log, error) {
	l := newLog("dcgmi dmon")
	l.clockIs = trace.ClockRecording
	var names []string
	var ticks tick
	for {
		line, ok := in.next()
		if !ok {
			break
		}
		trimmed := bytes.TrimSpace(line)
		if isDCGMHeader(trimmed) {
			names = strings.Fields(strings.ToLower(string(trimmed)))[1:]
			continue
		}
		cells := bytes.Fields(trimmed)
		// "GPU 0", "GPU-I 1", "GPU-CI 2"; other lines are units and messages.
		if len(cells) < 2 || !bytes.HasPrefix(cells[0], []byte("GPU")) || names == nil {
			continue
		}
		kind, id := string(cells[0]), cells[1]
		values := cells[2:]
		if !in.ended && len(values) <= len(names) {
			l.cut = true
			break
		}
		if _, ok := digits(id); !ok || len(values) != len(names) {
			l.badRow(in.n)
			continue
		}
		l.rows++
		t := ticks.of(kind + string(id))
		whole := kind == "GPU"
		of := id
		if !whole {
			of = []byte("0") // instances are numbered apart from devices
		}
		dev := l.device(identity{index: of})
		if dev == nil {
			continue
		}
		for i, name := range names {
			q, ok := dcgmFields[name]
			if !ok {
				continue
			}
			x, _, ok := number(values[i])
			if isMissing(values[i]) || ok && !validValue(x) {
				l.missing++
				continue
			}
			scale := float64(mib)
			if q == trace.Busy {
				scale = 1
			}
			n, fits := scaled(x, scale)
			switch {
			case !ok || !fits:
				l.badRow(in.n)
			case whole:
				l.sample(dev, part{quantity: q}, t, n)
			case q == trace.DeviceUsed:
				l.sample(dev, part{quantity: trace.InstanceUsed, name: kind + " " + string(id)}, t, n)
			}
		}
	}
	if l.rows > 0 {
		l.note("no-times", 1, "rows have no times: readings are taken to be a second apart, as is the default")
	}
	if l.rows > 0 && !l.memory {
		l.lacks = append(l.lacks, trace.Lack{What: "any memory: its fields were not asked for", Instead: "dcgmi dmon -e 250,251,252,253 -d 1000 > dcgm.txt"})
	}
	return l, nil
}
