package alloctest

import (
	"fmt"
	"sort"

	"github.com/vramscope/vramscope/allocators"
)

// granule is the unit of the driver's addresses and of its mappings, as on a GPU.
const granule = 2 << 20

// A Driver is a device of limited memory that watches whoever uses it. It puts allocations one above
// the other with gaps between them, so that two are never neighbours by chance, and reuses no address:
// a model that mixes up two allocations, or uses one that it gave back, meets addresses that nobody
// holds. Every misuse becomes an entry of Faults.
type Driver struct {
	Capacity int64 // bytes, 0 for no limit
	Faults   []string
	Held     allocators.Gauge // bytes in allocations and mappings
	Takes    int64            // successful calls of Alloc and Map
	Gives    int64            // calls of Free and Unmap

	next     uint64
	allocs   spans // one span an allocation
	reserved spans // one span a reservation
	mapped   spans // one span a granule
	given    spans // all allocations and reservations that ever were
}

// NewDriver is a device with the given memory, 0 for one without limit.
func NewDriver(capacity int64) *Driver { return &Driver{Capacity: capacity, next: 1 << 40} }

func (d *Driver) fault(format string, args ...any) {
	d.Faults = append(d.Faults, fmt.Sprintf(format, args...))
}

func (d *Driver) place(size int64) uint64 {
	addr := d.next
	d.next += uint64(size+granule-1)/granule*granule + granule
	d.given = append(d.given, span{addr, size})
	return addr
}

// Name says which allocation or reservation an address lies in, by letters in the order in which they
// were made, and how far from its start: A+512.
func (d *Driver) Name(addr uint64) string {
	i := d.given.after(addr)
	if i == len(d.given) || addr < d.given[i].addr {
		return fmt.Sprintf("%#x", addr)
	}
	name := ""
	for n := i; ; n = n/26 - 1 {
		name = string(rune('A'+n%26)) + name
		if n < 26 {
			break
		}
	}
	return name + "+" + FormatSize(int64(addr-d.given[i].addr))
}

func (d *Driver) take(size int64) error {
	if d.Capacity > 0 && size > d.Capacity-d.Held.Current {
		return allocators.ErrNoMemory
	}
	d.Held.Add(size)
	d.Takes++
	return nil
}

// Alloc implements allocators.Driver.
func (d *Driver) Alloc(size int64) (uint64, error) {
	if size <= 0 {
		d.fault("alloc of %d bytes", size)
		return 0, allocators.ErrNoMemory
	}
	if err := d.take(size); err != nil {
		return 0, err
	}
	addr := d.place(size)
	d.allocs.add(addr, size)
	return addr, nil
}

// Free implements allocators.Driver.
func (d *Driver) Free(addr uint64, size int64) {
	if !d.allocs.remove(addr, size) {
		d.fault("free of %#x+%d, which is not an allocation", addr, size)
		return
	}
	d.Held.Add(-size)
	d.Gives++
}

// Reserve implements allocators.Driver.
func (d *Driver) Reserve(size int64) (uint64, error) {
	if size <= 0 || size%granule != 0 {
		d.fault("reservation of %d bytes, not a multiple of %d", size, granule)
		return 0, allocators.ErrNoMemory
	}
	addr := d.place(size)
	d.reserved.add(addr, size)
	return addr, nil
}

// Release implements allocators.Driver.
func (d *Driver) Release(addr uint64, size int64) {
	if d.mapped.overlaps(addr, size) {
		d.fault("release of %#x+%d, which has memory mapped", addr, size)
	}
	if !d.reserved.remove(addr, size) {
		d.fault("release of %#x+%d, which is not a reservation", addr, size)
	}
}

// Map implements allocators.Driver.
func (d *Driver) Map(addr uint64, size int64) error {
	if size <= 0 || size%granule != 0 || addr%granule != 0 {
		d.fault("map of %#x+%d, not in multiples of %d", addr, size, granule)
		return allocators.ErrNoMemory
	}
	if !d.reserved.contains(addr, size) {
		d.fault("map of %#x+%d outside a reservation", addr, size)
		return allocators.ErrNoMemory
	}
	if d.mapped.overlaps(addr, size) {
		d.fault("map of %#x+%d, which has memory already", addr, size)
		return allocators.ErrNoMemory
	}
	if err := d.take(size); err != nil {
		return err
	}
	for end := addr + uint64(size); addr < end; addr += granule {
		d.mapped.add(addr, granule)
	}
	return nil
}

// Unmap implements allocators.Driver. Any granules may be unmapped together, whatever calls mapped them.
func (d *Driver) Unmap(addr uint64, size int64) {
	if size <= 0 || size%granule != 0 || addr%granule != 0 {
		d.fault("unmap of %#x+%d, not in multiples of %d", addr, size, granule)
		return
	}
	for a := addr; a < addr+uint64(size); a += granule {
		if !d.mapped.remove(a, granule) {
			d.fault("unmap of %#x+%d: no memory at %#x", addr, size, a)
			return
		}
	}
	d.Held.Add(-size)
	d.Gives++
}

// Memory implements allocators.Driver.
func (d *Driver) Memory() (free, total int64) {
	if d.Capacity == 0 {
		return 0, 0
	}
	return d.Capacity - d.Held.Current, d.Capacity
}

// holds reports whether the whole range is memory that the caller holds.
func (d *Driver) holds(addr uint64, size int64) bool {
	return d.allocs.contains(addr, size) || d.mapped.covers(addr, size)
}

// spans are disjoint ranges in the order of their addresses. Plain slices: the suite's scripts are short,
// and the judge of other code should be obviously right.
type spans []span

type span struct {
	addr uint64
	size int64
}

func (s span) end() uint64 { return s.addr + uint64(s.size) }

// after is the index of the first span that ends above addr.
func (s spans) after(addr uint64) int {
	return sort.Search(len(s), func(i int) bool { return s[i].end() > addr })
}

func (s spans) overlaps(addr uint64, size int64) bool {
	i := s.after(addr)
	return i < len(s) && s[i].addr < addr+uint64(size)
}

// contains reports whether one span holds the whole range.
func (s spans) contains(addr uint64, size int64) bool {
	i := s.after(addr)
	return i < len(s) && s[i].addr <= addr && addr+uint64(size) <= s[i].end()
}

// covers reports whether neighbouring spans together hold the whole range.
func (s spans) covers(addr uint64, size int64) bool {
	end := addr + uint64(size)
	for i := s.after(addr); i < len(s) && s[i].addr <= addr; i++ {
		if addr = s[i].end(); addr >= end {
			return true
		}
	}
	return false
}

func (s *spans) add(addr uint64, size int64) {
	i := s.after(addr)
	*s = append(*s, span{})
	copy((*s)[i+1:], (*s)[i:])
	(*s)[i] = span{addr, size}
}

// remove takes away a span of exactly this place and size.
func (s *spans) remove(addr uint64, size int64) bool {
	i := s.after(addr)
	if i == len(*s) || (*s)[i] != (span{addr, size}) {
		return false
	}
	*s = append((*s)[:i], (*s)[i+1:]...)
	return true
}
