package oom

import (
	"fmt"

	"github.com/vramscope/vramscope/trace/oomlog"
)

// amount prints bytes with a binary unit, as PyTorch does.
func amount(n int64) string {
	switch sign := ""; {
	case n < 0:
		sign = "-"
		return sign + amount(-n)
	case n == 1:
		return "1 byte"
	case n < 1<<10:
		return fmt.Sprintf("%d bytes", n)
	case n < 1<<20:
		return fmt.Sprintf("%.2f KiB", float64(n)/(1<<10))
	case n < 1<<30:
		return fmt.Sprintf("%.2f MiB", float64(n)/(1<<20))
	case n < 1<<50:
		return fmt.Sprintf("%.2f GiB", float64(n)/(1<<30))
	}
	return fmt.Sprintf("%.0f TiB", float64(n)/(1<<40))
}

// Row is a line of the subtraction: what there is, less what is taken, makes what is left.
type Row struct {
	Sign   string // "", "-" or "="
	Amount string
	What   string
}

// subtraction shows where the device's memory is, as far as the message tells, and ends with the request.
func subtraction(m *oomlog.Message, j *Judgement) []Row {
	var rows []Row
	add := func(sign string, s oomlog.Size, what string) {
		if s.Known {
			rows = append(rows, Row{sign, amount(s.Bytes), what})
		}
	}
	if m.Cause == oomlog.CauseHost || m.Cause == oomlog.CauseOrphan {
		add("", m.Capacity, "the device has")
		add("-", m.Process, "is in use on it, by anyone")
		add("", m.Requested, "was asked for")
		return rows
	}
	holder := holderOf(m)
	total := m.Capacity
	if total.Known {
		add("", total, "the device has")
	} else {
		add("", m.Limit, limitName(m))
		total = m.Limit
	}
	less := "-"
	if !total.Known {
		less = "" // nothing to subtract from
	}
	add(less, m.Allocated, "in use by "+holder)
	add(less, m.Elsewhere, "other allocations on the device")
	add(less, m.Unallocated, "held by "+holder+", not in use")
	add(less, m.Free, "free, says "+freeSource(m))
	add("", m.StartCapacity, "the device has")
	add("", m.StartFree, "was free when the program started")
	add("", m.PeakReserved, "held at the peak")
	add("", m.PeakAllocated, "in use at the peak")
	if j.Outside.Known {
		add("=", oomlog.Exact(j.Outside.Bytes), "outside "+holder+"'s allocator")
		rows = append(rows, outsideParts(m, j)...)
	} else if m.Cause == oomlog.CauseStream && total.Known && m.Allocated.Known && m.Free.Known {
		add("=", oomlog.Exact(total.Bytes-m.Allocated.Bytes-m.Free.Bytes), "in the driver's pool or outside PyTorch")
	}
	add("", m.Plan, "the compiled program needs in all")
	add("", m.Requested, "was asked for")
	if m.Capacity.Known && m.Limit.Known {
		add("", m.Limit, limitName(m))
	}
	return rows
}

// outsideParts splits what is outside, as far as the message lists processes.
func outsideParts(m *oomlog.Message, j *Judgement) []Row {
	var rows []Row
	if own := m.Process.Minus(m.Reserved); own.Known && own.Bytes > 0 {
		rows = append(rows, Row{"", amount(own.Bytes), "  of it this process's own: context, libraries"})
	}
	for i, o := range m.Others {
		if o.PID == j.SelfPID {
			rows = append(rows, Row{"", amount(o.Size.Bytes), fmt.Sprintf("process %d in all, most likely this one under its number outside the container", o.PID)})
			continue
		}
		if i == 8 {
			rows = append(rows, Row{"", "…", fmt.Sprintf("and %d more processes", len(m.Others)-i)})
			break
		}
		rows = append(rows, Row{"", amount(o.Size.Bytes), fmt.Sprintf("  of it process %d", o.PID)})
	}
	return rows
}

func limitName(m *oomlog.Message) string {
	switch {
	case m.Framework == "tensorflow" || m.Framework == "jax" || m.Framework == "xla":
		return "the pool may have"
	case m.Backend == "mps":
		return "is the high watermark for this process"
	case m.Framework == "pytorch":
		return "is the limit set for this process"
	}
	return "is the limit that was set"
}

func freeSource(m *oomlog.Message) string {
	switch m.Cause {
	case oomlog.CauseBudget:
		return "the program"
	case oomlog.CausePool:
		return "the pool"
	}
	return "the driver"
}

// names of the programs as people write them.
var names = map[string]string{
	"pytorch": "PyTorch", "tensorflow": "TensorFlow", "jax": "JAX", "xla": "XLA", "cupy": "CuPy", "paddle": "Paddle", "rmm": "RMM",
	"onnxruntime": "ONNX Runtime", "ggml": "ggml", "tensorrt": "TensorRT", "nccl": "NCCL", "vllm": "vLLM", "sglang": "SGLang",
	"mxnet": "MXNet", "tgi": "the server", "mlx": "MLX", "cuda.jl": "CUDA.jl", "directml": "DirectML", "level-zero": "the program", "cuda": "the program", "nvidia": "the driver", "host": "the program",
}

// holderOf names whose allocator a message is about.
func holderOf(m *oomlog.Message) string {
	if n, ok := names[m.Framework]; ok {
		return n
	}
	return "the program"
}
