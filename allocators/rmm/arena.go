package rmm

import (
	"cmp"
	"slices"

	"github.com/vramscope/vramscope/allocators"
	"github.com/vramscope/vramscope/allocators/internal/holes"
	"github.com/vramscope/vramscope/allocators/internal/ledger"
)

// The arena: rmm::mr::arena_memory_resource, made for many threads or streams that each have a pool of
// their own and get superblocks for it from a common one.
//
// # Structures
//
// The global arena is one allocation of fixed size. It is covered by superblocks of at least 1 MiB, which
// are in the global arena or in the arena of one stream. A superblock has free blocks in the order of
// addresses; free blocks that touch are one.
//
// # One Malloc
//
//  1. The size is rounded up to a multiple of 256 bytes.
//  2. Up to 1 MiB: first fit in the superblocks of the stream's arena, in the order of addresses. Without
//     a fit the arena acquires the first superblock of the global arena that has one: if it is empty and
//     at least 2 MiB, 1 MiB is split off for the purpose.
//  3. Above 1 MiB: the global arena itself serves the request, from the first superblock that has a fit;
//     of an empty one, what is above the size of the request is split off if that is 1 MiB or more.
//  4. Without a fit, all streams' superblocks go to the global arena, where empty ones that touch become
//     one, and steps 2 or 3 are tried once more. Then the request is out of memory.
//
// # One Free
//
// The block goes back to its superblock, wherever that is: looked for in the global arena first if the
// block is larger than 1 MiB, then in the arena of the stream, then in the others. Only in the global
// arena do empty superblocks merge at once; a stream keeps its empty ones until step 4.
//
// # What is counted
//
// The whole arena is reserved from the first request on. Stats.AtPeak: Stranded is all that is free but
// for an arena without any block, which is Cached; Rounding is the alignment. Retries counts step 4.
//
// # What is not modelled
//
// The arenas of threads, which take the place of those of streams in programs built for per-thread default
// streams; the size classes of builds with RMM_ARENA_USE_SIZE_CLASSES.

// ArenaAbout is the arena in one line.
const ArenaAbout = "RMM arena: superblocks of 1 MiB from a fixed range, first fit in an arena a stream (rapidsai/rmm, 2026)"

const (
	minSuperblock = 1 << 20
	// unlimitedArena is the size on a device without limit.
	unlimitedArena = 64 << 30
)

// ArenaConfig is what can be set. The zero value takes half of the free memory.
type ArenaConfig struct {
	Size int64 // bytes of the arena, rounded down to 256; 0 for half of the free memory, 64 GiB without a limit
}

// Arena is the model.
type Arena struct {
	driver  allocators.Driver
	account ledger.Ledger
	size    int64
	held    bool
	global  superblocks
	streams streams
	arenas  []superblocks // by stream
}

// A superblock is a part of the arena that is handed around as a whole.
type superblock struct {
	addr uint64
	size int64
	used int64
	free holes.ByAddr
}

// superblocks are in the order of their addresses.
type superblocks []*superblock

// NewArena is an arena that takes its memory at the first request.
func NewArena(driver allocators.Driver, cfg ArenaConfig) *Arena {
	size := cfg.Size
	if size <= 0 {
		free, total := driver.Memory()
		if size = free / 2; total == 0 {
			size = unlimitedArena
		}
	}
	return &Arena{driver: driver, size: alignDown(min(size, ledger.MaxRequest))}
}

func newSuperblock(addr uint64, size int64) *superblock {
	s := &superblock{addr: addr, size: size}
	s.free.Put(addr, size)
	return s
}

// hold takes the arena from the driver.
func (a *Arena) hold() bool {
	if a.held {
		return true
	}
	if a.size < minSuperblock {
		return false
	}
	addr, err := a.driver.Alloc(a.size)
	if err != nil {
		return false
	}
	a.account.Took(a.size)
	a.global = superblocks{newSuperblock(addr, a.size)}
	a.held = true
	return true
}

// Malloc implements allocators.Allocator.
func (a *Arena) Malloc(req allocators.Request) error {
	if err := a.account.Admit(req); err != nil {
		return err
	}
	size := alignUp(req.Size)
	if !a.hold() {
		return a.account.Refuse(req.Size, a.size, 0)
	}
	own := a.streams.of(req.Stream)
	for len(a.arenas) <= int(own) {
		a.arenas = append(a.arenas, nil)
	}
	addr, ok := a.allocate(size, own)
	if !ok {
		a.account.Flushed()
		a.defragment()
		if addr, ok = a.allocate(size, own); !ok {
			return a.account.Refuse(req.Size, size, a.largest())
		}
	}
	a.account.Open(req, addr, size, 0).Stream = own
	if a.account.Raised() {
		a.account.AtPeak(0, a.largest())
	}
	return nil
}

func (a *Arena) allocate(size int64, own uint16) (addr uint64, ok bool) {
	arena := &a.global
	if size <= minSuperblock {
		arena = &a.arenas[own]
		if _, addr, ok := arena.firstFit(size); ok {
			return addr, true
		}
	}
	i, p, ok := a.global.find(size)
	if !ok {
		return 0, false
	}
	s := a.global[i]
	a.global = slices.Delete(a.global, i, i+1)
	if need := max(minSuperblock, size); s.used == 0 && s.size >= need+minSuperblock {
		a.global.insert(newSuperblock(s.addr+uint64(need), s.size-need))
		s = newSuperblock(s.addr, need)
		p, _ = s.free.Find(size, 0)
	}
	s.used += size
	arena.insert(s)
	return s.free.Take(p, size), true
}

// find is the first superblock with a free block of the size, and that block.
func (l superblocks) find(size int64) (i int, p holes.Place, ok bool) {
	for i, s := range l {
		if s.size-s.used >= size {
			if p, ok := s.free.Find(size, 0); ok {
				return i, p, true
			}
		}
	}
	return 0, holes.Place{}, false
}

func (l superblocks) firstFit(size int64) (i int, addr uint64, ok bool) {
	i, p, ok := l.find(size)
	if !ok {
		return 0, 0, false
	}
	l[i].used += size
	return i, l[i].free.Take(p, size), true
}

func (l *superblocks) insert(s *superblock) {
	i, _ := slices.BinarySearchFunc(*l, s.addr, func(s *superblock, addr uint64) int { return cmp.Compare(s.addr, addr) })
	*l = slices.Insert(*l, i, s)
}

// merge inserts a superblock that, if it is empty, becomes one with empty neighbours.
func (l *superblocks) merge(s *superblock) {
	l.insert(s)
	i := slices.Index(*l, s)
	touch := func(a, b *superblock) bool {
		return a.used == 0 && b.used == 0 && a.addr+uint64(a.size) == b.addr
	}
	low, high := i, i+1
	if i > 0 && touch((*l)[i-1], s) {
		low--
	}
	if high < len(*l) && touch(s, (*l)[high]) {
		high++
	}
	if high-low == 1 {
		return
	}
	first, last := (*l)[low], (*l)[high-1]
	one := newSuperblock(first.addr, int64(last.addr-first.addr)+last.size)
	*l = slices.Replace(*l, low, high, one)
}

// holder is the superblock that holds an address.
func (l superblocks) holder(addr uint64) (i int, ok bool) {
	i, found := slices.BinarySearchFunc(l, addr, func(s *superblock, addr uint64) int { return cmp.Compare(s.addr, addr) })
	if !found {
		i--
	}
	return i, i >= 0 && addr < l[i].addr+uint64(l[i].size)
}

// defragment gives all streams' superblocks to the global arena.
func (a *Arena) defragment() {
	for i := range a.arenas {
		for _, s := range a.arenas[i] {
			a.global.merge(s)
		}
		a.arenas[i] = nil
	}
}

// Free implements allocators.Allocator.
func (a *Arena) Free(block uint32, pending bool) {
	if e := a.account.Release(block, pending); e != nil {
		a.put(e)
	}
}

// Complete implements allocators.Allocator.
func (a *Arena) Complete(block uint32) {
	if e := a.account.Complete(block); e != nil {
		a.put(e)
	}
}

// put gives a block back to its superblock, which lies in exactly one arena.
func (a *Arena) put(e *ledger.Entry) {
	for n := range len(a.arenas) + 1 {
		l := a.global
		if n > 0 {
			l = a.arenas[n-1]
		}
		i, ok := l.holder(e.Addr)
		if !ok {
			continue
		}
		s := l[i]
		s.free.Put(e.Addr, e.Size)
		s.used -= e.Size
		if n == 0 && s.used == 0 {
			a.global = slices.Delete(a.global, i, i+1)
			a.global.merge(s)
		}
		return
	}
}

// EmptyCache does nothing: the arena is kept.
func (a *Arena) EmptyCache() {}

// Block implements allocators.Allocator.
func (a *Arena) Block(block uint32) (addr uint64, size int64, ok bool) { return a.account.Block(block) }

// Stats implements allocators.Allocator.
func (a *Arena) Stats() *allocators.Stats { return a.account.Stats() }

func (a *Arena) largest() int64 {
	var n int64
	for _, l := range append([]superblocks{a.global}, a.arenas...) {
		for _, s := range l {
			if s.size-s.used > n {
				n = max(n, s.free.Largest())
			}
		}
	}
	return n
}
