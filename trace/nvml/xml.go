package nvml

import (
	"bytes"
	"encoding/xml"
	"io"
	"strings"

	"github.com/vramscope/vramscope/trace"
)

// nvidia-smi -q -x. With -l the file is a row of documents. Each is taken apart when it is whole, and no
// document is ever fetched that one names.

func isXML(line []byte) bool {
	return bytes.Contains(line, []byte("<nvidia_smi_log")) || bytes.Contains(line, []byte("nvsmi_device_v"))
}

// maxDocument is how long a document may be; one of 16 devices has some hundred kilobytes.
const maxDocument = 16 << 20

func readXML(in *lines) (*log, error) {
	l := newLog("nvidia-smi -q -x")
	l.clockIs = trace.ClockLocal
	var doc bytes.Buffer
	take := func() {
		if doc.Len() > 0 {
			l.document(doc.Bytes())
		}
		doc.Reset()
	}
	for {
		line, ok := in.next()
		if !ok {
			break
		}
		for len(line) > 0 {
			// A document begins with its prolog, which may stand behind the end of another one.
			i := bytes.Index(line, []byte("<?xml"))
			if i < 0 {
				break
			}
			doc.Write(line[:i])
			take()
			doc.WriteString("<?xml")
			line = line[i+5:]
		}
		if doc.Len()+len(line) > maxDocument {
			return nil, trace.Corrupt(-1, "line %d: this document has more than %d MiB: it is none of nvidia-smi's", in.n, maxDocument>>20)
		}
		doc.Write(line)
		doc.WriteByte('\n')
		if bytes.Contains(line, []byte("</nvidia_smi_log>")) {
			take()
		}
	}
	if bytes.Contains(doc.Bytes(), []byte("<gpu")) {
		l.cut = true
	}
	take()
	return l, nil
}

// document takes one document over, or as much of it as there is.
func (l *log) document(text []byte) {
	dec := xml.NewDecoder(bytes.NewReader(text))
	dec.Strict = false
	dec.CharsetReader = func(_ string, r io.Reader) (io.Reader, error) { return r, nil }
	x := xmlReader{log: l}
	for {
		tok, err := dec.Token()
		if err != nil {
			if err != io.EOF && !l.cut {
				l.bad++
			}
			x.flush()
			return
		}
		switch e := tok.(type) {
		case xml.StartElement:
			x.path = append(x.path, e.Name.Local)
			x.content = x.content[:0]
			x.start(e)
		case xml.EndElement:
			if text := strings.TrimSpace(string(x.content)); text != "" && len(x.path) > 0 {
				x.text(text)
			}
			x.content = x.content[:0]
			x.end(e.Name.Local)
			if len(x.path) > 0 {
				x.path = x.path[:len(x.path)-1]
			}
		case xml.CharData:
			x.content = append(x.content, e...)
		}
		if len(x.path) > 64 {
			l.bad++
			return
		}
	}
}

// xmlReader keeps where in a document it is.
type xmlReader struct {
	*log
	path     []string
	content  []byte // of the innermost element
	at       trace.Time
	gpu      identity
	open     bool // within a device
	pending  []value
	gi, ci   string
	instance int64 // bytes used of an instance, -1 for none
	pid      int64
	process  string
	used     int64
}

func (x *xmlReader) start(e xml.StartElement) {
	switch e.Name.Local {
	case "gpu":
		x.flush()
		x.open = true
		for _, a := range e.Attr {
			if a.Name.Local == "id" {
				x.gpu.bus = []byte(a.Value)
			}
		}
	case "mig_device":
		x.gi, x.ci, x.instance = "", "", -1
	case "process_info":
		x.pid, x.process, x.used = 0, "", -1
	}
}

func (x *xmlReader) end(name string) {
	switch name {
	case "gpu":
		x.flush()
	case "mig_device":
		if x.instance >= 0 {
			x.pending = append(x.pending, value{part{quantity: trace.InstanceUsed, name: "MIG " + x.gi + "/" + x.ci}, x.instance})
		}
	case "process_info":
		if x.pid != 0 && x.used >= 0 {
			x.pending = append(x.pending, value{part{trace.ProcessUsed, x.pid, x.process}, x.used})
		}
	}
}

// inside says whether an element of this name is open.
func (x *xmlReader) inside(name string) bool {
	for _, p := range x.path {
		if p == name {
			return true
		}
	}
	return false
}

func (x *xmlReader) text(v string) {
	name := x.path[len(x.path)-1]
	switch name {
	case "timestamp":
		if t, ok := ctime([]byte(v)); ok {
			x.at = x.clock.at(t)
		}
	case "driver_version":
		x.producer = "NVIDIA driver " + v
	}
	if !x.open {
		return
	}
	parent := ""
	if len(x.path) > 1 {
		parent = x.path[len(x.path)-2]
	}
	mig := x.inside("mig_device")
	switch {
	case name == "product_name" && parent == "gpu":
		x.gpu.name = []byte(v)
	case name == "uuid" && parent == "gpu":
		x.gpu.uuid = []byte(v)
	case mig && name == "gpu_instance_id":
		x.gi = v
	case mig && name == "compute_instance_id":
		x.ci = v
	case mig && parent == "fb_memory_usage" && name == "used":
		x.instance = x.size(v)
	case mig:
	case parent == "fb_memory_usage":
		if q, ok := xmlKeys[name]; ok {
			x.reading(q, v)
		}
	case parent == "bar1_memory_usage" && name == "used":
		x.reading(trace.BAR1Used, v)
	case parent == "utilization" && name == "gpu_util":
		if n, ok := percent([]byte(v)); ok {
			x.pending = append(x.pending, value{part{quantity: trace.Busy}, n})
		}
	case parent == "process_info" && name == "pid":
		x.pid, _ = digits([]byte(v))
	case parent == "process_info" && name == "process_name":
		x.process = baseName(v)
	case parent == "process_info" && name == "used_memory":
		x.used = x.size(v)
	}
}

var xmlKeys = map[string]trace.Quantity{
	"total": trace.DeviceTotal, "reserved": trace.DriverReserved, "used": trace.DeviceUsed, "free": trace.DeviceFree,
}

// size reads a size, -1 for one that is not there.
func (x *xmlReader) size(v string) int64 {
	if isMissing([]byte(v)) {
		x.missing++
		return -1
	}
	n, ok := memory([]byte(v), "MiB")
	if !ok {
		x.bad++
		return -1
	}
	return n
}

func (x *xmlReader) reading(q trace.Quantity, v string) {
	if n := x.size(v); n >= 0 {
		x.pending = append(x.pending, value{part{quantity: q}, n})
	}
}

// flush takes over what was read of a device.
func (x *xmlReader) flush() {
	if x.open && len(x.pending) > 0 {
		x.rows++
		if d := x.device(x.gpu); d != nil {
			for _, v := range x.pending {
				x.sample(d, v.part, x.at, v.v)
			}
		}
	}
	x.gpu, x.pending, x.open = identity{}, nil, false
}
