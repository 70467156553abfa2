package caching_test

import (
	"slices"
	"testing"

	"github.com/vramscope/vramscope/allocators"
	"github.com/vramscope/vramscope/allocators/caching"
	"github.com/vramscope/vramscope/allocators/caching/config"
	"github.com/vramscope/vramscope/allocators/driver/sim"
)

// A player plays programs too long for a script.
type player struct {
	t *testing.T
	a *caching.Allocator
	n uint32
}

func newPlayer(t *testing.T, settings string) *player {
	t.Helper()
	cfg, _, err := config.Parse(settings, config.DefaultVersion)
	if err != nil {
		t.Fatal(err)
	}
	return &player{t: t, a: caching.New(sim.New(sim.Config{}), caching.NewConfig(cfg))}
}

func (p *player) malloc(mebibytes float64) uint32 {
	p.t.Helper()
	p.n++
	if err := p.a.Malloc(allocators.Request{Block: p.n, Size: int64(mebibytes * mib)}); err != nil {
		p.t.Fatal(err)
	}
	return p.n
}

func (p *player) free(blocks ...uint32) {
	for _, b := range blocks {
		p.a.Free(b, false)
	}
}

func (p *player) reserved() int64 { return p.a.Reserved() / mib }

// TestGrowthWithoutBound: with expandable segments and max_split_size_mb together, memory that is the same in
// each cycle takes more and more. Each cycle asks for 91 and 45.5 MiB, keeps a small block, and frees the two.
// The figures are those of a table in PyTorch's pull request 193400, measured with max_split_size_mb:128.
func TestGrowthWithoutBound(t *testing.T) {
	p := newPlayer(t, "expandable_segments:True,max_split_size_mb:128")
	p.malloc(64)
	var got []int64
	for cycle := range 101 {
		a, b := p.malloc(91), p.malloc(45.5)
		p.malloc(2)
		if cycle%20 == 0 {
			got = append(got, p.reserved())
		}
		p.free(a, b)
	}
	if want := []int64{220, 2980, 5760, 8520, 11300, 14060}; !slices.Equal(got, want) {
		t.Errorf("reserved %v MiB, the table has %v", got, want)
	}

	// Without max_split_size_mb the two come back to the same place.
	p = newPlayer(t, "expandable_segments:True")
	p.malloc(64)
	for range 101 {
		a, b := p.malloc(91), p.malloc(45.5)
		p.malloc(2)
		p.free(a, b)
	}
	if got := p.reserved(); got > 64+91+46+2*101+20 {
		t.Errorf("reserved %d MiB without max_split_size_mb", got)
	}
}

// TestOrder: small blocks first leave segments that large ones cannot use; large first, everything fits.
func TestOrder(t *testing.T) {
	for _, c := range []struct {
		settings      string
		first, second float64
		blocks        int
		want          int64
	}{
		{"", 16, 32, 8, 256},
		{"", 32, 16, 4, 128},
		{"expandable_segments:True", 16, 32, 8, 140},
		{"expandable_segments:True", 32, 16, 4, 140},
	} {
		p := newPlayer(t, c.settings)
		var blocks []uint32
		for range c.blocks {
			blocks = append(blocks, p.malloc(c.first))
		}
		p.free(blocks...)
		for range int(float64(c.blocks) * c.first / c.second) {
			p.malloc(c.second)
		}
		if got := p.reserved(); got != c.want {
			t.Errorf("%q, %v MiB then %v: %d MiB reserved, want %d", c.settings, c.first, c.second, got, c.want)
		}
	}
}
