package simulate

import (
	"github.com/vramscope/vramscope/allocators"
	"github.com/vramscope/vramscope/allocators/arena"
	"github.com/vramscope/vramscope/allocators/bfc"
	"github.com/vramscope/vramscope/allocators/buddy"
	"github.com/vramscope/vramscope/allocators/caching"
	"github.com/vramscope/vramscope/allocators/packing"
	"github.com/vramscope/vramscope/allocators/rmm"
	"github.com/vramscope/vramscope/allocators/slab"
	"github.com/vramscope/vramscope/allocators/stream"
	"github.com/vramscope/vramscope/trace"
)

// Model is an allocator that requests can be replayed through.
type Model struct {
	Name     string
	What     string // one line
	Settings bool   // it takes PyTorch's settings
	make     func(driver allocators.Driver, w WhatIf, s *Surroundings, r *Requests) allocators.Allocator
}

// Caching is the name of PyTorch's own allocator.
const Caching = "caching"

// Models lists them in the order in which they are shown.
func Models() []Model {
	arenaOf := func(p arena.Policy) func(allocators.Driver, WhatIf, *Surroundings, *Requests) allocators.Allocator {
		return func(d allocators.Driver, _ WhatIf, _ *Surroundings, _ *Requests) allocators.Allocator {
			return arena.New(d, arena.Config{Policy: p})
		}
	}
	return []Model{
		{Caching, "PyTorch's CUDACachingAllocator, with every setting (--conf)", true,
			func(d allocators.Driver, w WhatIf, s *Surroundings, _ *Requests) allocators.Allocator {
				return caching.New(d, caching.Config{Config: w.Config, Limit: w.Limit, DeviceTotal: s.total})
			}},
		{"stream", stream.About, false, func(d allocators.Driver, w WhatIf, _ *Surroundings, _ *Requests) allocators.Allocator {
			opt := stream.PyTorch()
			opt.Limit = max(w.Limit, 0)
			return stream.New(d, opt)
		}},
		{"bfc", bfc.About, false, func(d allocators.Driver, w WhatIf, _ *Surroundings, _ *Requests) allocators.Allocator {
			return bfc.New(d, bfc.Config{Limit: max(w.Limit, 0)})
		}},
		{"rmm-pool", rmm.PoolAbout, false, func(d allocators.Driver, w WhatIf, _ *Surroundings, _ *Requests) allocators.Allocator {
			return rmm.NewPool(d, rmm.PoolConfig{Maximum: max(w.Limit, 0)})
		}},
		{"rmm-arena", rmm.ArenaAbout, false, func(d allocators.Driver, w WhatIf, _ *Surroundings, _ *Requests) allocators.Allocator {
			return rmm.NewArena(d, rmm.ArenaConfig{})
		}},
		{"rmm-binning", rmm.BinningAbout, false, func(d allocators.Driver, w WhatIf, _ *Surroundings, _ *Requests) allocators.Allocator {
			return rmm.NewBinning(d, rmm.BinningConfig{Pool: &rmm.PoolConfig{Maximum: max(w.Limit, 0)}})
		}},
		{"buddy", buddy.About, false, func(d allocators.Driver, _ WhatIf, _ *Surroundings, _ *Requests) allocators.Allocator {
			return buddy.New(d, buddy.Config{})
		}},
		{"slab", slab.About, false, func(d allocators.Driver, _ WhatIf, _ *Surroundings, _ *Requests) allocators.Allocator {
			return slab.New(d, slab.Config{})
		}},
		{"best-fit", arena.About + " best fit: the smallest that is large enough (Knuth, TAOCP 1, 2.5)", false, arenaOf(arena.BestFit)},
		{"first-fit", arena.About + " first fit: the lowest that is large enough (Knuth, TAOCP 1, 2.5)", false, arenaOf(arena.FirstFit)},
		{"next-fit", arena.About + " next fit: the first that is large enough after the last block (Knuth, TAOCP 1, 2.5)", false, arenaOf(arena.NextFit)},
		{"packing", packing.About, false, func(d allocators.Driver, _ WhatIf, s *Surroundings, r *Requests) allocators.Allocator {
			return packing.New(d, packing.Config{Plan: s.packed(r)})
		}},
	}
}

// FindModel is the model of a name.
func FindModel(name string) (Model, bool) {
	for _, m := range Models() {
		if m.Name == name {
			return m, true
		}
	}
	return Model{}, false
}

// mostSearched is up to how many blocks a better packing than the greedy one is searched for.
const mostSearched = 200

// packed is the best known packing of all blocks of the requests, made once for each: edited ones are others
// than the recording's. The order is that in which a Player asks.
func (s *Surroundings) packed(r *Requests) *packing.Plan {
	s.packing.Lock()
	defer s.packing.Unlock()
	if plan, ok := s.plans[r]; ok {
		return plan
	}
	lives := packing.NewRecorder(0)
	for _, b := range r.Initial {
		lives.Malloc(uint32(b.ID), max(b.Requested, 1))
	}
	n := len(r.Initial)
	for _, e := range r.Device.Events.All() {
		switch e.Op {
		case trace.OpAlloc:
			lives.Malloc(uint32(e.Block), e.Size)
			n++
		case trace.OpFree, trace.OpFreeCompleted:
			lives.Free(uint32(e.Block))
		case trace.OpOOM:
			if e.Size <= 0 {
				break // not replayed
			}
			spare := uint32(r.Device.NumBlocks)
			lives.Malloc(spare, e.Size)
			lives.Free(spare)
		}
	}
	opt := packing.Options{Nodes: -1}
	if n <= mostSearched {
		opt.Nodes = 0
	}
	plan := lives.Plan(opt)
	if s.plans == nil {
		s.plans = map[*Requests]*packing.Plan{}
	}
	s.plans[r] = plan
	return plan
}
