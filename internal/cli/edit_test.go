package cli

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/internal/recordtest"
)

// What is wrong with an edit or a step is wrong usage, said on one line with its place.
func TestEditUsage(t *testing.T) {
	leak := filepath.Join(recordtest.Testdata(), "torch", "gpt_leak_grads.c0.pickle.zst")
	bare := filepath.Join(recordtest.Testdata(), "golden", "oom.pickle.zst")
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"replay", leak, "--edit", "without-leaks", "--edit", "prealloc=1GiB", "--step", `## step \d+ ##`}, exitDone, ""},
		{[]string{"replay", leak, "--edit", "scale=1.5", "--json"}, exitDone, ""},
		{[]string{"replay", leak, "--edit", "scale=big"}, exitUsage, `--edit "scale=big": character 7: "big" is not a factor`},
		{[]string{"replay", leak, "--edit", "largest-first", "--step", "("}, exitUsage, "--step: error parsing regexp"},
		{[]string{"replay", leak, "--edit", "largest-first", "--step", "epoch"}, exitUsage, "no annotation matches; there are (numbers as #) ## step # ##"},
		{[]string{"replay", bare, "--edit", "largest-first"}, exitUsage, "no steps were found"},
		{[]string{"replay", bare, "--edit", "drop-stack=nowhere"}, exitUsage, "no block has a call stack"},
		{[]string{"analyze", leak, "--step", "Optimizer.step"}, exitDone, ""},
		{[]string{"analyze", leak, "--step", "epoch"}, exitUsage, "no annotation matches"},
		{[]string{"analyze", bare, "--step", "x"}, exitUsage, "this recording has no annotations"},
	} {
		var out, errs bytes.Buffer
		code := Main(c.args, strings.NewReader(""), &out, &errs)
		said := errs.String()
		if code != c.code || !strings.Contains(said, c.want) || strings.Count(said, "\n") > 1 || (c.want == "") != (said == "") {
			t.Errorf("%q: exit %d and %q, want %d and %q", c.args[2:], code, said, c.code, c.want)
		}
	}
}
