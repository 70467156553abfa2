package oom

import (
	"fmt"
	"strings"

	"github.com/vramscope/vramscope/trace/oomlog"
)

// remedies says what to do, the most promising first. It depends on the verdict, and never repeats the
// advice at the end of a message where that does not apply; it says so instead.
func remedies(m *oomlog.Message, j *Judgement) []string {
	switch j.Verdict {
	case Genuine:
		return genuineRemedies(m, j)
	case Fragmentation, FragmentationLow:
		return fragmentationRemedies(m, j)
	case OutsideAllocator:
		return outsideRemedies(m, j)
	case OtherProcess:
		return otherRemedies(m, j)
	case ImpossibleRequest:
		return impossibleRemedies(m)
	case FreeButRefused:
		return refusedRemedies(m)
	case Limit:
		return limitRemedies(m)
	case Inconsistent, InconsistentVMM:
		return inconsistentRemedies(m, j)
	case PoolOrOutside:
		return poolRemedies(m)
	case PlatformLimit:
		return platformRemedies(m)
	case HostOOM:
		return hostRemedies(m)
	case NonAllocator:
		return libraryRemedies(m)
	case Leak:
		return []string{
			"Look for what a step keeps: losses kept as tensors instead of numbers (.item()), outputs in lists, graphs retained, hooks, caches keyed by shape.",
			"Record two steps, late in the run, and compare: the same stack with more blocks is the one (vramscope diff).",
		}
	}
	return partialRemedies(m)
}

func genuineRemedies(m *oomlog.Message, j *Judgement) []string {
	var do []string
	switch {
	case m.Plan.Known:
		do = append(do, "Make the program smaller: a smaller batch, rematerialisation (jax.checkpoint), donated arguments (donate_argnums), sharding over more devices.")
	case m.Cause == oomlog.CausePool && m.Limit.Known && m.Limit.Bytes < gib:
		do = append(do, fmt.Sprintf("TensorFlow got only %s at its start: see with nvidia-smi what held the rest then, and end it.", amount(m.Limit.Bytes)))
	}
	if m.Framework == "pytorch" || len(do) == 0 {
		do = append(do, "Use less at once: a smaller batch or shorter sequences, activation checkpointing, lower precision, optimizer state sharded or offloaded.")
	}
	if over := m.Allocated.Plus(m.Requested).Minus(m.Capacity); over.Known && over.Bytes > 0 {
		do = append(do, fmt.Sprintf("Or a device with more memory: this request needed at least %s more than there is.", amount(over.Bytes)))
	}
	return append(do, hintRemark(m)...)
}

// hintRemark contradicts the advice that the message itself ends with.
func hintRemark(m *oomlog.Message) []string {
	if m.Hint != oomlog.HintExpandable && m.Hint != oomlog.HintMaxSplit || !m.Unallocated.Known {
		return nil
	}
	if m.Unallocated.Bytes+m.Free.Bytes < m.Requested.Bytes {
		return []string{fmt.Sprintf("The advice at the end of the message does not apply: it is about fragmentation, and the %s held unused would not have been enough.", amount(m.Unallocated.Bytes))}
	}
	return []string{fmt.Sprintf("The advice at the end of the message is about fragmentation; all it could win are the %s held unused.", amount(m.Unallocated.Bytes))}
}

// confName is the environment variable that a build reads.
func confName(m *oomlog.Message) string {
	if m.Backend == "hip" {
		return "PYTORCH_HIP_ALLOC_CONF"
	}
	if m.Backend == "npu" {
		return "PYTORCH_NPU_ALLOC_CONF"
	}
	return "PYTORCH_CUDA_ALLOC_CONF"
}

func fragmentationRemedies(m *oomlog.Message, j *Judgement) []string {
	if m.Framework != "pytorch" {
		return []string{
			"TensorFlow: TF_GPU_ALLOCATOR=cuda_malloc_async lets the driver pack, or let the pool take all at the start (no allow_growth), so that it is one region.",
			"JAX: XLA_PYTHON_CLIENT_MEM_FRACTION higher, or arrays of fewer different shapes.",
		}
	}
	var do []string
	switch {
	case m.Backend == "xpu":
		do = append(do, "Allocate what lives long first, and pad lengths to a few sizes, so that freed pieces fit again.")
	case m.Format == "PyTorch 1.0-1.3" || m.Format == "PyTorch 1.4-1.9":
		do = append(do, "Use a newer PyTorch if you can: this one has no setting against fragmentation (max_split_size_mb came with 1.10, expandable_segments with 2.1).")
	case m.Hint == oomlog.HintMaxSplit || m.Format == "PyTorch 1.10-2.0" || m.Backend == "npu":
		do = append(do, fmt.Sprintf("Set %s=max_split_size_mb:N before torch is imported. Blocks above N MiB are then not cut up. Start with 512, then lower; small values cost time. With PyTorch 2.1 or later expandable_segments:True is better.", confName(m)))
	default:
		do = append(do, fmt.Sprintf("Set %s=expandable_segments:True before torch is imported: segments then grow instead of lying side by side. Not on WSL, and not where memory is shared by IPC or a custom all-reduce.", confName(m)),
			"If that is on already, it cannot help twice: allocate what lives long first, and pad lengths to a few sizes.")
	}
	if j.Verdict == FragmentationLow {
		do = append(do, "Better packing wins little here; a smaller batch or activation checkpointing is the lasting cure.")
	}
	return append(do, "torch.cuda.empty_cache() where it fails does nothing: PyTorch had done that already. Between phases of different shapes it can help.")
}

func outsideRemedies(m *oomlog.Message, j *Judgement) []string {
	switch m.Cause {
	case oomlog.CauseStartup:
		return []string{
			"See with nvidia-smi what is on the device, and end it: often an engine that was stopped and still runs.",
			fmt.Sprintf("Or let vLLM take less: --gpu-memory-utilization %.2f fits into what was free.", floorShare(m)),
		}
	case oomlog.CausePool:
		return []string{"See with nvidia-smi what else is on the device: other processes, or libraries of this one."}
	}
	do := []string{"See with nvidia-smi who has it: other processes on this device, or this one with much more than PyTorch reserved."}
	if own := m.Process.Minus(m.Reserved); own.Known && own.Bytes >= outsideBytes {
		do = append(do, "This process's own part is large: fewer NCCL communicators, CUDA graphs captured once, other libraries (TensorFlow, CuPy, ONNX Runtime) kept from preallocating.")
	} else {
		do = append(do, "If it is this process: NCCL buffers, CUDA graphs, cuBLAS workspaces and other libraries take memory that PyTorch does not count.")
	}
	return append(do, hintRemark(m)...)
}

func floorShare(m *oomlog.Message) float64 {
	if m.Capacity.Bytes == 0 {
		return 0
	}
	return float64(int64(100*float64(m.Free.Low)/float64(m.Capacity.High))) / 100
}

func otherRemedies(m *oomlog.Message, j *Judgement) []string {
	switch m.Cause {
	case oomlog.CauseOrphan:
		return []string{
			"Find it: fuser -v /dev/nvidia*, or ps on the host if this is a container, and end it. Nothing listed there: reset the device when nobody uses it, or restart the machine.",
		}
	case oomlog.CauseContext:
		return []string{"See with nvidia-smi what runs there; end it, or choose another device (CUDA_VISIBLE_DEVICES)."}
	}
	do := []string{"End it, wait for it, or choose another device (CUDA_VISIBLE_DEVICES)."}
	if j.Biggest.PID != 0 {
		do = []string{fmt.Sprintf("See what process %d is (ps -fp %d); end it, wait for it, or choose another device (CUDA_VISIBLE_DEVICES). In a container the number is the host's.", j.Biggest.PID, j.Biggest.PID)}
	}
	return append(do, hintRemark(m)...)
}

func impossibleRemedies(m *oomlog.Message) []string {
	if m.Cause == oomlog.CauseHuge {
		return []string{"Look for the first error before this one, on all ranks; check sizes that come out of collectives, files and indices."}
	}
	do := []string{"Look at the line of code that asks for it: a wrong shape, an unintended broadcast or outer product, a full attention matrix, a length that was never cut."}
	switch m.Framework {
	case "tensorrt":
		do = []string{"Build the engine for smaller maximum shapes or batches, or with less workspace (memory pool limit)."}
	case "ggml":
		do = []string{"Lower the context length or the batch (-c, -ub), or use flash attention (-fa): the buffer grows with their product."}
	}
	if m.Capacity.Known && m.Requested.Bytes < 2*m.Capacity.Bytes {
		do = append(do, "If the size is right: compute it in parts, or shard it over devices.")
	}
	return append(do, hintRemark(m)...)
}

func refusedRemedies(m *oomlog.Message) []string {
	var do []string
	switch m.Backend {
	case "hip":
		do = append(do, "Look in dmesg for amdgpu messages; check the GTT and VRAM limits of the kernel, and HSA and IPC limits (ulimit -l, ulimit -v, the container's memory limit).")
	case "xpu":
		do = append(do, "Split the allocation: many Intel drivers limit a single one (UR_L0_ENABLE_RELAXED_ALLOCATION_LIMITS=1 lifts it on some).")
	default:
		do = append(do, "Try again with the expandable_segments setting the other way round: it decides whether the driver is asked for one piece or for pages.",
			"On Windows and WSL look at the page file and the host's memory, which back the GPU's; in a container at its memory and locked-memory limits.")
	}
	return append(do, "If it passes when run again: another process had the memory for a moment. Log nvidia-smi along with the run.")
}

func limitRemedies(m *oomlog.Message) []string {
	switch m.Framework {
	case "vllm":
		return []string{"Raise --gpu-memory-utilization if the device has room, or lower --max-model-len or --max-num-seqs.", "Or quantise the weights or the KV cache, or use more devices (--tensor-parallel-size)."}
	case "sglang":
		return []string{"Raise --mem-fraction-static: it counts the weights too. If it then fails while running, lower --chunked-prefill-size or --cuda-graph-max-bs instead."}
	case "onnxruntime":
		return []string{"Raise gpu_mem_limit of the CUDA provider, or set arena_extend_strategy to kSameAsRequested: doubling wastes up to half of the limit."}
	case "cupy":
		return []string{"Raise the pool's limit (set_limit, CUPY_GPU_MEMORY_LIMIT), or free cached blocks (get_default_memory_pool().free_all_blocks())."}
	case "rmm":
		return []string{"Raise the pool's maximum size, or make its initial size the maximum: a pool that grows in steps cannot use its last step.", "Or spill to the host, or use smaller partitions."}
	}
	if m.Backend == "mps" {
		return []string{
			"Use less at once: a smaller batch, lower precision; and close other programs that use the GPU.",
			"PYTORCH_MPS_HIGH_WATERMARK_RATIO raises the mark. 0.0 lifts it, and the system may then swap or stop.",
		}
	}
	do := []string{"Raise or remove the limit: torch.cuda.set_per_process_memory_fraction, or per_process_memory_fraction in the allocator's settings. A test or a library may have set it."}
	if m.Unallocated.Known && m.Unallocated.Bytes >= m.Requested.Bytes {
		do = append(do, fmt.Sprintf("Or keep the limit and pack better: %s=expandable_segments:True before torch is imported.", confName(m)))
	}
	return do
}

func inconsistentRemedies(m *oomlog.Message, j *Judgement) []string {
	switch {
	case j.Verdict == InconsistentVMM:
		return []string{
			"Look at nvidia-smi instead of the message: only the driver knows what is really there.",
			"If an engine in this process sleeps or offloads (vLLM's sleep mode), check that it woke up as a whole, and that weights and KV cache fit beside what the trainer holds.",
		}
	case m.Backend == "hip" || m.Free.Known && m.Free.Low > m.Capacity.High:
		return []string{"On an integrated GPU set the share of memory that it may use in the firmware or the kernel (GTT), and count the host's memory too."}
	}
	return []string{"On Windows switch off the fallback to system memory for this program (NVIDIA control panel) to see what really fits; then treat it as a full device."}
}

func poolRemedies(m *oomlog.Message) []string {
	if m.Framework == "rmm" {
		return []string{"Make the pool's initial size its maximum, so that it is one piece, and see with nvidia-smi what else is on the device."}
	}
	if m.Framework != "pytorch" {
		return []string{
			"See with nvidia-smi how much this process has in all: much more than is in use means that the pool keeps it, else it is elsewhere.",
			"Run it once without the driver's pool (unset TF_GPU_ALLOCATOR or XLA_PYTHON_CLIENT_ALLOCATOR): the BFC allocator's dump tells the two apart.",
		}
	}
	return []string{
		"See with nvidia-smi how much this process has in all: much more than is in use means that the pool keeps it, else it is elsewhere.",
		"Run it once on PyTorch's own allocator (PYTORCH_CUDA_ALLOC_CONF=backend:native): its message tells the two apart.",
	}
}

func platformRemedies(m *oomlog.Message) []string {
	switch {
	case strings.Contains(m.Format, "Jetson"):
		return []string{
			"Give the host's cache back before the program starts: sync; echo 3 > /proc/sys/vm/drop_caches. Switch off the desktop; add swap for the rest of the system.",
		}
	case m.Backend == "xpu":
		return []string{"Split tensors so that no single one is above 4 GiB: smaller batches or sequences.", "On WSL give the virtual machine more memory (.wslconfig) and update the driver."}
	}
	return []string{"Split the allocation into several: a smaller batch, shorter sequences, sliced attention."}
}

func hostRemedies(m *oomlog.Message) []string {
	switch m.Format {
	case "TensorFlow pinned memory", "PyTorch CUDA error while pinning memory", "PyTorch up to 0.4 (THC)":
		return []string{"Fewer or smaller pinned buffers: pin_memory=False, fewer workers, a smaller prefetch; check ulimit -l and the container's memory limit."}
	}
	return []string{"Look at the host: free -g, dmesg, the container's or the job's memory limit. Fewer data-loader workers, weights loaded in shards (low_cpu_mem_usage), less offloading to the host."}
}

func libraryRemedies(m *oomlog.Message) []string {
	do := []string{"Leave room: cap PyTorch with torch.cuda.set_per_process_memory_fraction(0.9), or the engine's share of the device, so that libraries find some."}
	if m.Framework == "nccl" {
		return append(do, "Make NCCL's buffers smaller: NCCL_BUFFSIZE, NCCL_MAX_NCHANNELS, fewer process groups; create the communicators (one small collective) before the memory is filled.")
	}
	return append(do, "Call the library once early (a small matrix product or convolution), so that it has its workspace before the memory is filled.")
}

func partialRemedies(m *oomlog.Message) []string {
	switch {
	case m.Format == "PyTorch, NVML assertion":
		return []string{"Treat it as out of memory: look at the slice's size (nvidia-smi -L) and at torch.cuda.memory_summary() before the failing step."}
	case m.Cause == oomlog.CausePool || m.Cause == oomlog.CausePlan:
		return []string{
			"Look further up in the log for how much memory the pool was given, and with nvidia-smi for other processes.",
			"JAX: jax.profiler.save_device_memory_profile(\"memory.prof\") before the failing step shows who holds what; TensorFlow: the dump after the message does.",
		}
	case m.Framework == "ggml":
		return []string{"Compare the size with what nvidia-smi shows as free; put fewer layers on the device (-ngl), or shorten the context (-c)."}
	case m.Format == "PyTorch cudaMallocAsync":
		return []string{"Look for the whole message: it goes on with \"Currently allocated\" and five more lines, which some programs drop."}
	case m.Framework == "pytorch":
		return []string{"Look for the whole message: the log of the rank itself, not the launcher's summary. It begins with \"Tried to allocate\"."}
	}
	return []string{"Compare the request with what nvidia-smi shows as free on the device while the program runs."}
}
