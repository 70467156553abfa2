package slab

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vramscope/vramscope/allocators"
	"github.com/vramscope/vramscope/allocators/alloctest"
)

func TestSuite(t *testing.T) {
	for name, cfg := range map[string]Config{
		"default": {},
		"small":   {Page: 1 << 16, PerDoubling: 1},
		"fine":    {PerDoubling: 16},
	} {
		t.Run(name, func(t *testing.T) {
			alloctest.Run(t, func(d allocators.Driver) allocators.Allocator { return New(d, cfg) }, alloctest.Options{})
		})
	}
}

// TestClasses compares with the beginning of jemalloc's series of size classes for a quantum of 256.
func TestClasses(t *testing.T) {
	a := New(nil, Config{})
	want := []int64{256, 512, 768, 1024, 1280, 1536, 1792, 2048, 2560, 3072, 3584, 4096, 5 << 10, 6 << 10, 7 << 10,
		8 << 10, 10 << 10, 12 << 10, 14 << 10, 16 << 10, 20 << 10, 24 << 10, 28 << 10, 32 << 10}
	for i, size := range want {
		if got := a.sizeOf(i); got != size {
			t.Errorf("class %d has blocks of %d bytes, want %d", i, got, size)
		}
		if got := a.classOf(size); got != i {
			t.Errorf("a request of %d is of class %d, want %d", size, got, i)
		}
		if got := a.classOf(size + 1); got != i+1 {
			t.Errorf("a request of %d is of class %d, want %d", size+1, got, i+1)
		}
	}
	for _, per := range []int{1, 2, 3, 8, 16} {
		a := New(nil, Config{PerDoubling: per})
		for i := range 300 {
			size := a.sizeOf(i)
			if size > 1<<56 {
				break
			}
			if a.classOf(size) != i || a.classOf(size+1) != i+1 || i > 0 && a.sizeOf(i-1) >= size {
				t.Fatalf("%d to a power of two: class %d of %d bytes", per, i, size)
			}
		}
	}
}

func TestRules(t *testing.T) {
	alloctest.DataDriven(t, "testdata/rules", func(d allocators.Driver, args alloctest.Args) allocators.Allocator {
		return New(d, Config{Page: args.Size("page"), PerDoubling: int(args.Size("per-doubling"))})
	})
}

func TestWaste(t *testing.T) {
	a := New(alloctest.NewDriver(0), Config{Page: 4096})
	for i, size := range []int64{700, 700, 700, 700, 700, 2000, 2000, 300} {
		if err := a.Malloc(allocators.Request{Block: uint32(i), Size: size}); err != nil {
			t.Fatal(err)
		}
	}
	a.Free(0, true)
	a.Free(6, false)
	a.Free(7, false)
	want := []Class{
		{Size: 512, SlabBytes: 4096, Empty: 1},
		// 700 bytes are of the class of 768: five to a slab of 4096, 256 left over.
		{Size: 768, SlabBytes: 4096, Full: 1, Blocks: 5, Rounding: 5 * 68, LeftOver: 256},
		{Size: 2048, SlabBytes: 4096, Partial: 1, Blocks: 1, Rounding: 48, Free: 2048},
	}
	if diff := cmp.Diff(want, a.Classes()); diff != "" {
		t.Error(diff)
	}
	a.EmptyCache()
	if got := a.Classes(); !slices.Equal(got, want[1:]) {
		t.Error(got)
	}
}

func BenchmarkTrace(b *testing.B) {
	alloctest.Benchmark(b, func(d allocators.Driver) allocators.Allocator { return New(d, Config{}) })
}
