package simulate

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vramscope/vramscope/allocators/caching/config"
	"github.com/vramscope/vramscope/trace"
)

func TestTrend(t *testing.T) {
	for _, c := range []struct {
		name       string
		values     []int64
		slope      float64
		low, high  float64
		confidence float64
	}{
		// Two values have one slope, and nothing to be sure of: S = 1, less one for the steps it moves in.
		{"two", []int64{5, 8}, 3, 3, 3, 0.5},
		{"constant", []int64{7, 7, 7, 7, 7}, 0, 0, 0, 0},
		// S = 6 of 6 pairs, variance 4·3·13/18, z = 5/√8.67 = 1.698, one-sided.
		{"four rise", []int64{0, 10, 20, 30}, 10, 10, 10, 0.9553},
		// S = 10, variance 5·4·15/18, z = 9/√16.67 = 2.205.
		{"five rise", []int64{0, 10, 20, 30, 40}, 10, 10, 10, 0.9863},
		{"five fall", []int64{40, 30, 20, 10, 0}, -10, -10, -10, 0.9863},
		// One odd value of seven: six of the 21 slopes are of pairs with it, the median is that of the rest.
		{"one odd", []int64{0, 10, 20, 1000, 40, 50, 60}, 10, -316.67, 326.67, 0},
		// 0 0 5 5: S = 4, variance 8.67 − 2·2·1·9/18 = 6.67, z = 3/2.58 = 1.162.
		{"ties", []int64{0, 0, 5, 5}, 2.083, 0, 5, 0.8774},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := trendOf(c.values)
			near := func(what string, a, b, within float64) {
				if math.Abs(a-b) > within {
					t.Errorf("%s is %g, want %g", what, a, b)
				}
			}
			near("slope", got.Slope, c.slope, 0.01)
			if c.name != "one odd" {
				near("confidence", got.Confidence, c.confidence, 0.0005)
				near("low", got.Low, c.low, 0.01)
				near("high", got.High, c.high, 0.01)
			}
			if got.Low > got.Slope || got.High < got.Slope {
				t.Errorf("the slope %g lies outside of %g to %g", got.Slope, got.Low, got.High)
			}
		})
	}
}

func TestTrendOfMany(t *testing.T) {
	values := make([]int64, 100_000)
	for i := range values {
		values[i] = int64(i) * 3
	}
	if got := trendOf(values); got.Slope != 3 || got.Confidence < 0.9999 || got.Steps != len(values) {
		t.Errorf("got %+v, want a slope of 3, sure", got)
	}
}

func TestKeepsGrowing(t *testing.T) {
	for _, c := range []struct {
		values []int64
		want   bool
	}{
		{[]int64{0, 1, 2, 3}, true},
		{[]int64{0, 1, 2}, false},                   // too few
		{[]int64{0, 0, 0, 9, 9, 9, 9, 9}, false},    // what is set up once
		{[]int64{0, 4, 7, 9, 9, 9, 9, 9, 9}, false}, // what fills up
		{[]int64{0, 0, 1, 1, 2, 2, 3, 3, 4}, true},  // every other step
		{[]int64{5, 3, 8, 2, 6, 4, 7, 5}, false},
		{[]int64{9, 8, 7, 6, 5}, false},
	} {
		if got := keepsGrowing(c.values); got != c.want {
			t.Errorf("%v: %v, want %v", c.values, got, c.want)
		}
	}
}

// iterations writes a program: per iteration what the function says, with a marker at each end.
func iterations(t *testing.T, n int, step func(i int) string, end string) (*trace.Device, StepList) {
	t.Helper()
	var all []string
	var l StepList
	at := 0
	for i := range n {
		words := strings.Fields(step(i))
		all = append(all, words...)
		l.Steps = append(l.Steps, Iteration{From: at, To: at + len(words), Begun: true, Ended: true})
		at += len(words)
	}
	l.Source = "test"
	return script(t, strings.Join(all, " ")+" "+end), l
}

// followed is a recording of requests as it would be followed.
func followed(d *trace.Device) *Following {
	f := &Following{Requests: &Requests{Device: d}, Sizes: make([]int64, d.NumBlocks), Config: config.Default()}
	for _, e := range d.Events.All() {
		if e.Op == trace.OpAlloc {
			f.Sizes[e.Block] = f.Config.RoundSize(e.Size)
		}
	}
	return f
}

func TestGrowth(t *testing.T) {
	freeAll := func(from, to int) string {
		var b strings.Builder
		for i := from; i < to; i++ {
			fmt.Fprintf(&b, "f%d ", i)
		}
		return b.String()
	}
	for _, c := range []struct {
		name string
		n    int
		step func(i int) string
		end  string
		want string
	}{
		{"nothing stays", 12, func(i int) string { return fmt.Sprintf("a%d:1000@1 f%d", i, i) }, "", "over 11: live 0, working 0"},
		// 1000 bytes take 1024. The block of the first step is there as well; at the end all are gone.
		{"a leak", 12, func(i int) string { return fmt.Sprintf("a%d:1000@1", i) }, freeAll(0, 12),
			"over 11: live 1024 grows, working 0; leak of 1: 1024 a step, 1 blocks, 12288 in the end, 0 left"},
		{"a leak of two blocks in different sizes", 12, func(i int) string { return fmt.Sprintf("a%d:512@1 a%d:1536@1", 2*i, 2*i+1) }, "",
			"over 11: live 2048 grows, working 0; leak of 1: 2048 a step, 2 blocks, 24576 in the end, 24576 left"},
		{"a leak every other step", 20, func(i int) string {
			if i%2 == 0 {
				return fmt.Sprintf("a%d:1024@1", i)
			}
			return fmt.Sprintf("a%d:1024@1 f%d", i, i)
		}, "", "over 18: live 512 grows, working 0; leak of 1: 512 a step, 0.5 blocks, 10240 in the end, 10240 left"},
		// The states of an optimizer come in the third step and stay.
		{"set up late", 12, func(i int) string {
			if i == 2 {
				return "a100:8192@2 a101:8192@2 a102:8192@2 a103:8192@2"
			}
			return fmt.Sprintf("a%d:512@1 f%d", i, i)
		}, "", "over 11: live 0, working 0"},
		// One block is carried over, of another size each time.
		{"carried over", 12, func(i int) string {
			size := 512 * (1 + i*5%7)
			if i == 0 {
				return fmt.Sprintf("a0:%d@1", size)
			}
			return fmt.Sprintf("a%d:%d@1 f%d", i, size, i-1)
		}, "", "no leak"},
		// A buffer that is made anew, each time a block of 512 longer.
		{"a buffer grows", 12, func(i int) string {
			if i == 0 {
				return "a0:512@1"
			}
			return fmt.Sprintf("a%d:%d@1 f%d", i, 512*(i+1), i-1)
		}, "", "over 11: live 512 grows, working 512 grows; buffer of 1: 512 a step, 0 blocks, 6144 in the end, 6144 left"},
		// Each step needs 512 more for a while.
		{"the working set grows", 12, func(i int) string { return fmt.Sprintf("a%d:%d@1 f%d", i, 512*(i+1), i) }, "",
			"over 11: live 0, working 512 grows"},
		// A queue fills up to five, and stays there.
		{"a queue", 20, func(i int) string {
			if i < 5 {
				return fmt.Sprintf("a%d:512@1", i)
			}
			return fmt.Sprintf("a%d:512@1 f%d", i, i-5)
		}, "", "over 18: live 0, working 0"},
		{"too few", 3, func(i int) string { return fmt.Sprintf("a%d:512@1", i) }, "", "too few"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, l := iterations(t, c.n, c.step, c.end)
			g := followed(d).Growth(l)
			if c.want == "no leak" {
				if len(g.Leaks) > 0 || g.LiveGrows {
					t.Errorf("found %s", showGrowth(&g))
				}
				return
			}
			if diff := cmp.Diff(c.want, showGrowth(&g)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func showGrowth(g *Growth) string {
	if !g.Enough() {
		return "too few"
	}
	grows := func(t Trend, yes bool) string {
		if yes {
			return fmt.Sprintf("%g grows", t.Slope)
		}
		return fmt.Sprintf("%g", t.Slope)
	}
	s := fmt.Sprintf("over %d: live %s, working %s", g.Steps, grows(g.Live, g.LiveGrows), grows(g.Working, g.WorkingGrows))
	for _, l := range g.Leaks {
		kind := "leak"
		if l.Buffer {
			kind = "buffer"
		}
		s += fmt.Sprintf("; %s of %d: %g a step, %.3g blocks, %d in the end, %d left", kind, l.Stack, l.Bytes.Slope, l.Blocks.Slope, l.LastStep, l.End)
	}
	return s
}

// Reserved memory that grows beyond all that was ever in use is the allocator's cache, not a leak.
func TestGrowthOfTheCache(t *testing.T) {
	d, l := iterations(t, 12, func(i int) string { return fmt.Sprintf("s2048 a%d:1024@1 f%d", i, i) }, "")
	d.Content = trace.Decisions
	g := followed(d).Growth(l)
	if !g.CacheGrows || g.Cache.Slope != 2048 || g.LiveGrows || len(g.Leaks) > 0 {
		t.Errorf("got %+v, want a cache that grows by 2048 a step and no leak", g)
	}
	d.Content = trace.Requests
	if g := followed(d).Growth(l); g.CacheGrows || g.Cache.Steps > 0 {
		t.Errorf("got %+v, want nothing about a cache that is not recorded", g.Cache)
	}
}

// While gradients add up over several steps, only those steps are compared at whose end the optimizer ran.
func TestGrowthOfAccumulatedGradients(t *testing.T) {
	id := 0
	d, l := iterations(t, 24, func(i int) string {
		id++
		if i%4 != 3 {
			return fmt.Sprintf("a%d:1024", id)
		}
		return fmt.Sprintf("f%d f%d f%d", id-3, id-2, id-1)
	}, "")
	for i := 3; i < 24; i += 4 {
		l.Optimizing = append(l.Optimizing, Iteration{From: l.Steps[i].From, To: l.Steps[i].To})
	}
	g := followed(d).Growth(l)
	if g.LiveGrows || g.Live.Steps != 6 || g.Live.Slope != 0 || len(g.Leaks) > 0 {
		t.Errorf("got %+v, want six steps that end alike, with nothing more each", g)
	}
}

// Blocks without a stack are taken together; what the program set up is not counted as left.
func TestGrowthWithoutStacks(t *testing.T) {
	d, l := iterations(t, 12, func(i int) string {
		if i == 0 {
			return "a0:8192 a1:8192"
		}
		return fmt.Sprintf("a%d:1024", i+1)
	}, "f2 f3")
	g := followed(d).Growth(l)
	// 11 were allocated after the warm-up, two of them freed; the last step has ten more than the first counted.
	want := "over 11: live 1024 grows, working 0; leak of 0: 1024 a step, 1 blocks, 10240 in the end, 9216 left"
	if diff := cmp.Diff(want, showGrowth(&g)); diff != "" {
		t.Error(diff)
	}
}
