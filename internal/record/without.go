//go:build !linux || !cgo || !nvml

package record

import "runtime"

// Open says that there is no meter.
func Open() (*Meter, error) {
	if runtime.GOOS != "linux" {
		return nil, &Missing{"a GPU's memory can be sampled on Linux only; elsewhere let nvidia-smi write a log while the program runs: vramscope reads it"}
	}
	return nil, &Missing{"this vramscope was built without NVML and cannot sample a GPU; build one that can with: make gpu"}
}
