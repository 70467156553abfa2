package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/internal/tracetest"
)

// gate is a folder with two recordings of a program, before and after its loss was made larger by a tenth.
func gate(t *testing.T) {
	t.Helper()
	t.Chdir(t.TempDir())
	for _, v := range []string{"GITHUB_ACTIONS", "GITHUB_WORKSPACE", "GITHUB_STEP_SUMMARY", "CI_PROJECT_DIR"} {
		t.Setenv(v, "")
	}
	for name, percent := range map[string]int64{"before.json": 0, "after.json": 10} {
		r := tracetest.New("", -1)
		r.Training(6, func(where string, size int64) int64 {
			if strings.Contains(where, "functional.py:3504") {
				return size * (100 + percent) / 100
			}
			return size
		})
		f, err := os.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.WriteJSON(f); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	write(t, "empty.pickle", "")
	write(t, "policy.toml", "baseline = \"base.json\"\n[limits]\npeak-allocated = \"1GiB\"\n[[stack]]\npattern = \"cross_entropy\"\nmax = \"44MiB\"\ntolerance = \"20%\"\n")
	write(t, "strict.toml", "[limits]\npeak-allocated = \"100MiB\"\n")
	write(t, "wrong.toml", "[limits]\npeak = 1\n")
	write(t, "base.wrong", "{")
	if err := os.MkdirAll("checkout/user", 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, "checkout/user/train.py", "")
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// vramscope runs a command line.
func vramscope(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = Main(args, strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

// TestCheckExits goes through the exit codes, and what is said with each.
func TestCheckExits(t *testing.T) {
	gate(t)
	for _, c := range []struct {
		args   string
		code   int
		stdout string // is in it
		stderr string
	}{
		{"before.json", 2, "", "nothing to check against"},
		{"before.json --write-baseline base.json", 0, "The baseline is base.json: peak allocated 264 MiB", ""},
		{"before.json --baseline base.json", 0, "Passed, 9 rules", ""},
		{"after.json --baseline base.json", 1, "train.py:36 train · functional.py:3504 cross_entropy +4.0 MiB (40.0 MiB → 44.0 MiB).", ""},
		{"after.json --baseline base.json -q", 1, "", ""},
		{"after.json --baseline base.json --tolerance 10%", 0, "Passed", ""},
		{"after.json --baseline base.json --tolerance 10% --max-peak-allocated 266MiB", 1, "Failed: peak allocated 268 MiB, 2.0 MiB (0.8 %) over the limit of 266 MiB", ""},
		{"after.json --baseline base.json --tolerance peak-allocated=4MiB --tolerance peak-reserved-replayed=off --tolerance stack-growth=off", 0, "Passed, 7 rules", ""},
		{"before.json --policy policy.toml", 0, "Passed, 11 rules", ""},
		{"before.json --policy strict.toml", 1, "over the limit of 100 MiB; most of it: model.py:34 forward · linear.py:134 forward 48.0 MiB", ""},
		{"before.json --policy strict.toml --max-peak-allocated 1GiB", 0, "Passed, 1 rule: ", ""},
		{"before.json --max-stack forward=1MiB", 1, `what "forward" matches holds 144 MiB at once`, ""},
		{"before.json --max-fragmentation 0.5 --max-retries 0 --max-ooms 0 --max-leak-per-step 1MiB --max-live-at-end 48MiB", 0, "Passed, 5 rules", ""},
		{"before.json --max-fragmentation 20", 2, "", `--max-fragmentation: "20" is not a share: write 20% or 0.2`},
		{"before.json --max-peak-allocated much", 2, "", "--max-peak-allocated: \"much\" is not a size"},
		{"before.json --max-stack forward", 2, "", "write it as PATTERN=SIZE"},
		{"before.json --max-stack (=1g", 2, "", "--max-stack (=1g: pattern"},
		{"before.json --tolerance peak=1%", 2, "", `there is no rule "peak"`},
		{"before.json --max-retries 0 --device 3", 3, "", "before.json: has no device 3; it has 0"},
		{"before.json --baseline no.json", 3, "", "no.json: there is no baseline yet; make it with --write-baseline no.json"},
		{"before.json --baseline base.wrong", 3, "", "base.wrong: offset 1: "},
		{"before.json --policy wrong.toml", 3, "", `wrong.toml: limits.peak: there is no rule "peak"`},
		{"before.json --policy no.toml", 3, "", "no.toml: cannot be opened: no such file"},
		{"empty.pickle --max-retries 0", 3, "", "empty.pickle: is empty"},
		{"before.json --max-retries 0 --junit no/x.xml", 3, "", "no/x.xml: cannot be written"},
		{"before.json after.json", 2, "", "one file at a time"},
		{"", 2, "", "which file?"},
	} {
		code, stdout, stderr := vramscope(append([]string{"check"}, strings.Fields(c.args)...)...)
		if code != c.code || !strings.Contains(stdout, c.stdout) || !strings.Contains(stderr, c.stderr) ||
			(c.stdout == "") != (stdout == "") || (c.stderr == "") != (stderr == "") || strings.Count(stderr, "\n") > 1 {
			t.Errorf("check %s: exit code %d, want %d\n%s%s", c.args, code, c.code, stdout, stderr)
		}
	}
}

// TestCheckWrites looks at the files that are written beside the answer.
func TestCheckWrites(t *testing.T) {
	gate(t)
	if code, _, stderr := vramscope("check", "before.json", "--policy", "policy.toml", "--write-baseline", "base.json"); code != 0 {
		t.Fatalf("%d: %s", code, stderr)
	}
	t.Setenv("GITHUB_ACTIONS", "true")
	t.Setenv("GITHUB_WORKSPACE", "checkout")
	t.Setenv("GITHUB_STEP_SUMMARY", "summary.md")
	code, stdout, stderr := vramscope("check", "after.json", "--policy", "policy.toml", "--junit", "j.xml", "--sarif", "s.json", "-o", "out.txt")
	if code != 1 || stderr != "" || !strings.HasPrefix(stdout, "::error file=user/train.py,line=36,title=vramscope%3A peak-allocated::peak allocated 268 MiB") {
		t.Errorf("%d\n%s%s", code, stdout, stderr)
	}
	code, stdout, stderr = vramscope("check", "after.json", "--policy", "policy.toml", "--json")
	if code != 1 || !json.Valid([]byte(stdout)) || !strings.HasPrefix(stderr, "::error ") {
		t.Errorf("%d\n%s%s", code, stdout, stderr)
	}
	for file, want := range map[string]string{
		"j.xml": `failures="3"`, "s.json": `"uri": "user/train.py"`, "out.txt": "Failed: ", "summary.md": "### ❌ Memory of `after.json`",
		"base.json": `"cross_entropy":41943040`,
	} {
		data, err := os.ReadFile(file)
		if err != nil || !strings.Contains(strings.ReplaceAll(string(data), `"cross_entropy": `, `"cross_entropy":`), want) {
			t.Errorf("%s: %v\n%.2000s", file, err, data)
		}
	}
	if data, _ := os.ReadFile("summary.md"); strings.Count(string(data), "### ") != 2 {
		t.Error("a summary is added to, not replaced")
	}
	if left, _ := filepath.Glob(".*"); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}
