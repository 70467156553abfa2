package summary

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/trace"
)

func scan(text string) *Scanner {
	s := NewScanner()
	for line := range strings.SplitAfterSeq(text, "\n") {
		s.Line([]byte(line))
	}
	return s
}

func describe(t *trace.Trace) string {
	var out []string
	for _, d := range t.Devices {
		for _, s := range d.Series {
			out = append(out, fmt.Sprintf("%d %s %s %d %d", d.Index, s.Quantity, s.Name, s.Max, s.Last()))
		}
	}
	return strings.Join(out, "\n")
}

const table = `[rank0]: |===========================================================================|
[rank0]: |                  PyTorch CUDA memory summary, device ID 1                 |
[rank0]: |---------------------------------------------------------------------------|
[rank0]: |            CUDA OOMs: 2            |        cudaMalloc retries: 3         |
[rank0]: |===========================================================================|
[rank0]: |        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  |
[rank0]: |---------------------------------------------------------------------------|
[rank0]: | Allocated memory      |  66560 KiB |   1638 MiB |   8140 MiB |   8075 MiB |
[rank0]: |       from large pool |  65536 KiB |   1622 MiB |   8048 MiB |   7984 MiB |
[rank0]: |---------------------------------------------------------------------------|
[rank0]: | GPU reserved memory   |      2 GB  |      3 GB  |   2354 MB  |      0 B   |
[rank0]: | Non-releasable memory |  35840 KiB | 306543 KiB |   4440 MiB |   4405 MiB |
[rank0]: |===========================================================================|
`

func TestSummary(t *testing.T) {
	tr := scan("step 1\n" + table + "step 2 | loss 3\n").Trace()
	const want = "1 allocated  1717567488 68157440\n1 reserved  3221225472 2147483648\n1 stranded  313900032 36700160"
	if got := describe(tr); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := fmt.Sprint(tr.Source.Counts); got != "[{tables 1} {out-of-memory errors 2} {cudaMalloc retries 3}]" {
		t.Error(got)
	}
	// Another table later: what there is then, and a peak only if it is a new one.
	tr = scan(table + strings.Replace(table, "66560", "99999", 1)).Trace()
	if s := tr.Devices[0].Series[0]; s.Samples != 3 || s.Last() != 99999<<10 {
		t.Errorf("%+v", s)
	}
}

const profileTable = `
-------------------------  ------------  ------------  ------------  ------------  ------------
                     Name    Self CPU %       CPU Mem  Self CPU Mem      CUDA Mem  Self CUDA Mem    # of Calls
-------------------------  ------------  ------------  ------------  ------------  ------------
                 aten::mm         4.72%           0 B           0 B     786.22 MB     786.22 MB           140
   Optimizer.step#AdamW.step         0.31%           0 B           0 B       3.19 GB    -700.00 MB           808
               aten::view         0.31%           0 B           0 B           0 B           0 B           808
-------------------------  ------------  ------------  ------------  ------------  ------------
Self CPU time total: 1.811s
Self CUDA time total: 34.645ms
`

func TestProfile(t *testing.T) {
	tr := scan(strings.Replace(profileTable, "   Optimizer", "Optimizer", 1)).Trace()
	const want = "0 net_of_operator aten::mm 824411423 824411423\n0 net_of_operator Optimizer.step#AdamW.step -734003200 -734003200"
	if got := describe(tr); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestNothing(t *testing.T) {
	for _, text := range []string{"", "a | b\n", "---- ----\nName  Mem\n", "| PyTorch CUDA memory summary, device ID x |\n| Allocated memory | 1 B | 1 B |\n",
		"| PyTorch CUDA memory summary, device ID 0 |\n"} {
		if scan(text).Found() {
			t.Errorf("%q: found", text)
		}
	}
}

func TestRecorded(t *testing.T) {
	dir := os.Getenv("VRAMSCOPE_CORPUS")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", "data")
	}
	for name, want := range map[string]string{
		"memory_summary.txt":      "0 allocated  1717567488 68157440\n0 requested  1713373184 68157440\n0 reserved  2468347904 2468347904\n0 stranded  313900032 36700160",
		"memory_summary_abbr.txt": "0 allocated  1717567488 68157440\n0 requested  1713373184 68157440\n0 reserved  2468347904 2468347904\n0 stranded  313900032 36700160",
	} {
		data, err := os.ReadFile(filepath.Join(dir, "text", name))
		if err != nil {
			t.Skip("there is no corpus: set VRAMSCOPE_CORPUS")
		}
		tr := scan(string(data)).Trace()
		if got := describe(tr); got != want || len(tr.Warnings) != 0 {
			t.Errorf("%s: %v\n%s", name, tr.Warnings, got)
		}
	}
	data, err := os.ReadFile(filepath.Join(dir, "text", "profiler_table.txt"))
	if err != nil {
		t.Skip("there is no corpus: set VRAMSCOPE_CORPUS")
	}
	if s := scan(string(data)).Trace().Devices[0].Series; len(s) != 9 || s[0].Name != "aten::empty_strided" || s[0].Max>>20 != 3266 {
		t.Errorf("%+v", s)
	}
}

func FuzzScan(f *testing.F) {
	f.Add([]byte(table))
	f.Add([]byte(profileTable))
	f.Fuzz(func(t *testing.T, data []byte) {
		s := NewScanner()
		for _, line := range bytes.SplitAfter(data, []byte("\n")) {
			s.Line(line)
		}
		if s.Found() {
			s.Trace()
		}
	})
}
