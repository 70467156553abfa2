// Package bfc models the best-fit-with-coalescing allocator of TensorFlow, XLA and JAX: the class
// BFCAllocator of xla/tsl/framework/bfc_allocator.cc in openxla/xla (read at commit 00df9eefeb54, 2026),
// which began as tensorflow/core/common_runtime/bfc_allocator.cc and is the default for GPU memory in all
// three.
//
// # Structures
//
// Memory comes from the driver in regions. A region is covered without gaps by chunks, each in use or
// free, linked to the chunks beside it (holes.Chain). Free chunks lie in 21 bins: bin b has those of
// 256·2^b bytes and more, up to twice that, the last one all larger ones; in a bin they are in the order
// of size, then address. A search begins in the bin of the request and goes on through the larger ones,
// so it finds the first chunk that is large enough in the order of size, then address, over all bins:
// here one set in that order does for all of them (holes.BySize), and Bins tells how they would look.
//
//	no two neighbouring chunks of a region are both free
//
// # One Malloc
//
//  1. The size is rounded up to a multiple of 256 bytes.
//  2. The smallest free chunk that is large enough is taken, the lowest of several. It is split only if
//     it is at least twice as large, or if the part left over would be 128 MiB or more
//     (FragmentationFraction sets another limit): otherwise the request gets the whole chunk.
//  3. Without one, a region is asked of the driver: of 2 MiB at first (all of the limit with
//     Preallocate), doubled after each region, doubled until the request fits, and no more than the limit
//     still allows. While the driver refuses, a tenth less is asked for, down to the size of the request.
//  4. With GarbageCollection, regions that are wholly free are then given back, if that could leave
//     enough, and step 3 is tried once more.
//  5. Then the request is out of memory.
//
// # One Free
//
// The chunk becomes one with the free chunks beside it. Regions stay, as there is nothing in these
// programs to ask for the contrary: EmptyCache does nothing without GarbageCollection.
//
// # What is counted
//
// Allocated and Active are sizes of chunks, padding included, as bytes_in_use is. Reserved is pool_bytes.
// Stats.AtPeak: Cached are regions that are wholly free (whether or not they would be given back),
// Stranded are free chunks of other regions, Rounding is the padding of chunks in use.
//
// # What is not modelled
//
// Requests that wait up to ten seconds for another thread to free something; chunks with time stamps;
// the coalescing of regions that touch, which only the sub-allocator over virtual memory has; spatial
// partitioning; alignments above 256. Streams and pools make no difference: these programs keep a buffer
// until the device is done with it, so a block freed with pending stays until Complete.
package bfc

import (
	"math"
	"math/bits"

	"github.com/vramscope/vramscope/allocators"
	"github.com/vramscope/vramscope/allocators/internal/holes"
	"github.com/vramscope/vramscope/allocators/internal/ledger"
)

// About is the model in one line.
const About = "best fit with coalescing of TensorFlow, XLA and JAX: bins, regions that double, coarse splitting (openxla/xla, 2026)"

const (
	unit        = 256     // sizes are multiples of it: kMinAllocationSize
	firstRegion = 2 << 20 // with growth
	numBins     = 21
	maxPadding  = 128 << 20
	unlimited   = 1 << 60
)

// Config is what can be set. The zero value is XLA's own default: a pool that grows up to the device's
// memory.
type Config struct {
	Limit                 int64   // bytes that the pool may have, 0 for all of the device's
	Preallocate           bool    // take the limit at once, as allow_growth=false; needs a limit or a device with one
	GarbageCollection     bool    // give free regions back before failing, as TF_ENABLE_GPU_GARBAGE_COLLECTION
	FragmentationFraction float64 // of the limit: how much padding is worth a split, 0 for 128 MiB
}

// Allocator is the model.
type Allocator struct {
	driver     allocators.Driver
	account    ledger.Ledger
	gc         bool
	limit      int64
	maxPadding int64
	next       int64 // bytes of the next region: curr_region_allocation_bytes_

	regions []region
	chain   holes.Chain
	free    holes.BySize
}

type region struct {
	addr  uint64
	size  int64
	first uint32 // its first chunk, always the same
}

// New is an allocator that holds no memory yet.
func New(driver allocators.Driver, cfg Config) *Allocator {
	a := &Allocator{driver: driver, chain: holes.NewChain(), gc: cfg.GarbageCollection, limit: cfg.Limit}
	a.free = holes.NewBySize(&a.chain)
	if a.limit <= 0 {
		_, a.limit = driver.Memory()
	}
	known := a.limit > 0
	if !known || a.limit > unlimited {
		a.limit = unlimited
	}
	a.next = round(min(a.limit, firstRegion))
	if cfg.Preallocate && known {
		a.next = round(a.limit)
	}
	a.maxPadding = maxPadding
	if f := cfg.FragmentationFraction; f > 0 && known {
		a.maxPadding = int64(f * float64(a.limit))
	}
	return a
}

// round is RoundedBytes.
func round(n int64) int64 { return (n + unit - 1) &^ (unit - 1) }

// Malloc implements allocators.Allocator.
func (a *Allocator) Malloc(req allocators.Request) error {
	if err := a.account.Admit(req); err != nil {
		return err
	}
	size := round(req.Size)
	id := a.free.Take(&a.chain, size)
	if id == holes.None && (a.extend(size) || a.collect(size) && a.extend(size)) {
		id = a.free.Take(&a.chain, size)
	}
	if id == holes.None {
		return a.account.Refuse(req.Size, size, a.free.Largest(&a.chain))
	}
	if got := a.chain.At(id).Size; got >= 2*size || got-size >= a.maxPadding {
		a.free.Insert(&a.chain, a.chain.Split(id, size))
	}
	p := a.chain.At(id)
	a.account.Open(req, p.Addr, p.Size, id)
	if a.account.Raised() {
		a.account.AtPeak(a.cached(), a.free.Largest(&a.chain))
	}
	return nil
}

// extend adds a region that holds a chunk of the given size.
func (a *Allocator) extend(size int64) bool {
	available := (a.limit - a.account.Stats().Reserved.Current) &^ (unit - 1)
	if size > available {
		return false
	}
	doubled := false
	for size > a.next {
		a.next *= 2
		doubled = true
	}
	bytes := min(a.next, available)
	addr, err := a.driver.Alloc(bytes)
	for err != nil {
		less := backpedal(bytes)
		if less >= bytes {
			less = bytes - unit
		}
		if bytes = less; bytes < size {
			return false
		}
		addr, err = a.driver.Alloc(bytes)
	}
	if !doubled {
		a.next = min(a.next*2, unlimited)
	}
	a.account.Took(bytes)
	id := a.chain.Append(holes.None, addr, bytes)
	a.regions = append(a.regions, region{addr, bytes, id})
	a.free.Insert(&a.chain, id)
	return true
}

// backpedal is nine tenths in single precision, as C++ computes size_t times float.
func backpedal(bytes int64) int64 {
	return round(int64(math.Floor(float64(float32(bytes) * float32(0.9)))))
}

// collect gives back regions that are wholly free if with them there could be enough for the request.
func (a *Allocator) collect(size int64) bool {
	cached := a.cached()
	if !a.gc || cached == 0 || size > a.limit-a.account.Stats().Reserved.Current+cached {
		return false
	}
	a.account.Flushed()
	a.EmptyCache()
	return true
}

// wholly reports whether a region is one free chunk.
func (a *Allocator) wholly(r region) bool {
	p := a.chain.At(r.first)
	return p.Free() && p.Size == r.size
}

// cached is the bytes of regions that are wholly free.
func (a *Allocator) cached() int64 {
	var n int64
	for _, r := range a.regions {
		if a.wholly(r) {
			n += r.size
		}
	}
	return n
}

// Free implements allocators.Allocator.
func (a *Allocator) Free(block uint32, pending bool) {
	if e := a.account.Release(block, pending); e != nil {
		a.free.Put(&a.chain, e.Slot)
	}
}

// Complete implements allocators.Allocator.
func (a *Allocator) Complete(block uint32) {
	if e := a.account.Complete(block); e != nil {
		a.free.Put(&a.chain, e.Slot)
	}
}

// EmptyCache gives regions back that are wholly free, if GarbageCollection is on.
func (a *Allocator) EmptyCache() {
	if !a.gc {
		return
	}
	kept := a.regions[:0]
	for _, r := range a.regions {
		if !a.wholly(r) {
			kept = append(kept, r)
			continue
		}
		a.free.Remove(&a.chain, r.first)
		a.chain.Drop(r.first)
		a.driver.Free(r.addr, r.size)
		a.account.Gave(r.size)
	}
	a.regions = kept
}

// Block implements allocators.Allocator.
func (a *Allocator) Block(block uint32) (addr uint64, size int64, ok bool) {
	return a.account.Block(block)
}

// Stats implements allocators.Allocator.
func (a *Allocator) Stats() *allocators.Stats { return a.account.Stats() }

// Bin is one line of the summary that these programs print when they are out of memory.
type Bin struct {
	Size         int64 // bytes of the smallest chunk that belongs here
	Chunks       int   // in all
	Bytes        int64
	InUse        int // chunks in use
	InUseBytes   int64
	ClientBytes  int64 // asked for by those
	LargestBytes int64 // of a free one
}

// Bins gives all bins, with the chunks in use counted where they would lie if they were free.
func (a *Allocator) Bins() [numBins]Bin {
	var bins [numBins]Bin
	for i := range bins {
		bins[i].Size = unit << i
	}
	add := func(size int64) *Bin {
		b := &bins[BinOf(size)]
		b.Chunks++
		b.Bytes += size
		return b
	}
	for _, e := range a.account.Blocks() {
		b := add(e.Size)
		b.InUse++
		b.InUseBytes += e.Size
		b.ClientBytes += e.Requested
	}
	for id := range a.free.All(&a.chain) {
		size := a.chain.At(id).Size
		b := add(size)
		b.LargestBytes = max(b.LargestBytes, size)
	}
	return bins
}

// BinOf is the bin of a chunk.
func BinOf(size int64) int {
	return min(bits.Len64(uint64(max(size, unit))/unit)-1, numBins-1)
}
