package nsys_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/report/perfetto"
	"github.com/vramscope/vramscope/report/pprof"
	"github.com/vramscope/vramscope/trace"
	"github.com/vramscope/vramscope/trace/parquet"
	"github.com/vramscope/vramscope/trace/source"
	"github.com/vramscope/vramscope/trace/tables/tablestest"
)

// unpacked is a file of testdata without its packing.
func unpacked(t testing.TB, name string) []byte {
	t.Helper()
	packed, err := os.ReadFile(filepath.Join("../../testdata/nsys", name))
	if err != nil {
		t.Fatal(err)
	}
	z, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	data, err := z.DecodeAll(packed, nil)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// oneLine checks that an error is one line that does not name the file.
func oneLine(t testing.TB, name string, err error) {
	t.Helper()
	if !errors.Is(err, trace.ErrCorrupt) && !errors.Is(err, trace.ErrUnrecognized) {
		t.Errorf("%s: %v is neither damaged nor of another kind", name, err)
	}
	if msg := err.Error(); strings.ContainsAny(msg, "\n\r") || strings.Contains(msg, os.TempDir()) || len(msg) > 500 {
		t.Errorf("%s: not one line without the file's name: %q", name, msg)
	}
}

// Nothing in a database is run, and nothing that looks like a table but is none is read.
func TestHostileSchemas(t *testing.T) {
	columns := strings.Join(usage320, ", ")
	base := []tablestest.Table{{Name: "StringIds", Columns: strings3}, {Name: "META_DATA_EXPORT", Columns: pairs}}
	for name, c := range map[string]struct {
		statements []string
		events     int
	}{
		"a view": {[]string{`CREATE VIEW CUDA_GPU_MEMORY_USAGE_EVENTS AS WITH RECURSIVE n(start) AS (SELECT 1 UNION ALL SELECT start+1 FROM n) SELECT start, 1 AS globalPid, 0 AS deviceId, start AS address, 1 AS bytes, 2 AS memKind, 0 AS memoryOperationType FROM n`}, 0},
		"a computed column": {[]string{
			`CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS (start INTEGER, globalPid INTEGER, deviceId INTEGER, address INTEGER, memKind INTEGER, memoryOperationType INTEGER, bytes INTEGER AS (length(hex(zeroblob(100000000)))) VIRTUAL)`,
			`INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS VALUES (1, 1, 0, 4096, 2, 0)`}, 1},
		"a trigger": {[]string{
			`CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS (` + columns + `)`,
			`CREATE TRIGGER x AFTER INSERT ON CUDA_GPU_MEMORY_USAGE_EVENTS BEGIN SELECT load_extension('x'); END`}, 0},
		"a full-text table":  {[]string{`CREATE VIRTUAL TABLE CUDA_GPU_MEMORY_USAGE_EVENTS USING fts5(start, address, bytes)`}, 0},
		"names with quotes":  {[]string{`CREATE TABLE "x"" y; DROP TABLE StringIds; --" ("a"" b" INTEGER)`, `CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS ("start" INTEGER, "bytes"" FROM x; --" INTEGER)`}, 0},
		"texts for integers": {[]string{`CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS (start, globalPid, deviceId, address, bytes, memKind, memoryOperationType)`, `INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS VALUES ('a', x'00', 1.5e300, NULL, 'x', 'y', -9e99)`}, 1},
	} {
		tr, err := source.Open(tablestest.Database(t, base, c.statements...), source.Options{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := tr.Source.Counts[0].N; got != c.events {
			t.Errorf("%s: %d memory events, want %d", name, got, c.events)
		}
	}
}

func TestOtherDatabases(t *testing.T) {
	_, err := source.Open(tablestest.Database(t, []tablestest.Table{{Name: "songs", Columns: []string{"title"}}, {Name: "al\nbums", Columns: []string{"title"}}}), source.Options{})
	if !errors.Is(err, trace.ErrUnrecognized) || !strings.Contains(err.Error(), "with the tables al bums, songs;") {
		t.Errorf("songs: %v", err)
	}
	_, err = source.Open(tablestest.Database(t, nil, "CREATE VIEW v AS SELECT 1"), source.Options{})
	if !errors.Is(err, trace.ErrUnrecognized) || !strings.Contains(err.Error(), "without tables") {
		t.Errorf("no tables: %v", err)
	}
}

// Cut anywhere, a database is damaged, or what is left of it is read.
func TestCutDatabase(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	whole := unpacked(t, "kinds.sqlite.zst")
	read := 0
	for i := range 100 {
		data := whole[:len(whole)*i/100+20]
		tr, err := source.Read(bytes.NewReader(data), int64(len(data)), source.Options{})
		if err != nil {
			oneLine(t, fmt.Sprint(i), err)
			continue
		}
		if read++; tr == nil {
			t.Errorf("%d: nothing", i)
		}
	}
	if read > 5 {
		t.Errorf("%d of 100 cut files were read without a complaint", read)
	}
	if left, _ := filepath.Glob(filepath.Join(os.TempDir(), "vramscope-*.input")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// Pages that refer to each other in a circle end, and soon.
func TestMangledDatabase(t *testing.T) {
	whole := unpacked(t, "kinds.sqlite.zst")
	const page = 4096
	for at := page; at < len(whole); at += page {
		for _, from := range []int{at - page, page, len(whole) / 2 / page * page} {
			data := bytes.Clone(whole)
			copy(data[at:at+page], whole[from:])
			if _, err := source.Read(bytes.NewReader(data), int64(len(data)), source.Options{}); err != nil {
				oneLine(t, fmt.Sprintf("page %d as %d", from/page, at/page), err)
			}
		}
	}
}

// secret is in every place of an export that says something of the machine or of whoever used it.
const secret = "s3cr3t"

// Nothing of that gets into any output.
func TestPrivacy(t *testing.T) {
	list := export{version: "3.20.3", rows: allocated(2, false, 1<<20), more: []tablestest.Table{
		{Name: "META_DATA_CAPTURE", Columns: pairs, Rows: [][]any{
			{"PROCESS_0:ENVIRONMENT_VARIABLE", "TOKEN=" + secret}, {"HOSTNAME", secret}, {"PROCESS_0:COMMAND_LINE", secret}, {"CPU_TEMPERATURE_" + secret, secret}}},
		{Name: "TARGET_INFO_SYSTEM_ENV", Columns: []string{"globalVid INTEGER", "devStateName TEXT", "name TEXT", "nameEnum INTEGER", "value TEXT"}, Rows: [][]any{{1, secret, secret, 1, secret}}},
		{Name: "PROCESSES", Columns: []string{"globalPid INTEGER", "pid INTEGER", "name TEXT"}, Rows: [][]any{{process, 663, secret}}},
		{Name: "ThreadNames", Columns: []string{"nameId INTEGER", "priority INTEGER", "globalTid INTEGER"}, Rows: [][]any{{50, 1, thread}}},
		{Name: "ProcessStreams", Columns: []string{"globalPid INTEGER", "filenameId INTEGER", "contentId INTEGER"}, Rows: [][]any{{process, 50, 50}}},
		{Name: "ANALYSIS_FILE", Columns: []string{"id INTEGER", "filename TEXT"}, Rows: [][]any{{1, secret}}},
		{Name: "DIAGNOSTIC_EVENT", Columns: []string{"text TEXT"}, Rows: [][]any{{"events dropped on " + secret}, {secret}}},
		{Name: "CUPTI_ACTIVITY_KIND_RUNTIME", Columns: runtime3, Rows: [][]any{{1, 2, 0, thread, 1, 1, 0, 7}, {3, 4, 0, thread, 2, 50, 2, nil}}},
		{Name: "CUDA_CALLCHAINS", Columns: []string{"id INTEGER", "symbol INTEGER", "module INTEGER", "stackDepth INTEGER"}, Rows: [][]any{{7, 52, 51, 0}}},
	}}.tables()
	list[0].Rows = [][]any{{"EXPORT_PRODUCT_VERSION", secret}, {"EXPORT_SCHEMA_VERSION", "/home/" + secret}, {"EXPORT_PARAM_INPUT_FILE", secret}, {"EXPORT_USER", secret}}
	list[1].Rows = append(list[1].Rows, []any{50, "/home/" + secret + "/run.sh says " + secret}, []any{51, "/home/" + secret + "/lib.so"}, []any{52, "inner"})
	tr := open(t, tablestest.Database(t, list))
	if codes(tr.Warnings) != "events-lost×1 other-oom×1" && codes(tr.Warnings) != "other-oom×1 events-lost×1" {
		t.Errorf("warnings %s", codes(tr.Warnings))
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "%+v\n", tr)
	for id := range tr.Stacks.Len() {
		fmt.Fprintln(&out, tr.Stacks.Stack(trace.StackID(id)))
	}
	info := []report.Info{report.Inform("x.sqlite", tr)}
	a := report.Analyze("x.sqlite", tr, report.Options{Limit: -1, Device: -1})
	_, drawn := perfetto.Write(&out, a)
	for _, err := range []error{report.WriteInfoText(&out, info, report.Style{}), report.WriteInfoJSON(&out, info), a.WriteText(&out, report.Style{}), a.WriteJSON(&out), drawn} {
		if err != nil {
			t.Fatal(err)
		}
	}
	// What is packed in a file shows when it is read again: parts and names of a profile, the trace itself of Parquet.
	profiled, err := pprof.Of(a)
	if err != nil {
		t.Fatal(err)
	}
	var packed, table bytes.Buffer
	if err := errors.Join(profiled.Write(&packed), parquet.Write(&table, tr)); err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(&packed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := out.ReadFrom(z); err != nil {
		t.Fatal(err)
	}
	again, err := source.Read(&table, 0, source.Options{})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&out, "%+v\n", again)
	for id := range again.Stacks.Len() {
		fmt.Fprintln(&out, again.Stacks.Stack(trace.StackID(id)))
	}
	if strings.Contains(out.String(), secret) {
		t.Errorf("the outputs have what nobody should see:\n%s", out.String())
	}
	if !strings.Contains(out.String(), "lib.so") {
		t.Error("the call chain is not there")
	}
}

// FuzzDatabase: any bytes end in a result or in one line.
func FuzzDatabase(f *testing.F) {
	// A small one, so that there are many tries: the library is slow while it is watched.
	whole, err := os.ReadFile(tablestest.Database(f, export{version: "3.20.3", rows: allocated(2, true, 1, 2, 3)}.tables(), "PRAGMA page_size=512", "VACUUM"))
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
		if _, err := source.Read(bytes.NewReader(append([]byte("SQLite format 3\x00"), data[min(16, len(data)):]...)), 0, source.Options{}); err != nil {
			oneLine(t, "fuzzed", err)
		}
	})
}

// The same of JSON lines, which hold what programs printed and what processes are called.
func TestPrivacyOfLines(t *testing.T) {
	text := `{"data":["` + secret + `","cudaMalloc_v3020","/home/` + secret + `/run"],"files":[{"GlobalProcessId":"1","FileName":0,"Content":2}],"` + secret + `":1}
{"Type":27,"CommEvent":{"Timestamp":"1","Commname":"` + secret + `","WorkDir":"/home/` + secret + `"}}
{"Type":49,"DiagnosticEvent":{"Text":"events dropped on ` + secret + `"}}
{"Type":48,"TraceProcessEvent":{"startNs":"1","endNs":"2","correlationId":5,"eventClass":0,"name":"0","returnValue32":2,"globalTid":"11744051300"}}
{"Type":117,"CudaMemoryUsageEvent":{"startNs":"2","globalPid":"11744051200","deviceId":0,"address":"4096","bytes":"700","memKind":2,"type":"allocation","name":"` + secret + `","correlationId":5}}
` + secret + `
`
	tr := read(t, text)
	var out bytes.Buffer
	fmt.Fprintf(&out, "%+v\n", tr)
	for id := range tr.Stacks.Len() {
		fmt.Fprintln(&out, tr.Stacks.Stack(trace.StackID(id)))
	}
	a := report.Analyze("x", tr, report.Options{Limit: -1, Device: -1})
	for _, err := range []error{a.WriteText(&out, report.Style{}), a.WriteJSON(&out)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if strings.Contains(out.String(), secret) {
		t.Errorf("the outputs have what nobody should see:\n%s", out.String())
	}
	if !strings.Contains(codes(tr.Warnings), "events-lost×1") || !strings.Contains(codes(tr.Warnings), "bad-line×1") {
		t.Errorf("%v", tr.Warnings)
	}
}
