package report_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/trace/source"
)

const (
	mebi = int64(1) << 20
	gibi = int64(1) << 30
)

// held is what some device held, worked out by hand from the file.
type held struct {
	device       int
	peak         int64
	event        int // -1 for before the first
	before, bare int64
	stacks       map[string]int64 // at the peak, by the line that allocated
	reserved     int64
	end          int64
	endReserved  int64
	requested    int64 // 0: the same as peak
	events       int
}

// What other tools get wrong, or do not open at all.
var unusual = []struct {
	file     string
	complete bool
	codes    []string // of warnings, besides no-settings
	devices  []held
}{
	// 10 GiB older than the recording are freed in it, then 4 GiB are asked for.
	{"freed_early", false, []string{"starts-in-mid-run"}, []held{
		{peak: 10 * gibi, event: -1, before: 10 * gibi, reserved: 10 * gibi, end: 4 * gibi, endReserved: 10 * gibi, events: 3}}},
	// Each device has its own.
	{"two_devices", false, []string{"starts-in-mid-run"}, []held{
		{device: 0, peak: gibi, event: 1, stacks: map[string]int64{"train.py:5": gibi}, reserved: gibi, end: gibi, endReserved: gibi, events: 2},
		{device: 1, peak: 40 * gibi, event: 1, stacks: map[string]int64{"train.py:6": 38 * gibi, "train.py:7": 2 * gibi}, reserved: 40 * gibi,
			end: 38 * gibi, endReserved: 40 * gibi, events: 4}}},
	{"device_gap", false, nil, []held{
		{device: 0, peak: gibi, event: -1, stacks: map[string]int64{"train.py:5": gibi}, reserved: gibi, end: gibi, endReserved: gibi},
		{device: 3, peak: 2 * gibi, event: 1, stacks: map[string]int64{"train.py:6": 2 * gibi}, reserved: 2 * gibi, end: 2 * gibi, endReserved: 2 * gibi, events: 2}}},
	{"no_history", false, []string{"no-events"}, []held{
		{peak: 4 * gibi, event: -1, stacks: map[string]int64{"train.py:5": 4 * gibi}, reserved: 4 * gibi, end: 4 * gibi, endReserved: 4 * gibi}}},
	// 30 GiB of weights that nothing touches count.
	{"weights", false, []string{"starts-in-mid-run"}, []held{
		{peak: 31 * gibi, event: 1, before: 30 * gibi, stacks: map[string]int64{"train.py:9": gibi}, reserved: 31 * gibi, end: 31 * gibi, endReserved: 31 * gibi, events: 2}}},
	{"no_frames", true, []string{"no-times"}, []held{
		{peak: gibi, event: 1, bare: gibi, reserved: gibi, end: gibi, endReserved: gibi, events: 2}}},
	// One address is allocated twice: there is one block at a time.
	{"lost_free", false, []string{"alloc-at-live-address"}, []held{
		{peak: gibi, event: 1, stacks: map[string]int64{"train.py:1": gibi}, reserved: gibi, end: gibi, endReserved: gibi, events: 3}}},
	{"lost_free_at_end", false, []string{"not-in-final"}, []held{
		{peak: gibi, event: 1, stacks: map[string]int64{"train.py:1": gibi}, reserved: gibi, endReserved: gibi, events: 2}}},
	{"freed_twice", false, []string{"free-twice"}, []held{
		{peak: 16 * mebi, event: 2, stacks: map[string]int64{"train.py:1": 8 * mebi, "train.py:2": 8 * mebi}, reserved: 20 * mebi, end: 8 * mebi, endReserved: 20 * mebi, events: 6}}},
	{"only_completed", false, []string{"completed-without-request"}, []held{
		{peak: 16 * mebi, event: 4, stacks: map[string]int64{"train.py:2": 8 * mebi, "train.py:3": 8 * mebi}, reserved: 20 * mebi, end: 8 * mebi, endReserved: 20 * mebi, events: 7}}},
	// The forms of old versions: a bare list, blocks without addresses, stacks in a history, no times.
	{"torch_1_13", false, []string{"no-events"}, []held{
		{peak: 3*mebi + 1024, event: -1, stacks: map[string]int64{"train.py:4": 3 * mebi, "train.py:8": 1024}, reserved: 22 * mebi,
			end: 3*mebi + 1024, endReserved: 22 * mebi, requested: 3*mebi - 100 + 1000}}},
	{"torch_2_0", true, []string{"no-times"}, []held{
		{peak: 8 * mebi, event: 2, stacks: map[string]int64{"train.py:4": 3 * mebi, "train.py:6": 5 * mebi}, reserved: 20 * mebi,
			end: 3 * mebi, endReserved: 20 * mebi, requested: 8*mebi - 100, events: 5}}},
	{"one_line_1", true, nil, []held{
		{peak: gibi, event: 1, stacks: map[string]int64{"train.py:5": gibi}, reserved: gibi, end: gibi, endReserved: gibi, events: 2}}},
	{"one_line_9", true, nil, []held{
		{peak: 9 * gibi, event: 1, stacks: map[string]int64{"train.py:5": 9 * gibi}, reserved: 9 * gibi, end: 9 * gibi, endReserved: 9 * gibi, events: 2}}},
}

// analysis and info are the parts of the documents that are looked at.
type analysis struct {
	Source struct {
		Complete bool
		Events   int
		Warnings []struct{ Code string }
	}
	Devices []struct {
		Device int
		Peak   struct {
			Bytes, Reserved_bytes, Requested_bytes, Before_recording_bytes, Unattributed_bytes int64
			Event                                                                              *int
			By_stack                                                                           []stackBytes
		} `json:"peak_allocated"`
		Reserved struct{ Bytes, Allocated_bytes int64 } `json:"peak_reserved"`
		End      struct {
			Allocated_bytes, Reserved_bytes, Before_recording_bytes, Unattributed_bytes int64
			By_stack                                                                    []stackBytes
		}
		Fragmentation *struct{ Stranded_bytes, Cached_bytes, Pending_bytes int64 }
	}
}

type stackBytes struct {
	Stack []string
	Bytes int64
}

func TestUnusual(t *testing.T) {
	for _, c := range unusual {
		t.Run(c.file, func(t *testing.T) {
			file := filepath.Join("testdata", "unusual", c.file+".json")
			tr, err := source.Open(file, source.Options{})
			if err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			if err := report.Analyze(file, tr, report.Options{Limit: -1, Device: -1, Replay: true}).WriteJSON(&b); err != nil {
				t.Fatal(err)
			}
			var a analysis
			if err := json.Unmarshal(b.Bytes(), &a); err != nil {
				t.Fatal(err)
			}
			var codes []string
			for _, w := range a.Source.Warnings {
				if w.Code != "no-settings" {
					codes = append(codes, w.Code)
				}
			}
			if !slices.Equal(codes, c.codes) || a.Source.Complete != c.complete {
				t.Errorf("complete %v, warnings %v; want %v, %v", a.Source.Complete, codes, c.complete, c.codes)
			}
			if len(a.Devices) != len(c.devices) {
				t.Fatalf("%d devices, want %d", len(a.Devices), len(c.devices))
			}
			info := report.Inform(file, tr)
			if info.Complete != c.complete {
				t.Errorf("info: complete %v", info.Complete)
			}
			for i, want := range c.devices {
				if want.stacks == nil {
					want.stacks = map[string]int64{}
				}
				if want.requested == 0 {
					want.requested = want.peak
				}
				d := a.Devices[i]
				got := held{device: d.Device, peak: d.Peak.Bytes, event: -1, before: d.Peak.Before_recording_bytes, bare: d.Peak.Unattributed_bytes,
					stacks: byLine(d.Peak.By_stack), reserved: d.Reserved.Bytes, end: d.End.Allocated_bytes, endReserved: d.End.Reserved_bytes,
					requested: d.Peak.Requested_bytes, events: info.Devices[i].Trace.Recorded()}
				if d.Peak.Event != nil {
					got.event = *d.Peak.Event
				}
				if fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("device %d:\n got %+v\nwant %+v", d.Device, got, want)
				}
				if s := sum(d.Peak.By_stack) + d.Peak.Before_recording_bytes + d.Peak.Unattributed_bytes; s != d.Peak.Bytes {
					t.Errorf("the parts of the peak add up to %d", s)
				}
				if s := sum(d.End.By_stack) + d.End.Before_recording_bytes + d.End.Unattributed_bytes; s != d.End.Allocated_bytes {
					t.Errorf("the parts of the end add up to %d", s)
				}
				if f := d.Fragmentation; f == nil || f.Stranded_bytes+f.Cached_bytes+f.Pending_bytes != d.Reserved.Bytes-d.Reserved.Allocated_bytes {
					t.Errorf("%d reserved, %d of it allocated, but %+v", d.Reserved.Bytes, d.Reserved.Allocated_bytes, f)
				}
				if x := info.Devices[i]; x.PeakAllocated != want.peak || x.PeakReserved != want.reserved {
					t.Errorf("info: peaks %d and %d", x.PeakAllocated, x.PeakReserved)
				}
			}
		})
	}
}

// byLine adds up by the innermost line.
func byLine(list []stackBytes) map[string]int64 {
	out := map[string]int64{}
	for _, s := range list {
		line, _, _ := strings.Cut(filepath.Base(s.Stack[0]), " ")
		out[line] += s.Bytes
	}
	return out
}

func sum(list []stackBytes) (n int64) {
	for _, s := range list {
		n += s.Bytes
	}
	return n
}

// Blocks that live long and go in the order in which they came cost no more than others.
func TestFirstInFirstOut(t *testing.T) {
	const n = 50_000
	var b strings.Builder
	b.WriteString(`{"device_traces": [[`)
	at := func(i int) int { return 0x7f0000000000 + i*512 }
	for i := range n {
		if i%4096 == 0 {
			fmt.Fprintf(&b, `{"action": "segment_alloc", "addr": %d, "size": 2097152, "stream": 0}, `, at(i))
		}
		fmt.Fprintf(&b, `{"action": "alloc", "addr": %d, "size": 512, "stream": 0}, `, at(i))
	}
	for i := range n {
		for _, op := range []string{"free_requested", "free_completed"} {
			fmt.Fprintf(&b, `{"action": "%s", "addr": %d, "size": 512, "stream": 0}, `, op, at(i))
		}
	}
	data := strings.TrimSuffix(b.String(), ", ") + "]]}"
	begin := time.Now()
	tr, err := source.Read(strings.NewReader(data), int64(len(data)), source.Options{})
	if err != nil {
		t.Fatal(err)
	}
	a := report.Analyze("x", tr, report.Options{Limit: -1, Device: -1})
	if d := a.Devices[0]; d.PeakAllocated.Allocated != n*512 || d.End.Allocated != 0 || d.PeakReserved.Reserved != (n+4095)/4096*2*mebi {
		t.Errorf("%+v, %+v, %+v", d.PeakAllocated, d.PeakReserved, d.End)
	}
	if took := time.Since(begin); took > 20*time.Second {
		t.Errorf("took %v", took)
	}
}
