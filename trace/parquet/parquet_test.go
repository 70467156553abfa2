package parquet_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/vramscope/vramscope/internal/recordtest"
	"github.com/vramscope/vramscope/trace"
	"github.com/vramscope/vramscope/trace/parquet"
	"github.com/vramscope/vramscope/trace/source"
)

// recordings are all files and folders that a source reads: those of the repository, and those of the corpus if
// it is here.
func recordings(t testing.TB) map[string]*trace.Trace {
	t.Helper()
	dirs := []string{recordtest.Testdata()}
	if c := recordtest.Corpus(); c != "" && !testing.Short() {
		dirs = append(dirs, c)
	}
	found := map[string]*trace.Trace{}
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if tr, err := source.Open(path, source.Options{}); err == nil {
				found[path] = tr
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(found) < 30 {
		t.Fatalf("%d recordings", len(found))
	}
	return found
}

func written(t testing.TB, tr *trace.Trace) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := parquet.Write(&b, tr); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Whatever is read comes back as it was, from a file and from a data set, and is written the same again.
func TestRoundTrip(t *testing.T) {
	for path, tr := range recordings(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			data := written(t, tr)
			got, err := parquet.Read(bytes.NewReader(data), int64(len(data)))
			if err != nil {
				t.Fatal(err)
			}
			same(t, tr, got)
			if again := written(t, got); !bytes.Equal(data, again) {
				t.Errorf("%d bytes, and %d when it is written again", len(data), len(again))
			}
			dir := filepath.Join(t.TempDir(), "set")
			if err := parquet.WriteDataSet(t.Context(), dir, tr, parquet.Key{Name: "run", Value: "a b/c=1"}, parquet.Key{Name: "rank", Value: "3"}); err != nil {
				t.Fatal(err)
			}
			got, err = source.Open(dir, source.Options{})
			if err != nil {
				t.Fatal(err)
			}
			same(t, tr, got)
			if _, err := os.Stat(filepath.Join(dir, "run=a%20b%2Fc%3D1", "rank=3")); err != nil {
				t.Error(err)
			}
		})
	}
}

// A file that was written when the form was made is read by every version after it.
func TestFirstVersion(t *testing.T) {
	got, err := source.Open("testdata/mempool.v1.parquet", source.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want, err := source.Open(filepath.Join(recordtest.Testdata(), "golden", "mempool.pickle.zst"), source.Options{})
	if err != nil {
		t.Fatal(err)
	}
	g, w := &got.Devices[0], &want.Devices[0]
	c := comparison{t: t}
	c.events("events", w.Events, g.Events)
	c.values("states", reflect.ValueOf([]trace.State{w.Initial, w.Final}), reflect.ValueOf([]trace.State{g.Initial, g.Final}))
	c.stacks("stacks", want.Stacks, got.Stacks)
	for _, f := range c.found {
		t.Error(f)
	}
}
