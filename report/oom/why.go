package oom

import (
	"fmt"
	"math"

	"github.com/vramscope/vramscope/trace/oomlog"
)

// headline is the answer in one line, without the place.
func headline(m *oomlog.Message, j *Judgement) string {
	wanted := ""
	if m.Requested.Known {
		wanted = amount(m.Requested.Bytes) + " wanted"
	}
	join := func(s string) string {
		if wanted == "" {
			return s
		}
		return s + ": " + wanted
	}
	switch j.Verdict {
	case Genuine:
		if m.Plan.Known {
			return fmt.Sprintf("the program is too large: it needs %s", amount(m.Plan.Bytes)+ofCapacity(m))
		}
		return join("the device is full") + comma(usedShort(m))
	case Fragmentation:
		if m.Cause == oomlog.CauseSummary {
			return "fragmentation: " + amount(m.PeakReserved.Bytes-m.PeakAllocated.Bytes) + " was held beyond anything that was ever in use"
		}
		return join("fragmentation") + comma(unusedShort(m))
	case FragmentationLow:
		return join("the device is nearly full, and a little fragmented") + comma(unusedShort(m))
	case OutsideAllocator:
		if m.Cause == oomlog.CauseStartup {
			return fmt.Sprintf("memory was taken before it started: %s, %s free", wanted, amount(m.Free.Bytes))
		}
		return join("memory outside "+holderOf(m)+"'s allocator") + comma(outsideShort(j))
	case OtherProcess:
		return otherHeadline(m, j, wanted)
	case ImpossibleRequest:
		if m.Requested.Wide > 0 {
			return "impossible request: more than eight exabytes, a corrupt size"
		}
		if m.Cause == oomlog.CauseHuge {
			return "impossible request: more than an exabyte, a corrupt size"
		}
		if m.Capacity.Known {
			return fmt.Sprintf("impossible request: %s, the device has %s", wanted, amount(m.Capacity.Bytes))
		}
		if m.Limit.Known {
			return fmt.Sprintf("impossible request: %s, the limit is %s", wanted, amount(m.Limit.Bytes))
		}
		return fmt.Sprintf("impossible request: %s, more than any device has", wanted)
	case FreeButRefused:
		return fmt.Sprintf("the driver refused although there was room: %s, %s free", wanted, amount(m.Free.Bytes))
	case Limit:
		if m.Limit.Known {
			return fmt.Sprintf("a limit, not the device: %s, the limit is %s", wanted, amount(m.Limit.Bytes))
		}
		return join("a limit, not the device")
	case Inconsistent, InconsistentVMM:
		return join("the message's numbers cannot all be true") + "; no amount in it can be relied on"
	case PoolOrOutside:
		return join("not in use by " + holderOf(m) + ", and not free either")
	case PlatformLimit:
		return join("the platform does not give that much in one piece")
	case HostOOM:
		return join("the host's memory ran out, not the GPU's")
	case Leak:
		return fmt.Sprintf("a leak: %s more in use with every reading, %d in a row", amount(perReading(m)), m.Readings)
	case NonAllocator:
		return holderLibrary(m) + " got no memory, not the framework's allocator"
	}
	return join("out of memory") + "; the message does not say why"
}

// perReading is by how much readings grow on average.
func perReading(m *oomlog.Message) int64 {
	return (m.Allocated.Bytes - m.AtFirst.Bytes) / int64(max(1, m.Readings-1))
}

func otherHeadline(m *oomlog.Message, j *Judgement, wanted string) string {
	switch {
	case m.Cause == oomlog.CauseContext:
		return "the device was full before this process began"
	case m.Cause == oomlog.CauseOrphan && m.Framework == "nvidia":
		return fmt.Sprintf("%s in use by no listed process", amount(m.Process.Bytes))
	case m.Cause == oomlog.CauseOrphan:
		return fmt.Sprintf("out of memory, with %s on the device in use by no listed process", amount(m.Process.Bytes))
	case m.StartFree.Known:
		return fmt.Sprintf("the device was taken before this process began: %s of %s free", amount(m.StartFree.Bytes), amount(m.StartCapacity.Bytes))
	case j.Others.Known && j.Biggest.PID != 0:
		return fmt.Sprintf("another process has the memory: %s, process %d holds %s", wanted, j.Biggest.PID, amount(j.Biggest.Size.Bytes))
	}
	return "another process has the memory: " + wanted
}

func comma(s string) string {
	if s == "" {
		return ""
	}
	return ", " + s
}

func ofCapacity(m *oomlog.Message) string {
	if !m.Capacity.Known {
		return ""
	}
	return " of " + amount(m.Capacity.Bytes)
}

func usedShort(m *oomlog.Message) string {
	switch {
	case m.Allocated.Known && m.Capacity.Known:
		return fmt.Sprintf("%s of %s in use", amount(m.Allocated.Bytes), amount(m.Capacity.Bytes))
	case m.Allocated.Known && m.Free.Known:
		return fmt.Sprintf("%s in use, %s free", amount(m.Allocated.Bytes), amount(m.Free.Bytes))
	case m.Limit.Known:
		return "the pool has " + amount(m.Limit.Bytes)
	}
	return ""
}

func unusedShort(m *oomlog.Message) string {
	if !m.Unallocated.Known {
		return ""
	}
	return fmt.Sprintf("%s held but in pieces", amount(m.Unallocated.Bytes))
}

func outsideShort(j *Judgement) string {
	if !j.Outside.Known {
		return ""
	}
	return amount(j.Outside.Bytes) + " is there"
}

func holderLibrary(m *oomlog.Message) string {
	if m.Framework == "cuda" {
		return m.Format
	}
	if m.Framework == "pytorch" {
		return "a CUDA call"
	}
	return holderOf(m)
}

// why gives the reason of a verdict with its arithmetic, and what cannot be known.
func why(m *oomlog.Message, j *Judgement) string {
	if s := whyCause(m); s != "" {
		return s
	}
	switch j.Rule {
	case RuleImpossible:
		room := m.Capacity
		if !room.Known {
			room = m.Limit
		}
		if room.Known {
			return fmt.Sprintf("%s in one piece is more than all there is, %s. No setting can serve that.", amount(m.Requested.Bytes), amount(room.Bytes))
		}
		return fmt.Sprintf("%s in one piece is more than any single device has. No setting can serve that; the size itself is wrong, or far from what was meant.", amount(m.Requested.Bytes))
	case RuleLimit:
		return whyLimit(m)
	case RuleInferredLimit:
		return fmt.Sprintf("%s is free and %s was refused. This version does not print a memory limit, but PyTorch holds %s and the request crosses %.0f %% of the device: a limit of that fraction is set (set_per_process_memory_fraction). That is inferred, not said.",
			amount(m.Free.Bytes), amount(m.Requested.Bytes), amount(m.Reserved.Bytes), math.Round(j.Share*100))
	case RuleFree:
		return whyFree(m)
	case RuleGenuine:
		return whyGenuine(m)
	case RuleDominated, RuleOutside:
		return whyOutside(m, j)
	case RuleFragmented:
		return whyFragmented(m, j)
	case RuleFull:
		return whyFull(m)
	case RuleMargin:
		if !m.Unallocated.Known {
			return fmt.Sprintf("%s in use and %s free leave no more than a CUDA context and its libraries take: %s was too much.", amount(m.Allocated.Bytes), amount(m.Free.Bytes), amount(m.Requested.Bytes))
		}
		return fmt.Sprintf("%s in use, %s held unused and %s free do not make room for %s, and what is outside (%s) is about what a CUDA context and its libraries take.",
			amount(m.Allocated.Bytes), amount(m.Unallocated.Bytes), amount(m.Free.Bytes), amount(m.Requested.Bytes), amount(j.Outside.Bytes))
	case RulePool:
		return whyPool(m)
	case RuleInconsistent:
		return whyInconsistent(m, j)
	}
	return whyPartial(m)
}

func whyLimit(m *oomlog.Message) string {
	held, holds := m.Reserved, "holds"
	if !held.Known {
		held, holds = m.Allocated, "has in use"
	}
	switch {
	case m.Backend == "mps" && m.Limit.Known:
		s := fmt.Sprintf("%s has %s in use", holderOf(m), amount(m.Allocated.Bytes))
		if m.Elsewhere.Known {
			s += fmt.Sprintf(", and %s more is in other allocations", amount(m.Elsewhere.Bytes))
		}
		return s + fmt.Sprintf("; with %s that passes the high watermark of %s.", amount(m.Requested.Bytes), amount(m.Limit.Bytes))
	case held.Known && m.Limit.Known:
		s := fmt.Sprintf("%s %s %s; with %s that passes the limit of %s that was set for it.", holderOf(m), holds, amount(held.Bytes), amount(m.Requested.Bytes), amount(m.Limit.Bytes))
		if m.Free.Known && m.Free.Bytes > m.Requested.Bytes {
			s += fmt.Sprintf(" The device has %s free.", amount(m.Free.Bytes))
		}
		if m.Unallocated.Known && m.Unallocated.Bytes >= m.Requested.Bytes {
			s += fmt.Sprintf(" Below the limit it is fragmentation: %s of what it holds is not in use, but in pieces.", amount(m.Unallocated.Bytes))
		}
		return s
	case m.Framework == "onnxruntime":
		return fmt.Sprintf("The arena has reached gpu_mem_limit: %s left, %s asked for. The message says nothing about the device.", amount(m.Free.Bytes), amount(m.Requested.Bytes))
	case m.Framework == "vllm" && m.Free.Known:
		return fmt.Sprintf("The share of the device that vLLM may use leaves %s for the KV cache; the longest request needs %s. The driver was not asked.", amount(m.Free.Bytes), amount(m.Requested.Bytes))
	case m.Framework == "vllm" || m.Framework == "sglang":
		return "The share of the device that the engine may use is taken up by weights and activations; too little is left for the KV cache. The driver was not asked."
	}
	return "The pool has reached the maximum that was set for it. The message says nothing about the device."
}

func whyFree(m *oomlog.Message) string {
	if !m.Free.Known {
		return fmt.Sprintf("%s was refused while %s held only %s of %s. The message does not say what was free; such refusals come from a limit on one allocation (driver, WSL).",
			amount(m.Requested.Bytes), holderOf(m), amount(m.Reserved.Bytes), amount(m.Capacity.Bytes))
	}
	s := fmt.Sprintf("%s was refused with %s free. That is not a matter of capacity: the driver limits single allocations or mappings (WSL, Windows, ROCm, integrated GPUs), its address space is in pieces, or the memory was free only for a moment.",
		amount(m.Requested.Bytes), amount(m.Free.Bytes))
	return s
}

func whyGenuine(m *oomlog.Message) string {
	switch {
	case m.Plan.Known && m.Capacity.Known:
		return fmt.Sprintf("The compiled program needs %s; the device has %s.", amount(m.Plan.Bytes), amount(m.Capacity.Bytes))
	case m.Plan.Known:
		return fmt.Sprintf("The compiled program needs %s in all for its arguments, results and temporary buffers. What the message calls fragmentation is waste inside that plan, not the state of the allocator.", amount(m.Plan.Bytes))
	}
	room, name := m.Capacity, "the device has"
	if !room.Known {
		room, name = m.Limit, "the pool may have"
	}
	over := m.Allocated.Bytes + m.Requested.Bytes - room.Bytes
	s := fmt.Sprintf("%s in use and %s wanted make %s; %s %s. It is %s too much even if nothing were lost and nothing else ran.",
		amount(m.Allocated.Bytes), amount(m.Requested.Bytes), amount(m.Allocated.Bytes+m.Requested.Bytes), name, amount(room.Bytes), amount(over))
	if m.Unallocated.Known && m.Capacity.Known && float64(m.Unallocated.Bytes) >= fragmentationShare*float64(m.Capacity.Bytes) {
		s += fmt.Sprintf(" The %s that is held unused looks like fragmentation, but would not have been enough.", amount(m.Unallocated.Bytes))
	}
	return s
}

func whyOutside(m *oomlog.Message, j *Judgement) string {
	switch {
	case m.StartFree.Known && j.Verdict == OtherProcess:
		return fmt.Sprintf("When the program started, only %s of the device's %s was free: others had the rest before it took anything.", amount(m.StartFree.Bytes), amount(m.StartCapacity.Bytes))
	case m.Framework == "paddle":
		return fmt.Sprintf("%s is in use on the device, only %s of it by this process.", amount(m.Process.Bytes), amount(m.Allocated.Bytes))
	case !j.Outside.Known:
		return fmt.Sprintf("The pool may have %s and holds %s; it could have grown by %s, but the driver had nothing to give: other processes or libraries hold the rest.", amount(m.Limit.Bytes), amount(m.Reserved.Bytes), amount(m.Requested.Bytes))
	}
	s := fmt.Sprintf("%s of %s is held by nobody that %s's allocator knows of: %s less %s held by it and %s free.",
		amount(j.Outside.Bytes), amount(m.Capacity.Bytes), holderOf(m), amount(m.Capacity.Bytes), amount(m.Reserved.Bytes), amount(m.Free.Bytes))
	if j.Verdict == OtherProcess {
		return s + fmt.Sprintf(" The message lists other processes with %s.", amount(j.Others.Bytes))
	}
	if own := m.Process.Minus(m.Reserved); own.Known && own.Bytes > 0 {
		return s + fmt.Sprintf(" %s of it is this process's own (CUDA context, NCCL, cuBLAS, CUDA graphs, other libraries).", amount(own.Bytes))
	}
	return s + " It can be the CUDA context, libraries of this process (NCCL, cuBLAS, CUDA graphs) or other processes; the message cannot tell which."
}

func whyFragmented(m *oomlog.Message, j *Judgement) string {
	switch {
	case m.Cause == oomlog.CauseSummary:
		return fmt.Sprintf("At most %s was ever in use, yet %s was held from the driver at the peak: %s was stranded between live blocks when the request failed. The table does not say how much was asked for.",
			amount(m.PeakAllocated.Bytes), amount(m.PeakReserved.Bytes), amount(m.PeakReserved.Bytes-m.PeakAllocated.Bytes))
	case m.Cause == oomlog.CausePool && m.Limit.Known && m.Allocated.Known:
		s := fmt.Sprintf("%s of the pool's %s is in use, so %s is not, and %s was still refused: it is in pieces.", amount(m.Allocated.Bytes), amount(m.Limit.Bytes), amount(m.Limit.Bytes-m.Allocated.Bytes), amount(m.Requested.Bytes))
		if m.LargestFree.Known {
			s += fmt.Sprintf(" The largest free piece is %s.", amount(m.LargestFree.Bytes))
		}
		return s
	case m.Cause == oomlog.CausePool:
		return fmt.Sprintf("%s is free and %s was refused: it is in pieces.", amount(m.Free.Bytes), amount(m.Requested.Bytes))
	}
	sum := m.Free.Bytes + m.Unallocated.Bytes
	s := fmt.Sprintf("%s held unused and %s free make %s, and %s was wanted: it would have fitted in one piece. At a failure PyTorch has already given back every segment with nothing in it, so what is left lies between live blocks.",
		amount(m.Unallocated.Bytes), amount(m.Free.Bytes), amount(sum), amount(m.Requested.Bytes))
	if j.Verdict == FragmentationLow {
		s += fmt.Sprintf(" But it is only %.1f %% of the device: the next larger request will fail all the same.", 100*float64(m.Unallocated.Bytes)/float64(m.Capacity.Bytes))
	}
	return s
}

func whyFull(m *oomlog.Message) string {
	switch {
	case m.Framework == "paddle":
		return fmt.Sprintf("%s is in use on the device and %s free; %s was wanted. The message does not tell this process from others.", amount(m.Allocated.Bytes), amount(m.Free.Bytes), amount(m.Requested.Bytes))
	case m.Cause == oomlog.CausePool && m.Limit.Known:
		return fmt.Sprintf("TensorFlow was given %s, and %s was wanted of it at once.", amount(m.Limit.Bytes), amount(m.Requested.Bytes))
	case m.Cause == oomlog.CausePool:
		return fmt.Sprintf("The pool had reported before that it was short and went on; then the driver refused %s more.", amount(m.Requested.Bytes))
	}
	return fmt.Sprintf("Only %s is held unused, %.1f %% of the device: there is nothing to win from better packing. %s is in use.",
		amount(m.Unallocated.Bytes), 100*float64(m.Unallocated.Bytes)/float64(m.Capacity.Bytes), amount(m.Allocated.Bytes))
}

func whyPool(m *oomlog.Message) string {
	if m.Framework == "rmm" {
		return fmt.Sprintf("The pool holds %s of the %s that it may have, and could not get %s: the driver had nothing to give, or the pool's free memory is in pieces. The message cannot tell.", amount(m.Reserved.Bytes), amount(m.Limit.Bytes), amount(m.Requested.Bytes))
	}
	gap := m.Capacity.Bytes - m.Allocated.Bytes - m.Free.Bytes
	return fmt.Sprintf("%s is in use and %s free; the other %s of %s is either unused in the driver's pool (cudaMallocAsync keeps it) or outside: context, libraries, other processes. The message cannot tell.",
		amount(m.Allocated.Bytes), amount(m.Free.Bytes), amount(gap), amount(m.Capacity.Bytes))
}

func whyInconsistent(m *oomlog.Message, j *Judgement) string {
	switch {
	case m.Free.Known && m.Capacity.Known && m.Free.Low > m.Capacity.High:
		return fmt.Sprintf("%s free on a device of %s: the driver counts the host's memory in one number and not in the other, as integrated GPUs do.", amount(m.Free.Bytes), amount(m.Capacity.Bytes))
	case j.Verdict == InconsistentVMM && m.Process.Known && m.Process.Bytes < m.Reserved.Bytes:
		return fmt.Sprintf("PyTorch counts %s as held, but the driver says that the process has %s: pages were given back beneath the allocator (sleep mode, offloading). What is called unallocated need not be there, so nothing can be said about fragmentation.", amount(m.Reserved.Bytes), amount(m.Process.Bytes))
	case j.Verdict == InconsistentVMM:
		return fmt.Sprintf("PyTorch counts %s as held with %s of %s free: more than there is. Pages were given back beneath the allocator (sleep mode, offloading). What is called unallocated need not be there, so nothing can be said about fragmentation.", amount(m.Reserved.Bytes), freeOr(m), amount(m.Capacity.Bytes))
	case m.Capacity.Known:
		return fmt.Sprintf("%s held and %s free are more than the %s that the device has: Windows lends the host's memory, and integrated GPUs share it.", amount(heldBytes(m)), freeOr(m), amount(m.Capacity.Bytes))
	}
	return "An amount in the message is larger than any device."
}

func heldBytes(m *oomlog.Message) int64 {
	if m.Reserved.Known {
		return m.Reserved.Bytes
	}
	return m.Allocated.Bytes
}

func freeOr(m *oomlog.Message) string {
	if !m.Free.Known {
		return "an unknown part"
	}
	return amount(m.Free.Bytes)
}
