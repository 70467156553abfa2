package lint

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// module is the path that every package of ours starts with.
const module = "github.com/vramscope/vramscope"

// A sourceFile is a file of the repository, with its path from the root in slashes.
type sourceFile struct {
	path string
	text []byte

	// For Go files that parse, nil otherwise.
	fset *token.FileSet
	ast  *ast.File
}

// dir is the folder of the file, "." for the root.
func (f *sourceFile) dir() string { return path.Dir(f.path) }

// isTest reports whether the file exists for tests only: a _test.go file, or a file of a package whose
// name ends in "test", as net/http/httptest's does.
func (f *sourceFile) isTest() bool {
	return strings.HasSuffix(f.path, "_test.go") || isTestPackage(f.dir())
}

// isTestPackage reports whether a package, by its folder or import path, is for tests to import.
func isTestPackage(dir string) bool { return strings.HasSuffix(path.Base(dir), "test") }

// at describes a position in the file.
func (f *sourceFile) at(pos token.Pos) string {
	return fmt.Sprintf("%s:%d", f.path, f.fset.Position(pos).Line)
}

// parse makes a sourceFile of a text; a Go file that does not parse is left to the compiler to report.
func parse(name, text string) *sourceFile {
	f := &sourceFile{path: name, text: []byte(text)}
	if strings.HasSuffix(name, ".go") {
		fset := token.NewFileSet()
		if a, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution); err == nil {
			f.fset, f.ast = fset, a
		}
	}
	return f
}

// tree reads the repository once for all tests. Files and folders are opened by this process, not by a
// child, so that go test knows what a cached result depends on; the root folder itself is not, because
// every build and every commit touches it.
var tree = sync.OnceValues(func() ([]*sourceFile, error) {
	root, err := findRoot()
	if err != nil {
		return nil, err
	}
	names, err := list(root)
	if err != nil {
		return nil, err
	}
	var files []*sourceFile
	seen := map[string]bool{".": true}
	for _, name := range names {
		if dir := path.Dir(name); !seen[dir] {
			seen[dir] = true
			if _, err := os.ReadDir(filepath.Join(root, filepath.FromSlash(dir))); err != nil && !os.IsNotExist(err) {
				return nil, err
			}
		}
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if os.IsNotExist(err) {
			continue // deleted, and the deletion is not committed yet
		}
		if err != nil {
			return nil, err
		}
		files = append(files, parse(name, string(text)))
	}
	return files, nil
})

// repository gives the files of the repository.
func repository(t *testing.T) []*sourceFile {
	t.Helper()
	files, err := tree()
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatal("found no files at all")
	}
	return files
}

// findRoot is the folder of this module's go.mod, in or above the working directory.
func findRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && bytes.HasPrefix(text, []byte("module "+module+"\n")) {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", fmt.Errorf("no go.mod of %s above the working directory", module)
		}
		dir = up
	}
}

// list names the files that git tracks or would track. Without git, or where git does not trust the
// folder, it takes everything outside hidden and build folders.
func list(root string) ([]string, error) {
	cmd := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = root
	if out, err := cmd.Output(); err == nil && len(out) > 0 {
		names := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
		slices.Sort(names)
		return slices.DeleteFunc(slices.Compact(names), func(name string) bool { return isLink(root, name) }), nil
	}
	var names []string
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(rel)
		if d.IsDir() {
			if name == "bin" || strings.HasPrefix(d.Name(), ".") && name != "." && name != ".ci" {
				return filepath.SkipDir
			}
			return nil
		}
		if d.Type().IsRegular() {
			names = append(names, name)
		}
		return nil
	})
	return names, err
}

// isLink reports whether a tracked name is a symbolic link, which has no text of its own.
func isLink(root, name string) bool {
	info, err := os.Lstat(filepath.Join(root, filepath.FromSlash(name)))
	return err == nil && !info.Mode().IsRegular()
}

// goFiles gives the Go files that parse, outside testdata.
func goFiles(t *testing.T) []*sourceFile {
	t.Helper()
	var files []*sourceFile
	for _, f := range repository(t) {
		if f.ast != nil && !inTestdata(f.path) {
			files = append(files, f)
		}
	}
	return files
}

// inTestdata reports whether a file lies in a testdata folder, at the top or below.
func inTestdata(name string) bool {
	return slices.Contains(strings.Split(path.Dir(name), "/"), "testdata")
}

// under reports whether a folder is dir or lies below it.
func under(folder, dir string) bool {
	return folder == dir || strings.HasPrefix(folder, dir+"/")
}

// report makes each complaint an error of the test.
func report(t *testing.T, complaints []string) {
	t.Helper()
	for _, c := range complaints {
		t.Error(c)
	}
}
