package nvml

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/vramscope/vramscope/trace"
)

// What exporters for Prometheus serve: dcgm-exporter, nvidia_gpu_exporter and nvitop-exporter. A log of scrapes has one
// exposition after the other; each begins where a metric is described again.

// metric is what a metric of an exporter measures.
type metric struct {
	quantity trace.Quantity
	scale    float64 // bytes to a unit
}

// metrics by their names.
var metrics = map[string]metric{
	"DCGM_FI_DEV_FB_USED": {trace.DeviceUsed, mib}, "DCGM_FI_DEV_FB_FREE": {trace.DeviceFree, mib},
	"DCGM_FI_DEV_FB_TOTAL": {trace.DeviceTotal, mib}, "DCGM_FI_DEV_FB_RESERVED": {trace.DriverReserved, mib},
	"DCGM_FI_DEV_GPU_UTIL": {trace.Busy, 1}, "DCGM_FI_DEV_BAR1_USED": {trace.BAR1Used, mib},
	"nvidia_smi_memory_used_bytes": {trace.DeviceUsed, 1}, "nvidia_smi_memory_free_bytes": {trace.DeviceFree, 1},
	"nvidia_smi_memory_total_bytes": {trace.DeviceTotal, 1}, "nvidia_smi_memory_reserved_bytes": {trace.DriverReserved, 1},
	"nvidia_smi_utilization_gpu_ratio": {trace.Busy, 100},
	"gpu_memory_used":                  {trace.DeviceUsed, mib}, "gpu_memory_free": {trace.DeviceFree, mib}, "gpu_memory_total": {trace.DeviceTotal, mib},
	"process_gpu_memory": {trace.ProcessUsed, mib},
}

// prefixes are those of all metrics of these exporters.
var prefixes = [...]string{"DCGM_FI_", "nvidia_smi_", "gpu_memory_"}

// isPrometheus reports whether a line is of an exposition of one of these exporters.
func isPrometheus(line []byte) bool {
	t := bytes.TrimSpace(line)
	for _, comment := range []string{"# HELP ", "# TYPE "} {
		if rest, ok := bytes.CutPrefix(t, []byte(comment)); ok {
			t = rest
			for _, p := range prefixes {
				if bytes.HasPrefix(t, []byte(p)) {
					return true
				}
			}
			return false
		}
	}
	for _, p := range prefixes {
		if i := bytes.IndexAny(t, "{ "); bytes.HasPrefix(t, []byte(p)) && i > 0 && t[i] == '{' {
			return true
		}
	}
	return false
}

func readPrometheus(in *lines) (*log, error) {
	l := newLog("Prometheus metrics")
	l.clockIs = trace.ClockNone
	described := map[string]bool{} // in this scrape
	seen := map[string]bool{}      // series in this scrape, for logs without descriptions
	scrape, stamped := 0, false
	again := func() {
		scrape++
		clear(described)
		clear(seen)
	}
	for {
		line, ok := in.next()
		if !ok {
			break
		}
		t := strings.TrimSpace(string(line))
		if rest, ok := strings.CutPrefix(t, "# HELP "); ok {
			name, _, _ := strings.Cut(rest, " ")
			if described[name] {
				again()
			}
			described[name] = true
			continue
		}
		if t == "" || t[0] == '#' {
			continue
		}
		name, labels, v, at, ok := parseMetric(t)
		m, known := metrics[name]
		if !known {
			continue
		}
		if !in.ended {
			l.cut = true
			break
		}
		if !ok {
			l.badRow(in.n)
			continue
		}
		key := t[:strings.LastIndexByte(t, '}')+1]
		if seen[key] && len(described) == 0 {
			again()
		}
		if len(seen) < 1<<16 {
			seen[key] = true
		}
		l.rows++
		when := trace.Time(scrape) * second
		if at != 0 {
			when, stamped = at, true
		}
		n, fits := scaled(v, m.scale)
		if !fits || m.scale == mib && !validValue(v) {
			l.missing++
			continue
		}
		l.metric(m, labels, when, n)
	}
	if stamped {
		l.clockIs = trace.ClockEpoch
	} else {
		l.note("no-times", min(1, l.rows), "expositions have no times: only their order is known")
	}
	return l, nil
}

// blank is where the numbers begin that stand for no value in DCGM, as floats: not found, not supported, not permitted.
// As integers they begin at 0x7ffffffffffffff0.
const blank = 140737488355328

func validValue(v float64) bool { return v >= 0 && v < blank }

// metric adds a value of a metric. Which device it is of is in the labels; which host, too, and is only used to
// tell devices apart.
func (l *log) metric(m metric, labels map[string]string, at trace.Time, n int64) {
	id := identity{uuid: []byte(firstLabel(labels, "UUID", "uuid")), bus: []byte(labels["pci_bus_id"]),
		index: []byte(firstLabel(labels, "gpu", "index", "minor_number")), name: []byte(firstLabel(labels, "modelName", "devicename", "name"))}
	if len(id.uuid) == 0 {
		host := firstLabel(labels, "Hostname", "hostname", "instance")
		id.bus = []byte(host + "\x00" + string(id.bus) + "\x00" + string(id.index))
	}
	d := l.device(id)
	if d == nil {
		return
	}
	switch {
	case labels["GPU_I_ID"] != "":
		if m.quantity == trace.DeviceUsed {
			l.sample(d, part{quantity: trace.InstanceUsed, name: "MIG " + labels["GPU_I_ID"]}, at, n)
		}
	case m.quantity == trace.ProcessUsed:
		if pid, ok := digits([]byte(labels["pid"])); ok {
			l.process(d, pid, labels["name"], at, n)
		}
	default:
		l.sample(d, part{quantity: m.quantity}, at, n)
	}
}

func firstLabel(labels map[string]string, names ...string) string {
	for _, n := range names {
		if v := labels[n]; v != "" {
			return v
		}
	}
	return ""
}

// parseMetric reads `name{label="value", …} value [time in ms]`.
func parseMetric(t string) (name string, labels map[string]string, v float64, at trace.Time, ok bool) {
	i := strings.IndexAny(t, "{ ")
	if i <= 0 {
		return "", nil, 0, 0, false
	}
	name = t[:i]
	rest := t[i:]
	if rest[0] == '{' {
		labels = map[string]string{}
		rest = rest[1:]
		for {
			rest = strings.TrimLeft(rest, " ,")
			if strings.HasPrefix(rest, "}") {
				rest = rest[1:]
				break
			}
			key, tail, found := strings.Cut(rest, `="`)
			if !found || len(labels) > 100 {
				return name, nil, 0, 0, false
			}
			var value strings.Builder
			end := -1
			for j := 0; j < len(tail); j++ {
				if tail[j] == '\\' && j+1 < len(tail) {
					j++
					value.WriteByte(tail[j])
					continue
				}
				if tail[j] == '"' {
					end = j
					break
				}
				value.WriteByte(tail[j])
			}
			if end < 0 {
				return name, nil, 0, 0, false
			}
			labels[strings.TrimSpace(key)] = value.String()
			rest = tail[end+1:]
		}
	}
	values := strings.Fields(rest)
	if len(values) == 0 || len(values) > 2 {
		return name, labels, 0, 0, false
	}
	v, err := strconv.ParseFloat(values[0], 64)
	if err != nil || v != v {
		return name, labels, 0, 0, false
	}
	if len(values) == 2 {
		ms, err := strconv.ParseInt(values[1], 10, 64)
		if err != nil || ms < 0 || ms > 1<<42 {
			return name, labels, 0, 0, false
		}
		at = trace.Time(ms) * 1_000_000
	}
	return name, labels, v, at, true
}
