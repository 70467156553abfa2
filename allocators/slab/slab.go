// Package slab models a slab allocator over device memory, after Bonwick (The Slab Allocator: An
// Object-Caching Kernel Memory Allocator, USENIX Summer 1994), with the size classes that jemalloc made
// common (jemalloc 5, "size classes" of its manual): no coalescing, no search, memory is reused only for
// requests of the same class.
//
// # Structures
//
// A size class holds blocks of one size. With PerDoubling = 4 the sizes are 256 bytes times 1, 2, 3, 4,
// 5, 6, 7, 8, 10, 12, 14, 16, 20, …: four to a power of two, so above 1 KiB rounding costs less than a
// fifth of a block. There is a class for every size, however large.
//
// A slab is one allocation from the driver, the page source, cut into blocks of one class. It has as many
// pages as Bonwick's rule says: the fewest with which what is left over at its end is at most an eighth
// of it. A slab of a class is on one of three lists:
//
//	full:    all its blocks are handed out
//	partial: some are
//	empty:   none is
//
// # One Malloc
//
//  1. The class is computed from the size.
//  2. A block comes from the first partial slab; without one, from the first empty slab, which becomes
//     partial; without one, from a new slab. In a slab the block freed last is used first, and blocks
//     that were never used come after those, in the order of addresses.
//  3. If the driver refuses a slab, the empty slabs of all classes are given back and it is asked once
//     more; then the request is out of memory.
//
// # One Free
//
// The block goes on its slab's stack. A slab that was full becomes the first of the partial ones, one
// without blocks becomes the first of the empty ones. Empty slabs stay with their class until EmptyCache.
//
// # What is counted
//
// Stats.AtPeak: Cached are empty slabs, Stranded are free blocks of partial slabs and what is left over at
// the end of slabs with blocks, Rounding is the loss to size classes. Classes has all of that by class.
//
// # What is not modelled
//
// Colouring (device memory has no use for it) and per-processor magazines. Streams and pools make no
// difference. A block freed with pending keeps its memory until Complete.
package slab

import (
	"math/bits"

	"github.com/vramscope/vramscope/allocators"
	"github.com/vramscope/vramscope/allocators/internal/ledger"
)

// About is the model in one line.
const About = "slabs of equal blocks in size classes, four to a power of two (Bonwick 1994, jemalloc's classes)"

const (
	quantum     = 256
	quantumBits = 8

	// DefaultPage is the unit of slabs, in bytes.
	DefaultPage = 2 << 20
	// DefaultPerDoubling is the number of size classes to a power of two.
	DefaultPerDoubling = 4
)

// Config is what can be set. The zero value gives the defaults.
type Config struct {
	Page        int64 // bytes that slabs are multiples of, rounded up to a multiple of 256
	PerDoubling int   // size classes to a power of two: 1, 2, 4, 8 or 16; others are rounded up
}

// none ends a list of slabs.
const none = ^uint32(0)

// Allocator is the model.
type Allocator struct {
	driver  allocators.Driver
	account ledger.Ledger
	page    int64
	shift   int // log2 of the classes to a power of two

	classes []class
	slabs   []slab
	unused  []uint32 // places in slabs

	free   [12]uint64 // bit c: class c has a free block; 16 to a power of two up to 2^56 are 720
	cached int64      // bytes of empty slabs
}

// A class is the slabs of one block size.
//
//	blocks in use == Σ used of its slabs
type class struct {
	size    int64  // bytes of a block
	bytes   int64  // bytes of a slab
	blocks  uint32 // blocks of a slab
	partial uint32 // first slab of the list
	empty   uint32
	slabs   int // slabs of all three lists
	nEmpty  int
}

// A slab is full if used == blocks of its class, empty if used == 0.
type slab struct {
	addr       uint64
	class      uint32
	used       uint32
	fresh      uint32   // blocks from here on were never used
	free       []uint32 // the others that are free, as offsets in quanta; the last one is used first
	prev, next uint32   // on its list
}

// New is an allocator that holds no memory yet.
func New(driver allocators.Driver, cfg Config) *Allocator {
	if cfg.Page <= 0 {
		cfg.Page = DefaultPage
	}
	if cfg.PerDoubling <= 0 {
		cfg.PerDoubling = DefaultPerDoubling
	}
	a := &Allocator{driver: driver}
	a.page = (min(cfg.Page, 1<<32) + quantum - 1) &^ (quantum - 1)
	a.shift = bits.Len(uint(min(cfg.PerDoubling, 16) - 1))
	return a
}

// classOf is the number of the class for a request, which grows with the size.
func (a *Allocator) classOf(size int64) int {
	v := uint64(size-1) >> quantumBits // one less than the quanta needed
	if v < 1<<a.shift {
		return int(v)
	}
	e := bits.Len64(v) - 1 - a.shift
	return (e+1)<<a.shift + int(v>>uint(e)) - 1<<a.shift
}

// sizeOf is the block size of a class.
func (a *Allocator) sizeOf(class int) int64 {
	if class < 1<<a.shift {
		return int64(class+1) << quantumBits
	}
	e := class>>a.shift - 1
	f := int64(1)<<a.shift + int64(class&(1<<a.shift-1))
	return (f + 1) << e << quantumBits
}

// Malloc implements allocators.Allocator.
func (a *Allocator) Malloc(req allocators.Request) error {
	if err := a.account.Admit(req); err != nil {
		return err
	}
	n := a.classOf(req.Size)
	if n >= len(a.classes) {
		a.addClasses(n)
	}
	c := &a.classes[n]
	if c.partial == none && !a.refill(n) {
		return a.account.Refuse(req.Size, c.bytes, a.largest())
	}
	id := c.partial
	s := &a.slabs[id]
	var offset uint64
	if top := len(s.free) - 1; top >= 0 {
		offset = uint64(s.free[top]) << quantumBits
		s.free = s.free[:top]
	} else {
		offset = uint64(s.fresh) * uint64(c.size)
		s.fresh++
	}
	s.used++
	if s.used == c.blocks {
		a.unlink(&c.partial, s)
		if c.partial == none && c.empty == none {
			a.free[n>>6] &^= 1 << (n & 63)
		}
	}
	a.account.Open(req, s.addr+offset, c.size, id)
	if a.account.Raised() {
		a.account.AtPeak(a.cached, a.largest())
	}
	return nil
}

func (a *Allocator) addClasses(n int) {
	for i := len(a.classes); i <= n; i++ {
		c := class{size: a.sizeOf(i), partial: none, empty: none}
		c.bytes = (c.size + a.page - 1) / a.page * a.page
		for c.bytes%c.size > c.bytes/8 {
			c.bytes += a.page
		}
		c.blocks = uint32(c.bytes / c.size)
		a.classes = append(a.classes, c)
	}
}

// refill gives a class without partial slabs one, an empty or a new one.
func (a *Allocator) refill(n int) bool {
	c := &a.classes[n]
	id := c.empty
	if id != none {
		a.unlink(&c.empty, &a.slabs[id])
		c.nEmpty--
		a.cached -= c.bytes
	} else {
		addr, err := a.driver.Alloc(c.bytes)
		if err != nil && a.cached > 0 {
			a.account.Flushed()
			a.EmptyCache()
			addr, err = a.driver.Alloc(c.bytes)
		}
		if err != nil {
			return false
		}
		a.account.Took(c.bytes)
		id = a.number()
		s := &a.slabs[id]
		*s = slab{addr: addr, class: uint32(n), free: s.free[:0]}
		c.slabs++
	}
	a.link(&c.partial, id)
	a.free[n>>6] |= 1 << (n & 63)
	return true
}

func (a *Allocator) number() uint32 {
	if n := len(a.unused); n > 0 {
		id := a.unused[n-1]
		a.unused = a.unused[:n-1]
		return id
	}
	a.slabs = append(a.slabs, slab{})
	return uint32(len(a.slabs) - 1)
}

// link makes a slab the first of a list.
func (a *Allocator) link(list *uint32, id uint32) {
	s := &a.slabs[id]
	s.prev, s.next = none, *list
	if *list != none {
		a.slabs[*list].prev = id
	}
	*list = id
}

func (a *Allocator) unlink(list *uint32, s *slab) {
	if s.prev == none {
		*list = s.next
	} else {
		a.slabs[s.prev].next = s.next
	}
	if s.next != none {
		a.slabs[s.next].prev = s.prev
	}
}

// Free implements allocators.Allocator.
func (a *Allocator) Free(block uint32, pending bool) {
	if e := a.account.Release(block, pending); e != nil {
		a.giveBack(e)
	}
}

// Complete implements allocators.Allocator.
func (a *Allocator) Complete(block uint32) {
	if e := a.account.Complete(block); e != nil {
		a.giveBack(e)
	}
}

func (a *Allocator) giveBack(e *ledger.Entry) {
	s := &a.slabs[e.Slot]
	c := &a.classes[s.class]
	s.free = append(s.free, uint32((e.Addr-s.addr)>>quantumBits))
	if s.used == c.blocks {
		a.link(&c.partial, e.Slot)
		a.free[s.class>>6] |= 1 << (s.class & 63)
	}
	s.used--
	if s.used == 0 {
		a.unlink(&c.partial, s)
		a.link(&c.empty, e.Slot)
		c.nEmpty++
		a.cached += c.bytes
	}
}

// EmptyCache gives the empty slabs back.
func (a *Allocator) EmptyCache() {
	for n := range a.classes {
		c := &a.classes[n]
		if c.empty == none {
			continue
		}
		for id := c.empty; id != none; id = a.slabs[id].next {
			a.driver.Free(a.slabs[id].addr, c.bytes)
			a.account.Gave(c.bytes)
			a.cached -= c.bytes
			a.unused = append(a.unused, id)
			c.slabs--
		}
		c.empty, c.nEmpty = none, 0
		if c.partial == none {
			a.free[n>>6] &^= 1 << (n & 63)
		}
	}
}

// Block implements allocators.Allocator.
func (a *Allocator) Block(block uint32) (addr uint64, size int64, ok bool) {
	return a.account.Block(block)
}

// Stats implements allocators.Allocator.
func (a *Allocator) Stats() *allocators.Stats { return a.account.Stats() }

// largest is the block size of the largest class with a free block.
func (a *Allocator) largest() int64 {
	for w := len(a.free) - 1; w >= 0; w-- {
		if a.free[w] != 0 {
			return a.classes[w<<6+bits.Len64(a.free[w])-1].size
		}
	}
	return 0
}

// Class is how one size class stands.
type Class struct {
	Size      int64 // bytes of a block
	SlabBytes int64 // bytes of a slab
	Full      int   // slabs on each list
	Partial   int
	Empty     int
	Blocks    int   // live or pending
	Rounding  int64 // bytes in those beyond what was asked for
	Free      int64 // bytes of free blocks in partial slabs
	LeftOver  int64 // bytes at the ends of full and partial slabs that make no block
}

// Classes says for each class that has slabs, from the smallest block up, what it holds and loses.
func (a *Allocator) Classes() []Class {
	all := make([]Class, len(a.classes))
	for _, e := range a.account.Blocks() {
		c := &all[a.slabs[e.Slot].class]
		c.Blocks++
		c.Rounding += e.Size - e.Requested
	}
	var out []Class
	for n := range all {
		c, k := &a.classes[n], &all[n]
		if c.slabs == 0 {
			continue
		}
		k.Size, k.SlabBytes, k.Empty = c.size, c.bytes, c.nEmpty
		for id := c.partial; id != none; id = a.slabs[id].next {
			k.Partial++
			k.Free += int64(c.blocks-a.slabs[id].used) * c.size
		}
		k.Full = c.slabs - k.Partial - k.Empty
		k.LeftOver = int64(k.Full+k.Partial) * (c.bytes - int64(c.blocks)*c.size)
		out = append(out, *k)
	}
	return out
}
