package kineto

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vramscope/vramscope/trace"
)

const (
	baseTime = "baseTimeNanoseconds"

	memoryName = "[memory]"
	oomName    = "[OutOfMemory]"
)

// chrome gathers what a trace has.
type chrome struct {
	stacks  *trace.Stacks
	threads map[thread]uint32 // numbers of lanes
	lanes   []lane
	labels  map[string]label
	folded  map[string]label // of annotations
	devices map[deviceKey]*device
	order   []deviceKey
	props   map[int64]property
	markers []marker
	rank    *int  // of the job, nil if the file does not tell
	base    int64 // ns since the epoch that times count from, 0 if they count from the epoch or the file does not tell

	memory       int  // memory events
	python, text bool // call stacks are there: as Python functions, or spelled out
	oddMarkers   int  // annotations beyond those that are kept
	oddDevices   int  // events of devices beyond those that are kept
	badMemory    tally
}

// thread is what the file calls one. A name is kept by its hash.
type thread struct{ pid, tid int64 }

type deviceKey struct{ kind, id int64 }

type property struct {
	name     string
	capacity int64
}

// marker is an annotation with its times as the file has them.
type marker struct {
	start, end int64
	name       string
}

const (
	maxMarkers = 100_000
	maxDevices = 1024
	maxLabels  = 4 << 20
)

// tally counts records that share a fault.
type tally struct{ count, first int }

func (t *tally) add(at int) {
	if t.count == 0 {
		t.first = at
	}
	t.count++
}

func readChrome(r io.Reader) (*trace.Trace, error) {
	c := &chrome{
		stacks: trace.NewStacks(), threads: map[thread]uint32{}, labels: map[string]label{}, folded: map[string]label{},
		devices: map[deviceKey]*device{}, props: map[int64]property{},
	}
	s := newStream(r)
	s.event, s.field = c.event, c.member
	if err := s.run(); err != nil {
		return nil, err
	}
	if s.events == 0 && (s.cut || s.bad > 0) {
		return nil, trace.Corrupt(s.offset(), "the trace ends here, before its first event: it was cut while it was written or copied")
	}
	return c.build(s), nil
}

// member reads a member of the top object. Names and paths that may stand there are nobody's business.
func (c *chrome) member(name string, dec *jsontext.Decoder) error {
	switch name {
	case baseTime:
		raw, err := dec.ReadValue()
		if err != nil {
			return err
		}
		if n, ok := integer(raw); ok {
			c.base = n
		}
		return nil
	case "deviceProperties":
		raw, err := dec.ReadValue()
		if err != nil {
			return err
		}
		c.properties(raw)
		return nil
	case "distributedInfo":
		raw, err := dec.ReadValue()
		if err != nil {
			return err
		}
		c.job(raw)
		return nil
	}
	return dec.SkipValue()
}

// job notes which rank of a job was profiled.
func (c *chrome) job(info []byte) {
	if len(info) == 0 || info[0] != '{' {
		return
	}
	fields(info, func(name, v []byte) bool {
		if string(name) != "rank" {
			return true
		}
		if n, ok := integer(v); ok && n >= 0 && n <= math.MaxInt32 {
			rank := int(n)
			c.rank = &rank
		}
		return false
	})
}

// properties notes what the devices are.
func (c *chrome) properties(list []byte) {
	elements(list, func(v []byte) {
		if v[0] != '{' || len(c.props) >= maxDevices {
			return
		}
		id, p := int64(-1), property{}
		fields(v, func(name, v []byte) bool {
			switch string(name) {
			case "id":
				id, _ = integer(v)
			case "name":
				p.name = plain(v)
			case "totalGlobalMem":
				p.capacity, _ = integer(v)
			}
			return true
		})
		if id >= 0 {
			c.props[id] = p
		}
	})
}

// record is what an event has that matters here.
type record struct {
	ph, cat, name, pid, tid, ts, dur, args []byte
}

func (c *chrome) event(raw []byte) {
	var e record
	fields(raw, func(name, v []byte) bool {
		switch string(name) {
		case "ph":
			e.ph = unquoted(v)
		case "cat":
			e.cat = unquoted(v)
		case "name":
			e.name = unquoted(v)
		case "pid":
			e.pid = v
		case "tid":
			e.tid = v
		case "ts":
			e.ts = v
		case "dur":
			e.dur = v
		case "args":
			e.args = v
		}
		return true
	})
	switch {
	case string(e.name) == memoryName, string(e.name) == oomName:
		c.memoryEvent(&e)
	case string(e.ph) == "X":
		if k := kindOf(e.cat); k != notEnclosing {
			c.operator(&e, k)
		}
	}
}

// enclosing is the kind of an event that may enclose memory events.
type enclosing uint8

const (
	notEnclosing enclosing = iota
	operator
	function
	annotation
)

// kindOf tells by the category, which old versions wrote otherwise or left out. Everything that happens on a
// device or in a driver is left out: it encloses nothing.
func kindOf(cat []byte) enclosing {
	switch string(cat) {
	case "cpu_op", "Operator", "operator", "":
		return operator
	case "python_function":
		return function
	case "user_annotation":
		return annotation
	}
	return notEnclosing
}

func (c *chrome) operator(e *record, kind enclosing) {
	start, ok := nanoseconds(e.ts)
	duration, hasDuration := nanoseconds(e.dur)
	pid, isPID := integer(e.pid)
	tid, isTID := integer(e.tid)
	if !ok || !hasDuration || !isPID || !isTID {
		return
	}
	var what label
	switch kind {
	case function:
		c.python = true
		what = c.label(c.labels, e.name, pythonFrame)
	case annotation:
		c.annotate(start, start+duration, e.name)
		what = c.label(c.folded, e.name, foldedFrame)
	default:
		what = c.operatorLabel(e)
	}
	c.lane(thread{pid, tid}).add(start, duration, what)
}

func (c *chrome) lane(t thread) *lane {
	n, ok := c.threads[t]
	if !ok {
		n = uint32(len(c.lanes))
		c.threads[t] = n
		c.lanes = append(c.lanes, lane{})
	}
	return &c.lanes[n]
}

// label is the one of a name, which make turns into a frame when it is met first.
func (c *chrome) label(known map[string]label, name []byte, make func(string) trace.Frame) label {
	if l, ok := known[string(name)]; ok {
		return l
	}
	l := frameLabel(c.stacks.AddFrame(make(plainText(name))))
	if len(known) < maxLabels {
		known[string(name)] = l
	}
	return l
}

// operatorLabel is an operator's name, with the call stack that traces of torch before 1.13 spell out in it.
func (c *chrome) operatorLabel(e *record) label {
	const key = `"Call stack"`
	if !bytes.Contains(e.args, []byte(key)) {
		return c.label(c.labels, e.name, operatorFrame)
	}
	var stack []byte
	fields(e.args, func(name, v []byte) bool {
		if string(name) == key[1:len(key)-1] {
			stack = unquoted(v)
		}
		return stack == nil
	})
	if len(stack) == 0 {
		return c.label(c.labels, e.name, operatorFrame)
	}
	c.text = true
	both := string(e.name) + "\x00" + string(stack)
	if l, ok := c.labels[both]; ok {
		return l
	}
	frames := []trace.FrameID{c.stacks.AddFrame(operatorFrame(plainText(e.name)))}
	for f := range strings.SplitSeq(plainText(stack), ";") {
		if f != "" && len(frames) < maxDepth {
			frames = append(frames, c.stacks.AddFrame(pythonFrame(f)))
		}
	}
	l := stackLabel(c.stacks.AddStack(frames))
	if len(c.labels) < maxLabels {
		c.labels[both] = l
	}
	return l
}

func (c *chrome) annotate(start, end int64, name []byte) {
	if len(c.markers) >= maxMarkers {
		c.oddMarkers++
		return
	}
	c.markers = append(c.markers, marker{start, end, plainText(name)})
}

// memoryEvent notes a memory event of any device.
func (c *chrome) memoryEvent(e *record) {
	at := c.memory
	c.memory++
	var bytes, addr, kind, id, allocated, reserved int64
	var hasBytes, hasAddr, hasKind, hasTotals bool
	fields(e.args, func(name, v []byte) bool {
		switch string(name) {
		case "Bytes":
			bytes, hasBytes = integer(v)
		case "Addr":
			addr, hasAddr = integer(v)
		case "Device Type":
			kind, hasKind = integer(v)
		case "Device Id":
			id, _ = integer(v)
		case "Total Allocated":
			allocated, hasTotals = integer(v)
		case "Total Reserved":
			reserved, _ = integer(v)
		}
		return true
	})
	ts, hasTime := nanoseconds(e.ts)
	if !hasBytes || !hasKind || !hasTime || bytes == 0 || bytes < -maxSize || bytes > maxSize {
		c.badMemory.add(at)
		return
	}
	d := c.device(deviceKey{kind, id})
	if d == nil {
		return
	}
	ev := trace.Event{Time: trace.Time(ts), Addr: uint64(addr), Size: bytes, Op: trace.OpAlloc, Stack: noLane}
	if pid, ok := integer(e.pid); ok {
		if tid, ok := integer(e.tid); ok {
			c.lane(thread{pid, tid})
			ev.Stack = trace.StackID(c.threads[thread{pid, tid}])
		}
	}
	switch {
	case string(e.name) == oomName:
		ev.Op, ev.Addr, ev.Size = trace.OpOOM, 0, max(bytes, -bytes)
	case !hasAddr:
		d.noAddr++
	}
	if hasTotals {
		d.totals(&ev, allocated, reserved)
	}
	d.events.Append(ev)
}

// maxSize is beyond what any device has; sums of such sizes are still far from overflowing.
const maxSize = 1 << 50

// device is the gatherer of a device's events, nil if there are too many devices.
func (c *chrome) device(k deviceKey) *device {
	d := c.devices[k]
	if d == nil {
		if len(c.devices) >= maxDevices {
			c.oddDevices++
			return nil
		}
		d = &device{levels: map[int64]uint32{}}
		c.devices[k] = d
		c.order = append(c.order, k)
	}
	return d
}

// pythonFrame takes "train.py(66): forward" apart.
func pythonFrame(name string) trace.Frame {
	if i := strings.Index(name, "): "); i > 0 {
		if j := strings.LastIndexByte(name[:i], '('); j > 0 {
			if line, ok := integer([]byte(name[j+1 : i])); ok && line >= 0 && line < 1<<31 {
				return trace.Frame{File: name[:j], Line: int(line), Func: name[i+3:]}
			}
		}
	}
	return trace.Frame{Func: withoutAddress(name)}
}

// withoutAddress makes "<built-in method to of Parameter object at 0x7febc1ca7a70>" the same for all objects.
func withoutAddress(name string) string {
	const at = " at 0x"
	i := strings.Index(name, at)
	if i < 0 {
		return name
	}
	end := i + len(at)
	for end < len(name) && strings.IndexByte("0123456789abcdefABCDEF", name[end]) >= 0 {
		end++
	}
	return name[:i] + name[end:]
}

func operatorFrame(name string) trace.Frame { return trace.Frame{Func: name} }

// foldedFrame is the frame of an annotation. Those of steps count up, which would make every stack of a step
// another one.
func foldedFrame(name string) trace.Frame {
	var b strings.Builder
	digits := false
	for _, r := range name {
		if r >= '0' && r <= '9' {
			if !digits {
				b.WriteByte('#')
			}
			digits = true
			continue
		}
		digits = r == '#'
		b.WriteRune(r)
	}
	return trace.Frame{Func: b.String()}
}

// plainText takes the escapes out of the inside of a JSON string.
func plainText(s []byte) string {
	if bytes.IndexByte(s, '\\') < 0 {
		return strings.ToValidUTF8(string(s), "\uFFFD")
	}
	quoted := append(append([]byte{'"'}, s...), '"')
	out, err := jsontext.AppendUnquote(nil, quoted)
	if err != nil && len(out) == 0 {
		return fmt.Sprintf("%q", s)
	}
	return string(out)
}

func plain(v []byte) string { return plainText(unquoted(v)) }

// elements walks through the elements of a JSON array that is known to be valid.
func elements(raw []byte, f func(v []byte)) {
	if len(raw) == 0 || raw[0] != '[' {
		return
	}
	i := 1
	for {
		i = space(raw, i)
		if i >= len(raw) || raw[i] == ']' {
			return
		}
		end := value(raw, i)
		f(raw[i:end])
		i = space(raw, end)
		if i < len(raw) && raw[i] == ',' {
			i++
		}
	}
}
