package rmm

import (
	"github.com/vramscope/vramscope/allocators"
	"github.com/vramscope/vramscope/allocators/internal/holes"
	"github.com/vramscope/vramscope/allocators/internal/ledger"
)

// The pool: rmm::mr::pool_memory_resource, a coalescing best-fit suballocator.
//
// # Structures
//
// Memory comes from the driver in upstream blocks. A block that is free is in the free list of one stream;
// blocks that touch, come from the same upstream block and are in the same list are one block. The
// original keeps a list in the order of addresses and looks at all of it; what it finds is the smallest
// block that is large enough, the lowest of several: here a set in that order (holes.BySize).
//
// # One Malloc
//
//  1. The size is rounded up to a multiple of 256 bytes.
//  2. Best fit in the list of the stream.
//  3. Best fit in the lists of the other streams, one after the other; the first list that has a fit
//     serves the request and keeps the rest of the block.
//  4. The lists of the other streams are merged into the stream's own, one after the other, with a look
//     for a fit after each.
//  5. The pool grows by as much as it has, or by the request if that is more. With a maximum, by half of
//     what the maximum leaves; if it leaves less than the request, upstream blocks that are wholly free
//     go back until it does. While the driver refuses, half as much is asked for, down to the request.
//  6. Then the request is out of memory.
//
// A block is split whatever is left over.
//
// # What is counted
//
// Stats.AtPeak: Cached are upstream blocks that are wholly free in one list (whether or not they would be
// given back), Stranded is what else is free, Rounding is the alignment.
//
// # What is not modelled
//
// The order of the other streams is that of their first use; in the original it is that of the addresses
// of their events. Waiting for an event takes no time here.

// PoolAbout is the pool in one line.
const PoolAbout = "RMM pool: coalescing best fit with a free list a stream, the pool doubles (rapidsai/rmm, 2026)"

// PoolConfig is what can be set. The zero value begins with nothing and grows without a maximum.
type PoolConfig struct {
	Initial int64 // bytes taken at once, rounded up to 256; the Python interface takes half of the free memory by default
	Maximum int64 // bytes that the pool may have, rounded down to 256; 0 for no maximum
}

// Pool is the model of the pool.
type Pool struct {
	account ledger.Ledger
	pool    pool
}

// NewPool is a pool that has taken its initial size, if the driver has it; without it, every request
// fails, as the constructor of the original does.
func NewPool(driver allocators.Driver, cfg PoolConfig) *Pool {
	p := &Pool{}
	p.pool = pool{driver: driver, chain: holes.NewChain(), account: &p.account}
	p.pool.init(cfg)
	if p.account.Raised() {
		p.account.AtPeak(p.pool.cached())
	}
	return p
}

// Malloc implements allocators.Allocator.
func (p *Pool) Malloc(req allocators.Request) error {
	if err := p.account.Admit(req); err != nil {
		return err
	}
	size := alignUp(req.Size)
	addr, id, ok := p.pool.allocate(size, req.Stream)
	if !ok {
		_, largest := p.pool.cached()
		return p.account.Refuse(req.Size, size, largest)
	}
	e := p.account.Open(req, addr, size, id)
	e.Stream = p.pool.streams.of(req.Stream)
	if p.account.Raised() {
		p.account.AtPeak(p.pool.cached())
	}
	return nil
}

// Free implements allocators.Allocator.
func (p *Pool) Free(block uint32, pending bool) {
	if e := p.account.Release(block, pending); e != nil {
		p.pool.put(e.Slot, e.Stream)
	}
}

// Complete implements allocators.Allocator.
func (p *Pool) Complete(block uint32) {
	if e := p.account.Complete(block); e != nil {
		p.pool.put(e.Slot, e.Stream)
	}
}

// EmptyCache does nothing: a pool keeps what it has.
func (p *Pool) EmptyCache() {}

// Block implements allocators.Allocator.
func (p *Pool) Block(block uint32) (addr uint64, size int64, ok bool) { return p.account.Block(block) }

// Stats implements allocators.Allocator.
func (p *Pool) Stats() *allocators.Stats { return p.account.Stats() }

// pool is the mechanism, without an account of blocks: Binning has one as its upstream.
type pool struct {
	driver  allocators.Driver
	account account
	maximum int64
	size    int64 // bytes held
	broken  bool  // the initial size was not to be had

	streams streams
	chain   holes.Chain
	lists   []*holes.BySize // by stream
	member  []uint16        // by piece: the list that it is in, if it is free
	blocks  []upstreamBlock
}

// An upstreamBlock is one allocation from the driver.
type upstreamBlock struct {
	addr  uint64
	size  int64
	first uint32 // its first piece, always the same
}

func (p *pool) init(cfg PoolConfig) {
	p.maximum = alignDown(max(cfg.Maximum, 0))
	if initial := alignUp(min(max(cfg.Initial, 0), ledger.MaxRequest)); initial > 0 {
		id, ok := uint32(0), false
		if p.maximum == 0 || initial <= p.maximum {
			id, ok = p.take(initial)
		}
		if p.broken = !ok; ok {
			p.put(id, p.streams.of(0))
		}
	}
}

// list is the free list of a stream.
func (p *pool) list(stream uint16) *holes.BySize {
	for len(p.lists) <= int(stream) {
		list := holes.NewBySize(&p.chain)
		p.lists = append(p.lists, &list)
	}
	return p.lists[stream]
}

// insert puts a piece into the free list of a stream.
func (p *pool) insert(id uint32, stream uint16) {
	for len(p.member) <= int(id) {
		p.member = append(p.member, 0)
	}
	p.member[id] = stream
	p.list(stream).Insert(&p.chain, id)
}

// has reports whether a piece is in the free list of a stream.
func (p *pool) has(id uint32, stream uint16) bool {
	return p.chain.At(id).Free() && p.member[id] == stream
}

func (p *pool) allocate(size int64, stream uint32) (addr uint64, id uint32, ok bool) {
	if p.broken {
		return 0, 0, false
	}
	own := p.streams.of(stream)
	id, from := p.find(size, own)
	if id == holes.None {
		if id, ok = p.expand(size, own); !ok {
			return 0, 0, false
		}
		from = own
	}
	if p.chain.At(id).Size > size {
		p.insert(p.chain.Split(id, size), from)
	}
	return p.chain.At(id).Addr, id, true
}

// find takes a free block from a list, and says which.
func (p *pool) find(size int64, own uint16) (id uint32, from uint16) {
	list := p.list(own)
	if id = list.Take(&p.chain, size); id != holes.None {
		return id, own
	}
	for i, l := range p.lists {
		if i != int(own) {
			if id = l.Take(&p.chain, size); id != holes.None {
				return id, uint16(i)
			}
		}
	}
	for i, l := range p.lists {
		if i == int(own) {
			continue
		}
		moved := false
		for id = l.Take(&p.chain, 1); id != holes.None; id = l.Take(&p.chain, 1) {
			p.put(id, own)
			moved = true
		}
		if !moved {
			continue
		}
		if id = list.Take(&p.chain, size); id != holes.None {
			return id, own
		}
	}
	return holes.None, own
}

// put makes a piece part of a stream's free list.
func (p *pool) put(id uint32, stream uint16) {
	list := p.list(stream)
	q := p.chain.At(id)
	if p.has(q.Next, stream) {
		list.Remove(&p.chain, q.Next)
		p.chain.Join(id)
	}
	if p.has(q.Prev, stream) {
		id = q.Prev
		list.Remove(&p.chain, id)
		p.chain.Join(id)
	}
	p.insert(id, stream)
}

func (p *pool) deallocate(_ uint64, _ int64, id uint32, stream uint32) {
	p.put(id, p.streams.of(stream))
}

// expand takes an upstream block that holds the request; every free block is in the stream's own list.
func (p *pool) expand(size int64, own uint16) (id uint32, ok bool) {
	grow := p.toGrow(size)
	if grow < size && p.maximum > 0 && size <= p.maximum {
		p.reclaim(size, own)
		grow = p.toGrow(size)
	}
	for grow >= size {
		if id, ok = p.take(grow); ok {
			return id, true
		}
		if grow == size {
			break
		}
		grow = max(size, grow/2)
	}
	return 0, false
}

// toGrow is the size of the next upstream block, 0 if the maximum does not leave enough.
func (p *pool) toGrow(size int64) int64 {
	if p.maximum == 0 {
		return max(size, p.size)
	}
	remaining := alignUp(p.maximum - p.size)
	if size > remaining {
		return 0
	}
	return max(size, remaining/2)
}

// reclaim gives back upstream blocks that are wholly free, from the lowest on, until the maximum leaves
// enough for the request.
func (p *pool) reclaim(size int64, own uint16) {
	list := p.list(own)
	flushed := false
	kept := p.blocks[:0]
	for _, b := range p.blocks {
		if p.maximum-p.size >= size || !p.has(b.first, own) || p.chain.At(b.first).Size != b.size {
			kept = append(kept, b)
			continue
		}
		if !flushed {
			p.account.Flushed()
			flushed = true
		}
		list.Remove(&p.chain, b.first)
		p.chain.Drop(b.first)
		p.driver.Free(b.addr, b.size)
		p.account.Gave(b.size)
		p.size -= b.size
	}
	p.blocks = kept
}

// take adds an upstream block, in no list yet. Blocks are kept in the order of their addresses.
func (p *pool) take(size int64) (id uint32, ok bool) {
	addr, err := p.driver.Alloc(size)
	if err != nil {
		return 0, false
	}
	p.account.Took(size)
	p.size += size
	id = p.chain.Append(holes.None, addr, size)
	i := len(p.blocks)
	for i > 0 && p.blocks[i-1].addr > addr {
		i--
	}
	p.blocks = append(p.blocks, upstreamBlock{})
	copy(p.blocks[i+1:], p.blocks[i:])
	p.blocks[i] = upstreamBlock{addr, size, id}
	return id, true
}

func (p *pool) cached() (bytes, largest int64) {
	for _, b := range p.blocks {
		if q := p.chain.At(b.first); q.Free() && q.Size == b.size {
			bytes += b.size
		}
	}
	for _, l := range p.lists {
		largest = max(largest, l.Largest(&p.chain))
	}
	return bytes, largest
}
