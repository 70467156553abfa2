// Package caching models PyTorch's CUDACachingAllocator for one device: every decision that it makes
// between a request and an address, with every setting that changes one.
//
// # Structures
//
// The allocator takes memory from the driver in segments and cuts them into blocks. The blocks of a
// segment are a doubly linked list in the order of their addresses and tile it. Each block is live,
// pending (freed, but a stream still uses it), free, or an unmapped hole of an expandable segment.
// Neighbours that are both free, or both holes, are one block.
//
// Free blocks are kept in pools: a small one for blocks up to 1 MiB and a large one, once for ordinary
// requests and once for each private pool (CUDA graphs, MemPools). Inside a pool a block belongs to the
// stream it was first cut for and is only reused there. A pool keeps its free blocks in the order stream,
// size, address (freeset.go); every search, every release and every age goes by that order.
//
// An expandable segment is a reservation of address space, larger than the device, in which pages are
// mapped as they are needed (expandable.go). There is one for each pool and stream, in practice.
//
// # The path of a request
//
//  1. Round the size (package config): to 512 bytes, or to a division of a power of two.
//  2. Choose the pool: small up to 1 MiB, else large.
//  3. Best fit in the pool's free blocks of the stream (pool.go). Only the first candidate is looked at;
//     max_split_size_mb may refuse it.
//  4. Else collect garbage, if a limit and a threshold are set (release.go).
//  5. Else ask the driver for a segment of 2 MiB, 20 MiB or the size rounded up to 2 MiB, unless a limit
//     forbids it; or map pages. (With throw_on_cudamalloc_oom a limit ends the request before step 4.)
//  6. Else use the free blocks of pools that lend theirs when memory runs out.
//  7. Else, with max_split_size_mb, give back oversize blocks of the pool and ask again.
//  8. Else, for a request of the default pool, wait for the device, give back every whole free segment,
//     and ask again. The pool is not searched again, although a pending block may have become free.
//  9. Else the request fails. What was given back stays given back.
//
// A block that is larger than the request is split, the front is handed out, if the rest is worth
// keeping: 512 bytes in small pools and expandable segments, more than 1 MiB otherwise, and never for
// requests of max_split_size_mb and more.
//
// # The path of a free
//
// A block that other streams use stays pending until they are done (the caller says when). Then it is
// merged with free neighbours and put in its pool. Segments are not given back here.
//
// # Sources
//
// The rules are those of PyTorch 2.11 (c10/cuda/CUDACachingAllocator.cpp), with the differences of other
// versions in package config; docs/allocators/caching.md tells how they were checked against recordings.
// Not modelled: custom allocators behind a MemPool, the re-use of blocks inside a graph capture that
// graph_capture_record_stream_reuse allows, the lock that release_lock_on_cudamalloc drops (threads may
// then interleave inside one request), host memory.
package caching

import (
	"github.com/vramscope/vramscope/allocators"
	"github.com/vramscope/vramscope/allocators/caching/config"
)

const (
	minBlock = config.MinBlock
	noLimit  = -1

	// tooLarge is what PyTorch refuses to look at, in bytes.
	tooLarge = 1 << 60
)

// Config is the allocator's setting and what surrounds it.
type Config struct {
	config.Config
	Limit int64 // bytes that may be reserved (set_per_process_memory_fraction), negative for no limit
	// DeviceTotal is the memory of the device in bytes, which sizes the address space of expandable
	// segments. 0 takes the driver's word, and 256 GiB if it has none.
	DeviceTotal int64
}

// NewConfig is the given setting without a limit.
func NewConfig(c config.Config) Config { return Config{Config: c, Limit: noLimit} }

// Allocator is the model. It implements allocators.Allocator.
type Allocator struct {
	cfg    Config
	driver allocators.Driver
	hooks  Hooks

	blocks     []block       // by slot; slot 0 is no block
	idle       []int32       // slots of blocks that are gone
	slotOf     []int32       // by the caller's number of a live or pending block; 0 for none
	pools      []*pool       // the large and the small one of each memory pool, by 2*id and 2*id+1
	reserved   []reservation // expandable segments, by index; those given back have size 0
	pending    []uint32      // numbers of pending blocks, in the order of their frees
	lenders    []uint32      // private pools that serve others when memory runs out
	retired    []uint32      // private pools whose owner is gone, the next flush takes their segments
	scratch    []freeEntry
	tops       tops // the largest free block of all
	peakRaised bool // Reserved has a new peak, of which AtPeak does not know yet

	detail           Detail
	stats            allocators.Stats
	cached           int64 // bytes of whole free segments and whole free pages
	private          int64 // bytes of segments and pages of private pools
	pendingRequested int64
}

// New makes an empty allocator over a driver.
func New(driver allocators.Driver, cfg Config) *Allocator {
	a := &Allocator{cfg: cfg, driver: driver}
	a.blocks = make([]block, 1, 1024)
	a.blocks[0].pool = -1
	a.pool(0, true)
	return a
}

// Config is the present setting.
func (a *Allocator) Config() Config { return a.cfg }

// SetExpandable switches expandable segments while running, as torch.cuda.memory._set_allocator_settings
// does. Segments of both kinds then exist side by side.
func (a *Allocator) SetExpandable(on bool) { a.cfg.Expandable = on }
