package report

import (
	"fmt"
	"io"
	"time"

	"github.com/vramscope/vramscope/allocators/caching/config"
	"github.com/vramscope/vramscope/simulate"
	"github.com/vramscope/vramscope/trace"
)

// Info is what a file is.
type Info struct {
	File     string
	Trace    *trace.Trace
	Complete bool // all devices begin with an empty allocator, and nothing contradicts that
	Devices  []DeviceInfo
}

// DeviceInfo counts what a device's part of a file has.
type DeviceInfo struct {
	Index         int
	Trace         *trace.Device
	Allocs, Frees int
	Span          time.Duration // 0 if the file has no times
	PeakAllocated int64         // bytes, negative if the file does not tell
	PeakReserved  int64         // bytes, negative if the file does not tell
}

// Inform looks at a trace.
func Inform(file string, t *trace.Trace) Info {
	info := Info{File: file, Trace: t, Complete: !t.Source.Cut}
	cfg, _ := simulate.SettingsOf(t, config.DefaultVersion)
	for i := range t.Devices {
		d := DeviceInfo{Index: t.Devices[i].Index, Trace: &t.Devices[i]}
		for _, e := range d.Trace.Events.All() {
			switch e.Op {
			case trace.OpAlloc:
				d.Allocs++
			case trace.OpFreeRequested, trace.OpFree:
				d.Frees++
			}
		}
		d.Frees -= d.Trace.Missing.Frees
		if n := d.Trace.Events.Len(); n > 0 {
			first, last := d.Trace.Events.At(0).Time, d.Trace.Events.At(n-1).Time
			if first > 0 && last > first {
				d.Span = time.Duration(last - first)
			}
		}
		switch d.Trace.Content {
		case trace.Samples, trace.Instant:
			d.PeakAllocated, d.PeakReserved = mostOf(d.Trace, trace.Allocated), mostOf(d.Trace, trace.AllocatorReserved)
		default:
			f := simulate.Follow(d.Trace, cfg, simulate.FollowOptions{Limit: -1})
			d.PeakAllocated, d.PeakReserved = f.PeakAllocated, f.PeakReserved
			if d.Trace.Content == trace.Requests && f.PeakReserved == 0 {
				d.PeakReserved = mostOf(d.Trace, trace.AllocatorReserved)
			}
			info.Complete = info.Complete && !f.Truncated && !contradicts(d.Trace)
		}
		info.Devices = append(info.Devices, d)
	}
	return info
}

type infoJSON struct {
	Schema string         `json:"schema"`
	Files  []infoFileJSON `json:"files"`
}

type infoFileJSON struct {
	File     string           `json:"file"`
	Format   string           `json:"format"`
	Producer *string          `json:"producer"`
	Complete bool             `json:"complete"`
	Warnings []WarningJSON    `json:"warnings"`
	Devices  []infoDeviceJSON `json:"devices"`
	Clock    string           `json:"clock"`
	Counts   []countJSON      `json:"counts"`
	Lacks    []lackJSON       `json:"lacks"`
	Beside   []besideJSON     `json:"beside"`
}

type infoDeviceJSON struct {
	Device        int           `json:"device"`
	Events        int           `json:"events"`
	Allocs        int           `json:"allocs"`
	Frees         int           `json:"frees"`
	SpanUS        *int64        `json:"span_us"`
	PeakAllocated *int64        `json:"peak_allocated_bytes"`
	PeakReserved  *int64        `json:"peak_reserved_bytes"`
	Streams       int           `json:"streams"`
	Pools         int           `json:"pools"`
	Segments      int           `json:"final_segments"`
	Warnings      []WarningJSON `json:"warnings"`
	Content       string        `json:"content"`
	Name          *string       `json:"name"`
	UUID          *string       `json:"uuid"`
	Capacity      *int64        `json:"capacity_bytes"`
	Series        []seriesJSON  `json:"series"`
	Live          *liveJSON     `json:"live"`
}

// WriteInfoJSON renders infos for programs, schema vramscope/info/v1.
func WriteInfoJSON(w io.Writer, infos []Info) error {
	out := infoJSON{Schema: "vramscope/info/v1", Files: []infoFileJSON{}}
	for _, i := range infos {
		f := infoFileJSON{File: i.File, Format: i.Trace.Source.Format, Producer: known(i.Trace.Source.Producer), Complete: i.Complete,
			Warnings: Warnings(i.Trace.Warnings), Devices: []infoDeviceJSON{}, Clock: i.Trace.Source.Clock.String(),
			Counts: countList(i.Trace.Source.Counts), Lacks: lackList(i.Trace.Source.Lacks), Beside: besideList(i.Trace)}
		for _, d := range i.Devices {
			f.Warnings = append(f.Warnings, Warnings(d.Trace.Warnings)...)
			f.Devices = append(f.Devices, infoDeviceJSON{
				Device: d.Index, Events: d.Trace.Recorded(), Allocs: d.Allocs, Frees: d.Frees, SpanUS: atLeast(d.Span.Microseconds(), 1),
				PeakAllocated: atLeast(d.PeakAllocated, 0), PeakReserved: atLeast(d.PeakReserved, 0), Streams: len(d.Trace.Streams), Pools: len(d.Trace.Pools),
				Segments: len(d.Trace.Final.Segments), Warnings: Warnings(d.Trace.Warnings),
				Content: contents[d.Trace.Content], Name: known(d.Trace.Name), UUID: known(d.Trace.UUID), Capacity: atLeast(d.Trace.Capacity, 1),
				Series: seriesList(d.Trace.Series, i.Trace.Source.Clock), Live: liveOf(d.Trace),
			})
		}
		out.Files = append(out.Files, f)
	}
	return WriteJSON(w, out)
}

// WriteInfoText renders infos for people.
func WriteInfoText(w io.Writer, infos []Info, style Style) error {
	p := &page{w: w, style: style}
	for n, i := range infos {
		if n > 0 {
			p.line("")
		}
		head := i.File + " · " + i.Trace.Source.Format
		if i.Trace.Source.Producer != "" {
			head += " · " + i.Trace.Source.Producer
		}
		p.line("%s", p.bold(head))
		if line := i.begins(); line != "" {
			p.line("%s", line)
		}
		if s := i.Trace.Settings; s.Known {
			conf := s.Conf
			if conf == "" {
				conf = "default"
			}
			p.line("settings: %s", conf)
		}
		p.fence()
		for _, d := range i.Devices {
			p.infoDevice(i.Trace, d)
		}
		p.besides(i.Trace)
		p.fence()
		for _, x := range i.Trace.Warnings {
			p.line("- %s", showWarning(x))
		}
		for _, d := range i.Devices {
			for _, x := range d.Trace.Warnings {
				p.line("- device %d: %s", d.Index, showWarning(x))
			}
		}
		p.lacks(i.Trace.Source)
	}
	return p.err
}

// begins says in what state a recording begins, nothing where it has no events.
func (i *Info) begins() string {
	events := false
	for _, d := range i.Devices {
		events = events || d.Trace.Content == trace.Decisions || d.Trace.Content == trace.Requests
	}
	switch {
	case len(i.Devices) == 0:
		return "no device has memory or events"
	case !events:
		return ""
	case i.Complete:
		return "complete: recording began before anything was allocated"
	}
	for _, d := range i.Devices {
		if d.Trace.Content == trace.Decisions {
			return "begins in the middle of a run: what was there before is reconstructed from the end"
		}
	}
	return "not complete: it begins or ends in the middle of a run"
}

// infoDevice writes what there is of a device.
func (p *page) infoDevice(t *trace.Trace, d DeviceInfo) {
	title := fmt.Sprintf("  device %d", d.Index)
	if d.Trace.Name != "" {
		title += " (" + d.Trace.Name + ")"
	}
	switch d.Trace.Content {
	case trace.Samples:
		p.line("%s: %s", title, sampled(d.Trace.Series, t.Source.Clock))
		p.series(d.Trace.Series, t.Source.Clock)
		return
	case trace.Instant:
		p.line("%s: %s", title, liveLine(d.Trace))
		if severalInstants(d.Trace) {
			p.series(d.Trace.Series, t.Source.Clock)
		}
		return
	}
	span := ""
	if d.Span > 0 {
		span = " over " + Span(d.Span)
	}
	peak := "peak " + Bytes(d.PeakAllocated) + " allocated"
	if d.PeakReserved >= 0 {
		peak += ", " + Bytes(d.PeakReserved) + " reserved"
	}
	p.line("%s: %s%s, %s, %s; %s", title, plural(d.Trace.Recorded(), "event"), span,
		plural(d.Allocs, "alloc"), plural(d.Frees, "free"), peak)
	var more []string
	if len(d.Trace.Streams) > 1 {
		more = append(more, plural(len(d.Trace.Streams), "stream"))
	}
	if len(d.Trace.Pools) > 1 {
		more = append(more, poolNames(d.Trace))
	}
	if len(more) > 0 {
		p.line("            %s", join(more))
	}
}

// mostOf is the most that a series of a device ever was, -1 if there is none.
func mostOf(d *trace.Device, q trace.Quantity) int64 {
	most := int64(-1)
	if s := trace.FindSeries(d.Series, q); s != nil && s.Samples > 0 {
		most = s.Max
	}
	if s := trace.FindSeries(d.Series, trace.LifetimePeak); s != nil && q == trace.Allocated {
		most = max(most, s.Max)
	}
	return most
}

func showWarning(w trace.Warning) string {
	if w.Count > 1 {
		return fmt.Sprintf("%s (×%s)", w.Message, Count(w.Count))
	}
	return w.Message
}

func join(parts []string) string {
	s := ""
	for i, p := range parts {
		if i > 0 {
			s += ", "
		}
		s += p
	}
	return s
}
