package rmm_test

import (
	"testing"

	"github.com/vramscope/vramscope/allocators"
	"github.com/vramscope/vramscope/allocators/alloctest"
	"github.com/vramscope/vramscope/allocators/rmm"
)

func TestPool(t *testing.T) {
	for name, cfg := range map[string]rmm.PoolConfig{
		"default": {},
		"initial": {Initial: 100 << 20},
		"maximum": {Maximum: 120<<20 + 1},
		"both":    {Initial: 10 << 20, Maximum: 200 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			alloctest.Run(t, func(d allocators.Driver) allocators.Allocator { return rmm.NewPool(d, cfg) },
				alloctest.Options{KeepsMemory: true, Streams: true})
		})
	}
}

func TestPoolRules(t *testing.T) {
	alloctest.DataDriven(t, "testdata/pool", func(d allocators.Driver, args alloctest.Args) allocators.Allocator {
		return rmm.NewPool(d, rmm.PoolConfig{Initial: args.Size("initial"), Maximum: args.Size("maximum")})
	})
}

func TestBinning(t *testing.T) {
	for name, cfg := range map[string]rmm.BinningConfig{
		"driver": {MinExponent: 8, MaxExponent: 16, Preallocate: 16},
		"pool":   {MinExponent: 12, MaxExponent: 18, Preallocate: 8, Pool: &rmm.PoolConfig{Maximum: 200 << 20}},
		"large":  {}, // 992 MiB of first chunks: more than the device of the suite has
	} {
		t.Run(name, func(t *testing.T) {
			alloctest.Run(t, func(d allocators.Driver) allocators.Allocator { return rmm.NewBinning(d, cfg) },
				alloctest.Options{KeepsMemory: true, Streams: true})
		})
	}
}

func TestBinningRules(t *testing.T) {
	alloctest.DataDriven(t, "testdata/binning", func(d allocators.Driver, args alloctest.Args) allocators.Allocator {
		cfg := rmm.BinningConfig{
			MinExponent: int(args.Size("min")),
			MaxExponent: int(args.Size("max")),
			Preallocate: int(args.Size("preallocate")),
		}
		if args.Flag("pool") {
			cfg.Pool = &rmm.PoolConfig{Initial: args.Size("pool")}
		}
		return rmm.NewBinning(d, cfg)
	})
}

func TestArena(t *testing.T) {
	for name, cfg := range map[string]rmm.ArenaConfig{
		"small": {Size: 9<<20 + 100},
		"large": {Size: 192 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			alloctest.Run(t, func(d allocators.Driver) allocators.Allocator { return rmm.NewArena(d, cfg) },
				alloctest.Options{KeepsMemory: true, Streams: true})
		})
	}
	t.Run("default", func(t *testing.T) {
		alloctest.Run(t, func(d allocators.Driver) allocators.Allocator { return rmm.NewArena(d, rmm.ArenaConfig{}) },
			alloctest.Options{KeepsMemory: true, Streams: true, KnowsCapacity: true})
	})
}

func TestArenaRules(t *testing.T) {
	alloctest.DataDriven(t, "testdata/arena", func(d allocators.Driver, args alloctest.Args) allocators.Allocator {
		return rmm.NewArena(d, rmm.ArenaConfig{Size: args.Size("size")})
	})
}

func BenchmarkTrace(b *testing.B) {
	b.Run("arena", func(b *testing.B) {
		alloctest.Benchmark(b, func(d allocators.Driver) allocators.Allocator { return rmm.NewArena(d, rmm.ArenaConfig{}) })
	})
	b.Run("binning", func(b *testing.B) {
		alloctest.Benchmark(b, func(d allocators.Driver) allocators.Allocator {
			return rmm.NewBinning(d, rmm.BinningConfig{Pool: &rmm.PoolConfig{}})
		})
	})
	b.Run("pool", func(b *testing.B) {
		alloctest.Benchmark(b, func(d allocators.Driver) allocators.Allocator { return rmm.NewPool(d, rmm.PoolConfig{}) })
	})
}
