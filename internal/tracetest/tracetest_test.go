package tracetest_test

import (
	"bytes"
	"testing"

	"github.com/vramscope/vramscope/allocators/caching/config"
	"github.com/vramscope/vramscope/internal/tracetest"
	"github.com/vramscope/vramscope/simulate"
	"github.com/vramscope/vramscope/trace/source"
)

// What is recorded is reproduced by following it, as it was made and as it is read back from its JSON.
func TestFollowed(t *testing.T) {
	for _, conf := range []string{"", "expandable_segments:True", "max_split_size_mb:20", "roundup_power2_divisions:4"} {
		r := tracetest.New(conf, -1)
		r.Training(3, nil)
		made := r.Trace()
		var b bytes.Buffer
		if err := r.WriteJSON(&b); err != nil {
			t.Fatal(err)
		}
		read, err := source.Read(&b, 0, source.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range []struct {
			name string
			f    *simulate.Following
		}{
			{"made", simulate.Follow(&made.Devices[0], settings(t, conf), simulate.FollowOptions{Limit: -1})},
			{"read", simulate.Follow(&read.Devices[0], settings(t, conf), simulate.FollowOptions{Limit: -1})},
		} {
			if !x.f.Score.Exact() || x.f.Score.Blocks.Checked == 0 || x.f.PeakAllocated != (4*16+24+32+40+48+40+16)*tracetest.MiB || x.f.Truncated {
				t.Errorf("%q, %s: %+v, peak %d MiB", conf, x.name, x.f.Score, x.f.PeakAllocated/tracetest.MiB)
			}
		}
		if len(read.Markers) != 6 || read.Settings.Conf != conf {
			t.Errorf("%q: %d markers, settings %q", conf, len(read.Markers), read.Settings.Conf)
		}
	}
}

func settings(t *testing.T, conf string) config.Config {
	c, _, err := config.Parse(conf, config.DefaultVersion)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
