package nsys_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vramscope/vramscope/trace"
	"github.com/vramscope/vramscope/trace/source"
)

// told is what an export tells of the memory, times from the start of the recording on.
func told(tr *trace.Trace, epoch trace.Time) []string {
	var out []string
	each := func(d *trace.Device) {
		for _, e := range d.Events.All() {
			var where []trace.Frame
			where = append(where, tr.Stacks.Stack(e.Stack)...)
			out = append(out, fmt.Sprint(d.Index, " ", e.Time-epoch, " ", e.Op, " ", e.Addr, " ", e.Size, " ", e.Block, " ", d.Streams[e.Stream], " ", d.PoolInfo[e.Pool], " ", where))
		}
		out = append(out, fmt.Sprint(d.Pools, d.Streams, d.NumBlocks, codes(d.Warnings)))
	}
	for i := range tr.Devices {
		each(&tr.Devices[i])
	}
	for i := range tr.Beside {
		out = append(out, tr.Beside[i].Name)
		each(&tr.Beside[i])
	}
	for _, m := range tr.Markers {
		out = append(out, fmt.Sprint(m.Time-epoch, " ", m.Name, " ", m.Edge))
	}
	return out
}

// The three exports of one recording say the same. JSON lines do not have the time of day, and the folder and
// the lines do not say what the device is called.
func TestSameExports(t *testing.T) {
	const epoch = 1795969574336731770
	sqlite := told(open(t, "../../testdata/nsys/kinds.sqlite.zst"), epoch)
	if len(sqlite) < 130 {
		t.Fatalf("%d lines", len(sqlite))
	}
	// SQLite names the functions; so it alone can tell that the refused call was of cudaMalloc, whatever other
	// calls there are. The others find it by what its other calls did, or in the table of strings.
	if diff := cmp.Diff(sqlite, told(open(t, "../../testdata/nsys/kinds.jsonl.zst"), 0)); diff != "" {
		t.Errorf("JSON lines (-SQLite +lines):\n%s", diff)
	}
	if diff := cmp.Diff(sqlite, told(open(t, "../../testdata/nsys/kinds_parquetdir"), epoch)); diff != "" {
		t.Errorf("Parquet (-SQLite +folder):\n%s", diff)
	}
}

// Lines may come in any shape that versions had: numbers as strings or not, the strings in front or behind,
// names of ranges by number.
func TestLines(t *testing.T) {
	const text = `{"Type":48,"TraceProcessEvent":{"startNs":1000,"endNs":"3000","correlationId":5,"eventClass":0,"name":"1","returnValue32":0,"globalTid":"11744051300"}}
{"Type":117,"CudaMemoryUsageEvent":{"startNs":"2000","globalPid":11744051200,"deviceId":1,"address":"18446744073709551104","bytes":"700","memKind":2,"type":"allocation","correlationId":5,"future":{"a":[1,{"b":2}]}}}

{"Type":59,"NvtxEvent":{"Type":59,"Timestamp":"500","TextId":2,"GlobalTid":"11744051300"}}
{"Type":48,"TraceProcessEvent":{"startNs":"4000","endNs":"4100","correlationId":6,"eventClass":0,"name":"1","returnValue32":2,"globalTid":"11744051300"}}
{"Type":48,"TraceProcessEvent":{"startNs":"4200","endNs":"4300","correlationId":7,"eventClass":45,"name":"1","returnValue32":2,"globalTid":"11744051300"}}
{"Type":999,"SomethingNew":{"a":1}}
{"streams":[1,2],"data":["","cudaMalloc_v3020","forward"],"more":null}
`
	tr, err := source.Read(strings.NewReader(text), 0, source.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d := &tr.Devices[0]
	var got []string
	for _, e := range d.Events.All() {
		got = append(got, fmt.Sprint(d.Index, " ", e.Time, " ", e.Op, " ", e.Addr, " ", e.Size, " ", tr.Stacks.Stack(e.Stack)))
	}
	// The largest addresses are no device's, which pairing finds out.
	if diff := cmp.Diff([]string{"1 2000 alloc 0 0 [{NVTX forward 0}]", "1 4000 oom 0 0 [{NVTX forward 0}]"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if tr.Source.Clock != trace.ClockRecording || tr.Source.Cut || len(tr.Warnings) > 0 || codes(d.Warnings) != "impossible-size×1 oom-size-unknown×1" {
		t.Errorf("%+v %v %v", tr.Source, tr.Warnings, d.Warnings)
	}
}

// A table of strings that is longer than any buffer, and lines that are damaged.
func TestLongAndBadLines(t *testing.T) {
	whole := string(unpacked(t, "kinds.jsonl.zst"))
	long := strings.Replace(whole, `"GpuMetrics"`, `"`+strings.Repeat("x", 3<<20)+`"`, 1)
	if diff := cmp.Diff(told(open(t, "../../testdata/nsys/kinds.jsonl.zst"), 0), told(read(t, long), 0)); diff != "" {
		t.Errorf("a long table (-want +got):\n%s", diff)
	}
	lines := strings.SplitAfter(whole, "\n")
	lines[20] = `{"Type":117,"CudaMemoryUsageEvent":{"startNs":` + "\n"
	lines[30] = "nonsense\n"
	lines[40] = `{"Type":117,"CudaMemoryUsageEvent":{"name":"` + strings.Repeat("x", 100<<10) + "\"}}\n"
	tr := read(t, strings.Join(lines, ""))
	if codes(tr.Warnings) != "bad-line×3" || !strings.Contains(tr.Warnings[0].Message, "the first is line 21") || tr.Source.Cut {
		t.Errorf("%v", tr.Warnings)
	}
}

func read(t *testing.T, text string) *trace.Trace {
	t.Helper()
	tr, err := source.Read(strings.NewReader(text), 0, source.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// Cut anywhere, lines are used as far as they go, and that is said.
func TestCutLines(t *testing.T) {
	whole := unpacked(t, "kinds.jsonl.zst")
	most := 0
	for i := 1; i < 100; i++ {
		tr, err := source.Read(bytes.NewReader(whole[:len(whole)*i/100]), 0, source.Options{})
		if err != nil {
			oneLine(t, fmt.Sprint(i), err)
			if i > 10 {
				t.Errorf("%d: %v", i, err)
			}
			continue
		}
		if n := tr.Source.Counts[0].N; n < most {
			t.Errorf("%d: %d events after %d", i, n, most)
		} else {
			most = n
		}
	}
	if most < 110 {
		t.Errorf("%d events at most", most)
	}
}

func FuzzLines(f *testing.F) {
	whole := unpacked(f, "kinds.jsonl.zst")
	lines := bytes.SplitAfter(whole, []byte("\n"))
	f.Add(whole)
	f.Add(bytes.Join(lines[30:60], nil))
	f.Add([]byte(`{"Type":117,"CudaMemoryUsageEvent":{"startNs":"1","bytes":1e400,"address":-1,"localPoolConfig":[]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := source.Read(bytes.NewReader(data), 0, source.Options{}); err != nil {
			oneLine(t, "fuzzed", err)
		}
	})
}

// folderOf copies the Parquet folder of testdata.
func folderOf(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../../testdata/nsys/kinds_parquetdir")); err != nil {
		t.Fatal(err)
	}
	return dir
}

const usageFile = "CUDA_GPU_MEMORY_USAGE_EVENTS.parquet"

// Cut or mangled anywhere, a table is damaged, and that is said in a line.
func TestDamagedFolder(t *testing.T) {
	dir := folderOf(t)
	path := filepath.Join(dir, usageFile)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	try := func(what string, data []byte) error {
		if err := os.WriteFile(path, data, 0o666); err != nil {
			t.Fatal(err)
		}
		_, err := source.Open(dir, source.Options{})
		if err != nil {
			oneLine(t, what, err)
		}
		return err
	}
	for i := range 100 {
		if err := try(fmt.Sprintf("cut after %d %%", i), whole[:len(whole)*i/100]); !errors.Is(err, trace.ErrCorrupt) {
			t.Errorf("cut after %d %%: %v", i, err)
		}
	}
	for at := 0; at < len(whole); at += 23 {
		data := bytes.Clone(whole)
		data[at] = []byte{0xff, 0x80, 0x7f, 0}[at%4]
		_ = try(fmt.Sprintf("byte %d", at), data)
	}
}

func TestOtherFolders(t *testing.T) {
	empty := t.TempDir()
	arrow := t.TempDir()
	other := t.TempDir()
	for path, text := range map[string]string{filepath.Join(arrow, "X.arrow"): "ARROW1", filepath.Join(other, "songs.parquet"): "PAR1"} {
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ path, want string }{
		{empty, "is a folder without Parquet tables"},
		{other, "is a folder of Parquet files that are no tables of a profiler"},
		{arrow, "nsys export --type sqlite"},
		{filepath.Join(arrow, "X.arrow"), "nsys export --type sqlite"},
		{filepath.Join(other, "songs.parquet"), "give the folder"},
	} {
		_, err := source.Open(c.path, source.Options{})
		if !errors.Is(err, trace.ErrUnrecognized) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", filepath.Base(c.path), err)
		}
	}
	for name, want := range map[string]string{"a.nsys-rep": "nsys export --type sqlite -o DIR/a.sqlite DIR/a.nsys-rep", "a.qdrep": "nsys export --type sqlite -o DIR/a.sqlite DIR/a.qdrep",
		"a.qdstrm": "QdstrmImporter DIR/a.qdstrm makes a report of it, and then nsys export --type sqlite -o DIR/a.sqlite DIR/a.nsys-rep", "my run's.nsys-rep": `-o 'DIR/my run'\''s.sqlite' 'DIR/my run'\''s.nsys-rep'`} {
		path := filepath.Join(empty, name)
		want = strings.ReplaceAll(want, "DIR", empty)
		if err := os.WriteFile(path, []byte("\x01\x02\x03closed"), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := source.Open(path, source.Options{}); !errors.Is(err, trace.ErrUnrecognized) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzFolder(f *testing.F) {
	whole, err := os.ReadFile(filepath.Join("../../testdata/nsys/kinds_parquetdir", usageFile))
	if err != nil {
		f.Fatal(err)
	}
	pools, err := os.ReadFile("../../testdata/nsys/kinds_parquetdir/CUDA_GPU_MEMORY_POOL_EVENTS.parquet")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add(pools)
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, usageFile), data, 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := source.Open(dir, source.Options{}); err != nil {
			oneLine(t, "fuzzed", err)
		}
	})
}
