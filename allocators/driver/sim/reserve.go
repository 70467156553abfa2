package sim

import (
	"fmt"

	"github.com/vramscope/vramscope/allocators"
)

// Reservations come from the bottom of the address space. The first of a process was always seen at
// reserveBottom, and none lay across the first tebibyte: one that would have started 64 MiB above it.
// Both are kept as places that are never free, so that the lowest gap gives the answer by itself.
const (
	reserveBottom = uint64(0x302000000)
	tebibyte      = uint64(1) << 40
	aboveTebibyte = tebibyte + 64*mib

	// plainBottom is where the plain policies' addresses end, far above any reservations.
	plainBottom = uint64(1) << 45
)

// openSpace makes the address space up to top free, but for those places.
func (d *Driver) openSpace(top uint64) {
	for _, s := range []span{
		{ChunkUnit, reserveBottom - ChunkUnit},
		{reserveBottom, tebibyte},
		{aboveTebibyte, addressLimit},
	} {
		if s.start < top {
			d.gaps.add(span{s.start, min(s.end, top)})
		}
	}
}

// Reserve takes address space: the lowest gap that holds size, rounded up to ChunkUnit. It needs no
// memory, and fails only when the address space is used up.
func (d *Driver) Reserve(size int64) (uint64, error) {
	if size <= 0 {
		return 0, fmt.Errorf("reservation of %d bytes: the size must be positive", size)
	}
	if uint64(size) > addressLimit {
		return 0, allocators.ErrNoMemory
	}
	n := roundUp(uint64(size), ChunkUnit)
	g, ok := d.gaps.lowest(n, reserveBottom)
	if !ok {
		return 0, allocators.ErrNoMemory
	}
	d.gaps.remove(span{g.start, g.start + n})
	d.reserved[g.start] = size
	return g.start, nil
}

// Release gives a reservation back, whole. One that does not exist, or another size, counts as a fault.
func (d *Driver) Release(addr uint64, size int64) {
	have, ok := d.reserved[addr]
	if !ok {
		d.faults++
		return
	}
	if have != size {
		d.faults++
	}
	delete(d.reserved, addr)
	d.gaps.add(span{addr, addr + roundUp(uint64(have), ChunkUnit)})
}
