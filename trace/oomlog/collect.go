package oomlog

import (
	"slices"
	"sort"
)

// collector puts together what belongs together: copies of one message, the parts of a message that came
// in several lines, the dump after a failure. A log can hold a message hundreds of times, from as many
// ranks and again in every summary.
type collector struct {
	log   Log
	index map[string]int // of a message in log.Messages by its fingerprint
	parts map[string]int // the same for messages that are a further part of one; they are not counted

	dump     bfcDump
	dumpInto int // index of the message that the dump belongs to, plus one

	softBFC               bool         // TensorFlow's pool was short before
	limits                map[int]Size // TensorFlow's pools by device
	startTotal, startFree Size         // what TensorFlow found on its device; several devices: the first
	lastTF                int          // index plus one of the last driver error of TensorFlow
	lastTFLow             int64        // and the size it was about
	orphans               []Message
	summaries             []Message
	growth                growth
	notes                 [numNotes]Note
}

// add takes a message in, whose text in the log is raw.
func (c *collector) add(m Message, raw []byte) {
	switch {
	case m.Format == "TensorFlow BFC" || m.Format == "TensorFlow/XLA BFC":
		if m.SoftBefore {
			c.softBFC = true
			c.note(NoteSoftBFC, m.Line)
			return
		}
	case m.Framework == "tensorrt" && m.SoftBefore:
		c.note(NoteSkippedPlan, m.Line)
		return
	}
	if m.Framework == "tensorflow" {
		m.SoftBefore = c.softBFC
		if limit, ok := c.limits[m.Device]; ok && !m.Limit.Known {
			m.Limit = limit
		} else if limit, ok := c.limits[0]; ok && m.Device < 0 && len(c.limits) == 1 {
			m.Limit = limit
		}
		m.StartCapacity, m.StartFree = c.startTotal, c.startFree
	}
	key := fingerprint(&m)
	if i, ok := c.index[key]; ok {
		c.repeat(i, &m)
		return
	}
	if _, ok := c.parts[key]; ok {
		return
	}
	if i := c.part(&m); i >= 0 {
		m.Text = excerpt(raw)
		into := c.parts
		if c.fill(i, &m) {
			into = c.index
		}
		if len(into) < 2*MaxMessages {
			into[key] = i
		}
		return
	}
	if len(c.log.Messages) >= MaxMessages {
		c.log.Omitted++
		return
	}
	if c.index == nil {
		c.index, c.parts = make(map[string]int), make(map[string]int)
	}
	m.Text = excerpt(raw)
	c.index[key] = len(c.log.Messages)
	c.log.Messages = append(c.log.Messages, m)
	c.opened(&m)
}

// opened remembers what later lines may refer to.
func (c *collector) opened(m *Message) {
	n := len(c.log.Messages)
	switch m.Format {
	case "TensorFlow BFC", "TensorFlow/XLA BFC", "XLA cudaMallocAsync":
		c.dump, c.dumpInto = bfcDump{device: -1}, n
	case "TensorFlow driver error":
		c.lastTF, c.lastTFLow = n, m.Requested.Bytes
	}
}

// repeat counts a further copy.
func (c *collector) repeat(i int, m *Message) {
	old := &c.log.Messages[i]
	old.Repeated++
	for _, r := range m.Ranks {
		if !slices.Contains(old.Ranks, r) {
			old.Ranks = append(old.Ranks, r)
		}
	}
	if old.Format == "TensorFlow BFC" || old.Format == "TensorFlow/XLA BFC" {
		c.dump, c.dumpInto = bfcDump{device: -1}, i+1
	}
}

// partReach is how many lines after a message a further part of the same failure can stand; dumps make it
// long for TensorFlow.
const partReach = 40

// partBack is how many messages back a message can find the one that it is a part of.
const partBack = 16

// part finds the message that m is a part or an incomplete copy of; -1 if it stands for itself.
func (c *collector) part(m *Message) int {
	if i := c.ofRank(m); i >= 0 {
		return i
	}
	for i := len(c.log.Messages) - 1; i >= max(0, len(c.log.Messages)-partBack); i-- {
		old := &c.log.Messages[i]
		near := m.Line-old.Line <= partReach
		switch {
		case isTF(old) && isTF(m):
			if c.dumpInto == i+1 || near {
				if sameFailure(old, m) {
					return i
				}
			}
			if c.lastTF == i+1 && m.Format == "TensorFlow driver error" && isSmaller(m.Requested.Bytes, c.lastTFLow) {
				c.lastTFLow = m.Requested.Bytes
				return i
			}
		case old.Framework == m.Framework && old.Backend == m.Backend && near &&
			(m.Framework == "tensorrt" || m.Framework == "ggml" || m.Framework == "nccl" || m.Framework == "rmm" || m.Framework == "host") &&
			compatible(old, m):
			return i
		case (m.Framework == "cuda" || m.Framework == "host") && m.known() == 0 && near && m.Line-old.Line <= 6 &&
			old.Framework != "pytorch" && old.Framework != "host":
			return i // the generic words that follow a program's own
		case old.Framework == "pytorch" && m.Framework == "pytorch" && cutCopy(old, m):
			return i
		}
	}
	return -1
}

// ofRank finds the message of the same rank that m is a cut copy of.
func (c *collector) ofRank(m *Message) int {
	if len(m.Ranks) == 0 || m.Framework != "pytorch" {
		return -1
	}
	for i := len(c.log.Messages) - 1; i >= max(0, len(c.log.Messages)-partBack); i-- {
		old := &c.log.Messages[i]
		if old.Framework == "pytorch" && slices.Contains(old.Ranks, m.Ranks[0]) && cutCopy(old, m) {
			return i
		}
	}
	return -1
}

func isTF(m *Message) bool {
	return m.Framework == "tensorflow" || m.Framework == "jax" || m.Framework == "xla"
}

// sameFailure tells whether two messages of TensorFlow can be about one request: the sizes are the same up
// to the rounding to 256 bytes and to the printing, or one of them is not known.
func sameFailure(a, b *Message) bool {
	if a.Cause == CauseHost != (b.Cause == CauseHost) || a.Device >= 0 && b.Device >= 0 && a.Device != b.Device {
		return false
	}
	if !a.Requested.Known || !b.Requested.Known {
		return true
	}
	return a.Requested.High+512 >= b.Requested.Low && b.Requested.High+512 >= a.Requested.Low
}

// isSmaller tells whether TensorFlow tries again with a little less, as it does when its pool cannot grow.
func isSmaller(n, last int64) bool { return n < last && float64(n) > 0.85*float64(last) }

// compatible tells whether no number of one message contradicts the other's.
func compatible(a, b *Message) bool {
	if a.Device >= 0 && b.Device >= 0 && a.Device != b.Device {
		return false
	}
	x, y := a.sizes(), b.sizes()
	for i := range x {
		if x[i].Known && y[i].Known && (x[i].High < y[i].Low || y[i].High < x[i].Low) {
			return false
		}
	}
	return true
}

// cutCopy tells whether m is a copy of old that was cut, or old of m: one of them lacks numbers and those
// it has are the other's.
func cutCopy(old, m *Message) bool {
	if old.Cause == CauseHost || m.Cause == CauseHost || old.Backend != m.Backend && m.Backend != "" && old.Backend != "" {
		return false
	}
	if m.Format == "PyTorch, no numbers" || old.Format == "PyTorch, no numbers" {
		return old.Cause != CauseContext && old.Cause != CauseLibrary && m.Cause != CauseContext && m.Cause != CauseLibrary
	}
	if m.Cause != CauseMarker && old.Cause != CauseMarker && m.Format == old.Format {
		return m.known() != old.known() && compatible(old, m) && m.Capacity.Known && old.Capacity.Known
	}
	return (m.Format == "PyTorch, cut" || old.Format == "PyTorch, cut") && old.Requested.Known && m.Requested.Known && compatible(old, m)
}

// fill adds to a message what a further part of it says. It tells whether that part was a copy.
func (c *collector) fill(i int, m *Message) (isCopy bool) {
	old := &c.log.Messages[i]
	if old.Framework == "pytorch" && m.known() > old.known() { // the first copy was the cut one
		line, offset, repeated, ranks := old.Line, old.Offset, old.Repeated, old.Ranks
		*old = *m
		old.Line, old.Offset, old.Repeated, old.Ranks = line, offset, repeated, ranks
		c.repeat(i, m)
		return true
	}
	isCopy = old.Framework == "pytorch" || m.Format == old.Format && m.known() == old.known()
	if isCopy {
		c.repeat(i, m)
	}
	into, from := old.sizePointers(), m.sizePointers()
	for k := range into {
		if !into[k].Known {
			*into[k] = *from[k]
		}
	}
	if m.Requested.Known && m.Requested.Low == m.Requested.High && isTF(old) != (old.Requested.Low == old.Requested.High) {
		old.Requested = m.Requested
	}
	if old.Device < 0 {
		old.Device = m.Device
	}
	if m.Cause == CausePlan {
		old.Cause, old.Format = m.Cause, m.Format
	}
	if m.Framework == "jax" {
		old.Framework = "jax"
	}
	return isCopy
}

func (m *Message) sizePointers() [9]*Size {
	return [9]*Size{&m.Requested, &m.Capacity, &m.Allocated, &m.Reserved, &m.Unallocated, &m.Free, &m.Limit, &m.LargestFree, &m.Plan}
}

// fingerprint is equal for copies of one message.
func fingerprint(m *Message) string {
	b := make([]byte, 0, 192)
	b = append(b, m.Framework...)
	b = append(b, '|')
	b = append(b, m.Format...)
	b = append(b, byte(m.Cause), byte(m.Device), byte(m.Device>>8))
	put := func(n int64) {
		for range 8 {
			b = append(b, byte(n))
			n >>= 8
		}
	}
	for _, s := range m.sizes() {
		if s.Known {
			put(s.Bytes)
		} else {
			b = append(b, '-')
		}
	}
	for _, o := range m.Others {
		put(int64(o.PID))
		put(o.Size.Bytes)
	}
	return string(b)
}

// dumpLine is told of a line of a dump; a dump without a message before it is a message of its own.
func (c *collector) dumpLine(number int, line []byte) {
	if c.dumpInto == 0 {
		m := Message{Line: number, Framework: "tensorflow", Device: -1, Cause: CausePool, Format: "TensorFlow BFC dump", Repeated: 1, Text: excerpt(line)}
		c.log.Messages = append(c.log.Messages, m)
		c.dumpInto = len(c.log.Messages)
	}
}

func (c *collector) applyDump() {
	if c.dumpInto > 0 {
		c.dump.apply(&c.log.Messages[c.dumpInto-1])
	}
}

func (c *collector) poolLimit(device int, limit Size) {
	if c.limits == nil {
		c.limits = make(map[int]Size)
	}
	if len(c.limits) < 64 {
		c.limits[device] = limit
	}
}

// atStart remembers what TensorFlow found on its device.
func (c *collector) atStart(total, free Size) {
	if !c.startTotal.Known {
		c.startTotal, c.startFree = total, free
	}
}

// orphan takes in a table's row; of several for one device the last counts.
func (c *collector) orphan(m Message) {
	for i := range c.orphans {
		if c.orphans[i].Device == m.Device {
			m.Line, m.Repeated = c.orphans[i].Line, c.orphans[i].Repeated+1
			c.orphans[i] = m
			return
		}
	}
	if len(c.orphans) < 64 {
		c.orphans = append(c.orphans, m)
	}
}

func (c *collector) summary(m Message) {
	for i := range c.summaries {
		if c.summaries[i].Device == m.Device {
			m.Line, m.Repeated = c.summaries[i].Line, c.summaries[i].Repeated+1
			c.summaries[i] = m
			return
		}
	}
	if len(c.summaries) < 64 {
		c.summaries = append(c.summaries, m)
	}
}

func (c *collector) note(kind NoteKind, line int) {
	n := &c.notes[kind]
	if n.Count == 0 {
		n.Kind, n.Line = kind, line
	}
	n.Count++
}

// finish settles what only the whole log can tell. A summary or a table speaks only where no message does.
func (c *collector) finish() Log {
	torch, numbers := false, false
	for i := range c.log.Messages {
		m := &c.log.Messages[i]
		torch = torch || m.Framework == "pytorch"
		numbers = numbers || m.known() > 0
		slices.Sort(m.Ranks)
	}
	if !torch {
		c.log.Messages = append(c.log.Messages, c.summaries...)
		numbers = numbers || len(c.summaries) > 0
	}
	if !numbers {
		c.settleOrphans()
	}
	if m, ok := c.growth.leak(); ok {
		if len(c.log.Messages) == 0 {
			c.log.Messages = append(c.log.Messages, m)
		} else {
			c.note(NoteGrowth, m.Line)
		}
	}
	sort.SliceStable(c.log.Messages, func(i, j int) bool { return c.log.Messages[i].Line < c.log.Messages[j].Line })
	for _, n := range c.notes {
		if n.Count > 0 {
			c.log.Notes = append(c.log.Notes, n)
		}
	}
	return c.log
}

// settleOrphans gives the memory that nobody holds to the messages that have no numbers of their own, for
// it is their likely reason; without such a message each device is a message of its own.
func (c *collector) settleOrphans() {
	given := false
	for i := range c.log.Messages {
		m := &c.log.Messages[i]
		if m.Cause != CauseMarker && m.Cause != CauseContext || len(c.orphans) == 0 {
			continue
		}
		o := &c.orphans[0]
		for k := range c.orphans {
			if c.orphans[k].Device == m.Device {
				o = &c.orphans[k]
			}
		}
		m.Cause, m.Capacity, m.Process = CauseOrphan, o.Capacity, o.Process
		if m.Device < 0 {
			m.Device = o.Device
		}
		given = true
	}
	if !given {
		c.log.Messages = append(c.log.Messages, c.orphans...)
	}
}
