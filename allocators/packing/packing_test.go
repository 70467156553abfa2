package packing

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/vramscope/vramscope/allocators"
	"github.com/vramscope/vramscope/allocators/alloctest"
)

func readFile(t testing.TB, name string) []Buffer {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_, buffers, err := ReadCSV(f)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return buffers
}

var inName = regexp.MustCompile(`\.(\d+)\.csv$`)

// TestMiniMalloc solves problems at the capacity in the file's name: those in testdata, and those in the
// folder that VRAMSCOPE_MINIMALLOC names, where all eleven of google/minimalloc's benchmarks can be put.
func TestMiniMalloc(t *testing.T) {
	files, _ := filepath.Glob("testdata/minimalloc/*.csv")
	if dir := os.Getenv("VRAMSCOPE_MINIMALLOC"); dir != "" {
		more, _ := filepath.Glob(filepath.Join(dir, "*.csv"))
		files = append(files, more...)
	}
	if len(files) < 2 {
		t.Fatal("the problems are missing")
	}
	for _, name := range files {
		m := inName.FindStringSubmatch(name)
		if m == nil {
			t.Errorf("%s: no capacity in the name", name)
			continue
		}
		capacity, _ := strconv.ParseInt(m[1], 10, 64)
		buffers := readFile(t, name)
		offsets, nodes, v := Solve(buffers, capacity, 5_000_000)
		t.Logf("%s: %d buffers, bound %d: %v after %d nodes", filepath.Base(name), len(buffers), Bound(buffers), v, nodes)
		if v != Solved {
			t.Errorf("%s is not solved", name)
		} else if err := Validate(buffers, offsets, capacity); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// drawBuffers draws problems of up to n buffers, with small numbers so that many things coincide.
func drawBuffers(t *rapid.T, n int) []Buffer {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Buffer {
		lower := rapid.Int64Range(0, 8).Draw(t, "lower")
		return Buffer{lower, lower + rapid.Int64Range(0, 6).Draw(t, "life"), rapid.Int64Range(1, 9).Draw(t, "size")}
	}), 0, n).Draw(t, "buffers")
}

// optimum tries all orders in which buffers can be put as low as they fit; one of them is by the offsets
// of a lowest packing.
func optimum(buffers []Buffer) int64 {
	best := int64(1) << 60
	order := make([]int, len(buffers))
	for i := range order {
		order[i] = i
	}
	var visit func(k int)
	visit = func(k int) {
		if k == len(order) {
			best = min(best, height(buffers, lowest(buffers, order)))
			return
		}
		for i := k; i < len(order); i++ {
			order[k], order[i] = order[i], order[k]
			visit(k + 1)
			order[k], order[i] = order[i], order[k]
		}
	}
	visit(0)
	return best
}

// TestComplete holds the search against all orders: it finds the optimum and proves that there is nothing
// below.
func TestComplete(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		buffers := drawBuffers(t, 6)
		best := optimum(buffers)
		offsets, _, v := Solve(buffers, best, 100_000)
		if v != Solved {
			t.Fatalf("%v at the optimum of %d", v, best)
		}
		if err := Validate(buffers, offsets, best); err != nil {
			t.Fatal(err)
		}
		if _, _, v := Solve(buffers, best-1, 100_000); v != Infeasible && len(buffers) > 0 {
			t.Fatalf("%v one below the optimum of %d", v, best)
		}
		if p := Pack(buffers, Options{}); p.Height != best || p.Bound != best {
			t.Fatalf("packed to %d, bound %d, the optimum is %d", p.Height, p.Bound, best)
		}
	})
}

// TestPack holds packings of larger problems against a judge that looks at every pair.
func TestPack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		buffers := drawBuffers(t, 60)
		p := Pack(buffers, Options{Nodes: rapid.SampledFrom([]int64{-1, 1, 500}).Draw(t, "nodes")})
		if err := Validate(buffers, p.Offsets, p.Height); err != nil {
			t.Fatal(err)
		}
		var bound int64
		for instant := range int64(15) {
			var live int64
			for i, b := range buffers {
				if b.Lower <= instant && instant < b.Upper {
					live += b.Size
				}
				for j, c := range buffers[:i] {
					if b.Lower < c.Upper && c.Lower < b.Upper && b.Lower < b.Upper && c.Lower < c.Upper &&
						p.Offsets[i] < p.Offsets[j]+c.Size && p.Offsets[j] < p.Offsets[i]+b.Size {
						t.Fatalf("buffers %d and %d overlap", j, i)
					}
				}
			}
			bound = max(bound, live)
		}
		if Bound(buffers) != bound {
			t.Fatalf("bound %d, want %d", Bound(buffers), bound)
		}
		if p.Bound < bound || p.Bound > p.Height && len(buffers) > 0 {
			t.Fatalf("height %d, bound %d, live at once %d", p.Height, p.Bound, bound)
		}
	})
}

func TestValidate(t *testing.T) {
	buffers := []Buffer{{0, 3, 4}, {2, 5, 4}, {3, 6, 4}, {1, 2, 4}}
	if err := Validate(buffers, []int64{0, 4, 0, 4}, 8); err != nil {
		t.Error(err)
	}
	for want, offsets := range map[string][]int64{
		"buffers 0 and 1 overlap":                 {0, 3, 0, 4},
		"buffers 1 and 2 overlap":                 {0, 4, 1, 4},
		"buffer 2 of 4 bytes at 5 is outside":     {0, 4, 5, 0},
		"buffer 3 of 4 bytes at -1 is outside":    {0, 4, 0, -1},
		"3 offsets for 4 buffers":                 {0, 4, 0},
		"buffer 0 of 4 bytes at 9223372036854775": {1<<63 - 1, 4, 0, 0},
	} {
		if err := Validate(buffers, offsets, 8); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: error %v, want %q", offsets, err, want)
		}
	}
}

func TestCSV(t *testing.T) {
	names, buffers, err := ReadCSV(strings.NewReader("size, id ,upper,lower,offset\n7,x,3,1,99\n8,y,4,2,0\n"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"x", "y"}, names); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]Buffer{{1, 3, 7}, {2, 4, 8}}, buffers); diff != "" {
		t.Error(diff)
	}
	var out strings.Builder
	if err := WriteCSV(&out, names, buffers, []int64{0, 7}); err != nil {
		t.Fatal(err)
	}
	if want := "id,lower,upper,size,offset\nx,1,3,7,0\ny,2,4,8,7\n"; out.String() != want {
		t.Errorf("wrote %q, want %q", out.String(), want)
	}
	for text, want := range map[string]string{
		"":                                      "empty",
		"id,lower,upper\n":                      `line 1: no column "size"`,
		"id,lower,upper,size,gaps\n":            `line 1: column "gaps" is not supported`,
		"id,lower,upper,size\na,1,2\n":          "line 2",
		"id,lower,upper,size\na,1,2,3\nb,x,2,3": "line 3: column lower",
		"id,lower,upper,size\na,3,2,3\n":        "line 2: buffer a of 3 bytes from 3 to 2",
		"id,lower,upper,size\na,1,2,0\n":        "line 2: buffer a of 0 bytes",
	} {
		if _, _, err := ReadCSV(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", text, err, want)
		}
	}
}

func FuzzCSV(f *testing.F) {
	f.Add("id,lower,upper,size\na,1,2,3\nb,2,9,1\n")
	f.Add("buffer,start,end,size\n\"a\",1,2,3\n")
	f.Fuzz(func(t *testing.T, text string) {
		names, buffers, err := ReadCSV(strings.NewReader(text))
		if err != nil || len(buffers) > 30 {
			return
		}
		if len(names) != len(buffers) {
			t.Fatalf("%d names of %d buffers", len(names), len(buffers))
		}
		p := Pack(buffers, Options{Nodes: 100})
		if err := Validate(buffers, p.Offsets, p.Height); err != nil {
			t.Fatal(err)
		}
	})
}

func TestSuite(t *testing.T) {
	alloctest.Run(t, func(d allocators.Driver) allocators.Allocator { return New(d, Config{}) }, alloctest.Options{})
}

// planOf packs a script.
func planOf(s alloctest.Script) (*Plan, []Buffer) {
	r := NewRecorder(0)
	for _, op := range s {
		switch op.Kind {
		case alloctest.Malloc:
			r.Malloc(op.Block, op.Size)
		case alloctest.Free, alloctest.Complete:
			r.Free(op.Block)
		}
	}
	return r.Plan(Options{Nodes: 200}), r.Buffers()
}

// TestPlan plays plans of random scripts: every block is where the plan has it, and no more is reserved
// than the plan is high. A script that the plan is not for is served all the same.
func TestPlan(t *testing.T) {
	scripts := alloctest.Scripts(80, 48<<20)
	rapid.Check(t, func(t *rapid.T) {
		s := scripts.Draw(t, "script")
		plan, buffers := planOf(s)
		if err := Validate(buffers, plan.Offsets, plan.Height); err != nil {
			t.Fatal(err)
		}
		var last *Allocator
		planned := func(d allocators.Driver) allocators.Allocator {
			last = New(d, Config{Plan: plan})
			return last
		}
		other := scripts.Draw(t, "another script")
		for _, s := range []alloctest.Script{s, other} {
			if err := alloctest.Conform(s, planned, 0, alloctest.Options{}); err != nil {
				t.Fatal(err)
			}
		}
		a := New(alloctest.NewDriver(plan.Height), Config{Plan: plan})
		i := 0
		for _, op := range s {
			switch op.Kind {
			case alloctest.Malloc:
				if err := a.Malloc(allocators.Request{Block: op.Block, Size: op.Size}); err != nil {
					t.Fatal(err)
				}
				if addr, _, _ := a.Block(op.Block); addr != a.base+uint64(plan.Offsets[i]) {
					t.Fatalf("request %d is at %d, planned at %d", i, addr-a.base, plan.Offsets[i])
				}
				i++
			case alloctest.EmptyCache:
			case alloctest.Complete:
				a.Complete(op.Block)
			default:
				a.Free(op.Block, op.Kind == alloctest.FreePending)
			}
		}
		if got := a.Stats().Reserved.Peak; got != plan.Height && i > 0 {
			t.Fatalf("%d reserved, the plan has %d", got, plan.Height)
		}
	})
}

func BenchmarkSolve(b *testing.B) {
	buffers := readFile(b, "testdata/minimalloc/A.1048576.csv")
	for b.Loop() {
		if _, _, v := Solve(buffers, 1<<20, 100_000); v != Solved {
			b.Fatal(v)
		}
	}
}

// BenchmarkPack packs a training run of half a million blocks, which is too many for a search.
func BenchmarkPack(b *testing.B) {
	s := alloctest.Trace(1_000_000)
	r := NewRecorder(0)
	for _, op := range s {
		if op.Kind == alloctest.Malloc {
			r.Malloc(op.Block, op.Size)
		} else {
			r.Free(op.Block)
		}
	}
	var p Packing
	for b.Loop() {
		p = Pack(r.Buffers(), Options{})
	}
	if err := Validate(r.Buffers(), p.Offsets, p.Height); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(p.Gap()*100, "%-gap")
}
