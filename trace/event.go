// Package trace is the vocabulary that every source of memory events is read into: events, the state
// before and after them, stacks, markers and warnings. It knows nothing of allocators and draws no
// conclusions; it says what a file says, and by its types what a file cannot say.
//
// Units: addresses and sizes are bytes, times are nanoseconds since the Unix epoch (or as Source.Clock says).
package trace

// Op says what an event did.
type Op uint8

const (
	OpNone          Op = iota
	OpAlloc            // a block was handed out; Size is what was asked for, before rounding
	OpFreeRequested    // the program gave a block back; a stream may still be using it
	OpFreeCompleted    // the memory of a freed block became reusable
	OpFree             // both at once, for sources that do not tell them apart
	OpSegmentAlloc     // the allocator took a segment from the driver
	OpSegmentFree      // the allocator gave a segment back
	OpSegmentMap       // pages of an expandable segment were mapped
	OpSegmentUnmap     // pages of an expandable segment were unmapped
	OpOOM              // a request failed; Size is the rounded request, Addr the free bytes of the device
	OpSnapshot         // somebody took a snapshot; Size is the active bytes then
	numOps
)

var opNames = [numOps]string{
	"none", "alloc", "free_requested", "free_completed", "free",
	"segment_alloc", "segment_free", "segment_map", "segment_unmap", "oom", "snapshot",
}

// String gives the name that PyTorch's traces use.
func (op Op) String() string {
	if op < numOps {
		return opNames[op]
	}
	return "unknown"
}

// ParseOp is the inverse of String; ok is false for a name that is not an operation.
func ParseOp(name string) (op Op, ok bool) {
	for i, n := range opNames {
		if n == name && i != 0 {
			return Op(i), true
		}
	}
	return OpNone, false
}

// IsSegment reports whether the event moves memory between allocator and driver.
func (op Op) IsSegment() bool { return op >= OpSegmentAlloc && op <= OpSegmentUnmap }

// Time is nanoseconds since what Source.Clock says, 0 when the source has no times.
type Time int64

// BlockID numbers the blocks of one device densely: an address that is allocated twice is two blocks.
type BlockID uint32

// NoBlock is the id of an event that concerns no block (segment events, out of memory, markers).
const NoBlock = ^BlockID(0)

// StackID names an interned call stack; NoStack is the one without frames.
type StackID uint32

// NoStack is the stack of an event that was recorded without one.
const NoStack StackID = 0

// StreamID indexes Device.Streams.
type StreamID uint32

// PoolID indexes Device.Pools.
type PoolID uint16

// PoolUnknown is the pool of an event whose file does not name it. PoolDefault is always pool 0.
const (
	PoolDefault PoolID = 0
	PoolUnknown PoolID = 0xffff
)

// Event is one entry of a recording. It has no pointers, so that the garbage collector never looks at
// traces, and takes 40 bytes.
type Event struct {
	Time   Time
	Addr   uint64  // first byte; for OpOOM the free bytes of the device, 0 if not told
	Size   int64   // bytes, see Op for which
	Block  BlockID // dense id of the block, NoBlock for other events
	Stack  StackID
	Stream StreamID
	Pool   PoolID // as the file tells, PoolUnknown where it does not
	Op     Op
}
