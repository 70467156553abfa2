package fleet_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/vramscope/vramscope/simulate/fleet"
)

// summaries draws what shards may come to: devices of a few files, known in part by one and in part by another, and now and
// then known otherwise, as where a file changed meanwhile.
func summaries() *rapid.Generator[*fleet.Summary] {
	file := rapid.SampledFrom([]string{"a", "b", "c", "d/e"})
	return rapid.Custom(func(t *rapid.T) *fleet.Summary {
		s := &fleet.Summary{}
		for range rapid.IntRange(0, 6).Draw(t, "devices") {
			d := fleet.Device{File: file.Draw(t, "file"), Index: rapid.IntRange(0, 1).Draw(t, "index")}
			n := rapid.IntRange(0, 3).Draw(t, "n")
			stack := fleet.Stack{{File: "f.py", Func: "f", Line: n}}
			switch rapid.IntRange(0, 3).Draw(t, "part") {
			case 0:
				d.Facts = &fleet.Facts{PeakAllocated: int64(n), Held: []fleet.Held{{Stack: fleet.PrintOf(stack), Bytes: int64(n)}}}
			case 1:
				d.Search = &fleet.Search{Confs: []string{fmt.Sprint(n)}}
			case 2:
				d.Trials = []fleet.Trial{{Conf: fmt.Sprint(n), Peak: int64(rapid.IntRange(0, 2).Draw(t, "peak")), Close: rapid.Bool().Draw(t, "close")}}
			case 3:
				d.Lost = fmt.Sprint(n)
			}
			s = fleet.Merge(s, &fleet.Summary{Devices: []fleet.Device{d}, Stacks: map[fleet.Print]fleet.Stack{fleet.PrintOf(stack): stack}})
		}
		for range rapid.IntRange(0, 2).Draw(t, "failures") {
			s = fleet.Merge(s, &fleet.Summary{Failed: []fleet.Failure{{File: file.Draw(t, "file"), Error: fmt.Sprint(rapid.IntRange(0, 2).Draw(t, "error"))}}})
		}
		return s
	})
}

func written(t interface{ Fatal(...any) }, s *fleet.Summary) string {
	var b bytes.Buffer
	if err := s.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestMergeLaws: summaries come together in any order and grouping, any number of times.
func TestMergeLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := summaries().Draw(t, "a"), summaries().Draw(t, "b"), summaries().Draw(t, "c")
		before := written(t, a) + written(t, b) + written(t, c)
		same := func(what string, x, y *fleet.Summary) {
			if d := cmp.Diff(written(t, x), written(t, y)); d != "" {
				t.Fatalf("%s: %s", what, d)
			}
		}
		same("commutative", fleet.Merge(a, b), fleet.Merge(b, a))
		same("associative", fleet.Merge(a, fleet.Merge(b, c)), fleet.Merge(fleet.Merge(a, b), c))
		same("idempotent", fleet.Merge(a, a), a)
		same("again", fleet.Merge(fleet.Merge(a, b), b), fleet.Merge(a, b))
		same("nothing", fleet.Merge(a, fleet.Merge()), a)
		list := []*fleet.Summary{a, b, c, b, a}
		same("many", fleet.Merge(rapid.Permutation(list).Draw(t, "order")...), fleet.Merge(a, b, c))
		if written(t, a)+written(t, b)+written(t, c) != before {
			t.Fatal("merging changed what was merged")
		}
	})
}

// TestMergeKeeps: nothing is lost, and the lists are sorted.
func TestMergeKeeps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := summaries().Draw(t, "a"), summaries().Draw(t, "b")
		m := fleet.Merge(a, b)
		for _, from := range []*fleet.Summary{a, b} {
			for _, d := range from.Devices {
				x := m.Device(d.File, d.Index)
				if x == nil || d.Facts != nil && x.Facts == nil || d.Search != nil && x.Search == nil || len(x.Trials) < len(d.Trials) || x.Lost < d.Lost {
					t.Fatalf("%+v became %+v", d, x)
				}
			}
			for p := range from.Stacks {
				if _, ok := m.Stacks[p]; !ok {
					t.Fatalf("stack %s is gone", p)
				}
			}
			for _, f := range from.Failed {
				if !slices.ContainsFunc(m.Failed, func(g fleet.Failure) bool { return g.File == f.File }) {
					t.Fatalf("%s is gone", f.File)
				}
			}
		}
		if !slices.IsSortedFunc(m.Devices, func(x, y fleet.Device) int {
			return strings.Compare(x.File, y.File)*2 + min(1, max(-1, x.Index-y.Index))
		}) {
			t.Fatalf("not sorted: %+v", m.Devices)
		}
	})
}

// TestReadWrite: what is written is read back.
func TestReadWrite(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := summaries().Draw(t, "s")
		text := written(t, s)
		back, err := fleet.Read(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(text, written(t, back)); d != "" {
			t.Fatal(d)
		}
	})
}

// TestReadOthers: what is no summary is one line of error.
func TestReadOthers(t *testing.T) {
	for text, want := range map[string]string{
		"":                                "ends in the middle",
		"{":                               "ends in the middle",
		"[]":                              "no summary",
		"{}":                              "no summary",
		`{"schema":"vramscope/fleet/v1"}`: "this is a vramscope/fleet/v1, not a summary",
		`{"schema":3}`:                    "no summary",
		"\x80\x02}.":                      "byte 1: this is no summary",
		`{"schema":"vramscope/fleet-summary/v1","devices":[{"file":"a","facts":{"events":"x"}}]}`: "no summary",
	} {
		_, err := fleet.Read(strings.NewReader(text))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v", text, err)
		}
	}
	// Lists that are not sorted, and doubles, are put in order.
	s, err := fleet.Read(strings.NewReader(`{"schema":"vramscope/fleet-summary/v1","devices":[{"file":"b"},{"file":"a","trials":[{"conf":"y"},{"conf":"x"}]},{"file":"a","lost":"z"}]}`))
	if err != nil || len(s.Devices) != 2 || s.Devices[0].File != "a" || s.Devices[0].Lost != "z" || s.Devices[0].Trials[0].Conf != "x" {
		t.Errorf("%+v, %v", s, err)
	}
}

// FuzzRead: any text is a summary or a line of error, and a summary that was read can be merged.
func FuzzRead(f *testing.F) {
	f.Add(`{"schema":"vramscope/fleet-summary/v1","devices":[{"file":"b","facts":{"peak_allocated_bytes":3,"unused_time":[[1,2]]}}],"failed":[{"file":"x"}],"stacks":{"":[]}}`)
	f.Add(`{"schema":"vramscope/fleet-summary/v1","devices":null}`)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := fleet.Read(strings.NewReader(text))
		if err != nil {
			if strings.Contains(strings.TrimSpace(err.Error()), "\n") && !strings.Contains(text, `\n`) {
				t.Errorf("%q", err)
			}
			return
		}
		if d := cmp.Diff(written(t, fleet.Merge(s, s)), written(t, s)); d != "" {
			t.Error(d)
		}
	})
}

// TestShares holds quantiles of a distribution against those of the list that it was made of.
func TestShares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Int64Range(0, 10_000), 1, 200).Draw(t, "values")
		var c fleet.Counter
		for _, v := range values {
			c.Add(v, 10_000, 1)
		}
		s := c.Shares()
		var total int64
		for _, p := range s {
			total += p[1]
		}
		if total != 1_000_000 {
			t.Fatalf("%d parts in a million", total)
		}
		slices.Sort(values)
		for _, q := range []float64{0.05, 0.33, 0.501, 0.77, 0.999} {
			got, _ := s.Quantile(q)
			// One part in a million may tip a quantile to the next value.
			low, high := fleet.Quantile(values, q-2e-6*128), fleet.Quantile(values, q+2e-6*128)
			if x := float64(low)/10_000 - 1.0/256; got < x-1e-9 {
				t.Fatalf("quantile %g of %v is %g, at least %g", q, values, got, x)
			}
			if x := float64(high)/10_000 + 1.0/256; got > x+1e-9 {
				t.Fatalf("quantile %g of %v is %g, at most %g", q, values, got, x)
			}
		}
		if two := fleet.Sum(s, s); len(two) != len(s) || two[0][1] != 2*s[0][1] {
			t.Fatalf("twice %v is %v", s, two)
		}
	})
	var none fleet.Counter
	none.Add(5, 0, 1)
	none.Add(-1, 5, 1)
	none.Add(6, 5, 1)
	none.Add(1, 5, -3)
	if s := none.Shares(); s != nil {
		t.Errorf("nothing was counted, and there is %v", s)
	}
	if _, ok := fleet.Sum().Quantile(0.5); ok {
		t.Error("a quantile of nothing")
	}
}

// TestQuantile: by the definition, the least value that a part of all do not exceed.
func TestQuantile(t *testing.T) {
	list := []int64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	for q, want := range map[float64]int64{0: 1, 0.1: 1, 0.11: 2, 0.5: 5, 0.9: 9, 0.91: 10, 1: 10} {
		if got := fleet.Quantile(list, q); got != want {
			t.Errorf("%g: %d, not %d", q, got, want)
		}
	}
	if fleet.Quantile(nil, 0.5) != 0 || fleet.Median(nil) != 0 || fleet.Median([]int64{3, 1, 2}) != 2 || fleet.Median([]int64{4, 1, 2, 3}) != 2 {
		t.Error("quantiles of small lists")
	}
	const far = 1<<62 + 5
	if fleet.Median([]int64{far, far}) != far {
		t.Error("the middle of large values overflows")
	}
}

func TestShort(t *testing.T) {
	got := fleet.Short([]string{"/x/run1/rank0/snap.pickle", "/x/run1/rank1/snap.pickle", "/x/run2/rank1/snap.pickle", "/x/other.pickle", "plain"})
	want := map[string]string{"/x/run1/rank0/snap.pickle": "rank0/snap.pickle", "/x/run1/rank1/snap.pickle": "run1/rank1/snap.pickle",
		"/x/run2/rank1/snap.pickle": "run2/rank1/snap.pickle", "/x/other.pickle": "other.pickle", "plain": "plain"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
