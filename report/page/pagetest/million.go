// Package pagetest makes recordings as large as one wants, for tests and benchmarks of pages.
package pagetest

import (
	"fmt"
	"math/rand/v2"

	"github.com/vramscope/vramscope/allocators"
	"github.com/vramscope/vramscope/allocators/caching"
	"github.com/vramscope/vramscope/allocators/caching/config"
	"github.com/vramscope/vramscope/allocators/driver/sim"
	"github.com/vramscope/vramscope/trace"
)

// maker writes down what a program asks of the model of PyTorch's allocator, as PyTorch would.
type maker struct {
	trace  *trace.Trace
	device *trace.Device
	model  *caching.Allocator
	random *rand.Rand
	now    trace.Time
	stacks []trace.StackID
	blocks uint32
}

func newMaker() *maker {
	t := &trace.Trace{Source: trace.Source{Format: "PyTorch snapshot", Producer: "made for a test"}, Stacks: trace.NewStacks()}
	t.Devices = []trace.Device{{Content: trace.Decisions, Streams: []uint64{0}, Pools: []trace.Pool{{0, 0}}}}
	m := &maker{trace: t, device: &t.Devices[0], random: rand.New(rand.NewPCG(1, 2)), now: 1_700_000_000e9}
	m.model = caching.New(sim.New(sim.Config{}), caching.NewConfig(config.Default()))
	ops := map[caching.ActionKind]trace.Op{caching.SegmentAlloc: trace.OpSegmentAlloc, caching.SegmentFree: trace.OpSegmentFree,
		caching.SegmentMap: trace.OpSegmentMap, caching.SegmentUnmap: trace.OpSegmentUnmap}
	m.model.SetHooks(caching.Hooks{Acted: func(x caching.Action) {
		m.add(trace.Event{Op: ops[x.Kind], Addr: x.Addr, Size: x.Size, Block: trace.NoBlock})
	}})
	main := t.Stacks.AddFrame(trace.Frame{File: "/home/somebody/train.py", Func: "main", Line: 10})
	for i := range 400 {
		layer := t.Stacks.AddFrame(trace.Frame{File: "/home/somebody/model.py", Func: fmt.Sprintf("layer%d", i/8), Line: 100 + i/8})
		call := t.Stacks.AddFrame(trace.Frame{File: "/usr/lib/python3/dist-packages/torch/nn/modules/module.py", Func: "_call_impl", Line: 1762})
		inner := t.Stacks.AddFrame(trace.Frame{File: "/usr/lib/python3/dist-packages/torch/nn/functional.py", Func: fmt.Sprintf("op%d", i%8), Line: 2000 + i%8})
		m.stacks = append(m.stacks, t.Stacks.AddStack([]trace.FrameID{inner, call, layer, main}))
	}
	return m
}

func (m *maker) add(e trace.Event) {
	m.now += trace.Time(1000 * (1 + m.random.IntN(40)))
	e.Time = m.now
	m.device.Events.Append(e)
}

// alloc gives the number of a new block, and whether there was memory for it.
func (m *maker) alloc(size int64, stack trace.StackID) (uint32, bool) {
	b := m.blocks
	if m.model.Malloc(allocators.Request{Block: b, Size: size}) != nil {
		return 0, false
	}
	m.blocks++
	addr, _, _ := m.model.Block(b)
	m.add(trace.Event{Op: trace.OpAlloc, Addr: addr, Size: size, Block: trace.BlockID(b), Stack: stack})
	return b, true
}

func (m *maker) free(b uint32) {
	addr, size, _ := m.model.Block(b)
	e := trace.Event{Op: trace.OpFreeRequested, Addr: addr, Size: size, Block: trace.BlockID(b)}
	m.add(e)
	e.Op = trace.OpFreeCompleted
	m.add(e)
	m.model.Free(b, false)
}

func (m *maker) done() *trace.Trace {
	m.device.NumBlocks = int(m.blocks)
	return m.trace
}

// Training is a recording of so many blocks, of a program that does nearly the same in each step: layers forward, which
// keep activations, layers backward, which free them, and weights that stay.
func Training(blocks int) *trace.Trace {
	const layers = 400
	m := newMaker()
	for i := range layers {
		m.alloc(int64(1+i%7)<<19, m.stacks[i])
	}
	for int(m.blocks) < blocks {
		length := int64(64 + m.random.IntN(192)) // of a batch's sequences
		var kept, passing []uint32
		for i := 0; i < layers && int(m.blocks) < blocks; i++ {
			if b, ok := m.alloc(length*int64(1+i%5)<<12, m.stacks[i]); ok {
				kept = append(kept, b)
			}
			if b, ok := m.alloc(length<<13, m.stacks[(i*7)%layers]); ok {
				passing = append(passing, b)
			}
			if len(passing) > 3 {
				m.free(passing[0])
				passing = passing[1:]
			}
		}
		for i := len(kept) - 1; i >= 0; i-- {
			if b, ok := m.alloc(length<<12, trace.NoStack); ok && int(m.blocks) < blocks {
				passing = append(passing, b)
			}
			m.free(kept[i])
			if len(passing) > 2 {
				m.free(passing[0])
				passing = passing[1:]
			}
		}
		for _, b := range passing {
			m.free(b)
		}
	}
	return m.done()
}

// Crowd is a recording of so many blocks of which so many are there at the same time, of random sizes and lives: what no
// program does, and what compresses least.
func Crowd(blocks, live int) *trace.Trace {
	m := newMaker()
	sizes := make([]int64, 300)
	for i := range sizes {
		sizes[i] = 512 + int64(m.random.ExpFloat64()*150_000)
	}
	var now []uint32
	for int(m.blocks) < blocks {
		if len(now) >= live || len(now) > live/2 && m.random.IntN(3) == 0 {
			k := m.random.IntN(len(now))
			m.free(now[k])
			now[k] = now[len(now)-1]
			now = now[:len(now)-1]
		}
		b, ok := m.alloc(sizes[m.random.IntN(len(sizes))], m.stacks[m.random.IntN(len(m.stacks))])
		if !ok {
			break
		}
		now = append(now, b)
	}
	return m.done()
}
