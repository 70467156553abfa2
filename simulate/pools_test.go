package simulate_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/allocators/caching/config"
	"github.com/vramscope/vramscope/internal/recordtest"
	"github.com/vramscope/vramscope/simulate"
	"github.com/vramscope/vramscope/trace/source"
)

// TestPoolsExchanged follows a program whose first memory belongs to the first of nine MemPools, which go in another
// order than they came. That memory looks like the default pool's until the default pool, which the file names, takes
// new memory while it seems to have room.
func TestPoolsExchanged(t *testing.T) {
	tr, err := source.Open(filepath.Join(recordtest.Testdata(), "pools", "pools_order.pickle.zst"), source.Options{})
	if err != nil {
		t.Fatal(err)
	}
	cfg, _ := simulate.SettingsOf(tr, config.DefaultVersion)
	f := simulate.Follow(&tr.Devices[0], cfg, simulate.FollowOptions{Limit: -1})
	if s := f.Score; !s.Exact() || s.Placements.Checked != 146 {
		t.Errorf("%+v, first %+v", s, s.First)
	}
	if !slices.ContainsFunc(f.Score.Assumed, func(s string) bool { return strings.Contains(s, "turned out") }) {
		t.Errorf("nothing is said of the exchange: %q", f.Score.Assumed)
	}
}
