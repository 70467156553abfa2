package cuda

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/vramscope/vramscope/allocators"
)

// DriverOptions say how much a Driver may take, and in which units.
type DriverOptions struct {
	// Most is how many bytes it may hold at once, 0 for whatever the device has. More is refused without
	// asking the device.
	Most int64
	// Page is the unit of what is mapped in multiples of it, bytes: each unit is memory of its own, which can be
	// unmapped alone. It is the page of PyTorch's expandable segments for large blocks, or that of a pool.
	// What is mapped in other sizes is made of the device's granules. 0 is the same for all.
	Page int64
}

// Driver is a device as models of allocators see it. What it was asked for is noted, so that all of it can
// be given back.
type Driver struct {
	dev *Device
	opt DriverOptions

	held     int64
	allocs   map[uint64]int64 // sizes by address
	reserved []reserved
	pieces   map[uint64]piece // mapped memory by address
	fills    []Op             // not made yet
	filled   bool             // something was, since the device was waited for
	batch    []Op

	start, least int64 // bytes free on the device at the start, and at least since then
	refused      int64
	beyond       int64
	err          error
}

var _ allocators.Driver = (*Driver)(nil)

type reserved struct {
	addr uint64
	size int64
}

// piece is memory that was made by one call.
type piece struct {
	size   int64
	handle uint64
}

// NewDriver notes what is free now, and counts from there.
func NewDriver(d *Device, opt DriverOptions) (*Driver, error) {
	free, _, err := d.Memory()
	if err != nil {
		return nil, err
	}
	return &Driver{dev: d, opt: opt, allocs: map[uint64]int64{}, pieces: map[uint64]piece{}, start: free, least: free}, nil
}

// Alloc is cuMemAlloc.
func (d *Driver) Alloc(size int64) (uint64, error) {
	if size <= 0 {
		return 0, fmt.Errorf("allocation of %d bytes: the size must be positive", size)
	}
	if !d.may(size) {
		return 0, allocators.ErrNoMemory
	}
	op := d.begin(1)
	op[0] = Op{Kind: Alloc, Size: size, Flags: Look}
	if err := d.run(op); err != nil {
		return 0, err
	}
	d.allocs[op[0].Addr] = size
	d.held += size
	return op[0].Addr, nil
}

// Free is cuMemFree.
func (d *Driver) Free(addr uint64, size int64) {
	have, ok := d.allocs[addr]
	if !ok || have != size {
		d.note(fmt.Errorf("free of %d bytes at %#x, which is not an allocation", size, addr))
		return
	}
	op := d.begin(1)
	op[0] = Op{Kind: Free, Addr: addr}
	if d.run(op) == nil {
		delete(d.allocs, addr)
		d.held -= size
	}
}

// Reserve is cuMemAddressReserve.
func (d *Driver) Reserve(size int64) (uint64, error) {
	if err := d.dev.NeedVirtualMemory(); err != nil {
		d.note(err)
		return 0, err
	}
	if size <= 0 || size%d.dev.Granularity != 0 {
		return 0, fmt.Errorf("reservation of %d bytes: not a multiple of %d", size, d.dev.Granularity)
	}
	op := d.begin(1)
	op[0] = Op{Kind: Reserve, Size: size}
	if err := d.run(op); err != nil {
		return 0, err
	}
	d.reserved = append(d.reserved, reserved{op[0].Addr, size})
	return op[0].Addr, nil
}

// Release is cuMemAddressFree.
func (d *Driver) Release(addr uint64, size int64) {
	i := slices.Index(d.reserved, reserved{addr, size})
	if i < 0 {
		d.note(fmt.Errorf("release of %d bytes at %#x, which is not a reservation", size, addr))
		return
	}
	op := d.begin(1)
	op[0] = Op{Kind: Release, Addr: addr, Size: size}
	if d.run(op) == nil {
		d.reserved = slices.Delete(d.reserved, i, i+1)
	}
}

// unit is the size of the pieces that a mapping is made of, 0 if it cannot be.
func (d *Driver) unit(addr uint64, size int64) int64 {
	i := slices.IndexFunc(d.reserved, func(r reserved) bool {
		return addr >= r.addr && addr+uint64(size) <= r.addr+uint64(r.size)
	})
	if size <= 0 || i < 0 {
		return 0
	}
	offset := int64(addr - d.reserved[i].addr)
	for _, unit := range []int64{d.opt.Page, d.dev.Granularity} {
		if unit > 0 && size%unit == 0 && offset%unit == 0 {
			return unit
		}
	}
	return 0
}

// Map is cuMemCreate for each piece, cuMemMap for each, and cuMemSetAccess for all together, as PyTorch does
// it. If one fails, those before it are undone.
func (d *Driver) Map(addr uint64, size int64) error {
	unit := d.unit(addr, size)
	if unit == 0 {
		err := fmt.Errorf("mapping of %d bytes at %#x: not in a reservation, or not in its units", size, addr)
		d.note(err)
		return err
	}
	if !d.may(size) {
		return allocators.ErrNoMemory
	}
	n := int(size / unit)
	d.dev.Slots(n)
	ops := d.begin(2*n + 1)
	for i := range n {
		ops[i] = Op{Kind: Create, Size: unit, Slot: uint32(i), Flags: InSlot | Stop}
		ops[n+i] = Op{Kind: Map, Addr: addr + uint64(i)*uint64(unit), Size: unit, Slot: uint32(i), Flags: InSlot | Stop}
	}
	ops[2*n] = Op{Kind: Access, Addr: addr, Size: size, Flags: Stop | Look}
	err := d.run(ops)
	for i := range n {
		if ops[i].Result == 0 && (err == nil || ops[n+i].Result == 0) {
			d.pieces[addr+uint64(i)*uint64(unit)] = piece{unit, d.dev.slots[i]}
		}
	}
	if err == nil {
		d.held += size
		return nil
	}
	made := slices.Clone(ops)
	for i := range n {
		at := addr + uint64(i)*uint64(unit)
		if made[n+i].Result == 0 {
			d.undo(at)
		} else if made[i].Result == 0 {
			op := d.begin(1)
			op[0] = Op{Kind: Discard, Handle: d.dev.slots[i]}
			d.note(d.run(op))
		}
	}
	return err
}

// undo takes a piece away.
func (d *Driver) undo(addr uint64) {
	p := d.pieces[addr]
	ops := d.begin(2)
	ops[0] = Op{Kind: Unmap, Addr: addr, Size: p.size}
	ops[1] = Op{Kind: Discard, Handle: p.handle}
	if err := d.run(ops); err != nil {
		d.note(err)
		return
	}
	delete(d.pieces, addr)
}

// Unmap is cuMemUnmap and cuMemRelease for each piece.
func (d *Driver) Unmap(addr uint64, size int64) {
	var ops []Op
	for at, end := addr, addr+uint64(max(size, 0)); at < end; {
		p, ok := d.pieces[at]
		if !ok || at+uint64(p.size) > end {
			d.note(fmt.Errorf("unmapping of %d bytes at %#x, which are not whole mappings", size, addr))
			return
		}
		ops = append(ops, Op{Kind: Unmap, Addr: at, Size: p.size}, Op{Kind: Discard, Handle: p.handle})
		at += uint64(p.size)
	}
	if d.flush(); d.filled {
		d.note(d.dev.Sync()) // memory that is written to must not go away
		d.filled = false
	}
	if err := d.run(ops); err != nil {
		return
	}
	for i := 0; i < len(ops); i += 2 {
		delete(d.pieces, ops[i].Addr)
	}
	d.held -= size
}

// Memory is what may still be taken, and how much the device has.
func (d *Driver) Memory() (free, total int64) {
	free, total, err := d.dev.Memory()
	d.note(err)
	if d.opt.Most > 0 {
		free = min(free, d.opt.Most-d.held)
	}
	return free, total
}

// Fill writes to memory, so that the device must have it. It may happen later, and before anything is given
// back.
func (d *Driver) Fill(addr uint64, size int64) {
	d.fills = append(d.fills, Op{Kind: Fill, Addr: addr, Size: size})
	if len(d.fills) == 256 {
		d.flush()
	}
}

// flush makes what was put off.
func (d *Driver) flush() {
	if len(d.fills) > 0 {
		fills := d.fills
		d.fills = nil
		d.filled = true
		d.note(d.run(fills))
		d.fills = fills[:0]
	}
}

// may says whether so many bytes more are within what may be taken.
func (d *Driver) may(size int64) bool {
	if d.opt.Most > 0 && size > d.opt.Most-d.held {
		d.beyond++
		return false
	}
	return true
}

// begin gives room for n calls, valid until the next.
func (d *Driver) begin(n int) []Op {
	d.flush()
	d.batch = slices.Grow(d.batch[:0], n)[:n]
	return d.batch
}

// run makes calls and says what came of the first that failed: allocators.ErrNoMemory if the device has no
// more, and otherwise an error that is noted as well.
func (d *Driver) run(ops []Op) error {
	if _, err := d.dev.Run(ops); err != nil {
		d.note(err)
		return err
	}
	for i := range ops {
		op := &ops[i]
		if op.Available >= 0 {
			d.least = min(d.least, op.Available)
		}
		if err := d.dev.Err(op); err != nil {
			if op.OutOfMemory() && (op.Kind == Alloc || op.Kind == Create) {
				d.refused++
				return allocators.ErrNoMemory
			}
			d.note(err)
			return err
		}
	}
	return nil
}

func (d *Driver) note(err error) {
	if d.err == nil {
		d.err = err
	}
}

// Err is the first error that was not simply a lack of memory. What was measured after it means nothing.
func (d *Driver) Err() error { return d.err }

// Held is how many bytes of allocations and mappings there are.
func (d *Driver) Held() int64 { return d.held }

// Peak is by how much less was free on the device at least than at the start, in bytes, by its own account.
func (d *Driver) Peak() int64 { return d.start - d.least }

// Refused is how often the device had not enough memory; Beyond how often it was not asked because more
// than DriverOptions.Most would have been held.
func (d *Driver) Refused() int64 { return d.refused }

// Beyond is described at Refused.
func (d *Driver) Beyond() int64 { return d.beyond }

// GiveBack gives everything back that is held.
func (d *Driver) GiveBack() error {
	d.fills = nil
	errs := []error{d.dev.Sync()}
	for _, addr := range slices.Sorted(maps.Keys(d.pieces)) {
		errs = append(errs, d.each(Op{Kind: Unmap, Addr: addr, Size: d.pieces[addr].size}, Op{Kind: Discard, Handle: d.pieces[addr].handle}))
	}
	for _, r := range d.reserved {
		errs = append(errs, d.each(Op{Kind: Release, Addr: r.addr, Size: r.size}))
	}
	for _, addr := range slices.Sorted(maps.Keys(d.allocs)) {
		errs = append(errs, d.each(Op{Kind: Free, Addr: addr}))
	}
	clear(d.pieces)
	clear(d.allocs)
	d.reserved, d.held = nil, 0
	return errors.Join(errs...)
}

// each makes calls, one after the other whatever comes of them.
func (d *Driver) each(ops ...Op) error {
	var errs []error
	for i := range ops {
		errs = append(errs, d.dev.one(&ops[i]))
	}
	return errors.Join(errs...)
}
