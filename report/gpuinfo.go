package report

import (
	"fmt"
	"io"

	"github.com/vramscope/vramscope/allocators/driver/cuda"
)

// GPUs is what there is of a CUDA driver and its devices.
type GPUs struct {
	Version int    // the newest CUDA that the driver knows, 13000 for 13.0
	Release string // the driver's own version, "" if the system does not tell
	Devices []GPU
}

// GPU is a device, with what is free on it once a program has a context there.
type GPU struct {
	cuda.Info
	Free int64 // bytes
}

// cudaVersion shows a version such as 13000.
func cudaVersion(v int) string { return fmt.Sprintf("%d.%d", v/1000, v%1000/10) }

type gpuInfoJSON struct {
	Schema  string    `json:"schema"`
	CUDA    string    `json:"cuda"`
	Driver  *string   `json:"driver"`
	Devices []gpuJSON `json:"devices"`
}

type gpuJSON struct {
	Device      int    `json:"device"`
	Name        string `json:"name"`
	UUID        string `json:"uuid"`
	Bus         string `json:"bus"`
	Capability  string `json:"compute_capability"`
	Processors  int    `json:"multiprocessors"`
	Integrated  bool   `json:"integrated"`
	Total       int64  `json:"total_bytes"`
	Free        *int64 `json:"free_bytes"`
	VirtualMem  bool   `json:"virtual_memory"`
	Granularity *int64 `json:"granularity_bytes"`
	Recommended *int64 `json:"recommended_granularity_bytes"`
	Pools       bool   `json:"pools"`
}

func newGPUJSON(d cuda.Info, free int64) gpuJSON {
	return gpuJSON{Device: d.Index, Name: d.Name, UUID: d.UUID, Bus: d.Bus, Capability: fmt.Sprintf("%d.%d", d.Major, d.Minor), Processors: d.Processors,
		Integrated: d.Integrated, Total: d.Total, Free: atLeast(free, 0), VirtualMem: d.VirtualMemory,
		Granularity: atLeast(d.Granularity, 1), Recommended: atLeast(d.Recommended, 1), Pools: d.Pools}
}

// WriteJSON renders devices for programs, schema vramscope/gpu-info/v1.
func (g *GPUs) WriteJSON(w io.Writer) error {
	out := gpuInfoJSON{Schema: "vramscope/gpu-info/v1", CUDA: cudaVersion(g.Version), Devices: []gpuJSON{}}
	if g.Release != "" {
		out.Driver = &g.Release
	}
	for _, d := range g.Devices {
		out.Devices = append(out.Devices, newGPUJSON(d.Info, d.Free))
	}
	return WriteJSON(w, out)
}

// WriteText renders devices for people.
func (g *GPUs) WriteText(w io.Writer, style Style) error {
	p := &page{w: w, style: style}
	release := ""
	if g.Release != "" {
		release = " " + g.Release
	}
	p.line("%s", p.bold(fmt.Sprintf("NVIDIA driver%s · CUDA %s · %s", release, cudaVersion(g.Version), plural(len(g.Devices), "device"))))
	for _, d := range g.Devices {
		p.line("")
		p.line("device %d  %s · compute capability %d.%d · %s · %s", d.Index, d.Name, d.Major, d.Minor, plural(d.Processors, "multiprocessor"), d.Bus)
		p.line("  memory          %s, %s of it free beside a context of CUDA", Bytes(d.Total), Bytes(d.Free))
		if d.VirtualMemory {
			unit := Bytes(d.Granularity)
			if d.Recommended != d.Granularity {
				unit += ", " + Bytes(d.Recommended) + " recommended"
			}
			p.line("  virtual memory  yes, in units of %s (expandable segments)", unit)
		} else {
			p.line("  virtual memory  no (no expandable segments)")
		}
		if d.Pools {
			p.line("  pools           yes (cudaMallocAsync)")
		} else {
			p.line("  pools           no (no cudaMallocAsync)")
		}
		if d.Integrated {
			p.line("  its memory is the host's")
		}
	}
	return p.err
}
