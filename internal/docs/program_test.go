package docs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// A mainFunc runs vramscope as a process would and gives its exit status.
type mainFunc func(args []string, stdin io.Reader, stdout, stderr io.Writer) int

// program builds vramscope and gives it as a function. The documents are about the program that people
// start, so it is that one and not a call of the package inside. It skips the test while there is
// nothing to build.
func program(t *testing.T) mainFunc {
	t.Helper()
	noteInputs(t)
	list := exec.Command("go", "list", "./cmd/vramscope")
	list.Dir = root
	if err := list.Run(); err != nil {
		t.Skip("there is no cmd/vramscope yet")
	}
	file := filepath.Join(t.TempDir(), "vramscope")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", file, "./cmd/vramscope")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return func(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
		cmd := exec.Command(file, args...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stderr
		cmd.Env = os.Environ()
		err := cmd.Run()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Error(err)
		}
		return cmd.ProcessState.ExitCode()
	}
}

// noteInputs opens the folders that the program is built from and that the commands read. They are used
// by other processes only, and go test would otherwise not know that a cached result depends on them.
func noteInputs(t *testing.T) {
	t.Helper()
	for _, folder := range []string{"cmd", "internal", "report", "simulate", "allocators", "trace", "testdata", "examples"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, d fs.DirEntry, err error) error {
			if os.IsNotExist(err) {
				return nil
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
