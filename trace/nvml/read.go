// Package nvml reads what programs write that sample the memory of GPUs through NVIDIA's management library:
// nvidia-smi in all of its forms, dcgmi dmon, exporters for Prometheus, gpustat and nvitop.
//
// None of them knows about single allocations. What comes out are series of totals by device, and by process
// where they are told. Names of users and hosts are not kept, of a program's path only its last part.
package nvml

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"

	"github.com/vramscope/vramscope/trace"
)

// reader reads one form of log.
type reader func(l *lines) (*log, error)

// Read reads a log. It returns trace.ErrUnrecognized itself, with nothing taken from r, if the input has none
// of the forms near its beginning.
func Read(r *bufio.Reader) (*trace.Trace, error) {
	head := plainHead(r)
	kind := sniff(head)
	if kind == nil {
		return nil, trace.ErrUnrecognized
	}
	in := newLines(r)
	l, err := kind(in)
	switch {
	case in.err != nil && (l == nil || l.rows == 0 || !errors.Is(in.err, trace.ErrCorrupt)):
		return nil, in.err
	case err != nil:
		return nil, err
	case in.err != nil:
		l.cut = true
	}
	if l.cut {
		l.note("cut", 1, "the file ends in the middle of line %d: what came before is used", in.n)
	}
	if !l.memory && l.rows > 0 && len(l.lacks) == 0 {
		l.lacks = append(l.lacks, trace.Lack{What: "any memory: no field of it was asked for", Instead: queryHow})
	}
	if l.rows == 0 {
		return nil, &trace.SyntaxError{Offset: -1, Err: trace.ErrCorrupt,
			Msg: fmt.Sprintf("is a log of %s without any readings: was it stopped before the first?", l.format)}
	}
	return l.trace(), nil
}

const queryHow = "nvidia-smi --query-gpu=timestamp,index,uuid,memory.used,memory.free,memory.total --format=csv -lms 500 > smi.csv"

// sniff finds the form by the first line of the head that has the mark of one. What launchers and shells write
// may stand in front.
func sniff(head []byte) reader {
	start := bytes.TrimLeft(head, " \t\r\n")
	switch {
	case bytes.HasPrefix(start, []byte("{")) && isPrometheusJSON(start):
		return readPrometheusJSON
	case bytes.HasPrefix(start, []byte("{")) && bytes.Contains(start, []byte(`"gpus"`)) && bytes.Contains(start, []byte(`"query_time"`)):
		return readGPUStat
	}
	headless := 0
	for n := 0; len(head) > 0 && n < maxSniffed; n++ {
		line := head
		if i := bytes.IndexByte(head, '\n'); i >= 0 {
			line, head = head[:i], head[i+1:]
		} else {
			head = nil
		}
		line = withoutEscapes(bytes.Clone(bytes.TrimRight(line, "\r")))
		switch {
		case isQueryHeader(line):
			return readQuery
		case isDmonHeader(line):
			return readDmon
		case isDCGMHeader(line):
			return readDCGM
		case isReport(line):
			return readReport
		case isXML(line):
			return readXML
		case isBox(line):
			if bytes.Contains(head, []byte("bfc_allocator.cc")) {
				return nil // a log with a dump in it, which says more
			}
			return readBox
		case isPrometheus(line):
			return readPrometheus
		case isNVITop(line):
			return readNVITop
		case isComplaint(line) != "":
			return readComplaint
		case isHeadless(line):
			if headless++; headless == 2 || len(head) == 0 {
				return readQuery
			}
		}
	}
	return nil
}

// maxSniffed is how many lines may stand in front of a log.
const maxSniffed = 5000

// isComplaint gives what nvidia-smi says instead of readings.
func isComplaint(line []byte) string {
	line = bytes.TrimSpace(line)
	for _, c := range complaints {
		if bytes.HasPrefix(line, []byte(c)) || c[0] == '"' && bytes.HasPrefix(line, []byte("Field ")) && bytes.Contains(line, []byte(c[1:])) {
			return c
		}
	}
	return ""
}

var complaints = [...]string{
	`" is not a valid field to query`,
	"No devices were found",
	"NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver",
	"Unable to determine the device handle for",
	"Failed to initialize NVML",
}

// readComplaint is for a file that has no readings but a reason.
func readComplaint(l *lines) (*log, error) {
	for {
		line, ok := l.next()
		if !ok {
			return nil, trace.Corrupt(-1, "nvidia-smi wrote nothing but an error")
		}
		if isComplaint(line) != "" {
			text := string(bytes.TrimSpace(line))
			if len(text) > 150 {
				text = text[:150]
			}
			return nil, trace.Corrupt(-1, "line %d: nvidia-smi gave no readings: %q; for those: %s", l.n, text, queryHow)
		}
	}
}
