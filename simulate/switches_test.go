package simulate_test

import (
	"path/filepath"
	"testing"

	"github.com/vramscope/vramscope/allocators/caching"
	"github.com/vramscope/vramscope/allocators/caching/config"
	"github.com/vramscope/vramscope/allocators/driver/sim"
	"github.com/vramscope/vramscope/internal/recordtest"
	"github.com/vramscope/vramscope/simulate"
	"github.com/vramscope/vramscope/trace"
	"github.com/vramscope/vramscope/trace/source"
)

// switched are recordings of a program that switched expandable_segments ten times and more, on one stream. What was
// allocated and freed in all is not compared: of two requests that nothing shows a difference of, it is not known
// which came before a switch.
func switched(t *testing.T) map[string]*trace.Trace {
	files, err := filepath.Glob(filepath.Join(recordtest.Testdata(), "switched", "*.zst"))
	if err != nil || len(files) == 0 {
		t.Fatal("no recordings", err)
	}
	out := map[string]*trace.Trace{}
	for _, file := range files {
		tr, err := source.Open(file, source.Options{})
		if err != nil {
			t.Fatal(err)
		}
		out[filepath.Base(file)] = tr
	}
	return out
}

// TestSwitched follows them: every placement, segment and final block is explained, whole or cut in the middle.
func TestSwitched(t *testing.T) {
	for name, tr := range switched(t) {
		cfg, _ := simulate.SettingsOf(tr, config.DefaultVersion)
		s := simulate.Follow(&tr.Devices[0], cfg, simulate.FollowOptions{Limit: -1}).Score
		if !s.Exact() || s.Abandoned {
			t.Errorf("%s: %+v, first %+v", name, s, s.First)
		}
	}
}

// TestSwitchedReplay replays them: as recorded, the setting is switched where it was, and as much is reserved at the
// peak; under the other setting to begin with, nothing is switched.
func TestSwitchedReplay(t *testing.T) {
	for name, tr := range switched(t) {
		cfg, _ := simulate.SettingsOf(tr, config.DefaultVersion)
		f := simulate.Follow(&tr.Devices[0], cfg, simulate.FollowOptions{Limit: -1})
		for _, other := range []bool{false, true} {
			c := caching.NewConfig(f.Config)
			c.Expandable = c.Expandable != other
			m := caching.New(sim.New(sim.Config{}), c)
			p := simulate.Player{Requests: f.Requests, Model: m}
			run := p.Play()
			if !run.Completed {
				t.Errorf("%s: ran out", name)
			}
			if other {
				m.Layout(func(p caching.Placed) {
					if p.Expandable != c.Expandable {
						t.Fatalf("%s, the other setting: block %+v", name, p)
					}
				})
			} else if run.Stats.Reserved.Peak != f.PeakReserved {
				t.Errorf("%s: %d reserved at the peak, recorded %d", name, run.Stats.Reserved.Peak, f.PeakReserved)
			}
		}
	}
}
