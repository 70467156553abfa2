// Package simulate runs traces through models of allocators. Follow holds a model against a recording,
// decision by decision; Replay asks a model what it would have done with the same requests.
package simulate

import "github.com/vramscope/vramscope/trace"

// Requests is what a recording asked of its allocator, freed from what the allocator made of it: the
// events of the device, and beside them what Follow found out that no event says. It is not changed by a
// replay, so many can share it.
type Requests struct {
	Device  *trace.Device
	Initial []InitialBlock // blocks older than the recording
	Acts    []Act          // in the order of events
	// Expandable says that expandable segments were on at the start.
	Expandable bool

	// Pools gives the pool of each block, by its number; nil if all are in the default pool.
	Pools []uint32
	// Restored blocks were laid out again from a saved graph pool; the value says that they are in the
	// small pool whatever their size.
	Restored map[trace.BlockID]bool
	// Failed lists the events that ran out of memory.
	Failed []int
	// FailedPools gives the pools that those asked which did not ask the default pool, by event.
	FailedPools map[int]uint32
	// Deferred says that some frees waited for other streams.
	Deferred bool

	// origin gives for each event that of the recording which it is, or before which it was put; nil if the
	// requests are as recorded.
	origin []int32
}

// Recorded is the event of the recording that an event of the requests is, or before which it was put.
func (r *Requests) Recorded(event int) int {
	if event >= 0 && event < len(r.origin) {
		return int(r.origin[event])
	}
	return event
}

// InitialBlock is a block that existed before the recording, with the memory that it takes.
type InitialBlock struct {
	trace.Block
	Pool  uint32
	Small bool
}

// Act is something that the program did before an event and that left no event of its own.
type Act struct {
	Event int // happens before the event of this number
	Kind  ActKind
	Pool  uint32
}

// ActKind says what a program did.
type ActKind uint8

// The kinds of Act.
const (
	EmptyCache   ActKind = iota // torch.cuda.empty_cache()
	RetirePool                  // the graph or MemPool that owned the pool is gone
	ReleasePool                 // a MemPool was deleted, its memory is given back at once
	ExpandableOn                // the setting was switched while running
	ExpandableOff
)

// Pool is the pool of a block.
func (r *Requests) Pool(b trace.BlockID) uint32 {
	if int(b) < len(r.Pools) {
		return r.Pools[b]
	}
	return 0
}
