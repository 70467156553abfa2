package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/internal/recordtest"
)

// call runs a command line.
func call(args ...string) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	code = Main(args, strings.NewReader(""), &out, &err)
	return code, out.String(), err.String()
}

// Both verbs give a whole document, and nothing on standard error: a bar is for terminals.
func TestFitAndTune(t *testing.T) {
	file := filepath.Join(recordtest.Testdata(), "torch", "graphs.c0.pickle.zst")
	for _, args := range [][]string{
		{"fit", file, "--json"},
		{"fit", file, "--json", "--conf", "", "--conf", "expandable_segments:True", "--allocator", "best-fit"},
		{"tune", file, "--json"},
		{"tune", file, "--json", "--limit", "300MiB", "--top", "2", "--settings", "5", "--torch", "2.6"},
		{"tune", file, "--format", "json", "--memory", "1GiB", "--recorded-limit", "1g", "--device", "0"},
	} {
		code, stdout, stderr := call(args...)
		var doc struct{ Schema string }
		if err := json.Unmarshal([]byte(stdout), &doc); code != exitDone || err != nil || stderr != "" || doc.Schema != "vramscope/"+args[0]+"/v1" {
			t.Errorf("%q: exit %d, %v, schema %q, standard error %q", args, code, err, doc.Schema, stderr)
		}
	}
	out := filepath.Join(t.TempDir(), "fit.md")
	if code, stdout, stderr := call("fit", file, "--format", "markdown", "-o", out); code != exitDone || stdout != "" || stderr != "" {
		t.Errorf("exit %d, %q, %q", code, stdout, stderr)
	}
	if text, err := os.ReadFile(out); err != nil || !bytes.Contains(text, []byte("| --- |")) {
		t.Errorf("%v: %s", err, text)
	}
	if code, stdout, _ := call("tune", file, "--quiet"); code != exitDone || stdout != "" {
		t.Errorf("exit %d, %q", code, stdout)
	}
}

// bfcLog is a dump of TensorFlow's allocator: the state at the moment of a failure.
const bfcLog = `
2024-05-01 10:00:00.000000: W tensorflow/tsl/framework/bfc_allocator.cc:485] Allocator (GPU_0_bfc) ran out of memory trying to allocate 8.00MiB (rounded to 8388608) requested by op Add
2024-05-01 10:00:00.000050: I tensorflow/tsl/framework/bfc_allocator.cc:1010] BFCAllocator dump for GPU_0_bfc
2024-05-01 10:00:00.000100: I tensorflow/tsl/framework/bfc_allocator.cc:1039] Next region of size 16777216
2024-05-01 10:00:00.000200: I tensorflow/tsl/framework/bfc_allocator.cc:1059] InUse at 7f0000000000 of size 12582912 next 1
2024-05-01 10:00:00.000300: I tensorflow/tsl/framework/bfc_allocator.cc:1059] Free  at 7f0000c00000 of size 4194304 next 18446744073709551615
`

// What makes no sense is said in one line, with what to do.
func TestFitAndTuneUsage(t *testing.T) {
	file := filepath.Join(recordtest.Testdata(), "torch", "graphs.c0.pickle.zst")
	log := filepath.Join(t.TempDir(), "tf.log")
	if err := os.WriteFile(log, []byte(bfcLog), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"fit"}, exitUsage, "which file"},
		{[]string{"tune", file, file}, exitUsage, "one file at a time"},
		{[]string{"fit", file, "--allocator", "jemalloc"}, exitUsage, "replay --list"},
		{[]string{"fit", file, "--conf", "expandible_segments:True"}, exitUsage, "expandable_segments"},
		{[]string{"fit", file, "--device", "7"}, exitCorrupt, "no device 7"},
		{[]string{"tune", file, "--top", "0"}, exitUsage, "at least 1"},
		{[]string{"tune", file, "--settings", "-1"}, exitUsage, "at least 1"},
		{[]string{"tune", file, "--torch", "new"}, exitUsage, "write it as"},
		{[]string{"tune", file, "--limit", "0"}, exitUsage, "no size to work with"},
		{[]string{"tune", file + ".not"}, exitCorrupt, "graphs"},
		{[]string{"fit", log}, exitCorrupt, "no requests of device 0 to replay"},
		{[]string{"tune", log}, exitCorrupt, "no requests of device 0 to replay"},
	} {
		code, stdout, stderr := call(c.args...)
		if code != c.code || stdout != "" || !strings.Contains(stderr, c.says) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%q: exit %d, want %d; %q", c.args, code, c.code, stderr)
		}
	}
}
