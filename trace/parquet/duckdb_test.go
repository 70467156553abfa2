package parquet_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/internal/cli"
	"github.com/vramscope/vramscope/internal/recordtest"
	"github.com/vramscope/vramscope/trace"
	"github.com/vramscope/vramscope/trace/parquet"
	"github.com/vramscope/vramscope/trace/source"
)

// query is a block of SQL in docs/cookbook/duckdb.md.
type query struct {
	heading string
	sql     string
	number  int // under the heading
	dataSet bool
}

// cookbook reads the queries of the page.
func cookbook(t testing.TB) []query {
	t.Helper()
	page, err := os.ReadFile("../../docs/cookbook/duckdb.md")
	if err != nil {
		t.Fatal(err)
	}
	var list []query
	q, in := query{}, false
	for line := range strings.Lines(string(page)) {
		switch text := strings.TrimSpace(line); {
		case in && text == "```":
			list = append(list, q)
			q.number, q.sql, in = q.number+1, "", false
		case in:
			q.sql += line
		case strings.HasPrefix(text, "```sql"):
			in, q.dataSet = true, text == "```sql dataset"
		case strings.HasPrefix(text, "## "):
			q = query{heading: text[3:]}
		}
	}
	return list
}

// table is what a query gives.
type table []map[string]any

// answers runs all queries of the page on a file or a data set, and more, and gives the answers by heading and number.
func answers(t *testing.T, duckdb, path string, dataSet bool, more ...string) map[string]table {
	t.Helper()
	var sql strings.Builder
	var names []string
	for _, q := range cookbook(t) {
		if strings.HasPrefix(q.sql, "CREATE VIEW trace ") && q.dataSet != dataSet || dataSet && strings.Contains(q.sql, "'run.parquet'") {
			continue
		}
		text := strings.NewReplacer("'run.parquet'", "'"+path+"'", "'runs/**/*.parquet'", "'"+path+"/**/*.parquet'").Replace(q.sql)
		sql.WriteString(text)
		if q.heading != "" {
			names = append(names, fmt.Sprintf("%s %d", q.heading, q.number))
		}
	}
	for i, m := range more {
		sql.WriteString(m + ";\n")
		names = append(names, fmt.Sprintf("more %d", i))
	}
	cmd := exec.Command(duckdb, "-json")
	cmd.Stdin = strings.NewReader(sql.String())
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	if err := cmd.Run(); err != nil || complaints.Len() > 0 {
		t.Fatalf("%v: %s", err, &complaints)
	}
	got := map[string]table{}
	dec := json.NewDecoder(&out)
	dec.UseNumber()
	for _, n := range names {
		var rows table
		if err := dec.Decode(&rows); err != nil {
			t.Fatalf("%s: %v", n, err)
		}
		got[n] = rows
	}
	return got
}

// whole is a number of an answer.
func whole(t testing.TB, v any) int64 {
	t.Helper()
	switch v := v.(type) {
	case nil:
		return 0
	case json.Number:
		f, err := v.Float64()
		if err != nil {
			t.Fatal(err)
		}
		return int64(math.Round(f))
	}
	t.Fatalf("%v is no number", v)
	return 0
}

// analysis is what the test needs of analyze --json.
type analysis struct {
	Devices []struct {
		Peak struct {
			Event     int64 `json:"event"`
			Requested int64 `json:"requested_bytes"`
		} `json:"peak_allocated"`
		Reserved struct {
			Bytes int64 `json:"bytes"`
		} `json:"peak_reserved"`
		End struct {
			Allocated int64 `json:"allocated_bytes"`
			Reserved  int64 `json:"reserved_bytes"`
		} `json:"end"`
		Leaks []struct {
			BytesPerStep int64 `json:"bytes_per_step"`
			Steps        int64 `json:"steps"`
		} `json:"leaks"`
		OOMs []struct {
			Event     int64 `json:"event"`
			Requested int64 `json:"requested_bytes"`
		} `json:"ooms"`
	} `json:"devices"`
}

func analyzed(t testing.TB, path string) analysis {
	t.Helper()
	var out, complaints bytes.Buffer
	if code := cli.Main([]string{"analyze", "--json", path}, strings.NewReader(""), &out, &complaints); code != 0 {
		t.Fatalf("analyze: %d, %s", code, &complaints)
	}
	var a analysis
	if err := json.Unmarshal(out.Bytes(), &a); err != nil {
		t.Fatal(err)
	}
	return a
}

// TestDuckDB runs the queries of the page on real recordings, and holds their answers against analyze.
func TestDuckDB(t *testing.T) {
	duckdb, err := exec.LookPath("duckdb")
	if err != nil {
		t.Skip("there is no duckdb to ask")
	}
	paths := []string{"gpt_oom.pickle.zst", "torch/gpt_leak_grads.c0.pickle.zst", "torch/dynamic_batch.c0.pickle.zst", "torch/resnet_train.c0.pickle.zst",
		"golden/midrun.pickle.zst", "golden/expandable.pickle.zst", "golden/graph.pickle.zst", "golden/driver_oom_exp.pickle.zst"}
	for i := range paths {
		paths[i] = filepath.Join(recordtest.Testdata(), paths[i])
	}
	if c := recordtest.Corpus(); c != "" && !testing.Short() {
		for _, n := range []string{"gpt_long.c0", "gpt_varlen.c0", "gpt_varlen.c2", "gpt_varlen_capped.c2", "streams.c0", "frag_oom.c0", "twodev", "gpt_leak_loss.c0"} {
			paths = append(paths, filepath.Join(c, "torch", n+".pickle.zst"))
		}
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) { checkAnswers(t, duckdb, path) })
	}
}

func checkAnswers(t *testing.T, duckdb, path string) {
	tr, err := source.Open(path, source.Options{})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "run.parquet")
	if err := os.WriteFile(file, written(t, tr), 0o666); err != nil {
		t.Fatal(err)
	}
	a := analyzed(t, path)
	var more []string
	for i := range tr.Devices {
		more = append(more, fmt.Sprintf("SELECT requested_bytes AS n FROM memory WHERE device = %d AND event = %d", tr.Devices[i].Index, a.Devices[i].Peak.Event))
	}
	got := answers(t, duckdb, file, false, more...)
	rows := 0
	for _, r := range got["What is in it 0"] {
		rows += int(whole(t, r["rows"]))
	}
	if want := rowsIn(tr); rows != want {
		t.Errorf("%d rows, want %d", rows, want)
	}
	for i := range tr.Devices {
		d, peak := &a.Devices[i], got["When was the peak 0"][i]
		if n := whole(t, got[fmt.Sprintf("more %d", i)][0]["n"]); n != d.Peak.Requested {
			t.Errorf("device %d: %d bytes requested at event %d, want %d", i, n, d.Peak.Event, d.Peak.Requested)
		}
		if n := whole(t, peak["peak_requested_bytes"]); n < d.Peak.Requested {
			t.Errorf("device %d: peak of %d bytes, want at least %d", i, n, d.Peak.Requested)
		}
		if n := whole(t, peak["peak_reserved_bytes"]); n != d.Reserved.Bytes {
			t.Errorf("device %d: %d bytes reserved, want %d", i, n, d.Reserved.Bytes)
		}
		if len(tr.Devices[i].Final.Segments) == 0 {
			continue
		}
		end := got["How memory lies at the end 0"][i]
		pending := int64(0)
		for _, b := range tr.Devices[i].Final.Blocks {
			if b.State == trace.BlockPending {
				pending += b.Size
			}
		}
		if used, reserved := whole(t, end["used_bytes"]), whole(t, end["reserved_bytes"]); used != d.End.Allocated+pending || reserved != d.End.Reserved {
			t.Errorf("device %d: %d of %d bytes used at the end, want %d of %d", i, used, reserved, d.End.Allocated+pending, d.End.Reserved)
		}
		if free := whole(t, end["stranded_bytes"]) + whole(t, end["cached_bytes"]); free != d.End.Reserved-d.End.Allocated-pending {
			t.Errorf("device %d: %d bytes stranded and cached, want %d", i, free, d.End.Reserved-d.End.Allocated-pending)
		}
	}
	checkHolders(t, tr, got)
	d := &a.Devices[0]
	if refused := got["What was refused 0"]; len(tr.Devices) == 1 && len(refused) < len(d.OOMs) {
		t.Errorf("%d failures, want %d", len(refused), len(d.OOMs))
	}
	for _, leak := range d.Leaks {
		found := false
		for _, r := range got["What outlives its step 0"] {
			found = found || whole(t, r["bytes_per_step"]) == leak.BytesPerStep && whole(t, r["steps"]) == leak.Steps
		}
		if !found {
			t.Errorf("a leak of %d bytes in %d steps is not among %v", leak.BytesPerStep, leak.Steps, got["What outlives its step 0"])
		}
	}
}

// checkHolders adds up what was held at the peak, which must be the peak.
func checkHolders(t *testing.T, tr *trace.Trace, got map[string]table) {
	t.Helper()
	for i, p := range got["When was the peak 0"] {
		held := int64(0)
		for _, r := range got["Who held the memory at the peak 1"] {
			if whole(t, r["device"]) == int64(tr.Devices[i].Index) {
				held += whole(t, r["bytes"])
			}
		}
		if want := whole(t, p["peak_requested_bytes"]); held != want && len(got["Who held the memory at the peak 1"]) < 20 {
			t.Errorf("device %d: %d bytes held, want %d", i, held, want)
		}
	}
}

func rowsIn(tr *trace.Trace) int {
	n := len(tr.Markers)
	for id := range tr.Stacks.Len() {
		n += len(tr.Stacks.Frames(trace.StackID(id)))
	}
	for i := range tr.Devices {
		d := &tr.Devices[i]
		n += d.Events.Len()
		for _, s := range []*trace.State{&d.Initial, &d.Final} {
			n += len(s.Segments) + len(s.Blocks) + len(s.Groups)
		}
		for _, s := range d.Series {
			n += len(s.Points)
		}
	}
	return n
}

// The same queries on a data set of several runs and ranks.
func TestDuckDBDataSet(t *testing.T) {
	duckdb, err := exec.LookPath("duckdb")
	if err != nil {
		t.Skip("there is no duckdb to ask")
	}
	dir := filepath.Join(t.TempDir(), "runs")
	want := map[string]analysis{}
	for key, path := range map[string]string{"a b/0": "torch/gpt_leak_grads.c0.pickle.zst", "a b/1": "gpt_oom.pickle.zst", "new=1/0": "torch/resnet_train.c0.pickle.zst"} {
		path = filepath.Join(recordtest.Testdata(), path)
		tr, err := source.Open(path, source.Options{})
		if err != nil {
			t.Fatal(err)
		}
		run, rank, _ := strings.Cut(key, "/")
		if err := parquet.WriteDataSet(t.Context(), dir, tr, parquet.Key{Name: "run", Value: run}, parquet.Key{Name: "rank", Value: rank}); err != nil {
			t.Fatal(err)
		}
		want[key] = analyzed(t, path)
	}
	got := answers(t, duckdb, dir, true)["Ranks and runs next to each other 0"]
	for _, r := range got {
		key := fmt.Sprintf("%s/%d", r["run"], whole(t, r["rank"]))
		if n := whole(t, r["peak_reserved_bytes"]); len(want[key].Devices) == 0 || n != want[key].Devices[0].Reserved.Bytes {
			t.Errorf("%s: %d bytes reserved", key, n)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d rows, want %d", len(got), len(want))
	}
}
