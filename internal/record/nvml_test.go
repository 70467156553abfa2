//go:build linux && cgo && nvml

package record

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/internal/cudatest"
)

// TestNVML reads devices and processes through a library that needs no GPU.
func TestNVML(t *testing.T) {
	t.Setenv(PathVariable, cudatest.NVML(t))
	t.Setenv("FAKE_NVML_FAIL", "3")
	m, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if m.Driver != "999.1" || len(m.Devices) != 2 || m.Devices[1] != (Device{1, "GPU-2", "Imaginary GPU"}) {
		t.Errorf("%s, %+v", m.Driver, m.Devices)
	}
	r, err := m.Read(0)
	if err != nil || r.Used != 1<<20 || r.Total != 8<<30 || r.Free != 8<<30-101<<20 || r.Busy != 7 {
		t.Errorf("%+v, %v", r, err)
	}
	if len(r.Processes) != 1 || r.Processes[0] != (Process{4242, "python3, odd", 1 << 19}) {
		t.Errorf("%+v", r.Processes)
	}
	if r, err = m.Read(1); err != nil || r.Used != 2<<20 || len(r.Processes) != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err = m.Read(0); err == nil || !strings.Contains(err.Error(), "GPU is lost") {
		t.Errorf("%v", err)
	}
}

// TestWithout: no library, and a library without a driver.
func TestWithout(t *testing.T) {
	t.Setenv(PathVariable, filepath.Join(t.TempDir(), "libnvidia-ml.so.1"))
	if _, err := Open(); !errors.As(err, new(*Missing)) {
		t.Errorf("%v", err)
	}
	t.Setenv(PathVariable, cudatest.NVML(t))
	t.Setenv("FAKE_NVML_INIT", "9")
	if _, err := Open(); !errors.As(err, new(*Missing)) || !strings.Contains(err.Error(), "Driver Not Loaded") {
		t.Errorf("%v", err)
	}
}
