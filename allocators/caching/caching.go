// Package caching models PyTorch's CUDACachingAllocator for one device: every decision that it makes
// between a request and an address, with every setting that changes one.
//
// # Structures
//
// The allocator takes memory from the driver in segments and cuts them into blocks. The blocks of a
// segment are a doubly linked list in the order of their addresses and tile it. Each block is live,
// pending (freed, but a stream still uses it), free, or an unmapped hole of an expandable segment.
// Neighbours that are both free, or both holes, are one block.
//
// Free blocks are kept in pools: a small one for blocks up to 1 MiB and a large one, once for ordinary
// requests and once for each private pool (CUDA graphs, MemPools). Inside a pool a block belongs to the
// stream it was first cut for and is only reused there. A pool keeps its free blocks in the order stream,
// size, address (freeset.go); every search, every release and every age goes by that order.
//
// An expandable segment is a reservation of address space, larger than the device, in which pages are
// mapped as they are needed (expandable.go). There is one for each pool and stream, in practice.
//
// # The path of a request
//
//  1. Round the size (package config): to 512 bytes, or to a division of a power of two.
//  2. Choose the pool: small up to 1 MiB, else large.
//  3. Best fit in the pool's free blocks of the stream (pool.go). Only the first candidate is looked at;
//     max_split_size_mb may refuse it.
//  4. Else collect garbage, if a limit and a threshold are set (release.go).
//  5. Else ask the driver for a segment of 2 MiB, 20 MiB or the size rounded up to 2 MiB, unless a limit
//     forbids it; or map pages.
//  6. Else use the free blocks of pools that lend theirs when memory runs out.
//  7. Else, with max_split_size_mb, give back oversize blocks of the pool and ask again.
//  8. Else, for a request of the default pool, wait for the device, give back every whole free segment,
//     and ask again. The pool is not searched again, although a pending block may have become free.
//  9. Else the request fails. What was given back stays given back.
//
// A block that is larger than the request is split, the front is handed out, if the rest is worth
// keeping: 512 bytes in small pools and expandable segments, more than 1 MiB otherwise, and never for
// requests of max_split_size_mb and more.
//
// # The path of a free
//
// A block that other streams use stays pending until they are done (the caller says when). Then it is
// merged with free neighbours and put in its pool. Segments are not given back here.
//
// # Sources
//
// The rules are those of PyTorch 2.11 (c10/cuda/CUDACachingAllocator.cpp), with the differences of other
// versions in package config; docs/allocators/caching.md tells how they were checked against recordings.
// Not modelled: custom allocators behind a MemPool, the re-use of blocks inside a graph capture that
// graph_capture_record_stream_reuse allows, the lock that release_lock_on_cudamalloc drops (threads may
// then interleave inside one request), host memory.
package caching

import (
	"github.com/vramscope/vramscope/allocators"
	"github.com/vramscope/vramscope/allocators/caching/config"
)

const (
	minBlock = config.MinBlock
	noLimit  = -1

	// tooLarge is what PyTorch refuses to look at, in bytes.
	tooLarge = 1 << 60
)

// Config is the allocator's setting and what surrounds it.
type Config struct {
	config.Config
	Limit int64 // bytes that may be reserved (set_per_process_memory_fraction), negative for no limit
	// DeviceTotal is the memory of the device in bytes, which sizes the address space of expandable
	// segments. 0 takes the driver's word, and 256 GiB if it has none.
	DeviceTotal int64
}

// NewConfig is the given setting without a limit.
func NewConfig(c config.Config) Config { return Config{Config: c, Limit: noLimit} }

// Allocator is the model. It implements allocators.Allocator.
type Allocator struct {
	cfg    Config
	driver allocators.Driver
	hooks  Hooks

	blocks     []block       // by slot; slot 0 is no block
	idle       []int32       // slots of blocks that are gone
	slotOf     []int32       // by the caller's number of a live or pending block; 0 for none
	pools      []*pool       // the large and the small one of each memory pool, by 2*id and 2*id+1
	reserved   []reservation // expandable segments, by index; those given back have size 0
	pending    []uint32      // numbers of pending blocks, in the order of their frees
	lenders    []uint32      // private pools that serve others when memory runs out
	retired    []uint32      // private pools whose owner is gone, the next flush takes their segments
	scratch    []freeEntry
	peakRaised bool // Reserved has a new peak, of which AtPeak does not know yet

	detail           Detail
	stats            allocators.Stats
	cached           int64 // bytes of whole free segments and whole free pages
	pendingRequested int64
}

// block is a range of memory. Links are slots.
type block struct {
	addr       uint64
	size       int64
	requested  int64  // of a live or pending block
	prev, next int32  // neighbours in the segment, 0 for none
	pool       int32  // index in Allocator.pools, -1 for a slot that is idle
	number     uint32 // the caller's, of a live or pending block
	stream     uint32
	segment    int32 // index of the reservation, -1 for a classic segment
	state      blockState
	born       int64 // the pool's clock when it became free
}

type blockState uint8

const (
	free blockState = iota
	live
	pendingFree
	unmapped
)

func (b *block) whole() bool { return b.prev == 0 && b.next == 0 }

func (b *block) expandable() bool { return b.segment >= 0 }

// Hooks let the follower of a recording stand in where the model cannot know, and see what it does.
// All may be nil.
type Hooks struct {
	// Acted is told of each exchange with the driver, after it happened.
	Acted func(Action)
	// Refuses decides in place of Config.Limit whether a request for so many bytes is refused without
	// asking the driver.
	Refuses func(tried int64) bool
	// Synced is called when the model waits for the device. Completions are then the caller's business;
	// without it the model completes whatever is pending.
	Synced func()
	// Collects decides, when no limit is known, whether a pass of garbage collection that would release
	// these segments is made.
	Collects func(pass []Action) bool
}

// Action is an exchange with the driver.
type Action struct {
	Kind   ActionKind
	Addr   uint64
	Size   int64
	Stream uint32
}

// ActionKind says what was exchanged.
type ActionKind uint8

// The kinds of Action, named as in PyTorch's traces.
const (
	SegmentAlloc ActionKind = iota
	SegmentFree
	SegmentMap
	SegmentUnmap
)

// New makes an empty allocator over a driver.
func New(driver allocators.Driver, cfg Config) *Allocator {
	a := &Allocator{cfg: cfg, driver: driver}
	a.blocks = make([]block, 1, 1024)
	a.blocks[0].pool = -1
	a.pool(0, true)
	return a
}

// SetHooks installs hooks for following a recording.
func (a *Allocator) SetHooks(h Hooks) { a.hooks = h }

// Config is the present setting.
func (a *Allocator) Config() Config { return a.cfg }

// SetExpandable switches expandable segments while running, as torch.cuda.memory._set_allocator_settings
// does. Segments of both kinds then exist side by side.
func (a *Allocator) SetExpandable(on bool) { a.cfg.Expandable = on }

// Malloc serves a request.
func (a *Allocator) Malloc(r allocators.Request) error {
	z := a.cfg.RoundSize(r.Size)
	return a.malloc(r, z, z <= config.SmallSize)
}

// Restore serves a request of the restoration of a saved graph pool, which lays blocks out again by their
// own sizes: it may ask the small pool for more than 1 MiB.
func (a *Allocator) Restore(r allocators.Request, small bool) error {
	return a.malloc(r, a.cfg.RoundSize(r.Size), small)
}

func (a *Allocator) malloc(r allocators.Request, z int64, small bool) error {
	p := a.pool(r.Pool, small)
	if r.Size >= tooLarge {
		return a.fail(p, r, r.Size)
	}
	slot, expandable := a.takeFree(p, r.Stream, z, a.cfg.Expandable), a.cfg.Expandable
	if slot == 0 {
		slot = a.takeNew(p, r.Stream, z)
	}
	if slot == 0 {
		if slot = a.borrow(p, r.Stream, z); slot != 0 {
			expandable = false
		} else if slot = a.takeAfterRelease(p, r.Stream, z); slot == 0 {
			return a.fail(p, r, a.cfg.SegmentSize(z))
		}
	}
	a.handOut(slot, r, z, expandable)
	a.notePeak()
	return nil
}

// takeNew gets memory that the pool does not have, by the steps 4 and 5.
func (a *Allocator) takeNew(p *pool, stream uint32, z int64) int32 {
	if a.collects() {
		a.collectGarbage()
	}
	return a.takeSegment(p, stream, z)
}

// takeAfterRelease makes room first, by the steps 7 and 8. A request of a private pool is made while a
// graph is captured or inside torch.cuda.use_mem_pool, and PyTorch does not flush meanwhile.
func (a *Allocator) takeAfterRelease(p *pool, stream uint32, z int64) int32 {
	a.notePeak()
	if a.cfg.MaxSplitSize != config.Unlimited && a.releaseOversize(p, stream, z) {
		if slot := a.takeSegment(p, stream, z); slot != 0 {
			return slot
		}
		a.notePeak()
	}
	if p.id != 0 {
		return 0
	}
	a.flush()
	a.detail.NumAllocRetries++
	return a.takeSegment(p, stream, z)
}

// takeSegment asks the driver. The limit counts the size of a classic segment also where pages would be
// mapped, whatever part of the request is mapped already.
func (a *Allocator) takeSegment(p *pool, stream uint32, z int64) int32 {
	tried := a.cfg.SegmentSize(z)
	if a.refuses(tried) {
		return 0
	}
	if a.cfg.Expandable {
		return a.takeExpandable(p, stream, z)
	}
	addr, err := a.driver.Alloc(tried)
	if err != nil {
		return 0
	}
	slot := a.newBlock(block{addr: addr, size: tried, pool: p.index, stream: stream, segment: -1})
	d := &a.detail
	d.Segment.up(p.kind, 1)
	d.NumDeviceAlloc++
	if tried >= a.cfg.MaxSplitSize {
		d.OversizeSegments.up()
	}
	a.raiseReserved(p.kind, tried)
	a.acted(SegmentAlloc, addr, tried, stream)
	return slot
}

func (a *Allocator) refuses(tried int64) bool {
	if a.hooks.Refuses != nil {
		return a.hooks.Refuses(tried)
	}
	return a.cfg.Limit >= 0 && a.detail.ReservedBytes[All].Current+tried > a.cfg.Limit
}

func (a *Allocator) raiseReserved(k Kind, n int64) {
	m := &a.detail.ReservedBytes
	peak := m[All].Peak
	m.up(k, n)
	a.peakRaised = a.peakRaised || m[All].Peak > peak
}

// notePeak brings AtPeak up to date, if Reserved has a new peak and still is at it.
func (a *Allocator) notePeak() {
	if a.peakRaised {
		a.peakRaised = false
		a.stats.AtPeak = a.Fragmentation()
	}
}

func (a *Allocator) acted(kind ActionKind, addr uint64, size int64, stream uint32) {
	if a.hooks.Acted != nil {
		a.hooks.Acted(Action{kind, addr, size, stream})
	}
}

func (a *Allocator) fail(p *pool, r allocators.Request, tried int64) error {
	a.detail.NumOOMs++
	a.notePeak()
	e := &allocators.OOM{
		Requested: r.Size,
		Tried:     tried,
		Allocated: a.detail.AllocatedBytes[All].Current,
		Reserved:  a.detail.ReservedBytes[All].Current,
	}
	if s := p.set(r.Stream); s != nil {
		if last := s.last(); last.ok() {
			e.LargestFree = s.at(last).size
		}
	}
	return e
}

// splits says whether a block is cut for a request, or handed out whole. It is the request that is
// expandable or not: a classic block is cut by the rule of expandable segments once they are switched on.
func (a *Allocator) splits(p *pool, size, z int64, expandable bool) bool {
	switch rest := size - z; {
	case p.noSplit:
		return false
	case p.small || expandable:
		return rest >= minBlock
	default:
		return z < a.cfg.MaxSplitSize && rest > config.SmallSize
	}
}

// handOut makes a block, which is in no free set, the caller's, after cutting off what it does not need.
func (a *Allocator) handOut(slot int32, r allocators.Request, z int64, expandable bool) {
	b := &a.blocks[slot]
	p, d := a.pools[b.pool], &a.detail
	wasSplit := !b.whole()
	if a.splits(p, b.size, z, expandable) {
		rest := a.newBlock(block{
			addr: b.addr + uint64(z), size: b.size - z, prev: slot, next: b.next,
			pool: p.index, stream: b.stream, segment: b.segment,
		})
		b = &a.blocks[slot] // newBlock may have moved it
		if b.next != 0 {
			a.blocks[b.next].prev = rest
		}
		b.next = rest
		b.size = z
		a.addFree(rest)
		if b.segment < 0 {
			if wasSplit {
				d.InactiveSplitBytes.down(p.kind, z)
			} else {
				d.InactiveSplit.up(p.kind, 1)
				d.InactiveSplitBytes.up(p.kind, a.blocks[rest].size)
			}
		}
	} else if wasSplit && b.segment < 0 {
		d.InactiveSplit.down(p.kind, 1)
		d.InactiveSplitBytes.down(p.kind, b.size)
	}
	a.own(slot, r.Block, r.Size)
}

// own marks a block as live.
func (a *Allocator) own(slot int32, number uint32, requested int64) {
	b := &a.blocks[slot]
	b.state, b.requested, b.number = live, requested, number
	for int(number) >= len(a.slotOf) {
		a.slotOf = append(a.slotOf, make([]int32, max(1024, len(a.slotOf)/4))...)
	}
	a.slotOf[number] = slot
	k, d := a.pools[b.pool].kind, &a.detail
	d.Allocation.up(k, 1)
	d.AllocatedBytes.up(k, b.size)
	d.Active.up(k, 1)
	d.ActiveBytes.up(k, b.size)
	d.RequestedBytes.up(k, requested)
	if b.size >= a.cfg.MaxSplitSize {
		d.OversizeAllocations.up()
	}
}

func (a *Allocator) slot(number uint32) int32 {
	if int(number) < len(a.slotOf) {
		return a.slotOf[number]
	}
	return 0
}

// Free gives a block back; with pending it is not reusable until Complete.
func (a *Allocator) Free(number uint32, pending bool) {
	slot := a.slot(number)
	if slot == 0 || a.blocks[slot].state != live {
		return
	}
	b := &a.blocks[slot]
	k, d := a.pools[b.pool].kind, &a.detail
	d.Allocation.down(k, 1)
	d.AllocatedBytes.down(k, b.size)
	if b.size >= a.cfg.MaxSplitSize {
		d.OversizeAllocations.down()
	}
	if pending {
		b.state = pendingFree
		a.pendingRequested += b.requested
		a.pending = append(a.pending, number)
		return
	}
	a.reclaim(slot)
}

// Complete makes the memory of a pending block reusable.
func (a *Allocator) Complete(number uint32) {
	slot := a.slot(number)
	if slot == 0 || a.blocks[slot].state != pendingFree {
		return
	}
	for i, n := range a.pending {
		if n == number {
			a.pending = append(a.pending[:i], a.pending[i+1:]...)
			break
		}
	}
	a.pendingRequested -= a.blocks[slot].requested
	a.reclaim(slot)
}

// reclaim merges a block that nobody uses with its free neighbours and puts it in its pool.
func (a *Allocator) reclaim(slot int32) {
	b := &a.blocks[slot]
	size, requested := b.size, b.requested
	a.slotOf[b.number] = 0
	b.state, b.requested = free, 0
	var splitBlocks, splitBytes int64 // change of free blocks in segments that are not whole
	for _, neighbour := range [2]int32{b.prev, b.next} {
		if n := a.merge(slot, neighbour); n > 0 {
			splitBlocks--
			splitBytes -= n
		}
	}
	b = &a.blocks[slot]
	a.addFree(slot)
	if !b.whole() {
		splitBlocks++
		splitBytes += b.size
	}
	k, d := a.pools[b.pool].kind, &a.detail
	if b.segment < 0 {
		d.InactiveSplit.change(k, splitBlocks)
		d.InactiveSplitBytes.change(k, splitBytes)
	}
	d.Active.down(k, 1)
	d.ActiveBytes.down(k, size)
	d.RequestedBytes.down(k, requested)
}

// merge takes a neighbour into a block that is in no set, if both are free or both are holes, and returns
// the bytes gained.
func (a *Allocator) merge(slot, neighbour int32) int64 {
	if neighbour == 0 {
		return 0
	}
	b, n := &a.blocks[slot], &a.blocks[neighbour]
	if n.state != b.state {
		return 0
	}
	if n.state == unmapped {
		a.pools[n.pool].removeHole(n.stream, n.addr)
	} else {
		a.removeFree(neighbour)
	}
	if b.prev == neighbour {
		b.addr = n.addr
		b.prev = n.prev
		if b.prev != 0 {
			a.blocks[b.prev].next = slot
		}
	} else {
		b.next = n.next
		if b.next != 0 {
			a.blocks[b.next].prev = slot
		}
	}
	size := n.size
	b.size += size
	a.dropBlock(neighbour)
	return size
}

// Block says where a live or pending block is.
func (a *Allocator) Block(number uint32) (addr uint64, size int64, ok bool) {
	slot := a.slot(number)
	if slot == 0 {
		return 0, 0, false
	}
	b := &a.blocks[slot]
	return b.addr, b.size, true
}

func (a *Allocator) newBlock(b block) int32 {
	if n := len(a.idle); n > 0 {
		slot := a.idle[n-1]
		a.idle = a.idle[:n-1]
		a.blocks[slot] = b
		return slot
	}
	a.blocks = append(a.blocks, b)
	return int32(len(a.blocks) - 1)
}

func (a *Allocator) dropBlock(slot int32) {
	a.blocks[slot] = block{pool: -1}
	a.idle = append(a.idle, slot)
}

func (a *Allocator) kind(slot int32) Kind { return a.pools[a.blocks[slot].pool].kind }
