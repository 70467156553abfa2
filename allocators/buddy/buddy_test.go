package buddy_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vramscope/vramscope/allocators"
	"github.com/vramscope/vramscope/allocators/alloctest"
	"github.com/vramscope/vramscope/allocators/buddy"
)

func TestSuite(t *testing.T) {
	for name, cfg := range map[string]buddy.Config{
		"default": {},
		"coarse":  {MinBlock: 64 << 10, TopBlock: 1 << 20},
		"flat":    {MinBlock: 64 << 10, TopBlock: 64 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			alloctest.Run(t, func(d allocators.Driver) allocators.Allocator { return buddy.New(d, cfg) }, alloctest.Options{})
		})
	}
}

func TestRules(t *testing.T) {
	alloctest.DataDriven(t, "testdata/rules", func(d allocators.Driver, args alloctest.Args) allocators.Allocator {
		return buddy.New(d, buddy.Config{MinBlock: args.Size("min-block"), TopBlock: args.Size("top-block")})
	})
}

func TestOrders(t *testing.T) {
	a := buddy.New(alloctest.NewDriver(0), buddy.Config{MinBlock: 512, TopBlock: 4096})
	for i, size := range []int64{100, 500, 600} {
		if err := a.Malloc(allocators.Request{Block: uint32(i), Size: size}); err != nil {
			t.Fatal(err)
		}
	}
	a.Free(1, true)
	want := []buddy.Order{
		{Size: 512, Blocks: 2, Rounding: 412 + 12},
		{Size: 1024, Blocks: 1, Rounding: 424},
		{Size: 2048, Free: 1},
		{Size: 4096},
	}
	if diff := cmp.Diff(want, a.Orders()); diff != "" {
		t.Error(diff)
	}
}

func BenchmarkTrace(b *testing.B) {
	alloctest.Benchmark(b, func(d allocators.Driver) allocators.Allocator { return buddy.New(d, buddy.Config{}) })
}
