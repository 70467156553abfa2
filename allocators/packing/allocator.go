package packing

import (
	"math"

	"github.com/vramscope/vramscope/allocators"
	"github.com/vramscope/vramscope/allocators/internal/holes"
	"github.com/vramscope/vramscope/allocators/internal/ledger"
)

// About is the model in one line.
const About = "offline packing into one range of addresses that knows all lifetimes; greedy where blocks are many (MiniMalloc's problem)"

// A Plan is a packing of the requests of one run, by the order in which they are made.
type Plan struct {
	Packing
	sizes []int64 // after rounding
}

// Recorder takes down the lives of blocks.
type Recorder struct {
	align   int64
	now     int64
	buffers []Buffer
	live    map[uint32]int // by block: its buffer
}

// NewRecorder is a recorder without blocks. Sizes will be multiples of align, 512 if that is 0.
func NewRecorder(align int64) *Recorder {
	if align <= 0 {
		align = 512
	}
	return &Recorder{align: align, live: map[uint32]int{}}
}

// Malloc takes down a request.
func (r *Recorder) Malloc(block uint32, size int64) {
	size = min(max(size, 1), ledger.MaxRequest)
	r.live[block] = len(r.buffers)
	r.buffers = append(r.buffers, Buffer{r.now, math.MaxInt64, (size + r.align - 1) / r.align * r.align})
	r.now++
}

// Free takes down that the memory of a block is reusable: when it was freed, or when its wait ended.
func (r *Recorder) Free(block uint32) {
	if i, ok := r.live[block]; ok {
		r.buffers[i].Upper = r.now
		delete(r.live, block)
	}
}

// Buffers are the lives so far; those that have not ended last until math.MaxInt64.
func (r *Recorder) Buffers() []Buffer { return r.buffers }

// Plan packs them.
func (r *Recorder) Plan(opts Options) *Plan {
	p := &Plan{Packing: Pack(r.buffers, opts), sizes: make([]int64, len(r.buffers))}
	for i, b := range r.buffers {
		p.sizes[i] = b.Size
	}
	return p
}

// Config is what can be set. Without a Plan every block is an allocation of its own from the driver.
type Config struct {
	Plan *Plan
}

// Allocator plays a plan: its i-th request goes to the i-th place. The range is one allocation from the
// driver, made for the first request. A request that the plan does not have, or has with another size, or
// whose place is not free because things went otherwise than planned, becomes an allocation of its own,
// which goes back when it is freed.
//
// Stats.AtPeak: Cached is the range while nothing is in it, Stranded is what is free in it otherwise,
// Rounding is the alignment. Streams and pools make no difference; the plan knows how long blocks wait.
type Allocator struct {
	driver  allocators.Driver
	account ledger.Ledger
	plan    *Plan

	next int    // the request that comes next
	base uint64 // of the range
	held bool
	used int64 // bytes of blocks in the range
	free holes.ByAddr
}

// New is an allocator that holds no memory yet.
func New(driver allocators.Driver, cfg Config) *Allocator {
	a := &Allocator{driver: driver, plan: cfg.Plan}
	if a.plan == nil {
		a.plan = &Plan{}
	}
	return a
}

// The slots of blocks in the account.
const (
	planned = iota
	apart
)

// Malloc implements allocators.Allocator.
func (a *Allocator) Malloc(req allocators.Request) error {
	if err := a.account.Admit(req); err != nil {
		return err
	}
	i := a.next
	a.next++
	if i >= len(a.plan.sizes) || a.plan.sizes[i] < req.Size || a.plan.sizes[i]-req.Size > maxRounding {
		return a.apart(req)
	}
	if !a.held {
		addr, err := a.driver.Alloc(a.plan.Height)
		if err != nil {
			return a.account.Refuse(req.Size, a.plan.Height, 0)
		}
		a.account.Took(a.plan.Height)
		a.base, a.held = addr, true
		a.free.Put(addr, a.plan.Height)
	}
	addr := a.base + uint64(a.plan.Offsets[i])
	if !a.free.TakeAt(addr, a.plan.sizes[i]) {
		return a.apart(req)
	}
	a.used += a.plan.sizes[i]
	a.account.Open(req, addr, a.plan.sizes[i], planned)
	a.peak()
	return nil
}

// maxRounding is the largest alignment that a plan's sizes may come from.
const maxRounding = 2 << 20

func (a *Allocator) apart(req allocators.Request) error {
	addr, err := a.driver.Alloc(req.Size)
	if err != nil {
		return a.account.Refuse(req.Size, req.Size, a.free.Largest())
	}
	a.account.Took(req.Size)
	a.account.Open(req, addr, req.Size, apart)
	a.peak()
	return nil
}

func (a *Allocator) peak() {
	if !a.account.Raised() {
		return
	}
	cached := int64(0)
	if a.held && a.used == 0 {
		cached = a.plan.Height
	}
	a.account.AtPeak(cached, a.free.Largest())
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
	if e.Slot == planned {
		a.used -= e.Size
		a.free.Put(e.Addr, e.Size)
		return
	}
	a.driver.Free(e.Addr, e.Size)
	a.account.Gave(e.Size)
}

// EmptyCache gives the range back if nothing is in it.
func (a *Allocator) EmptyCache() {
	if a.held && a.used == 0 {
		a.driver.Free(a.base, a.plan.Height)
		a.account.Gave(a.plan.Height)
		a.held = false
		a.free = holes.ByAddr{}
	}
}

// Block implements allocators.Allocator.
func (a *Allocator) Block(block uint32) (addr uint64, size int64, ok bool) {
	return a.account.Block(block)
}

// Stats implements allocators.Allocator.
func (a *Allocator) Stats() *allocators.Stats { return a.account.Stats() }
