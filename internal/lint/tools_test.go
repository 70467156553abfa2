package lint

import (
	"os/exec"
	"strings"
	"testing"
)

// TestVet runs go vet over the module.
func TestVet(t *testing.T) {
	run(t, goTool(t), "vet", "./...")
}

// TestStaticcheck runs the staticcheck that tools/go.mod pins, with its default checks and the one that
// wants a comment on every package. It skips if the tool is neither here nor to be had.
func TestStaticcheck(t *testing.T) {
	root, err := findRoot()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(goTool(t), "tool", "-modfile=tools/go.mod", "-n", "staticcheck")
	cmd.Dir = root
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Skipf("cannot build staticcheck, so it is not run: %v\n%s", err, stderr.String())
	}
	run(t, strings.TrimSpace(string(out)), "-checks", "inherit,ST1000", "./...")
}

// goTool is the go command, which go test puts first on PATH. These tests are slow and need it, so they
// skip under -short and where there is none.
func goTool(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("slow, skipped under -short")
	}
	file, err := exec.LookPath("go")
	if err != nil {
		t.Skipf("no go command: %v", err)
	}
	return file
}

// run runs a checker in the root folder; each line that it writes is an error.
func run(t *testing.T, name string, args ...string) {
	t.Helper()
	root, err := findRoot()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(name, args...)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	if err == nil {
		return
	}
	for line := range strings.Lines(string(out)) {
		t.Error(strings.TrimSpace(line))
	}
	if len(out) == 0 {
		t.Error(err)
	}
}
