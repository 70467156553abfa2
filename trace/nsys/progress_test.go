package nsys_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/gzip"

	"github.com/vramscope/vramscope/internal/recordtest"
	"github.com/vramscope/vramscope/trace/source"
	"github.com/vramscope/vramscope/trace/tables/tablestest"
)

// Reading tables is told about as reading a stream is: it goes on in steps, never back, and ends with all of the file.
func TestProgress(t *testing.T) {
	path := tablestest.Database(t, export{version: "3.20.3", rows: churn(benchRows)}.tables())
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	packed := filepath.Join(t.TempDir(), "packed")
	if err := os.WriteFile(packed, b.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(recordtest.Testdata(), "nsys", "kinds_parquetdir")
	for _, c := range []struct {
		file  string
		steps int
	}{{path, 5}, {packed, 6}, {folder, 1}} {
		var last, whole int64
		steps := 0
		_, err := source.Open(c.file, source.Options{Progress: func(read, total int64) {
			if read < last || read > total || whole != 0 && total != whole {
				t.Errorf("%s: %d of %d after %d", filepath.Base(c.file), read, total, last)
			}
			if read > last {
				steps++
			}
			last, whole = read, total
		}})
		if err != nil {
			t.Fatal(err)
		}
		if steps < c.steps || last != whole || last == 0 {
			t.Errorf("%s: %d steps, %d of %d at the end", filepath.Base(c.file), steps, last, whole)
		}
	}
}
