package oom

import (
	"fmt"
	"strings"

	"github.com/vramscope/vramscope/trace/oomlog"
)

// Finding is a message with what it means.
type Finding struct {
	Message   oomlog.Message
	Judgement Judgement
	Headline  string // the answer in one line
	Why       string
	Do        []string
	Rows      []Row    // the subtraction
	Adds      string   // what a recording would tell beyond the message; "" where none can be made
	Record    []string // the lines that make one
}

// Explain judges a message and puts it into words.
func Explain(m oomlog.Message) Finding {
	j := Judge(&m)
	f := Finding{Message: m, Judgement: j, Headline: place(&m) + headline(&m, &j), Why: why(&m, &j), Do: remedies(&m, &j), Rows: subtraction(&m, &j)}
	if m.PrivatePools.Known && m.PrivatePools.Bytes > 0 && m.Allocated.Known {
		f.Why += fmt.Sprintf(" %s of what is called allocated is free memory in private pools (CUDA graphs): live are %s.", amount(m.PrivatePools.Bytes), amount(m.Allocated.Bytes-m.PrivatePools.Bytes))
	}
	if j.SelfPID != 0 {
		f.Why += fmt.Sprintf(" Process %d in the message is most likely this process itself, under its number outside the container.", j.SelfPID)
	}
	f.Adds, f.Record = recording(&m, &j)
	return f
}

func place(m *oomlog.Message) string {
	if m.Device < 0 || m.Cause == oomlog.CauseHost {
		return ""
	}
	name := "GPU"
	switch m.Backend {
	case "npu", "mlu", "hpu":
		name = "NPU"
	case "xpu":
		name = "XPU"
	}
	return fmt.Sprintf("%s %d: ", name, m.Device)
}

// recording says what a snapshot would add to a message of PyTorch on CUDA or ROCm, and how to get one.
func recording(m *oomlog.Message, j *Judgement) (adds string, lines []string) {
	if m.Framework != "pytorch" || m.Backend != "cuda" && m.Backend != "hip" || m.Format == "PyTorch cudaMallocAsync" || m.Format == "PyTorch up to 0.4 (THC)" {
		return "", nil
	}
	switch m.Cause {
	case oomlog.CauseHost, oomlog.CauseHuge, oomlog.CauseContext, oomlog.CauseOrphan, oomlog.CausePlatform:
		return "", nil
	}
	switch j.Verdict {
	case ImpossibleRequest:
		adds = "the line of code that asked for it"
	case Fragmentation, FragmentationLow:
		adds = "which live blocks hold the pieces apart, by line of code, and whether another setting would have finished (replayed)"
	case OutsideAllocator, OtherProcess, FreeButRefused, NonAllocator, Inconsistent, InconsistentVMM:
		adds = "what PyTorch itself held by line of code; it does not see memory outside its allocator"
	default:
		adds = "who holds the memory at that moment, by line of code, whether it grows from step to step, and what would have made it fit (replayed)"
	}
	if strings.HasPrefix(m.Format, "PyTorch 1.") {
		adds += " (from PyTorch 2.1 on)"
	}
	return adds, []string{
		"import torch",
		"torch.cuda.memory._record_memory_history(max_entries=1_000_000)",
		`torch._C._cuda_attach_out_of_memory_observer(lambda *_: torch.cuda.memory._dump_snapshot("oom.pickle"))`,
	}
}
