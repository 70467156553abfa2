package cli_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/vramscope/vramscope/allocators/driver/cuda"
	"github.com/vramscope/vramscope/internal/cudatest"
	"github.com/vramscope/vramscope/internal/recordtest"
)

// TestGPUScripts runs what people type on a machine with a GPU, over a driver that needs none.
func TestGPUScripts(t *testing.T) {
	driver := cudatest.Library(t)
	t.Setenv(cuda.PathVariable, driver)
	lib, err := cuda.Load()
	if missing := (*cuda.Missing)(nil); errors.As(err, &missing) {
		t.Skipf("no way to a GPU: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	lib.Close()
	old := cudatest.Library(t, "-DWITHOUT_POOLS", "-DWITHOUT_VMM")
	oom := unpacked(t, "golden/oom.pickle.zst")
	testscript.Run(t, testscript.Params{
		Dir: "testdata/gpu",
		Setup: func(e *testscript.Env) error {
			e.Setenv(cuda.PathVariable, driver)
			e.Setenv("OLD", old)
			e.Setenv("TESTDATA", recordtest.Testdata())
			e.Setenv("FAKE_CUDA_MEMORY", "8589934592")
			e.Setenv("FAKE_CUDA_REPORT", filepath.Join(e.WorkDir, "left"))
			return os.WriteFile(filepath.Join(e.WorkDir, "oom.pickle"), oom, 0o644)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"fails": fails},
	})
}
