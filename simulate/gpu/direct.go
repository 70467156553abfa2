package gpu

import (
	"github.com/vramscope/vramscope/allocators"
	"github.com/vramscope/vramscope/allocators/driver/cuda"
	"github.com/vramscope/vramscope/allocators/driver/sim"
)

// direct serves each request with a cudaMalloc. Held is what the device itself says is in use.
type direct struct {
	*queue
	sim    *sim.Driver
	said   allocators.Stats
	blocks []directBlock

	offset  uint64 // from an address in the simulation to the real one
	start   uint64 // address of the first block
	located bool
	steps   []sim.Step
	sharing map[uint64]int // small blocks in each granule
}

type directBlock struct {
	addr    uint64 // in the simulation
	size    int64  // 0: it is not live
	pending bool
}

func newDirect(q *queue) (server, error) {
	return &direct{queue: q, sim: sim.New(sim.Config{Capacity: q.res.Memory}), sharing: map[uint64]int{}}, nil
}

// Malloc queues a cudaMalloc.
func (d *direct) Malloc(r allocators.Request) error {
	if err := d.ready(); err != nil {
		return err
	}
	addr, err := d.sim.Alloc(r.Size)
	if err != nil {
		return d.refuse(r.Size)
	}
	for int(r.Block) >= len(d.blocks) {
		d.blocks = append(d.blocks, directBlock{})
	}
	d.blocks[r.Block] = directBlock{addr: addr, size: r.Size}
	d.said.Reserved.Add(d.sim.Used() - d.said.Reserved.Current)
	d.said.Requested.Add(r.Size)
	d.said.Allocated.Add(r.Size)
	d.said.Active.Add(r.Size)
	d.said.DeviceAllocs++
	err = d.ask(cuda.Op{Kind: cuda.Alloc, Size: r.Size, Flags: cuda.Look},
		said{block: r.Block, size: r.Size, addr: addr, held: d.sim.Used(), used: -1})
	if err != nil && d.denied {
		d.forget(r.Block)
	}
	return err
}

// Free queues a cudaFree, or waits for Complete.
func (d *direct) Free(block uint32, pending bool) {
	if int(block) >= len(d.blocks) || d.blocks[block].size == 0 {
		return
	}
	if pending {
		d.blocks[block].pending = true
		return
	}
	size := d.forget(block)
	d.push(cuda.Op{Kind: cuda.Free, Slot: block, Flags: cuda.InSlot | cuda.Look}, said{block: block, size: size, held: d.sim.Used(), used: -1})
}

// Complete queues the cudaFree of a block that waited.
func (d *direct) Complete(block uint32) {
	if int(block) < len(d.blocks) && d.blocks[block].pending {
		d.Free(block, false)
	}
}

// forget frees a block in the simulation.
func (d *direct) forget(block uint32) int64 {
	b := d.blocks[block]
	d.blocks[block] = directBlock{}
	d.sim.Free(b.addr, b.size)
	d.said.Reserved.Add(d.sim.Used() - d.said.Reserved.Current)
	d.said.Requested.Add(-b.size)
	d.said.Allocated.Add(-b.size)
	d.said.Active.Add(-b.size)
	d.said.DeviceFrees++
	return b.size
}

// EmptyCache does nothing: there is no cache.
func (d *direct) EmptyCache() {}

// Block says where a block is in the simulation.
func (d *direct) Block(block uint32) (addr uint64, size int64, ok bool) {
	if int(block) >= len(d.blocks) || d.blocks[block].size == 0 {
		return 0, 0, false
	}
	return d.blocks[block].addr, d.blocks[block].size, true
}

// Stats is what the device did, of the calls that were made.
func (d *direct) Stats() *allocators.Stats { return &d.stats }

func (d *direct) predicted() allocators.Stats { return d.said }

func (d *direct) again() bool { return false }

func (d *direct) touched() {} // a cudaFree waits by itself

func (d *direct) settle(op *cuda.Op, s *said) {
	d.count(op, s)
	if op.Available >= 0 {
		used := d.res.Before - op.Available
		d.stats.Reserved.Add(used - d.stats.Reserved.Current)
		if used != s.held {
			d.part(s.event, act("has in use", used), act("has in use", s.held))
		}
	}
	switch op.Kind {
	case cuda.Alloc:
		if !d.located {
			d.located, d.start = true, op.Addr
			if off := op.Addr - s.addr; off%sim.ChunkUnit == 0 {
				d.offset = off
			}
		}
		d.place(s, int64(op.Addr-d.start), int64(s.addr+d.offset-d.start))
		d.step(s, op.Addr, true)
	case cuda.Free:
		d.step(s, op.Addr, false)
	}
}

// step notes what a call means to the chunks of the driver: small blocks share granules.
func (d *direct) step(s *said, addr uint64, alloc bool) {
	size := s.size
	if size < sim.Granule {
		addr, size = addr&^(sim.Granule-1), sim.Granule
		if alloc {
			if d.sharing[addr]++; d.sharing[addr] > 1 {
				return
			}
		} else if d.sharing[addr]--; d.sharing[addr] > 0 {
			return
		}
	}
	d.steps = append(d.steps, sim.Step{Op: int64(s.event), Alloc: alloc, Addr: addr, Size: size})
}

func (d *direct) giveBack() error {
	d.res.OneAhead = sim.Learn(nil, d.steps).Score
	return d.back(len(d.blocks), func(int) cuda.Op { return cuda.Op{Kind: cuda.Free} })
}
