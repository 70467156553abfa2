// Package sim is a CUDA driver without a device: it has a capacity and it puts memory at the addresses
// that the real driver would have chosen, so that a model of an allocator, whose ties are broken by
// address, decides as it would have on a GPU.
//
// # What is kept
//
// The driver takes address space from the system in chunks, 32 MiB or a multiple, and serves requests
// from them. Here a chunk is its range and its holes (chunks.go); the address space that nobody uses is
// a sorted set of gaps (spans.go). At the start there is what a fresh process shows: three chunks that
// the context made, with two holes, and open space below them.
//
// # One Alloc
//
//  1. The size is rounded up to a granule of 2 MiB. Requests of less share such blocks (small.go).
//  2. Refused if what is in use and the request together exceed the capacity.
//  3. The chunks are asked from the newest to the oldest; the first with a hole large enough serves the
//     request from the smallest such hole of its own, at the low end.
//  4. Otherwise a new chunk is made at the top of the highest gap that has room for it and almost
//     32 MiB more. The block is at its low end, the rest of it is a hole.
//
// # One Free
//
// The block becomes a hole and merges with its neighbours in the chunk, never across chunks. A chunk
// that is one hole goes back to the system at once and merges with the gaps beside it.
//
// # Reservations
//
// Address space for expandable segments is taken from the bottom, in multiples of 32 MiB, the lowest
// gap that holds it (reserve.go). Mapping memory into it moves no address; it is only counted.
//
// # What is not modelled
//
// What else lives in the process (libraries, host memory, the driver's own blocks) takes and opens places
// at times that no recording of a GPU shows: Config.Events are for that, and Variants is a set of guesses
// at it.
//
// docs/allocators/driver-placement.md has the rules with the evidence.
package sim

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/vramscope/vramscope/allocators"
)

const (
	mib = 1 << 20

	// Granule is the unit of addresses and of address space taken, in bytes.
	Granule = 2 * mib
	// ChunkUnit is the unit and the alignment of what the driver takes from the system, in bytes.
	ChunkUnit = 32 * mib
	// slack is what a gap must have beyond a chunk: the driver maps chunk and alignment less a page,
	// then gives back what sticks out.
	slack = ChunkUnit - 4096

	// DefaultBase is where the context's first chunk lies when Config says nothing. The true one
	// differs from process to process; only the order of addresses matters to an allocator.
	DefaultBase = uint64(0x7f4000000000)

	addressLimit = uint64(1) << 47
)

// Policy says how Alloc chooses addresses.
type Policy uint8

const (
	// Placed follows the driver's rules, as measured.
	Placed Policy = iota
	// Descending puts each allocation below all earlier ones and reuses nothing: the best guess for a
	// driver whose rules are not known.
	Descending
	// Ascending puts each above all earlier ones and reuses nothing.
	Ascending
)

// Config describes a device and the process around it. The zero value is a device without limit in a
// fresh process, by the driver's rules.
type Config struct {
	// Capacity is how many bytes can be in use at once, 0 for no limit.
	Capacity int64
	Policy   Policy
	// Base is the address of the context's first chunk, a multiple of ChunkUnit; 0 is DefaultBase. A
	// base that cannot be (not aligned, too low for the layout, outside user space) counts as 0.
	Base uint64
	// NoBaseHole leaves out the 24 MiB hole of the context's first chunk.
	NoBaseHole bool
	// Held are the allocations that exist at the start, for a replay that begins in the middle of a
	// process. They stand in for the fresh process: chunks are taken to be around them as rule and
	// need allow, lower ones newer, and open space below. Base means nothing then.
	Held []Range
	// Reserved are the reservations that exist at the start.
	Reserved []Range
	// Mapped is how many bytes of those have memory behind them.
	Mapped int64
	// Events are what happens in the process besides the allocator's calls. Those at operation 0 or
	// before happen in New, the others when Tick reaches them.
	Events []Event
}

// Range is a part of the address space.
type Range struct {
	Addr uint64 // first byte
	Size int64  // bytes
}

// Driver is a simulated device. It is an allocators.Driver and not safe for concurrent use.
type Driver struct {
	capacity int64
	used     int64 // bytes of allocations, in whole granules, and of mapped pages
	mapped   int64 // those of mapped pages
	faults   int64

	policy Policy
	cursor uint64 // Descending: lowest address used; Ascending: the first one above all

	chunks   chunkList
	gaps     spanSet
	live     map[uint64]block // what Alloc gave out, by address, and the blocks that small requests share
	shared   sharedBlocks
	reserved map[uint64]int64 // what Reserve gave out: sizes by address

	events []Event // still to come, in order
}

var _ allocators.Driver = (*Driver)(nil)

// block is one allocation: what was asked, and the chunk it is in (nil under the plain policies).
type block struct {
	size  int64
	chunk *chunk
}

// taken is the memory that a block takes, bytes.
func (b block) taken() int64 { return int64(roundUp(uint64(b.size), Granule)) }

// span is the address space that a block takes.
func (b block) span(addr uint64) span {
	return span{addr, addr + roundUp(uint64(b.size), Granule)}
}

// New makes a device at the start of a process, or as Config.Held says.
func New(c Config) *Driver {
	d := &Driver{
		capacity: max(c.Capacity, 0),
		policy:   c.Policy,
		live:     map[uint64]block{},
		reserved: map[uint64]int64{},
		events:   slices.Clone(c.Events),
	}
	slices.SortStableFunc(d.events, func(a, b Event) int { return cmp.Compare(a.Op, b.Op) })
	switch d.policy {
	case Descending:
		d.openSpace(plainBottom)
		d.cursor = DefaultBase
		d.hold(c.Held)
	case Ascending:
		d.openSpace(plainBottom)
		d.cursor = plainBottom
		d.hold(c.Held)
	default:
		d.policy = Placed
		if len(c.Held) == 0 || !d.hold(c.Held) {
			d.startLayout(c.base(), !c.NoBaseHole)
		}
	}
	d.holdReserved(c.Reserved, c.Mapped)
	d.Tick(0)
	return d
}

// base is the address of the context's first chunk, or of where it could be above what is held.
func (c Config) base() uint64 {
	if len(c.Held) > 0 {
		top := uint64(0)
		for _, r := range c.Held {
			if r.valid() {
				top = max(top, roundUp(r.Addr+uint64(r.Size), ChunkUnit))
			}
		}
		if top > 0 {
			return top
		}
	}
	if c.Base == 0 || c.Base%ChunkUnit != 0 || c.Base < 2*layoutBelow || c.Base > addressLimit-ChunkUnit {
		return DefaultBase
	}
	return c.Base
}

// valid reports whether a range is one of user space, with room for rounding.
func (r Range) valid() bool {
	return r.Size > 0 && r.Addr < addressLimit-ChunkUnit && uint64(r.Size) <= addressLimit-ChunkUnit-r.Addr
}

// layoutBelow is how far the context's layout reaches below the base.
const layoutBelow = 480 * mib

// startLayout makes what a fresh process with a context has: a chunk at the base with its first 8 MiB
// in use; 64 MiB in use below it; below that a chunk of 416 MiB that one block of 414 MiB fills but
// for the last 2 MiB; open space from there down. Nothing of it is ever freed here.
func (d *Driver) startLayout(base uint64, hole bool) {
	d.openSpace(base - layoutBelow)
	first := d.chunks.add(span{base, base + ChunkUnit})
	if hole {
		first.addHole(span{base + 8*mib, base + ChunkUnit})
	}
	d.chunks.update(first)
	d.chunks.add(span{base - 64*mib, base})
	third := d.chunks.add(span{base - layoutBelow, base - 64*mib})
	third.addHole(span{base - 66*mib, base - 64*mib})
	d.chunks.update(third)
}

// Alloc takes size bytes, or returns allocators.ErrNoMemory. Anything but a positive size is an error.
func (d *Driver) Alloc(size int64) (uint64, error) {
	if size <= 0 {
		return 0, fmt.Errorf("allocation of %d bytes: the size must be positive", size)
	}
	if size < Granule {
		return d.allocSmall(size)
	}
	return d.allocWhole(size)
}

// allocWhole serves a request of whole granules, or rounded up to them.
func (d *Driver) allocWhole(size int64) (uint64, error) {
	if uint64(size) > addressLimit {
		return 0, allocators.ErrNoMemory
	}
	n := roundUp(uint64(size), Granule)
	if !d.fits(int64(n)) {
		return 0, allocators.ErrNoMemory
	}
	addr, c, ok := d.place(n)
	if !ok {
		return 0, allocators.ErrNoMemory
	}
	d.live[addr] = block{size, c}
	d.used += int64(n)
	return addr, nil
}

// Free gives an allocation back. The address decides; one that is not allocated, or a size that is not
// the one asked for, counts as a fault.
func (d *Driver) Free(addr uint64, size int64) {
	if !d.freeSmall(addr, size) {
		d.freeWhole(addr, size)
	}
}

func (d *Driver) freeWhole(addr uint64, size int64) {
	b, ok := d.live[addr]
	if !ok {
		d.faults++
		return
	}
	if b.size != size {
		d.faults++
	}
	delete(d.live, addr)
	d.used -= b.taken()
	switch {
	case b.chunk != nil:
		d.release(b.chunk, b.span(addr))
	case d.policy != Placed:
		d.gaps.add(b.span(addr))
	}
}

// Map puts memory behind size bytes of a reservation, all or none.
func (d *Driver) Map(addr uint64, size int64) error {
	if size <= 0 {
		return fmt.Errorf("mapping of %d bytes: the size must be positive", size)
	}
	if !d.fits(size) {
		return allocators.ErrNoMemory
	}
	d.used += size
	d.mapped += size
	return nil
}

// Unmap takes memory away again. More than is mapped counts as a fault.
func (d *Driver) Unmap(addr uint64, size int64) {
	if size <= 0 || size > d.mapped {
		d.faults++
		size = max(0, min(size, d.mapped))
	}
	d.used -= size
	d.mapped -= size
}

// Memory says how many bytes are free and how many there are; without a limit both are 0.
func (d *Driver) Memory() (free, total int64) {
	if d.capacity == 0 {
		return 0, 0
	}
	return max(d.capacity-d.used, 0), d.capacity
}

// Used is how many bytes allocations and mapped pages take, allocations in whole granules.
func (d *Driver) Used() int64 { return d.used }

// Faults counts calls that a correct caller does not make: frees of what was not allocated, and such.
func (d *Driver) Faults() int64 { return d.faults }

// fits reports whether the device has size bytes left. Written so that no size overflows.
func (d *Driver) fits(size int64) bool {
	if d.capacity == 0 {
		return size <= int64(addressLimit)
	}
	return size <= d.capacity-d.used
}

// roundUp rounds to a multiple of unit; n is far from the end of the type.
func roundUp(n, unit uint64) uint64 { return (n + unit - 1) / unit * unit }

func roundDown(n, unit uint64) uint64 { return n / unit * unit }
