package docs

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// A mainFunc runs vramscope as a process would and gives its exit status.
type mainFunc func(args []string, stdin io.Reader, stdout, stderr io.Writer) int

// program builds vramscope. It skips the test while there is nothing to build.
func program(t *testing.T) mainFunc {
	t.Helper()
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
