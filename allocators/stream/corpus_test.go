package stream_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/allocators"
	"github.com/vramscope/vramscope/allocators/stream"
	"github.com/vramscope/vramscope/trace"
	"github.com/vramscope/vramscope/trace/source"
)

// TestRecordings replays programs that ran on a real pool as PyTorch sets it up: where every block came
// to lie, and what was reserved and used after every operation.
func TestRecordings(t *testing.T) {
	for _, file := range recordings(t, "*.csv.gz") {
		r := readCSV(t, file)
		t.Run(r.name, func(t *testing.T) {
			r.check(t)
			t.Logf("%d operations", len(r.steps))
		})
	}
}

// TestOptionRecordings does the same for pools with other settings, and for full devices.
func TestOptionRecordings(t *testing.T) {
	for _, file := range recordings(t, "options.txt.gz") {
		for _, r := range readOptions(t, file) {
			t.Run(r.name, func(t *testing.T) {
				r.check(t)
				t.Logf("%d operations", len(r.steps))
			})
		}
	}
}

// TestSequences compares every line of the corpus's scripted sequences, as it is printed there.
func TestSequences(t *testing.T) {
	lines := 0
	for _, dir := range corpus() {
		data, _ := os.ReadFile(filepath.Join(dir, "pool", "sequences.txt"))
		a := stream.New(nil, stream.PyTorch())
		for _, want := range strings.Split(string(data), "\n") {
			var block uint32
			var size int64
			got := ""
			mib := func(n int64) float64 { return float64(n) / (1 << 20) }
			switch {
			case strings.HasPrefix(want, "#"):
				a = stream.New(nil, stream.PyTorch())
				continue
			case strings.HasPrefix(want, "a "):
				fmt.Sscanf(want, "a %d %d", &block, &size)
				if err := a.Malloc(allocators.Request{Block: block, Size: size}); err != nil {
					t.Fatal(err)
				}
				addr, _, _ := a.Block(block)
				got = fmt.Sprintf("a %d %d at %+.4f MiB", block, size, mib(int64(addr)))
			case strings.HasPrefix(want, "f "):
				fmt.Sscanf(want, "f %d", &block)
				a.Free(block, false)
				got = fmt.Sprintf("f %d", block)
			default:
				continue // the cross-stream probes are prose: see testdata/scripts/streams
			}
			lines++
			got += fmt.Sprintf(" reserved %d used %.4f", a.Stats().Reserved.Current>>20, mib(a.Used().Current))
			if got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		}
	}
	if lines == 0 {
		t.Skip("no sequences.txt here; VRAMSCOPE_CORPUS names the folder of recordings")
	}
	t.Logf("%d lines", lines)
}

// TestPrograms compares peaks with those of whole PyTorch programs. They ran with kernels, so that frees
// took effect later than in the model: what is used must agree to the byte, what is reserved within 8 %.
func TestPrograms(t *testing.T) {
	some := false
	for _, dir := range corpus() {
		truths, _ := filepath.Glob(filepath.Join(dir, "capacity", "*.c5.truth.json"))
		some = some || len(truths) > 0
		for _, file := range truths {
			name := strings.TrimSuffix(filepath.Base(file), ".c5.truth.json")
			t.Run(name, func(t *testing.T) {
				var truth struct{ Stats map[string]int64 }
				data, err := os.ReadFile(file)
				if err == nil {
					err = json.Unmarshal(data, &truth)
				}
				if err != nil {
					t.Fatal(err)
				}
				a := stream.New(nil, stream.PyTorch())
				if f := filepath.Join(dir, "pool", name+".csv.gz"); exists(f) {
					r := readCSV(t, f)
					for i := range r.steps {
						apply(a, &r.steps[i])
					}
				} else if f := filepath.Join(dir, "torch", name+".c0.pickle.zst"); exists(f) {
					replaySnapshot(t, a, f)
				} else {
					t.Skip("its requests are not here")
				}
				if got, want := a.Used().Peak, truth.Stats["allocated_bytes.all.peak"]; got != want {
					t.Errorf("used %d at the peak, really %d", got, want)
				}
				got, want := a.Stats().Reserved.Peak, truth.Stats["reserved_bytes.all.peak"]
				off := 100 * (float64(got)/float64(want) - 1)
				t.Logf("peak reserved %d MiB, really %d: %+.1f %%", got>>20, want>>20, off)
				if math.Abs(off) > 8 {
					t.Errorf("peak reserved %d, really %d", got, want)
				}
			})
		}
	}
	if !some {
		t.Skip("no programs here; VRAMSCOPE_CORPUS names the folder of recordings")
	}
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// replaySnapshot makes the requests of a program that was recorded with PyTorch's own allocator, and
// empties the cache where it did.
func replaySnapshot(t *testing.T, a *stream.Allocator, file string) {
	tr, err := source.Open(file, source.Options{})
	if err != nil {
		t.Fatal(err)
	}
	released := false
	for _, e := range tr.Devices[0].Events.All() {
		if e.Op == trace.OpSegmentFree && !released {
			a.EmptyCache()
		}
		released = e.Op == trace.OpSegmentFree
		switch e.Op {
		case trace.OpAlloc:
			if err := a.Malloc(allocators.Request{Block: uint32(e.Block), Size: e.Size, Stream: uint32(e.Stream)}); err != nil {
				t.Fatal(err)
			}
		case trace.OpFreeCompleted, trace.OpFree:
			a.Free(uint32(e.Block), false)
		}
	}
}
