package lint

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/token"
	"path"
	"slices"
	"strings"
	"testing"
)

// maxLines is how long a file of source may be. A longer one holds more than one concept.
const maxLines = 600

// sourceKinds are the endings of the files that maxLines holds for.
var sourceKinds = []string{".go", ".js", ".css", ".sh", ".cu", ".c", ".h"}

// emptyNames are the package names that say nothing about what is inside.
var emptyNames = []string{"common", "helper", "helpers", "misc", "shared", "util", "utils"}

// TestSource applies the rules that look at one file of source at a time.
func TestSource(t *testing.T) {
	for _, f := range repository(t) {
		if !inTestdata(f.path) {
			report(t, checkLength(f))
		}
	}
	for _, f := range goFiles(t) {
		report(t, checkFormat(f))
		report(t, checkName(f))
		report(t, checkInit(f))
		report(t, checkPanics(f))
		report(t, checkExits(f))
	}
}

func checkLength(f *sourceFile) []string {
	if n := bytes.Count(f.text, []byte("\n")); n > maxLines && slices.Contains(sourceKinds, path.Ext(f.path)) {
		return []string{fmt.Sprintf("%s: %d lines, more than %d: split it by concept", f.path, n, maxLines)}
	}
	return nil
}

func checkFormat(f *sourceFile) []string {
	want, err := format.Source(f.text)
	if err == nil && !bytes.Equal(want, f.text) {
		return []string{fmt.Sprintf("%s: not formatted, run gofmt -w on it", f.path)}
	}
	return nil
}

func checkName(f *sourceFile) []string {
	name := strings.TrimSuffix(f.ast.Name.Name, "_test")
	if slices.Contains(emptyNames, name) {
		return []string{fmt.Sprintf("%s: package %s: name a package after what it provides", f.at(f.ast.Package), name)}
	}
	return nil
}

func checkInit(f *sourceFile) []string {
	var wrong []string
	for _, decl := range f.ast.Decls {
		if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
			wrong = append(wrong, f.at(fn.Pos())+": func init: list things in an explicit table instead")
		}
	}
	return wrong
}

// checkPanics finds calls of panic outside tests that no comment calls unreachable, on the same line or
// the one above.
func checkPanics(f *sourceFile) []string {
	if f.isTest() {
		return nil
	}
	marked := map[int]bool{}
	for _, group := range f.ast.Comments {
		for _, c := range group.List {
			if strings.HasPrefix(c.Text, "// unreachable: ") {
				line := f.fset.Position(group.End()).Line
				marked[line], marked[line+1] = true, true
			}
		}
	}
	var wrong []string
	for call := range calls(f) {
		if id, ok := call.Fun.(*ast.Ident); ok && id.Name == "panic" && !marked[f.fset.Position(call.Pos()).Line] {
			wrong = append(wrong, f.at(call.Pos())+": panic: return an error, or say in a comment `// unreachable: ` why no input can lead here")
		}
	}
	return wrong
}

// checkExits finds what ends the process anywhere but in main.
func checkExits(f *sourceFile) []string {
	if f.isTest() || f.ast.Name.Name == "main" {
		return nil
	}
	var wrong []string
	for call := range calls(f) {
		sel, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			continue
		}
		pkg, ok := sel.X.(*ast.Ident)
		if ok && (pkg.Name == "os" && sel.Sel.Name == "Exit" || pkg.Name == "log" && strings.HasPrefix(sel.Sel.Name, "Fatal")) {
			wrong = append(wrong, fmt.Sprintf("%s: %s.%s: only main may end the process", f.at(call.Pos()), pkg.Name, sel.Sel.Name))
		}
	}
	return wrong
}

// calls walks the calls in a file.
func calls(f *sourceFile) func(yield func(*ast.CallExpr) bool) {
	return func(yield func(*ast.CallExpr) bool) {
		for n := range ast.Preorder(f.ast) {
			if call, ok := n.(*ast.CallExpr); ok && !yield(call) {
				return
			}
		}
	}
}

// TestComments checks that every exported function, type and method says what it is for. Constants and
// variables may be explained by the group they stand in, and methods by the interface that asks for them.
func TestComments(t *testing.T) {
	files := goFiles(t)
	explained := interfaceMethods(files)
	for _, f := range files {
		report(t, checkComments(f, explained))
	}
}

// interfaceMethods collects the names of methods that an interface of ours, or one that everybody knows,
// explains.
func interfaceMethods(files []*sourceFile) map[string]bool {
	names := map[string]bool{}
	for _, name := range []string{"Close", "Error", "Len", "Less", "Pop", "Push", "Read", "String", "Swap", "Unwrap", "Write"} {
		names[name] = true
	}
	for _, f := range files {
		for n := range ast.Preorder(f.ast) {
			if it, ok := n.(*ast.InterfaceType); ok {
				for _, field := range it.Methods.List {
					for _, name := range field.Names {
						names[name.Name] = true
					}
				}
			}
		}
	}
	return names
}

func checkComments(f *sourceFile, explained map[string]bool) []string {
	if f.isTest() || f.ast.Name.Name == "main" {
		return nil
	}
	var wrong []string
	missing := func(pos token.Pos, what string) {
		wrong = append(wrong, fmt.Sprintf("%s: exported %s has no comment that says what it is for", f.at(pos), what))
	}
	for _, decl := range f.ast.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Doc != nil || !d.Name.IsExported() {
				continue
			}
			if d.Recv == nil || exportedReceiver(d.Recv) && !explained[d.Name.Name] {
				missing(d.Pos(), d.Name.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					if s.Name.IsExported() && s.Doc == nil && d.Doc == nil && s.Comment == nil {
						missing(s.Pos(), s.Name.Name)
					}
				case *ast.ValueSpec:
					if s.Names[0].IsExported() && s.Doc == nil && d.Doc == nil && s.Comment == nil && !d.Lparen.IsValid() {
						missing(s.Pos(), s.Names[0].Name)
					}
				}
			}
		}
	}
	return wrong
}

// exportedReceiver reports whether a method belongs to an exported type.
func exportedReceiver(recv *ast.FieldList) bool {
	typ := recv.List[0].Type
	for {
		switch t := typ.(type) {
		case *ast.StarExpr:
			typ = t.X
		case *ast.IndexExpr:
			typ = t.X
		case *ast.IndexListExpr:
			typ = t.X
		case *ast.Ident:
			return t.IsExported()
		default:
			return false
		}
	}
}

// TestSourceRules tests the rules themselves: each text breaks one rule as often as it says.
func TestSourceRules(t *testing.T) {
	comments := func(f *sourceFile) []string {
		return checkComments(f, interfaceMethods([]*sourceFile{f}))
	}
	for _, c := range []struct {
		name  string
		check func(*sourceFile) []string
		path  string
		text  string
		want  int
	}{
		{"long", checkLength, "a/x.go", "package a\n" + strings.Repeat("\n", maxLines), 1},
		{"not too long", checkLength, "a/x.go", "package a\n" + strings.Repeat("\n", maxLines-1), 0},
		{"long text", checkLength, "a/x.md", strings.Repeat("\n", 2*maxLines), 0},
		{"unformatted", checkFormat, "a/x.go", "package a\nfunc  f() {}\n", 1},
		{"formatted", checkFormat, "a/x.go", "package a\n\nfunc f() {}\n", 0},
		{"name", checkName, "a/x.go", "package util\n", 1},
		{"test name", checkName, "a/x_test.go", "package helpers_test\n", 1},
		{"good name", checkName, "a/x.go", "package pickle\n", 0},
		{"init", checkInit, "a/x.go", "package a\nfunc init() {}\nfunc init() {}\n", 2},
		{"init method", checkInit, "a/x.go", "package a\nfunc (t T) init() {}\n", 0},
		{"panic", checkPanics, "a/x.go", "package a\nfunc f() { panic(1) }\n", 1},
		{"panic in a test", checkPanics, "a/x_test.go", "package a\nfunc f() { panic(1) }\n", 0},
		{"panic in a test package", checkPanics, "a/alloctest/x.go", "package alloctest\nfunc f() { panic(1) }\n", 0},
		{"panic, marked beside", checkPanics, "a/x.go", "package a\nfunc f() {\n\tpanic(1) // unreachable: n is even\n}\n", 0},
		{"panic, marked above", checkPanics, "a/x.go", "package a\nfunc f() {\n\t// unreachable: n is even, because\n\t// it was doubled\n\tpanic(1)\n}\n", 0},
		{"panic, marked too far above", checkPanics, "a/x.go", "package a\nfunc f() {\n\t// unreachable: n is even\n\tg()\n\tpanic(1)\n}\n", 1},
		{"panic, marked without a reason", checkPanics, "a/x.go", "package a\nfunc f() {\n\tpanic(1) // unreachable\n}\n", 1},
		{"exit", checkExits, "a/x.go", "package a\nfunc f() { os.Exit(1); log.Fatalf(\"\") }\n", 2},
		{"exit in main", checkExits, "cmd/a/main.go", "package main\nfunc main() { os.Exit(1) }\n", 0},
		{"no comment", comments, "a/x.go", "package a\n\ntype T int\n\nfunc F() {}\n\nfunc (T) M() {}\n\nvar V int\n", 4},
		{"explained", comments, "a/x.go", "package a\n\ntype i interface{ M() }\n\nfunc (T) M() {}\n\nfunc (T) N() {}\n", 1},
		{"comment", comments, "a/x.go", "package a\n\n// T is\ntype T int\n\nfunc (T) String() string { return \"\" }\n\nfunc (u) M() {}\n\n// Kinds.\nconst (\n\tA = 1\n)\n", 0},
	} {
		if got := c.check(parse(c.path, c.text)); len(got) != c.want {
			t.Errorf("%s: got %q, want %d complaints", c.name, got, c.want)
		}
	}
}
