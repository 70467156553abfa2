package gpu_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/allocators"
	"github.com/vramscope/vramscope/allocators/caching/config"
	"github.com/vramscope/vramscope/allocators/driver/cuda"
	"github.com/vramscope/vramscope/internal/cudatest"
	"github.com/vramscope/vramscope/internal/recordtest"
	"github.com/vramscope/vramscope/simulate"
	"github.com/vramscope/vramscope/simulate/gpu"
	"github.com/vramscope/vramscope/trace"
	"github.com/vramscope/vramscope/trace/source"
)

const mib = 1 << 20

// open opens a device of the library that is set, or skips.
func open(t *testing.T) *cuda.Device {
	t.Helper()
	lib, err := cuda.Load()
	if missing := (*cuda.Missing)(nil); errors.As(err, &missing) {
		t.Skipf("no GPU to test with: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	dev, err := lib.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
		lib.Close()
	})
	return dev
}

// fake opens a device of a driver that needs no GPU. What is left when it goes is in the report, which must say
// that nothing is.
func fake(t *testing.T, settings ...string) *cuda.Device {
	t.Helper()
	t.Setenv(cuda.PathVariable, cudatest.Library(t))
	report := filepath.Join(t.TempDir(), "report")
	t.Setenv("FAKE_CUDA_REPORT", report)
	for _, s := range settings {
		name, value, _ := strings.Cut(s, "=")
		t.Setenv("FAKE_CUDA_"+name, value)
	}
	t.Cleanup(func() {
		text, err := os.ReadFile(report)
		want := "left: 0 allocations, 0 mappings, 0 handles, 0 reservations, 0 pools, 0 streams, 0 bytes; 0 faults\n"
		if err == nil && string(text) != want {
			t.Errorf("when the context went, %s", text)
		}
	})
	return open(t)
}

// program makes requests for tests.
type program struct {
	device trace.Device
	acts   []simulate.Act
	live   []trace.BlockID
	stream []trace.StreamID
}

func (p *program) alloc(size int64, stream int) trace.BlockID {
	b := trace.BlockID(p.device.NumBlocks)
	p.device.NumBlocks++
	p.device.Events.Append(trace.Event{Op: trace.OpAlloc, Size: size, Block: b, Stream: trace.StreamID(stream)})
	p.live = append(p.live, b)
	p.stream = append(p.stream, trace.StreamID(stream))
	return b
}

func (p *program) free(b trace.BlockID) {
	p.device.Events.Append(trace.Event{Op: trace.OpFree, Block: b, Stream: p.stream[b]})
}

// drop frees one of the live blocks.
func (p *program) drop(i int) {
	p.free(p.live[i])
	p.live[i] = p.live[len(p.live)-1]
	p.live = p.live[:len(p.live)-1]
}

func (p *program) emptyCache() {
	p.acts = append(p.acts, simulate.Act{Event: p.device.Events.Len(), Kind: simulate.EmptyCache})
}

func (p *program) requests() *simulate.Requests {
	return &simulate.Requests{Device: &p.device, Acts: p.acts}
}

// random asks for and frees blocks of 2^low to 2^high bytes on some streams, with at most so many at once.
func random(seed uint64, n int, low, high float64, streams, most, empty int) *simulate.Requests {
	r := rand.New(rand.NewPCG(seed, 1))
	p := &program{}
	for i := range n {
		if len(p.live) == 0 || len(p.live) < most && r.Float64() < 0.52 {
			p.alloc(int64(math.Exp2(low+r.Float64()*(high-low))), r.IntN(streams))
		} else {
			p.drop(r.IntN(len(p.live)))
		}
		if empty > 0 && i%empty == empty-1 {
			p.emptyCache()
		}
	}
	return p.requests()
}

func parse(t *testing.T, conf string) config.Config {
	t.Helper()
	c, _, err := config.Parse(conf, config.DefaultVersion)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestAgreement replays a random program in every mode but that of pools, which the fake driver does not know,
// and wants no difference from the simulation: the two are written apart.
func TestAgreement(t *testing.T) {
	dev := fake(t, "MEMORY=8589934592")
	r := random(1, 5000, 6, 25, 3, 300, 1500)
	for _, c := range []struct {
		mode gpu.Mode
		conf string
	}{
		{gpu.CudaMalloc, ""}, {gpu.Caching, ""}, {gpu.Caching, "max_split_size_mb:20"}, {gpu.Expandable, ""},
		{gpu.Caching, "expandable_segments:True,large_segment_size_mb:32"},
	} {
		for _, touch := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s %s %v", c.mode, c.conf, touch), func(t *testing.T) {
				x, err := gpu.Replay(context.Background(), r, dev, gpu.Options{Mode: c.mode, Config: parse(t, c.conf), Limit: -1, Touch: touch})
				if err != nil {
					t.Fatal(err)
				}
				agrees(t, x)
				if fills := x.Timings[cuda.Fill].Calls; (fills > 0) != touch {
					t.Errorf("%d writes, touch %v", fills, touch)
				}
				if c.mode != gpu.CudaMalloc && x.PeakUsed != x.Run.Stats.Reserved.Peak {
					t.Errorf("%d in use at the peak, %d reserved", x.PeakUsed, x.Run.Stats.Reserved.Peak)
				}
			})
		}
	}
}

// agrees wants a completed replay without a difference, and nothing left behind.
func agrees(t *testing.T, x *gpu.Result) {
	t.Helper()
	if !x.Run.Completed || x.Interrupted || x.Refused+x.Beyond != 0 {
		t.Errorf("did not complete: %+v", x.Run)
	}
	if x.Parted != nil {
		t.Errorf("parted at event %d: GPU %+v, simulated %+v", x.Parted.Event, x.Parted.GPU, x.Parted.Simulated)
	}
	if x.Placed == 0 || x.PlacedAsSaid != x.Placed {
		t.Errorf("%d of %d addresses as simulated, first %+v", x.PlacedAsSaid, x.Placed, x.Displaced)
	}
	if a, b := x.Run.Stats.Reserved, x.Predicted.Stats.Reserved; a != b {
		t.Errorf("reserved %+v, simulated %+v", a, b)
	}
	if x.Before != x.After {
		t.Errorf("%d bytes free before, %d after", x.Before, x.After)
	}
}

// TestPoolSimple: what the fake driver's pools do know, blocks freed in the order of a stack.
func TestPoolSimple(t *testing.T) {
	dev := fake(t)
	p := &program{}
	for i := range 200 {
		a := p.alloc(int64(1000+7*i), 1)
		b := p.alloc(int64(i)<<17+1, 1)
		p.free(b)
		p.free(a)
		if i%50 == 25 {
			p.emptyCache()
		}
	}
	x, err := gpu.Replay(context.Background(), p.requests(), dev, gpu.Options{Mode: gpu.Pool, Touch: true})
	if err != nil {
		t.Fatal(err)
	}
	agrees(t, x)
	if got := x.Timings[cuda.PoolTrim].Calls; got != 4 {
		t.Errorf("%d trims", got)
	}
}

// TestAsRecorded gives the allocator the addresses of the recorded process, and wants each call that it made: same
// kind, same size.
func TestAsRecorded(t *testing.T) {
	dev := fake(t, "MEMORY=17179869184")
	for _, name := range []string{"resnet_train.c0", "dynamic_batch.c0", "gpt_leak_grads.c0"} {
		tr, err := source.Open(filepath.Join(recordtest.Testdata(), "torch", name+".pickle.zst"), source.Options{})
		if err != nil {
			t.Fatal(err)
		}
		d := &tr.Devices[0]
		f := simulate.Follow(d, parse(t, ""), simulate.FollowOptions{Limit: -1})
		w := simulate.WhatIf{Config: parse(t, ""), Limit: -1}
		layout, ok := f.Requests.AsRecorded(f.Surroundings(), w)
		if !ok {
			t.Fatalf("%s: not known", name)
		}
		x, err := gpu.Replay(context.Background(), f.Requests, dev, gpu.Options{Mode: gpu.Caching, Config: w.Config, Limit: -1, Layout: &layout, Touch: true})
		if err != nil {
			t.Fatal(err)
		}
		if at := differs(d, x.Calls); at >= 0 || x.Parted != nil || x.Run.Stats.Reserved.Peak != f.PeakReserved || x.Before != x.After {
			t.Errorf("%s: call %d is another, parted %+v, peak %d of %d", name, at, x.Parted, x.Run.Stats.Reserved.Peak, f.PeakReserved)
		}
		w.Config = parse(t, "roundup_power2_divisions:4")
		if _, ok := f.Requests.AsRecorded(f.Surroundings(), w); ok {
			t.Errorf("%s: known under other settings", name)
		}
	}
}

// TestRefused: the device refuses a request although the bound allows it, and the replay ends at that event in each
// mode, with everything given back.
func TestRefused(t *testing.T) {
	const memory = 256 * mib
	p := &program{}
	for range 3000 {
		p.free(p.alloc(mib, 0)) // so that the failure is not in the first batch
	}
	first := p.device.Events.Len()
	for range 20 {
		p.alloc(30*mib, 0)
	}
	p.alloc(mib, 0)
	for _, mode := range []gpu.Mode{gpu.CudaMalloc, gpu.Pool, gpu.Caching, gpu.Expandable} {
		t.Run(string(mode), func(t *testing.T) {
			dev := fake(t, fmt.Sprintf("MEMORY=%d", memory))
			x, err := gpu.Replay(context.Background(), p.requests(), dev, gpu.Options{Mode: mode, Config: parse(t, ""), Limit: -1, Memory: 1 << 40})
			if err != nil {
				t.Fatal(err)
			}
			o := x.Run.FirstOOM
			if x.Run.Completed || o == nil || o.Requested != 30*mib || x.Refused == 0 || x.Beyond != 0 {
				t.Fatalf("%+v, %+v, refused %d, beyond %d", x.Run, o, x.Refused, x.Beyond)
			}
			if n := o.Event - first; n < 6 || n > 8 || x.Run.Ended != o.Event {
				t.Errorf("failed at event %d, ended at %d; the requests that fill the device begin at %d", o.Event, x.Run.Ended, first)
			}
			if x.Parted == nil || x.Parted.Event != o.Event || x.Parted.GPU.Verb != "is refused" {
				t.Errorf("parted %+v", x.Parted)
			}
			if x.Before != x.After || x.Before != memory {
				t.Errorf("%d bytes free before, %d after", x.Before, x.After)
			}
		})
	}
}

// TestBound: no more is taken than is allowed, and the simulation, which has the same bound, says the same.
func TestBound(t *testing.T) {
	p := &program{}
	for range 20 {
		p.alloc(30*mib, 0)
	}
	const bound = 200*mib + 12345
	for _, mode := range []gpu.Mode{gpu.CudaMalloc, gpu.Pool, gpu.Caching, gpu.Expandable} {
		t.Run(string(mode), func(t *testing.T) {
			dev := fake(t)
			x, err := gpu.Replay(context.Background(), p.requests(), dev, gpu.Options{Mode: mode, Config: parse(t, ""), Limit: -1, Memory: bound})
			if err != nil {
				t.Fatal(err)
			}
			if x.Run.Completed || x.Run.FirstOOM == nil || x.Refused != 0 || x.Beyond == 0 || x.Predicted.Completed {
				t.Errorf("%+v, refused %d, beyond %d", x.Run, x.Refused, x.Beyond)
			}
			if x.PeakUsed > bound || x.PeakUsed < 120*mib {
				t.Errorf("%d bytes in use at the peak", x.PeakUsed)
			}
			if x.Parted != nil {
				t.Errorf("parted: %+v", x.Parted)
			}
		})
	}
	t.Run("next to nothing", func(t *testing.T) {
		x, err := gpu.Replay(context.Background(), p.requests(), fake(t), gpu.Options{Mode: gpu.Caching, Config: parse(t, ""), Limit: -1, Memory: 100 << 10})
		if err != nil || x.Run.Completed || x.Run.Ended != 0 || x.Memory != 2*mib {
			t.Errorf("%v: ended at event %d of a bound of %d", err, x.Run.Ended, x.Memory)
		}
	})
	t.Run("default", func(t *testing.T) {
		x, err := gpu.Replay(context.Background(), p.requests(), fake(t), gpu.Options{Mode: gpu.Caching, Config: parse(t, ""), Limit: -1})
		if err != nil || x.Memory != (966367641)/(2*mib)*2*mib {
			t.Errorf("%v: bound %d, want nine tenths of a gibibyte", err, x.Memory)
		}
	})
}

// TestRecordedFailure: a request that ran out of memory in the recording may do so again, and may not.
func TestRecordedFailure(t *testing.T) {
	p := &program{}
	p.alloc(20*mib, 0)
	p.device.Events.Append(trace.Event{Op: trace.OpOOM, Size: 500 * mib, Block: trace.NoBlock})
	p.alloc(10*mib, 0)
	for _, mode := range []gpu.Mode{gpu.CudaMalloc, gpu.Pool, gpu.Caching} {
		for memory, fails := range map[int64]int64{128 * mib: 1, 1024 * mib: 0} {
			t.Run(fmt.Sprintf("%s %d", mode, memory), func(t *testing.T) {
				dev := fake(t, fmt.Sprintf("MEMORY=%d", memory))
				x, err := gpu.Replay(context.Background(), p.requests(), dev, gpu.Options{Mode: mode, Config: parse(t, ""), Limit: -1, Memory: 1 << 40})
				if err != nil {
					t.Fatal(err)
				}
				if !x.Run.Completed || x.Run.Stats.OOMs != fails || x.Run.Stats.Allocated.Current != 30*mib {
					t.Errorf("%+v", x.Run)
				}
			})
		}
	}
}

// TestPoolRetries: a pool that is refused gives back what is free in all pools, and asks once more.
func TestPoolRetries(t *testing.T) {
	dev := fake(t, "MEMORY=268435456")
	p := &program{}
	a := p.alloc(200*mib, 0)
	p.free(a)
	b := p.alloc(100*mib, 0)
	r := p.requests()
	r.Pools = make([]uint32, p.device.NumBlocks)
	r.Pools[b] = 1
	x, err := gpu.Replay(context.Background(), r, dev, gpu.Options{Mode: gpu.Pool, Memory: 1 << 40})
	if err != nil {
		t.Fatal(err)
	}
	if !x.Run.Completed || x.Run.Stats.Retries != 1 || x.Refused != 0 {
		t.Errorf("%+v, refused %d", x.Run, x.Refused)
	}
}

// TestInterrupted: when the context ends, so does the replay, and nothing is left.
func TestInterrupted(t *testing.T) {
	r := random(2, 20000, 9, 22, 2, 100, 0)
	for _, mode := range []gpu.Mode{gpu.CudaMalloc, gpu.Pool, gpu.Caching, gpu.Expandable} {
		t.Run(string(mode), func(t *testing.T) {
			ctx, cancel := context.WithCancel(context.Background())
			x, err := gpu.Replay(ctx, r, fake(t, "MEMORY=8589934592"), gpu.Options{Mode: mode, Config: parse(t, ""), Limit: -1, Each: func(done, of int) {
				if done >= 8192 {
					cancel()
				}
			}})
			if err != nil {
				t.Fatal(err)
			}
			if !x.Interrupted || x.Run.Completed || x.Run.Ended < 8192 || x.Run.Ended > 8192+4096 || x.Run.FirstOOM != nil || x.Parted != nil && mode != gpu.Pool {
				t.Errorf("interrupted %v: %+v, parted %+v", x.Interrupted, x.Run, x.Parted)
			}
			if x.Before != x.After {
				t.Errorf("%d bytes free before, %d after", x.Before, x.After)
			}
		})
	}
}

// TestTrouble: an error that is not a lack of memory ends the replay with the call and the event.
func TestTrouble(t *testing.T) {
	for mode, fail := range map[gpu.Mode]string{
		gpu.CudaMalloc: "cuMemAlloc:30:700", gpu.Pool: "cuMemAllocFromPoolAsync:30:700", gpu.Caching: "cuMemAlloc:3:700", gpu.Expandable: "cuMemMap:5:700",
	} {
		t.Run(string(mode), func(t *testing.T) {
			dev := fake(t, "FAIL="+fail)
			_, err := gpu.Replay(context.Background(), random(3, 300, 9, 24, 1, 20, 0), dev, gpu.Options{Mode: mode, Config: parse(t, ""), Limit: -1})
			var e *cuda.Error
			call, _, _ := strings.Cut(fail, ":")
			if !errors.As(err, &e) || e.Code != 700 || e.Call != call || !strings.HasPrefix(err.Error(), "event ") {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestLacking: what a device does not have.
func TestLacking(t *testing.T) {
	for mode, lacks := range map[gpu.Mode]string{gpu.Pool: "pools", gpu.Expandable: "vmm"} {
		t.Run(string(mode), func(t *testing.T) {
			_, err := gpu.Replay(context.Background(), random(3, 10, 9, 24, 1, 20, 0), fake(t, "LACKS="+lacks), gpu.Options{Mode: mode, Config: parse(t, ""), Limit: -1})
			if missing := (*cuda.Missing)(nil); !errors.As(err, &missing) {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestOlder: blocks that are older than the recording are asked for first, and a private pool's owner can go.
func TestOlder(t *testing.T) {
	for _, mode := range []gpu.Mode{gpu.CudaMalloc, gpu.Pool, gpu.Caching} {
		p := &program{}
		p.device.NumBlocks = 1
		p.stream = append(p.stream, 0)
		b := p.alloc(3*mib, 0)
		p.free(0)
		p.free(b)
		r := p.requests()
		r.Initial = []simulate.InitialBlock{{Block: trace.Block{ID: 0, Requested: 5 * mib, Size: 5 * mib}}}
		x, err := gpu.Replay(context.Background(), r, fake(t), gpu.Options{Mode: mode, Config: parse(t, ""), Limit: -1})
		if err != nil {
			t.Fatal(err)
		}
		if !x.Run.Completed || x.Run.Stats.Requested != (allocators.Gauge{Peak: 8 * mib}) {
			t.Errorf("%s: %+v", mode, x.Run)
		}
	}
}

// TestMeasure: every call that is promised is measured, and nothing is left.
func TestMeasure(t *testing.T) {
	costs, err := gpu.Measure(context.Background(), fake(t), 100*mib)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[cuda.Kind]int64{}
	for _, c := range costs {
		if c.Size > 100*mib || c.Calls == 0 || c.Failed > 0 {
			t.Errorf("%v of %d: %d calls, %d failed", c.Kind, c.Size, c.Calls, c.Failed)
		}
		seen[c.Kind] += c.Calls
	}
	for _, k := range []cuda.Kind{cuda.Alloc, cuda.Free, cuda.Create, cuda.Map, cuda.Access, cuda.Unmap, cuda.Discard} {
		if seen[k] < 300 {
			t.Errorf("%v: %d calls", k, seen[k])
		}
	}
}
