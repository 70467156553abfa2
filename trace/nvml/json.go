package nvml

import (
	"bytes"
	"errors"
	"io"
	"math"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vramscope/vramscope/trace"
)

// Two forms of JSON: what Prometheus answers to a query, and gpustat --json, which writes an object for each
// reading, one after the other.

var jsonOptions = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

// isPrometheusJSON reports whether a text begins like an answer of Prometheus to a query.
func isPrometheusJSON(head []byte) bool {
	return bytes.Contains(head, []byte(`"resultType"`)) && bytes.Contains(head, []byte(`"status"`))
}

// object walks through the members of an object whose brace comes next. f must take one value.
func object(dec *jsontext.Decoder, f func(name string) error) error {
	if dec.PeekKind() != '{' {
		return dec.SkipValue()
	}
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	for dec.PeekKind() == '"' {
		tok, err := dec.ReadToken()
		if err != nil {
			return err
		}
		if err := f(tok.String()); err != nil {
			return err
		}
	}
	_, err := dec.ReadToken()
	return err
}

// array walks through the elements of an array whose bracket comes next. f must take one value.
func array(dec *jsontext.Decoder, f func() error) error {
	if dec.PeekKind() != '[' {
		return dec.SkipValue()
	}
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	for dec.PeekKind() != ']' {
		if dec.PeekKind() == 0 {
			_, err := dec.ReadToken()
			return err
		}
		if err := f(); err != nil {
			return err
		}
	}
	_, err := dec.ReadToken()
	return err
}

// scalar reads a string or number as text; null and others are "".
func scalar(dec *jsontext.Decoder) (string, error) {
	switch dec.PeekKind() {
	case '"':
		tok, err := dec.ReadToken()
		if err != nil {
			return "", err
		}
		return tok.String(), nil
	case '0':
		v, err := dec.ReadValue()
		return string(v), err
	}
	return "", dec.SkipValue()
}

// text makes a reader of what is left of the lines.
func (l *lines) text() io.Reader { return l.r }

// jsonEnd says what an error of a JSON document leaves: of one that is cut, what came before.
func (l *log) jsonEnd(in *lines, err error, at int64) error {
	var syntax *jsontext.SyntacticError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, trace.ErrCorrupt) || in.err != nil:
		if l.rows > 0 {
			l.cut = true
			return nil
		}
		return err
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		if l.rows > 0 {
			l.cut = true
			return nil
		}
		return trace.Corrupt(at, "the JSON ends here, before its first reading: it was cut while it was written or copied")
	case errors.As(err, &syntax):
		return trace.Corrupt(syntax.ByteOffset, "the JSON is damaged: %s", syntax.Err)
	}
	return trace.Corrupt(at, "the JSON is damaged: %s", err)
}

func readPrometheusJSON(in *lines) (*log, error) {
	l := newLog("Prometheus query")
	dec := jsontext.NewDecoder(in.text(), jsonOptions...)
	unknown := map[string]bool{}
	result := func() error {
		var labels map[string]string
		var early trace.Series // values that stand in front of what they are of
		add := func(at trace.Time, v float64) {
			m, known := metrics[labels["__name__"]]
			n, fits := scaled(v, m.scale)
			switch {
			case !known:
			case !fits || m.scale == mib && !validValue(v):
				l.missing++
			default:
				l.rows++
				l.metric(m, labels, at, n)
			}
		}
		value := func() error {
			at, v, err := pair(dec)
			if err != nil {
				return err
			}
			switch {
			case v != v:
				l.missing++
			case labels == nil:
				early.Add(at, int64(math.Min(v, 1<<60)))
			default:
				add(at, v)
			}
			return nil
		}
		err := object(dec, func(name string) error {
			switch name {
			case "metric":
				labels = map[string]string{}
				err := object(dec, func(label string) error {
					v, err := scalar(dec)
					if len(labels) < 100 {
						labels[label] = v
					}
					return err
				})
				for _, p := range early.Points {
					add(p.Time, float64(p.Last))
				}
				if n := labels["__name__"]; metrics[n].scale == 0 && len(unknown) < 100 {
					unknown[n] = true
				}
				return err
			case "values":
				return array(dec, value)
			case "value":
				return value()
			}
			return dec.SkipValue()
		})
		return err
	}
	failed := ""
	err := object(dec, func(name string) error {
		switch name {
		case "data":
			return object(dec, func(name string) error {
				if name == "result" {
					return array(dec, result)
				}
				return dec.SkipValue()
			})
		case "error":
			text, err := scalar(dec)
			failed = text
			return err
		}
		return dec.SkipValue()
	})
	if err := l.jsonEnd(in, err, dec.InputOffset()); err != nil {
		return nil, err
	}
	if l.rows == 0 && failed != "" {
		return nil, trace.Corrupt(-1, "Prometheus answered with an error, not with readings; ask for DCGM_FI_DEV_FB_USED with /api/v1/query_range")
	}
	if l.rows == 0 {
		return nil, trace.Corrupt(-1, "the answer of Prometheus has no metric of memory that is known here; ask for DCGM_FI_DEV_FB_USED with /api/v1/query_range")
	}
	delete(unknown, "")
	l.note("unknown-metric", len(unknown), "metrics that are not known here were left out")
	return l, nil
}

// pair reads [time in s, "value"]; a value that is none is NaN.
func pair(dec *jsontext.Decoder) (at trace.Time, v float64, err error) {
	n := 0
	v = math.NaN()
	err = array(dec, func() error {
		text, err := scalar(dec)
		if err != nil {
			return err
		}
		x, bad := strconv.ParseFloat(text, 64)
		switch {
		case n == 0 && bad == nil && x >= 0 && x < 1<<33:
			at = trace.Time(x*1000) * 1_000_000
		case n == 1 && bad == nil:
			v = x
		}
		n++
		return nil
	})
	return at, v, err
}

func readGPUStat(in *lines) (*log, error) {
	l := newLog("gpustat")
	l.clockIs = trace.ClockLocal
	dec := jsontext.NewDecoder(in.text(), jsonOptions...)
	for {
		if dec.PeekKind() == 0 {
			_, err := dec.ReadToken()
			if err == io.EOF {
				return l, nil
			}
			return l.orNothing(l.jsonEnd(in, err, dec.InputOffset()))
		}
		if err := l.gpustat(dec); err != nil {
			return l.orNothing(l.jsonEnd(in, err, dec.InputOffset()))
		}
	}
}

func (l *log) orNothing(err error) (*log, error) {
	if err != nil {
		return nil, err
	}
	return l, nil
}

// gpustat reads one object. Its time may stand behind its devices, so these wait. Of processes, pid, program and
// memory are read; who runs them and with which arguments is not.
func (l *log) gpustat(dec *jsontext.Decoder) error {
	type process struct {
		pid    int64
		name   string
		memory int64
	}
	type gpu struct {
		id          identity
		used, total int64
		busy        int64
		processes   []process
	}
	var at trace.Time
	var gpus []gpu
	size := func(text string) int64 {
		if text == "" {
			l.missing++
			return -1
		}
		n, ok := memory([]byte(text), "MiB")
		if !ok {
			l.bad++
			return -1
		}
		return n
	}
	err := object(dec, func(name string) error {
		switch name {
		case "query_time":
			text, err := scalar(dec)
			if t, ok := wall([]byte(text)); ok {
				at = l.clock.at(t)
			}
			return err
		case "driver_version":
			text, err := scalar(dec)
			if text != "" {
				l.producer = "NVIDIA driver " + text
			}
			return err
		case "gpus":
			return array(dec, func() error {
				g := gpu{used: -1, total: -1, busy: -1}
				err := object(dec, func(name string) error {
					if name == "processes" {
						return array(dec, func() error {
							p := process{memory: -1}
							err := object(dec, func(name string) error {
								switch name {
								case "pid", "command", "gpu_memory_usage":
								default:
									return dec.SkipValue()
								}
								text, err := scalar(dec)
								switch name {
								case "pid":
									p.pid, _ = digits([]byte(text))
								case "command":
									p.name = text
								case "gpu_memory_usage":
									p.memory = size(text)
								}
								return err
							})
							if len(g.processes) < maxParts {
								g.processes = append(g.processes, p)
							}
							return err
						})
					}
					text, err := scalar(dec)
					switch name {
					case "index":
						g.id.index = []byte(text)
					case "uuid":
						g.id.uuid = []byte(text)
					case "name":
						g.id.name = []byte(text)
					case "memory.used":
						g.used = size(text)
					case "memory.total":
						g.total = size(text)
					case "utilization.gpu":
						if n, ok := percent([]byte(text)); ok {
							g.busy = n
						}
					}
					return err
				})
				if len(gpus) < maxDevices {
					gpus = append(gpus, g)
				}
				return err
			})
		}
		return dec.SkipValue()
	})
	if err != nil {
		return err
	}
	for _, g := range gpus {
		d := l.device(g.id)
		if d == nil {
			continue
		}
		l.rows++
		for _, v := range [...]value{{part{quantity: trace.DeviceUsed}, g.used}, {part{quantity: trace.DeviceTotal}, g.total}, {part{quantity: trace.Busy}, g.busy}} {
			if v.v >= 0 {
				l.sample(d, v.part, at, v.v)
			}
		}
		for _, p := range g.processes {
			if p.pid != 0 && p.memory >= 0 {
				l.process(d, p.pid, p.name, at, p.memory)
			}
		}
	}
	return nil
}
