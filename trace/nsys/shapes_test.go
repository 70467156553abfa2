package nsys_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vramscope/vramscope/trace"
	"github.com/vramscope/vramscope/trace/tables/tablestest"
)

// The columns of a schema, as they were in that version.
var (
	usage2 = []string{"start INTEGER NOT NULL", "globalPid INTEGER", "deviceId INTEGER", "contextId INTEGER", "address INTEGER", "pc INTEGER",
		"bytes INTEGER", "memKind INTEGER", "memoryOperationType INTEGER", "name TEXT", "correlationId INTEGER"}
	usage311 = append(slices.Clone(usage2), "localMemoryPoolAddress INTEGER", "localMemoryPoolReleaseThreshold INTEGER",
		"localMemoryPoolSize INTEGER", "localMemoryPoolUtilizedSize INTEGER", "importedMemoryPoolAddress INTEGER", "importedMemoryPoolProcessId INTEGER")
	usage320 = append(slices.Clone(usage2), append([]string{"streamId INTEGER"}, usage311[len(usage2):]...)...)
	runtime3 = []string{"start INTEGER", "end INTEGER", "eventClass INTEGER", "globalTid INTEGER", "correlationId INTEGER", "nameId INTEGER", "returnValue INTEGER", "callchainId INTEGER"}
	strings3 = []string{"id INTEGER PRIMARY KEY", "value TEXT"}
	pairs    = []string{"name TEXT", "value TEXT"}
)

const (
	process = 0x0001000297000000 // pid 663
	thread  = process + 663
)

// export makes an export's tables around rows of memory, of version 2.9, 3.11 or 3.20.
type export struct {
	version string
	rows    [][]any // start, device, address, bytes, kind, operation; the process is put in
	process int64
	more    []tablestest.Table
}

func (x export) tables() []tablestest.Table {
	columns, about := usage320, "META_DATA_EXPORT"
	switch {
	case strings.HasPrefix(x.version, "2."):
		columns, about = usage2, "EXPORT_META_DATA"
	case strings.HasPrefix(x.version, "3.1"):
		columns = usage311
	}
	if x.process == 0 {
		x.process = process
	}
	var rows [][]any
	for i, r := range x.rows {
		row := make([]any, len(columns))
		copy(row, []any{r[0], x.process, r[1], 1, r[2], 0, r[3], r[4], r[5], nil, i + 1})
		rows = append(rows, row)
	}
	return append([]tablestest.Table{
		{Name: about, Columns: pairs, Rows: [][]any{{"EXPORT_SCHEMA_VERSION", x.version}, {"EXPORT_PRODUCT_VERSION", "2024.2.3.0"}}},
		{Name: "StringIds", Columns: strings3, Rows: [][]any{{1, "cudaMalloc_v3020"}, {2, "cudaHostAlloc_v3020"}, {3, "cudaLaunchKernel_v7000"}}},
		{Name: "CUDA_GPU_MEMORY_USAGE_EVENTS", Columns: columns, Rows: rows},
	}, x.more...)
}

func (x export) open(t *testing.T) *trace.Trace {
	return open(t, tablestest.Database(t, x.tables()))
}

// allocated makes rows of blocks that are all allocated one after the other, and then freed.
func allocated(kind int, free bool, sizes ...int64) [][]any {
	var rows [][]any
	addr := int64(0x7f0000000000) + int64(kind)<<40
	for i, n := range sizes {
		rows = append(rows, []any{1_000_000 * (i + 1), 0, addr, n, kind, 0})
		addr += (n + 2<<20) &^ (2<<20 - 1)
	}
	for i := range sizes {
		if free {
			rows = append(rows, []any{1_000_000_000 + i, 0, rows[i][2], rows[i][3], kind, 1})
		}
	}
	return rows
}

func repeat(n int, size int64) []int64 { return slices.Repeat([]int64{size}, n) }

func besideOf(tr *trace.Trace, name string) totals {
	for i := range tr.Beside {
		if tr.Beside[i].Name == name {
			return totalsOf(&tr.Beside[i])
		}
	}
	return totals{}
}

// Programs of the shapes and figures that real exports of an A100 and a GH200 had.
func TestPrograms(t *testing.T) {
	const cublas = 1024 + 131072 + 8388608
	t.Run("A100, everything freed", func(t *testing.T) {
		var rows [][]any
		rows = append(rows, allocated(5, false, repeat(3, 48)...)...)
		rows = append(rows, allocated(1, true, 120_000_000_000)...)
		rows = append(rows, allocated(2, true, append(append(repeat(5, 3_200_000_000), 1_600_000_000), append([]int64{1024, 131072, 8388608}, repeat(16, 0)...)...)...)...)
		rows = byTime(rows)
		tr := export{version: "3.11.1", rows: rows}.open(t)
		d := totalsOf(&tr.Devices[0])
		if diff := cmp.Diff(totals{Allocs: 25, Frees: 25, Peak: 17_608_520_704}, d); diff != "" {
			t.Errorf("device (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(totals{Allocs: 1, Frees: 1, Peak: 120_000_000_000}, besideOf(tr, "pinned host memory")); diff != "" {
			t.Errorf("pinned (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(totals{Allocs: 3, Peak: 144, End: 144}, besideOf(tr, "static variables of modules")); diff != "" {
			t.Errorf("statics (-want +got):\n%s", diff)
		}
	})
	t.Run("A100, out of memory", func(t *testing.T) {
		rows := byTime(append(allocated(5, false, 48), allocated(2, false, append([]int64{1024, 131072, 8388608}, repeat(13, 3_200_000_000)...)...)...))
		tr := export{version: "3.11.1", rows: rows, more: []tablestest.Table{
			{Name: "CUPTI_ACTIVITY_KIND_RUNTIME", Columns: runtime3, Rows: [][]any{
				{900_000, 1_000_100, 0, thread, 1, 1, 0, nil},
				{338_861_701, 338_900_000, 0, thread, 99, 1, 2, nil},
				{338_870_000, 338_890_000, 1, thread, 99, 1, 2, nil}, // the same, as the driver saw it
				{338_961_701, 338_990_000, 0, thread, 100, 3, 2, nil},
			}},
			{Name: "TARGET_INFO_GPU", Columns: []string{"id INTEGER", "name TEXT", "totalMemory INTEGER", "uuid TEXT", "cuDevice INTEGER"},
				Rows: [][]any{{0, "NVIDIA A100-PCIE-40GB", 42_411_098_112, "aaaa", 0}}},
		}}.open(t)
		d := &tr.Devices[0]
		if diff := cmp.Diff(totals{Allocs: 16, OOMs: 1, Peak: 41_608_520_704, End: 41_608_520_704}, totalsOf(d)); diff != "" {
			t.Errorf("device (-want +got):\n%s", diff)
		}
		if d.Capacity != 42_411_098_112 {
			t.Errorf("capacity %d", d.Capacity)
		}
		last := d.Events.At(d.Events.Len() - 1)
		if last.Op != trace.OpOOM || last.Time != 338_861_701 {
			t.Errorf("last event %+v", last)
		}
		if len(d.Warnings) != 1 || !strings.Contains(d.Warnings[0].Message, "the 13 allocations before the first of them were of 3200000000 bytes each") {
			t.Errorf("warnings %v", d.Warnings)
		}
		if codes(tr.Warnings) != "other-oom×1" || !strings.Contains(tr.Warnings[0].Message, "cudaLaunchKernel") {
			t.Errorf("warnings of the file %v", tr.Warnings)
		}
	})
	t.Run("GH200", func(t *testing.T) {
		rows := byTime(append(allocated(1, true, 131_000_000_000, 72_000_000), allocated(2, true, append([]int64{41_024_030_075 - cublas, 1024, 131072, 8388608}, repeat(20, 0)...)...)...))
		tr := export{version: "3.20.3", rows: rows}.open(t)
		if diff := cmp.Diff(totals{Allocs: 24, Frees: 24, Peak: 41_024_030_075}, totalsOf(&tr.Devices[0])); diff != "" {
			t.Errorf("device (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(totals{Allocs: 2, Frees: 2, Peak: 131_072_000_000}, besideOf(tr, "pinned host memory")); diff != "" {
			t.Errorf("pinned (-want +got):\n%s", diff)
		}
	})
}

func byTime(rows [][]any) [][]any {
	slices.SortStableFunc(rows, func(a, b []any) int { return a[0].(int) - b[0].(int) })
	return rows
}

// Tables and columns are found by their names, whatever the version has or somebody has added.
func TestSchemas(t *testing.T) {
	rows := byTime(allocated(2, true, 1<<20, 2<<20))
	want := totals{Allocs: 2, Frees: 2, Peak: 3 << 20}
	for _, version := range []string{"2.9.1", "3.0.0", "3.11.1", "3.20.3", "3.25.0"} {
		tr := export{version: version, rows: rows}.open(t)
		if got := totalsOf(&tr.Devices[0]); got != want || tr.Source.Producer != "Nsight Systems 2024.2.3, schema "+strings.TrimSuffix(version, ".0") {
			t.Errorf("%s: %+v, %s", version, got, tr.Source.Producer)
		}
	}
	list := export{version: "3.20.3", rows: rows}.tables()
	u := &list[2]
	u.Columns = append([]string{"note TEXT"}, u.Columns...) // somebody's own
	for i := range u.Rows {
		u.Rows[i] = append([]any{"mine"}, u.Rows[i]...)
	}
	if got := totalsOf(&open(t, tablestest.Database(t, list, "CREATE INDEX i ON CUDA_GPU_MEMORY_USAGE_EVENTS(start)")).Devices[0]); got != want {
		t.Errorf("a column more in front: %+v", got)
	}
	u.Columns = slices.Clone(u.Columns)
	slices.Reverse(u.Columns)
	for i := range u.Rows {
		slices.Reverse(u.Rows[i])
	}
	slices.Reverse(u.Rows) // and rows in the reverse order of time
	if got := totalsOf(&open(t, tablestest.Database(t, list)).Devices[0]); got != want {
		t.Errorf("backwards: %+v", got)
	}
	tr := open(t, tablestest.Database(t, list, `ALTER TABLE CUDA_GPU_MEMORY_USAGE_EVENTS RENAME COLUMN correlationId TO "gone ""away"""`, "PRAGMA journal_mode=WAL"))
	if got := totalsOf(&tr.Devices[0]); got != want {
		t.Errorf("a column less: %+v", got)
	}
}

// A profile without memory events says how to make one with them.
func TestWithoutMemory(t *testing.T) {
	list := export{version: "3.20.3"}.tables()[:2]
	list = append(list, tablestest.Table{Name: "CUPTI_ACTIVITY_KIND_RUNTIME", Columns: runtime3, Rows: [][]any{{1, 2, 0, thread, 1, 3, 0, nil}}})
	tr := open(t, tablestest.Database(t, list))
	if len(tr.Devices) != 0 || codes(tr.Warnings) != "no-memory-events×1" || !strings.Contains(tr.Warnings[0].Message, "--cuda-memory-usage=true") {
		t.Errorf("%d devices, %v", len(tr.Devices), tr.Warnings)
	}
	list = append(list, tablestest.Table{Name: "META_DATA_CAPTURE", Columns: pairs, Rows: [][]any{{"PROCESS_0:COLLECT_GPU_MEMORY_USAGE", "true"}}})
	if tr = open(t, tablestest.Database(t, list)); !strings.Contains(tr.Warnings[0].Message, "nothing was allocated") {
		t.Errorf("%v", tr.Warnings)
	}
}

// Times are UTC if the file says when the session began, and are left as they are if they are UTC already.
func TestClock(t *testing.T) {
	rows := [][]any{{1_000_000, 0, 0x7f0000000000, 512, 2, 0}}
	start := tablestest.Table{Name: "TARGET_INFO_SESSION_START_TIME", Columns: []string{"utcEpochNs INTEGER"}, Rows: [][]any{{int64(1_700_000_000_000_000_000)}}}
	normal := tablestest.Table{Name: "EXPORT_META_DATA", Columns: pairs, Rows: [][]any{{"EXPORT_PARAM_TIME_NORMALIZE", "true"}}}
	for _, c := range []struct {
		more  []tablestest.Table
		time  trace.Time
		clock trace.Clock
	}{
		{nil, 1_000_000, trace.ClockRecording},
		{[]tablestest.Table{start}, 1_700_000_000_001_000_000, trace.ClockEpoch},
		{[]tablestest.Table{start, normal}, 1_000_000, trace.ClockEpoch},
	} {
		tr := export{version: "3.20.3", rows: rows, more: c.more}.open(t)
		if e := tr.Devices[0].Events.At(0); e.Time != c.time || tr.Source.Clock != c.clock {
			t.Errorf("time %d, clock %d, want %d, %d", e.Time, tr.Source.Clock, c.time, c.clock)
		}
	}
}

// Call chains become stacks, with the NVTX ranges around them; of modules only the file's name is kept.
func TestChains(t *testing.T) {
	tr := export{version: "3.20.3", rows: [][]any{{5_000, 0, 0x7f0000000000, 512, 2, 0}}, more: []tablestest.Table{
		{Name: "CUPTI_ACTIVITY_KIND_RUNTIME", Columns: runtime3, Rows: [][]any{{4_000, 5_100, 0, thread, 1, 1, 0, 7}}},
		{Name: "CUDA_CALLCHAINS", Columns: []string{"id INTEGER", "symbol INTEGER", "module INTEGER", "unresolved INTEGER", "originalIP INTEGER", "stackDepth INTEGER"},
			Rows: [][]any{{7, 11, 12, 0, 1, 1}, {7, 10, 12, 0, 1, 0}, {8, 10, 12, 0, 1, 0}}},
		{Name: "NVTX_EVENTS", Columns: []string{"start INTEGER", "end INTEGER", "eventType INTEGER", "text TEXT", "textId INTEGER", "globalTid INTEGER"}, Rows: [][]any{
			{1_000, 9_000, 59, "step 1", nil, thread},
			{2_000, 3_000, 59, "over already", nil, thread},
			{3_500, nil, 59, nil, 13, thread},
			{3_600, 8_000, 59, "of another thread", nil, thread + 1},
			{3_700, nil, 34, "here", nil, thread},
			{3_800, 8_000, 60, "no part of the stack", nil, thread},
			{3_800, 8_000, 75, "no range", nil, thread},
		}},
		{Name: "strings", Columns: []string{"x"}},
	}}
	list := tr.tables()
	list[1].Rows = append(list[1].Rows, []any{10, "inner"}, []any{11, "outer"}, []any{12, "/home/somebody/lib/libx.so"}, []any{13, "forward"})
	got := open(t, tablestest.Database(t, list))
	if diff := cmp.Diff([]trace.Frame{{File: "libx.so", Func: "inner"}, {File: "libx.so", Func: "outer"}, {File: "NVTX", Func: "forward"}, {File: "NVTX", Func: "step 1"}},
		got.Stacks.Stack(got.Devices[0].Events.At(0).Stack)); diff != "" {
		t.Errorf("stack (-want +got):\n%s", diff)
	}
	var marks []string
	for _, m := range got.Markers {
		marks = append(marks, fmt.Sprint(m.Time, " ", m.Name, " ", m.Edge))
	}
	if diff := cmp.Diff([]string{"1000 step 1 1", "2000 over already 1", "3000 over already 2", "3500 forward 1", "3600 of another thread 1",
		"3700 here 0", "3800 no part of the stack 1", "8000 of another thread 2", "8000 no part of the stack 2", "9000 step 1 2"}, marks); diff != "" {
		t.Errorf("markers (-want +got):\n%s", diff)
	}
}
