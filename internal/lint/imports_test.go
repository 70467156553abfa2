package lint

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// layers says which packages of ours the packages under a folder may import, besides those under the
// folder itself. The longest folder that fits counts; a folder that is not here may import nothing of
// ours. This is the arrow cmd → internal/cli → report → simulate → {allocators, trace}, written out.
var layers = map[string][]string{
	"cmd":                {"internal/cli"},
	"cmd/vramscope-beam": {"internal/cli", "report", "simulate", "trace", "allocators"},
	"internal/cli":       {"report", "simulate", "allocators", "trace", "internal"},
	"internal/fidelity":  {"report", "simulate", "allocators", "trace", "internal"},
	"report":             {"simulate", "allocators", "trace", "internal"},
	"simulate":           {"allocators", "trace", "internal"},
	"trace":              {"internal"},
	"allocators":         {},
	"internal":           {},
	"examples":           {"report", "simulate", "allocators", "trace"},
	"tools":              {},
}

// apart are the packages that "internal" in the table above does not cover: they join the layers, so no
// layer may import them.
var apart = []string{"internal/cli", "internal/docs", "internal/fidelity", "internal/lint"}

// libraries says where a module may be imported. Each has a row in ARCHITECTURE.md that gives the reason.
// Modules that are not here may not be imported at all.
var libraries = map[string][]string{
	"github.com/BurntSushi/toml":         {"internal", "report"},
	"github.com/NVIDIA/go-nvml":          {"internal", "trace/nvml"},
	"github.com/go-json-experiment/json": {"internal", "report", "trace", "simulate"},
	"github.com/google/pprof":            {"report", "trace"},
	"github.com/jedib0t/go-pretty":       {"internal/cli", "report"},
	"github.com/klauspost/compress":      {"internal", "report", "trace"},
	"github.com/parquet-go/parquet-go":   {"report", "trace"},
	"github.com/schollz/progressbar":     {"internal/cli"},
	"github.com/spf13/cobra":             {"internal/cli"},
	"gonum.org/v1/gonum":                 {"report", "simulate"},
	"gonum.org/v1/plot":                  {"report"},
	"zombiezen.com/go/sqlite":            {"trace"},
	"github.com/apache/beam":             {"cmd/vramscope-beam"},
	"github.com/cockroachdb/datadriven":  {},
	"github.com/google/go-cmp":           {},
	"github.com/rogpeppe/go-internal":    {},
	"pgregory.net/rapid":                 {},
	"github.com/chromedp/chromedp":       {},
	"github.com/chromedp/cdproto":        {},
}

// confined are packages of the standard library that would break a promise if they were imported
// elsewhere: no network ever, no programs started but the one that the user names, C only where a GPU is
// really driven, and nothing loaded at run time.
var confined = map[string][]string{
	"C":            {"allocators/driver/cuda"},
	"database/sql": {},
	"net":          {},
	"net/http":     {},
	"net/rpc":      {},
	"os/exec":      {"internal/cli", "internal/record", "internal/cudatest"},
	"plugin":       {},
}

// TestImports checks the direction of imports.
func TestImports(t *testing.T) {
	for _, f := range goFiles(t) {
		report(t, checkImports(f))
	}
}

// checkImports gives what is wrong with a file's imports. Test files may import what they like of ours
// and of the standard library, and any library that the project has chosen.
func checkImports(f *sourceFile) []string {
	var wrong []string
	for _, spec := range f.ast.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue
		}
		why := ""
		if !f.isTest() {
			why = importFault(f.dir(), imported)
		} else if isThirdParty(imported) && libraryOf(imported) == "" {
			why = unchosen(imported)
		}
		if why != "" {
			wrong = append(wrong, f.at(spec.Pos())+": "+why)
		}
	}
	return wrong
}

// isThirdParty reports whether an import path is neither ours nor the standard library's.
func isThirdParty(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return strings.Contains(first, ".") && !under(imported, module)
}

// libraryOf is the key of libraries that an import path belongs to, or "".
func libraryOf(imported string) string {
	for lib := range libraries {
		if under(imported, lib) {
			return lib
		}
	}
	return ""
}

func unchosen(imported string) string {
	return fmt.Sprintf("%s is not a library that the project has chosen; if it should be, give the reason in ARCHITECTURE.md and add it to libraries in internal/lint", imported)
}

// importFault says why a package in folder dir may not import a path, or nothing if it may.
func importFault(dir, imported string) string {
	if rel, ours := strings.CutPrefix(imported, module+"/"); ours {
		if isTestPackage(rel) {
			return fmt.Sprintf("%s is for tests, and this file is none", rel)
		}
		if !mayImport(dir, rel) {
			return fmt.Sprintf("%s may not import %s; the direction is cmd → internal/cli → report → simulate → {allocators, trace}", dir, rel)
		}
		return ""
	}
	if !isThirdParty(imported) {
		if where, ok := confined[imported]; ok && !anyUnder(dir, where) {
			return fmt.Sprintf("%s may not be imported here, see confined in internal/lint", imported)
		}
		return ""
	}
	if under(dir, "allocators") {
		return fmt.Sprintf("allocators import the standard library only, not %s", imported)
	}
	lib := libraryOf(imported)
	if lib == "" {
		return unchosen(imported)
	}
	if !anyUnder(dir, libraries[lib]) {
		return fmt.Sprintf("%s may not be imported here, see libraries in internal/lint", lib)
	}
	return ""
}

// mayImport looks a pair of our packages up in layers. Inside a layer packages may import each other,
// but the folders of cmd, internal and examples are layers only in name: there a package has its own
// subpackages.
func mayImport(dir, rel string) bool {
	layer := layerOf(dir)
	switch layer {
	case ".", "cmd", "internal", "examples":
		if dir != "." && under(rel, dir) {
			return true
		}
	default:
		if under(rel, layer) {
			return true
		}
	}
	for _, allowed := range layers[layer] {
		if under(rel, allowed) && !(allowed == "internal" && anyUnder(rel, apart)) {
			return true
		}
	}
	return false
}

// layerOf is the longest key of layers that a folder lies under.
func layerOf(dir string) string {
	for ; dir != "."; dir = path.Dir(dir) {
		if _, ok := layers[dir]; ok {
			return dir
		}
	}
	return "."
}

func anyUnder(folder string, dirs []string) bool {
	for _, dir := range dirs {
		if under(folder, dir) {
			return true
		}
	}
	return false
}

// TestDependencyTable checks that ARCHITECTURE.md gives a reason for each library that is imported, and
// for no other.
func TestDependencyTable(t *testing.T) {
	imported := map[string]bool{}
	for _, f := range goFiles(t) {
		for _, spec := range f.ast.Imports {
			if p, err := strconv.Unquote(spec.Path.Value); err == nil && isThirdParty(p) {
				if lib := libraryOf(p); lib != "" {
					imported[lib] = true
				}
			}
		}
	}
	for _, f := range repository(t) {
		if f.path != "ARCHITECTURE.md" {
			continue
		}
		rows := tableRows(string(f.text))
		for _, lib := range slices.Sorted(maps.Keys(imported)) {
			if !rows[lib] {
				t.Errorf("ARCHITECTURE.md: the table of dependencies has no row for %s", lib)
			}
		}
		for _, lib := range slices.Sorted(maps.Keys(rows)) {
			if !imported[lib] {
				t.Errorf("ARCHITECTURE.md: the table of dependencies has a row for %s, which nothing imports", lib)
			}
		}
		return
	}
	t.Error("there is no ARCHITECTURE.md")
}

// tableRows gives the libraries that the first cells of a Markdown text's tables name, in backquotes.
func tableRows(text string) map[string]bool {
	rows := map[string]bool{}
	for line := range strings.Lines(text) {
		cell, ok := strings.CutPrefix(line, "| `")
		if !ok {
			continue
		}
		cell, _, _ = strings.Cut(cell, "|")
		for i, name := range strings.Split("`"+cell, "`") {
			if i%2 == 1 && isThirdParty(name) {
				rows[name] = true
			}
		}
	}
	return rows
}

// TestImportRules tests the rules themselves.
func TestImportRules(t *testing.T) {
	for _, c := range []struct {
		dir, imported string
		ok            bool
	}{
		{"cmd/vramscope", module + "/internal/cli", true},
		{"cmd/vramscope", module + "/report", false},
		{"cmd/vramscope-beam", module + "/simulate/fleet", true},
		{"internal/cli", module + "/report", true},
		{"internal/cli", module + "/trace/torch", true},
		{"internal/cli", module + "/internal/pickle", true},
		{"internal/cli", module + "/internal/lint", false},
		{"report", module + "/simulate", true},
		{"report", module + "/report/html", true},
		{"report/html", module + "/report", true},
		{"report", module + "/internal/cli", false},
		{"simulate", module + "/allocators/caching", true},
		{"simulate", module + "/trace", true},
		{"simulate", module + "/report", false},
		{"trace/torch", module + "/internal/pickle", true},
		{"trace/torch", module + "/trace", true},
		{"trace", module + "/trace/torch", true},
		{"trace/torch", module + "/allocators", false},
		{"trace", module + "/simulate", false},
		{"trace", module + "/report", false},
		{"trace", module + "/internal/cli", false},
		{"allocators/caching", module + "/allocators", true},
		{"allocators/caching", module + "/allocators/caching/config", true},
		{"allocators", module + "/trace", false},
		{"allocators/buddy", module + "/internal/pickle", false},
		{"allocators/buddy", "github.com/google/go-cmp/cmp", false},
		{"allocators/buddy", "math/bits", true},
		{"allocators/driver/cuda", "C", true},
		{"allocators/driver/sim", "C", false},
		{"internal/pickle", module + "/trace", false},
		{"internal/pickle", module + "/internal/lint", false},
		{"simulate", module + "/allocators/alloctest", false},
		{"somewhere", module + "/trace", false},
		{"trace/nsys", "zombiezen.com/go/sqlite", true},
		{"trace/nsys", "zombiezen.com/go/sqlite/sqlitex", true},
		{"report", "zombiezen.com/go/sqlite", false},
		{"report", "github.com/parquet-go/parquet-go", true},
		{"report", "pgregory.net/rapid", false},
		{"report", "github.com/somebody/something", false},
		{"internal/cli", "github.com/spf13/cobra", true},
		{"trace", "github.com/spf13/cobra", false},
		{"internal/cli", "net/http", false},
		{"internal/cli", "net/url", true},
		{"internal/cli", "os/exec", true},
		{"trace", "os/exec", false},
	} {
		why := importFault(c.dir, c.imported)
		if (why == "") != c.ok {
			t.Errorf("%s imports %s: got %q, allowed should be %v", c.dir, c.imported, why, c.ok)
		}
	}
	// A test file may import what its package may not.
	test := parse("trace/x_test.go", "package trace\nimport _ \""+module+"/simulate\"\n")
	if wrong := checkImports(test); len(wrong) != 0 {
		t.Errorf("test file: %v", wrong)
	}
	odd := parse("trace/x_test.go", "package trace\nimport _ \"github.com/somebody/something\"\n")
	if wrong := checkImports(odd); len(wrong) != 1 {
		t.Errorf("test file with an unknown library: %v", wrong)
	}
	plain := parse("trace/x.go", "package trace\n\nimport _ \""+module+"/simulate\"\n")
	if wrong := checkImports(plain); len(wrong) != 1 || !strings.HasPrefix(wrong[0], "trace/x.go:3: ") {
		t.Errorf("plain file: %v", wrong)
	}
}
