package journal_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/vramscope/vramscope/internal/journal"
)

func open(t interface{ Fatal(...any) }, path string) *journal.Journal {
	j, err := journal.Open(path, 0)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// TestCut: wherever a journal is cut, and whatever gets into it, what is whole is read, what is not is missing, and
// what is added is kept.
func TestCut(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		path := filepath.Join(dir, "journal")
		os.Remove(path)
		j := open(t, path)
		n := rapid.IntRange(1, 8).Draw(t, "records")
		for i := range n {
			if err := j.Put(fmt.Sprint("key", i), bytes.Repeat([]byte{byte('a' + i)}, 10*i)); err != nil {
				t.Fatal(err)
			}
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		at := rapid.IntRange(0, len(data)).Draw(t, "cut")
		whole := bytes.Count(data[:at], []byte("\n"))
		if at < len(data) && data[at] == '\n' {
			whole++ // nothing but the end of the line is missing
		}
		if err := os.WriteFile(path, data[:at], 0o644); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second time with one more
			j = open(t, path)
			for i := range n {
				got := j.Get(fmt.Sprint("key", i))
				if i < whole && !bytes.Equal(got, bytes.Repeat([]byte{byte('a' + i)}, 10*i)) || i >= whole && got != nil {
					t.Fatalf("cut at %d of %d: record %d is %q", at, len(data), i, got)
				}
			}
			if err := j.Put("new", []byte("value")); err != nil {
				t.Fatal(err)
			}
			if string(j.Get("new")) != "value" {
				t.Fatal("what was added is not there")
			}
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
		}
		// A byte that changed makes its record missing, and no other.
		data, _ = os.ReadFile(path)
		hit := rapid.IntRange(0, len(data)-1).Draw(t, "hit")
		if data[hit] == '\n' {
			return
		}
		line := bytes.Count(data[:hit], []byte("\n"))
		if bytes.HasPrefix(data[bytes.LastIndexByte(data[:hit], '\n')+1:], []byte("\n")) {
			return
		}
		data[hit] ^= 1
		if data[hit] == '\n' {
			return
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		j = open(t, path)
		for i := range whole {
			if got := j.Get(fmt.Sprint("key", i)); (got == nil) != (i == line) {
				t.Fatalf("line %d was hit, and record %d is %q", line, i, got)
			}
		}
	})
}

// TestQuiet: work that is done at once leaves nothing.
func TestQuiet(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j, err := journal.Open(path, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Put("a", []byte("b")); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Error("a file was made")
	}
	if err := j.Remove(); err != nil {
		t.Error(err)
	}
	j, err = journal.Open(path, 20*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Put("a", []byte("b")); err != nil {
		t.Fatal(err)
	}
	time.Sleep(30 * time.Millisecond)
	if err := j.Put("c", []byte("d")); err != nil {
		t.Fatal(err)
	}
	if string(j.Get("a")) != "b" || string(j.Get("c")) != "d" {
		t.Error("what waited was lost")
	}
	if err := j.Remove(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Error("it is still there")
	}
}

// TestTogether: many may write at the same time.
func TestTogether(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	a, b := open(t, path), open(t, path)
	var wait sync.WaitGroup
	for w, j := range []*journal.Journal{a, a, b, b} {
		wait.Go(func() {
			for i := range 100 {
				if err := j.Put(fmt.Sprintf("%d-%d", w, i), bytes.Repeat([]byte("x"), 1000)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	a.Close()
	b.Close()
	if n := open(t, path).Len(); n != 400 {
		t.Errorf("%d records, not 400", n)
	}
}

func TestWrong(t *testing.T) {
	if _, err := journal.Open(t.TempDir(), 0); err == nil {
		t.Error("a folder is no journal")
	}
	j := open(t, filepath.Join(t.TempDir(), "no", "such", "folder"))
	if j.Put("a", nil) == nil || j.Put("a b", nil) == nil || j.Put("a", []byte("\n")) == nil {
		t.Error("what cannot be kept was")
	}
}
