// Package stream models the stream-ordered allocator of the CUDA driver: the memory pools behind
// cudaMallocAsync, and so PyTorch's backend:cudaMallocAsync.
//
// # Structures
//
// A pool is one long range of addresses, a cudaMemPool_t. Nothing in it ever moves. Two things are kept
// apart: which bytes are in use, and which pages have memory.
//
//   - Spans tile the range (pool.go). A span is live, or pending (freed, but another stream still uses
//     it), or free. Everything above the highest live byte is free: the tail.
//   - Pages are 32 MiB each (pages.go). A page has memory or has none; reserved memory is 32 MiB for each
//     page that has some. Live bytes always have memory, free ones need not.
//
// Each free span is in one list. A stream has a list of what was freed on it; what belongs to no stream
// is shared. Spans of the same list that touch are one span; spans of different lists never merge. The
// lists of streams hold only spans with memory throughout, among the shared ones are holes.
//
// A list is searched by best fit: the smallest span that is large enough, among equals the one that has
// had its present extent longest (order.go). An allocation takes the low end of the span; the rest stays
// in the span's list.
//
// # The path of a request
//
//  1. Round the size up to 512 bytes. There are no size classes.
//  2. Best fit in the stream's own list, even if another list has a better one.
//  3. Best fit in the shared spans that have memory throughout. The tail is not one of them.
//  4. The lists of the other streams, in the order in which the streams first used the pool: the first
//     that can serve it.
//  5. Flush: all lists go to the shared spans, and merge there. Best fit over these, with memory or
//     without; the tail is the largest and so the last resort.
//  6. Pages under the allocation that have no memory get some (grow.go): first that of the highest wholly
//     free pages, which leave holes, then new memory. Only here can the reserved memory grow.
//  7. If the device refuses, the free pages of other pools are given back, those that were waited for, and
//     it is asked again.
//  8. If it still refuses, a pending span that is large enough is used: the driver makes the stream wait.
//  9. Otherwise the request fails. What step 6 got stays in the pool. With Options.Retry the caller
//     waits for the device, trims, and tries once more.
//
// # The path of a free
//
// The span goes to the list of its stream and merges there, at once, or if it is pending when the caller
// says that the wait is over. Memory is given back neither then nor later, only by a trim, and after a
// synchronisation down to a threshold. A synchronisation moves the lists of what was waited for to the
// shared spans; a trim takes the memory of wholly free pages of shared spans, the highest first.
// EmptyCache is what PyTorch makes of it: synchronise, trim to nothing.
//
// # What is modelled, and what is not
//
// The rules were measured on an NVIDIA H200 (driver 580.159, CUDA 13): every address and every reserved and
// used figure of the recordings follows from them. docs/allocators/stream.md has them in full, with the
// evidence. They hold for a GPU that is done with a block when it is freed, unless the free is marked
// pending. In a real run frees wait for kernels, steps 4 and 5 must pass over what is not ready, and the
// peak of the reserved memory differs by up to 8 % either way.
//
// Not modelled: dependencies between streams through events, frees on another stream than that of the
// allocation, a destroyed stream (its list becomes shared), memory nodes of CUDA graphs, whose requests
// are served as from a pool of their own.
package stream

import (
	"math"

	"github.com/vramscope/vramscope/allocators"
)

const (
	// granule is the unit of sizes and addresses.
	granule = 512

	// The address range of a pool is long enough never to be used up: eight times the device, and not
	// less than a tebibyte. Its true length is not known.
	minSpace     = int64(1) << 40
	maxSpace     = int64(1) << 50
	defaultSpace = int64(1) << 44 // on a device without limit
)

// KeepAll is a release threshold that keeps everything.
const KeepAll = int64(math.MaxInt64)

// About is what the model is, in a line.
const About = "CUDA's stream-ordered pools, as cudaMallocAsync and backend:cudaMallocAsync use them (measured, driver 580)"

// Options are what a program can set. The zero value is a pool as CUDA makes it.
type Options struct {
	// ReleaseThreshold is how many bytes a pool may keep when a stream is synchronised: CUDA's
	// cudaMemPoolAttrReleaseThreshold.
	ReleaseThreshold int64
	// MaxSize is how many bytes a pool may hold, rounded up to 32 MiB, 0 for no limit: CUDA's
	// cudaMemPoolProps.maxSize.
	MaxSize int64
	// NoOpportunistic turns cudaMemPoolReuseAllowOpportunistic off: nothing is taken from other streams,
	// and nothing is flushed, before a synchronisation.
	NoOpportunistic bool
	// NoInternalDependencies turns cudaMemPoolReuseAllowInternalDependencies off: memory in use on
	// another stream is not waited for when the device has no more.
	NoInternalDependencies bool

	// Limit is how many bytes may be asked for at once, 0 for no limit. It is PyTorch's memory fraction,
	// which this backend holds against the bytes asked for and not against the reserved ones.
	Limit int64
	// Retry is what PyTorch does since mid-2026 when a request fails: synchronise, trim, try once more.
	Retry bool
}

// PyTorch is how PyTorch sets up its pool: it keeps everything until the cache is emptied.
func PyTorch() Options { return Options{ReleaseThreshold: KeepAll, Retry: true} }

// Allocator is the model. It implements allocators.Allocator.
type Allocator struct {
	arena
	driver allocators.Driver
	opt    Options
	total  int64   // bytes of the device, 0 if it has no limit
	blocks []int32 // span of a block, 0 if it is neither live nor pending
	stats  allocators.Stats

	used        allocators.Gauge
	pendingWant int64 // bytes asked for, of pending blocks

	pools  []*pool          // in the order of their first use
	named  map[uint32]*pool // by the caller's number
	last   *pool            // the one used last
	lastID uint32
}

// New makes an allocator that reserves address space and maps pages of 32 MiB through a driver. Without
// one the device has no limit, and addresses count from 0.
func New(driver allocators.Driver, opt Options) *Allocator {
	if driver == nil {
		driver = &boundless{}
	}
	return &Allocator{arena: arena{spans: make([]span, 1, 64)}, driver: driver, opt: opt, named: map[uint32]*pool{}}
}

// Used is what CUDA calls the used memory of the pools: the bytes asked for, not rounded, of blocks that
// have not been freed. It moves at the call, whatever streams do.
func (a *Allocator) Used() allocators.Gauge { return a.used }

// Moved is how many bytes of memory went from free pages to other addresses.
func (a *Allocator) Moved() (n int64) {
	for _, p := range a.pools {
		n += p.moved * pageSize
	}
	return n
}

// Stats is what has been counted. Its device calls are those of the driver interface: memory that moves
// counts as given back and taken.
func (a *Allocator) Stats() *allocators.Stats { return &a.stats }

// Block says where a live or pending block is, and its size rounded up to 512 bytes.
func (a *Allocator) Block(block uint32) (addr uint64, size int64, ok bool) {
	id := a.find(block)
	if id == 0 {
		return 0, 0, false
	}
	s := &a.spans[id]
	return a.pools[s.pool].base + uint64(s.addr), s.size, true
}

func (a *Allocator) find(block uint32) int32 {
	if uint(block) < uint(len(a.blocks)) {
		return a.blocks[block]
	}
	return 0
}
