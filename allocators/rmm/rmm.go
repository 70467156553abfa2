// Package rmm models three memory resources of RAPIDS RMM, the RAPIDS Memory Manager, which cuDF, cuML,
// Dask and often PyTorch and CuPy get device memory from: the pool (pool.go), binning (binning.go) and the
// arena (arena.go). The source is rapidsai/rmm as of 2026 (cpp/include/rmm/mr/detail and
// cpp/src/mr/detail; the pool at commit 06ddb2421fb9, the arena at 08cef2a2f91b, binning at 10cdb41c2123).
//
// In all three, sizes are multiples of 256 bytes, and what is freed belongs to the stream that it was
// freed on. Here that is the stream of the request. A block freed with pending, which RMM has no notion
// of, keeps its memory until Complete.
//
// None of them gives memory back before the resource is destroyed (the pool does in one case, see there),
// so EmptyCache does nothing.
package rmm

import (
	"github.com/vramscope/vramscope/allocators"
)

// alignment is what sizes are multiples of: CUDA_ALLOCATION_ALIGNMENT.
const alignment = 256

func alignUp(n int64) int64   { return (n + alignment - 1) &^ (alignment - 1) }
func alignDown(n int64) int64 { return n &^ (alignment - 1) }

// streams numbers the streams in the order in which a resource meets them.
type streams struct {
	index map[uint32]uint16
	names []uint32 // by number
}

// name is the stream of a number.
func (s *streams) name(n uint16) uint32 { return s.names[n] }

// of is the number of a stream; one beyond the 65,535th shares the last number.
func (s *streams) of(stream uint32) uint16 {
	n, ok := s.index[stream]
	if !ok {
		if s.index == nil {
			s.index = map[uint32]uint16{}
		}
		n = uint16(min(len(s.names), 1<<16-1))
		s.index[stream] = n
		if len(s.names) < 1<<16 {
			s.names = append(s.names, stream)
		}
	}
	return n
}

// upstream is where a resource gets its memory: the driver, or a pool over the driver.
type upstream interface {
	allocate(size int64, stream uint32) (addr uint64, slot uint32, ok bool)
	deallocate(addr uint64, size int64, slot uint32, stream uint32)
	// cached is the bytes of free memory that nothing keeps from being given back, largest the largest
	// free block.
	cached() (bytes, largest int64)
}

// account is what the pool reports its dealings with the driver to.
type account interface {
	Took(size int64)
	Gave(size int64)
	Flushed()
}

// direct is the upstream without a pool: cuda_memory_resource, a call of the driver each.
type direct struct {
	driver  allocators.Driver
	account account
}

func (d *direct) allocate(size int64, _ uint32) (addr uint64, slot uint32, ok bool) {
	addr, err := d.driver.Alloc(size)
	if err != nil {
		return 0, 0, false
	}
	d.account.Took(size)
	return addr, 0, true
}

func (d *direct) deallocate(addr uint64, size int64, _, _ uint32) {
	d.driver.Free(addr, size)
	d.account.Gave(size)
}

func (d *direct) cached() (bytes, largest int64) { return 0, 0 }
