package fleet_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/report/fleet"
	summaries "github.com/vramscope/vramscope/simulate/fleet"
)

// TestRankOfTrace: a Kineto trace tells its rank, for a name that does not.
func TestRankOfTrace(t *testing.T) {
	dir := t.TempDir()
	const trace = `{"distributedInfo": {"backend": "nccl", "rank": RANK, "world_size": 8}, "traceEvents": [
{"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1, "ts": 1, "args": {"Device Type": 1, "Device Id": 0, "Addr": 4096, "Bytes": 512, "Total Allocated": 512, "Total Reserved": 2097152}}]}`
	var inputs []fleet.Input
	for name, rank := range map[string]string{"a.pt.trace.json": "5", "b.pt.trace.json": "-1", "rank2_c.pt.trace.json": "7", "d.pt.trace.json": `"x"`, "e.pt.trace.json": "99999999999"} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(strings.Replace(trace, "RANK", rank, 1)), 0o644); err != nil {
			t.Fatal(err)
		}
		inputs = append(inputs, fleet.Input{File: file})
	}
	got := map[string]int{}
	for _, m := range fleet.Of(run(t, fleet.Pool{Workers: 1}, inputs, false)).Members {
		got[filepath.Base(m.File)[:1]] = m.Rank
	}
	if len(got) != 5 || got["a"] != 5 || got["b"] != -1 || got["r"] != 2 || got["d"] != -1 || got["e"] != -1 {
		t.Errorf("ranks: %v", got)
	}
}

// TestUnsure: what is said of sums that are not whole is by how much they may be off.
func TestUnsure(t *testing.T) {
	stack := func(n int) summaries.Stack { return summaries.Stack{{File: "f.py", Func: "f", Line: n}} }
	facts := func(floor int64, held ...int64) *summaries.Facts {
		f := &summaries.Facts{PeakAllocated: 1000, PeakReserved: -1, Unused: -1, Floor: floor}
		for i, n := range held {
			if n > 0 {
				f.Held = append(f.Held, summaries.Held{Stack: summaries.PrintOf(stack(i + 1)), Bytes: n})
			}
		}
		return f
	}
	s := summaries.Merge(&summaries.Summary{Devices: []summaries.Device{
		{File: "a", Facts: facts(10, 500, 0, 10)}, {File: "b", Facts: facts(0, 0, 300)}, {File: "c", Facts: facts(7, 100, 7)}}})
	f := fleet.Of(s)
	want := map[int][2]int64{1: {600, 0}, 2: {307, 10}, 3: {10, 7}} // bytes, and what may be missing
	for line, w := range want {
		for _, c := range f.Common {
			if c.Stack == summaries.PrintOf(stack(line)) && (c.Bytes != w[0] || c.Unsure != w[1]) {
				t.Errorf("stack %d: %d, unsure %d, not %v", line, c.Bytes, c.Unsure, w)
			}
		}
	}
	if f.Cut != 17 || len(f.Common) != 3 {
		t.Errorf("%d cut, %d stacks", f.Cut, len(f.Common))
	}
}

// TestEmpty: nothing to say is said without failing.
func TestEmpty(t *testing.T) {
	for _, s := range []*summaries.Summary{summaries.Merge(), {Devices: []summaries.Device{{File: "a"}}}, {Devices: []summaries.Device{{File: "a", Facts: &summaries.Facts{}}}},
		{Failed: []summaries.Failure{{File: "a", Error: "b"}}}} {
		f := fleet.Of(s)
		var b strings.Builder
		if err := f.WriteJSON(&b); err != nil {
			t.Error(err)
		}
		if err := f.WriteText(&b, report.Style{}); err != nil {
			t.Error(err)
		}
		if err := (fleet.Page{Fleet: f, Title: "x"}).Write(&b); err != nil {
			t.Error(err)
		}
		if err := f.Tables(func(string, []byte) error { return nil }); err != nil {
			t.Error(err)
		}
		if tasks := fleet.Next(s); len(tasks) > 0 && s.Devices[0].Facts == nil {
			t.Errorf("%+v", tasks)
		}
	}
}

// TestPage: a page needs nothing from elsewhere, and nothing that a recording has can break it.
func TestPage(t *testing.T) {
	evil := summaries.Stack{{File: "</script><script>alert(1)</script>", Func: `"><img src=x onerror=alert(1)>`, Line: 3}}
	p := summaries.PrintOf(evil)
	s := summaries.Merge(&summaries.Summary{Stacks: map[summaries.Print]summaries.Stack{p: evil}, Failed: []summaries.Failure{{File: "<b>", Error: "<i>"}},
		Devices: []summaries.Device{{File: "node1/<u>rank0", Facts: &summaries.Facts{PeakAllocated: 5, PeakReserved: 6, Unused: 1, Growing: true,
			Held: []summaries.Held{{Stack: p, Bytes: 5}}, Leaks: []summaries.Leak{{Stack: p, PerStep: 3}}}}}})
	var b strings.Builder
	if err := (fleet.Page{Fleet: fleet.Of(s), Title: "<s>run"}).Write(&b); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, bad := range []string{"<script>alert", "<img", "<b>", "<i>", "<u>", "<s>", "http://", "https://", "@import", "url("} {
		if strings.Contains(page, bad) {
			t.Errorf("the page has %s", bad)
		}
	}
	if strings.Count(page, "</script>") != 2 {
		t.Errorf("%d ends of scripts", strings.Count(page, "</script>"))
	}
}
