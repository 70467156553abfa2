package oom

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files")

// TestGolden compares what a person sees with files that were read. The name of a golden file is the log's
// and the format's.
func TestGolden(t *testing.T) {
	logs, err := filepath.Glob("testdata/golden/*.log")
	if err != nil || len(logs) == 0 {
		t.Fatal("no logs", err)
	}
	for _, path := range logs {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		base := strings.TrimSuffix(path, ".log")
		for _, f := range []struct {
			ending string
			format Format
		}{{".txt", Text}, {".json", JSON}, {".md", Markdown}} {
			if _, err := os.Stat(base + f.ending); err != nil && f.format != Text {
				continue // only some logs are shown in every format
			}
			var out bytes.Buffer
			r, err := Read(filepath.Base(path), bytes.NewReader(text))
			if err == nil {
				err = r.Write(&out, f.format)
			}
			if err != nil {
				t.Fatal(err)
			}
			if *update {
				if err := os.WriteFile(base+f.ending, out.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
				continue
			}
			want, err := os.ReadFile(base + f.ending)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(out.Bytes(), want) {
				t.Errorf("%s%s differs (-want +got):\n%s", base, f.ending, cmp.Diff(strings.Split(string(want), "\n"), strings.Split(out.String(), "\n")))
			}
		}
	}
}

// TestFound checks what counts as a GPU that ran out of memory.
func TestFound(t *testing.T) {
	for text, want := range map[string]bool{
		"RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB\n":                             true,
		"DefaultCPUAllocator: can't allocate memory: you tried to allocate 64 bytes. Error code 12\n": false,
		"[0] GeForce GTX 1080 Ti | 61'C,  97 % |  8123 / 11178 MB |\n":                                false,
		"nothing here\n": false,
	} {
		r, err := Read("-", strings.NewReader(text))
		if err != nil || r.Found() != want {
			t.Errorf("%q: found %v, error %v", text, r.Found(), err)
		}
	}
}
