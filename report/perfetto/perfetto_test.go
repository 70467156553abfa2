package perfetto_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/internal/recordtest"
	"github.com/vramscope/vramscope/internal/tracetest"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/report/perfetto"
	"github.com/vramscope/vramscope/trace"
	"github.com/vramscope/vramscope/trace/source"
)

// event is an event as the format's description has it.
type event struct {
	Ph   string
	Name *string
	Cat  string
	Pid  *int
	Tid  *int
	Ts   *json.Number
	Dur  *json.Number
	ID   string
	S    string
	Args map[string]any
}

// file is what a reader of the format finds in a file.
type file struct {
	counters  map[string][]float64 // by process and name
	slices    map[string]int       // by category
	instants  map[string]int       // by category
	names     map[int]string       // of processes
	threads   map[string]string    // by process and thread
	blocks    map[string]int
	processes []int
}

// read reads a file as strictly as the format's description goes: what each phase must have, times that are not
// negative, counters in order of time, slices of a thread that lie within each other, async slices with both ends,
// and everything in a process and a thread that has a name.
func read(t *testing.T, data []byte) *file {
	t.Helper()
	var doc struct {
		DisplayTimeUnit string
		OtherData       map[string]string
		TraceEvents     []json.RawMessage
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&doc); err != nil {
		t.Fatalf("not a document of the format: %v", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		t.Fatalf("something follows the document: %v", err)
	}
	if doc.DisplayTimeUnit != "ms" && doc.DisplayTimeUnit != "ns" || doc.TraceEvents == nil {
		t.Fatalf("displayTimeUnit %q, %d events", doc.DisplayTimeUnit, len(doc.TraceEvents))
	}
	f := &file{counters: map[string][]float64{}, slices: map[string]int{}, instants: map[string]int{}, names: map[int]string{}, threads: map[string]string{}, blocks: map[string]int{}}
	open := map[string][]float64{}   // ends of slices, by thread
	before := map[string]float64{}   // time of the event in front, by counter
	started := map[string]float64{}  // by async slice
	used := map[string]bool{}        // threads with slices
	usedBy := map[int]map[int]bool{} // processes, by thread
	for i, raw := range doc.TraceEvents {
		var e event
		d := json.NewDecoder(bytes.NewReader(raw))
		d.DisallowUnknownFields()
		d.UseNumber()
		fail := func(format string, args ...any) {
			t.Helper()
			t.Fatalf("event %d: %s: %s", i, fmt.Sprintf(format, args...), raw)
		}
		if err := d.Decode(&e); err != nil {
			fail("%v", err)
		}
		if e.Name == nil || *e.Name == "" || e.Pid == nil || *e.Pid <= 0 {
			fail("no name or process")
		}
		time := func(n *json.Number) float64 {
			if n == nil {
				fail("no time")
			}
			v, err := n.Float64()
			if err != nil || v < 0 || math.IsInf(v, 0) || strings.ContainsAny(n.String(), "eE") {
				fail("time %s", n)
			}
			return v
		}
		thread := ""
		if e.Tid != nil {
			if *e.Tid <= 0 {
				fail("thread %d", *e.Tid)
			}
			thread = fmt.Sprint(*e.Pid, "/", *e.Tid)
			if e.Ph != "b" && e.Ph != "e" {
				if usedBy[*e.Tid] == nil {
					usedBy[*e.Tid] = map[int]bool{}
				}
				usedBy[*e.Tid][*e.Pid] = true
			}
		}
		switch e.Ph {
		case "M":
			switch *e.Name {
			case "process_name":
				f.names[*e.Pid], _ = e.Args["name"].(string)
				f.processes = append(f.processes, *e.Pid)
			case "thread_name":
				f.threads[thread], _ = e.Args["name"].(string)
			case "process_sort_index", "thread_sort_index":
				if _, ok := e.Args["sort_index"].(json.Number); !ok {
					fail("no place")
				}
			default:
				fail("no metadata that viewers know")
			}
		case "C":
			at := time(e.Ts)
			if len(e.Args) == 0 {
				fail("a counter without a value")
			}
			for _, v := range e.Args {
				n, ok := v.(json.Number)
				if !ok {
					fail("the value is no number")
				}
				x, _ := n.Float64()
				key := fmt.Sprint(*e.Pid, " ", *e.Name)
				if at < before[key] {
					fail("a counter that goes back in time")
				}
				before[key] = at
				f.counters[key] = append(f.counters[key], x)
			}
		case "X":
			from, dur := time(e.Ts), time(e.Dur)
			if thread == "" {
				fail("a slice of no thread")
			}
			used[thread] = true
			ends := open[thread]
			const fuzz = 1e-3 // sums of decimals that are not exact
			for len(ends) > 0 && ends[len(ends)-1] <= from+fuzz {
				ends = ends[:len(ends)-1]
			}
			if len(ends) > 0 && from+dur > ends[len(ends)-1]+fuzz {
				fail("a slice that ends after the one around it, at %f", ends[len(ends)-1])
			}
			open[thread] = append(ends, from+dur)
			f.slices[e.Cat]++
		case "i":
			time(e.Ts)
			switch {
			case e.S == "t" && thread == "":
				fail("a point of no thread")
			case e.S == "t":
				used[thread] = true
			case e.S != "p" && e.S != "g":
				fail("scope %q", e.S)
			}
			f.instants[e.Cat]++
		case "b", "e":
			key := fmt.Sprint(e.Cat, "/", e.ID, "/", *e.Pid, "/", *e.Name)
			at := time(e.Ts)
			if e.Cat == "" || e.ID == "" {
				fail("an async slice that nothing tells from others")
			}
			from, begun := started[key]
			switch {
			case e.Ph == "b" && begun:
				fail("begins twice")
			case e.Ph == "b":
				started[key] = at
				f.slices["async "+e.Cat]++
				f.blocks[*e.Name]++
			case !begun:
				fail("ends without a beginning")
			case at < from:
				fail("ends before it begins")
			default:
				delete(started, key)
			}
		default:
			fail("phase %q", e.Ph)
		}
	}
	if len(started) > 0 {
		t.Fatalf("%d async slices without an end", len(started))
	}
	for key := range used {
		if f.threads[key] == "" {
			t.Errorf("thread %s has no name", key)
		}
	}
	for tid, pids := range usedBy {
		if len(pids) > 1 {
			t.Errorf("thread %d is in %d processes", tid, len(pids))
		}
	}
	for key := range f.counters {
		var pid int
		fmt.Sscan(key, &pid)
		if f.names[pid] == "" {
			t.Errorf("process %d has no name", pid)
		}
	}
	return f
}

// written writes an analysis and reads it again.
func written(t *testing.T, a *report.Analysis) (*file, []perfetto.Left, int) {
	t.Helper()
	var b bytes.Buffer
	left, err := perfetto.Write(&b, a)
	if err != nil {
		t.Fatal(err)
	}
	return read(t, b.Bytes()), left, b.Len()
}

// The counters end and peak where the analysis does, on every recording that is here; points and slices are as many as
// there are events of their kind.
func TestRecordings(t *testing.T) {
	var names []string
	for _, r := range recordtest.Snapshots() {
		if r.Own || !testing.Short() {
			names = append(names, r.File)
		}
	}
	for _, dir := range []string{filepath.Join(recordtest.Testdata(), "inputs"), filepath.Join(recordtest.Testdata(), "nsys"), filepath.Join(recordtest.Corpus(), "nsys"), filepath.Join(recordtest.Corpus(), "nvml"),
		filepath.Join(recordtest.Corpus(), "kineto"), filepath.Join("..", "testdata", "unusual")} {
		list, _ := filepath.Glob(filepath.Join(dir, "*"))
		names = append(names, list...)
	}
	for _, name := range names {
		tr, err := source.Open(name, source.Options{})
		if err != nil {
			continue // the readers' tests say why
		}
		t.Run(filepath.Base(name), func(t *testing.T) {
			a := report.Analyze(name, tr, report.Options{Limit: -1, Device: -1})
			if !perfetto.Drawable(a) {
				var b bytes.Buffer
				if _, err := perfetto.Write(&b, a); err != perfetto.ErrNoTimes || b.Len() > 0 {
					t.Errorf("%d bytes, %v", b.Len(), err)
				}
				return
			}
			f, left, size := written(t, a)
			if size > 100<<20 {
				t.Errorf("%d MiB", size>>20)
			}
			out := map[string]int{}
			for _, l := range left {
				out[l.What] += l.Out
			}
			segments, ooms, allocs := 0, 0, 0
			for i := range a.Devices {
				d := &a.Devices[i]
				if d.Follow == nil {
					continue
				}
				counter := func(name string) []float64 { return f.counters[fmt.Sprint(2+d.Index, " ", name)] }
				if d.Trace.Events.Len() == 0 {
					continue
				}
				sameEnds(t, "allocated", counter("allocated"), d.PeakAllocated.Allocated, d.End.Allocated)
				if d.Trace.Content == trace.Decisions {
					sameEnds(t, "reserved", counter("reserved"), d.PeakReserved.Reserved, d.Follow.End.Reserved)
				} else if d.PeakReserved.Reserved > 0 {
					sameEnds(t, "reserved", counter("reserved"), d.PeakReserved.Reserved, d.End.Reserved)
				}
				for _, e := range d.Trace.Events.All() {
					switch {
					case e.Op.IsSegment():
						segments++
					case e.Op == trace.OpOOM:
						ooms++
					case e.Op == trace.OpAlloc:
						allocs++
					}
				}
				for _, b := range d.Follow.Requests.Initial {
					if b.State == trace.BlockLive && d.Follow.Sizes[b.ID] > 0 {
						allocs++
					}
				}
			}
			if got := f.instants["segment"] + out["segment events"]; got != segments {
				t.Errorf("%d segment events, want %d", got, segments)
			}
			if f.instants["oom"] != ooms {
				t.Errorf("%d failures, want %d", f.instants["oom"], ooms)
			}
			if got := f.slices["async block"] + out["blocks"]; got > allocs || got < allocs-emptyBlocks(a) {
				t.Errorf("%d blocks, want %d", got, allocs)
			}
		})
	}
}

// emptyBlocks counts allocations of nothing.
func emptyBlocks(a *report.Analysis) int {
	n := 0
	for i := range a.Devices {
		if a.Devices[i].Follow == nil {
			continue
		}
		for _, e := range a.Devices[i].Trace.Events.All() {
			if e.Op == trace.OpAlloc && (int(e.Block) >= len(a.Devices[i].Follow.Sizes) || a.Devices[i].Follow.Sizes[e.Block] == 0) {
				n++
			}
		}
	}
	return n
}

func sameEnds(t *testing.T, name string, values []float64, peak, end int64) {
	t.Helper()
	if len(values) == 0 {
		t.Errorf("no counter %s", name)
		return
	}
	most := values[0]
	for _, v := range values {
		most = max(most, v)
	}
	if int64(most) != peak || int64(values[len(values)-1]) != end {
		t.Errorf("%s: most %.0f, want %d; at the end %.0f, want %d", name, most, peak, values[len(values)-1], end)
	}
}

// Whatever has happened to a recording, the file keeps to the format.
func TestDamaged(t *testing.T) {
	for _, name := range []string{"graph", "oom_exp", "ring", "record_stream"} {
		whole, err := source.Open(filepath.Join(recordtest.Testdata(), "golden", name+".pickle.zst"), source.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range tracetest.Damages {
			tr := x.ApplyAll(whole)
			t.Run(name+" "+x.Name, func(t *testing.T) {
				a := report.Analyze(name, tr, report.Options{Limit: -1, Device: -1})
				if perfetto.Drawable(a) {
					written(t, a)
				}
			})
		}
	}
}

// A recording of a million blocks becomes a file that a viewer can hold, and says what is not in it.
func TestLarge(t *testing.T) {
	d := trace.Device{Content: trace.Requests, Streams: []uint64{0}, Pools: []trace.Pool{{}}, NumBlocks: 1_000_000}
	now := trace.Time(1_700_000_000e9)
	for i := range d.NumBlocks {
		now += 1000
		e := trace.Event{Time: now, Op: trace.OpAlloc, Addr: uint64(i+1) << 9, Size: int64(i%1000+1) * 512, Block: trace.BlockID(i)}
		d.Events.Append(e)
		if i >= 5000 {
			e.Op, e.Block, e.Size = trace.OpFree, trace.BlockID(i-5000), 0
			d.Events.Append(e)
		}
	}
	tr := &trace.Trace{Stacks: trace.NewStacks(), Devices: []trace.Device{d}, Settings: trace.Settings{MaxSplitSize: -1}}
	for i := range 300_000 {
		at := now - trace.Time(i%150_000)*1000
		tr.Markers = append(tr.Markers, trace.Marker{Time: at, Device: -1, Name: fmt.Sprint("range ", i%150_000), Edge: []trace.Edge{trace.EdgeEnd, trace.EdgeStart}[i/150_000]})
	}
	f, left, size := written(t, report.Analyze("large", tr, report.Options{Limit: -1, Device: -1}))
	if size > 60<<20 || f.slices["async block"] != 20_000 {
		t.Errorf("%d MiB, %d blocks", size>>20, f.slices["async block"])
	}
	if text := fmt.Sprint(left); !strings.Contains(text, "{blocks 1000000 980000}") || !strings.Contains(text, "annotations") {
		t.Errorf("left out: %s", text)
	}
}

// Annotations whose time the recording does not have are not put before its beginning.
func TestMarkersWithoutTimes(t *testing.T) {
	r := tracetest.New("", -1)
	r.Training(3, nil)
	tr := r.Trace()
	from := tr.Devices[0].Events.At(0).Time
	for _, at := range []trace.Time{0, 0, from} {
		tr.Markers = append(tr.Markers, trace.Marker{Time: at, Device: 0, Name: "a", Edge: trace.EdgeStart}, trace.Marker{Time: at, Device: 0, Name: "b", Edge: trace.EdgeEnd},
			trace.Marker{Time: at, Device: -1, Name: "c", Edge: trace.EdgePoint})
	}
	var b bytes.Buffer
	if _, err := perfetto.Write(&b, report.Analyze("markers", tr, report.Options{Limit: -1, Device: -1})); err != nil {
		t.Fatal(err)
	}
	if f := read(t, b.Bytes()); f.slices["annotation"] != 3+6 { // read refuses times that are negative
		t.Errorf("%v", f.slices)
	}
}

// The file shows the program's names and its own.
func TestContents(t *testing.T) {
	r := tracetest.New("", -1)
	r.Training(3, nil)
	a := report.Analyze(filepath.Join("home", "somebody", "run.pickle"), r.Trace(), report.Options{Limit: -1, Device: -1})
	var b bytes.Buffer
	if _, err := perfetto.Write(&b, a); err != nil {
		t.Fatal(err)
	}
	f := read(t, b.Bytes())
	if f.slices["step"] != 3 || f.slices["annotation"] != 3 || f.instants["peak"] != 1 {
		t.Errorf("%v %v", f.slices, f.instants)
	}
	if f.blocks["train.py:36 train · functional.py:3504 cross_entropy"] != 3 || f.blocks[report.WithoutStack] != 12 {
		t.Errorf("%v", f.blocks)
	}
	if got := f.counters["2 held by train.py:36 train · functional.py:3504 cross_entropy"]; len(got) < 6 || got[0] != 0 && got[0] != 40*tracetest.MiB {
		t.Errorf("%v", got)
	}
	for _, want := range []string{`"file":"run.pickle"`, `"zero_ns":"1700000000`, `"stack":"/usr/lib/python3/site-packages/torch/nn/linear.py:134 forward < /home/user/model.py:31 forward`} {
		if !bytes.Contains(b.Bytes(), []byte(want)) {
			t.Errorf("it does not have %s", want)
		}
	}
	if bytes.Contains(b.Bytes(), []byte("somebody")) {
		t.Error("it tells where the recording was")
	}
}
