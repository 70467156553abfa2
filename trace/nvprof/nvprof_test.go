package nvprof_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vramscope/vramscope/trace"
	"github.com/vramscope/vramscope/trace/source"
	"github.com/vramscope/vramscope/trace/tables/tablestest"
)

func read(t testing.TB, data string) *trace.Trace {
	t.Helper()
	tr, err := source.Read(strings.NewReader(data), 0, source.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func codes(list []trace.Warning) string {
	var out []string
	for _, w := range list {
		out = append(out, fmt.Sprintf("%s×%d", w.Code, w.Count))
	}
	return strings.Join(out, " ")
}

func counts(tr *trace.Trace) string {
	var out []string
	for _, c := range tr.Source.Counts {
		out = append(out, fmt.Sprintf("%s %d", c.What, c.N))
	}
	return strings.Join(out, ", ")
}

// database has the tables of a version, as they are from the start, with rows.
func database(version int, memory, runtime, driver [][]any, more ...tablestest.Table) []tablestest.Table {
	api := []string{"_id_ INTEGER PRIMARY KEY AUTOINCREMENT", "cbid INT", "start INT", "end INT", "processId INT", "threadId INT", "correlationId INT", "returnValue INT"}
	number := func(rows [][]any) [][]any {
		var out [][]any
		for i, r := range rows {
			out = append(out, append([]any{i + 1}, r...))
		}
		return out
	}
	device := []string{"_id_ INTEGER PRIMARY KEY AUTOINCREMENT", "flags INT", "globalMemorySize INT", "id INT", "uuid BLOB", "name INT"}
	return append([]tablestest.Table{
		{Name: "Version", Columns: []string{"version INT"}, Rows: [][]any{{version}}},
		{Name: "StringTable", Columns: []string{"_id_ INTEGER PRIMARY KEY AUTOINCREMENT", "value TEXT"}, Rows: [][]any{{1, "GeForce GTX 1080 Ti"}, {2, "weights"}, {3, "phase"}, {4, "HOME=/home/somebody"}}},
		{Name: "CUPTI_ACTIVITY_KIND_MEMORY", Columns: []string{"_id_ INTEGER PRIMARY KEY AUTOINCREMENT", "memoryKind INT", "address INT", "bytes INT", "start INT", "end INT",
			"allocPC INT", "freePC INT", "processId INT", "deviceId INT", "contextId INT", "name INT"}, Rows: number(memory)},
		{Name: "CUPTI_ACTIVITY_KIND_RUNTIME", Columns: api, Rows: number(runtime)},
		{Name: "CUPTI_ACTIVITY_KIND_DRIVER", Columns: api, Rows: number(driver)},
		{Name: "CUPTI_ACTIVITY_KIND_DEVICE", Columns: device, Rows: [][]any{{1, 0, int64(11) << 30, 0, []byte("0123456789abcdef"), 1}}},
		{Name: "CUPTI_ACTIVITY_KIND_KERNEL", Columns: []string{"_id_ INTEGER PRIMARY KEY AUTOINCREMENT"}},
	}, more...)
}

func show(d *trace.Device, s *trace.Stacks) []string {
	var out []string
	for _, e := range d.Events.All() {
		out = append(out, fmt.Sprint(e.Time, " ", e.Op, " ", e.Addr, " ", e.Size, " ", int32(e.Block), " ", s.Stack(e.Stack)))
	}
	return out
}

// A row is a lifetime; kinds have CUPTI's numbers, of which 3 is device memory.
func TestLifetimes(t *testing.T) {
	const epoch = 1602953420383836623
	memory := [][]any{
		{3, 4096, 100, epoch, epoch + 50, 77, 78, 9, 0, 1, 0},
		{3, 8192, 200, epoch + 10, 0, 77, 0, 9, 0, 1, 0}, // never freed
		{2, 999, 5000, epoch + 20, epoch + 30, 0, 0, 9, 0, 1, 0},
		{5, 1999, 6000, epoch + 20, epoch + 30, 0, 0, 9, 0, 1, 0},
		{6, 65536, 64, epoch + 25, 0, 0, 0, 9, 0, 0, 2},
		{3, 4096, 300, epoch + 50, epoch + 60, 77, 78, 9, 0, 1, 0}, // where the first was, from the same instant on
	}
	runtime := [][]any{{20, epoch - 5, epoch, 9, -140, 1, 0}, {22, epoch + 49, epoch + 55, 9, -140, 2, 0}, {20, epoch + 70, epoch + 80, 9, -140, 3, 2}}
	driver := [][]any{{243, epoch + 71, epoch + 79, 9, -140, 4, 2}, {243, epoch + 91, epoch + 99, 9, -140, 5, 2}}
	markers := tablestest.Table{Name: "CUPTI_ACTIVITY_KIND_MARKER", Columns: []string{"_id_ INTEGER PRIMARY KEY AUTOINCREMENT", "flags INT", "timestamp INT", "id INT", "objectKind INT", "objectId BLOB", "name INT"},
		Rows: [][]any{{1, 2, epoch + 1, 5, 1, []byte{1}, 3}, {2, 4, epoch + 40, 5, 1, []byte{1}, 0}, {3, 1, epoch + 41, 6, 1, []byte{1}, 3}}}
	for _, version := range []int{11, 12, 18} {
		path := tablestest.Database(t, database(version, memory, runtime, driver, markers))
		tr, err := source.Open(path, source.Options{})
		if err != nil {
			t.Fatal(err)
		}
		d := &tr.Devices[0]
		if diff := cmp.Diff([]string{
			"1602953420383836623 alloc 4096 100 0 [{ code at 0x4d 0}]",
			"1602953420383836633 alloc 8192 200 1 [{ code at 0x4d 0}]",
			"1602953420383836673 free 4096 100 0 []",
			"1602953420383836673 alloc 4096 300 2 [{ code at 0x4d 0}]",
			"1602953420383836683 free 4096 300 2 []",
			"1602953420383836693 oom 0 0 -1 []",
			"1602953420383836714 oom 0 0 -1 []", // the driver's own; the one before was the runtime's
		}, show(d, tr.Stacks)); diff != "" {
			t.Errorf("version %d (-want +got):\n%s", version, diff)
		}
		if d.Name != "GeForce GTX 1080 Ti" || d.UUID != "GPU-30313233-3435-3637-3839-616263646566" || d.Capacity != 11<<30 {
			t.Errorf("device %q %q %d", d.Name, d.UUID, d.Capacity)
		}
		var beside []string
		for i := range tr.Beside {
			beside = append(beside, fmt.Sprint(tr.Beside[i].Name, show(&tr.Beside[i], tr.Stacks)[0]))
		}
		if diff := cmp.Diff([]string{
			"static variables of modules1602953420383836648 alloc 65536 64 0 [{static variable weights 0}]",
			"pinned host memory1602953420383836643 alloc 999 5000 0 []",
			"managed memory1602953420383836643 alloc 1999 6000 0 []"}, beside); diff != "" {
			t.Errorf("beside (-want +got):\n%s", diff)
		}
		if len(tr.Markers) != 3 || tr.Markers[1] != (trace.Marker{Time: epoch + 40, Device: -1, Name: "phase", Edge: trace.EdgeEnd}) {
			t.Errorf("markers %+v", tr.Markers)
		}
		if got := counts(tr); got != "allocations 6, calls of cuMemAlloc 2, calls of cudaFree 1, calls of cudaMalloc 2" {
			t.Errorf("counts: %s", got)
		}
	}
}

// The shapes of real databases, all recorded without allocations.
func TestUntracked(t *testing.T) {
	calls := func(cbid, n int) [][]any {
		var rows [][]any
		for i := range n {
			rows = append(rows, []any{cbid, 10 * i, 10*i + 5, 9, 1, i, 0})
		}
		return rows
	}
	for _, c := range []struct {
		version         int
		runtime, driver [][]any
		want            string
	}{
		{11, append(calls(20, 66), calls(22, 18)...), nil, "allocations 0, calls of cudaFree 18, calls of cudaMalloc 66"},
		{12, nil, append(calls(243, 20), calls(245, 20)...), "allocations 0, calls of cuMemAlloc 20, calls of cuMemFree 20"},
		{18, append(calls(20, 3), calls(22, 3)...), nil, "allocations 0, calls of cudaFree 3, calls of cudaMalloc 3"},
	} {
		tr, err := source.Open(tablestest.Database(t, database(c.version, nil, c.runtime, c.driver)), source.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := counts(tr); got != c.want || len(tr.Devices) != 0 || codes(tr.Warnings) != "no-memory-events×1" || !strings.Contains(tr.Warnings[0].Message, "--track-memory-allocations on") {
			t.Errorf("version %d: %s, %v", c.version, got, tr.Warnings)
		}
		if strings.Contains(fmt.Sprintf("%+v", tr), "somebody") {
			t.Errorf("%+v", tr)
		}
	}
}

const csv = `==12708== NVPROF is profiling process 12708, command: ./SobolQRNG
program output, with, commas
==12708== Profiling application: ./SobolQRNG
==12708== Profiling result:
"Start","Duration","Grid X","Grid Y","Grid Z","Block X","Block Y","Block Z","Registers Per Thread","Static SMem","Dynamic SMem","Size","Throughput","SrcMemType","DstMemType","Device","Context","Stream","Name","Correlation_ID"
ms,us,,,,,,,,B,B,MB,GB/s,,,,,,,
579.237176,2.145000,,,,,,,,,,15.258789,5.557543,"Pageable","Device","GeForce GTX 1080 Ti (0)","1","7","[CUDA memcpy HtoD]",121
580.1,3.5,1,1,1,32,1,1,16,0,0,,,,,"GeForce GTX 1080 Ti (0)","1","7","void f<int, 3>(char const*, "x")",122
580.2,3.5,,,,,,,,,,1.000000,,,,"GeForce GTX 1080 Ti (0)","1","7","[CUDA memset]",123
`

func TestPrinted(t *testing.T) {
	for _, c := range []struct{ name, text, want, message string }{
		{"GPU trace", csv, "kernels 1, copies 1, sets 1", "moved 16000000 bytes"},
		{"imported", strings.ReplaceAll(csv, "==12708==", "========"), "kernels 1, copies 1, sets 1", ""},
		{"Windows", strings.ReplaceAll(csv, "\n", "\r\n"), "kernels 1, copies 1, sets 1", ""},
		{"API trace", "\"Start\",\"Duration\",\"Name\",\"Correlation_ID\"\nus,us,,\n1.0,2.0,\"cudaMalloc\",1\n2.0,3.0,\"cudaFree\",2\n3,1,\"cudaMalloc\",3\n4,1,\"cudaLaunchKernel (f(int) [12])\",4\n",
			"kernels 1, CUDA calls 3, calls of cudaFree 1, calls of cudaMalloc 2", ""},
		{"summary", "==1== Profiling result:\n\"Type\",\"Time(%)\",\"Time\",\"Calls\",\"Avg\",\"Min\",\"Max\",\"Name\"\n,%,ms,,us,us,ms,\n\"GPU activities\",98.6,1.2,12,1,1,1,\"[CUDA memcpy DtoH]\"\n\"API calls\",1.4,1.2,66,1,1,1,\"cudaMalloc\"\n",
			"copies 12, CUDA calls 66, calls of cudaMalloc 66", ""},
		{"summary with unified memory", "==1== Profiling result:\n\"Type\",\"Time(%)\",\"Time\",\"Calls\",\"Avg\",\"Min\",\"Max\",\"Name\"\n,%,ms,,us,us,ms,\n\"API calls\",1.4,1.2,66,1,1,1,\"cudaMalloc\"\n\n==1== Unified Memory profiling result:\n" +
			"\"Device\",\"Count\",\"Avg Size\",\"Min Size\",\"Max Size\",\"Total Size\",\"Total Time\",\"\"\n\"GeForce (0)\",\"5\",\"38.658203KB\",\"4.0KB\",\"60.0KB\",\"190KB\",\"30us\",\"Host To Device\"\nTotal CPU Page faults: 49\n",
			"CUDA calls 66, calls of cudaMalloc 66", ""},
		{"columns", "==1== NVPROF is profiling process 1\n==1== Profiling result:\n" +
			"   Start  Duration            Grid Size      Block Size     Regs*    SSMem*    DSMem*      Size  Throughput           Device   Context    Stream  Name\n" +
			"579.24ms  2.1450us                    -               -         -         -         -  15.259MB  5.5575GB/s  GeForce GTX 108         1         7  [CUDA memcpy HtoD]\n" +
			"580.10ms  3.5000us              (1 1 1)        (32 1 1)        16        0B        0B         -           -  GeForce GTX 108         1         7  f(int) [122]\n",
			"kernels 1, copies 1", "moved 16000221 bytes"},
		{"summary in columns", "==1== Profiling result:\n            Type  Time(%)      Time     Calls       Avg       Min       Max  Name\n" +
			" GPU activities:   98.69%  1.2000ms        12  1.0000us  1.0000us  1.0000us  [CUDA memcpy DtoH]\n" +
			"      API calls:   50.00%  1.2000ms        66  1.0000us  1.0000us  1.0000us  cudaMalloc\n" +
			"                    1.00%  1.2000us         3  1.0000us  1.0000us  1.0000us  cudaFree\n",
			"copies 12, CUDA calls 69, calls of cudaFree 3, calls of cudaMalloc 66", ""},
	} {
		tr := read(t, c.text)
		if got := counts(tr); got != c.want || codes(tr.Warnings) != "no-memory-events×1" || !strings.Contains(tr.Warnings[0].Message, c.message) {
			t.Errorf("%s: %s, %v", c.name, got, tr.Warnings)
		}
	}
	tr := read(t, csv+"x,y\n\"a\",b,\"c\n1,1,x\n")
	if codes(tr.Warnings) != "no-memory-events×1 bad-line×1" {
		t.Errorf("%v", tr.Warnings)
	}
}

func TestSession(t *testing.T) {
	_, err := source.Read(strings.NewReader("<?xml version=\"1.0\"?>\n<session version=\"2\" allocationsTracking=\"true\"/>"), 0, source.Options{})
	if !errors.Is(err, trace.ErrUnrecognized) || !strings.Contains(err.Error(), "--track-memory-allocations on") {
		t.Errorf("%v", err)
	}
}

func TestCutDatabase(t *testing.T) {
	whole, err := os.ReadFile(tablestest.Database(t, database(11, [][]any{{3, 4096, 100, 10, 20, 0, 0, 9, 0, 1, 0}}, nil, nil), "PRAGMA page_size=512", "VACUUM"))
	if err != nil {
		t.Fatal(err)
	}
	for n := 16; n < len(whole); n += 64 {
		_, err := source.Read(bytes.NewReader(whole[:n]), 0, source.Options{})
		if err != nil && (!errors.Is(err, trace.ErrCorrupt) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

// FuzzDatabase: any bytes end in a result or in one line.
func FuzzDatabase(f *testing.F) {
	whole, err := os.ReadFile(tablestest.Database(f, database(12, [][]any{{3, 4096, 100, 10, 20, 0, 0, 9, 0, 1, 0}}, nil, nil), "PRAGMA page_size=512", "VACUUM"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole, uint32(0), uint32(0), byte(0))
	f.Add(whole, uint32(4096*3+7), uint32(len(whole)), byte(0xff))
	f.Fuzz(func(t *testing.T, data []byte, at, cut uint32, x byte) {
		if len(data) > 0 {
			data[int(at)%len(data)] ^= x
			data = data[:len(data)-int(cut)%len(data)]
		}
		_, err := source.Read(bytes.NewReader(append([]byte("SQLite format 3\x00"), data[min(16, len(data)):]...)), 0, source.Options{})
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("%v", err)
		}
	})
}

func FuzzPrinted(f *testing.F) {
	f.Add([]byte(csv))
	f.Add([]byte("==1== Profiling result:\n   Start  Duration  Size  Name\n 1ms  2us  1e999GB  [CUDA memcpy\n"))
	f.Add([]byte("\"Time(%)\",\"Time\",\"Calls\",\"Name\"\n\"\",\"\",99999999999999999999,\"\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := source.Read(bytes.NewReader(data), 0, source.Options{}); err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("%v", err)
		}
	})
}
