package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// documents are the Markdown files of the repository's own documentation, with paths from its top.
func documents(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"docs", "examples"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if os.IsNotExist(err) {
				return nil
			}
			if err == nil && !d.IsDir() && filepath.Ext(path) == ".md" {
				files = append(files, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for i, file := range files {
		rel, err := filepath.Rel(root, file)
		if err != nil {
			t.Fatal(err)
		}
		files[i] = filepath.ToSlash(rel)
	}
	if !slices.Contains(files, "README.md") {
		t.Error("there is no README.md")
	}
	return files
}

var (
	link   = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	target = regexp.MustCompile(`(?m)^([a-z][a-z-]*):`)
	inCode = regexp.MustCompile("`make ([a-z-]+)`")
)

// TestLinks follows the links from document to file.
func TestLinks(t *testing.T) {
	for _, file := range documents(t) {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			to, _, _ := strings.Cut(m[1], "#")
			if to == "" || strings.Contains(to, ":") {
				continue // within the file, or to somewhere else
			}
			if _, err := os.Stat(filepath.Join(root, filepath.Dir(file), to)); err != nil {
				t.Errorf("%s: link to %s: there is no such file", file, to)
			}
		}
	}
}

// TestMakeTargets looks up the targets that the documents name, in commands and in running text.
func TestMakeTargets(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, m := range target.FindAllSubmatch(makefile, -1) {
		known[string(m[1])] = true
	}
	for _, file := range documents(t) {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range inCode.FindAllStringSubmatch(string(text), -1) {
			if !known[m[1]] {
				t.Errorf("%s: the Makefile has no target %s", file, m[1])
			}
		}
		for _, c := range commands(strings.Split(string(text), "\n")) {
			words := strings.Fields(c.text)
			if words[0] != "make" {
				continue
			}
			for _, w := range words[1:] {
				if !strings.ContainsAny(w, "=-") && !known[w] {
					t.Errorf("%s:%d: the Makefile has no target %s", file, c.line, w)
				}
			}
		}
	}
}
