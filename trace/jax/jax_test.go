package jax

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
	"github.com/klauspost/compress/gzip"

	"github.com/vramscope/vramscope/trace"
)

func read(data []byte) (*trace.Trace, error) {
	return Read(bufio.NewReaderSize(bytes.NewReader(data), 64<<10))
}

// sample is one of a profile's.
type sample struct {
	count, bytes int64
	kind, device string
	stack        []string // innermost first
}

// write makes a profile as JAX does.
func write(t testing.TB, samples []sample, types ...string) []byte {
	p := &profile.Profile{SampleType: []*profile.ValueType{{Type: types[0], Unit: types[1]}, {Type: types[2], Unit: types[3]}}}
	known := map[string]*profile.Location{}
	for _, s := range samples {
		v := &profile.Sample{Value: []int64{s.count, s.bytes}, Label: map[string][]string{"kind": {s.kind}}}
		if s.device != "" {
			v.Label["device"] = []string{s.device}
		}
		for _, name := range s.stack {
			l := known[name]
			if l == nil {
				f := &profile.Function{ID: uint64(len(known) + 1), Name: name, Filename: "/home/somebody/" + name + ".py"}
				l = &profile.Location{ID: f.ID, Line: []profile.Line{{Function: f, Line: 7}}}
				known[name] = l
				p.Function = append(p.Function, f)
				p.Location = append(p.Location, l)
			}
			v.Location = append(v.Location, l)
		}
		p.Sample = append(p.Sample, v)
	}
	var b bytes.Buffer
	if err := p.WriteUncompressed(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

var jaxTypes = []string{"allocations", "count", "space", "bytes"}

func totals(d *trace.Device) (all, buffers, blocks int64) {
	for _, g := range d.Final.Groups {
		all += g.Bytes
		blocks += g.Blocks
		if g.Kind == "buffer" {
			buffers += g.Bytes
		}
	}
	return all, buffers, blocks
}

// The shape of published profiles: buffers and executables, rows without bytes; 87 samples of 1,055,160 bytes, of which
// 32,064 are buffers.
func TestProfile(t *testing.T) {
	samples := []sample{{2, 32_000, "buffer", "gpu:0", []string{"make", "main"}}, {1, 64, "buffer", "gpu:0", []string{"main"}}}
	for i := range 84 {
		n := int64(12_000)
		if i == 0 {
			n = 1_055_160 - 32_064 - 83*12_000
		}
		samples = append(samples, sample{1, n, "executable", "", []string{"compile", fmt.Sprint("f", i), "main"}})
	}
	samples = append(samples, sample{0, 0, "buffer", "gpu:0", []string{"main"}})
	tr, err := read(write(t, samples, jaxTypes...))
	if err != nil {
		t.Fatal(err)
	}
	d := &tr.Devices[0]
	if all, buffers, blocks := totals(d); len(d.Final.Groups) != 87 || all != 1_055_160 || buffers != 32_064 || blocks != 87 {
		t.Errorf("%d samples, %d, %d, %d", len(d.Final.Groups), all, buffers, blocks)
	}
	if got := fmt.Sprint(tr.Stacks.Stack(d.Final.Groups[0].Stack)); got != "[{/home/somebody/make.py make 7} {/home/somebody/main.py main 7}]" {
		t.Error(got)
	}
	if len(tr.Warnings) != 0 || d.Index != 0 || d.Content != trace.Instant {
		t.Errorf("%v %+v", tr.Warnings, d.Index)
	}
}

// With several devices executables are of none of them.
func TestDevices(t *testing.T) {
	tr, err := read(write(t, []sample{{1, 10, "buffer", "cuda:1", nil}, {1, 20, "buffer", "TPU_3(process=0,(1,0,0,0))", nil}, {1, 5, "executable", "", nil}, {-1, 5, "buffer", "x", nil}}, jaxTypes...))
	if err != nil {
		t.Fatal(err)
	}
	if len(tr.Devices) != 2 || tr.Devices[0].Index != 1 || tr.Devices[1].Index != 3 || len(tr.Beside) != 1 || len(tr.Warnings) != 1 {
		t.Errorf("%+v %+v", tr.Devices, tr.Beside)
	}
}

func TestOthers(t *testing.T) {
	heap := write(t, []sample{{1, 10, "", "", nil}}, "inuse_objects", "count", "inuse_space", "bytes")
	if _, err := read(heap); !errors.Is(err, trace.ErrUnrecognized) || err == trace.ErrUnrecognized || !strings.Contains(err.Error(), "save_device_memory_profile") {
		t.Errorf("heap profile of Go: %v", err)
	}
	for _, data := range []string{"", "text\n", "{}", `{"a":1}`, "\x0a\x04text"} {
		if _, err := read([]byte(data)); err != trace.ErrUnrecognized {
			t.Errorf("%q: %v", data, err)
		}
	}
	whole := write(t, []sample{{1, 10, "buffer", "gpu:0", []string{"a", "b"}}}, jaxTypes...)
	for n := 6; n < len(whole); n++ {
		if tr, err := read(whole[:n]); err == nil && len(tr.Devices) > 0 {
			if all, _, _ := totals(&tr.Devices[0]); all != 10 {
				t.Errorf("cut to %d: %d bytes", n, all)
			}
		} else if err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("cut to %d: %q", n, err)
		}
	}
}

// xprofJSON is a profile of one allocator: every allocation and free, or only every n-th.
func xprofJSON(every int) string {
	var b strings.Builder
	b.WriteString(`{"memoryIds":["GPU_0_bfc"],"memoryProfilePerAllocator":{"GPU_0_bfc":{"memoryProfileSnapshots":[`)
	heap, first := int64(1000*256), true
	for i := range 20 {
		kind, size := "ALLOCATION", int64(256*(i/2+1))
		if i%2 == 1 {
			kind = "DEALLOCATION"
			heap -= size
		} else {
			heap += size
		}
		if i%every != 0 {
			continue
		}
		if !first {
			b.WriteString(",")
		}
		first = false
		fmt.Fprintf(&b, `{"activityMetadata":{"memoryActivity":"%s","requestedBytes":"%d","allocationBytes":"%d","address":"140000000%03d","tfOpName":"op%d","stepId":"7","regionType":"temp","dataType":"float","tensorShape":"[2]"},
"aggregationStats":{"stackReservedBytes":"0","heapAllocatedBytes":"%d","freeMemoryBytes":"%d","fragmentation":0.25,"peakBytesInUse":"300000"},"timeOffsetPs":"%d"}`,
			kind, size-8, size, i/2, i/2, heap, 1<<20-heap, 1_000_000*(i+1))
	}
	b.WriteString(`],"profileSummary":{"peakBytesUsageLifetime":"999999","peakStats":{"peakBytesInUse":"300000"},"peakStatsTimePs":"3000000","memoryCapacity":"1048576"},
"activeAllocations":[{"snapshotIndex":"0","numOccurrences":"1"},{"snapshotIndex":"-1","specialIndex":"0","numOccurrences":"2"}],
"specialAllocations":[{"memoryActivity":"ALLOCATION","allocationBytes":"128000","tfOpName":"preallocated/unknown"}],
"sampledTimelineSnapshots":[]}},"numHosts":1,"version":1}`)
	return b.String()
}

func TestXProf(t *testing.T) {
	tr, err := read([]byte(xprofJSON(1)))
	if err != nil {
		t.Fatal(err)
	}
	d := &tr.Devices[0]
	if d.Content != trace.Requests || d.Events.Len() != 20 || d.NumBlocks != 10 || d.Capacity != 1<<20 || d.Name != "GPU_0_bfc" || len(d.Warnings) != 0 {
		t.Errorf("%v %d events, %d blocks, %v", d.Content, d.Events.Len(), d.NumBlocks, d.Warnings)
	}
	if e := d.Events.At(2); e.Time != 3000 || e.Size != 512 || e.Addr != 140000000001 {
		t.Errorf("%+v", e)
	}
	if s := trace.FindSeries(d.Series, trace.LifetimePeak); s == nil || s.Max != 999999 {
		t.Errorf("%+v", s)
	}
	if all, _, blocks := totals(d); all != 256+2*128000 || blocks != 3 {
		t.Errorf("at the peak %d bytes in %d", all, blocks)
	}
	// A sample is no recording.
	tr, err = read([]byte(xprofJSON(3)))
	if err != nil {
		t.Fatal(err)
	}
	if d := &tr.Devices[0]; d.Content != trace.Samples || d.Events.Len() != 0 || d.Series[0].Samples != 7 {
		t.Errorf("%v %d events", d.Content, d.Events.Len())
	}
}

// Frees with negative sizes are frees.
func TestXProfSigns(t *testing.T) {
	const text = `{"memoryIds":["GPU_0_bfc"],"numHosts":1,"version":1,"memoryProfilePerAllocator":{"GPU_0_bfc":{"memoryProfileSnapshots":[
{"timeOffsetPs":"1000000","aggregationStats":{"heapAllocatedBytes":"512","freeMemoryBytes":"1024"},"activityMetadata":{"memoryActivity":"ALLOCATION","requestedBytes":"500","allocationBytes":"512","address":"4096"}},
{"timeOffsetPs":"2000000","aggregationStats":{"heapAllocatedBytes":"0","freeMemoryBytes":"1536"},"activityMetadata":{"memoryActivity":"DEALLOCATION","requestedBytes":"-500","allocationBytes":"-512","address":"4096"}}],
"profileSummary":{"memoryCapacity":"42000000000","peakBytesUsageLifetime":"512"}}}}`
	tr, err := read([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if d := &tr.Devices[0]; d.Events.Len() != 2 || d.NumBlocks != 1 || len(tr.Warnings)+len(d.Warnings) != 0 {
		t.Errorf("%d events of %d blocks, %v %v", d.Events.Len(), d.NumBlocks, tr.Warnings, d.Warnings)
	}
}

// The shape of a profile of a TPU: a timeline of 421 points and nothing else.
func TestXProfTimeline(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"memoryIds":["0"],"numHosts":1,"version":1,"memoryProfilePerAllocator":{"0":{"memoryProfileSnapshots":[],
"profileSummary":{"peakBytesUsageLifetime":"3346865408","memoryCapacity":"102803439616"},"sampledTimelineSnapshots":[`)
	for i := range 421 {
		if i > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, `{"timeOffsetPs":"%d","aggregationStats":{"heapAllocatedBytes":"%d","stackReservedBytes":"5","freeMemoryBytes":"7"}}`, i*1000, i)
	}
	b.WriteString(`]}}}`)
	tr, err := read([]byte(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	d := &tr.Devices[0]
	if s := trace.FindSeries(d.Series, trace.Allocated); s.Samples != 421 || s.Max != 425 || d.Capacity != 102_803_439_616 || trace.FindSeries(d.Series, trace.LifetimePeak).Max != 3_346_865_408 {
		t.Errorf("%+v", d)
	}
	for n := 200; n < b.Len(); n += 101 {
		tr, err := read([]byte(b.String()[:n]))
		if err == nil && !tr.Source.Cut || err != nil && !errors.Is(err, trace.ErrCorrupt) {
			t.Fatalf("cut to %d: %v", n, err)
		}
	}
}

func TestRecorded(t *testing.T) {
	dir := os.Getenv("VRAMSCOPE_CORPUS")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", "data")
	}
	raw, err := os.ReadFile(filepath.Join(dir, "text", "jax_memory.prof"))
	if err != nil {
		t.Skip("there is no corpus: set VRAMSCOPE_CORPUS")
	}
	z, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if _, err := b.ReadFrom(z); err != nil {
		t.Fatal(err)
	}
	tr, err := read(b.Bytes())
	if err != nil || len(tr.Warnings) != 0 {
		t.Fatal(err, tr.Warnings)
	}
	if all, buffers, blocks := totals(&tr.Devices[0]); all != 206569472 || buffers != all || blocks != 59 {
		t.Errorf("%d %d %d", all, buffers, blocks)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(write(f, []sample{{1, 10, "buffer", "gpu:0", []string{"a", "b"}}, {1, 7, "executable", "", nil}}, jaxTypes...))
	f.Add([]byte(xprofJSON(1)))
	f.Add([]byte(xprofJSON(3)))
	f.Fuzz(func(t *testing.T, data []byte) {
		tr, err := read(data)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\r") {
				t.Errorf("not one line: %q", err)
			}
			return
		}
		for _, d := range append(tr.Devices, tr.Beside...) {
			for _, g := range d.Final.Groups {
				if g.Bytes < 0 || g.Blocks < 0 || int(g.Stack) >= tr.Stacks.Len() {
					t.Errorf("%+v", g)
				}
			}
			for _, e := range d.Events.All() {
				if e.Block != trace.NoBlock && int(e.Block) >= d.NumBlocks {
					t.Errorf("%+v", e)
				}
			}
		}
	})
}
