// Package pagetest makes recordings as large as one wants, for tests and benchmarks of pages.
package pagetest

import (
	"fmt"
	"math/rand/v2"

	"github.com/vramscope/vramscope/internal/tracetest"
	"github.com/vramscope/vramscope/trace"
)

const layers = 400

// program asks for memory and gives it back, always in the same way.
type program struct {
	*tracetest.Recorder
	random *rand.Rand
	stacks [layers]string
	blocks int
}

func newProgram() *program {
	p := &program{Recorder: tracetest.New("", -1), random: rand.New(rand.NewPCG(1, 2))}
	for i := range p.stacks {
		p.stacks[i] = fmt.Sprintf("/opt/lib/python3.12/site-packages/torch/nn/functional.py:%d op%d"+
			" < /opt/lib/python3.12/site-packages/torch/nn/modules/module.py:1762 _call_impl < /home/somebody/model.py:%d layer%d < /home/somebody/train.py:10 main",
			2000+i%8, i%8, 100+i/8, i/8)
	}
	return p
}

func (p *program) alloc(size int64, stack string) int {
	p.blocks++
	return p.Alloc(size, stack)
}

// recording ends the program. Time passes as in a program, and not by one tick from event to event.
func (p *program) recording() *trace.Trace {
	t := p.Trace()
	now := trace.Time(1_700_000_000e9)
	for _, e := range t.Devices[0].Events.All() {
		if e.Op != trace.OpFreeCompleted {
			now += trace.Time(1000 * (1 + p.random.IntN(30)))
		}
		e.Time = now
	}
	return t
}

// Training is a recording of so many blocks, of a program that does nearly the same in each step: layers forward, which
// keep activations, layers backward, which free them, and weights that stay.
func Training(blocks int) *trace.Trace {
	p := newProgram()
	for i := range layers {
		p.alloc(int64(1+i%7)<<19, p.stacks[i])
	}
	for p.blocks < blocks {
		length := int64(64 + p.random.IntN(192)) // of a batch's sequences
		var kept, passing []int
		pass := func(size int64, stack string, most int) {
			if p.blocks < blocks {
				passing = append(passing, p.alloc(size, stack))
			}
			if len(passing) > most {
				p.Free(passing[0])
				passing = passing[1:]
			}
		}
		for i := 0; i < layers && p.blocks < blocks; i++ {
			kept = append(kept, p.alloc(length*int64(1+i%5)<<12, p.stacks[i]))
			pass(length<<13, p.stacks[i*7%layers], 3)
		}
		for len(kept) > 0 {
			pass(length<<12, "", 2)
			p.Free(kept[len(kept)-1])
			kept = kept[:len(kept)-1]
		}
		p.Free(passing...)
	}
	return p.recording()
}

// Crowd is a recording of so many blocks of which so many are there at the same time, of random sizes and lives: what no
// program does, and what compresses least.
func Crowd(blocks, live int) *trace.Trace {
	p := newProgram()
	sizes := make([]int64, 300)
	for i := range sizes {
		sizes[i] = 512 + int64(p.random.ExpFloat64()*150_000)
	}
	var now []int
	for p.blocks < blocks {
		if len(now) >= live || len(now) > live/2 && p.random.IntN(3) == 0 {
			k := p.random.IntN(len(now))
			p.Free(now[k])
			now[k] = now[len(now)-1]
			now = now[:len(now)-1]
		}
		now = append(now, p.alloc(sizes[p.random.IntN(len(sizes))], p.stacks[p.random.IntN(layers)]))
	}
	return p.recording()
}
