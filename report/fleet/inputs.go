package fleet

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
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

// Expand lists the files that arguments mean, sorted, each once, whatever links lead to it: files, globs (** stands for
// any folders), folders with all that is in them, and with "-" a list of these on standard input, one a line or with
// zero bytes between. What is named and is not there comes as a file too, since it is one that cannot be read. A
// folder that is one recording, such as an export of Nsight Systems, stays one. Own are files and folders that the run
// writes: an earlier one may have left them in a folder, and they are not looked at there. An error is an *ArgError.
func Expand(args []string, stdin io.Reader, own ...string) ([]Input, error) {
	x := expansion{seen: map[string]seen{}, walked: map[string]bool{}, own: map[string]bool{}}
	for _, name := range own {
		if name != "" && name != "-" {
			x.own[real(name)] = true
		}
	}
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
	x.follow()
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
	sep, end, within := "\n", "\r", "\t"
	if bytes.IndexByte(data, 0) >= 0 {
		sep, end, within = "\x00", "", "\t\n\r" // which is written so because names may have newlines
	}
	var out []string
	for _, line := range strings.Split(strings.TrimPrefix(string(data), "\ufeff"), sep) {
		if line = strings.TrimRight(line, end); strings.TrimSpace(line) == "" {
			continue
		}
		if len(line) > 4096 || strings.ContainsFunc(line, func(r rune) bool { return r < ' ' && !strings.ContainsRune(within, r) }) {
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
	list   []Input
	seen   map[string]seen // by where a file really lies
	walked map[string]bool // folders, by where they really lie
	links  []string        // to folders, in folders
	own    map[string]bool
}

// seen is where in the list a file is, and whether it is called there what it is really called.
type seen struct {
	at     int
	direct bool
}

// real is where a file really lies, as far as that can be told.
func real(name string) string {
	if abs, err := filepath.Abs(name); err == nil {
		name = abs
	}
	if to, err := filepath.EvalSymlinks(name); err == nil {
		return to
	}
	return filepath.Clean(name)
}

func (x *expansion) add(name string) error {
	if _, err := os.Lstat(name); err == nil || !strings.ContainsAny(name, "*?[") {
		x.named(name)
		return nil
	}
	files, err := glob(name)
	if err != nil {
		return &ArgError{name, err}
	}
	if len(files) == 0 {
		return &ArgError{name, errors.New("nothing matches")}
	}
	for _, f := range files {
		x.named(f)
	}
	return nil
}

// named takes a file that somebody named, or all in a folder.
func (x *expansion) named(name string) {
	at := real(name)
	st, err := os.Stat(name)
	switch {
	case err != nil:
		x.put(Input{File: name}, at)
	case !st.IsDir():
		x.put(fileInput(name, st), at)
	case isExport(name):
		x.put(folderInput(name), at)
	default:
		x.walk(name, at)
	}
}

// walk takes all in a folder that really lies at a place. Links to folders are for later, so that what they lead to
// is called by its own name if that is among the arguments too.
func (x *expansion) walk(dir, at string) {
	x.walked[at] = true
	entries, err := os.ReadDir(dir)
	if err != nil {
		x.put(Input{File: dir, Found: true}, at)
	}
	for _, e := range entries {
		file, at := filepath.Join(dir, e.Name()), filepath.Join(at, e.Name())
		link := e.Type()&fs.ModeSymlink != 0
		if link {
			at = real(file)
		}
		if strings.HasPrefix(e.Name(), ".") || x.own[at] {
			continue
		}
		st, err := os.Stat(file)
		switch {
		case err != nil:
			x.put(Input{File: file, Found: true}, at)
		case st.IsDir() && isExport(file):
			x.put(folderInput(file), at)
		case st.IsDir() && link:
			x.links = append(x.links, file)
		case st.IsDir():
			x.walk(file, at)
		case st.Mode().IsRegular():
			in := fileInput(file, st)
			in.Found = true
			x.put(in, at)
		}
	}
}

// follow takes what is in the folders that links lead to, each once.
func (x *expansion) follow() {
	for len(x.links) > 0 {
		list := x.links
		x.links = nil
		for _, dir := range list {
			if at := real(dir); !x.walked[at] {
				x.walk(dir, at)
			}
		}
	}
}

// put adds a file that really lies at a place. Of the names that one has it keeps one that was named, its own, or the
// shortest.
func (x *expansion) put(in Input, at string) {
	abs, err := filepath.Abs(in.File)
	direct := err == nil && abs == at
	in.File = shown(in.File)
	s, ok := x.seen[at]
	if !ok {
		x.seen[at] = seen{len(x.list), direct}
		x.list = append(x.list, in)
		return
	}
	old := &x.list[s.at]
	better := cmp.Or(cmp.Compare(len(in.File), len(old.File)), cmp.Compare(in.File, old.File)) < 0
	switch {
	case in.Found != old.Found:
		better = !in.Found
	case direct != s.direct:
		better = direct
	}
	if better {
		*old = in
		x.seen[at] = seen{s.at, direct}
	}
}

// A summary is text, and the name of a file is bytes. Those that are no text are shown as \xff is.

var bareBytes = regexp.MustCompile(`\\x[89a-f][0-9a-f]`)

// shown is the name of a file as text.
func shown(file string) string {
	if utf8.ValidString(file) {
		return file
	}
	var b strings.Builder
	for file != "" {
		r, n := utf8.DecodeRuneInString(file)
		if r == utf8.RuneError && n == 1 {
			fmt.Fprintf(&b, `\x%02x`, file[0])
		} else {
			b.WriteString(file[:n])
		}
		file = file[n:]
	}
	return b.String()
}

// OnDisk is the name by which a file that is shown so can be opened.
func OnDisk(file string) string {
	if !bareBytes.MatchString(file) {
		return file
	}
	if _, err := os.Lstat(file); err == nil {
		return file
	}
	return bareBytes.ReplaceAllStringFunc(file, func(s string) string {
		n, _ := strconv.ParseUint(s[2:], 16, 8) // unreachable: two hexadecimal digits
		return string([]byte{byte(n)})
	})
}

// isExport says whether a folder is one recording: tables of an export.
func isExport(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "TARGET_INFO_SESSION_START_TIME.parquet"))
	return err == nil
}

func fileInput(file string, st fs.FileInfo) Input {
	return Input{File: file, Size: st.Size(), Stamp: st.ModTime().UnixNano()}
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

// glob is filepath.Glob with ** for any number of folders. As in shells, what is hidden matches only what begins with
// a dot itself: beside an output there may be the journal of a run that was ended.
func glob(pattern string) ([]string, error) {
	pattern = filepath.ToSlash(pattern)
	if !strings.Contains(pattern, "**") {
		files, err := filepath.Glob(filepath.FromSlash(pattern))
		return slices.DeleteFunc(files, func(f string) bool { return hidden(pattern, filepath.ToSlash(f)) }), err
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
	// The dot is there for folders that are links.
	var out []string
	err := filepath.WalkDir(filepath.FromSlash(start)+"/.", func(file string, e fs.DirEntry, err error) error {
		export := err == nil && e.IsDir() && isExport(file)
		if err != nil || e.IsDir() && !export {
			return nil
		}
		rel, err := filepath.Rel(filepath.FromSlash(start), file)
		if err == nil && matchParts(parts[fixed:], strings.Split(filepath.ToSlash(rel), "/")) {
			out = append(out, filepath.Join(root, rel))
		}
		if export {
			return fs.SkipDir // its tables are no recordings of their own
		}
		return nil
	})
	return out, err
}

// hidden says whether a part of a path that a pattern matches is hidden, and the pattern does not say so.
func hidden(pattern, file string) bool {
	want, have := strings.Split(pattern, "/"), strings.Split(file, "/")
	for i := 1; i <= min(len(want), len(have)); i++ {
		if strings.HasPrefix(have[len(have)-i], ".") && !strings.HasPrefix(want[len(want)-i], ".") {
			return true
		}
	}
	return false
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
			if i < len(parts) && strings.HasPrefix(parts[i], ".") {
				return false
			}
		}
		return false
	case len(parts) == 0 || hidden(pattern[0], parts[0]):
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
