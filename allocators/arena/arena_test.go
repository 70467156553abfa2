package arena_test

import (
	"testing"

	"github.com/vramscope/vramscope/allocators"
	"github.com/vramscope/vramscope/allocators/alloctest"
	"github.com/vramscope/vramscope/allocators/arena"
)

var policies = []arena.Policy{arena.FirstFit, arena.NextFit, arena.BestFit}

func TestSuite(t *testing.T) {
	for _, p := range policies {
		t.Run(p.String(), func(t *testing.T) {
			alloctest.Run(t, func(d allocators.Driver) allocators.Allocator {
				return arena.New(d, arena.Config{Policy: p})
			}, alloctest.Options{})
			alloctest.Run(t, func(d allocators.Driver) allocators.Allocator {
				return arena.New(d, arena.Config{Policy: p, Size: 128 << 20, Align: 1})
			}, alloctest.Options{})
		})
	}
}

func TestPolicies(t *testing.T) {
	alloctest.DataDriven(t, "testdata/policies", func(d allocators.Driver, args alloctest.Args) allocators.Allocator {
		cfg := arena.Config{Size: args.Size("size"), Align: args.Size("align")}
		for _, p := range policies {
			if p.String() == args.Text("policy") {
				cfg.Policy = p
			}
		}
		return arena.New(d, cfg)
	})
}

func BenchmarkTrace(b *testing.B) {
	for _, p := range policies {
		b.Run(p.String(), func(b *testing.B) {
			alloctest.Benchmark(b, func(d allocators.Driver) allocators.Allocator {
				return arena.New(d, arena.Config{Policy: p})
			})
		})
	}
}
