package source

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/vramscope/vramscope/trace"
)

// corpus lists the recordings in the test data, and those of the corpus if there is one: the folder that
// VRAMSCOPE_CORPUS names, or ../shared/data beside the repository.
func corpus(t testing.TB) []string {
	files, err := filepath.Glob("testdata/*.pickle.zst")
	if err != nil || len(files) == 0 {
		t.Fatal("no test data")
	}
	if testing.Short() {
		return files
	}
	dir := corpusDir()
	if dir == "" {
		t.Log("VRAMSCOPE_CORPUS is not set: only the recordings in testdata are read")
		return files
	}
	for _, sub := range []string{"torch", "golden"} {
		more, _ := filepath.Glob(filepath.Join(dir, sub, "*.pickle.zst"))
		files = append(files, more...)
	}
	return files
}

func corpusDir() string {
	if dir := os.Getenv("VRAMSCOPE_CORPUS"); dir != "" {
		return dir
	}
	dir := filepath.Join("..", "..", "..", "shared", "data")
	if _, err := os.Stat(dir); err != nil {
		return ""
	}
	return dir
}

// census is what testdata/census.py prints.
type census struct {
	Devices []struct {
		Device   int
		Actions  map[string][2]int64
		Order    uint64
		Times    uint64
		Frames   int
		Streams  []uint64
		Segments [][]any
		Blocks   [][]any
		Allocs   int
		Before   [][2]uint64
	}
	Stacks      int
	Annotations int
	Conf        string
}

// Everything that is read agrees with what CPython unpickles.
func TestCorpusAgreesWithPython(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3 to compare with")
	}
	files := corpus(t)
	dir := t.TempDir()
	var raw []string
	for i, f := range files {
		raw = append(raw, unzst(t, f, filepath.Join(dir, fmt.Sprint(i))))
	}
	cmd := exec.Command(python, append([]string{"testdata/census.py"}, raw...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	dec := json.NewDecoder(bufio.NewReader(out))
	dec.UseNumber()
	for _, f := range files {
		var want census
		if err := dec.Decode(&want); err != nil {
			t.Fatal(err)
		}
		t.Run(filepath.Base(f), func(t *testing.T) {
			tr, err := Open(f, Options{})
			if err != nil {
				t.Fatal(err)
			}
			compare(t, tr, &want)
		})
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
}

func compare(t *testing.T, tr *trace.Trace, want *census) {
	if len(tr.Devices) != len(want.Devices) {
		t.Fatalf("%d devices, want %d", len(tr.Devices), len(want.Devices))
	}
	if tr.Stacks.Len() != want.Stacks || len(tr.Markers) != want.Annotations || tr.Settings.Conf != want.Conf || len(tr.Warnings) > 0 && tr.Warnings[0].Code != "no-events" {
		t.Errorf("%d stacks, %d markers, conf %q, warnings %v; want %d, %d, %q", tr.Stacks.Len(), len(tr.Markers), tr.Settings.Conf, tr.Warnings, want.Stacks, want.Annotations, want.Conf)
	}
	for i := range tr.Devices {
		d, w := &tr.Devices[i], &want.Devices[i]
		if d.Index != w.Device || !slices.Equal(d.Streams, w.Streams) || !d.HasFinal {
			t.Errorf("device %d with streams %d, want %d, %d", d.Index, d.Streams, w.Device, w.Streams)
		}
		actions := map[string][2]int64{}
		var order, times uint64
		frames := 0
		merged := ""
		for _, warn := range d.Warnings {
			if half, ok := strings.CutPrefix(warn.Code, "no-free-"); ok {
				merged = map[string]string{"requested": "free_completed", "completed": "free_requested"}[half]
			}
		}
		for _, e := range d.Events.All() {
			name := e.Op.String()
			if e.Op == trace.OpFree {
				name = merged // the half of a free that the recording has
			}
			c := actions[name]
			actions[name] = [2]int64{c[0] + 1, c[1] + e.Size}
			order = order*31 + e.Addr + d.Streams[e.Stream]
			times = times*31 + uint64(e.Time/1000)
			frames += len(tr.Stacks.Frames(e.Stack))
		}
		if fmt.Sprint(actions) != fmt.Sprint(w.Actions) {
			t.Errorf("actions %v, want %v", actions, w.Actions)
		}
		if order != w.Order || times != w.Times || frames != w.Frames {
			t.Errorf("addresses %d, times %d, frames %d; want %d, %d, %d", order, times, frames, w.Order, w.Times, w.Frames)
		}
		if got, want := final(d), fmt.Sprint(w.Segments, w.Blocks); got != want {
			t.Errorf("final state\n got %.300s\nwant %.300s", got, want)
		}
		var before [][2]uint64
		for _, b := range d.Initial.Blocks {
			before = append(before, [2]uint64{b.Addr, uint64(b.Requested)})
		}
		slices.SortFunc(w.Before, func(a, b [2]uint64) int { return slices.Compare(a[:], b[:]) })
		if !slices.Equal(before, w.Before) || d.NumBlocks != w.Allocs+len(w.Before) {
			t.Errorf("%d blocks, before the first event %v; want %d, %v", d.NumBlocks, before, w.Allocs+len(w.Before), w.Before)
		}
	}
}

// final writes the final state as census.py does.
func final(d *trace.Device) string {
	segments, blocks := [][]any{}, [][]any{}
	for _, s := range d.Final.Segments {
		kind := "large"
		if s.Small {
			kind = "small"
		}
		segments = append(segments, []any{s.Addr, s.Size, d.Streams[s.Stream], d.Pools[s.Pool], kind, s.Expandable})
	}
	for _, b := range d.Final.Blocks {
		blocks = append(blocks, []any{b.Addr, b.Size, b.Requested, []string{"inactive", "active_allocated", "active_pending_free"}[b.State]})
	}
	return fmt.Sprint(segments, blocks)
}

// unzst unpacks a file, not by the code under test alone: the decoder is the same, the layers are not.
func unzst(t testing.TB, from, to string) string {
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	z, err := zstd.NewReader(in)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	out, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, z); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	return to
}

// A recording begun in mid-run, and a snapshot of the instant when it began: what was worked out must be
// what was there.
func TestStartOfMidrun(t *testing.T) {
	starts := map[string]string{"testdata/midrun.pickle.zst": "testdata/midrun.start.pickle.zst"}
	for _, f := range corpus(t) {
		if start := strings.TrimSuffix(f, ".pickle.zst") + ".start.pickle.zst"; fileExists(start) {
			starts[f] = start
		}
	}
	for f, start := range starts {
		t.Run(f, func(t *testing.T) {
			got, err := Open(f, Options{})
			if err != nil {
				t.Fatal(err)
			}
			want, err := Open(start, Options{})
			if err != nil {
				t.Fatal(err)
			}
			g, w := &got.Devices[0].Initial, &want.Devices[0].Final
			for i := range w.Segments {
				if w.Segments[i] != g.Segments[i] {
					t.Errorf("segment %d: got %+v, want %+v", i, g.Segments[i], w.Segments[i])
				}
			}
			var live []trace.Block
			for _, b := range w.Blocks {
				if b.State != trace.BlockFree {
					live = append(live, b)
				}
			}
			if len(g.Segments) != len(w.Segments) || len(g.Blocks) != len(live) {
				t.Fatalf("%d segments, %d blocks; want %d, %d", len(g.Segments), len(g.Blocks), len(w.Segments), len(live))
			}
			for i, b := range live {
				a := g.Blocks[i]
				if a.Addr != b.Addr || a.Requested != b.Requested || a.State != b.State || a.Size != 0 && a.Size != b.Size {
					t.Errorf("block %d: got %+v, want %+v", i, a, b)
				}
			}
		})
	}
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Every complete recording is cut at many points: from the rest, the state at the cut must be found
// again, as following the recording from its start gives it.
func TestStartOfCutRecordings(t *testing.T) {
	for _, f := range corpus(t) {
		t.Run(filepath.Base(f), func(t *testing.T) {
			tr, err := Open(f, Options{})
			if err != nil {
				t.Fatal(err)
			}
			for i := range tr.Devices {
				d := &tr.Devices[i]
				if len(d.Initial.Segments) > 0 || d.Events.Len() == 0 {
					continue
				}
				for k := 1; k <= 8; k++ {
					checkCut(t, d, d.Events.Len()*k/9)
				}
			}
		})
	}
}

// held is the memory of a device as it is followed event by event.
type held struct {
	segments map[uint64]uint64 // cudaMalloc: address to size
	pages    map[uint64]bool   // expandable: 2 MiB pages
	blocks   map[uint64]trace.Block
}

const page = 2 << 20

func (h *held) do(e *trace.Event) {
	switch e.Op {
	case trace.OpSegmentAlloc:
		h.segments[e.Addr] = uint64(e.Size)
	case trace.OpSegmentFree:
		delete(h.segments, e.Addr)
	case trace.OpSegmentMap, trace.OpSegmentUnmap:
		for a := e.Addr; a < e.Addr+uint64(e.Size); a += page {
			h.pages[a] = e.Op == trace.OpSegmentMap
		}
	case trace.OpAlloc:
		h.blocks[e.Addr] = trace.Block{Addr: e.Addr, Requested: e.Size, State: trace.BlockLive}
	case trace.OpFreeRequested:
		b := h.blocks[e.Addr]
		b.State = trace.BlockPending
		h.blocks[e.Addr] = b
	case trace.OpFreeCompleted, trace.OpFree:
		delete(h.blocks, e.Addr)
	}
}

func checkCut(t *testing.T, d *trace.Device, at int) {
	h := held{map[uint64]uint64{}, map[uint64]bool{}, map[uint64]trace.Block{}}
	tail := trace.Device{Streams: d.Streams, Pools: d.Pools, HasFinal: true}
	ops := map[trace.Op]bool{}
	for i, e := range d.Events.All() {
		if i < at {
			h.do(e)
			continue
		}
		ops[e.Op] = true
		tail.Events.Append(trace.Event{Time: e.Time, Addr: e.Addr, Size: e.Size, Block: trace.NoBlock, Stack: e.Stack, Stream: e.Stream, Pool: trace.PoolUnknown, Op: e.Op})
	}
	tail.Final.Segments = slices.Clone(d.Final.Segments)
	tail.Final.Blocks = slices.Clone(d.Final.Blocks)
	for i := range tail.Final.Blocks {
		tail.Final.Blocks[i].ID = trace.NoBlock
	}
	trace.Rewind(&tail)
	trace.Pair(&tail)

	pages := map[uint64]bool{}
	for _, s := range tail.Initial.Segments {
		if s.Expandable {
			for a := s.Addr; a < s.Addr+uint64(s.Size); a += page {
				pages[a] = true
			}
			continue
		}
		if h.segments[s.Addr] != uint64(s.Size) {
			t.Errorf("cut at %d: segment %x of %d bytes, want %d", at, s.Addr, s.Size, h.segments[s.Addr])
		}
		delete(h.segments, s.Addr)
	}
	for a, n := range h.segments {
		t.Errorf("cut at %d: segment %x of %d bytes was not found", at, a, n)
	}
	for a, mapped := range h.pages {
		if mapped != pages[a] {
			t.Errorf("cut at %d: page %x mapped is %v", at, a, pages[a])
		}
		delete(pages, a)
	}
	if len(pages) > 0 {
		t.Errorf("cut at %d: %d pages are too many", at, len(pages))
	}
	for _, b := range tail.Initial.Blocks {
		w, ok := h.blocks[b.Addr]
		delete(h.blocks, b.Addr)
		// Where the rest of the recording has no free_requested, waiting blocks look live.
		if !ok || b.Requested != w.Requested || b.State != w.State && (ops[trace.OpFreeRequested] || tail.Events.Len() > 0 && w.State != trace.BlockPending) {
			t.Errorf("cut at %d: block %+v, want %+v", at, b, w)
		}
	}
	for a, b := range h.blocks {
		t.Errorf("cut at %d: block %x was not found: %+v", at, a, b)
	}
	for _, w := range tail.Warnings {
		if w.Code != "starts-in-mid-run" && !strings.HasPrefix(w.Code, "no-free-") {
			t.Errorf("cut at %d: %+v", at, w)
		}
	}
}

func BenchmarkOpen(b *testing.B) {
	best, size := "", int64(0)
	for _, f := range corpus(b) {
		if st, err := os.Stat(f); err == nil && st.Size() > size {
			best, size = f, st.Size()
		}
	}
	raw := unzst(b, best, filepath.Join(b.TempDir(), "raw"))
	for _, c := range []struct{ name, path string }{{"pickle", raw}, {"zst", best}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			events, bytes := 0, int64(math.MaxInt64)
			for b.Loop() {
				tr, err := Open(c.path, Options{})
				if err != nil {
					b.Fatal(err)
				}
				events, bytes = 0, tr.Source.Bytes
				for i := range tr.Devices {
					events += tr.Devices[i].Events.Len()
				}
			}
			b.SetBytes(bytes)
			b.ReportMetric(float64(events)*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mev/s")
		})
	}
}
