package simulate_test

import (
	"testing"
	"time"

	"github.com/vramscope/vramscope/allocators/caching/config"
	"github.com/vramscope/vramscope/internal/recordtest"
	"github.com/vramscope/vramscope/internal/tracetest"
	"github.com/vramscope/vramscope/simulate"
	"github.com/vramscope/vramscope/trace"
	"github.com/vramscope/vramscope/trace/source"
)

// Nothing that happens to a recording makes following it fail, or take long, or count otherwise than its
// events say.
func TestFollowDamaged(t *testing.T) {
	for _, rec := range recordtest.Snapshots() {
		if !rec.Own {
			continue // there are enough without them
		}
		t.Run(rec.Name, func(t *testing.T) {
			tr, err := source.Open(rec.File, source.Options{})
			if err != nil {
				t.Fatal(err)
			}
			cfg, _ := simulate.SettingsOf(tr, config.DefaultVersion)
			for _, x := range tracetest.Damages {
				for i := range tr.Devices {
					d := x.Apply(&tr.Devices[i])
					r := &recorder{dev: d, cfg: cfg, limit: rec.Limit, name: x.Name}
					for _, s := range d.Initial.Segments {
						r.segments += s.Size
					}
					checkFollow(t, r)
				}
			}
		})
	}
}

// More segments, or pools, than any device has are counted, and nothing is compared.
func TestFollowTooMuch(t *testing.T) {
	const n = 100_000
	at := func(i int) uint64 { return 0x7f0000000000 + uint64(i)*20<<20 }
	for _, c := range []struct {
		name  string
		pools int
		do    func(i int) []trace.Event
		held  int64 // segments at the peak
	}{
		{"segments given back", 1, func(i int) []trace.Event {
			return []trace.Event{{Op: trace.OpSegmentFree, Addr: at(i), Size: 20 << 20}}
		}, n},
		{"segments taken", 1, func(i int) []trace.Event {
			return []trace.Event{{Op: trace.OpSegmentAlloc, Addr: at(i), Size: 20 << 20}, {Op: trace.OpAlloc, Addr: at(i), Size: 5 << 20}}
		}, n},
		{"pools", 60_000, func(i int) []trace.Event {
			pool := trace.PoolID(i % 60_000)
			return []trace.Event{{Op: trace.OpSegmentAlloc, Addr: at(i), Size: 20 << 20, Pool: pool}, {Op: trace.OpAlloc, Addr: at(i), Size: 5 << 20, Pool: pool}}
		}, n},
	} {
		t.Run(c.name, func(t *testing.T) {
			begin := time.Now()
			d := &trace.Device{Streams: []uint64{0}, Pools: make([]trace.Pool, c.pools)}
			for i := range n {
				for _, e := range c.do(i) {
					e.Block = trace.NoBlock
					d.Events.Append(e)
				}
			}
			trace.Rewind(d)
			trace.Pair(d)
			f := simulate.Follow(d, config.Default(), simulate.FollowOptions{Limit: -1})
			if f.PeakReserved != c.held*20<<20 || !f.Score.Abandoned {
				t.Errorf("%d reserved at the peak, abandoned %v", f.PeakReserved>>20/20, f.Score.Abandoned)
			}
			if took := time.Since(begin); took > 20*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
}
