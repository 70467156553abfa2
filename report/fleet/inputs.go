package fleet

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Input is a file to look at.
type Input struct {
	File  string // as it was given, or as it lies in what was given
	Found bool   // nobody named it: it lay in a folder
	Size  int64  // bytes
	Stamp int64  // nanoseconds, of its last change
}

// ArgError is what is wrong with an argument that means files.
type ArgError struct {
	Arg string // "standard input" for a list there
	Err error
}

func (e *ArgError) Error() string { return e.Arg + ": " + e.Err.Error() }
func (e *ArgError) Unwrap() error { return e.Err }

// Expand lists the files that arguments mean, sorted, each once: files, globs (** stands for any folders), folders
// with all that is in them, and with "-" a list of these on standard input, one a line or with zero bytes between. What is
// named and is not there comes as a file too, since it is one that cannot be read. A folder that is one recording,
// such as an export of Nsight Systems, stays one. An error is an *ArgError.
func Expand(args []string, stdin io.Reader) ([]Input, error) {
	x := expansion{seen: map[string]int{}}
	for _, a := range args {
		if a != "-" {
			if err := x.add(a); err != nil {
				return nil, err
			}
			continue
		}
		list, err := readList(stdin)
		if err != nil {
			return nil, err
		}
		for _, name := range list {
			if err := x.add(name); err != nil {
				return nil, err
			}
		}
	}
	slices.SortFunc(x.list, func(a, b Input) int { return strings.Compare(a.File, b.File) })
	return x.list, nil
}

// maxList is how long a list of files may be, in bytes.
const maxList = 64 << 20

func readList(r io.Reader) ([]string, error) {
	data, err := io.ReadAll(io.LimitReader(bufio.NewReader(r), maxList+1))
	if err != nil {
		return nil, listError("the list of files cannot be read: %w", err)
	}
	if len(data) > maxList {
		return nil, listError("a list of files has one a line, and no more than %d MiB; to look at one recording: vramscope analyze -", maxList>>20)
	}
	sep := "\n"
	if bytes.IndexByte(data, 0) >= 0 {
		sep = "\x00"
	}
	var out []string
	for _, line := range strings.Split(string(data), sep) {
		if line = strings.TrimRight(line, "\r"); strings.TrimSpace(line) == "" {
			continue
		}
		if len(line) > 4096 || strings.ContainsFunc(line, func(r rune) bool { return r < ' ' && r != '\t' }) {
			return nil, listError("this is no list of files, one a line; to look at one recording: vramscope analyze -")
		}
		out = append(out, line)
	}
	return out, nil
}

func listError(format string, args ...any) error {
	return &ArgError{"standard input", fmt.Errorf(format, args...)}
}

type expansion struct {
	list []Input
	seen map[string]int // by cleaned path, the place in the list
}

func (x *expansion) add(name string) error {
	if _, err := os.Lstat(name); err == nil || !strings.ContainsAny(name, "*?[") {
		return x.named(name, false)
	}
	files, err := glob(name)
	if err != nil {
		return &ArgError{name, err}
	}
	if len(files) == 0 {
		return &ArgError{name, errors.New("nothing matches")}
	}
	for _, f := range files {
		if err := x.named(f, false); err != nil {
			return err
		}
	}
	return nil
}

// named takes a file, or all in a folder.
func (x *expansion) named(name string, found bool) error {
	st, err := os.Stat(name)
	if err != nil {
		x.put(Input{File: name, Found: found})
		return nil
	}
	if !st.IsDir() {
		x.put(Input{File: name, Found: found, Size: st.Size(), Stamp: st.ModTime().UnixNano()})
		return nil
	}
	return filepath.WalkDir(name, func(file string, e fs.DirEntry, err error) error {
		if err != nil {
			x.put(Input{File: file, Found: true})
			return nil
		}
		hidden := strings.HasPrefix(e.Name(), ".") && file != name
		switch {
		case e.IsDir() && hidden:
			return fs.SkipDir
		case e.IsDir() && isExport(file):
			x.put(folderInput(file))
			return fs.SkipDir
		case e.IsDir() || hidden:
		default:
			st, err := os.Stat(file) // follows links
			if err == nil && st.Mode().IsRegular() {
				x.put(Input{File: file, Found: true, Size: st.Size(), Stamp: st.ModTime().UnixNano()})
			} else if err != nil {
				x.put(Input{File: file, Found: true})
			}
		}
		return nil
	})
}

// put adds a file. One that was named as well as found was named.
func (x *expansion) put(in Input) {
	key := filepath.Clean(in.File)
	if i, ok := x.seen[key]; ok {
		x.list[i].Found = x.list[i].Found && in.Found
		return
	}
	x.seen[key] = len(x.list)
	x.list = append(x.list, in)
}

// isExport says whether a folder is one recording: tables of an export.
func isExport(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "TARGET_INFO_SESSION_START_TIME.parquet"))
	return err == nil
}

func folderInput(dir string) Input {
	in := Input{File: dir}
	entries, _ := os.ReadDir(dir) // what cannot be read is said when it is opened
	for _, e := range entries {
		if st, err := e.Info(); err == nil {
			in.Size += st.Size()
			in.Stamp = max(in.Stamp, st.ModTime().UnixNano())
		}
	}
	return in
}

// glob is filepath.Glob with ** for any number of folders.
func glob(pattern string) ([]string, error) {
	pattern = filepath.ToSlash(pattern)
	if !strings.Contains(pattern, "**") {
		return filepath.Glob(filepath.FromSlash(pattern))
	}
	if _, err := path.Match(strings.ReplaceAll(pattern, "**", "*"), ""); err != nil {
		return nil, err
	}
	parts := strings.Split(pattern, "/")
	fixed := 0
	for fixed < len(parts)-1 && !strings.ContainsAny(parts[fixed], "*?[") {
		fixed++
	}
	root := strings.Join(parts[:fixed], "/")
	if root == "" && fixed > 0 {
		root = "/"
	}
	start := root
	if start == "" {
		start = "."
	}
	var out []string
	err := filepath.WalkDir(filepath.FromSlash(start), func(file string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return nil
		}
		rel, err := filepath.Rel(filepath.FromSlash(start), file)
		if err == nil && matchParts(parts[fixed:], strings.Split(filepath.ToSlash(rel), "/")) {
			out = append(out, filepath.Join(root, rel))
		}
		return nil
	})
	return out, err
}

// matchParts matches the parts of a path with those of a pattern.
func matchParts(pattern, parts []string) bool {
	switch {
	case len(pattern) == 0:
		return len(parts) == 0
	case pattern[0] == "**":
		for i := 0; i <= len(parts); i++ {
			if matchParts(pattern[1:], parts[i:]) {
				return true
			}
		}
		return false
	case len(parts) == 0:
		return false
	}
	ok, err := path.Match(pattern[0], parts[0])
	return err == nil && ok && matchParts(pattern[1:], parts[1:])
}

// isRecordingName says whether a file in a folder is called as recordings are, so that one that is of no known kind
// is broken, and not something else.
func isRecordingName(file string) bool {
	name := strings.ToLower(filepath.Base(file))
	for _, packing := range []string{".gz", ".zst"} {
		name = strings.TrimSuffix(name, packing)
	}
	for _, ending := range []string{".pickle", ".pkl", ".nsys-rep", ".qdrep", ".sqlite", ".nvvp", ".trace.json"} {
		if strings.HasSuffix(name, ending) {
			return true
		}
	}
	return false
}
