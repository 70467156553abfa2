package rmm

import (
	"math/bits"

	"github.com/vramscope/vramscope/allocators"
	"github.com/vramscope/vramscope/allocators/internal/holes"
	"github.com/vramscope/vramscope/allocators/internal/ledger"
)

// Binning: rmm::mr::binning_memory_resource over fixed_size_memory_resource.
//
// # Structures
//
// A bin has blocks of one size, a power of two. It takes them from the upstream, a pool or the driver
// itself, in chunks of 128, the first chunk when the resource is made. Free blocks are in a queue for
// each stream.
//
// # One Malloc
//
// The smallest bin that holds the request serves it: the block that has been in the stream's queue for the
// longest time, else that of the first other stream that has one, else the first of a new chunk. A request
// above the largest bin goes to the upstream.
//
// # What is counted
//
// Stats.AtPeak: Cached is what the pool says of itself (nothing without a pool), Stranded are free blocks
// of bins and what else is free in the pool, Rounding is the loss to bins.

// BinningAbout is binning in one line.
const BinningAbout = "RMM binning: fixed-size blocks for powers of two, a pool or the driver for the rest (rapidsai/rmm, 2026)"

// The defaults of BinningConfig.
const (
	DefaultMinExponent = 18
	DefaultMaxExponent = 22
	DefaultPreallocate = 128
)

// BinningConfig is what can be set. The zero value has bins from 256 KiB to 4 MiB, the example of RMM's
// documentation, over the driver.
type BinningConfig struct {
	MinExponent int         // the smallest bin is of 2^MinExponent bytes (256 at least), 0 for 18
	MaxExponent int         // the largest bin is of 2^MaxExponent bytes, 0 for 22
	Preallocate int         // blocks of a chunk, 0 for 128
	Pool        *PoolConfig // the pool between binning and the driver, nil for none
}

// Binning is the model.
type Binning struct {
	account  ledger.Ledger
	upstream upstream
	streams  streams
	min      int // exponent of the first bin
	chunk    int64
	bins     []bin
	broken   bool // a first chunk was not to be had
}

type bin struct {
	size   int64
	queues [][]uint64 // by stream: free blocks, the one freed last at the end
	free   int
}

// large is the slot of blocks of the upstream in the account of blocks; pieces of the pool are counted
// from here.
const large = 1 << 8

// NewBinning is a resource whose bins have taken their first chunks, if the driver has the memory;
// without it, every request fails, as the constructor of the original does.
func NewBinning(driver allocators.Driver, cfg BinningConfig) *Binning {
	if cfg.MinExponent <= 0 {
		cfg.MinExponent = DefaultMinExponent
	}
	if cfg.MaxExponent <= 0 {
		cfg.MaxExponent = DefaultMaxExponent
	}
	if cfg.Preallocate <= 0 {
		cfg.Preallocate = DefaultPreallocate
	}
	b := &Binning{min: max(cfg.MinExponent, 8), chunk: int64(min(cfg.Preallocate, 1<<20))}
	if cfg.Pool != nil {
		p := &pool{driver: driver, chain: holes.NewChain(), account: &b.account}
		p.init(*cfg.Pool)
		b.broken = p.broken
		b.upstream = p
	} else {
		b.upstream = &direct{driver: driver, account: &b.account}
	}
	for e := b.min; e <= min(cfg.MaxExponent, 40); e++ {
		b.bins = append(b.bins, bin{size: 1 << e})
		b.broken = b.broken || !b.refill(&b.bins[len(b.bins)-1], 0)
	}
	b.peak()
	return b
}

// refill takes a chunk for a bin, for the given stream.
func (b *Binning) refill(n *bin, stream uint32) bool {
	addr, _, ok := b.upstream.allocate(n.size*b.chunk, stream)
	if !ok {
		return false
	}
	q := n.queue(b.streams.of(stream))
	for i := range b.chunk {
		*q = append(*q, addr+uint64(i*n.size))
	}
	n.free += int(b.chunk)
	return true
}

func (n *bin) queue(stream uint16) *[]uint64 {
	for len(n.queues) <= int(stream) {
		n.queues = append(n.queues, nil)
	}
	return &n.queues[stream]
}

// take is the next free block for a stream.
func (n *bin) take(own uint16) uint64 {
	q := n.queue(own)
	for i := 0; len(*q) == 0; i++ {
		q = &n.queues[i]
	}
	addr := (*q)[0]
	*q = (*q)[1:]
	n.free--
	return addr
}

// Malloc implements allocators.Allocator.
func (b *Binning) Malloc(req allocators.Request) error {
	if err := b.account.Admit(req); err != nil {
		return err
	}
	i := max(bits.Len64(uint64(req.Size-1))-b.min, 0)
	if b.broken || i >= len(b.bins) {
		return b.mallocLarge(req)
	}
	n := &b.bins[i]
	if n.free == 0 && !b.refill(n, req.Stream) {
		return b.account.Refuse(req.Size, n.size*b.chunk, b.largest())
	}
	own := b.streams.of(req.Stream)
	e := b.account.Open(req, n.take(own), n.size, uint32(i))
	e.Stream = own
	b.peak()
	return nil
}

func (b *Binning) mallocLarge(req allocators.Request) error {
	size := alignUp(req.Size)
	if b.broken {
		return b.account.Refuse(req.Size, size, b.largest())
	}
	addr, slot, ok := b.upstream.allocate(size, req.Stream)
	if !ok {
		return b.account.Refuse(req.Size, size, b.largest())
	}
	e := b.account.Open(req, addr, size, large+slot)
	e.Stream = b.streams.of(req.Stream)
	b.peak()
	return nil
}

func (b *Binning) peak() {
	if b.account.Raised() {
		cached, _ := b.upstream.cached()
		b.account.AtPeak(cached, b.largest())
	}
}

// Free implements allocators.Allocator.
func (b *Binning) Free(block uint32, pending bool) {
	if e := b.account.Release(block, pending); e != nil {
		b.put(e)
	}
}

// Complete implements allocators.Allocator.
func (b *Binning) Complete(block uint32) {
	if e := b.account.Complete(block); e != nil {
		b.put(e)
	}
}

func (b *Binning) put(e *ledger.Entry) {
	if e.Slot >= large {
		b.upstream.deallocate(e.Addr, e.Size, e.Slot-large, b.streams.name(e.Stream))
		return
	}
	n := &b.bins[e.Slot]
	q := n.queue(e.Stream)
	*q = append(*q, e.Addr)
	n.free++
}

// EmptyCache does nothing: bins keep what they have.
func (b *Binning) EmptyCache() {}

// Block implements allocators.Allocator.
func (b *Binning) Block(block uint32) (addr uint64, size int64, ok bool) {
	return b.account.Block(block)
}

// Stats implements allocators.Allocator.
func (b *Binning) Stats() *allocators.Stats { return b.account.Stats() }

func (b *Binning) largest() int64 {
	_, largest := b.upstream.cached()
	for i := range b.bins {
		if b.bins[i].free > 0 {
			largest = max(largest, b.bins[i].size)
		}
	}
	return largest
}
