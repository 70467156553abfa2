// Package cudatest makes a driver of CUDA that needs no GPU, for tests of what talks to one: a shared library
// that keeps books, compiled from testdata/libcuda.c where there is a C compiler.
package cudatest

import (
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

//go:embed testdata/libcuda.c
var source []byte

// Library compiles the library and gives its path; options are those of the compiler, such as -DWITHOUT_POOLS. The
// test skips where there is no compiler.
func Library(t testing.TB, options ...string) string {
	t.Helper()
	cc := "cc"
	for _, name := range []string{os.Getenv("CC"), "cc", "gcc", "clang"} {
		if path, err := exec.LookPath(name); name != "" && err == nil {
			cc = path
			break
		}
	}
	dir := t.TempDir()
	code, lib := filepath.Join(dir, "libcuda.c"), filepath.Join(dir, "libcuda.so.1")
	if err := os.WriteFile(code, source, 0o600); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"-std=gnu11", "-O1", "-shared", "-fPIC", "-o", lib, code}, options...)
	if _, err := exec.LookPath(cc); err != nil {
		t.Skip("no C compiler here, so there is no driver to test with")
	}
	if out, err := exec.Command(cc, args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return lib
}
