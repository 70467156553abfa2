// Package cudatest makes a driver of CUDA that needs no GPU, for tests of what talks to one: a shared library
// that keeps books, compiled from testdata/libcuda.c where there is a C compiler. So it does for NVML.
package cudatest

import (
	"crypto/sha256"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

//go:embed testdata/libcuda.c
var cudaSource []byte

//go:embed testdata/libnvml.c
var nvmlSource []byte

// Library gives the path of a library with books of its own; options are those of the compiler, such as
// -DWITHOUT_POOLS. The test skips where there is no compiler.
func Library(t testing.TB, options ...string) string {
	t.Helper()
	return compile(t, cudaSource, options...)
}

// NVML gives the path of a library that stands for NVIDIA's management library. The test skips where there is no
// compiler.
func NVML(t testing.TB) string {
	t.Helper()
	return compile(t, nvmlSource)
}

// compile makes a library of its own for a test. What was compiled is kept in the user's cache, under a name that
// says what it is of.
func compile(t testing.TB, source []byte, options ...string) string {
	t.Helper()
	cc := compiler()
	if cc == "" {
		t.Skip("no C compiler here, so there is no driver to test with")
	}
	name := fmt.Sprintf("libcuda-%x.so", sha256.Sum256([]byte(cc+"\n"+strings.Join(options, "\n")+"\n"+string(source))))
	kept := ""
	if dir, err := os.UserCacheDir(); err == nil {
		kept = filepath.Join(dir, "vramscope-test", name)
	}
	// Each test has a file of its own: the system's loader gives the same one out only once.
	lib := filepath.Join(t.TempDir(), "libcuda.so.1")
	if data, err := os.ReadFile(kept); err == nil && os.WriteFile(lib, data, 0o700) == nil {
		return lib
	}
	code := filepath.Join(t.TempDir(), "libcuda.c")
	if err := os.WriteFile(code, source, 0o600); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"-std=gnu11", "-O1", "-shared", "-fPIC", "-o", lib, code}, options...)
	if out, err := exec.Command(cc, args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	keep(lib, kept)
	return lib
}

func compiler() string {
	for _, name := range []string{os.Getenv("CC"), "cc", "gcc", "clang"} {
		if name == "" {
			continue
		}
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// keep puts a copy where the next test looks for it. It is no matter if that cannot be.
func keep(lib, as string) {
	data, err := os.ReadFile(lib)
	if err != nil || as == "" || os.MkdirAll(filepath.Dir(as), 0o700) != nil {
		return
	}
	f, err := os.CreateTemp(filepath.Dir(as), "new-*")
	if err != nil {
		return
	}
	_, err = f.Write(data)
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil || os.Rename(f.Name(), as) != nil {
		os.Remove(f.Name())
	}
}
