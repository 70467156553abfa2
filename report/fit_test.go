package report

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/allocators/caching/config"
	"github.com/vramscope/vramscope/internal/recordtest"
	"github.com/vramscope/vramscope/simulate"
	"github.com/vramscope/vramscope/trace"
	"github.com/vramscope/vramscope/trace/source"
)

// openOwn opens a recording of the repository.
func openOwn(t *testing.T, name string) (string, *trace.Trace) {
	t.Helper()
	file := filepath.Join(recordtest.Testdata(), name+".pickle.zst")
	tr, err := source.Open(file, source.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return file, tr
}

func settingsOf(t *testing.T, confs ...string) []Setting {
	t.Helper()
	var out []Setting
	for _, text := range confs {
		c, findings, err := config.Parse(text, config.DefaultVersion)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, Setting{Text: text, Config: c, Findings: findings})
	}
	return out
}

func TestFitText(t *testing.T) {
	file, tr := openOwn(t, "torch/dynamic_batch.c0")
	r := Fit(file, tr, &tr.Devices[0], FitOptions{RecordedLimit: -1, Models: []string{simulate.Caching, "stream", "best-fit"},
		Settings: settingsOf(t, "", "expandable_segments:True", "roundup_power2_divisions:4", "roundup_power2_divisions:1", "garbage_collection_threshold:0.8")})
	for name, style := range map[string]Style{"dynamic_batch.txt": {}, "dynamic_batch.md": {Markdown: true}} {
		var b bytes.Buffer
		if err := r.WriteText(&b, style); err != nil {
			t.Fatal(err)
		}
		golden(t, filepath.Join("testdata", "fit", name), b.Bytes())
	}
}

func TestFitTextOfPrefix(t *testing.T) {
	file, tr := openOwn(t, "gpt_oom")
	r := Fit(file, tr, &tr.Devices[0], FitOptions{RecordedLimit: recordtest.Read(file).Limit})
	var b bytes.Buffer
	if err := r.WriteText(&b, Style{}); err != nil {
		t.Fatal(err)
	}
	golden(t, filepath.Join("testdata", "fit", "gpt_oom.txt"), b.Bytes())
}

// keysOf are the keys of an object, and those that hold null.
func keysOf(t *testing.T, o any) (keys, null map[string]bool) {
	t.Helper()
	m, ok := o.(map[string]any)
	if !ok {
		t.Fatalf("%T is no object", o)
	}
	keys, null = map[string]bool{}, map[string]bool{}
	for k, v := range m {
		keys[k], null[k] = true, v == nil
	}
	return keys, null
}

func wantKeys(t *testing.T, what string, o any, list string) {
	t.Helper()
	keys, _ := keysOf(t, o)
	for _, k := range strings.Fields(list) {
		if !keys[k] {
			t.Errorf("%s lacks %s", what, k)
		}
	}
}

func decode(t *testing.T, write func(*bytes.Buffer) error) map[string]any {
	t.Helper()
	var b bytes.Buffer
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(b.Bytes(), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestFitJSON(t *testing.T) {
	file, tr := openOwn(t, "torch/dynamic_batch.c0")
	r := Fit(file, tr, &tr.Devices[0], FitOptions{RecordedLimit: -1, Models: []string{simulate.Caching, "bfc"}})
	j := decode(t, func(b *bytes.Buffer) error { return r.WriteJSON(b) })
	wantKeys(t, "the document", j, "schema file device events peak_live_bytes prefix fits")
	truth := recordtest.Read(file).Truth[0]
	if j["schema"] != "vramscope/fit/v1" || int64(j["peak_live_bytes"].(float64)) != truth["requested_bytes.all.peak"] ||
		int64(j["recorded_peak_reserved_bytes"].(float64)) != truth["reserved_bytes.all.peak"] {
		t.Errorf("%v %v %v", j["schema"], j["peak_live_bytes"], j["recorded_peak_reserved_bytes"])
	}
	fits := j["fits"].([]any)
	if len(fits) != 2 {
		t.Fatalf("%d fits", len(fits))
	}
	for _, f := range fits {
		wantKeys(t, "a fit", f, "allocator conf min_memory_bytes min_memory_range_bytes min_limit_bytes monotone safe_memory_bytes fails_bytes")
	}
	// What an allocator has no notion of is null.
	if _, null := keysOf(t, fits[0]); null["min_limit_bytes"] || null["min_memory_bytes"] {
		t.Error("PyTorch's allocator has both a memory and a limit")
	}
	if _, null := keysOf(t, fits[1]); !null["min_limit_bytes"] || null["min_memory_bytes"] {
		t.Error("the other one has a memory, and no limit that a process sets")
	}
}

// Where nothing suffices, nothing is given out as if it did.
func TestFitNothing(t *testing.T) {
	file, tr := openOwn(t, "torch/graphs.c0")
	r := Fit(file, tr, &tr.Devices[0], FitOptions{RecordedLimit: -1})
	r.Fits[0].Memory, r.Fits[0].Limit = simulate.Least{}, &simulate.Least{}
	if got := r.answer(); got != "This run finishes in no size of memory that was tried." {
		t.Errorf("%q", got)
	}
	j := decode(t, func(b *bytes.Buffer) error { return r.WriteJSON(b) })
	_, null := keysOf(t, j["fits"].([]any)[0])
	for _, k := range strings.Fields("min_memory_bytes min_memory_range_bytes min_limit_bytes monotone safe_memory_bytes retries") {
		if !null[k] {
			t.Errorf("%s is not null", k)
		}
	}
}

func TestLargerSizes(t *testing.T) {
	const m = simulate.FitStep
	for _, c := range []struct {
		least simulate.Least
		want  string
	}{
		{simulate.Least{Bytes: m, Safe: m, Every: true}, "all finish"},
		{simulate.Least{Bytes: m, Safe: m}, "none seen to fail"},
		{simulate.Least{Bytes: m, Safe: 6 * m, Fails: []simulate.Sizes{{From: 3 * m, To: 3 * m}, {From: 4 * m, To: 5 * m}}},
			"fails in 6 MiB, 8 MiB – 10 MiB, not from 12 MiB on"},
		{simulate.Least{Bytes: m, Safe: 10 * m, Fails: []simulate.Sizes{{From: 3 * m, To: 3 * m}, {From: 5 * m, To: 5 * m}, {From: 7 * m, To: 7 * m}, {From: 9 * m, To: 9 * m}}},
			"fails in 6 MiB, 10 MiB, 14 MiB and more, not from 20 MiB on"},
	} {
		if got := largerSizes(&c.least); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	for _, c := range []struct {
		low, high int64
		want      string
	}{{gib, gib, "±0"}, {gib, 2 * gib, "1.00 GiB – 2.00 GiB"}, {10 * gib, 10*gib + 2*mib, "10,240 MiB – 10,242 MiB"}} {
		if got := rangeOf(c.low, c.high); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
