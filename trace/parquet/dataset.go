package parquet

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/trace"
	"github.com/vramscope/vramscope/trace/tables"
)

// A data set is a folder of folders with names of the form key=value, as Hive has them and every engine knows
// them: those keys are columns of the table. The keys that the user gives come first, such as run and rank; the last
// is record, the kind of rows. Below that is one file.
//
//	run=baseline/rank=0/record=event/part-0.parquet
//
// So a trace is the folder in which the folders record=… are, its home. It is written beside its place and moved there,
// so that a data set never has a part of a trace. The files do not have the columns that are in their paths.

const (
	recordKey = "record"
	partFile  = "part-0.parquet"
)

// Key is a part of the path of a trace in a data set, and a column of the data set.
type Key struct{ Name, Value string }

// goodKey is what engines take as a column without quotes.
var goodKey = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

// WriteDataSet adds a trace to the data set in a folder, which is made if it is not there. The keys say where,
// from the outside inwards. A trace that is there already is not replaced. If the context ends before all is written,
// nothing is.
func WriteDataSet(ctx context.Context, dir string, t *trace.Trace, keys ...Key) error {
	if err := CheckKeys(keys); err != nil {
		return err
	}
	home := filepath.Clean(dir)
	for _, k := range keys {
		home = filepath.Join(home, k.Name+"="+EscapeKey(k.Value))
	}
	description, parts, err := prepare(t)
	if err != nil {
		return err
	}
	if err := vacant(home); err != nil {
		return err
	}
	made, err := makeFolders(filepath.Dir(home))
	if err == nil {
		err = writeHome(ctx, home, t, description, parts)
	}
	if err != nil {
		for _, m := range slices.Backward(made) {
			os.Remove(m) // only those that are empty go
		}
	}
	return err
}

// CheckKeys says what is wrong with the keys of a data set.
func CheckKeys(keys []Key) error {
	for i, k := range keys {
		if err := k.check(keys[:i]); err != nil {
			return err
		}
	}
	return nil
}

func (k Key) check(others []Key) error {
	if !goodKey.MatchString(k.Name) {
		return fmt.Errorf("%q cannot be a key of a data set: take small letters, digits and _, such as run or rank", k.Name)
	}
	names := columnNames()
	if slices.Contains(names[:], k.Name) || slices.ContainsFunc(others, func(o Key) bool { return o.Name == k.Name }) {
		return fmt.Errorf("%q cannot be a key of a data set: there is a column of that name", k.Name)
	}
	if k.Value == "" {
		return fmt.Errorf("the key %s of a data set needs a value", k.Name)
	}
	return nil
}

// EscapeKey makes a name of a folder of a value, as Hive does it.
func EscapeKey(v string) string {
	var b strings.Builder
	for _, c := range []byte(v) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("_-.", c) >= 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// vacant says whether nothing is where a trace is to be.
func vacant(home string) error {
	entries, err := os.ReadDir(home)
	switch {
	case os.IsNotExist(err), err == nil && len(entries) == 0:
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("%w (%s): remove it, or give another --key", fs.ErrExist, home)
}

// makeFolders makes a folder and those above it that are not there, and tells which it made.
func makeFolders(dir string) (made []string, err error) {
	for d := dir; ; d = filepath.Dir(d) {
		if _, err := os.Stat(d); !os.IsNotExist(err) {
			break
		}
		made = append(made, d)
	}
	slices.Reverse(made)
	return made, os.MkdirAll(dir, 0o777)
}

// writeHome writes a trace beside its place and moves it there.
func writeHome(ctx context.Context, home string, t *trace.Trace, description []byte, parts []part) error {
	temp, err := MakeBeside(home)
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	wrote := false
	for k := range numKinds {
		own := slices.DeleteFunc(slices.Clone(parts), func(p part) bool { return p.kind != k })
		// The description has to be somewhere if there are no rows at all.
		if rowsOf(k, own) == 0 && (wrote || k != numKinds-1) {
			continue
		}
		wrote = true
		dir := filepath.Join(temp, recordKey+"="+k.String())
		if err := os.Mkdir(dir, 0o777); err != nil {
			return err
		}
		if err := writePart(ctx, filepath.Join(dir, partFile), t, description, own); err != nil {
			return err
		}
	}
	os.Remove(home) // an empty folder may be there
	return os.Rename(temp, home)
}

// MakeBeside makes a folder beside another. Engines pass over folders whose names begin so.
func MakeBeside(home string) (string, error) {
	for {
		beside := filepath.Join(filepath.Dir(home), fmt.Sprintf("_%s.%08x", filepath.Base(home), rand.Uint32()))
		if err := os.Mkdir(beside, 0o777); !errors.Is(err, fs.ErrExist) {
			return beside, err
		}
	}
}

func writePart(ctx context.Context, path string, t *trace.Trace, description []byte, parts []part) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(ending{ctx, f}, 1<<16)
	err = write(w, t, description, parts, false)
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = w.Flush()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	return err
}

// ending is a file that is written until a context ends.
type ending struct {
	ctx  context.Context
	file *os.File
}

func (e ending) Write(b []byte) (int, error) {
	if err := e.ctx.Err(); err != nil {
		return 0, err
	}
	return e.file.Write(b)
}

// homes finds the traces in a data set; it stops when it has found most of them.
func homes(dir string, most int) ([]string, error) {
	const deepest = 16 // keys
	var found []string
	var walk func(dir string, deep int) error
	walk = func(dir string, deep int) error {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		var below []string
		for _, e := range entries {
			name, value, ok := strings.Cut(e.Name(), "=")
			if !ok || !e.IsDir() || name == "" || strings.ContainsAny(name[:1], "_.") {
				continue
			}
			if name == recordKey && slices.Contains(kindNames[:], value) {
				found = append(found, dir)
				return nil
			}
			below = append(below, e.Name())
		}
		for _, b := range below {
			if len(found) == most || deep == deepest {
				break
			}
			if err := walk(filepath.Join(dir, b), deep+1); err != nil {
				return err
			}
		}
		return nil
	}
	return found, walk(dir, 0)
}

// ReadDataSet reads the trace in a folder that WriteDataSet wrote, which may be the one of the trace itself or one
// above it. For a folder of another kind it returns trace.ErrUnrecognized itself.
func ReadDataSet(dir string) (*trace.Trace, error) {
	const most = 1000
	found, err := homes(dir, most)
	switch {
	case err != nil:
		return nil, err
	case len(found) == 0:
		return nil, trace.ErrUnrecognized
	case len(found) > 1:
		first, err := filepath.Rel(dir, found[0])
		if err != nil {
			first = found[0]
		}
		more := ""
		if len(found) == most {
			more = " or more"
		}
		return nil, &trace.SyntaxError{Offset: -1, Err: trace.ErrUnrecognized,
			Msg: fmt.Sprintf("is a data set of %d%s recordings; give one of them, such as the folder %s in it", len(found), more, first)}
	}
	return readHome(found[0])
}

// readHome reads the files of a trace.
func readHome(home string) (*trace.Trace, error) {
	var r *reader
	said := ""
	var missing []kind
	for k := range numKinds {
		name := filepath.Join(recordKey+"="+k.String(), partFile)
		f, err := os.Open(filepath.Join(home, name))
		if errors.Is(err, fs.ErrNotExist) {
			missing = append(missing, k)
			continue
		}
		if err != nil {
			return nil, err
		}
		r, said, err = readPart(f, k, r, said)
		if e := f.Close(); err == nil {
			err = e
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.ToSlash(name), err)
		}
	}
	if r == nil {
		return nil, trace.Corrupt(-1, "the folders record=… have no file %s; %s", partFile, again)
	}
	for _, k := range missing {
		if rowsOf(k, r.parts) > 0 {
			return nil, trace.Corrupt(-1, "there is no record=%s/%s; %s", k, partFile, again)
		}
	}
	return r.finish()
}

// readPart reads the rows of a kind into the reader, which the first of them makes.
func readPart(in *os.File, k kind, r *reader, said string) (*reader, string, error) {
	info, err := in.Stat()
	if err != nil {
		return nil, "", err
	}
	f, err := tables.OpenFile(in, info.Size(), again)
	if err != nil {
		return nil, "", err
	}
	defer f.Close()
	says, ok := f.Metadata(metadataKey)
	switch {
	case !ok:
		return nil, "", foreign(f)
	case r == nil:
		if r, err = newReader(says); err != nil {
			return nil, "", err
		}
	case says != said:
		return nil, "", trace.Corrupt(-1, "the Parquet file is of another recording than those beside it; %s", again)
	}
	own := slices.DeleteFunc(slices.Clone(r.parts), func(p part) bool { return p.kind != k })
	return r, says, r.read(f, own, false)
}
