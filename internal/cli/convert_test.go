package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/vramscope/vramscope/internal/cli"
)

// Whatever is in a file, converting it ends with a file that holds together, or with a one-line error and none.
func TestConvertDamaged(t *testing.T) {
	whole := unpacked(t, "golden/oom.pickle.zst")
	dir := t.TempDir()
	file := filepath.Join(dir, "x.pickle")
	looks := map[string]func([]byte) error{
		"out.pb.gz": func(b []byte) error {
			p, err := profile.ParseData(b)
			if err == nil {
				err = p.CheckValid()
			}
			return err
		},
		"out.perfetto.json": func(b []byte) error {
			if !json.Valid(b) {
				return fmt.Errorf("no JSON")
			}
			return nil
		},
		"out.rmm.csv": func(b []byte) error {
			if !bytes.HasPrefix(b, []byte("Thread,")) || !bytes.HasSuffix(b, []byte("\n")) {
				return fmt.Errorf("not whole")
			}
			return nil
		},
		"out.parquet": func(b []byte) error {
			if !bytes.HasPrefix(b, []byte("PAR1")) || !bytes.HasSuffix(b, []byte("PAR1")) {
				return fmt.Errorf("not whole")
			}
			return nil
		},
	}
	run := func(what string, data []byte) {
		t.Helper()
		if err := os.WriteFile(file, data, 0o644); err != nil {
			t.Fatal(err)
		}
		for name, look := range looks {
			out := filepath.Join(dir, name)
			os.Remove(out)
			var stdout, stderr bytes.Buffer
			code := cli.Main([]string{"convert", file, "-o", out}, strings.NewReader(""), &stdout, &stderr)
			made, err := os.ReadFile(out)
			switch {
			case code == 3 && err != nil && strings.Count(stderr.String(), "\n") == 1 && strings.Contains(stderr.String(), file+": ") && stderr.Len() < 600 && stdout.Len() == 0:
			case code == 0 && err == nil && stderr.Len() == 0 && look(made) == nil:
			default:
				t.Fatalf("%s, %s: exit code %d, %d bytes (%v), error %q", what, name, code, len(made), err, stderr.String())
			}
		}
	}
	for n := 0; n < len(whole); n += 701 {
		run(fmt.Sprintf("cut at %d", n), whole[:n])
	}
	for n := 0; n < len(whole); n += 211 {
		data := bytes.Clone(whole)
		data[n] ^= 1 << (n % 8)
		run(fmt.Sprintf("byte %d flipped", n), data)
	}
	for n := 0; n < len(whole); n += 1009 {
		data := bytes.Clone(whole)
		copy(data[n:], whole[len(whole)/2:])
		run(fmt.Sprintf("its middle at %d", n), data)
	}
}
