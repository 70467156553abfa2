package cli

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// A signal to end while a file is written leaves the old one as it was, nothing beside it, and the exit code of the
// signal.
func TestInterrupted(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a process cannot interrupt itself there")
	}
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "x.csv")
	if err := os.WriteFile(name, []byte("old"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		when   string
		render func(w io.Writer) error
	}{
		{"in the middle", func(w io.Writer) error {
			if _, err := io.WriteString(w, "new"); err != nil {
				return err
			}
			if err := self.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
			for {
				if _, err := io.WriteString(w, "more"); err != nil {
					return err
				}
				runtime.Gosched()
			}
		}},
	} {
		var stdout bytes.Buffer
		err := (&output{file: name}).write(&stdout, c.render)
		if !errors.Is(err, exitStatus(130)) {
			t.Errorf("%s: %v", c.when, err)
		}
		if got, err := os.ReadFile(name); err != nil || string(got) != "old" {
			t.Errorf("%s: the file has %q, %v", c.when, got, err)
		}
		if list, err := os.ReadDir(filepath.Dir(name)); err != nil || len(list) != 1 {
			t.Errorf("%s: left behind: %v, %v", c.when, list, err)
		}
	}
}
