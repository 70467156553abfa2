package caching

import (
	"testing"

	"github.com/vramscope/vramscope/allocators"
	"github.com/vramscope/vramscope/allocators/alloctest"
	"github.com/vramscope/vramscope/allocators/caching/config"
)

// BenchmarkModel runs a training script of a million operations through the settings that people use.
func BenchmarkModel(b *testing.B) {
	for _, text := range []string{"", "expandable_segments:True", "max_split_size_mb:128", "roundup_power2_divisions:8"} {
		cfg, _, err := config.Parse(text, config.DefaultVersion)
		if err != nil {
			b.Fatal(err)
		}
		name := text
		if name == "" {
			name = "default"
		}
		b.Run(name, func(b *testing.B) {
			alloctest.Benchmark(b, func(d allocators.Driver) allocators.Allocator { return New(d, NewConfig(cfg)) })
		})
	}
}
