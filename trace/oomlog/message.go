// Package oomlog finds the out-of-memory messages in a log: any log, of any size, from a file or a pipe.
//
// A log is read once, in blocks. A multi-pattern search (needles.go) runs over the raw bytes and stops
// only where a word of an out-of-memory message stands; everything else is skipped at the speed of
// memory. Around a stop the text is flattened (flat.go): colours, HTML entities, quotation marks, line
// breaks, the prefixes that launchers put before continuation lines and all blanks are taken out, so that
// a message reads the same however a terminal, a browser or a chat has mangled it. The parsers, a file
// per family of programs, look only at that flat text, and accept a message only if its grammar is there,
// numbers and all: a program that merely talks about memory yields nothing.
//
// What comes out are Messages: numbers with the interval that their rounding leaves, and no judgement.
// What they mean is the business of package report/oom.
package oomlog

// Cause is what failed, as far as the wording of a message itself tells. It is not a verdict: it says
// which numbers can be expected and which questions make sense.
type Cause uint8

// The causes.
const (
	CauseAllocator Cause = iota // an allocator asked the driver for memory and was refused
	CauseStream                 // cudaMallocAsync was refused: its pool is inside the driver
	CauseMarker                 // an allocator failed; the message is cut or has no numbers
	CauseHuge                   // PyTorch refused a size above 1 EB without asking the driver
	CausePool                   // a framework's own pool (BFC, RMM) could not serve the request
	CausePlan                   // a compiled program's plan does not fit
	CauseBudget                 // a budget that the user set is used up
	CauseStartup                // an engine found less free memory at its start than it was to take
	CauseContext                // the CUDA context could not be made: nothing of this process is on the device yet
	CauseLibrary                // a library beside the framework's allocator (NCCL, cuBLAS, a kernel) was refused
	CausePlatform               // one allocation is above what the platform allows at once
	CauseHost                   // the memory of the host ran out, not the GPU's
	CauseOrphan                 // a table shows memory in use that none of the listed processes holds
	CauseSummary                // a table of PyTorch's counters, with failures counted
	CauseGrowth                 // no failure yet: readings of the memory in use that only ever grow
)

// Process is another process on the device, as a message lists it.
type Process struct {
	PID  int
	Size Size
}

// Hint is the advice that a message itself ends with.
type Hint uint8

// The hints that PyTorch prints.
const (
	HintNone Hint = iota
	HintMaxSplit
	HintExpandable
	HintEmptyCache
)

// Message is one out-of-memory message. Sizes that the text does not give are not Known.
type Message struct {
	Line      int    // of the first copy, from 1
	Offset    int64  // of the first copy, in bytes from the start of the log
	Framework string // "pytorch", "tensorflow", "jax", …
	Format    string // the shape of the message, such as "PyTorch 2.2+"
	Backend   string // "cuda", "hip", "xpu", "npu", "mps"; "" where it is not said
	Cause     Cause
	Device    int // ordinal, -1 where the message does not tell

	Requested    Size // what was asked for; PyTorch prints the segment it wanted, not the tensor
	Capacity     Size // what the device has
	Allocated    Size // in use by the framework, rounded blocks; with PrivatePools inside it
	Reserved     Size // held by the framework: Allocated + Unallocated
	Unallocated  Size // held by the framework but not in use
	Free         Size // what the driver says is free
	Process      Size // what the driver says this process holds (in a table: all processes)
	Limit        Size // what the process or the pool may hold
	PrivatePools Size // free memory in private pools, part of Allocated
	Elsewhere    Size // memory that the message itself places outside the allocator (MPS)
	LargestFree  Size // the largest free chunk of a pool
	Plan         Size // what a compiled program needs in all (XLA)

	PeakAllocated, PeakReserved Size // the most there ever was (memory_summary)
	AtFirst                     Size // the first of the readings, of which Allocated is the last (CauseGrowth)
	Readings                    int  // how many

	Others []Process

	// What the device had when the program started (TensorFlow 1), before it took anything.
	StartCapacity, StartFree Size

	Hint        Hint
	HidesLimit  bool // this version does not print a limit even if one is set
	SoftBefore  bool // the allocator had reported before that it was short, and went on
	Windows     bool // paths around it are Windows paths
	Ranks       []int
	Repeated    int    // how many copies the log has
	PartialDump bool   // numbers come from a dump that is cut
	Text        string // the beginning of the message, on one line
}

// known counts the sizes that the message gives.
func (m *Message) known() int {
	n := 0
	for _, s := range m.sizes() {
		if s.Known {
			n++
		}
	}
	return n
}

// sizes lists the sizes that tell one message from another.
func (m *Message) sizes() [12]Size {
	return [12]Size{
		m.Requested, m.Capacity, m.Allocated, m.Reserved, m.Unallocated, m.Free,
		m.Process, m.Limit, m.PrivatePools, m.Elsewhere, m.LargestFree, m.Plan,
	}
}
