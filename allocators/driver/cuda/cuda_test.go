package cuda_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/vramscope/vramscope/allocators"
	"github.com/vramscope/vramscope/allocators/alloctest"
	"github.com/vramscope/vramscope/allocators/caching"
	"github.com/vramscope/vramscope/allocators/caching/config"
	"github.com/vramscope/vramscope/allocators/driver/cuda"
	"github.com/vramscope/vramscope/internal/cudatest"
)

const mib = 1 << 20

// load opens a driver that needs no GPU, or skips.
func load(t *testing.T, options ...string) *cuda.Library {
	t.Helper()
	t.Setenv(cuda.PathVariable, cudatest.Library(t, options...))
	lib, err := cuda.Load()
	if missing := (*cuda.Missing)(nil); errors.As(err, &missing) {
		t.Skipf("no way to a GPU: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(lib.Close)
	return lib
}

func open(t *testing.T, settings ...string) *cuda.Device {
	t.Helper()
	for _, s := range settings {
		name, value, _ := strings.Cut(s, "=")
		t.Setenv("FAKE_CUDA_"+name, value)
	}
	d, err := load(t).Open(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// TestBatch: a batch whose calls depend on each other's results, ended by one that fails.
func TestBatch(t *testing.T) {
	d := open(t, "MEMORY=104857600")
	d.Slots(8)
	ops := []cuda.Op{
		{Kind: cuda.Alloc, Size: 40 * mib, Slot: 0, Flags: cuda.InSlot | cuda.Look},
		{Kind: cuda.Fill, Size: 40 * mib, Slot: 0, Flags: cuda.InSlot},
		{Kind: cuda.Alloc, Size: 90 * mib, Slot: 1, Flags: cuda.InSlot}, // refused, and so what
		{Kind: cuda.Free, Slot: 1, Flags: cuda.InSlot},                  // nothing to give back
		{Kind: cuda.Free, Slot: 0, Flags: cuda.InSlot | cuda.Look},
		{Kind: cuda.Free, Slot: 0, Flags: cuda.InSlot}, // nor here
		{Kind: cuda.Alloc, Size: 90 * mib, Slot: 1, Flags: cuda.InSlot},
		{Kind: cuda.Alloc, Size: 90 * mib, Slot: 2, Flags: cuda.InSlot | cuda.Stop}, // ends it
		{Kind: cuda.Free, Slot: 1, Flags: cuda.InSlot},
	}
	n, err := d.Run(ops)
	if err != nil || n != 8 {
		t.Fatalf("%d calls, %v", n, err)
	}
	for i, want := range []int32{0, 0, 2, cuda.NotMade, 0, cuda.NotMade, 0, 2, cuda.NotMade} {
		if ops[i].Result != want {
			t.Errorf("call %d: result %d, want %d", i, ops[i].Result, want)
		}
	}
	if ops[0].Available != 60*mib || ops[4].Available != 100*mib || ops[1].Available != -1 || ops[0].Addr == 0 {
		t.Errorf("%+v, %+v", ops[0], ops[4])
	}
	err = d.Err(&ops[7])
	var e *cuda.Error
	if !errors.As(err, &e) || *e != (cuda.Error{Call: "cuMemAlloc", Code: 2, Name: "CUDA_ERROR_OUT_OF_MEMORY", Text: "out of memory"}) {
		t.Errorf("%#v", err)
	}
	if d.Err(&ops[0]) != nil || d.Err(&ops[3]) != nil || !ops[7].OutOfMemory() {
		t.Error("errors of calls that have none")
	}
	if n, err := d.Run(ops[8:]); n != 1 || err != nil || ops[8].Result != 0 {
		t.Errorf("%d calls, %v, %+v", n, err, ops[8])
	}
	timings := d.TakeTimings()
	if a := timings[cuda.Alloc]; a.Calls != 4 || a.Failed != 2 || a.Total < a.Max || a.Max < a.Quantile(0.5) {
		t.Errorf("%+v", a)
	}
	if timings = d.TakeTimings(); timings[cuda.Alloc].Calls != 0 {
		t.Error("timings were not taken")
	}
	for _, op := range []cuda.Op{{Kind: cuda.Alloc, Size: 1, Slot: 8, Flags: cuda.InSlot}, {Kind: cuda.PoolFree, Stream: 1}} {
		if _, err := d.Run([]cuda.Op{op}); err == nil {
			t.Errorf("%+v: no error", op)
		}
	}
	if op := []cuda.Op{{Kind: 99}}; true {
		if _, err := d.Run(op); err != nil || d.Err(&op[0]) == nil {
			t.Errorf("a call that there is none of: %v, %+v", err, op)
		}
	}
}

// TestQuantile holds the counts in bins against sorted values.
func TestQuantile(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var x cuda.Timing
	var all []time.Duration
	for range 5000 {
		v := time.Duration(r.Int64N(1 << r.IntN(40)))
		x.Add(v, false)
		all = append(all, v)
	}
	slices.Sort(all)
	for _, share := range []float64{0, 0.001, 0.25, 0.5, 0.9, 0.99, 1} {
		want := all[min(max(int(share*5000+0.999999)-1, 0), len(all)-1)]
		got := x.Quantile(share)
		if off := got - want; off > want/64+1 || -off > want/64+1 {
			t.Errorf("quantile %v: %d, want %d", share, got, want)
		}
	}
	if x.Max != all[len(all)-1] || (&cuda.Timing{}).Quantile(0.5) != 0 {
		t.Error("the greatest, or none")
	}
}

// play makes a script's calls, without those that follow from a request that failed.
func play(script alloctest.Script, a allocators.Allocator) {
	failed := map[uint32]bool{}
	for _, op := range script {
		switch op.Kind {
		case alloctest.Malloc:
			failed[op.Block] = a.Malloc(allocators.Request{Block: op.Block, Size: op.Size, Stream: op.Stream}) != nil
		case alloctest.EmptyCache:
			a.EmptyCache()
		default:
			if failed[op.Block] {
				continue
			}
			if op.Kind == alloctest.Complete {
				a.Complete(op.Block)
			} else {
				a.Free(op.Block, op.Kind == alloctest.FreePending)
			}
		}
	}
}

// TestDriver runs the model of PyTorch's allocator on random scripts over a device that runs out now and then,
// and compares with a driver that keeps books in another way.
func TestDriver(t *testing.T) {
	for name, conf := range map[string]string{"classic": "", "expandable": "expandable_segments:True", "other pages": "expandable_segments:True,large_segment_size_mb:32"} {
		t.Run(name, func(t *testing.T) {
			d := open(t, "MEMORY=268435456")
			cfg, _, err := config.Parse(conf, config.DefaultVersion)
			if err != nil {
				t.Fatal(err)
			}
			rapid.Check(t, func(t *rapid.T) {
				script := alloctest.Scripts(80, 48<<20).Draw(t, "script")
				most := rapid.SampledFrom([]int64{0, 96 * mib}).Draw(t, "most")
				driver, err := cuda.NewDriver(d, cuda.DriverOptions{Most: most, Page: cfg.LargeSegmentSize})
				if err != nil {
					t.Fatal(err)
				}
				a := caching.New(driver, caching.Config{Config: cfg, Limit: -1, DeviceTotal: d.Total})
				play(script, a)
				if driver.Err() != nil {
					t.Fatal(driver.Err())
				}
				held := a.Stats().Reserved.Current
				free, _, _ := d.Memory()
				if driver.Held() != held || free != 256*mib-held || most > 0 && held > most {
					t.Fatalf("the allocator holds %d, the driver %d, the device has %d free", held, driver.Held(), free)
				}
				if driver.Peak() != a.Stats().Reserved.Peak {
					t.Fatalf("peak %d, of the allocator %d", driver.Peak(), a.Stats().Reserved.Peak)
				}
				if err := driver.GiveBack(); err != nil {
					t.Fatal(err)
				}
				if free, _, _ := d.Memory(); free != 256*mib || driver.Held() != 0 {
					t.Fatalf("%d bytes free after all was given back", free)
				}
			})
		})
	}
}

// TestUndone: a mapping that fails half-way leaves nothing mapped.
func TestUndone(t *testing.T) {
	for _, fail := range []string{"cuMemCreate:3:2", "cuMemMap:2:2", "cuMemSetAccess:1:1"} {
		t.Run(fail, func(t *testing.T) {
			d := open(t, "FAIL="+fail)
			driver, err := cuda.NewDriver(d, cuda.DriverOptions{Page: 20 * mib})
			if err != nil {
				t.Fatal(err)
			}
			at, err := driver.Reserve(200 * mib)
			if err != nil {
				t.Fatal(err)
			}
			err = driver.Map(at, 100*mib)
			noMemory := strings.HasPrefix(fail, "cuMemCreate")
			if err == nil || errors.Is(err, allocators.ErrNoMemory) != noMemory || (driver.Err() == nil) != noMemory {
				t.Errorf("%v, noted %v", err, driver.Err())
			}
			if free, _, _ := d.Memory(); free != 1<<30 || driver.Held() != 0 {
				t.Errorf("%d bytes free, %d held", free, driver.Held())
			}
			if err := driver.Map(at, 100*mib); err != nil {
				t.Errorf("once more: %v", err)
			}
			driver.Unmap(at+20*mib, 60*mib)
			if free, _, _ := d.Memory(); free != 1<<30-40*mib {
				t.Errorf("%d bytes free", free)
			}
			if err := driver.GiveBack(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestMisuse: what no correct model does is an error that is noted, and harms nothing.
func TestMisuse(t *testing.T) {
	d := open(t)
	for name, do := range map[string]func(x *cuda.Driver){
		"free of nothing":           func(x *cuda.Driver) { x.Free(12345, 1) },
		"free of another size":      func(x *cuda.Driver) { a, _ := x.Alloc(2 * mib); x.Free(a, mib) },
		"release of nothing":        func(x *cuda.Driver) { x.Release(1, 1) },
		"map without reservation":   func(x *cuda.Driver) { _ = x.Map(1<<40, 2*mib) },
		"map of half a granule":     func(x *cuda.Driver) { a, _ := x.Reserve(32 * mib); _ = x.Map(a, mib) },
		"unmap of nothing":          func(x *cuda.Driver) { x.Unmap(1<<40, 2*mib) },
		"unmap of a part":           func(x *cuda.Driver) { a, _ := x.Reserve(40 * mib); _ = x.Map(a, 20*mib); x.Unmap(a, 2*mib) },
		"release of what is mapped": func(x *cuda.Driver) { a, _ := x.Reserve(40 * mib); _ = x.Map(a, 20*mib); x.Release(a, 40*mib) },
	} {
		x, err := cuda.NewDriver(d, cuda.DriverOptions{Page: 20 * mib})
		if err != nil {
			t.Fatal(err)
		}
		if do(x); x.Err() == nil {
			t.Errorf("%s: no error", name)
		}
		if err := x.GiveBack(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	x, _ := cuda.NewDriver(d, cuda.DriverOptions{})
	for _, size := range []int64{0, -1} {
		if _, err := x.Alloc(size); err == nil {
			t.Errorf("allocation of %d bytes", size)
		}
		if _, err := x.Reserve(size); err == nil {
			t.Errorf("reservation of %d bytes", size)
		}
	}
	if free, _, _ := d.Memory(); free != 1<<30 {
		t.Errorf("%d bytes free", free)
	}
}

// TestMissing: what is not there is a *Missing that says what.
func TestMissing(t *testing.T) {
	want := func(err error, text string) {
		t.Helper()
		if missing := (*cuda.Missing)(nil); !errors.As(err, &missing) || !strings.Contains(err.Error(), text) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want a *Missing with %q", err, text)
		}
	}
	lib := load(t, "-DWITHOUT_POOLS", "-DWITHOUT_VMM")
	d, err := lib.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	want(d.NeedPools(), "cuMemPoolCreate")
	want(d.NeedVirtualMemory(), "cuMemGetAllocationGranularity")
	_, err = d.Pool(0)
	want(err, "newer driver")
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if _, err := d.Run([]cuda.Op{{Kind: cuda.Sync}}); err == nil {
		t.Error("a closed device makes calls")
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	_, err = lib.Open(1)
	want(err, "there is no device 1")

	other := filepath.Join(t.TempDir(), "libcuda.so.1")
	if err := os.WriteFile(other, []byte("no library"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{other: cuda.PathVariable, other + "x": "cannot open", cudatest.NVML(t): "it has no cuInit"} {
		t.Setenv(cuda.PathVariable, path)
		_, err = cuda.Load()
		want(err, text)
	}
	t.Setenv(cuda.PathVariable, cudatest.Library(t))
	t.Setenv("FAKE_CUDA_DEVICES", "0")
	_, err = cuda.Load()
	want(err, "CUDA_ERROR_NO_DEVICE")
	t.Setenv("FAKE_CUDA_DEVICES", "1")
	t.Setenv("FAKE_CUDA_FAIL", "cuInit:1:803")
	_, err = cuda.Load()
	want(err, "error 803 (803)")
}

// TestDevices: what the driver tells.
func TestDevices(t *testing.T) {
	t.Setenv("FAKE_CUDA_DEVICES", "3")
	list, err := load(t).Devices()
	if err != nil || len(list) != 3 {
		t.Fatalf("%v, %v", list, err)
	}
	want := cuda.Info{Index: 2, Name: "Imaginary GPU", UUID: "GPU-02030405-0607-0809-0a0b-0c0d0e0f1011", Bus: "0000:03:00.0", Major: 9,
		Processors: 4, Total: 1<<30 + 512*mib, VirtualMemory: true, Granularity: 2 * mib, Recommended: 2 * mib, Pools: true, PoolHandles: 1}
	if list[2] != want {
		t.Errorf("got  %+v\nwant %+v", list[2], want)
	}
	if s := fmt.Sprint(cuda.PoolAlloc, cuda.Kind(77)); s != "cuMemAllocFromPoolAsync call 77" {
		t.Error(s)
	}
}
