// Package fleettest makes the recordings of a whole job out of one: each rank runs the same requests, with sizes and a
// number of steps of its own, through the model of the allocator, and what PyTorch would have recorded is written.
package fleettest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/vramscope/vramscope/allocators/caching/config"
	"github.com/vramscope/vramscope/internal/tracetest"
	"github.com/vramscope/vramscope/simulate"
	"github.com/vramscope/vramscope/trace"
	"github.com/vramscope/vramscope/trace/source"
)

// Job says what the ranks are like. Ranks that are named are so by their number.
type Job struct {
	Ranks  int
	Seed   uint64
	Stages int // of a pipeline, each with larger requests than the one before; 0 for none
	Far    int // the rank whose requests are far above the others, -1 for none
	Leak   int // the rank that keeps a little in each step, -1 for none
	OOM    int // the rank that asks for a quarter more than the others, and may not have it, -1 for none
	// Broken is one in how many files that cannot be read, 0 for none.
	Broken int
}

// LeakStack is the line that leaks.
const LeakStack = "/home/user/metrics.py:17 remember"

// Truth is what was made, by the count of the allocator that served each rank.
type Truth struct {
	Files  []string // that can be read, by rank; empty for one that is broken
	Broken []string // names of files that cannot
	// PeakAllocated and PeakReserved are bytes, by rank; 0 for one that is broken.
	PeakAllocated, PeakReserved []int64
}

// program is the requests of a recording, in steps.
type program struct {
	acts  []act
	steps int
}

// act asks for a block, or gives it back, in a step. Those before the first step are in step -1.
type act struct {
	block int
	size  int64 // 0 to give it back
	stack string
	step  int
}

// spaces would end the name of a file where a stack is written as a line.
var spaces = regexp.MustCompile(`\s+`)

// read takes the requests out of a recording.
func read(file string) (*program, error) {
	t, err := source.Open(file, source.Options{})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	d := &t.Devices[0]
	steps := simulate.Steps(t, d, nil)
	p := &program{steps: len(steps.Steps)}
	texts := map[trace.StackID]string{}
	text := func(id trace.StackID) string {
		if s, ok := texts[id]; ok {
			return s
		}
		var lines []string
		for _, f := range t.Stacks.Stack(id) {
			lines = append(lines, fmt.Sprintf("%s:%d %s", strings.ReplaceAll(spaces.ReplaceAllString(f.File, "_"), ":", "_"), f.Line, strings.ReplaceAll(f.Func, " < ", "<")))
		}
		texts[id] = strings.Join(lines, " < ")
		return texts[id]
	}
	for i, e := range d.Events.All() {
		at := steps.Of(i)
		if at < len(steps.Steps) && i < steps.Steps[at].From {
			at--
		}
		switch e.Op {
		case trace.OpAlloc:
			p.acts = append(p.acts, act{int(e.Block), e.Size, text(e.Stack), at})
		case trace.OpFree, trace.OpFreeRequested:
			p.acts = append(p.acts, act{block: int(e.Block), step: at})
		}
	}
	return p, nil
}

// rank runs the program as one rank: sizes above a page times scale, so many steps, keeping leak bytes in each.
func (p *program) rank(scale float64, steps int, leak, limit int64) *tracetest.Recorder {
	r := tracetest.New("", limit)
	blocks := map[int]int{}
	at, failed := 0, false
	run := func(step int) {
		for at < len(p.acts) && p.acts[at].step <= step && !failed {
			a := p.acts[at]
			at++
			if a.size == 0 {
				if n, ok := blocks[a.block]; ok {
					r.Free(n)
					delete(blocks, a.block)
				}
				continue
			}
			size := a.size
			if size > 4096 {
				size = int64(float64(size)*scale) / 4 * 4
			}
			n := r.Alloc(size, a.stack)
			if failed = n < 0; !failed {
				blocks[a.block] = n
			}
		}
	}
	run(-1)
	for step := range steps {
		if failed {
			break
		}
		r.Step(fmt.Sprintf("## step %d ##", step), func() {
			run(step)
			if leak > 0 && !failed {
				failed = r.Alloc(leak, LeakStack+" < /home/user/train.py:71 train") < 0
			}
		})
	}
	return r
}

// Make writes the recordings of a job into a folder: node000/rank0000_pp0.pickle.zst and so on, eight to a machine.
func Make(dir, recording string, job Job) (*Truth, error) {
	p, err := read(recording)
	if err != nil {
		return nil, err
	}
	truth := &Truth{Files: make([]string, job.Ranks), PeakAllocated: make([]int64, job.Ranks), PeakReserved: make([]int64, job.Ranks)}
	pack, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	defer pack.Close()
	broken := 0
	for rank := range job.Ranks {
		name := filepath.Join(dir, fmt.Sprintf("node%03d", rank/8), fmt.Sprintf("rank%04d.pickle.zst", rank))
		random := rand.New(rand.NewPCG(job.Seed, uint64(rank)))
		scale := 1 + random.Float64()*0.02
		if job.Stages > 1 {
			stage := rank * job.Stages / job.Ranks
			scale *= 1 + 0.15*float64(stage)
			name = filepath.Join(dir, fmt.Sprintf("node%03d", rank/8), fmt.Sprintf("rank%04d_pp%d.pickle.zst", rank, stage))
		}
		steps := p.steps - random.IntN(p.steps/3+1)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return nil, err
		}
		special := rank == job.Far || rank == job.Leak || rank == job.OOM
		limit, leak := int64(-1), int64(0)
		switch rank {
		case job.Far:
			scale *= 1.8
		case job.Leak:
			leak = 3*tracetest.MiB + 512
		case job.OOM:
			usual := p.rank(scale, steps, 0, -1).Stats()
			limit = usual.Allocated.Peak * 11 / 10 / config.RoundLarge * config.RoundLarge
			scale *= 1.25
		}
		r := p.rank(scale, steps, leak, limit)
		data := pack.EncodeAll(pickled(r.Trace()), nil)
		if job.Broken > 0 && rank%job.Broken == job.Broken-1 && !special {
			data = spoil(data, broken)
			broken++
			truth.Broken = append(truth.Broken, name)
		} else {
			s := r.Stats()
			truth.Files[rank], truth.PeakAllocated[rank], truth.PeakReserved[rank] = name, s.Allocated.Peak, s.Reserved.Peak
		}
		if err := os.WriteFile(name, data, 0o644); err != nil {
			return nil, err
		}
	}
	return truth, nil
}

// spoil makes a file one that cannot be read, in one of several ways.
func spoil(data []byte, way int) []byte {
	switch way % 5 {
	case 0:
		return nil
	case 1:
		return data[:len(data)/2] // the copying was ended
	case 2:
		return []byte("Traceback (most recent call last):\n  no space left on device\n")
	case 3:
		return []byte("PK\x03\x04 a checkpoint")
	}
	data = append([]byte{}, data...)
	for i := len(data) / 3; i < len(data)/3+64 && i < len(data); i++ {
		data[i] ^= 0x5a
	}
	return data
}
