package oom

import (
	"fmt"

	"github.com/vramscope/vramscope/trace/oomlog"
)

// whyCause explains the messages whose wording alone settles what failed; "" for the others.
func whyCause(m *oomlog.Message) string {
	switch m.Cause {
	case oomlog.CauseHuge:
		return "The size is larger than an exabyte: it is corrupt, not large. It was read from a buffer that a failed collective, a wrong index or a negative length left behind; the cause is before this message."
	case oomlog.CauseHost:
		return whyHost(m)
	case oomlog.CauseContext:
		return "The CUDA context itself could not be made, before this process had anything on the device. Other processes hold it."
	case oomlog.CauseOrphan:
		return fmt.Sprintf("%s of %s is in use and the listed processes do not account for it: a process that has died without letting go, one in another container, or one that this user may not see.", amount(m.Process.Bytes), amount(m.Capacity.Bytes))
	case oomlog.CauseStartup:
		return fmt.Sprintf("vLLM was to take %s of %s, and only %s was free when it started: %s was in use before, by something else (a desktop, another engine, one that has not ended).",
			amount(m.Requested.Bytes), amount(m.Capacity.Bytes), amount(m.Free.Bytes), amount(m.Capacity.Bytes-m.Free.Bytes))
	case oomlog.CauseGrowth:
		return fmt.Sprintf("From %s to %s in %d readings, every one larger than the one before and by about as much: %s each. Warming up ends after a few steps; this does not. Nothing has failed yet in this log.",
			amount(m.AtFirst.Bytes), amount(m.Allocated.Bytes), m.Readings, amount(perReading(m)))
	case oomlog.CauseLibrary:
		return whyLibrary(m)
	case oomlog.CausePlatform:
		return whyPlatform(m)
	}
	return ""
}

func whyHost(m *oomlog.Message) string {
	switch m.Format {
	case "Linux out-of-memory killer", "Kubernetes", "Ray memory monitor":
		return "The operating system or the scheduler ended a process because the host's memory ran out. The GPU has nothing to do with it."
	case "TensorFlow pinned memory", "PyTorch CUDA error while pinning memory":
		return "Page-locked memory of the host was asked for and refused. The GPU's memory has nothing to do with it."
	}
	if m.Requested.Known {
		return fmt.Sprintf("%s of the host's memory was asked for and refused. The GPU's memory has nothing to do with it.", amount(m.Requested.Bytes))
	}
	return "The host's memory ran out. The GPU's memory has nothing to do with it."
}

func whyLibrary(m *oomlog.Message) string {
	size := ""
	if m.Requested.Known {
		size = "(" + amount(m.Requested.Bytes) + ") "
	}
	switch m.Framework {
	case "nccl":
		return "NCCL takes its buffers " + size + "straight from the driver, and there was nothing left: a framework's allocator holds all it could get, used or not, and gives nothing back for NCCL."
	case "pytorch":
		return "A CUDA call beside PyTorch's allocator was refused memory: loading a kernel, a library's workspace, a graph. PyTorch's own allocator says \"Tried to allocate\" when it fails. The message has no numbers."
	}
	return m.Format + " takes its handle and workspace straight from the driver, and there was nothing left. The message has no numbers."
}

func whyPlatform(m *oomlog.Message) string {
	switch m.Format {
	case "PyTorch XPU, 4 GB blocks":
		return fmt.Sprintf("%s in one block; this GPU addresses at most 4 GiB in one, whatever is free.", amount(m.Requested.Bytes))
	case "PyTorch MPS, buffer size":
		return fmt.Sprintf("%s in one buffer; Metal refuses buffers above a fixed size, whatever is free.", amount(m.Requested.Bytes))
	case "Jetson NvMap", "PyTorch on Jetson, NVML assertion":
		return "On a Jetson the GPU shares the host's memory, and the kernel could not find free pages: memory that Linux uses to cache files is not given up for the GPU."
	}
	if m.Requested.Known {
		return fmt.Sprintf("%s in one allocation is above what the device's driver allows at once, whatever is free.", amount(m.Requested.Bytes))
	}
	return "The platform refused the allocation for a reason of its own."
}

// whyPartial says what a message lacks.
func whyPartial(m *oomlog.Message) string {
	switch {
	case m.Cause == oomlog.CauseSummary:
		return "The table counts a failure, but not what was asked for, and what it shows may be of later. Nearly all that was held at the peak was in use."
	case m.Format == "PyTorch, NVML assertion":
		return "PyTorch had run out of memory and wanted to say how much there is, but NVML did not answer, as on a MIG slice; the assertion took the message's place. How much was asked for is lost."
	case m.Format == "TensorFlow BFC dump":
		s := "A dump of TensorFlow's pool without the message before it: how much was asked for is not here."
		if m.PartialDump {
			s += " The dump is cut, so its sums mean nothing."
		}
		return s
	case m.Cause == oomlog.CausePlan:
		return fmt.Sprintf("The compiled program needs only %s in all. The pool is full of other arrays, or another process has the device; the message cannot tell.", amount(m.Plan.Bytes))
	case m.Framework == "cupy":
		return fmt.Sprintf("CuPy has %s in use and wanted %s. The message does not say what the device has or what is free, so whether it was full, in pieces or shared cannot be told.", amount(m.Allocated.Bytes), amount(m.Requested.Bytes))
	case m.Requested.Known && m.Format == "PyTorch, cut":
		return "The message is cut after the amount: it has neither the capacity nor what was in use."
	case m.Requested.Known:
		return fmt.Sprintf("%s was refused. The message does not say what the device has, what was in use and what was free, so the reason cannot be told.", amount(m.Requested.Bytes))
	}
	return "The message has no numbers, so the reason cannot be told."
}
