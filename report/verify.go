package report

import (
	"io"
	"path/filepath"

	"github.com/vramscope/vramscope/allocators/caching"
	"github.com/vramscope/vramscope/allocators/caching/config"
	"github.com/vramscope/vramscope/simulate"
	"github.com/vramscope/vramscope/trace"
)

// Verification is how far the model reproduces a recording.
type Verification struct {
	File    string
	Devices []VerifiedDevice
}

// VerifiedDevice is one device of it.
type VerifiedDevice struct {
	Index    int
	Trace    *trace.Device
	Follow   *simulate.Following
	Recorded int64 // reserved bytes at the end as the file has them, -1 if it does not
}

// Verify follows all devices of a trace, or the one in o.
func Verify(file string, t *trace.Trace, o Options) *Verification {
	cfg, _ := simulate.SettingsOf(t, config.DefaultVersion)
	v := &Verification{File: file}
	for i := range t.Devices {
		d := &t.Devices[i]
		if o.Device >= 0 && d.Index != o.Device {
			continue
		}
		f := simulate.Follow(d, cfg, simulate.FollowOptions{Limit: o.Limit, Memory: o.Memory})
		v.Devices = append(v.Devices, VerifiedDevice{Index: d.Index, Trace: d, Follow: f, Recorded: recordedReserved(d)})
	}
	return v
}

func recordedReserved(d *trace.Device) int64 {
	if !d.HasFinal {
		return -1
	}
	var sum int64
	for _, s := range d.Final.Segments {
		sum += s.Size
	}
	return sum
}

// Exact says whether everything matches.
func (v *Verification) Exact() bool {
	for i := range v.Devices {
		if !v.Devices[i].Exact() {
			return false
		}
	}
	return true
}

// Exact says whether everything of the device matches.
func (d *VerifiedDevice) Exact() bool {
	return d.Follow.Score.Exact() && (d.Recorded < 0 || d.Recorded == d.Follow.Model.Reserved())
}

type verifyJSON struct {
	Schema  string             `json:"schema"`
	File    string             `json:"file"`
	Devices []verifyDeviceJSON `json:"devices"`
}

type verifyDeviceJSON struct {
	Device      int               `json:"device"`
	Events      int               `json:"events"`
	Placements  tallyJSON         `json:"placements"`
	Segments    tallyJSON         `json:"segments"`
	OOMs        tallyJSON         `json:"ooms"`
	FinalBlocks tallyJSON         `json:"final_blocks"`
	Reserved    reservedJSON      `json:"reserved_bytes"`
	Retries     retriesJSON       `json:"retries"`
	Exact       bool              `json:"exact"`
	First       *mismatchJSON     `json:"first_mismatch"`
	Assumptions []string          `json:"assumptions"`
	Statistics  map[string]*int64 `json:"statistics"`
}

type tallyJSON struct {
	Checked int `json:"checked"`
	Matched int `json:"matched"`
}

type reservedJSON struct {
	Replayed int64  `json:"replayed"`
	Recorded *int64 `json:"recorded"`
}

type retriesJSON struct {
	Replayed int64 `json:"replayed"`
	Certain  bool  `json:"certain"`
}

type mismatchJSON struct {
	Event    int    `json:"event"`
	What     string `json:"what"`
	Expected string `json:"expected"`
	Got      string `json:"got"`
}

// WriteJSON renders a verification for programs, schema vramscope/verify/v1.
func (v *Verification) WriteJSON(w io.Writer) error {
	out := verifyJSON{Schema: "vramscope/verify/v1", File: v.File, Devices: []verifyDeviceJSON{}}
	for i := range v.Devices {
		d := &v.Devices[i]
		s := &d.Follow.Score
		j := verifyDeviceJSON{
			Device: d.Index, Events: s.Events, Placements: tallyJSON(s.Placements), Segments: tallyJSON(s.Segments), OOMs: tallyJSON(s.OOMs),
			FinalBlocks: tallyJSON(s.Blocks), Reserved: reservedJSON{d.Follow.Model.Reserved(), atLeast(d.Recorded, 0)},
			Retries: retriesJSON{d.Follow.Model.Detail().NumAllocRetries, s.Retries}, Exact: d.Exact(),
			Assumptions: append([]string{}, s.Assumed...), Statistics: Statistics(d.Follow),
		}
		if m := s.First; m != nil {
			j.First = &mismatchJSON{m.Event, m.What, m.Expected, m.Got}
		}
		out.Devices = append(out.Devices, j)
	}
	return WriteJSON(w, out)
}

// Statistics are the allocator's own figures by the keys of torch.cuda.memory_stats(). What the recording
// cannot tell because it does not begin with an empty allocator is nil.
func Statistics(f *simulate.Following) map[string]*int64 {
	d := f.Model.Detail()
	out := map[string]*int64{}
	put := func(key string, n int64, known bool) {
		if known {
			out[key] = &n
		} else {
			out[key] = nil
		}
	}
	whole := !f.Truncated
	counter := func(key string, c caching.Counter) {
		put(key+".current", c.Current, true)
		put(key+".peak", c.Peak, whole)
		put(key+".allocated", c.Allocated, whole)
		put(key+".freed", c.Freed, whole)
	}
	for key, m := range map[string]caching.Metric{
		"allocation": d.Allocation, "segment": d.Segment, "active": d.Active, "inactive_split": d.InactiveSplit,
		"allocated_bytes": d.AllocatedBytes, "reserved_bytes": d.ReservedBytes, "active_bytes": d.ActiveBytes,
		"inactive_split_bytes": d.InactiveSplitBytes, "requested_bytes": d.RequestedBytes,
	} {
		counter(key+".all", m[caching.All])
		counter(key+".small_pool", m[caching.SmallPool])
		counter(key+".large_pool", m[caching.LargePool])
	}
	counter("oversize_allocations", d.OversizeAllocations)
	counter("oversize_segments", d.OversizeSegments)
	put("num_ooms", d.NumOOMs, whole)
	put("num_alloc_retries", d.NumAllocRetries, whole && f.Score.Retries)
	put("num_device_alloc", d.NumDeviceAlloc, whole)
	put("num_device_free", d.NumDeviceFree, whole)
	return out
}

// WriteText renders a verification for people.
func (v *Verification) WriteText(w io.Writer, style Style) error {
	p := &page{w: w, style: style}
	for i := range v.Devices {
		d := &v.Devices[i]
		s := &d.Follow.Score
		verdict := "reproduced exactly"
		if !d.Exact() {
			verdict = "NOT reproduced"
		}
		if i > 0 {
			p.line("")
		}
		p.line("%s", p.bold(filepath.Base(v.File)+" · device "+Count(d.Index)+": "+verdict))
		tally := func(what string, t simulate.Tally) {
			if t.Checked > 0 {
				p.line("  %11s of %11s  %s", Count(t.Matched), Count(t.Checked), what)
			}
		}
		p.fence()
		tally("blocks placed at the recorded address", s.Placements)
		tally("segments taken and given back as recorded, in order", s.Segments)
		tally("out-of-memory events", s.OOMs)
		tally("blocks of the final state", s.Blocks)
		p.line("  %s reserved at the end, %s", Bytes(d.Follow.Model.Reserved()), recordedText(d))
		p.fence()
		if m := s.First; m != nil {
			p.line("First difference at event %s: %s.", Count(m.Event), m.What)
			p.line("  the model:     %s", m.Expected)
			p.line("  the recording: %s", m.Got)
		}
		if s.Repairs > 0 {
			p.line("- the sizes of %s older than the recording were inferred from later placements", plural(s.Repairs, "block"))
		}
		if s.Unscored > 0 {
			p.line("- the first %s were not counted: the recording may have begun inside a request", plural(s.Unscored, "event"))
		}
		for _, a := range s.Assumed {
			p.line("- %s", a)
		}
	}
	if len(v.Devices) == 0 {
		p.line("%s: no device has memory or events", v.File)
	}
	return p.err
}

func recordedText(d *VerifiedDevice) string {
	switch {
	case d.Recorded < 0:
		return "the file does not say how much it was"
	case d.Recorded == d.Follow.Model.Reserved():
		return "as recorded"
	}
	return "recorded " + Bytes(d.Recorded)
}
