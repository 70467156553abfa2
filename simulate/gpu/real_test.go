package gpu_test

import (
	"bufio"
	"compress/gzip"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/allocators/caching/config"
	"github.com/vramscope/vramscope/allocators/driver/cuda"
	"github.com/vramscope/vramscope/internal/recordtest"
	"github.com/vramscope/vramscope/simulate"
	"github.com/vramscope/vramscope/simulate/gpu"
	"github.com/vramscope/vramscope/trace"
	"github.com/vramscope/vramscope/trace/source"
)

// The tests here need a GPU, and recordings that were made on one of its kind.

// real opens a device that is none of a test's.
func real(t *testing.T) *cuda.Device {
	t.Helper()
	if os.Getenv(cuda.PathVariable) != "" {
		t.Skipf("no GPU to test with: %s names a driver of a test", cuda.PathVariable)
	}
	return open(t)
}

// TestRealRecordings replays every recording that is here under its own settings through PyTorch's allocator, and
// wants what the recorded process did: the same calls of the device in the same order, and the same peak.
func TestRealRecordings(t *testing.T) {
	dev := real(t)
	exact, all := 0, 0
	for _, r := range recordtest.Snapshots() {
		if r.Own || r.Truth == nil || len(r.Truth) != 1 || r.Late || strings.Contains(r.Name, "ring") || r.Workload() == "graphs" {
			continue
		}
		tr, err := source.Open(r.File, source.Options{})
		if err != nil {
			t.Fatal(err)
		}
		d := &tr.Devices[0]
		cfg, _ := simulate.SettingsOf(tr, config.DefaultVersion)
		follow := simulate.Follow(d, cfg, simulate.FollowOptions{Limit: r.Limit})
		x, err := gpu.Replay(context.Background(), follow.Requests, dev, gpu.Options{Mode: gpu.Caching, Config: follow.Config, Limit: r.Limit})
		if err != nil {
			t.Errorf("%s: %v", r.Name, err)
			continue
		}
		// Where the recorded process had other room, its addresses give what it did.
		if layout, ok := follow.Requests.AsRecorded(follow.Surroundings(), simulate.WhatIf{Config: follow.Config, Limit: r.Limit}); ok && differs(d, x.Calls) >= 0 {
			t.Logf("%s: call %d is another than recorded; once more with recorded addresses", r.Name, differs(d, x.Calls))
			x, err = gpu.Replay(context.Background(), follow.Requests, dev, gpu.Options{Mode: gpu.Caching, Config: follow.Config, Limit: r.Limit, Layout: &layout})
			if err != nil {
				t.Errorf("%s: %v", r.Name, err)
				continue
			}
		}
		truth, s := r.Truth[0], &x.Run.Stats
		all++
		same := truth["num_device_alloc"] == s.DeviceAllocs && truth["num_device_free"] == s.DeviceFrees &&
			truth["reserved_bytes.all.peak"] == s.Reserved.Peak && truth["num_alloc_retries"] == s.Retries
		at := differs(d, x.Calls)
		if same && at < 0 {
			exact++
		}
		parted := ""
		if x.Parted != nil {
			parted = fmt.Sprintf(" parted %+v", *x.Parted)
		}
		t.Logf("| %-24s | calls %5d + %5d of %5d + %5d | peak %6d of %6d MiB | same %v, call %d | placed %5d of %5d | ahead %5d of %5d |%s", r.Name,
			s.DeviceAllocs, s.DeviceFrees, truth["num_device_alloc"], truth["num_device_free"], s.Reserved.Peak>>20, truth["reserved_bytes.all.peak"]>>20,
			same, at, x.PlacedAsSaid, x.Placed, x.OneAhead.Matched, x.OneAhead.Checked, parted)
		if x.Before != x.After {
			t.Errorf("%s: %d bytes free before, %d after", r.Name, x.Before, x.After)
		}
	}
	if all == 0 {
		t.Skip("no recordings here; VRAMSCOPE_CORPUS names their folder")
	}
	t.Logf("%d of %d as recorded", exact, all)
	if exact < all {
		t.Errorf("%d of %d as recorded", exact, all)
	}
}

// differs is the first call of the device that is not the recorded one, by what it is and its size; -1 for none.
func differs(d *trace.Device, calls []gpu.Call) int {
	kinds := map[trace.Op]cuda.Kind{trace.OpSegmentAlloc: cuda.Alloc, trace.OpSegmentFree: cuda.Free, trace.OpSegmentMap: cuda.Map, trace.OpSegmentUnmap: cuda.Unmap}
	i := 0
	next := func() *gpu.Call {
		for ; i < len(calls); i++ {
			if c := &calls[i]; c.OK && c.Kind != cuda.Reserve && c.Kind != cuda.Release {
				i++
				return c
			}
		}
		return nil
	}
	n := 0
	for _, e := range d.Events.All() {
		kind, ok := kinds[e.Op]
		if !ok {
			continue
		}
		if c := next(); c == nil || c.Kind != kind || c.Size != e.Size {
			return n
		}
		n++
	}
	if next() != nil {
		return n
	}
	return -1
}

// TestRealPool replays the request streams that were recorded on a pool, and wants every address and every
// figure to be what the model says, which are those recorded, and the recorded peak.
func TestRealPool(t *testing.T) {
	dev := real(t)
	files, _ := filepath.Glob(filepath.Join(recordtest.Corpus(), "pool", "*.csv.gz"))
	if len(files) == 0 {
		t.Skip("no recordings here; VRAMSCOPE_CORPUS names their folder")
	}
	for _, file := range files {
		r, peak := poolRequests(t, file)
		x, err := gpu.Replay(context.Background(), r, dev, gpu.Options{Mode: gpu.Pool})
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		t.Logf("%-32s %6d operations, peak reserved %6d MiB, recorded %6d; %d of %d addresses as modelled; allocation p50 %v, p99 %v; free p50 %v", filepath.Base(file),
			x.Run.Operations, x.Run.Stats.Reserved.Peak>>20, peak>>20, x.PlacedAsSaid, x.Placed,
			x.Timings[cuda.PoolAlloc].Quantile(0.5), x.Timings[cuda.PoolAlloc].Quantile(0.99), x.Timings[cuda.PoolFree].Quantile(0.5))
		agrees(t, x)
		if x.Run.Stats.Reserved.Peak != peak {
			t.Errorf("%s: peak reserved %d, recorded %d", file, x.Run.Stats.Reserved.Peak, peak)
		}
	}
}

// poolRequests reads op, id, bytes, stream, offset, reserved KiB, used bytes.
func poolRequests(t *testing.T, file string) (r *simulate.Requests, peak int64) {
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	p := &program{}
	ids := map[int]trace.BlockID{}
	for sc := bufio.NewScanner(z); sc.Scan(); {
		var id, stream int
		var size, offset, kib, used int64
		line := sc.Text()
		if line[:2] == "op" {
			continue
		}
		if _, err := fmt.Sscanf(line[2:], "%d,%d,%d,%d,%d,%d", &id, &size, &stream, &offset, &kib, &used); err != nil {
			t.Fatalf("%s: %q: %v", file, line, err)
		}
		switch line[0] {
		case 'a':
			ids[id] = p.alloc(size, stream)
		case 'f':
			p.free(ids[id])
		default:
			p.emptyCache()
		}
		peak = max(peak, kib<<10)
	}
	return p.requests(), peak
}

// TestRealRandom makes random requests that nobody recorded, in every mode.
func TestRealRandom(t *testing.T) {
	dev := real(t)
	for i, c := range []struct {
		what                 string
		n                    int
		low, high            float64
		streams, most, empty int
	}{
		{"small", 20000, 3, 20, 1, 2000, 0},
		{"mixed, 4 streams", 20000, 6, 26, 4, 400, 0},
		{"large", 5000, 20, 30, 1, 50, 0},
		{"emptied, 3 streams", 10000, 9, 27, 3, 200, 700},
		{"12 streams", 10000, 12, 25, 12, 300, 2500},
	} {
		r := random(uint64(100+i), c.n, c.low, c.high, c.streams, c.most, c.empty)
		for _, mode := range []gpu.Mode{gpu.CudaMalloc, gpu.Pool, gpu.Caching, gpu.Expandable} {
			for _, touch := range []bool{false, true} {
				x, err := gpu.Replay(context.Background(), r, dev, gpu.Options{Mode: mode, Config: parse(t, ""), Limit: -1, Touch: touch})
				if err != nil {
					t.Errorf("%s %s: %v", c.what, mode, err)
					continue
				}
				t.Logf("%-20s %-10s touch %-5v peak %6d MiB, by the device %6d; placed %5d of %5d, ahead %5d of %5d; parted %+v; %v", c.what, mode, touch,
					x.Run.Stats.Reserved.Peak>>20, x.PeakUsed>>20, x.PlacedAsSaid, x.Placed, x.OneAhead.Matched, x.OneAhead.Checked, x.Parted, x.Elapsed)
				// Where an address is another one, PyTorch's allocator may choose another of two equal blocks.
				if x.Parted != nil && (mode != gpu.Caching || x.Displaced == nil) || x.Before != x.After || !x.Run.Completed {
					t.Errorf("%s %s, touch %v: parted %+v, %d bytes free before, %d after", c.what, mode, touch, x.Parted, x.Before, x.After)
				}
			}
		}
	}
}

// TestRealBound lets the bound refuse, which a pool keeps by itself, and wants the simulation to say the same.
func TestRealBound(t *testing.T) {
	dev := real(t)
	for seed := range uint64(4) {
		r := random(300+seed, 4000, 9, 27, 1+int(seed), 400, 0)
		for _, mode := range []gpu.Mode{gpu.CudaMalloc, gpu.Pool, gpu.Expandable} {
			for _, memory := range []int64{700 << 20, 1<<30 + 12345} {
				x, err := gpu.Replay(context.Background(), r, dev, gpu.Options{Mode: mode, Config: parse(t, ""), Limit: -1, Memory: memory})
				if err != nil {
					t.Fatal(err)
				}
				t.Logf("%d %s in %d MiB: %+v, parted %+v, used %d MiB", seed, mode, memory>>20, x.Run.FirstOOM, x.Parted, x.PeakUsed>>20)
				if x.Run.Completed || x.Refused != 0 || x.Beyond == 0 || x.Parted != nil || x.Before != x.After || x.PeakUsed > memory {
					t.Errorf("%d %s: refused %d, beyond %d, parted %+v", seed, mode, x.Refused, x.Beyond, x.Parted)
				}
			}
		}
	}
}

// TestRealFull fills the device until it refuses, and leaves nothing behind.
func TestRealFull(t *testing.T) {
	dev := real(t)
	p := &program{}
	for range dev.Total >> 28 {
		p.alloc(1<<28, 0)
	}
	for _, mode := range []gpu.Mode{gpu.CudaMalloc, gpu.Pool, gpu.Caching, gpu.Expandable} {
		x, err := gpu.Replay(context.Background(), p.requests(), dev, gpu.Options{Mode: mode, Config: parse(t, ""), Limit: -1, Memory: 1 << 50})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %+v, refused %d, %d bytes free before and %d after; %v", mode, x.Run.FirstOOM, x.Refused, x.Before, x.After, x.Elapsed)
		if x.Run.Completed || x.Refused == 0 || x.Before != x.After {
			t.Errorf("%s: %+v", mode, x)
		}
	}
}
