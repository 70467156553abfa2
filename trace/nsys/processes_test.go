package nsys_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vramscope/vramscope/trace"
	"github.com/vramscope/vramscope/trace/tables/tablestest"
)

// usageOf is a table of memory events of several processes.
func usageOf(rows ...[]any) tablestest.Table {
	x := tablestest.Table{Name: "CUDA_GPU_MEMORY_USAGE_EVENTS", Columns: usage320}
	for _, r := range rows { // start, process, device, address, bytes, operation
		row := make([]any, len(usage320))
		copy(row, []any{r[0], r[1], r[2], 1, r[3], 0, r[4], 2, r[5], nil, nil})
		x.Rows = append(x.Rows, row)
	}
	return x
}

func gpus(n int) tablestest.Table {
	x := tablestest.Table{Name: "TARGET_INFO_GPU", Columns: []string{"id INTEGER", "name TEXT", "totalMemory INTEGER", "uuid TEXT", "cuDevice INTEGER"}}
	for i := range n {
		x.Rows = append(x.Rows, []any{i, fmt.Sprint("GPU number ", i), 80 << 30, fmt.Sprint("uuid", i), i})
	}
	return x
}

func mappings(rows ...[]any) tablestest.Table {
	return tablestest.Table{Name: "TARGET_INFO_CUDA_DEVICE", Columns: []string{"gpuId INTEGER", "cudaId INTEGER", "pid INTEGER"}, Rows: rows}
}

// Processes are told apart: two may have the same address, and may mean different GPUs by one ordinal.
func TestProcesses(t *testing.T) {
	const a, b = int64(100) << 24, int64(200) << 24
	const addr = int64(0x7f0000000000)
	rows := [][]any{
		{10, a, 0, addr, 1000, 0},
		{20, b, 0, addr, 5000, 0},
		{30, a, 0, addr, 1000, 1},
		{40, b, 0, addr + 1<<21, 300, 0},
		{50, b, 0, addr, 5000, 1},
	}
	strings := tablestest.Table{Name: "StringIds", Columns: strings3}
	type device struct {
		Index  int
		Name   string
		Totals totals
		Warned string
	}
	for _, c := range []struct {
		name string
		maps tablestest.Table
		want []device
	}{
		{"one GPU", mappings([]any{0, 0, 100}, []any{0, 0, 200}), []device{{0, "GPU number 0", totals{Allocs: 3, Frees: 2, Peak: 6000, End: 300}, "several-processes×2"}}},
		{"each its own", mappings([]any{1, 0, 100}, []any{3, 0, 200}), []device{
			{1, "GPU number 1", totals{Allocs: 1, Frees: 1, Peak: 1000}, ""},
			{3, "GPU number 3", totals{Allocs: 2, Frees: 1, Peak: 5300, End: 300}, ""}}},
		{"not told", mappings(), []device{{0, "GPU number 0", totals{Allocs: 3, Frees: 2, Peak: 6000, End: 300}, "several-processes×2"}}},
	} {
		tr := open(t, tablestest.Database(t, []tablestest.Table{strings, usageOf(rows...), gpus(4), c.maps}))
		var got []device
		for i := range tr.Devices {
			d := &tr.Devices[i]
			got = append(got, device{d.Index, d.Name, totalsOf(d), codes(d.Warnings)})
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
	// A process that sees one GPU of several calls it 0: so does the trace, with the GPU's own name.
	tr := open(t, tablestest.Database(t, []tablestest.Table{strings, usageOf(rows[0]), gpus(4), mappings([]any{2, 0, 100})}))
	if d := tr.Devices[0]; d.Index != 0 || d.Name != "GPU number 2" {
		t.Errorf("device %d, %s", d.Index, d.Name)
	}
}

// What was allocated before the profile began is known by its frees.
func TestLate(t *testing.T) {
	tr := open(t, tablestest.Database(t, []tablestest.Table{{Name: "StringIds", Columns: strings3}, usageOf(
		[]any{10, 1 << 24, 0, int64(4096), 700, 1}, []any{20, 1 << 24, 0, int64(8192), 50, 0})}))
	d := &tr.Devices[0]
	if got := totalsOf(d); got != (totals{Allocs: 1, Frees: 1, Peak: 700, End: 50}) || codes(d.Warnings) != "starts-in-mid-run×1" {
		t.Errorf("%+v, %s", got, codes(d.Warnings))
	}
}

// A failure is put on the device that its thread allocates on.
func TestFailuresByDevice(t *testing.T) {
	const p = int64(7) << 24
	u := usageOf([]any{10, p, 0, int64(4096), 700, 0}, []any{20, p, 1, int64(8192), 50, 0})
	u.Rows[0][10], u.Rows[1][10] = 1, 2
	calls := tablestest.Table{Name: "CUPTI_ACTIVITY_KIND_RUNTIME", Columns: runtime3, Rows: [][]any{
		{5, 11, 0, p + 1, 1, 1, 0, nil}, {15, 21, 0, p + 2, 2, 1, 0, nil},
		{30, 40, 0, p + 1, 3, 1, 2, nil}, // of the thread that uses device 0
		{50, 60, 0, p + 3, 4, 1, 2, nil}, // of another
	}}
	// Without the names of functions, a function is known by what its other calls did.
	for _, named := range []bool{true, false} {
		list := []tablestest.Table{u, calls, {Name: "NVTX_EVENTS", Columns: []string{"start"}}}
		list = append(list, tablestest.Table{Name: "META_DATA_EXPORT", Columns: pairs})
		if named {
			list = append(list, tablestest.Table{Name: "StringIds", Columns: strings3, Rows: [][]any{{1, "cuMemAlloc_v2"}}})
		}
		tr := open(t, tablestest.Database(t, list))
		if len(tr.Devices) != 2 || totalsOf(&tr.Devices[0]).OOMs != 1 || totalsOf(&tr.Devices[1]).OOMs != 1 {
			t.Fatalf("named %v: %+v", named, tr.Devices)
		}
		if e := tr.Devices[0].Events.At(1); e.Op != trace.OpOOM || e.Time != 30 {
			t.Errorf("named %v: %+v", named, e)
		}
		if codes(tr.Devices[1].Warnings) != "oom-device-guessed×1 oom-size-unknown×1" {
			t.Errorf("named %v: %s", named, codes(tr.Devices[1].Warnings))
		}
	}
}
