package sim_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/allocators/driver/sim"
)

// readSteps reads a list of calls from testdata/recorded.
func readSteps(t testing.TB, name string) []sim.Step {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "recorded", name+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	var steps []sim.Step
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		var s sim.Step
		var sign string
		if _, err := fmt.Sscanf(line, "%d %s %v %d", &s.Op, &sign, &s.Addr, &s.Size); err != nil {
			t.Fatalf("%s: %q: %v", name, line, err)
		}
		s.Alloc = sign == "+"
		steps = append(steps, s)
	}
	return steps
}

// misplaced replays a recording and counts the allocations that are not where they were.
func misplaced(t testing.TB, c sim.Config, steps []sim.Step) int {
	t.Helper()
	d := sim.New(c)
	held := map[uint64]bool{}
	for _, r := range c.Held {
		held[r.Addr] = true
	}
	now := map[uint64]uint64{} // addresses here, by recorded ones
	wrong := 0
	for _, s := range steps {
		d.Tick(s.Op)
		if s.Alloc {
			addr, err := d.Alloc(s.Size)
			if err != nil {
				t.Fatal(err)
			}
			if addr != s.Addr {
				wrong++
			}
			now[s.Addr] = addr
		} else if addr, ok := now[s.Addr]; ok {
			d.Free(addr, s.Size)
			delete(now, s.Addr)
		} else if held[s.Addr] {
			d.Free(s.Addr, s.Size)
		}
	}
	if d.Faults() > 0 {
		t.Errorf("%d faults", d.Faults())
	}
	return wrong
}

// TestRecorded follows four recordings of a real GPU. The counts are those of an earlier program of the
// same rules in another language.
func TestRecorded(t *testing.T) {
	for _, test := range []struct {
		name string
		want sim.Score
	}{
		{"raw", sim.Score{Checked: 321, Matched: 321, LateChecked: 281, LateMatched: 281}},
		{"gpt", sim.Score{Checked: 133, Matched: 116, LateChecked: 93, LateMatched: 88}},
		{"resnet", sim.Score{Checked: 94, Matched: 86, LateChecked: 54, LateMatched: 49}},
		{"streams", sim.Score{Checked: 149, Matched: 136, LateChecked: 109, LateMatched: 109}},
	} {
		t.Run(test.name, func(t *testing.T) {
			steps := readSteps(t, test.name)
			l := sim.Learn(nil, steps)
			if l.Score != test.want {
				t.Errorf("score %+v, want %+v", l.Score, test.want)
			}
			if fits, known := l.Score.Fits(); !fits || !known {
				t.Errorf("fits %t, known %t", fits, known)
			}
			// With what was learned, put at the operation that showed it, everything is where it was.
			v := sim.Variants(sim.Config{}, 1000, l)[1]
			if n := misplaced(t, v.Config, steps); n > 0 {
				t.Errorf("%s: %d of %d misplaced", v.Name, n, l.Score.Checked)
			}
		})
	}
}

// TestLearnHidden lets processes run in which something else happens, and learns it from the addresses.
func TestLearnHidden(t *testing.T) {
	steps := readSteps(t, "raw")
	for _, v := range sim.Variants(sim.Config{}, int64(len(steps)), nil) {
		t.Run(v.Name, func(t *testing.T) {
			d := sim.New(v.Config)
			now := map[uint64]uint64{}
			var seen []sim.Step
			for _, s := range steps {
				d.Tick(s.Op)
				if s.Alloc {
					addr, err := d.Alloc(s.Size)
					if err != nil {
						t.Fatal(err)
					}
					now[s.Addr] = addr
				} else {
					d.Free(now[s.Addr], s.Size)
				}
				s.Addr = now[s.Addr]
				seen = append(seen, s)
			}
			l := sim.Learn(nil, seen)
			if misses := l.Score.Checked - l.Score.Matched; misses > 40 {
				t.Errorf("%d misses", misses)
			}
			wrong := misplaced(t, sim.Variants(sim.Config{}, int64(len(steps)), l)[1].Config, seen)
			if wrong > 0 {
				t.Errorf("%d of %d misplaced with what was learned", wrong, l.Score.Checked)
			}
		})
	}
}

// TestOtherRules follows processes whose driver has other rules, which must not be taken for this one.
func TestOtherRules(t *testing.T) {
	steps := readSteps(t, "raw")
	for _, v := range sim.Plain(sim.Config{}) {
		d := sim.New(v.Config)
		now := map[uint64]uint64{}
		var seen []sim.Step
		for _, s := range steps {
			if s.Alloc {
				now[s.Addr], _ = d.Alloc(s.Size)
			} else {
				d.Free(now[s.Addr], s.Size)
			}
			s.Addr = now[s.Addr]
			seen = append(seen, s)
		}
		score := sim.Follow(nil, seen)
		if fits, known := score.Fits(); fits || !known {
			t.Errorf("%s: fits %t, known %t, score %+v", v.Name, fits, known, score)
		}
	}
	if fits, known := sim.Follow(nil, steps[:30]).Fits(); !fits || known {
		t.Errorf("30 steps: fits %t, known %t", fits, known)
	}
}

func TestVariants(t *testing.T) {
	c := sim.Config{Capacity: 1 << 40}
	list := sim.Variants(c, 1_000_000, sim.Learn(nil, readSteps(t, "gpt")))
	if len(list) != 25 || len(sim.Variants(c, 0, nil)) != 23 || len(sim.Plain(c)) != 2 {
		t.Fatalf("%d variants", len(list))
	}
	again := sim.Variants(c, 1_000_000, sim.Learn(nil, readSteps(t, "gpt")))
	for i, v := range list {
		if want := fmt.Sprintf("%d ", i+1); !strings.HasPrefix(v.Name, want) {
			t.Errorf("%q does not begin with %q", v.Name, want)
		}
		if fmt.Sprint(v) != fmt.Sprint(again[i]) {
			t.Errorf("%s is not the same each time", v.Name)
		}
		if (v.ShiftFrees > 0) != (i+1 >= 12) {
			t.Errorf("%s: frees shifted by %d", v.Name, v.ShiftFrees)
		}
		for _, e := range v.Config.Events {
			if e.Op < 0 || e.Op > 1_000_000 {
				t.Errorf("%s: event at operation %d", v.Name, e.Op)
			}
		}
		if v.Config.Capacity != c.Capacity {
			t.Errorf("%s: capacity %d", v.Name, v.Config.Capacity)
		}
	}
}
