// Package arena models the textbook allocators over one range of addresses: first fit, next fit and best
// fit, as Knuth describes them (The Art of Computer Programming, volume 1, section 2.5, algorithm A and
// exercise 6) and as Wilson, Johnstone, Neely and Boles survey them (Dynamic Storage Allocation, 1995).
// No block moves, holes that touch are one hole, and nothing is rounded but to the alignment: what such a
// range needs is the mark that cleverer allocators are measured against.
//
// # Structures
//
// The range begins at base. Everything from top on has never been used, or is free again: the tail. Below
// it lie blocks and holes, pieces that are linked so that a freed block finds its neighbours (holes.Chain).
// For first fit and next fit the holes are in a set that finds the lowest that is large enough
// (holes.Lowest), for best fit in one that finds the smallest (holes.BySize).
//
//	no two holes touch, and none touches the tail
//	bytes of blocks + bytes of holes == top - base
//
// # Where the range comes from
//
// With Size set, the range is one allocation of that size, made for the first request. Without it, the
// range is a reservation of addresses as large as the device, and memory is mapped behind it from base
// on, page by page, as top rises: the reserved bytes are then the smallest range in which this policy
// would have served what it has served so far.
//
// # One Malloc
//
// The size is rounded up to the alignment, 512 bytes by default, and a hole is chosen:
//
//   - first fit: the lowest that is large enough;
//   - next fit: the first that is large enough at or above the place where the last block was put, then
//     the lowest;
//   - best fit: the smallest that is large enough, the lowest of several.
//
// The block is at the low end of the hole, the rest stays a hole. In a range of fixed size the tail is a
// hole like others; a growing range uses its tail only when no hole is large enough.
//
// # One Free
//
// The block becomes a hole, or part of the tail, together with the holes beside it.
//
// # What is counted
//
// Stats.AtPeak: Cached are the mapped pages wholly in the tail (of a fixed range, all of it when nothing is
// live), Stranded is the rest of what is free, Rounding is the alignment. The peak of a range of fixed
// size is its first request: the growing range is the one to ask about fragmentation.
//
// # What is not modelled
//
// Streams and pools make no difference. A block freed with pending keeps its memory until Complete. Pages
// in the middle that hold nothing are not unmapped.
package arena

import (
	"github.com/vramscope/vramscope/allocators"
	"github.com/vramscope/vramscope/allocators/internal/holes"
	"github.com/vramscope/vramscope/allocators/internal/ledger"
)

// About is the model in one line.
const About = "one range of addresses, the hole chosen by"

// Policy is how a hole is chosen.
type Policy uint8

// The policies.
const (
	FirstFit Policy = iota
	NextFit
	BestFit
)

func (p Policy) String() string {
	switch p {
	case NextFit:
		return "next-fit"
	case BestFit:
		return "best-fit"
	}
	return "first-fit"
}

// The defaults of Config, and the address space of a range on a device without limit.
const (
	DefaultAlign = 512
	DefaultPage  = 2 << 20
	unlimited    = 1 << 42
)

// Config is what can be set. The zero value is first fit in a range that grows.
type Config struct {
	Policy Policy
	Size   int64 // bytes of the range; 0 for one that grows as far as the device's memory reaches
	Align  int64 // bytes that sizes are multiples of, 0 for 512; other values are rounded up to a power of two
	Page   int64 // bytes by which a growing range grows, 0 for 2 MiB; rounded up to a multiple of that
}

// Allocator is the model.
type Allocator struct {
	driver  allocators.Driver
	account ledger.Ledger
	policy  Policy
	align   int64
	page    int64
	fixed   bool

	held   bool   // the range exists
	base   uint64 // where it begins
	limit  int64  // bytes that it has or may have
	mapped int64  // bytes of memory from base on
	top    uint64 // where the tail begins

	chain  holes.Chain  // the pieces below top
	last   uint32       // the one that ends at top, or holes.None
	lowest holes.Lowest // the holes, of first fit and next fit
	bySize holes.BySize // the holes, of best fit

	// Of next fit: where the last block was put, where it ends, and the piece behind it.
	rover, behind uint64
	rest          uint32
}

// New is an allocator that holds no memory yet.
func New(driver allocators.Driver, cfg Config) *Allocator {
	a := &Allocator{driver: driver, policy: cfg.Policy, chain: holes.NewChain()}
	if cfg.Policy == BestFit {
		a.bySize = holes.NewBySize(&a.chain)
	} else {
		a.lowest = holes.NewLowest()
	}
	a.align = DefaultAlign
	if cfg.Align > 0 {
		for a.align = 1; a.align < cfg.Align && a.align < 1<<30; {
			a.align *= 2
		}
	}
	a.page = up(max(cfg.Page, DefaultPage), DefaultPage)
	if cfg.Size > 0 {
		a.fixed = true
		a.limit = min(cfg.Size, ledger.MaxRequest)
	}
	return a
}

func up(n, unit int64) int64 { return (n + unit - 1) / unit * unit }

// hold takes the range from the driver; of a growing one, its addresses only.
func (a *Allocator) hold() bool {
	if a.held {
		return true
	}
	if a.fixed {
		addr, err := a.driver.Alloc(a.limit)
		if err != nil {
			return false
		}
		a.account.Took(a.limit)
		a.base, a.mapped = addr, a.limit
	} else {
		_, total := a.driver.Memory()
		if total == 0 {
			total = unlimited
		}
		size := up(total, a.page)
		addr, err := a.driver.Reserve(size)
		if err != nil {
			return false
		}
		a.base, a.limit = addr, size
	}
	a.held = true
	a.top = a.base
	a.rover = a.base
	return true
}

// Malloc implements allocators.Allocator.
func (a *Allocator) Malloc(req allocators.Request) error {
	if err := a.account.Admit(req); err != nil {
		return err
	}
	if !a.held && !a.hold() {
		return a.account.Refuse(req.Size, a.limit, 0)
	}
	size := (req.Size + a.align - 1) &^ (a.align - 1)
	id := holes.None
	switch a.policy {
	case BestFit:
		id = a.bestFit(size)
	case NextFit:
		id = a.nextFit(size)
	default:
		id = a.firstFit(size)
	}
	if id == holes.None {
		return a.account.Refuse(req.Size, size, a.largest())
	}
	addr := a.chain.At(id).Addr
	a.account.Open(req, addr, size, id)
	if a.account.Raised() {
		a.account.AtPeak(a.cached(), a.largest())
	}
	return nil
}

func (a *Allocator) firstFit(size int64) uint32 {
	if id := a.lowest.Cut(&a.chain, size, 0); id != holes.None {
		return id
	}
	return a.fromTail(size)
}

func (a *Allocator) nextFit(size int64) uint32 {
	id := a.fromRest(size)
	if id == holes.None {
		id = a.lowest.Cut(&a.chain, size, a.rover)
	}
	if id == holes.None && a.fixed {
		id = a.fromTail(size)
	}
	if id == holes.None {
		id = a.lowest.Cut(&a.chain, size, 0)
	}
	if id == holes.None && !a.fixed {
		id = a.fromTail(size)
	}
	if id != holes.None {
		p := a.chain.At(id)
		a.rover, a.behind, a.rest = p.Addr, p.Addr+uint64(size), p.Next
	}
	return id
}

// fromRest cuts a block from the hole behind the last block, if there is one and it is large enough: no
// hole comes before it. It begins where the last block began if that was freed since, and elsewhere only
// if the number is by now that of another piece.
func (a *Allocator) fromRest(size int64) uint32 {
	p := a.chain.At(a.rest)
	if p.Size < size || !p.Free() || p.Addr != a.behind && p.Addr != a.rover {
		return holes.None
	}
	return a.lowest.CutPiece(&a.chain, a.rest, size)
}

func (a *Allocator) bestFit(size int64) uint32 {
	id := holes.None
	if !a.fixed || !a.tailIsBest(size) {
		id = a.bySize.Cut(&a.chain, size)
	}
	if id == holes.None {
		id = a.fromTail(size)
	}
	return id
}

// tailIsBest says whether the tail of a range of fixed size is a better fit than every hole.
func (a *Allocator) tailIsBest(size int64) bool {
	tail := a.limit - int64(a.top-a.base)
	if tail < size {
		return false
	}
	id := a.bySize.AtLeast(&a.chain, size)
	return id == holes.None || tail < a.chain.At(id).Size
}

// fromTail cuts a block from the tail, growing the range if it may grow; None if it is not large enough.
func (a *Allocator) fromTail(size int64) uint32 {
	used := int64(a.top-a.base) + size
	if used > a.limit {
		return holes.None
	}
	if used > a.mapped {
		more := up(used, a.page) - a.mapped
		if a.driver.Map(a.base+uint64(a.mapped), more) != nil {
			return holes.None
		}
		a.account.Took(more)
		a.mapped += more
	}
	a.last = a.chain.Append(a.last, a.top, size)
	a.top += uint64(size)
	return a.last
}

// Free implements allocators.Allocator.
func (a *Allocator) Free(block uint32, pending bool) {
	if e := a.account.Release(block, pending); e != nil {
		a.free(e.Slot)
	}
}

// Complete implements allocators.Allocator.
func (a *Allocator) Complete(block uint32) {
	if e := a.account.Complete(block); e != nil {
		a.free(e.Slot)
	}
}

func (a *Allocator) free(id uint32) {
	switch {
	case a.chain.At(id).Next == holes.None:
		a.toTail(id)
	case a.policy == BestFit:
		a.bySize.Put(&a.chain, id)
	default:
		a.lowest.Put(&a.chain, id)
	}
}

// toTail makes the last piece, and a hole before it, part of the tail.
func (a *Allocator) toTail(id uint32) {
	p := a.chain.At(id)
	a.top, a.last = p.Addr, p.Prev
	a.chain.Drop(id)
	p = a.chain.At(a.last)
	if !p.Free() {
		return
	}
	if a.policy == BestFit {
		a.bySize.Remove(&a.chain, a.last)
	} else {
		a.lowest.Remove(&a.chain, a.last)
	}
	a.toTail(a.last)
}

// EmptyCache gives back the pages that lie wholly in the tail, and a range of fixed size if nothing is in
// it.
func (a *Allocator) EmptyCache() {
	n := a.cached()
	if n == 0 {
		return
	}
	if a.fixed {
		a.driver.Free(a.base, n)
		a.held = false
	} else {
		a.driver.Unmap(a.base+uint64(a.mapped-n), n)
	}
	a.mapped -= n
	a.account.Gave(n)
}

// cached is what EmptyCache would give back.
func (a *Allocator) cached() int64 {
	used := int64(a.top - a.base)
	if a.fixed {
		if used > 0 {
			return 0
		}
		return a.mapped
	}
	return a.mapped - up(used, a.page)
}

// largest is the largest free block that has memory.
func (a *Allocator) largest() int64 {
	n := a.mapped - int64(a.top-a.base)
	if a.policy == BestFit {
		return max(n, a.bySize.Largest(&a.chain))
	}
	return max(n, a.lowest.Largest())
}

// Block implements allocators.Allocator.
func (a *Allocator) Block(block uint32) (addr uint64, size int64, ok bool) {
	return a.account.Block(block)
}

// Stats implements allocators.Allocator.
func (a *Allocator) Stats() *allocators.Stats { return a.account.Stats() }
