package source

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What each kind of file is taken for: none is another's.
func TestKindsOfText(t *testing.T) {
	for text, want := range map[string]string{
		"Thread,Time,Action,Pointer,Size,Stream\n1,10:00:00.000001,allocate,0x7f00,100,0x0\n": "RMM log",
		"[7][15:39:53:785777][info  ] ----- RMM LOG BEGIN [PTDS ENABLED] -----\n":             "RMM debug log",
		"1 0x7f1e41329c00 4096 0\n0 0x7f1e41329c00 4096 0\n":                                  "STAlloc log",
		"0 3 92928\n1 2 256\n":                                          "allocatorSim lifetimes",
		"id,lower,upper,size\nb1,0,3,4\n":                               "MiniMalloc buffers",
		"==1== NVPROF is profiling process 1\nx\n":                      "nvprof (text)",
		"\"Start\",\"Duration\",\"Name\"\nms,us,\n1,2,\"cudaMalloc\"\n": "nvprof (text)",
		"Start (ns),Duration (ns),Name,Result,CorrID,Pid,Tid,T-Pri,Thread Name\n1,2,cudaMalloc,0,1,2,3,4,x\n":              "Nsight Systems (stats)",
		"{\"Type\":117,\"CudaMemoryUsageEvent\":{\"startNs\":\"1\",\"address\":\"4096\",\"bytes\":\"7\",\"memKind\":2}}\n": "Nsight Systems (JSON lines)",
	} {
		tr, err := Read(strings.NewReader(text), 0, Options{})
		if err != nil {
			t.Errorf("%q: %v", text, err)
		} else if tr.Source.Format != want {
			t.Errorf("%q is taken for %s, not %s", text, tr.Source.Format, want)
		}
	}
}

// The number of a device may be in the name of a file alone, packed or not.
func TestDeviceOfName(t *testing.T) {
	for name, text := range map[string]string{
		"rmm_log.dev5.csv": "Thread,Time,Action,Pointer,Size,Stream\n1,10:00:00.000001,allocate,0x7f00,100,0x0\n",
		"mem_log_dev5.txt": "1 0x7f1e41329c00 4096 0\n0 0x7f1e41329c00 4096 0\n",
	} {
		for _, pack := range []bool{false, true} {
			path, data := filepath.Join(t.TempDir(), name), []byte(text)
			if pack {
				path, data = path+".gz", gz(t, data)
			}
			if err := os.WriteFile(path, data, 0o666); err != nil {
				t.Fatal(err)
			}
			tr, err := Open(path, Options{})
			if err != nil || tr.Devices[0].Index != 5 {
				t.Errorf("%s: %v", filepath.Base(path), err)
			}
		}
	}
}
