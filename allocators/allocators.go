// Package allocators is the vocabulary between the models of memory allocators and whoever drives them:
// requests in, addresses and statistics out, plain integers only. It imports nothing but the standard
// library, and neither do the models below it.
//
// A model decides where blocks go. It asks a Driver for the memory it hands out, so the same model runs
// over a simulated device (driver/sim), over a recording that is followed, and over a real GPU.
//
// All sizes and addresses are bytes.
package allocators

import (
	"errors"
	"fmt"
)

// Request asks for a block.
type Request struct {
	Block  uint32 // the caller's number for it, dense from 0, unused at present
	Size   int64  // bytes wanted, before any rounding; > 0
	Stream uint32 // stream it will be used on first; smaller numbers are smaller stream handles
	Pool   uint32 // 0 the default pool; others are private (CUDA graphs, MemPools)
}

// Allocator is a model of a memory allocator for one device. It is not safe for concurrent use.
type Allocator interface {
	// Malloc serves a request, or returns an *OOM and leaves every live block as it was.
	Malloc(Request) error
	// Free gives a block back. With pending, another stream still uses its memory: it is not reusable
	// until Complete.
	Free(block uint32, pending bool)
	// Complete ends the wait of a block freed with pending. It does nothing for a block that is no
	// longer pending (a model that waits for the device before it gives memory back completes it early).
	Complete(block uint32)
	// EmptyCache gives back to the driver what can be given back.
	EmptyCache()
	// Block says where a live or pending block is and how much memory it takes.
	Block(block uint32) (addr uint64, size int64, ok bool)
	// Stats is what has been counted so far. The pointer stays valid and keeps counting.
	Stats() *Stats
}

// Gauge is a quantity with its peak.
type Gauge struct{ Current, Peak int64 }

// Add changes the quantity.
func (g *Gauge) Add(n int64) {
	g.Current += n
	if g.Current > g.Peak {
		g.Peak = g.Current
	}
}

// Stats are the figures that every model counts.
type Stats struct {
	Requested Gauge // bytes asked for, of blocks handed out or pending
	Allocated Gauge // bytes of blocks handed out, after rounding, pending ones not included
	Active    Gauge // Allocated and pending
	Reserved  Gauge // bytes held from the driver

	DeviceAllocs int64 // calls that took memory from the driver
	DeviceFrees  int64 // calls that gave it back
	Retries      int64 // requests for which the cache was flushed first, each a synchronisation of the device
	OOMs         int64 // requests that failed

	AtPeak Fragmentation // when Reserved first reached its peak, after the request that raised it
}

// Fragmentation splits what is reserved and not usefully occupied, at one instant:
//
//	Reserved = Requested of live blocks + Rounding + Pending + Cached + Stranded
type Fragmentation struct {
	Stranded int64 // free, but in a segment that something else keeps from being given back
	Cached   int64 // free in whole segments (or whole pages), could be given back
	Rounding int64 // inside blocks, beyond what was asked for
	Pending  int64 // freed, waiting for a stream
	Largest  int64 // the largest free block, for information: part of Stranded or Cached
}

// OOM is the error of a request that could not be served.
type OOM struct {
	Requested   int64 // bytes as asked for
	Tried       int64 // bytes that the driver was asked for
	Allocated   int64 // bytes handed out then
	Reserved    int64 // bytes held then
	LargestFree int64 // the largest free block then
}

func (e *OOM) Error() string {
	return fmt.Sprintf("out of memory: %d bytes asked, %d tried of the driver, %d allocated, %d reserved, largest free block %d",
		e.Requested, e.Tried, e.Allocated, e.Reserved, e.LargestFree)
}

// ErrNoMemory is what a Driver returns when the device has not enough left.
var ErrNoMemory = errors.New("the device has not enough memory")

// Driver is what an allocator gets its memory from.
type Driver interface {
	// Alloc takes size bytes at an address of the driver's choice: cudaMalloc.
	Alloc(size int64) (addr uint64, err error)
	// Free gives back a whole allocation: cudaFree.
	Free(addr uint64, size int64)
	// Reserve takes address space without memory: cuMemAddressReserve.
	Reserve(size int64) (addr uint64, err error)
	// Release gives reserved address space back.
	Release(addr uint64, size int64)
	// Map puts memory behind part of a reservation, all of it or none: cuMemCreate and cuMemMap.
	Map(addr uint64, size int64) error
	// Unmap takes it away again.
	Unmap(addr uint64, size int64)
	// Memory says how much is free and how much there is; total 0 is a device without limit.
	Memory() (free, total int64)
}
