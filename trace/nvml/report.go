package nvml

import (
	"bytes"
	"strings"

	"github.com/vramscope/vramscope/trace"
)

// The text of nvidia-smi -q: sections by their indentation, keys and values with a colon between. With -l the
// whole report comes again and again.

func isReport(line []byte) bool {
	return bytes.Contains(line, []byte("==NVSMI LOG=="))
}

// section is a line of the report that others are indented under.
type section struct {
	indent int
	name   string
}

// reportReader keeps where in a report it is.
type reportReader struct {
	*log
	at      trace.Time
	gpu     identity
	pending []value // of the device, until what it is called is known
	path    []section
	pid     int64
	process string
	mig     string
}

// value is a reading of the device that is being read.
type value struct {
	part
	v int64
}

func readReport(in *lines) (*log, error) {
	r := &reportReader{log: newLog("nvidia-smi -q")}
	r.clockIs = trace.ClockLocal
	for {
		line, ok := in.next()
		if !ok {
			break
		}
		r.line(line, in.ended)
	}
	if !in.ended && in.n > 0 {
		r.cut = true
	}
	r.flush()
	return r.log, nil
}

func (r *reportReader) line(line []byte, whole bool) {
	trimmed := strings.TrimSpace(string(line))
	if trimmed == "" {
		return
	}
	if isReport(line) {
		r.flush()
		r.path = nil
		return
	}
	indent := len(line) - len(bytes.TrimLeft(line, " \t"))
	for len(r.path) > 0 && r.path[len(r.path)-1].indent >= indent {
		r.path = r.path[:len(r.path)-1]
	}
	if indent == 0 && strings.HasPrefix(trimmed, "GPU ") {
		r.flush()
		r.gpu = identity{bus: []byte(strings.TrimPrefix(trimmed, "GPU "))}
		return
	}
	key, v, found := strings.Cut(trimmed, ":")
	key, v = strings.TrimSpace(key), strings.TrimSpace(v)
	if !found || v == "" {
		r.path = append(r.path, section{indent, key})
		r.enter(key)
		return
	}
	if whole {
		r.value(key, v, line)
	}
	if key == "GPU instance ID" || key == "Process ID" {
		return
	}
}

// enter begins a section.
func (r *reportReader) enter(name string) {
	if name == "MIG Device" {
		r.mig = ""
	}
}

// in says whether a section of this name is open.
func (r *reportReader) in(name string) bool {
	for _, s := range r.path {
		if s.name == name {
			return true
		}
	}
	return false
}

func (r *reportReader) value(key, v string, line []byte) {
	switch key {
	case "Timestamp":
		if t, ok := ctime(line); ok {
			r.at = r.clock.at(t)
		}
		return
	case "Driver Version":
		r.producer = "NVIDIA driver " + v
		return
	case "Product Name":
		r.gpu.name = []byte(v)
		return
	case "GPU UUID":
		r.gpu.uuid = []byte(v)
		return
	}
	if r.gpu.bus == nil {
		return
	}
	switch {
	case r.in("Shared FB Memory Usage") && key == "Used":
		r.reading(part{quantity: trace.InstanceUsed, name: "MIG " + r.mig}, v)
	case r.in("FB Memory Usage") && !r.in("MIG Device"):
		if q, ok := reportKeys[key]; ok {
			r.reading(part{quantity: q}, v)
		}
	case r.in("BAR1 Memory Usage") && key == "Used" && !r.in("MIG Device"):
		r.reading(part{quantity: trace.BAR1Used}, v)
	case r.in("Utilization") && (key == "Gpu" || key == "GPU") && len(r.path) == 1:
		if n, ok := percent([]byte(v)); ok {
			r.pending = append(r.pending, value{part{quantity: trace.Busy}, n})
		}
	case r.in("MIG Device"):
		switch key {
		case "GPU Instance ID":
			r.mig = v
		case "Compute Instance ID":
			r.mig += "/" + v
		}
	case key == "Process ID":
		r.pid, _ = digits([]byte(v))
		r.process = ""
	case key == "Name":
		r.process = baseName(v)
	case key == "Used GPU Memory" && r.pid != 0:
		r.reading(part{trace.ProcessUsed, r.pid, r.process}, v)
	}
}

var reportKeys = map[string]trace.Quantity{
	"Total": trace.DeviceTotal, "Reserved": trace.DriverReserved, "Used": trace.DeviceUsed, "Free": trace.DeviceFree,
}

func (r *reportReader) reading(p part, v string) {
	if isMissing([]byte(v)) {
		r.missing++
		return
	}
	n, ok := memory([]byte(v), "MiB")
	if !ok {
		r.bad++
		return
	}
	r.pending = append(r.pending, value{p, n})
}

// flush takes over what was read of a device.
func (r *reportReader) flush() {
	if r.gpu.bus != nil && len(r.pending) > 0 {
		r.rows++
		if d := r.device(r.gpu); d != nil {
			for _, v := range r.pending {
				r.sample(d, v.part, r.at, v.v)
			}
		}
	}
	r.gpu, r.pending, r.pid, r.process, r.mig = identity{}, nil, 0, "", ""
}
