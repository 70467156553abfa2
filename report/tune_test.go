package report

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/allocators/caching/config"
	"github.com/vramscope/vramscope/internal/recordtest"
	"github.com/vramscope/vramscope/simulate"
)

func tuneOwn(t *testing.T, name string, limit int64) *Tune {
	t.Helper()
	file, tr := openOwn(t, name)
	return TuneSettings(file, tr, &tr.Devices[0], TuneOptions{Limit: limit, RecordedLimit: limit, Settings: 64, Top: 8, Version: config.DefaultVersion})
}

func TestTuneText(t *testing.T) {
	for _, c := range []struct{ name, recording string }{
		{"dynamic_batch.txt", "torch/dynamic_batch.c0"},
		{"gpt_oom.txt", "gpt_oom"},
		{"seed_example.txt", "torch/seed_example.c0"},
		{"ring.txt", "golden/ring"},
	} {
		file, _ := openOwn(t, c.recording)
		limit := recordtest.Read(file).Limit
		if c.recording == "gpt_oom" {
			limit = -1
		}
		var b bytes.Buffer
		if err := tuneOwn(t, c.recording, limit).WriteText(&b, Style{}); err != nil {
			t.Fatal(err)
		}
		golden(t, filepath.Join("testdata", "tune", c.name), b.Bytes())
	}
}

// TestTuneRows has a cell under each header, for those who draw the table themselves.
func TestTuneRows(t *testing.T) {
	for _, row := range tuneOwn(t, "torch/dynamic_batch.c0", -1).Rows() {
		if len(row.Cells) != len(TuneHeader()) {
			t.Errorf("%d cells under %d headers: %v", len(row.Cells), len(TuneHeader()), row.Cells)
		}
	}
}

func TestTuneJSON(t *testing.T) {
	r := tuneOwn(t, "torch/dynamic_batch.c0", -1)
	j := decode(t, func(b *bytes.Buffer) error { return r.WriteJSON(b) })
	wantKeys(t, "the document", j, "schema file device baseline candidates recommended")
	if j["schema"] != "vramscope/tune/v1" {
		t.Error(j["schema"])
	}
	const run = "allocator conf memory_bytes limit_bytes completed peak_allocated_bytes peak_reserved_bytes peak_reserved_range_bytes " +
		"final_reserved_bytes device_allocs device_frees retries ooms first_oom fragmentation_at_peak operations_per_second"
	wantKeys(t, "the baseline", j["baseline"], run)
	for _, c := range j["candidates"].([]any) {
		wantKeys(t, "a candidate", c, run+" cost warnings")
		wantKeys(t, "a cost", c.(map[string]any)["cost"], "device_calls retries device_ms")
	}
	rec := j["recommended"].(map[string]any)
	wantKeys(t, "what is recommended", rec, "conf env saves_bytes why")
	if rec["env"] != "PYTORCH_CUDA_ALLOC_CONF="+rec["conf"].(string) {
		t.Error(rec["env"])
	}
	if base, _ := keysOf(t, j["baseline"]); base["cost"] {
		t.Error("the baseline is a run")
	}
}

// Nothing to recommend is null, and said.
func TestTuneKeeps(t *testing.T) {
	file, _ := openOwn(t, "torch/seed_example.c0")
	r := tuneOwn(t, "torch/seed_example.c0", recordtest.Read(file).Limit)
	j := decode(t, func(b *bytes.Buffer) error { return r.WriteJSON(b) })
	if j["recommended"] != nil || !strings.HasPrefix(r.answer(), "Keep the present settings") {
		t.Errorf("%v, %q", j["recommended"], r.answer())
	}
}

// The reasons not to recommend anything.
func TestTuneWhyNot(t *testing.T) {
	made := func(peak, low, high int64) simulate.Candidate {
		c := simulate.Candidate{Conf: "max_split_size_mb:64"}
		c.Completed, c.Stats.Reserved.Peak, c.Low, c.High = true, peak*mib, low*mib, high*mib
		return c
	}
	failed := made(10, 10, 10)
	failed.Completed = false
	for _, c := range []struct {
		candidates []simulate.Candidate
		base       simulate.Candidate
		want       string
	}{
		{nil, made(100, 100, 100), "no other that was tried changes anything"},
		{[]simulate.Candidate{made(100, 100, 100)}, made(100, 100, 100), "none of 1 others reserves less"},
		{[]simulate.Candidate{failed}, made(100, 100, 100), "none of 1 others reserves less"},
		{[]simulate.Candidate{made(90, 90, 97)}, made(100, 95, 100), "saves 10.0 MiB, less than is uncertain"},
		{[]simulate.Candidate{made(99, 99, 99)}, made(1000, 1000, 1000), "slows the program down or may not finish"},
		{[]simulate.Candidate{made(995, 995, 995)}, made(1000, 1000, 1000), "saves 5.0 MiB, less than one in a hundred"},
	} {
		r := &Tune{Tuning: &simulate.Tuning{Baseline: c.base, Candidates: c.candidates, Tried: len(c.candidates)}}
		if got := r.whyNot(); !strings.Contains(got, c.want) {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// A shell must not make anything of what is pasted.
func TestEnvLine(t *testing.T) {
	for conf, want := range map[string]string{
		"expandable_segments:True":                   "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
		"roundup_power2_divisions:[16:0,32:16]":      "PYTORCH_CUDA_ALLOC_CONF='roundup_power2_divisions:[16:0,32:16]'",
		"max_split_size_mb:64,release_lock_on_x:1.5": "PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:64,release_lock_on_x:1.5",
	} {
		if got := envLine(conf); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// The first line says what it is about.
func TestTuneAnswer(t *testing.T) {
	r := tuneOwn(t, "gpt_oom", -1)
	if got := r.answer(); !strings.Contains(got, "would have got past where it ran out of memory") {
		t.Error(got)
	}
	r.Prefix = false
	if got := r.answer(); !strings.Contains(got, "would have finished") || !strings.Contains(got, "runs out of memory at event") {
		t.Error(got)
	}
	r.Recommended = nil
	if got := r.answer(); !strings.HasPrefix(got, "Under none of ") {
		t.Error(got)
	}
}
