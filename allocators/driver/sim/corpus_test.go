package sim_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/allocators/driver/sim"
	"github.com/vramscope/vramscope/trace"
	"github.com/vramscope/vramscope/trace/source"
)

// corpus lists the snapshots of all recordings that are here, or skips. VRAMSCOPE_CORPUS names folders,
// separated like a PATH.
func corpus(t *testing.T) []string {
	t.Helper()
	dirs := filepath.SplitList(os.Getenv("VRAMSCOPE_CORPUS"))
	if len(dirs) == 0 {
		dirs = []string{filepath.Join("..", "..", "..", "..", "shared", "data")}
	}
	var files []string
	for _, d := range dirs {
		for _, sub := range []string{"torch", "golden"} {
			found, _ := filepath.Glob(filepath.Join(d, sub, "*.pickle*"))
			files = append(files, found...)
		}
	}
	if len(files) == 0 {
		t.Skip("no recordings here; VRAMSCOPE_CORPUS names their folder")
	}
	return files
}

// calls are a device's cudaMalloc and cudaFree, and what was held before; none if a segment is expandable.
func calls(d *trace.Device) (held []sim.Range, steps []sim.Step) {
	for _, s := range d.Initial.Segments {
		if s.Expandable {
			return nil, nil
		}
		held = append(held, sim.Range{Addr: s.Addr, Size: s.Size})
	}
	for i, e := range d.Events.All() {
		switch e.Op {
		case trace.OpSegmentAlloc, trace.OpSegmentFree:
			steps = append(steps, sim.Step{Op: int64(i) + 1, Alloc: e.Op == trace.OpSegmentAlloc, Addr: e.Addr, Size: e.Size})
		case trace.OpSegmentMap:
			return nil, nil
		}
	}
	return held, steps
}

// kind sorts recordings by how much happens on the device besides the allocator's calls.
func kind(file string) string {
	name := strings.SplitN(filepath.Base(file), ".", 2)[0]
	if filepath.Base(filepath.Dir(file)) == "golden" {
		return "golden"
	}
	for _, k := range []struct{ prefix, kind string }{
		{"raw_", "raw"}, {"seed_", "raw"}, {"frag_", "raw"},
		{"resnet", "vision"}, {"streams", "vision"}, {"diffusion", "vision"},
		{"ddp", "other"}, {"twodev", "other"}, {"nt", "other"},
	} {
		if strings.HasPrefix(name, k.prefix) {
			return k.kind
		}
	}
	return "language"
}

// TestCorpus follows every recording without expandable segments, one step ahead, and asserts the level
// that was reached. What was learned must put every segment of a replay where it was.
func TestCorpus(t *testing.T) {
	scores := map[string]*sim.Score{}
	files, exact := map[string]int{}, 0
	for _, file := range corpus(t) {
		if strings.Contains(file, ".start.") || strings.Contains(file, ".all.") {
			continue // a state without events; the same events as another
		}
		tr, err := source.Open(file, source.Options{})
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		for i := range tr.Devices {
			held, steps := calls(&tr.Devices[i])
			if len(steps) == 0 {
				continue
			}
			l := sim.Learn(held, steps)
			s, k := l.Score, kind(file)
			files[k]++
			sum := scores[k]
			if sum == nil {
				sum = &sim.Score{}
				scores[k] = sum
			}
			sum.Checked += s.Checked
			sum.Matched += s.Matched
			sum.LateChecked += s.LateChecked
			sum.LateMatched += s.LateMatched
			v := sim.Variants(sim.Config{Held: held}, int64(tr.Devices[i].Events.Len()), l)[1]
			wrong := misplaced(t, v.Config, steps)
			if wrong == 0 {
				exact++
			} else if k != "other" {
				t.Errorf("%s: %d of %d misplaced with what was learned", file, wrong, s.Checked)
			}
			if fits, _ := s.Fits(); !fits {
				t.Errorf("%s: taken for another driver: %+v", file, s)
			}
		}
	}
	for k, level := range map[string]struct{ all, late float64 }{
		"raw": {99.6, 99.7}, "vision": {91, 96.5}, "language": {84, 95}, "golden": {90, 99}, "other": {55, 0},
	} {
		s := scores[k]
		if s == nil {
			continue
		}
		all, late := percent(s.Matched, s.Checked), percent(s.LateMatched, s.LateChecked)
		t.Logf("%-8s %3d recordings: %5d of %5d (%.2f %%), after the first %d %5d of %5d (%.2f %%)",
			k, files[k], s.Matched, s.Checked, all, sim.LateAfter, s.LateMatched, s.LateChecked, late)
		if all < level.all || late < level.late {
			t.Errorf("%s: below %.1f and %.1f %%", k, level.all, level.late)
		}
	}
	t.Logf("exact with what was learned: %d recordings", exact)
}

func percent(n, of int) float64 { return 100 * float64(n) / float64(max(of, 1)) }
