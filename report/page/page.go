// Package page writes a recording as one HTML file that people open in a browser: what analyze says in words, and the
// recording itself to look into. The file has all that it needs in it. It asks nothing of a network, and its own policy
// forbids it to.
//
// The page shows every block of the recording. It carries them as columns of numbers (columns.go) and draws them itself,
// pixel by pixel, in the browser (assets/*.js): a million of them are too many for anything that draws shapes.
package page

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/simulate"
	"github.com/vramscope/vramscope/trace"
)

// Options say how a page is made.
type Options struct {
	Version string // of the program
	// Tunes are searches for better settings, by the number of the device; a device without one shows what analyze tried.
	Tunes map[int]*report.Tune
}

// Write writes the page of an analysis.
func Write(w io.Writer, a *report.Analysis, o Options) error {
	packed := newPacking()
	meta := metaJSON{Schema: "vramscope/page/v1", Version: o.Version, Devices: []deviceJSON{}}
	codes := newCodes(a.Trace.Stacks)
	devices := make([]*trace.Device, len(a.Devices))
	for i := range a.Devices {
		devices[i] = a.Devices[i].Trace
	}
	clocks := packClocks(a.Trace, devices)
	blocks := 0
	for i := range a.Devices {
		m := device(packed, codes, a, i)
		if c := clocks.list[i]; c != nil {
			m.Times, m.Tick = true, c.tick
		}
		blocks += m.Blocks
		meta.Devices = append(meta.Devices, m)
	}
	packed.begin()
	codes.pack(packed)
	packed.done()
	times, stride := clocks.into(room(blocks) - packed.size())
	for i := range meta.Devices {
		meta.Devices[i].Stride = stride
	}
	out := bufio.NewWriterSize(w, 1<<16)
	if err := writeBody(out, a, o); err != nil {
		return err
	}
	for _, b := range slices.Concat(packed.bundles, times.bundles) {
		writeBundle(out, b)
	}
	if err := writeScript(out, meta); err != nil {
		return err
	}
	return out.Flush()
}

// room is how many bytes columns may take before times are told less often: pages of a million blocks stay under ten
// megabytes.
func room(blocks int) int {
	return max(7<<20, 7*blocks)
}

// writeBundle writes columns as text in an element that a browser does not look into. What they are is told before it:
// of each its name, how many numbers it has, how many planes, and what all numbers are if it has none.
func writeBundle(out *bufio.Writer, b *bundle) {
	out.WriteString(`<script type="text/plain" data-columns="`)
	for i, c := range b.columns {
		if i > 0 {
			out.WriteByte(' ')
		}
		fmt.Fprintf(out, "%s:%d:%d:%d", c.name, c.count, c.width, c.same)
	}
	fmt.Fprintf(out, `" data-bytes="%d">`, len(b.data))
	const part = textBits * 1024 // bytes, of which whole pairs of characters are made
	var text []byte
	for data := b.data; len(data) > 0; {
		n := min(part, len(data))
		text = appendText(text[:0], data[:n])
		out.Write(text)
		data = data[n:]
	}
	out.WriteString("</script>\n")
}

type metaJSON struct {
	Schema  string       `json:"schema"`
	Version string       `json:"version"`
	Devices []deviceJSON `json:"devices"`
}

// deviceJSON says what the columns of a device mean. States are numbered as recording.go says.
type deviceJSON struct {
	Key        string       `json:"key"` // of its columns, and in links
	Index      int          `json:"device"`
	Title      string       `json:"title"`
	Content    string       `json:"content"`
	States     int          `json:"states"`
	Blocks     int          `json:"blocks"`
	Old        int          `json:"old"`     // blocks of state 0
	Waiting    []int        `json:"waiting"` // those of them that were freed already
	Waits      bool         `json:"waits"`   // some blocks wait for a stream once they are freed
	Frees      int          `json:"frees"`
	Completed  int          `json:"completions"`
	Unit       uint64       `json:"unit"` // bytes that addresses are multiples of
	Addresses  bool         `json:"addresses"`
	Extents    bool         `json:"extents"` // what was held is known
	Rounded    bool         `json:"rounded"` // what was asked for is not known
	Times      bool         `json:"times"`
	Tick       int64        `json:"tick"`   // nanoseconds
	Stride     int          `json:"stride"` // of so many events the time of one is told
	Streams    []string     `json:"streams"`
	Pools      []string     `json:"pools"`
	Roles      []string     `json:"roles"`
	Phases     []string     `json:"phases"`
	Moments    []momentJSON `json:"moments"`
	StepSource string       `json:"step_source"`
	Series     []seriesJSON `json:"series"`
}

// momentJSON is a state that somebody wants to see.
type momentJSON struct {
	Kind      string `json:"kind"` // allocated, reserved, asked, oom, end
	State     int    `json:"state"`
	Allocated *int64 `json:"allocated_bytes"`
	Reserved  *int64 `json:"reserved_bytes"`
	Requested *int64 `json:"requested_bytes"` // of a request that failed, if that was recorded
	Text      string `json:"text"`
}

type seriesJSON struct {
	Name string `json:"name"`
	Unit string `json:"unit"`
}

// prefixOf begins the names of the columns of a device.
func prefixOf(i int) string { return strconv.Itoa(i) + "/" }

// device adds the columns of a device, and says what they are.
func device(packed *packing, codes *codes, a *report.Analysis, i int) deviceJSON {
	key, prefix := strconv.Itoa(i), prefixOf(i)
	d := &a.Devices[i]
	dev := d.Trace
	packed.begin()
	b := gather(d, codes)
	list := extentsOf(d)
	unit := unitOf(b.addrs, list)
	b.pack(packed, prefix, unit)
	packExtents(packed, prefix, list, unit)
	packLevels(packed, prefix, d)
	packUses(packed, prefix, d)
	packSteps(packed, prefix, d)
	m := deviceJSON{
		Key: key, Index: d.Index, Title: title(d), Content: contents[dev.Content], States: b.states, Blocks: len(b.all), Old: b.old, Waiting: b.waiting, Waits: b.waits, Frees: b.frees, Completed: b.completions,
		Unit: unit, Addresses: len(b.addrs) > 1 || len(b.addrs) == 1 && b.addrs[0] != 0, Extents: len(list) > 0,
		Rounded: dev.Rounded, Tick: 1, Stride: 1,
		Streams: []string{}, Pools: []string{}, Roles: []string{}, Phases: []string{}, StepSource: d.Steps.Source,
	}
	m.Moments = moments(d)
	m.Series = packSeries(packed, prefix, dev)
	for i := range dev.Streams {
		m.Streams = append(m.Streams, report.StreamName(dev, trace.StreamID(i)))
	}
	pools := uint32(len(dev.Pools))
	for _, n := range b.pool {
		pools = max(pools, n+1)
	}
	for n := range pools {
		m.Pools = append(m.Pools, shown(report.PoolName(dev, n)))
	}
	if d.Roles != nil {
		m.Roles = append(m.Roles, d.Roles.Names...)
	}
	for ph := simulate.Phase(0); ph <= simulate.PhaseOptimizer; ph++ {
		m.Phases = append(m.Phases, ph.String())
	}
	return m
}

// contents are what a page calls the kinds of content.
var contents = map[trace.Content]string{
	trace.Decisions: "decisions", trace.Requests: "requests", trace.Instant: "instant", trace.Samples: "samples",
}

func title(d *report.Device) string {
	text := "Device " + strconv.Itoa(d.Index)
	if d.Trace.Name != "" {
		text += " · " + shown(d.Trace.Name)
	}
	return text
}

// moments lists the states that a person jumps to.
func moments(d *report.Device) []momentJSON {
	if d.Follow == nil {
		return []momentJSON{}
	}
	of := func(kind, text string, x report.Peak) momentJSON {
		m := momentJSON{Kind: kind, State: x.Event + 1, Text: text, Allocated: &x.Allocated}
		if x.Reserved > 0 || d.Trace.Content == trace.Decisions {
			m.Reserved = &x.Reserved
		}
		return m
	}
	list := []momentJSON{of("allocated", "Peak allocated", d.PeakAllocated), of("reserved", "Peak reserved", d.PeakReserved)}
	if list[1].Reserved == nil {
		list = list[:1]
	}
	if d.At != nil {
		list = append(list, of("asked", "The moment asked for", *d.At))
	}
	for i := range d.OOMs {
		o := &d.OOMs[i]
		m := momentJSON{Kind: "oom", State: o.Event + 1, Text: "Out of memory", Allocated: &o.Allocated, Reserved: &o.Reserved}
		if o.Requested > 0 {
			m.Requested = &o.Requested
		}
		list = append(list, m)
	}
	return append(list, of("end", "End", d.End))
}

// packSteps adds the steps of a device: their first state, how many they have, and what they are called.
func packSteps(p *packing, prefix string, d *report.Device) {
	steps := d.Steps.Steps
	from, length := make([]uint64, len(steps)), make([]uint32, len(steps))
	labels := make([]string, len(steps))
	last := 0
	for i, s := range steps {
		from[i], length[i] = uint64(max(0, s.From+1-last)), uint32(max(0, s.To-s.From))
		last = max(last, s.From+1)
		labels[i] = d.Steps.Label(i)
	}
	add(p, prefix+"step/from", from)
	add(p, prefix+"step/length", length)
	addTexts(p, prefix+"step/labels", labels)
}

// packSeries adds what was sampled.
func packSeries(p *packing, prefix string, dev *trace.Device) []seriesJSON {
	out := []seriesJSON{}
	if dev.Content != trace.Samples {
		return out
	}
	var start trace.Time
	for i := range dev.Series {
		if first, _ := dev.Series[i].Span(); i == 0 || first < start {
			start = first
		}
	}
	for i := range dev.Series {
		s := &dev.Series[i]
		name := fmt.Sprintf("%sseries/%d/", prefix, i)
		times, low, high := make([]uint64, len(s.Points)), make([]uint64, len(s.Points)), make([]uint64, len(s.Points))
		last := start
		for k, x := range s.Points {
			times[k], low[k], high[k] = uint64(max(0, x.Time-last)), zigzag(x.Low), zigzag(x.High)
			last = max(last, x.Time)
		}
		add(p, name+"time", times)
		add(p, name+"low", low)
		add(p, name+"high", high)
		out = append(out, seriesJSON{report.SeriesLabel(s), s.Quantity.Unit()})
	}
	return out
}

func writeScript(out *bufio.Writer, meta metaJSON) error {
	text, err := json.Marshal(meta) // with < as \u003c
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "<script type=\"application/json\" id=\"meta\">%s</script>\n<script type=\"module\">%s</script>\n</html>\n", text, script())
	return nil
}
