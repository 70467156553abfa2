package nsys_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vramscope/vramscope/internal/recordtest"
	"github.com/vramscope/vramscope/trace"
	"github.com/vramscope/vramscope/trace/source"
)

func open(t testing.TB, path string) *trace.Trace {
	t.Helper()
	tr, err := source.Open(path, source.Options{})
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return tr
}

// totals are what a device's events add up to.
type totals struct {
	Allocs, Frees, OOMs int
	Peak, End           int64 // bytes of blocks that live
	PeakHeld, EndHeld   int64 // bytes of pools
}

func totalsOf(d *trace.Device) totals {
	var t totals
	sizes := make([]int64, d.NumBlocks)
	for _, b := range d.Initial.Blocks {
		sizes[b.ID] = b.Requested
		t.End += b.Requested
	}
	t.Peak = t.End
	for _, e := range d.Events.All() {
		switch e.Op {
		case trace.OpAlloc:
			t.Allocs++
			sizes[e.Block] = e.Size
			t.End += e.Size
		case trace.OpFree:
			t.Frees++
			if e.Block != trace.NoBlock {
				t.End -= sizes[e.Block]
			}
		case trace.OpOOM:
			t.OOMs++
		case trace.OpSegmentMap:
			t.EndHeld += e.Size
		case trace.OpSegmentUnmap:
			t.EndHeld -= e.Size
		}
		t.Peak, t.PeakHeld = max(t.Peak, t.End), max(t.PeakHeld, t.EndHeld)
	}
	return t
}

func codes(list []trace.Warning) string {
	var out []string
	for _, w := range list {
		out = append(out, fmt.Sprintf("%s×%d", w.Code, w.Count))
	}
	return strings.Join(out, " ")
}

// The program that uses every kind of memory: testdata's kinds, made on an H200. The figures were counted from
// the export with sqlite3, and agree with the program's source.
func TestKinds(t *testing.T) {
	tr := open(t, "../../testdata/nsys/kinds.sqlite.zst")
	if len(tr.Devices) != 1 || len(tr.Warnings) != 0 {
		t.Fatalf("%d devices, warnings %s", len(tr.Devices), codes(tr.Warnings))
	}
	d := &tr.Devices[0]
	if d.Index != 0 || d.Name != "NVIDIA H200" || d.UUID != "GPU-00000000-1111-2222-3333-444444444444" || d.Capacity != 150109880320 || d.Content != trace.Requests {
		t.Errorf("device: %d %q %q %d", d.Index, d.Name, d.UUID, d.Capacity)
	}
	// At the peak: cudaMalloc and cudaMallocPitch, the array, and 141,557,760 bytes of the pool.
	want := totals{Allocs: 54, Frees: 53, OOMs: 1, Peak: 123456789 + 1024000 + 1<<20 + 141557760, End: 7 << 20, PeakHeld: 160 << 20}
	if diff := cmp.Diff(want, totalsOf(d)); diff != "" {
		t.Errorf("device (-want +got):\n%s", diff)
	}
	if codes(d.Warnings) != "oom-size-unknown×1" {
		t.Errorf("warnings: %s", codes(d.Warnings))
	}
	beside := map[string]totals{}
	for i := range tr.Beside {
		b := &tr.Beside[i]
		beside[b.Name] = totalsOf(b)
		if b.Index != -1 || len(b.Warnings) > 0 {
			t.Errorf("%s: index %d, warnings %s", b.Name, b.Index, codes(b.Warnings))
		}
	}
	if diff := cmp.Diff(map[string]totals{
		"static variables of modules": {Allocs: 1, Peak: 1 << 20, End: 1 << 20},
		"pinned host memory":          {Allocs: 2, Frees: 2, Peak: 40 << 20},
		"managed memory":              {Allocs: 2, Frees: 1, Peak: 50<<20 + 4096, End: 4096},
	}, beside); diff != "" {
		t.Errorf("beside (-want +got):\n%s", diff)
	}
	var pools []string
	for i, p := range d.PoolInfo {
		pools = append(pools, fmt.Sprint(p.Name, " ", p.Direct, " ", d.Pools[i]))
	}
	if diff := cmp.Diff([]string{"device memory true [0 0]", "arrays true [0 2]", "pool 0x302000000 false [0 12918456320]", "pool 0x48ea000000 false [0 313163513856]"}, pools); diff != "" {
		t.Errorf("pools (-want +got):\n%s", diff)
	}
	if fmt.Sprint(d.Streams) != "[0 13]" {
		t.Errorf("streams %v", d.Streams)
	}
	var where []string
	for _, e := range d.Events.All() {
		s := ""
		for _, f := range tr.Stacks.Stack(e.Stack) {
			s += f.File + " " + f.Func + ";"
		}
		if text := fmt.Sprint(e.Op, " ", s); s != "" && (len(where) == 0 || where[len(where)-1] != text) {
			where = append(where, text)
		}
	}
	if diff := cmp.Diff([]string{"alloc NVTX setup;", "alloc NVTX async;",
		"alloc NVTX own pool;", "oom NVTX too large;"}, where); diff != "" {
		t.Errorf("stacks (-want +got):\n%s", diff)
	}
	const epoch = 1795969574336731770
	if first := d.Events.At(0); first.Time != epoch+852099947 || tr.Source.Clock != trace.ClockEpoch {
		t.Errorf("first event at %d", first.Time)
	}
	if n := len(tr.Markers); n != 10 || tr.Markers[0] != (trace.Marker{Time: epoch + 851933361, Device: -1, Name: "setup", Edge: trace.EdgeStart}) {
		t.Errorf("%d markers, first %+v", n, tr.Markers[0])
	}
}

// A run that was recorded by PyTorch and by Nsight Systems at once: what PyTorch took from the driver after
// its recording began is in both, at the same addresses, of the same sizes, in the same order.
func TestSameRun(t *testing.T) {
	dir := recordtest.Corpus()
	if dir == "" {
		t.Skip("the corpus is not here")
	}
	snapshot := &open(t, filepath.Join(dir, "torch/nt.pickle.zst")).Devices[0]
	profile := &open(t, filepath.Join(dir, "nsys/torch_default.sqlite.zst")).Devices[0]
	type step struct {
		alloc bool
		addr  uint64
		size  int64
	}
	var want, got []step
	var snapshotTimes, profileTimes []trace.Time
	for _, e := range snapshot.Events.All() {
		if e.Op == trace.OpSegmentAlloc || e.Op == trace.OpSegmentFree {
			want = append(want, step{e.Op == trace.OpSegmentAlloc, e.Addr, e.Size})
			snapshotTimes = append(snapshotTimes, e.Time)
		}
	}
	for _, e := range profile.Events.All() {
		if pool := profile.PoolInfo[e.Pool].Name; pool == "device memory" {
			got = append(got, step{e.Op == trace.OpAlloc, e.Addr, e.Size})
			profileTimes = append(profileTimes, e.Time)
		}
	}
	// In between lie what was allocated before PyTorch began to record, and what libraries allocate for
	// themselves.
	var others []step
	at := 0
	for _, w := range want {
		for at < len(got) && got[at] != w {
			others = append(others, got[at])
			at++
		}
		if at == len(got) {
			t.Fatalf("%+v of the snapshot is not in the profile", w)
		}
		// Both have UTC, by two clocks of one machine.
		if d := snapshotTimes[0] - profileTimes[at]; d < -1e7 || d > 1e7 {
			t.Fatalf("%+v: times differ by %d ns", w, d)
		}
		snapshotTimes = snapshotTimes[1:]
		at++
	}
	others = append(others, got[at:]...)
	if len(want) < 50 || len(others) > 10 {
		t.Errorf("%d segment events in the snapshot, besides %d in the profile: %+v", len(want), len(others), others)
	}
	t.Logf("%d segment events in both, besides %+v", len(want), others)
}
