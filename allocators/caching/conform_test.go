package caching_test

import (
	"testing"

	"github.com/vramscope/vramscope/allocators"
	"github.com/vramscope/vramscope/allocators/alloctest"
	"github.com/vramscope/vramscope/allocators/caching"
	"github.com/vramscope/vramscope/allocators/caching/config"
)

// TestConform puts the model through the suite that all models pass, under settings that change its ways.
func TestConform(t *testing.T) {
	opts := alloctest.Options{CompletesEarly: true, Streams: true}
	for name, text := range map[string]string{
		"default":    "",
		"expandable": "expandable_segments:True",
		"split":      "max_split_size_mb:32",
		"both":       "expandable_segments:True,max_split_size_mb:32",
		"divided":    "roundup_power2_divisions:[1:2,4:4,>:8]",
		"wide":       "large_segment_size_mb:64",
	} {
		cfg, _, err := config.Parse(text, config.DefaultVersion)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) {
			opts := opts
			opts.KnowsCapacity = cfg.Expandable // it sizes the address space
			alloctest.Run(t, func(d allocators.Driver) allocators.Allocator {
				return caching.New(d, caching.NewConfig(cfg))
			}, opts)
		})
	}
	cfg, _, err := config.Parse("garbage_collection_threshold:0.6", config.DefaultVersion)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("limit", func(t *testing.T) {
		alloctest.Run(t, func(d allocators.Driver) allocators.Allocator {
			c := caching.NewConfig(cfg)
			c.Limit = 200 << 20
			return caching.New(d, c)
		}, opts)
	})
}
