package caching_test

import (
	"testing"
	"time"

	"github.com/vramscope/vramscope/allocators"
	"github.com/vramscope/vramscope/allocators/caching"
	"github.com/vramscope/vramscope/allocators/caching/config"
	"github.com/vramscope/vramscope/allocators/driver/sim"
)

// A program with more streams than any has, each of which holds a free block, costs no more for each of them.
func TestManyStreams(t *testing.T) {
	const n = 60_000
	a := caching.New(sim.New(sim.Config{}), caching.NewConfig(config.Default()))
	begin := time.Now()
	for i := range uint32(n) {
		if err := a.Malloc(allocators.Request{Block: i, Size: 2 << 20, Stream: i}); err != nil {
			t.Fatal(err)
		}
		a.Free(i, false)
	}
	s := a.Stats()
	if s.AtPeak.Largest != 20<<20 || s.AtPeak.Cached != (n-1)*20<<20 {
		t.Errorf("at the peak %+v", s.AtPeak)
	}
	if d := time.Since(begin); d > 20*time.Second {
		t.Errorf("it took %v", d) // it was minutes when each new peak looked at all streams
	} else {
		t.Log(d)
	}
}
