//go:build linux && cgo && nvml

package record

import (
	"cmp"
	"fmt"
	"os"
	"path"
	"slices"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// PathVariable names NVML's library if it is not to be looked for.
const PathVariable = "VRAMSCOPE_LIBNVML"

// unknown is what NVML says where it does not know what a process holds, bytes.
const unknown = 1<<64 - 1

// Open makes a meter of NVML.
func Open() (*Meter, error) {
	var options []nvml.LibraryOption
	if p := os.Getenv(PathVariable); p != "" {
		options = append(options, nvml.WithLibraryPath(p))
	}
	lib := nvml.New(options...)
	if r := lib.Init(); r == nvml.ERROR_LIBRARY_NOT_FOUND {
		return nil, &Missing{fmt.Sprintf("NVIDIA's management library (libnvidia-ml.so.1) is not here; it comes with the driver: install that, or name the library in %s", PathVariable)}
	} else if r != nvml.SUCCESS {
		return nil, &Missing{fmt.Sprintf("NVIDIA's management library finds no driver: %s; see what nvidia-smi says", nvml.ErrorString(r))}
	}
	m := &Meter{Close: func() { lib.Shutdown() }}
	m.Driver, _ = lib.SystemGetDriverVersion()
	devices, err := m.list(lib)
	if err != nil {
		m.Close()
		return nil, err
	}
	names := map[uint32]string{}
	second := lib.Extensions().LookupSymbol("nvmlDeviceGetMemoryInfo_v2") == nil
	m.Read = func(i int) (Reading, error) { return read(lib, devices[i], second, names) }
	return m, nil
}

func (m *Meter) list(lib nvml.Interface) ([]nvml.Device, error) {
	n, r := lib.DeviceGetCount()
	if r != nvml.SUCCESS || n == 0 {
		return nil, &Missing{"NVIDIA's management library is here, but no GPU; see what nvidia-smi says"}
	}
	var devices []nvml.Device
	for i := range n {
		d, r := lib.DeviceGetHandleByIndex(i)
		if r != nvml.SUCCESS {
			return nil, fmt.Errorf("device %d: %s", i, nvml.ErrorString(r))
		}
		x := Device{Index: i}
		x.UUID, _ = d.GetUUID()
		x.Name, _ = d.GetName()
		m.Devices = append(m.Devices, x)
		devices = append(devices, d)
	}
	return devices, nil
}

// read reads a device. What the driver keeps for itself is apart from what is used in the second form of its
// figures, as nvidia-smi shows it, and part of it in the first.
func read(lib nvml.Interface, d nvml.Device, second bool, names map[uint32]string) (Reading, error) {
	out := Reading{Used: -1, Free: -1, Total: -1, Busy: -1}
	r := nvml.ERROR_NOT_SUPPORTED
	if second {
		var m nvml.Memory_v2
		if m, r = d.GetMemoryInfo_v2(); r == nvml.SUCCESS {
			out.Used, out.Free, out.Total = int64(m.Used), int64(m.Free), int64(m.Total)
		}
	}
	if r == nvml.ERROR_NOT_SUPPORTED || r == nvml.ERROR_FUNCTION_NOT_FOUND {
		var m nvml.Memory
		if m, r = d.GetMemoryInfo(); r == nvml.SUCCESS {
			out.Used, out.Free, out.Total = int64(m.Used), int64(m.Free), int64(m.Total)
		}
	}
	if r != nvml.SUCCESS && r != nvml.ERROR_NOT_SUPPORTED {
		return out, fmt.Errorf("%s", nvml.ErrorString(r))
	}
	if u, r := d.GetUtilizationRates(); r == nvml.SUCCESS {
		out.Busy = int(u.Gpu)
	}
	held := map[uint32]int64{}
	compute, _ := d.GetComputeRunningProcesses()
	graphics, _ := d.GetGraphicsRunningProcesses()
	for _, p := range slices.Concat(compute, graphics) {
		used := int64(-1)
		if p.UsedGpuMemory != unknown {
			used = int64(p.UsedGpuMemory)
		}
		if have, ok := held[p.Pid]; !ok || used > have { // one that does both is in both lists
			held[p.Pid] = used
		}
	}
	for pid, used := range held {
		out.Processes = append(out.Processes, Process{PID: int(pid), Name: nameOf(lib, pid, names), Used: used})
	}
	slices.SortFunc(out.Processes, func(a, b Process) int { return cmp.Compare(a.PID, b.PID) })
	return out, nil
}

// nameOf is the name of a process's program, asked for once.
func nameOf(lib nvml.Interface, pid uint32, names map[uint32]string) string {
	name, ok := names[pid]
	if !ok {
		if full, r := lib.SystemGetProcessName(int(pid)); r == nvml.SUCCESS {
			name = path.Base(full)
		}
		names[pid] = name
	}
	return name
}
