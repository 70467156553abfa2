package cli

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestDiffExits goes through the exit codes of diff.
func TestDiffExits(t *testing.T) {
	gate(t)
	for _, c := range []struct {
		args   string
		code   int
		stdout string // is in it
		stderr string
	}{
		{"before.json before.json", 0, "No stack changed, the same blocks are asked for in the same order; peak reserved is the same, 264 MiB.", ""},
		{"before.json after.json", 0, "Peak allocated rose by 4 MiB (+1.5 %) to 268 MiB: train.py:36 train · functional.py:3504 cross_entropy (+4 MiB)", ""},
		{"after.json before.json", 0, "Peak allocated fell by 4 MiB", ""},
		{"before.json after.json --format markdown", 0, "| +4 MiB | 40 MiB | 44 MiB | grew | train.py:36 train · functional.py:3504 cross_entropy |", ""},
		{"before.json after.json --json", 0, `"delta_bytes": 4194304`, ""},
		{"before.json after.json -q", 0, "", ""},
		{"before.json", 2, "", "which two files?"},
		{"before.json after.json before.json", 2, "", "two files at a time, not 3"},
		{"- -", 2, "", "standard input has one file at most"},
		{"before.json empty.pickle", 3, "", "empty.pickle: is empty"},
		{"no.json before.json", 3, "", "no.json: cannot be opened"},
		{"before.json after.json --device 4", 3, "", "the first file has no device 4; it has 0"},
		{"before.json after.json --format xml", 2, "", "there are text, json and markdown"},
	} {
		code, stdout, stderr := vramscope(append([]string{"diff"}, strings.Fields(c.args)...)...)
		if code != c.code || !strings.Contains(stdout, c.stdout) || !strings.Contains(stderr, c.stderr) ||
			(c.stdout == "") != (stdout == "") || (c.stderr == "") != (stderr == "") || strings.Count(stderr, "\n") > 1 {
			t.Errorf("diff %s: exit code %d, want %d\n%s%s", c.args, code, c.code, stdout, stderr)
		}
	}
}

// TestLintConfExits goes through the exit codes of lint-conf: 1 only if PyTorch does something else than what is
// written.
func TestLintConfExits(t *testing.T) {
	for _, c := range []struct {
		args   []string
		code   int
		stdout string
		stderr string
	}{
		{[]string{""}, 0, "An empty setting", ""},
		{[]string{"roundup_power2_divisions:4"}, 0, "PyTorch 2.11 does what this setting says.", ""},
		{[]string{"max_split_size_mb:64"}, 0, "1 risk", ""},
		{[]string{"roundup_power2_divisions:1"}, 1, "does nothing", ""},
		{[]string{"max_split_size_mb:64,max_split_size_mb:128"}, 1, "does nothing", ""},
		{[]string{"expandeable_segments:True"}, 1, "\"expandable_segments\" is probably meant", ""},
		{[]string{"max_split_size_mb:20", "--torch", "2.9.1+cu126"}, 1, "too small for PyTorch 2.9", ""},
		{[]string{"max_split_size_mb:20", "--torch", "2.10"}, 0, "PyTorch 2.10 does", ""},
		{[]string{"export PYTORCH_CUDA_ALLOC_CONF=roundup_power2_divisions:4"}, 0, "under a name that is going out of use", ""},
		{[]string{"-"}, 0, "An empty setting", ""},
		{[]string{"x", "--torch", "new"}, 2, "", "--torch: \"new\" is not a version of PyTorch"},
		{[]string{}, 2, "", "which setting?"},
		{[]string{"a:1", "b:2"}, 2, "", "put it in quotes"},
	} {
		code, stdout, stderr := vramscope(append([]string{"lint-conf"}, c.args...)...)
		if code != c.code || !strings.Contains(stdout, c.stdout) || !strings.Contains(stderr, c.stderr) {
			t.Errorf("lint-conf %q: exit code %d, want %d\n%s%s", c.args, code, c.code, stdout, stderr)
		}
	}
	code, stdout, _ := vramscope("lint-conf", "garbage_collection_threshold:0.8", "--json")
	var doc struct {
		Schema   string
		Passed   bool
		Findings []struct{ Severity, Code string }
	}
	if err := json.Unmarshal([]byte(stdout), &doc); err != nil || code != 1 || doc.Schema != "vramscope/lint-conf/v1" || doc.Passed || len(doc.Findings) != 1 ||
		doc.Findings[0].Severity != "no-effect" {
		t.Errorf("%d %v %s", code, err, stdout)
	}
}
