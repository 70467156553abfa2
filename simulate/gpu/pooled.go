package gpu

import (
	"github.com/vramscope/vramscope/allocators"
	"github.com/vramscope/vramscope/allocators/driver/cuda"
	"github.com/vramscope/vramscope/allocators/driver/sim"
	"github.com/vramscope/vramscope/allocators/stream"
)

// poolPage is the unit in which a pool takes memory, bytes.
const poolPage = 32 << 20

// pooled serves each request with a cudaMallocAsync from a pool, on a stream for each of the recording's. A
// free is a cudaFreeAsync when the recording says that the block was not used any more. Nothing runs on the
// streams, so no call waits for another.
type pooled struct {
	*queue
	model   *stream.Allocator
	streams map[uint32]uint16
	pools   map[uint32]*realPool // by the recording's number
	handles map[uint64]*realPool
	blocks  []pooledBlock
}

// realPool is a pool of the driver.
type realPool struct {
	handle     uint64
	held, used int64
	start      uint64 // address of its first block
	offset     uint64 // from an address in the model to the real one
	located    bool
}

type pooledBlock struct {
	size    int64 // 0: it is not live
	pool    *realPool
	stream  uint16
	pending bool
}

func newPooled(q *queue) (server, error) {
	if err := q.dev.NeedPools(); err != nil {
		return nil, err
	}
	q.res.Memory = max(q.res.Memory/poolPage, 1) * poolPage
	driver := sim.New(sim.Config{Capacity: q.res.Memory})
	return &pooled{queue: q, model: stream.New(driver, stream.PyTorch()), streams: map[uint32]uint16{},
		pools: map[uint32]*realPool{}, handles: map[uint64]*realPool{}}, nil
}

// streamOf is the real stream for one of the recording's, made at its first use.
func (p *pooled) streamOf(number uint32) (uint16, error) {
	s, ok := p.streams[number]
	if !ok {
		var err error
		if s, err = p.dev.Stream(); err != nil {
			return 0, err
		}
		p.streams[number] = s
	}
	return s, nil
}

func (p *pooled) poolOf(number uint32) (*realPool, error) {
	r, ok := p.pools[number]
	if !ok {
		handle, err := p.dev.Pool(p.res.Memory)
		if err != nil {
			return nil, err
		}
		r = &realPool{handle: handle}
		p.pools[number], p.handles[handle] = r, r
	}
	return r, nil
}

// Malloc queues a cudaMallocAsync.
func (p *pooled) Malloc(r allocators.Request) error {
	if err := p.ready(); err != nil {
		return err
	}
	s, err := p.streamOf(r.Stream)
	if err != nil {
		p.err = err
		return err
	}
	pool, err := p.poolOf(r.Pool)
	if err != nil {
		p.err = err
		return err
	}
	refused := p.model.Malloc(r) != nil
	if refused && len(p.pools) > 1 {
		p.trim() // as the model did before it gave up; one pool alone would not know that this is too much
		return p.refuse(r.Size)
	}
	for int(r.Block) >= len(p.blocks) {
		p.blocks = append(p.blocks, pooledBlock{})
	}
	p.blocks[r.Block] = pooledBlock{size: r.Size, pool: pool, stream: s}
	addr, _, _ := p.model.Block(r.Block)
	x := p.says(said{block: r.Block, size: r.Size, addr: addr})
	x.beyond = refused
	err = p.ask(cuda.Op{Kind: cuda.PoolAlloc, Size: r.Size, Stream: s, Handle: pool.handle, Flags: cuda.LookPool}, x)
	if refused {
		p.flush()
		err = p.oom(r.Size)
	}
	if err != nil {
		p.undo(r.Block, refused)
	}
	return err
}

// undo forgets a block that was not to be had; one that the device did give, although the model had refused it, goes
// back.
func (p *pooled) undo(block uint32, refused bool) {
	b := &p.blocks[block]
	if !refused {
		p.model.Free(block, false)
	} else if p.ready() == nil {
		p.push(cuda.Op{Kind: cuda.PoolFree, Slot: block, Stream: b.stream, Handle: b.pool.handle, Flags: cuda.InSlot}, said{held: -1, used: -1})
	}
	b.size = 0
}

// says adds what the model holds.
func (p *pooled) says(s said) said {
	s.held, s.used = p.model.Stats().Reserved.Current, p.model.Used().Current
	return s
}

// Free queues a cudaFreeAsync, or waits for Complete.
func (p *pooled) Free(block uint32, pending bool) {
	if int(block) >= len(p.blocks) || p.blocks[block].size == 0 {
		return
	}
	b := &p.blocks[block]
	if pending {
		b.pending = true
		return
	}
	p.model.Free(block, false)
	p.push(cuda.Op{Kind: cuda.PoolFree, Slot: block, Stream: b.stream, Handle: b.pool.handle, Flags: cuda.InSlot | cuda.LookPool},
		p.says(said{block: block, size: b.size}))
	b.size, b.pending = 0, false
}

// Complete queues the cudaFreeAsync of a block that waited.
func (p *pooled) Complete(block uint32) {
	if int(block) < len(p.blocks) && p.blocks[block].pending {
		p.Free(block, false)
	}
}

// EmptyCache waits for the device and trims the pools to nothing.
func (p *pooled) EmptyCache() {
	p.model.EmptyCache()
	p.trim()
}

func (p *pooled) trim() {
	ops := p.trims()
	for i, op := range ops {
		s := said{held: -1, used: -1}
		if i == len(ops)-1 {
			s = p.says(s)
		}
		p.push(op, s)
	}
}

func (p *pooled) trims() []cuda.Op {
	ops := []cuda.Op{{Kind: cuda.Sync}}
	for _, r := range p.pools {
		ops = append(ops, cuda.Op{Kind: cuda.PoolTrim, Handle: r.handle, Flags: cuda.LookPool})
	}
	return ops
}

// again gives back what is free, as PyTorch does when its pool refuses.
func (p *pooled) again() bool {
	p.stats.Retries++
	ops := p.trims()
	if _, err := p.dev.Run(ops); err != nil {
		return false
	}
	for i := range ops {
		p.take(&ops[i], &said{held: -1, used: -1})
	}
	return true
}

// touched waits for the write: a free would wait for it, and whether that is over when the next request comes,
// nobody could foretell. Waiting lets all streams have what each of them freed, as the model knows.
func (p *pooled) touched() {
	p.model.Synchronize()
	p.push(cuda.Op{Kind: cuda.Sync}, said{held: -1, used: -1})
}

// Block says where a block is in the model.
func (p *pooled) Block(block uint32) (addr uint64, size int64, ok bool) { return p.model.Block(block) }

// Stats is what the device did, of the calls that were made.
func (p *pooled) Stats() *allocators.Stats { return &p.stats }

func (p *pooled) predicted() allocators.Stats { return *p.model.Stats() }

func (p *pooled) settle(op *cuda.Op, s *said) {
	p.count(op, s)
	if r := p.handles[op.Handle]; r != nil && op.Held >= 0 {
		r.held, r.used = op.Held, op.Used
	}
	var held, used int64
	for _, r := range p.pools {
		held += r.held
		used += r.used
	}
	p.stats.Reserved.Add(held - p.stats.Reserved.Current)
	if s.held >= 0 && (held != s.held || used != s.used) {
		p.part(s.event, Act{"holds", held, used}, Act{"holds", s.held, s.used})
	}
	if op.Kind == cuda.PoolAlloc {
		r := p.handles[op.Handle]
		if !r.located {
			r.located, r.start, r.offset = true, op.Addr, op.Addr-s.addr
		}
		p.place(s, int64(op.Addr-r.start), int64(s.addr+r.offset-r.start))
	}
}

func (p *pooled) giveBack() error {
	return p.back(len(p.blocks), func(b int) cuda.Op {
		return cuda.Op{Kind: cuda.PoolFree, Stream: p.blocks[b].stream}
	})
}
