package gpu

import (
	"cmp"
	"slices"

	"github.com/vramscope/vramscope/allocators"
	"github.com/vramscope/vramscope/allocators/driver/sim"
)

// relocated is a driver whose memory has other addresses for the model than it really has: those of a simulated
// device. PyTorch's allocator breaks ties by address, so two processes in which the driver found other room
// can differ in what they do; this one decides as the recorded process did, over memory that is really taken.
type relocated struct {
	allocators.Driver
	sim   *sim.Driver
	moved []moved // by address
}

// moved is an allocation: where the model has it, and where it is.
type moved struct {
	addr, real uint64
	size       int64
}

// find is the place of the allocation that an address lies in, or that of the next.
func (r *relocated) find(addr uint64) int {
	i, _ := slices.BinarySearchFunc(r.moved, addr, func(m moved, a uint64) int { return cmp.Compare(m.addr+uint64(m.size)-1, a) })
	return i
}

// Alloc implements allocators.Driver.
func (r *relocated) Alloc(size int64) (uint64, error) {
	at, err := r.Driver.Alloc(size)
	if err != nil {
		return 0, err
	}
	addr, err := r.sim.Alloc(size)
	if err != nil {
		r.Driver.Free(at, size)
		return 0, err
	}
	r.moved = slices.Insert(r.moved, r.find(addr), moved{addr, at, size})
	return addr, nil
}

// Free implements allocators.Driver.
func (r *relocated) Free(addr uint64, size int64) {
	i := r.find(addr)
	if i == len(r.moved) || r.moved[i].addr != addr {
		r.Driver.Free(addr, size) // which is no allocation, and so says it
		return
	}
	r.sim.Free(addr, size)
	r.Driver.Free(r.moved[i].real, size)
	r.moved = slices.Delete(r.moved, i, i+1)
}

// real is where a byte of an allocation is.
func (r *relocated) real(addr uint64) uint64 {
	if i := r.find(addr); i < len(r.moved) && r.moved[i].addr <= addr {
		return addr - r.moved[i].addr + r.moved[i].real
	}
	return addr // of a reservation
}
