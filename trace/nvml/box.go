package nvml

import (
	"bytes"
	"regexp"
	"strings"

	"github.com/vramscope/vramscope/trace"
)

// The table that nvidia-smi prints without arguments, once or again and again: under watch, with -l, or appended
// by a timer. It is 79 columns wide from old drivers and 91 from newer ones, and names of its cells have changed;
// what is looked for is the form of the cells.

func isBox(line []byte) bool {
	t := bytes.TrimSpace(line)
	return bytes.HasPrefix(t, []byte("|")) && bytes.Contains(t, []byte("NVIDIA-SMI "))
}

var (
	boxDevice = regexp.MustCompile(`^\|\s*(\d+)\s+(\S.*?)\s+(?:On|Off|N/A|TCC|WDDM|MCDM|ERR!)\s*\|\s*([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d)`)
	boxMemory = regexp.MustCompile(`(\d+|N/A)\s*MiB\s*/\s*(\d+)\s*MiB`)
	boxBusy   = regexp.MustCompile(`\|\s*(\d+)%`)
	boxDriver = regexp.MustCompile(`Driver Version:\s*([0-9.]+)`)
	boxTotal  = regexp.MustCompile(`^\|\s*(\d+)\s+(\d+)\s+(\d+)\s+(\d+)\s*\|\s*(\d+)\s*MiB\s*/\s*(\d+)\s*MiB`)
)

// boxReader keeps where in a table it is.
type boxReader struct {
	*log
	at      trace.Time
	hasTime bool // there was a time in front of the table
	none    bool // tables without one
	current *device
	part    string // "", "mig" or "processes"
	n       int
}

func readBox(in *lines) (*log, error) {
	b := &boxReader{log: newLog("nvidia-smi table")}
	b.clockIs = trace.ClockLocal
	for {
		line, ok := in.next()
		if !ok {
			break
		}
		b.line(line, in.ended)
		if !in.ended && b.part != "" {
			b.cut = true
		}
	}
	if b.none {
		b.clockIs = trace.ClockNone
	}
	return b.log, nil
}

func (b *boxReader) line(line []byte, whole bool) {
	t := bytes.TrimSpace(line)
	if !bytes.HasPrefix(t, []byte("|")) {
		// In front of a table: its time. What watch writes there besides, such as the host, is passed over.
		if at, ok := ctime(t); ok && len(t) < 200 {
			b.at, b.hasTime = b.clock.at(at), true
		}
		return
	}
	if isBox(t) {
		b.part, b.current = "devices", nil
		if m := boxDriver.FindSubmatch(t); m != nil {
			b.producer = "NVIDIA driver " + string(m[1])
		}
		if !b.hasTime {
			b.none = true
			b.n++
			b.at = trace.Time(b.n) * second
		}
		b.hasTime = false
		return
	}
	switch {
	case b.part == "" || !whole:
		return
	case bytes.Contains(t, []byte("MIG devices:")):
		b.part = "mig"
	case bytes.Contains(t, []byte("Processes:")):
		b.part = "processes"
	case b.part == "devices":
		b.deviceLine(t)
	case b.part == "mig":
		b.instanceLine(t)
	case b.part == "processes":
		b.processLine(t)
	}
}

func (b *boxReader) deviceLine(t []byte) {
	if m := boxDevice.FindSubmatch(t); m != nil {
		b.current = b.device(identity{index: m[1]})
		if b.current != nil && b.current.name == "" {
			b.current.name = string(m[2])
		}
		return
	}
	if b.current == nil {
		return
	}
	m := boxMemory.FindSubmatch(t)
	if m == nil {
		if bytes.Contains(t, []byte("N/A")) && bytes.Contains(t, []byte("%")) {
			b.missing++
			b.current = nil
		}
		return
	}
	b.rows++
	total, _ := digits(m[2])
	if total > 1<<30 {
		b.bad++
		return
	}
	b.sample(b.current, part{quantity: trace.DeviceTotal}, b.at, total*mib)
	if used, ok := digits(m[1]); ok && used <= 1<<30 {
		b.sample(b.current, part{quantity: trace.DeviceUsed}, b.at, used*mib)
	} else {
		b.missing++
	}
	if m := boxBusy.FindAllSubmatch(t, -1); len(m) > 0 {
		n, _ := digits(m[len(m)-1][1])
		b.sample(b.current, part{quantity: trace.Busy}, b.at, min(n, 100))
	}
	b.current = nil
}

func (b *boxReader) instanceLine(t []byte) {
	m := boxTotal.FindSubmatch(t)
	if m == nil {
		return
	}
	used, ok := digits(m[5])
	d := b.device(identity{index: m[1]})
	if d != nil && ok && used <= 1<<30 {
		b.sample(d, part{quantity: trace.InstanceUsed, name: "MIG " + string(m[2]) + "/" + string(m[3])}, b.at, used*mib)
	}
}

// processLine reads "|    0   N/A  N/A      1234      C   python3     4498MiB |"; old tables lack the two in the middle.
func (b *boxReader) processLine(t []byte) {
	cells := strings.Fields(strings.Trim(string(t), "| "))
	if len(cells) < 4 {
		return
	}
	if _, ok := digits([]byte(cells[0])); !ok {
		return
	}
	for i := 1; i+2 < len(cells) && i < 4; i++ {
		pid, ok := digits([]byte(cells[i]))
		if !ok || !isProcessType(cells[i+1]) {
			continue
		}
		last := cells[len(cells)-1]
		name := strings.Join(cells[i+2:len(cells)-1], " ")
		if i+2 == len(cells)-1 {
			name = ""
		}
		n, ok := memory([]byte(last), "")
		if !ok || !strings.HasSuffix(last, "MiB") {
			b.missing++
			return
		}
		if d := b.device(identity{index: []byte(cells[0])}); d != nil {
			b.process(d, pid, strings.TrimLeft(name, "."), b.at, n)
		}
		return
	}
}

func isProcessType(s string) bool {
	switch s {
	case "C", "G", "C+G", "M", "M+C":
		return true
	}
	return false
}
