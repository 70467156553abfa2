package simulate_test

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vramscope/vramscope/allocators/caching/config"
	"github.com/vramscope/vramscope/internal/recordtest"
	"github.com/vramscope/vramscope/internal/tracetest"
	"github.com/vramscope/vramscope/simulate"
	"github.com/vramscope/vramscope/trace"
	"github.com/vramscope/vramscope/trace/source"
	"pgregory.net/rapid"
)

// rolesOf finds the roles of the blocks of a recording's first device.
func rolesOf(tr *trace.Trace, rules ...simulate.Rule) (*simulate.Following, *simulate.Roles) {
	cfg, _ := simulate.SettingsOf(tr, config.DefaultVersion)
	d := &tr.Devices[0]
	f := simulate.Follow(d, cfg, simulate.FollowOptions{Limit: -1})
	return f, f.Roles(tr, simulate.Steps(tr, d, nil), rules)
}

// truth is what a program knew of its own tensors at some instants: the storages that were parameters, and so on.
type truth struct {
	Marks []struct {
		Label    string
		Time     trace.Time          `json:"time_ns"`
		Storages map[string][]uint64 // addresses
	}
}

// meant is what the categories of the program are called here. What is "other" the program held itself for a while, logits
// and losses, and "input" is the batch: both are in the graph or not as it happens.
var meant = map[string]simulate.Category{"parameter": simulate.Parameter, "buffer": simulate.Parameter, "gradient": simulate.Gradient,
	"optimizer": simulate.OptimizerState, "activation": simulate.Activation, "cache": simulate.Cache}

// The programs of testdata/categories said of their own tensors what they were. Shares are of bytes.
func TestRolesOfPrograms(t *testing.T) {
	for _, c := range []struct {
		name  string
		right float64 // at least
		sums  bool    // of categories, where single blocks of a size cannot be told apart
	}{
		{"accum", 1, false}, {"adamw_noann", 1, false}, {"ckpt", 1, false}, {"compiled", 1, false}, {"ddp", 1, false}, {"fp16", 1, false},
		{"fsdp2", .95, false}, {"gan", 1, false}, {"hooked", 1, false}, {"keepgrads", 1, false}, {"lightning", 1, false}, {"lora", 1, false},
		{"midrun", .98, true}, {"nostacks", .88, false}, {"oom", 1, false}, {"stacks_all", 1, false}, {"static_cache", 1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			base := filepath.Join(recordtest.Testdata(), "categories", c.name)
			tr, err := source.Open(base+".pickle.zst", source.Options{})
			if err != nil {
				t.Fatal(err)
			}
			var known truth
			text, err := os.ReadFile(base + ".truth.json")
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(text, &known); err != nil {
				t.Fatal(err)
			}
			f, roles := rolesOf(tr)
			for _, m := range known.Marks {
				total, right := int64(0), int64(0)
				var sums [2][8]int64
				for category, list := range m.Storages {
					want, ok := meant[category]
					for _, b := range liveAt(f, m.Time, list) {
						if !ok {
							sums[0][roles.Category(b)] -= f.Sizes[b] // of either
							continue
						}
						total += f.Sizes[b]
						sums[0][want] += f.Sizes[b]
						sums[1][roles.Category(b)] += f.Sizes[b]
						if roles.Category(b) == want {
							right += f.Sizes[b]
						}
					}
				}
				if total == 0 {
					t.Fatalf("%s: the truth names no block that is there", m.Label)
				}
				if c.sums {
					right = total
					for k := simulate.Parameter; k <= simulate.Cache; k++ {
						right -= max(sums[0][k]-sums[1][k], 0)
					}
				}
				if share := float64(right) / float64(total); share < c.right {
					t.Errorf("%s: %.4f of the bytes are right, want %v", m.Label, share, c.right)
				}
			}
		})
	}
}

// liveAt finds the blocks that lived at a time and have some addresses in them.
func liveAt(f *simulate.Following, at trace.Time, addresses []uint64) []trace.BlockID {
	d := f.Requests.Device
	type block struct {
		addr uint64
		id   trace.BlockID
	}
	live := map[trace.BlockID]uint64{}
	for _, b := range f.Requests.Initial {
		live[b.ID] = b.Addr
	}
	for _, e := range d.Events.All() {
		if e.Time > at {
			break
		}
		switch e.Op {
		case trace.OpAlloc:
			live[e.Block] = e.Addr
		case trace.OpFree, trace.OpFreeRequested:
			delete(live, e.Block)
		}
	}
	var sorted []block
	for id, addr := range live {
		sorted = append(sorted, block{addr, id})
	}
	slices.SortFunc(sorted, func(a, b block) int { return int(int64(a.addr) - int64(b.addr)) })
	found := map[trace.BlockID]bool{}
	for _, a := range addresses {
		i, ok := slices.BinarySearchFunc(sorted, a, func(b block, a uint64) int { return int(int64(b.addr) - int64(a)) })
		if !ok {
			i--
		}
		if i >= 0 && a < sorted[i].addr+uint64(f.Sizes[sorted[i].id]) {
			found[sorted[i].id] = true
		}
	}
	var out []trace.BlockID
	for id := range found {
		out = append(out, id)
	}
	return out
}

// PyTorch's profiler has a memory timeline with a category for each tensor. Of one and the same run there is a trace as
// well: their allocations are the same, one by one.
func TestRolesOfTheProfiler(t *testing.T) {
	dir := filepath.Join(recordtest.Corpus(), "kineto")
	if recordtest.Corpus() == "" {
		t.Skip("the profiler's recordings are not here")
	}
	tr, err := source.Open(filepath.Join(dir, "gpt_memory.json.gz"), source.Options{})
	if err != nil {
		t.Skip(err)
	}
	timeline, err := os.Open(filepath.Join(dir, "timeline_gpt.raw.json.gz"))
	if err != nil {
		t.Skip(err)
	}
	defer timeline.Close()
	z, err := gzip.NewReader(bufio.NewReader(timeline))
	if err != nil {
		t.Fatal(err)
	}
	var rows [][4]int64
	if err := json.NewDecoder(z).Decode(&rows); err != nil {
		t.Fatal(err)
	}
	_, roles := rolesOf(tr)
	names := []string{"parameter", "optimizer state", "input", "temporary", "activation", "gradient", "autograd detail", "none"}
	got := map[string]map[string]bool{}
	at := 0
	for _, e := range tr.Devices[0].Events.All() {
		if e.Op != trace.OpAlloc {
			continue
		}
		for at < len(rows) && rows[at][1] != 2 {
			at++
		}
		if at == len(rows) || rows[at][0] != int64(e.Time) || rows[at][2] != e.Size {
			t.Fatalf("the timeline and the trace are of different runs at %v", e.Time)
		}
		theirs := names[rows[at][3]]
		if got[theirs] == nil {
			got[theirs] = map[string]bool{}
		}
		got[theirs][roles.Name(roles.Category(e.Block))] = true
		at++
	}
	// What the profiler calls an activation is all that came out of the model on its way forward; here it is what is kept
	// for the way back. Its autograd detail is what the way back needs for itself, and of a library's workspace it knows
	// nothing.
	want := map[string]map[string]bool{
		"parameter": {"parameter": true}, "optimizer state": {"optimizer state": true}, "gradient": {"gradient": true},
		"activation": {"activation": true, "temporary": true}, "autograd detail": {"temporary": true}, "input": {"activation": true},
		"none": {"temporary": true, "cache": true},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

const (
	site   = "/venv/lib/python3.12/site-packages/torch/"
	main   = "/home/user/train.py:10 main"
	moved  = site + "nn/modules/module.py:1370 convert < " + site + "nn/modules/module.py:934 _apply < " + main
	called = site + "nn/functional.py:20 linear < /home/user/model.py:31 forward < " + site + "nn/modules/module.py:1790 _call_impl < " + main
	adam   = site + "optim/adam.py:178 _init_group < " + site + "optim/adam.py:238 step < " + site + "optim/optimizer.py:533 wrapper < " + main
	norm   = "/home/user/train.py:22 clip < " + main
)

// loop is a training program by hand, with the categories of its blocks.
func loop(steps int, do func(r *tracetest.Recorder, want map[int]string, i int, unfinished bool)) (*trace.Trace, map[int]string) {
	r := tracetest.New("", -1)
	want := map[int]string{}
	weights := []int{r.Alloc(4<<20, moved), r.Alloc(1<<20, moved)}
	want[weights[0]], want[weights[1]] = "parameter", "parameter"
	for i := range steps {
		r.Step(fmt.Sprintf("step %d", i), func() { do(r, want, i, false) })
	}
	return r.Trace(), want
}

func TestRolesOfALoop(t *testing.T) {
	var states, kept []int
	tr, want := loop(6, func(r *tracetest.Recorder, want map[int]string, i int, _ bool) {
		put := func(n int, c string) int { want[n] = c; return n }
		saved := put(r.Alloc(3<<20, called), "activation")
		gone := put(r.Alloc(3<<20, called), "temporary")
		r.Free(gone)
		loss := put(r.Alloc(512, main), "activation") // kept for the way back
		through := put(r.Alloc(6<<20, ""), "temporary")
		g1 := put(r.Alloc(1<<20, ""), "gradient")
		r.Free(saved, through)
		g0 := put(r.Alloc(4<<20, ""), "gradient")
		r.Free(put(r.Alloc(4<<20, ""), "temporary"))
		r.Free(put(r.Alloc(512, norm), "temporary"))
		r.Step("Optimizer.step#AdamW.step", func() {
			if i == 0 {
				for _, size := range []int64{4 << 20, 4 << 20, 1 << 20, 1 << 20} {
					states = append(states, put(r.Alloc(size, adam), "optimizer state"))
				}
			}
			r.Free(put(r.Alloc(4<<20, adam), "temporary"))
		})
		r.Step("Optimizer.zero_grad#AdamW.zero_grad", func() { r.Free(g0, g1) })
		r.Free(loss)
		kept = append(kept, put(r.Alloc(2<<20, "/home/user/train.py:40 keep < "+main), "cache"))
	})
	_, roles := rolesOf(tr)
	for b, name := range want {
		if got := roles.Name(roles.Category(trace.BlockID(b))); got != name {
			t.Errorf("block %d: %s, want %s", b, got, name)
		}
	}
	if !roles.Training {
		t.Error("it is no training")
	}
	born := map[simulate.Phase]int{}
	for _, p := range roles.Born {
		born[p]++
	}
	if d := cmp.Diff(map[simulate.Phase]int{simulate.PhaseSetup: 2, simulate.PhaseForward: 6 * 5, simulate.PhaseBackward: 6 * 4, simulate.PhaseOptimizer: 4 + 6}, born); d != "" {
		t.Error(d)
	}
}

// Where nothing tells what a program does, nothing is claimed.
func TestRolesUnknown(t *testing.T) {
	r := tracetest.New("", -1)
	for range 40 {
		a := r.Alloc(3<<20, main)
		r.Alloc(1<<20, "/home/user/other.py:3 f")
		r.Free(a)
	}
	tr := r.Trace()
	_, roles := rolesOf(tr)
	for b := range roles.Of {
		if roles.Of[b] != simulate.Unknown || roles.Born[b] != simulate.PhaseUnknown {
			t.Fatalf("block %d: %v, %v", b, roles.Of[b], roles.Born[b])
		}
	}
}

func TestRules(t *testing.T) {
	r := tracetest.New("", -1)
	cache := r.Alloc(1<<20, "/home/user/kv.py:7 grow < "+main)
	both := r.Alloc(1<<20, "/home/user/kv.py:9 grow < /home/user/train.py:10 main")
	var within, windows int
	r.Step("prefill", func() {
		within = r.Alloc(1<<20, "/home/user/x.py:1 f")
		windows = r.Alloc(1<<20, `\\host\user\kv.py:7 grow`)
	})
	other := r.Alloc(1<<20, "/home/user/x.py:1 f")
	rule := func(name, match string) simulate.Rule {
		return simulate.Rule{Name: name, Match: regexp.MustCompile(match)}
	}
	_, roles := rolesOf(r.Trace(), rule("nine", `kv\.py:9 grow$`), rule("cache", `user/kv\.py`), rule("prompt", "^prefill$"), rule("cache", "never"))
	got := map[string]string{}
	for name, b := range map[string]int{"cache": cache, "both": both, "within": within, "windows": windows, "other": other} {
		got[name] = roles.Name(roles.Category(trace.BlockID(b)))
	}
	want := map[string]string{"cache": "cache", "both": "nine", "within": "prompt", "windows": "cache", "other": "unknown"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if len(roles.Names) != 9 || roles.Names[simulate.Cache] != "cache" {
		t.Errorf("categories %q", roles.Names)
	}
	if len(roles.Idle) != 1 || roles.Idle[0].Match.String() != "never" {
		t.Errorf("idle rules %v", roles.Idle)
	}
}

// Whatever a program does, each block has a category and a phase, and those that are older than the recording are said
// to be.
func TestRolesAny(t *testing.T) {
	stacks := []string{"", main, called, moved, adam, norm, site + "autograd/function.py:317 apply", "/x/cache_utils.py:3 update",
		site + "nn/parallel/distributed.py:1 _ddp_init_helper < " + main, called + " < " + adam, adam + " < " + called}
	rapid.Check(t, func(t *rapid.T) {
		r := tracetest.New("", rapid.SampledFrom([]int64{-1, 64 << 20}).Draw(t, "limit"))
		var live []int
		for range rapid.IntRange(0, 120).Draw(t, "events") {
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0, 1:
				if n := r.Alloc(int64(rapid.IntRange(1, 8).Draw(t, "size"))<<20, rapid.SampledFrom(stacks).Draw(t, "stack")); n >= 0 {
					live = append(live, n)
				}
			case 2:
				if len(live) > 0 {
					i := rapid.IntRange(0, len(live)-1).Draw(t, "which")
					r.Free(live[i])
					live = slices.Delete(live, i, i+1)
				}
			case 3:
				r.Step(rapid.SampledFrom([]string{"step 1", "Optimizer.step#X.step", "Optimizer.zero_grad#X.zero_grad", "## forward ##", "backward"}).Draw(t, "name"), func() {
					live = append(live, r.Alloc(1<<20, rapid.SampledFrom(stacks).Draw(t, "stack in it")))
				})
			}
			live = slices.DeleteFunc(live, func(n int) bool { return n < 0 })
		}
		tr := r.Trace()
		f, roles := rolesOf(tr)
		if len(roles.Of) != tr.Devices[0].NumBlocks || len(roles.Born) != len(roles.Of) {
			t.Fatalf("%d categories and %d phases of %d blocks", len(roles.Of), len(roles.Born), tr.Devices[0].NumBlocks)
		}
		for _, c := range roles.Of {
			if int(c) >= len(roles.Names) {
				t.Fatalf("category %d of %d", c, len(roles.Names))
			}
		}
		for _, b := range f.Requests.Initial {
			if roles.Phase(b.ID) != simulate.PhaseOld {
				t.Fatalf("block %d is older than the recording, and of phase %v", b.ID, roles.Phase(b.ID))
			}
		}
	})
}
