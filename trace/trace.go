package trace

// Trace is everything that one file says. It is immutable once read.
type Trace struct {
	Source   Source
	Devices  []Device // those that have events or segments, by Index
	Stacks   *Stacks
	Markers  []Marker // in the order of the file
	Settings Settings
	Warnings []Warning // about the file as a whole; a device has its own

	// Beside is memory that is not a device's, or not surely, or that nobody allocates: pinned host memory,
	// managed memory that may be on either side, static variables of modules. An entry is one kind, with its
	// name in Name and Index -1. No total of a device counts it.
	Beside []Device
}

// Source says where a trace comes from and how far it can be trusted.
type Source struct {
	Format   string // "PyTorch snapshot", …
	Producer string // program and version as far as the file tells, "torch 2.10+", …
	Bytes    int64  // size of the unpacked input
	Clock    Clock
	Cut      bool    // the file ends in the middle; what came before is used
	Rank     *int    // of the process in its job, nil if the file does not tell
	Counts   []Count // what the file has, in its own terms
	Lacks    []Lack  // what a file of this kind cannot tell
}

// Count is how many records of a kind a file has.
type Count struct {
	What string // "memory events", …
	N    int
}

// Lack is something that a kind of file cannot tell.
type Lack struct {
	What    string // "who held the memory"
	Instead string // the recording that has it, and the exact command or lines of code that make one
}

// Clock says what times count from.
type Clock uint8

// The kinds of clock.
const (
	ClockEpoch     Clock = iota // the Unix epoch
	ClockRecording              // the start of the recording, whenever that was
	ClockDay                    // midnight of a day that the file does not name, in a zone that it does not name
	ClockLocal                  // the Unix epoch, read off a wall clock in a zone that the file does not name
	ClockNone                   // nothing: the file has no times
)

// String is the name that programs know the clock by.
func (c Clock) String() string {
	if int(c) < len(clockNames) {
		return clockNames[c]
	}
	return "unknown"
}

var clockNames = [...]string{"epoch", "recording", "day", "local", "none"}

// Content says what a device's events are, and so what can be concluded from them.
type Content uint8

// The kinds of content.
const (
	// Decisions: what a program asked of PyTorch's caching allocator, and all that the allocator did with it.
	Decisions Content = iota
	// Requests: what a program asked of some allocator, or of the driver, and gave back. Sizes are as asked,
	// or rounded already; the source says.
	Requests
	// Instant: only what existed at one moment, and no events but the failure that it was written for.
	Instant
	// Samples: no events, only series of totals.
	Samples
)

// Device is one GPU's part of a trace.
type Device struct {
	Content   Content
	Rounded   bool     // sizes of requests are what the allocator made of them, not what was asked
	Index     int      // the ordinal that the recording program used
	Name      string   // "NVIDIA H200", "" if the file does not tell
	UUID      string   // "GPU-…", "" if the file does not tell
	Events    Events   // in the order in which the allocator did them
	Streams   []uint64 // handles in ascending order; StreamID indexes it
	Pools     []Pool   // PoolID indexes it; 0 is the default pool
	PoolInfo  []PoolInfo
	Missing   Missing  // events that the file lacks, and that were put in
	NumBlocks int      // block ids are below this
	Initial   State    // what existed before the first event
	Final     State    // what existed when the file was written
	HasFinal  bool     // whether the file has the final state
	Capacity  int64    // bytes that the device has, 0 if the file does not tell
	Series    []Series // what was sampled, where there are samples
	Overflow  bool     // the file says that its ring buffer overflowed
	Warnings  []Warning
}

// Missing counts the frees that are among a device's events although the file does not have them: they must
// have been, since something else was at their place later.
type Missing struct {
	Frees       int // requested and completed at once
	Completions int // of frees that the file has
}

// Recorded is how many events the file has.
func (d *Device) Recorded() int { return d.Events.Len() - d.Missing.Frees - d.Missing.Completions }

// Pool is a memory pool's name in the file: (0,0) the default, (n,0) a CUDA graph's, (0,n) a MemPool's.
type Pool [2]uint64

// PoolInfo says what a pool is where its numbers do not. Device.PoolInfo is by PoolID, nil or shorter than Pools.
type PoolInfo struct {
	Name   string // for people, "device statics"
	Direct bool   // its blocks are memory that the program took from the driver itself, so they count as reserved
}

// State is the memory of a device at one instant: segments in the order of their addresses, and the
// blocks in them, in the order of theirs. A state before the first event holds only blocks that are
// not free.
type State struct {
	Segments []Segment
	Blocks   []Block
	Groups   []Group // blocks of which a file tells only how many there are and how large together
}

// Group is a number of blocks that one stack allocated.
type Group struct {
	Stack  StackID
	Kind   string // what the file calls them: "buffer", "executable", …
	Bytes  int64  // together
	Blocks int64
}

// Segment is a range of memory that the allocator holds from the driver: one cudaMalloc, or one
// contiguous mapped range of an expandable segment.
type Segment struct {
	Addr       uint64
	Size       int64
	Stream     StreamID
	Pool       PoolID
	Small      bool // belongs to the small pool (known only if KindKnown)
	KindKnown  bool
	Expandable bool
	Stack      StackID
}

// BlockState is what a block was doing.
type BlockState uint8

// The states that PyTorch's snapshots have.
const (
	BlockFree    BlockState = iota // "inactive"
	BlockLive                      // "active_allocated"
	BlockPending                   // freed, but a stream may still be using it
)

// Block is a block of a State.
type Block struct {
	ID        BlockID // NoBlock for a free one
	State     BlockState
	Stream    StreamID
	Addr      uint64
	Size      int64 // bytes it takes; 0 where the file cannot tell (freed before the end, sizes are of requests)
	Requested int64 // bytes asked for; 0 for a free one
	Stack     StackID
}

// Marker is a point or the edge of a range that the program named.
type Marker struct {
	Time   Time
	Device int // ordinal, -1 for none
	Name   string
	Edge   Edge
}

// Edge tells starts from ends.
type Edge uint8

// The kinds of marker.
const (
	EdgePoint Edge = iota
	EdgeStart
	EdgeEnd
)

// Settings are the allocator's, at the moment the file was written.
type Settings struct {
	Known         bool   // the file has settings at all
	Conf          string // the text of PYTORCH_CUDA_ALLOC_CONF as last parsed
	MaxSplitSize  int64  // bytes, -1 for no limit
	GCThreshold   float64
	Expandable    bool
	HasExpandable bool    // Expandable was in the file
	Roundup       [16]int // divisions by bucket [2^(20+i), 2^(21+i)) bytes
	HasRoundup    bool
}

// Warning is something that is wrong with a file, or that it cannot tell, and that a reader of results
// must know. Count is how often, First the number of the first event concerned (-1 for none).
type Warning struct {
	Code    string // stable, for programs: "free-without-alloc", …
	Message string // for people, without the count
	Count   int
	First   int
}
