package fleet_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/report/fleet"
	summaries "github.com/vramscope/vramscope/simulate/fleet"
)

var update = flag.Bool("update", false, "write the golden files; read the difference before you commit it")

// handmade is a job of twelve ranks in two stages on three machines, with one of each thing that there is to say. Its figures are
// chosen so that a reader can add them up.
func handmade() *summaries.Summary {
	const gib = 1 << 30
	frame := func(file string, line int, fn string) summaries.Stack {
		return summaries.Stack{{File: "/opt/site-packages/torch/nn/modules/linear.py", Func: "forward", Line: 134}, {File: file, Func: fn, Line: line}}
	}
	block, loss, leak := frame("/home/user/model.py", 31, "forward"), frame("/home/user/train.py", 66, "train"), frame("/home/user/metrics.py", 17, "remember")
	s := &summaries.Summary{Stacks: map[summaries.Print]summaries.Stack{}}
	for _, st := range []summaries.Stack{block, loss, leak} {
		s.Stacks[summaries.PrintOf(st)] = st
	}
	for rank := range 12 {
		stage := rank / 6
		size := int64(20+10*stage) * gib
		f := &summaries.Facts{Format: "PyTorch snapshot", Name: "NVIDIA H200", Events: 1000 + rank, Span: 60_000_000, Complete: true, Replayable: true, Steps: 20, Growing: true,
			Limit: -1, Before: 1 * gib, Unattributed: 2 * gib, Floor: 1 << 20, Time: summaries.Shares{{8, 900_000}, {64, 100_000}}}
		holds := size - 3*gib
		if rank == 7 {
			holds += 10 * gib
		}
		f.Held = []summaries.Held{{Stack: summaries.PrintOf(block), Bytes: holds - 2*gib, Blocks: 24}, {Stack: summaries.PrintOf(loss), Bytes: 2 * gib, Blocks: 2}}
		if rank == 3 {
			f.Held = append(f.Held, summaries.Held{Stack: summaries.PrintOf(leak), Bytes: 4 * gib, Blocks: 80})
			holds += 4 * gib
			f.Leaks = []summaries.Leak{{Stack: summaries.PrintOf(leak), PerStep: gib / 5, Steps: 18, Confidence: 0.999, AtEnd: 4 * gib}}
			f.PerStep, f.Grows = gib/5, true
		}
		f.PeakAllocated = holds + 3*gib
		f.Unused = int64(2+stage) * gib
		f.PeakReserved = f.PeakAllocated + f.Unused
		f.EndAllocated, f.EndReserved = size/2, f.PeakReserved
		f.Parts = &summaries.Parts{Stranded: gib, Cached: f.Unused - gib, Rounding: 1 << 20}
		own := summaries.Trial{Completed: true, Peak: f.PeakReserved, Low: f.PeakReserved, High: f.PeakReserved, Close: true, Calls: 100, Ended: f.Events}
		if rank == 7 {
			f.Retries = 5
			f.OOMs = []summaries.OOM{{Event: 990, Requested: 2 * gib, Allocated: f.PeakAllocated, Reserved: f.PeakReserved, DeviceFree: gib, Verdict: "genuine", Why: "the device was simply full"}}
			own.Completed, own.Ended = false, 990
		}
		other := own
		other.Conf, other.Completed, other.Peak, other.Calls, other.Ended = "expandable_segments:True", true, f.PeakAllocated+gib/2, 150, f.Events
		other.Low, other.High = other.Peak, other.Peak
		worse := own
		worse.Conf, worse.Peak, worse.Calls = "roundup_power2_divisions:2", f.PeakReserved+3*gib, 90
		worse.Low, worse.High = worse.Peak, worse.Peak
		d := summaries.Device{File: fmt.Sprintf("job/node%d/rank%02d_pp%d.pickle", rank/4, rank, stage), Facts: f, Trials: []summaries.Trial{own, other, worse}}
		if rank == 7 || rank == 3 {
			d.Search = &summaries.Search{Confs: []string{other.Conf, worse.Conf}, Recommended: &other.Conf, Tried: 64}
		}
		s = summaries.Merge(s, &summaries.Summary{Devices: []summaries.Device{d}})
	}
	return summaries.Merge(s, &summaries.Summary{Failed: []summaries.Failure{{File: "job/node3/rank12_pp1.pickle", Error: "is empty: nothing was written to it"}, {File: "job/README", Error: "no", Other: true}}})
}

// TestGolden holds what people read against files that somebody read.
func TestGolden(t *testing.T) {
	f := fleet.Of(handmade())
	for name, style := range map[string]report.Style{"job.txt": {}, "job.md": {Markdown: true, Rows: 3}} {
		var b bytes.Buffer
		if err := f.WriteText(&b, style); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(want), b.String()); d != "" {
			t.Errorf("%s:\n%s", name, d)
		}
	}
}
