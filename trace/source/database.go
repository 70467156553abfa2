package source

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/vramscope/vramscope/trace"
	"github.com/vramscope/vramscope/trace/nsys"
	"github.com/vramscope/vramscope/trace/nvprof"
	"github.com/vramscope/vramscope/trace/tables"
)

// tableSource is a kind of export in tables. read returns trace.ErrUnrecognized itself for another kind.
type tableSource struct {
	name string
	read func(tables.Set) (*trace.Trace, error)
}

// databases are the kinds of SQLite databases, in the order in which they are tried.
var databases = [...]tableSource{
	{name: "Nsight Systems exports", read: nsys.ReadDatabase},
	{name: "nvprof profiles", read: nvprof.ReadDatabase},
}

// readDatabase reads a database, which only a file of its own can be: what comes out of a pipe or of a packed
// file is put into a temporary one first. path is where it is already, "" for nowhere. tell, if not nil, is told how
// far reading has come.
func readDatabase(r io.Reader, path string, tell func(read, total int64)) (*trace.Trace, error) {
	path, done, err := onDisk(r, path)
	if err != nil {
		return nil, err
	}
	defer done()
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	d, err := tables.OpenDatabase(path)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	d.Watch(tell)
	for _, s := range databases {
		t, err := s.read(d)
		if err == trace.ErrUnrecognized {
			continue
		}
		if err == nil {
			t.Source.Bytes = info.Size()
			finished(tell, info.Size())
		}
		return t, err
	}
	return nil, otherDatabase(d.Names())
}

// onDisk is where a stream is as a file: at path, or in a temporary one if that is empty. done removes what it made.
func onDisk(r io.Reader, path string) (file string, done func(), err error) {
	if path != "" {
		return path, func() {}, nil
	}
	spooled, err := spool(r)
	return spooled, func() { os.Remove(spooled) }, err
}

// spool writes what is left of a stream to a temporary file.
func spool(r io.Reader) (path string, err error) {
	f, err := os.CreateTemp("", "vramscope-*.input")
	if err != nil {
		return "", fmt.Errorf("it needs a temporary file, being read out of order: %w", errors.Unwrap(err))
	}
	_, err = io.Copy(f, r)
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		os.Remove(f.Name())
		return "", err
	}
	return f.Name(), nil
}

// otherDatabase says what a database has that no source wanted.
func otherDatabase(names []string) error {
	var known []string
	for _, s := range databases {
		known = append(known, s.name)
	}
	const shown = 5
	what := "without tables"
	if n := len(names); n > 0 {
		for i := range names {
			names[i] = strings.Map(func(c rune) rune {
				if c < ' ' {
					return ' '
				}
				return c
			}, names[i][:min(len(names[i]), 40)])
		}
		what = "with the tables " + strings.Join(names[:min(n, shown)], ", ")
		if n > shown {
			what += fmt.Sprintf(" and %d more", n-shown)
		}
	}
	return &trace.SyntaxError{Offset: -1, Err: trace.ErrUnrecognized,
		Msg: fmt.Sprintf("is a SQLite database %s; readable are %s", what, strings.Join(known, ", "))}
}
