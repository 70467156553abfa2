package simulate_test

import (
	"fmt"
	"testing"

	"github.com/vramscope/vramscope/allocators/caching/config"
	"github.com/vramscope/vramscope/internal/recordtest"
	"github.com/vramscope/vramscope/simulate"
	"github.com/vramscope/vramscope/trace"
	"github.com/vramscope/vramscope/trace/source"
)

// A recording that lost its beginning is followed as well as a whole one: its start is rebuilt from its end.
func TestFollowCut(t *testing.T) {
	for _, r := range recordtest.Snapshots() {
		if r.Setting() == "c4" || r.Workload() == "gc_streams" || r.Workload() == "gc" {
			continue // how old garbage was before the cut cannot be known
		}
		if r.Workload() == "toggle" || r.Workload() == "pool_freed_exp" {
			continue // nor which setting was on, nor the pools of expandable segments that the end does not have
		}
		t.Run(r.Name, func(t *testing.T) {
			tr, err := source.Open(r.File, source.Options{})
			if err != nil {
				t.Fatal(err)
			}
			cfg, _ := simulate.SettingsOf(tr, config.DefaultVersion)
			for i := range tr.Devices {
				for part := 1; part < 8; part += 2 {
					n := tr.Devices[i].Events.Len() * part / 8
					d := cutAt(&tr.Devices[i], n)
					f := simulate.Follow(d, cfg, simulate.FollowOptions{Limit: r.Limit})
					s := f.Score
					if !s.Exact() {
						t.Errorf("device %d cut at %d: placements %v, segments %v, blocks %v, first %s", d.Index, n, s.Placements, s.Segments, s.Blocks, fmt.Sprintf("%+v", *s.First))
					}
				}
			}
		})
	}
}

// cutAt is the device as a ring buffer would have kept it that lost the first n events.
func cutAt(d *trace.Device, n int) *trace.Device {
	c := *d
	c.Events = trace.Events{}
	c.Warnings = nil
	c.Initial = trace.State{}
	c.Final.Blocks = append([]trace.Block(nil), d.Final.Blocks...)
	for i := range c.Final.Blocks {
		c.Final.Blocks[i].ID = trace.NoBlock
	}
	for i, e := range d.Events.All() {
		if i < n {
			continue
		}
		x := *e
		x.Block, x.Pool = trace.NoBlock, trace.PoolUnknown
		c.Events.Append(x)
	}
	trace.Rewind(&c)
	trace.Pair(&c)
	return &c
}
