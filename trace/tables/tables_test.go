package tables_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vramscope/vramscope/trace"
	"github.com/vramscope/vramscope/trace/tables"
	"github.com/vramscope/vramscope/trace/tables/tablestest"
)

func open(t testing.TB, path string) *tables.Database {
	t.Helper()
	d, err := tables.OpenDatabase(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func TestDatabase(t *testing.T) {
	d := open(t, tablestest.Database(t, []tablestest.Table{{Name: "Things", Columns: []string{"id INTEGER", "name TEXT", "size"},
		Rows: [][]any{{1, "a\x00b", int64(-1)}, {nil, nil, []byte("xyz")}}}}))
	if !d.Has("THINGS") || d.Has("other") || d.Rows("other") != 0 {
		t.Errorf("tables: %v", d.Names())
	}
	if c, err := d.Columns("things"); err != nil || strings.Join(c, " ") != "id name size" {
		t.Errorf("columns: %v %v", c, err)
	}
	var got []string
	err := d.Scan("things", []string{"SIZE", "none", "id", "name"}, func(r tables.Row) error {
		got = append(got, fmt.Sprintf("%d %v|%d %v|%d %v|%q %q %v", r.Int(0), r.Null(0), r.Int(1), r.Null(1), r.Int(2), r.Null(2), r.Text(3), r.Bytes(3), r.Null(3)))
		return nil
	})
	if diff := cmp.Diff([]string{"-1 false|0 true|1 false|\"a\\x00b\" \"a\\x00b\" false", "0 false|0 true|0 true|\"\" \"\" true"}, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if err := d.Scan("other", []string{"id"}, func(tables.Row) error { return errors.New("a row") }); err != nil {
		t.Errorf("a table that is not there: %v", err)
	}
	stop := errors.New("enough")
	if err := d.Scan("things", nil, func(tables.Row) error { return stop }); err != stop {
		t.Errorf("stopped: %v", err)
	}
}

// Where the pages of a table all refer to the same pages below them, there are more rows than atoms. They
// are counted only as far as rows can fit in the file.
func TestCircle(t *testing.T) {
	var rows [][]any
	for i := range 6000 {
		rows = append(rows, []any{i, "some text that fills pages"})
	}
	path := tablestest.Database(t, []tablestest.Table{{Name: "t", Columns: []string{"id INTEGER", "text TEXT"}, Rows: rows}}, "PRAGMA page_size=512", "VACUUM")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const page = 512
	var interior []int // pages of the second level: those that refer to leaves
	for at := page; at < len(data); at += page {
		if data[at] != 5 {
			continue
		}
		child := int(binary.BigEndian.Uint32(data[at+8:]))
		if data[(child-1)*page] == 13 {
			interior = append(interior, at)
		}
	}
	if len(interior) < 5 {
		t.Fatalf("%d pages refer to leaves", len(interior))
	}
	for i, at := range interior[:len(interior)-1] {
		next := uint32(interior[i+1]/page + 1)
		binary.BigEndian.PutUint32(data[at+8:], next)
		for c := range int(binary.BigEndian.Uint16(data[at+3:])) {
			cell := int(binary.BigEndian.Uint16(data[at+12+2*c:]))
			binary.BigEndian.PutUint32(data[at+cell:], next)
		}
	}
	if err := os.WriteFile(path, data, 0o666); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	n := 0
	err = open(t, path).Scan("t", []string{"id"}, func(tables.Row) error { n++; return nil })
	if !errors.Is(err, trace.ErrCorrupt) {
		t.Errorf("%d rows, %v", n, err)
	}
	if n > len(data) || time.Since(begin) > 10*time.Second {
		t.Errorf("%d rows of %d bytes in %v", n, len(data), time.Since(begin))
	}
	t.Logf("%d rows of %d bytes: %v", n, len(data), err)
}
