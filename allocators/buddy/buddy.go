// Package buddy models a binary buddy allocator: Knowlton's system as Knuth gives it (The Art of Computer
// Programming, volume 1, section 2.5, algorithms R and S), with a smallest block and a top order as
// operating systems have them. It is what a GPU's memory would look like under the allocator with the
// simplest bookkeeping and the largest rounding.
//
// # Structures
//
// Memory comes from the driver in regions of a power of two bytes: TopBlock, or more for a larger request.
// A region is cut into units of MinBlock bytes. A block of order k is 2^k units and begins at a multiple
// of 2^k within its region; the two blocks of order k that make one of order k+1 are buddies, and their
// numbers differ in one bit. Units are numbered through all regions, a region beginning at a multiple of
// its own size, so that one bitmap an order holds the free blocks of all regions and a buddy is found
// with one exclusive or:
//
//	free[k] has i        ==  the 2^k units from i<<k on are one free block
//	bit k of available   ==  free[k] is not empty
//	two buddies are never both in free[k] below their region's order
//
// # One Malloc
//
//  1. The size is rounded up to a power of two, at least MinBlock: the order k.
//  2. The least order j ≥ k with a free block is taken, in it the block with the least number.
//     (Regions are numbered as they are made, so this is the lowest address within the oldest region.)
//  3. While j > k the block is halved and the upper half becomes free.
//  4. Where no order has a block, the driver is asked for a region. If it refuses, the regions that are
//     wholly free are given back and it is asked once more; then the request is out of memory.
//
// # One Free
//
// While the buddy is free and the block is not a whole region, the two become one block of the next order.
//
// # What is counted
//
// The bytes that rounding to powers of two costs are Allocated minus Requested; Orders has them by order.
// Stats.AtPeak: Cached are the regions that are wholly free, Stranded are free blocks of regions that have
// a live block, Rounding is the loss to powers of two.
//
// # What is not modelled
//
// Streams and pools make no difference. A block freed with pending keeps its memory until Complete; the
// device is never waited for.
package buddy

import (
	"math/bits"
	"slices"

	"github.com/vramscope/vramscope/allocators"
	"github.com/vramscope/vramscope/allocators/internal/ledger"
)

// About is the model in one line.
const About = "binary buddy system: powers of two, halves merge with their other half (Knuth, TAOCP 1, 2.5)"

// The defaults of Config.
const (
	DefaultMinBlock = 512
	DefaultTopBlock = 32 << 20
)

// Config is what can be set. The zero value gives the defaults.
type Config struct {
	MinBlock int64 // bytes of the smallest block, rounded up to a power of two, at least 64
	TopBlock int64 // bytes of a region, rounded up to a power of two that is at least MinBlock
}

// Allocator is the model.
type Allocator struct {
	driver   allocators.Driver
	account  ledger.Ledger
	minShift int // MinBlock is 1<<minShift
	top      int // order of a region that is not larger for the sake of a request

	free      []bitmap // by order
	available uint64
	cached    int64 // bytes of regions that are wholly free

	regions []region
	slots   []slot         // by unit >> top
	spare   map[int][]uint // by order: places in the numbering that regions gave up
}

// A slot is 2^top units of the numbering; a region has one or more.
type slot struct {
	base  uint64 // address of unit 0 if the region began there
	order int    // of the region
}

type region struct {
	addr  uint64
	first uint // its first unit
	order int
	held  bool // false once it has gone back to the driver
}

// New is an allocator that holds no memory yet.
func New(driver allocators.Driver, cfg Config) *Allocator {
	if cfg.MinBlock <= 0 {
		cfg.MinBlock = DefaultMinBlock
	}
	if cfg.TopBlock <= 0 {
		cfg.TopBlock = DefaultTopBlock
	}
	a := &Allocator{driver: driver, spare: map[int][]uint{}}
	a.minShift = log2(min(max(cfg.MinBlock, 64), 1<<40))
	a.top = max(log2(min(cfg.TopBlock, 1<<40))-a.minShift, 0)
	return a
}

// log2 rounds up.
func log2(n int64) int { return bits.Len64(uint64(n - 1)) }

func (a *Allocator) bytes(order int) int64 { return 1 << (order + a.minShift) }

// Malloc implements allocators.Allocator.
func (a *Allocator) Malloc(req allocators.Request) error {
	if err := a.account.Admit(req); err != nil {
		return err
	}
	order := max(log2(req.Size)-a.minShift, 0)
	if a.available>>order == 0 && !a.grow(order) {
		return a.account.Refuse(req.Size, a.bytes(max(order, a.top)), a.largest())
	}
	j := order + bits.TrailingZeros64(a.available>>order)
	i := a.free[j].least()
	unit := uint(i) << j
	at := &a.slots[unit>>a.top]
	if j == at.order {
		a.cached -= a.bytes(j)
	}
	a.take(j, i)
	for j > order {
		j--
		a.put(j, int(unit>>j)|1)
	}
	size := a.bytes(order)
	a.account.Open(req, at.base+uint64(unit)<<a.minShift, size, uint32(unit))
	if a.account.Raised() {
		a.account.AtPeak(a.cached, a.largest())
	}
	return nil
}

func (a *Allocator) put(order, i int) {
	a.free[order].add(i)
	a.available |= 1 << order
}

func (a *Allocator) take(order, i int) {
	f := &a.free[order]
	f.remove(i)
	if f.n == 0 {
		a.available &^= 1 << order
	}
}

// Free implements allocators.Allocator.
func (a *Allocator) Free(block uint32, pending bool) {
	if e := a.account.Release(block, pending); e != nil {
		a.merge(e)
	}
}

// Complete implements allocators.Allocator.
func (a *Allocator) Complete(block uint32) {
	if e := a.account.Complete(block); e != nil {
		a.merge(e)
	}
}

func (a *Allocator) merge(e *ledger.Entry) {
	order := log2(e.Size) - a.minShift
	unit := uint(e.Slot)
	whole := a.slots[unit>>a.top].order
	for order < whole {
		buddy := int(unit>>order) ^ 1
		if !a.free[order].has(buddy) {
			break
		}
		a.take(order, buddy)
		order++
	}
	a.put(order, int(unit>>order))
	if order == whole {
		a.cached += a.bytes(order)
	}
}

// grow takes a region from the driver that holds a block of the given order.
func (a *Allocator) grow(order int) bool {
	order = max(order, a.top)
	if order+a.minShift > 62 {
		return false
	}
	size := a.bytes(order)
	addr, err := a.driver.Alloc(size)
	if err != nil && a.cached > 0 {
		a.account.Flushed()
		a.EmptyCache()
		addr, err = a.driver.Alloc(size)
	}
	if err != nil {
		return false
	}
	first, ok := a.number(order)
	if !ok {
		a.driver.Free(addr, size)
		return false
	}
	a.account.Took(size)
	a.place(region{addr: addr, first: first, order: order, held: true})
	return true
}

// number says where in the numbering of units a new region of the order goes. A model has 2^32 units:
// 2 TiB of the default ones.
func (a *Allocator) number(order int) (first uint, ok bool) {
	if s := a.spare[order]; len(s) > 0 {
		a.spare[order] = s[:len(s)-1]
		return s[len(s)-1], true
	}
	size := uint(1) << order
	end := uint(len(a.slots)) << a.top
	first = (end + size - 1) &^ (size - 1)
	if first+size > 1<<32 {
		return 0, false
	}
	for ; end < first; end += 1 << a.top {
		a.spare[a.top] = append(a.spare[a.top], end) // skipped for the sake of alignment
	}
	return first, true
}

// place enters a region that the driver gave.
func (a *Allocator) place(r region) {
	i := slices.IndexFunc(a.regions, func(r region) bool { return !r.held })
	if i < 0 {
		i = len(a.regions)
		a.regions = append(a.regions, region{})
	}
	a.regions[i] = r
	end := int(r.first + 1<<r.order)
	if more := end>>a.top - len(a.slots); more > 0 {
		a.slots = append(a.slots, make([]slot, more)...)
	}
	for i := r.first >> a.top; i < uint(end)>>a.top; i++ {
		a.slots[i] = slot{base: r.addr - uint64(r.first)<<a.minShift, order: r.order}
	}
	for len(a.free) <= r.order {
		a.free = append(a.free, bitmap{})
	}
	for k := range a.free {
		a.free[k].grow(max(end>>k, 1))
	}
	a.put(r.order, int(r.first>>r.order))
	a.cached += a.bytes(r.order)
}

// EmptyCache gives the regions back that are wholly free.
func (a *Allocator) EmptyCache() {
	for i := range a.regions {
		r := &a.regions[i]
		if !r.held || !a.free[r.order].has(int(r.first>>r.order)) {
			continue
		}
		size := a.bytes(r.order)
		a.take(r.order, int(r.first>>r.order))
		a.driver.Free(r.addr, size)
		a.account.Gave(size)
		a.cached -= size
		r.held = false
		a.spare[r.order] = append(a.spare[r.order], r.first)
	}
}

// Block implements allocators.Allocator.
func (a *Allocator) Block(block uint32) (addr uint64, size int64, ok bool) {
	return a.account.Block(block)
}

// Stats implements allocators.Allocator.
func (a *Allocator) Stats() *allocators.Stats { return a.account.Stats() }

func (a *Allocator) largest() int64 {
	if a.available == 0 {
		return 0
	}
	return a.bytes(bits.Len64(a.available) - 1)
}

// Order is how one order of blocks stands.
type Order struct {
	Size     int64 // bytes of a block
	Blocks   int   // live or pending
	Rounding int64 // bytes in them beyond what was asked for
	Free     int   // free blocks of exactly this order
}

// Orders says for each order, from MinBlock up, how many blocks there are and what rounding costs.
func (a *Allocator) Orders() []Order {
	out := make([]Order, len(a.free))
	for k := range out {
		out[k] = Order{Size: a.bytes(k), Free: a.free[k].n}
	}
	for _, e := range a.account.Blocks() {
		o := &out[log2(e.Size)-a.minShift]
		o.Blocks++
		o.Rounding += e.Size - e.Requested
	}
	return out
}
