package bfc_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vramscope/vramscope/allocators"
	"github.com/vramscope/vramscope/allocators/alloctest"
	"github.com/vramscope/vramscope/allocators/bfc"
)

func TestSuite(t *testing.T) {
	for name, c := range map[string]struct {
		cfg  bfc.Config
		opts alloctest.Options
	}{
		// The size of a region depends on what the limit still allows.
		"default":   {bfc.Config{}, alloctest.Options{KeepsMemory: true, KnowsCapacity: true}},
		"collected": {bfc.Config{GarbageCollection: true}, alloctest.Options{KnowsCapacity: true}},
		"fixed":     {bfc.Config{Preallocate: true, Limit: 192 << 20}, alloctest.Options{KeepsMemory: true}},
		"fraction":  {bfc.Config{FragmentationFraction: 0.01, Limit: 200 << 20}, alloctest.Options{KeepsMemory: true}},
	} {
		t.Run(name, func(t *testing.T) {
			alloctest.Run(t, func(d allocators.Driver) allocators.Allocator { return bfc.New(d, c.cfg) }, c.opts)
		})
	}
}

func TestRules(t *testing.T) {
	alloctest.DataDriven(t, "testdata/rules", func(d allocators.Driver, args alloctest.Args) allocators.Allocator {
		return bfc.New(d, bfc.Config{
			Limit:             args.Size("limit"),
			Preallocate:       args.Flag("preallocate"),
			GarbageCollection: args.Flag("gc"),
		})
	})
}

// TestBinOf has the values that the constructor of the original checks itself with.
func TestBinOf(t *testing.T) {
	for b := range 21 {
		size := int64(256) << b
		for _, s := range []int64{size, size + 255, 2*size - 1} {
			if got := bfc.BinOf(s); got != b {
				t.Errorf("bin of %d is %d, want %d", s, got, b)
			}
		}
	}
	if got := bfc.BinOf(1 << 40); got != 20 {
		t.Errorf("the largest chunks are in bin %d, want 20", got)
	}
}

func TestBins(t *testing.T) {
	a := bfc.New(alloctest.NewDriver(0), bfc.Config{})
	for i, size := range []int64{1, 200, 1500, 2000} {
		if err := a.Malloc(allocators.Request{Block: uint32(i), Size: size}); err != nil {
			t.Fatal(err)
		}
	}
	a.Free(1, false)
	bins := a.Bins()
	var used []bfc.Bin
	for _, b := range bins {
		if b.Chunks > 0 {
			used = append(used, b)
		}
	}
	rest := int64(2<<20 - 256 - 256 - 1536 - 2048)
	want := []bfc.Bin{
		{Size: 256, Chunks: 2, Bytes: 512, InUse: 1, InUseBytes: 256, ClientBytes: 1, LargestBytes: 256},
		{Size: 1024, Chunks: 1, Bytes: 1536, InUse: 1, InUseBytes: 1536, ClientBytes: 1500},
		{Size: 2048, Chunks: 1, Bytes: 2048, InUse: 1, InUseBytes: 2048, ClientBytes: 2000},
		{Size: 1 << 20, Chunks: 1, Bytes: rest, LargestBytes: rest},
	}
	if diff := cmp.Diff(want, used); diff != "" {
		t.Error(diff)
	}
}

func BenchmarkTrace(b *testing.B) {
	alloctest.Benchmark(b, func(d allocators.Driver) allocators.Allocator { return bfc.New(d, bfc.Config{}) })
}
