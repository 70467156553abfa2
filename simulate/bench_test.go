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

// long is the longest recording that is here.
func long(b *testing.B) *trace.Trace {
	b.Helper()
	dir := recordtest.Corpus()
	if dir == "" {
		b.Skip("no long recording here; VRAMSCOPE_CORPUS names the folder of the corpus")
	}
	tr, err := source.Open(filepath.Join(dir, "torch", "gpt_long.c0.pickle.zst"), source.Options{})
	if err != nil {
		b.Skip(err)
	}
	return tr
}

func BenchmarkFollow(b *testing.B) {
	tr := long(b)
	cfg, _ := simulate.SettingsOf(tr, config.DefaultVersion)
	n := tr.Devices[0].Events.Len()
	for b.Loop() {
		simulate.Follow(&tr.Devices[0], cfg, simulate.FollowOptions{Limit: -1})
	}
	b.ReportMetric(float64(b.N*n)/b.Elapsed().Seconds()/1e6, "Mevents/s")
}

func BenchmarkReplayCaching(b *testing.B) {
	tr := long(b)
	cfg, _ := simulate.SettingsOf(tr, config.DefaultVersion)
	f := simulate.Follow(&tr.Devices[0], cfg, simulate.FollowOptions{Limit: -1})
	for _, c := range []struct{ name, conf string }{{"default", ""}, {"expandable", "expandable_segments:True"}, {"split64", "max_split_size_mb:64"}} {
		b.Run(c.name, func(b *testing.B) {
			settings, _, err := config.Parse(c.conf, config.DefaultVersion)
			if err != nil {
				b.Fatal(err)
			}
			var operations int64
			for b.Loop() {
				p := simulate.Player{Requests: f.Requests, Model: caching.New(sim.New(sim.Config{}), caching.NewConfig(settings))}
				operations += p.Play().Operations
			}
			b.ReportMetric(float64(operations)/b.Elapsed().Seconds()/1e6, "Mops/s")
		})
	}
}
