// Package examples tests that what is shown here works, as far as it can without a GPU: the recipes run with a
// stand-in for PyTorch that hands out recordings instead of making them.
package examples

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/internal/tracetest"
	"github.com/vramscope/vramscope/report/check"
)

// recording is the small program's, its loss larger by so many percent.
func recording(t *testing.T, percent int64) []byte {
	t.Helper()
	r := tracetest.New("", -1)
	r.Training(8, func(where string, size int64) int64 {
		if strings.Contains(where, "functional.py:3504") {
			return size * (100 + percent) / 100
		}
		return size
	})
	var b bytes.Buffer
	if err := r.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestRecordings checks that the recordings here are what the test package makes; UPDATE_GOLDEN=1 writes them.
func TestRecordings(t *testing.T) {
	for name, percent := range map[string]int64{"before": 0, "after": 10} {
		file := filepath.Join("recordings", name+".json.gz")
		want := recording(t, percent)
		if os.Getenv("UPDATE_GOLDEN") != "" {
			var b bytes.Buffer
			w := gzip.NewWriter(&b)
			w.Write(want)
			w.Close()
			if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		r, err := gzip.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what is made now (%v)", file, err)
		}
	}
}

// TestPolicy reads the policy.
func TestPolicy(t *testing.T) {
	f, err := os.Open("memory.toml")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p, err := check.ReadPolicy(f)
	if err != nil || p.Empty() || p.Baseline == "" {
		t.Errorf("%+v, %v", p, err)
	}
}

// torch is a stand-in whose snapshots are copies of a file.
const torch = `
import os, shutil, types, contextlib
class _Memory(types.ModuleType):
    def _record_memory_history(self, **options): self.on = options.get("enabled", "all")
    def _dump_snapshot(self, file):
        assert self.on == "all"
        shutil.copy(os.environ["SNAPSHOT"], file)
cuda = types.SimpleNamespace(memory=_Memory("memory"), is_available=lambda: True, synchronize=lambda: None, empty_cache=lambda: None)
class _Any:
    def __init__(self, *a, **k): pass
    def __getattr__(self, name): return self
    def __call__(self, *a, **k): return self
    def __sub__(self, other): return self
nn = optim = _Any()
randn = manual_seed = _Any()
profiler = types.SimpleNamespace(record_function=lambda name: contextlib.nullcontext())
`

// TestPytest runs the recipe: the first run makes a baseline, the second passes it, a larger one fails with the
// line named, and can be made the baseline.
func TestPytest(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not here")
	}
	for _, p := range []string{"/usr/bin/python3", python} {
		if exec.Command(p, "-m", "pytest", "--version").Run() == nil {
			python = p
			break
		}
	}
	if exec.Command(python, "-m", "pytest", "--version").Run() != nil {
		t.Skip("pytest is not here")
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "vramscope")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", program, "../cmd/vramscope")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range []string{"conftest.py", "test_memory.py"} {
		text, err := os.ReadFile(filepath.Join("pytest", name))
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name), text)
	}
	write(t, filepath.Join(dir, "torch.py"), []byte(torch))
	write(t, filepath.Join(dir, "before.json"), recording(t, 0))
	write(t, filepath.Join(dir, "after.json"), recording(t, 10))
	for _, c := range []struct {
		snapshot string
		flags    []string
		passes   bool
		want     string
	}{
		{"before.json", nil, true, "1 passed"},
		{"before.json", nil, true, "1 passed"},
		{"after.json", nil, false, "Failed: peak allocated 268 MiB, 4.0 MiB (1.5 %) over the baseline of 264 MiB: train.py:36 train"},
		{"after.json", []string{"--write-memory-baselines"}, true, "1 passed"},
		{"after.json", nil, true, "1 passed"},
		{"missing.json", nil, false, "No such file"},
	} {
		cmd := exec.Command(python, append([]string{"-m", "pytest", "-p", "no:cacheprovider"}, c.flags...)...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "PYTHONPATH="+dir, "VRAMSCOPE="+program, "SNAPSHOT="+filepath.Join(dir, c.snapshot), "PYTHONDONTWRITEBYTECODE=1")
		out, err := cmd.CombinedOutput()
		if (err == nil) != c.passes || !strings.Contains(string(out), c.want) {
			t.Fatalf("%s %v: %v\n%s", c.snapshot, c.flags, err, out)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "memory", "test_training_step.json")); err != nil {
		t.Error(err)
	}
}

func write(t *testing.T, file string, text []byte) {
	t.Helper()
	if err := os.WriteFile(file, text, 0o644); err != nil {
		t.Fatal(err)
	}
}
