package nsys_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/trace"
	"github.com/vramscope/vramscope/trace/source"
)

func counts(tr *trace.Trace) string {
	var out []string
	for _, c := range tr.Source.Counts {
		out = append(out, fmt.Sprintf("%s %d", c.What, c.N))
	}
	return strings.Join(out, ", ")
}

// The reports of the program that uses every kind of memory. The figures were counted with grep.
func TestStats(t *testing.T) {
	tr := open(t, "../../testdata/nsys/kinds_stats.csv.zst")
	want := "CUDA calls 214, calls of cudaHostAlloc 1, calls of cudaMalloc 3, calls of cudaMallocArray 1, calls of cudaMallocAsync 40, calls of cudaMallocFromPoolAsync 10, " +
		"calls of cudaMallocHost 1, calls of cudaMallocManaged 1, calls of cudaMallocPitch 1, kernels 40"
	if got := counts(tr); got != want {
		t.Errorf("counts: %s", got)
	}
	if len(tr.Devices) != 0 || codes(tr.Warnings) != "no-memory-events×1" || !strings.Contains(tr.Warnings[0].Message, "; calls that were refused memory: 1") {
		t.Errorf("%d devices, %v", len(tr.Devices), tr.Warnings)
	}
}

// Units are in the header, older versions have other names and units, and names are quoted where they must be.
func TestReports(t *testing.T) {
	for name, c := range map[string]struct{ text, want, warnings string }{
		"milliseconds": {"Start (ms),Duration (ms),Name,Result,CorrID,PID,TID,T-Pri,Thread Name\n1.5,0.1,cudaMalloc,0,1,7,8,20,x\n2.5,0.1,\"f<int, \"\"a\"\">\",0,1,7,8,20,x\n",
			"CUDA calls 2, calls of cudaMalloc 1", "no-memory-events×1"},
		"copies": {"Generating SQLite file a.sqlite\nStart (ns),Duration (ns),CorrId,Bytes (MB),Device,Ctx,Strm,Name\n1,2,3,16.000,NVIDIA A100 (1),1,7,[CUDA memcpy HtoD]\n1,2,3,,NVIDIA A100 (1),1,7,[CUDA memset]\n",
			"CUDA calls 0, copies 1, sets 1, bytes copied 16000000", "no-memory-events×1"},
		"ranges and rubbish": {"Processing [a.sqlite] with [b.py]... \nStart (ns),End (ns),Duration (ns),DurChild (ns),DurNonChild (ns),Name,PID,TID,Lvl,NumChild,RangeId,ParentId,RangeStack,NameTree\n10,20,10,0,10,:step,7,8,0,0,1,,:1,:step\nx\n",
			"CUDA calls 0", "bad-line×1 no-memory-events×1"},
		"sums": {"Time (%),Total Time (ns),Count,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Operation\n100.0,10,1,1,1,1,1,1,[CUDA memcpy HtoD]\n", "CUDA calls 0", "no-memory-events×1"},
	} {
		tr := read(t, c.text)
		if got := counts(tr); got != c.want || codes(tr.Warnings) != c.warnings || tr.Source.Format != "Nsight Systems (stats)" {
			t.Errorf("%s: %s, %s, %s", name, tr.Source.Format, got, codes(tr.Warnings))
		}
		if name == "ranges and rubbish" && (len(tr.Markers) != 2 || tr.Markers[0].Name != "step" || tr.Markers[1].Time != 20) {
			t.Errorf("markers %+v", tr.Markers)
		}
	}
}

func FuzzStats(f *testing.F) {
	whole := unpacked(f, "kinds_stats.csv.zst")
	f.Add(whole[:4000])
	f.Add([]byte("Start (ms),Duration (ms),Name,Result\n1e999,\"\"\",\"cudaMalloc\",2\n"))
	f.Add([]byte("Total (MB),Count\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := source.Read(bytes.NewReader(data), 0, source.Options{}); err != nil {
			oneLine(t, "fuzzed", err)
		}
	})
}
