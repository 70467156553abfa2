package parquet_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/trace"
	"github.com/vramscope/vramscope/trace/parquet"
	"github.com/vramscope/vramscope/trace/source"
)

// files lists the files in a folder.
func files(t testing.TB, dir string) []string {
	t.Helper()
	var list []string
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			rel, _ := filepath.Rel(dir, path)
			list = append(list, filepath.ToSlash(rel))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestDataSet(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "runs", "all")
	want := small()
	for _, rank := range []string{"0", "1"} {
		if err := parquet.WriteDataSet(t.Context(), dir, want, parquet.Key{Name: "run", Value: "a"}, parquet.Key{Name: "rank", Value: rank}); err != nil {
			t.Fatal(err)
		}
	}
	var expected []string
	for _, rank := range []string{"0", "1"} {
		for _, k := range []string{"block", "event", "frame", "group", "marker", "sample", "segment"} {
			expected = append(expected, "run=a/rank="+rank+"/record="+k+"/part-0.parquet")
		}
	}
	if got := files(t, dir); !slices.Equal(got, expected) {
		t.Errorf("files %q", got)
	}
	for _, path := range []string{"run=a/rank=1", "run=a/rank=0/"} {
		got, err := source.Open(filepath.Join(dir, path), source.Options{})
		if err != nil {
			t.Fatal(err)
		}
		same(t, want, got)
	}
	part := filepath.Join(dir, "run=a", "rank=1", "record=frame", "part-0.parquet")
	for path, say := range map[string]string{dir: "2 recordings; give one of them, such as the folder run=a/rank=0 in it", part: "give the folder"} {
		if _, err := source.Open(path, source.Options{}); !errors.Is(err, trace.ErrUnrecognized) || !strings.Contains(err.Error(), say) {
			t.Errorf("%s: %v", path, err)
		}
	}
	home := filepath.Join(dir, "run=a", "rank=1")
	for what, c := range map[string]struct {
		change func() error
		want   string
	}{
		"cut":     {func() error { return os.Truncate(part, 1000) }, "record=frame/part-0.parquet: the Parquet file is damaged"},
		"empty":   {func() error { return os.Truncate(part, 0) }, "record=frame/part-0.parquet: the Parquet file is damaged"},
		"missing": {func() error { return os.Remove(part) }, "there is no record=frame/part-0.parquet"},
		"another recording's": {func() error {
			other := small()
			other.Source.Producer = "another"
			elsewhere := t.TempDir()
			if err := parquet.WriteDataSet(t.Context(), elsewhere, other, parquet.Key{Name: "run", Value: "a"}); err != nil {
				return err
			}
			return os.Rename(filepath.Join(elsewhere, "run=a", "record=frame", "part-0.parquet"), part)
		}, "of another recording"},
	} {
		whole, err := os.ReadFile(part)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.change(); err != nil {
			t.Fatal(err)
		}
		_, err = source.Open(home, source.Options{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", what, err)
		} else {
			oneLine(t, what, err)
		}
		if err := os.WriteFile(part, whole, 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// A recording is written whole or not at all, and never over another one.
func TestWholeOrNotAtAll(t *testing.T) {
	dir := t.TempDir()
	key := parquet.Key{Name: "run", Value: "a"}
	bad := small()
	bad.Devices[0].NumBlocks = 0
	if err := parquet.WriteDataSet(t.Context(), filepath.Join(dir, "set"), bad, key); err == nil {
		t.Error("a recording that cannot be was written")
	}
	if err := parquet.Write(&bytes.Buffer{}, bad); err == nil {
		t.Error("a recording that cannot be was written to a file")
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := parquet.WriteDataSet(t.Context(), filepath.Join(dir, "file"), small(), key); err == nil {
		t.Error("a file became a folder")
	}
	if got := files(t, dir); !slices.Equal(got, []string{"file"}) {
		t.Errorf("left behind: %q", got)
	}
	if _, err := os.Stat(filepath.Join(dir, "set")); !os.IsNotExist(err) {
		t.Errorf("left behind a folder: %v", err)
	}

	ended, end := context.WithCancel(t.Context())
	end()
	if err := parquet.WriteDataSet(ended, filepath.Join(dir, "set", "deep"), small(), key); !errors.Is(err, context.Canceled) {
		t.Errorf("an ended context: %v", err)
	}
	if got := files(t, dir); !slices.Equal(got, []string{"file"}) {
		t.Errorf("left behind: %q", got)
	}
	if _, err := os.Stat(filepath.Join(dir, "set")); !os.IsNotExist(err) {
		t.Errorf("left behind a folder: %v", err)
	}

	set := filepath.Join(dir, "set")
	if err := parquet.WriteDataSet(t.Context(), set, small(), key); err != nil {
		t.Fatal(err)
	}
	before := files(t, set)
	for _, keys := range [][]parquet.Key{{key}, {{Name: "event", Value: "1"}}, {{Name: "record", Value: "1"}}, {{Name: "Run", Value: "1"}}, {{Name: "", Value: "1"}},
		{{Name: "a=b", Value: "1"}}, {{Name: "../x", Value: "1"}}, {{Name: "rank", Value: ""}}, {{Name: "rank", Value: "1"}, {Name: "rank", Value: "2"}}, nil} {
		if err := parquet.WriteDataSet(t.Context(), set, small(), keys...); err == nil {
			t.Errorf("keys %q", keys)
		} else if strings.ContainsAny(err.Error(), "\n") {
			t.Errorf("keys %q: %v", keys, err)
		}
	}
	if err := parquet.WriteDataSet(t.Context(), set, small(), key); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second of the same name: %v", err)
	}
	for _, value := range []string{"..", "../../x", "/etc", "a\nb", "Zürich ✓", "\xff", "__HIVE_DEFAULT_PARTITION__"} {
		if err := parquet.WriteDataSet(t.Context(), set, small(), parquet.Key{Name: "label", Value: value}); err != nil {
			t.Errorf("%q: %v", value, err)
		}
	}
	for _, f := range files(t, dir) {
		if !strings.HasPrefix(f, "set/run=a/") && !strings.HasPrefix(f, "set/label=") && f != "file" || strings.ContainsAny(f, "\n ") {
			t.Errorf("wrote %q", f)
		}
	}
	if got := len(files(t, set)); got != 8*len(before) {
		t.Errorf("%d files", got)
	}
}

// Without keys the folder itself is the recording, also if it has no rows at all.
func TestNoKeys(t *testing.T) {
	for name, want := range map[string]*trace.Trace{"small": small(), "empty": {Stacks: trace.NewStacks()}} {
		dir := filepath.Join(t.TempDir(), name)
		if err := os.Mkdir(dir, 0o777); err != nil { // an empty folder may be there
			t.Fatal(err)
		}
		if err := parquet.WriteDataSet(t.Context(), dir, want); err != nil {
			t.Fatal(err)
		}
		got, err := parquet.ReadDataSet(dir)
		if err != nil {
			t.Fatal(err)
		}
		same(t, want, got)
		if other := files(t, filepath.Dir(dir)); strings.Contains(strings.Join(other, " "), "_") {
			t.Errorf("left behind %q", other)
		}
	}
	if _, err := parquet.ReadDataSet(t.TempDir()); err != trace.ErrUnrecognized {
		t.Errorf("an empty folder: %v", err)
	}
}
