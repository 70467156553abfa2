// Package cuda is the real CUDA driver behind the interface that models of allocators ask their memory of,
// so that a model runs on a GPU as it does in a simulation.
//
// # How the driver is reached
//
// libcuda.so.1 is opened at run time (bridge.c), with prototypes of our own: nothing of CUDA is needed to
// build, and a binary that can use a GPU also runs where there is none. Where it cannot (no cgo, another
// system than Linux, no driver, no GPU) Load says what is missing, as a *Missing.
//
// # Calls in batches
//
// Crossing from Go to C takes longer than some of the driver's calls. So a call is a value, an Op, and
// Device.Run makes many of them in one crossing: each is timed on the C side by the monotonic clock, so
// what is measured is the driver alone. A batch that depends on its own results uses slots: a call puts
// the address that it got in one, and later calls take it from there. It ends with a call that fails and whose flags say so;
// what comes after that is not made.
//
// # What is held, and given back
//
// A Driver (driver.go) keeps a book of its allocations, reservations and mappings, and can give all of it
// back whatever has happened: after a failure, after an interruption. Pools and streams belong to their
// Device, whose Close destroys them and lets the context go.
//
// The primary context of the device is used, the one that the runtime and PyTorch use.
package cuda

import "fmt"

// Kind says which call of the driver an Op is.
type Kind uint32

// The kinds of Op. Where an address or a handle is expected, it is in Addr or Handle, or in the slot.
const (
	Alloc     Kind = iota + 1 // cuMemAlloc: Size; gives Addr
	Free                      // cuMemFree: Addr
	Reserve                   // cuMemAddressReserve: Size; gives Addr
	Release                   // cuMemAddressFree: Addr, Size
	Create                    // cuMemCreate: Size; gives Handle
	Discard                   // cuMemRelease: Handle
	Map                       // cuMemMap: Addr, Size, Handle
	Access                    // cuMemSetAccess: Addr, Size
	Unmap                     // cuMemUnmap: Addr, Size
	PoolAlloc                 // cuMemAllocFromPoolAsync: Size, Stream, the pool in Handle; gives Addr
	PoolFree                  // cuMemFreeAsync: Addr, Stream
	PoolTrim                  // cuMemPoolTrimTo: the pool in Handle, bytes to keep in Size
	Sync                      // cuCtxSynchronize
	Memory                    // cuMemGetInfo: gives Available, and the total in Held
	Fill                      // cuMemsetD8Async: Addr, Size, Stream

	kinds
)

// calls are the functions by kind.
var calls = [kinds]string{
	Alloc: "cuMemAlloc", Free: "cuMemFree", Reserve: "cuMemAddressReserve", Release: "cuMemAddressFree",
	Create: "cuMemCreate", Discard: "cuMemRelease", Map: "cuMemMap", Access: "cuMemSetAccess", Unmap: "cuMemUnmap",
	PoolAlloc: "cuMemAllocFromPoolAsync", PoolFree: "cuMemFreeAsync", PoolTrim: "cuMemPoolTrimTo",
	Sync: "cuCtxSynchronize", Memory: "cuMemGetInfo", Fill: "cuMemsetD8Async",
}

// String is the name of the driver's function, without the number of its version.
func (k Kind) String() string {
	if k < kinds && calls[k] != "" {
		return calls[k]
	}
	return fmt.Sprintf("call %d", uint32(k))
}

// Flags say how an Op is made.
type Flags uint16

// The flags of an Op.
const (
	// InSlot: the address or handle is taken from the slot, or put there. Of Map it is the handle.
	InSlot Flags = 1 << iota
	// Stop ends the batch if the call fails.
	Stop
	// Look asks the driver afterwards how much memory is available.
	Look
	// LookPool asks the pool in Handle afterwards what it holds and what of it is used, and the driver how
	// much is available if the former has changed.
	LookPool
)

// NotMade is the Result of a call that was not made: because the batch ended before it, or because it
// would give back what was never got.
const NotMade = -1

// Op is one call of the driver and what came of it. It has the layout of vs_op in bridge.h.
type Op struct {
	Kind      Kind
	Result    int32 // the driver's, 0 for success
	Slot      uint32
	Flags     Flags
	Stream    uint16 // number of a stream, 0 the default one
	Addr      uint64
	Handle    uint64
	Size      int64 // bytes
	Nanos     int64 // that the call took
	Held      int64 // bytes of memory in the pool, -1 if it was not asked
	Used      int64 // bytes used in it, -1 likewise
	Available int64 // bytes free on the device, -1 likewise
}

// outOfMemory is the result of a call for which the device has not enough.
const outOfMemory = 2

// OutOfMemory says whether the call failed because the device had not enough.
func (op *Op) OutOfMemory() bool { return op.Result == outOfMemory }

// Error is a call that the driver refused.
type Error struct {
	Call string // the function
	Code int32
	Name string // "CUDA_ERROR_OUT_OF_MEMORY"
	Text string // what the driver says about it, may be empty
}

func (e *Error) Error() string {
	if e.Text == "" {
		return fmt.Sprintf("%s: %s (%d)", e.Call, e.Name, e.Code)
	}
	return fmt.Sprintf("%s: %s (%d): %s", e.Call, e.Name, e.Code, e.Text)
}

// Missing is the error where there is no GPU to use. It says what is not here and what to do about it.
type Missing struct{ What string }

func (e *Missing) Error() string { return e.What }

// Info is what the driver tells of a device.
type Info struct {
	Index      int
	Name       string
	UUID       string // "GPU-…", as nvidia-smi writes it
	Bus        string
	Major      int // compute capability
	Minor      int
	Processors int   // multiprocessors
	Total      int64 // bytes
	Integrated bool  // its memory is the host's

	VirtualMemory bool
	Granularity   int64 // bytes, the least unit of virtual memory
	Recommended   int64 // bytes, the one that the driver recommends

	Pools       bool // stream-ordered ones
	PoolHandles int  // bits: which handles pools can be exported by
}
