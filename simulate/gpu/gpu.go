// Package gpu replays requests on a real GPU and holds what it did against what a simulation of the same
// replay says.
//
// There are two ways. PyTorch's caching allocator decides here, in a model (caching.go): it runs over the real
// driver, which chooses addresses and can refuse, and over the simulated one, and both are written down call
// by call. Where every request is a call of its own (requests.go), to cudaMalloc or to a stream-ordered pool,
// nothing is decided here, so calls are made in batches, and each is compared with the model as it comes
// back.
package gpu

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/vramscope/vramscope/allocators"
	"github.com/vramscope/vramscope/allocators/caching/config"
	"github.com/vramscope/vramscope/allocators/driver/cuda"
	"github.com/vramscope/vramscope/allocators/driver/sim"
	"github.com/vramscope/vramscope/simulate"
	"github.com/vramscope/vramscope/trace"
)

// Mode is who serves the requests.
type Mode string

// The modes.
const (
	CudaMalloc Mode = "cudamalloc" // each request is a cudaMalloc
	Pool       Mode = "pool"       // each is a cudaMallocAsync
	Caching    Mode = "caching"    // PyTorch's allocator, by its model
	Expandable Mode = "expandable" // the same with expandable_segments:True
)

// ModeHelp is a mode and what it does.
type ModeHelp struct {
	Mode Mode
	What string
}

// Modes lists them in the order in which they are shown.
func Modes() []ModeHelp {
	return []ModeHelp{
		{CudaMalloc, "each request is a cudaMalloc, each free a cudaFree"},
		{Pool, "each request is a cudaMallocAsync from a pool that keeps its memory, as under\n              backend:cudaMallocAsync, on real streams"},
		{Caching, "PyTorch's allocator decides, as modelled here, and its segments are really taken"},
		{Expandable, "the same with expandable_segments:True: addresses are reserved, memory is mapped"},
	}
}

// Options say how to replay.
type Options struct {
	Mode   Mode
	Config config.Config // of PyTorch's allocator
	Limit  int64         // bytes that the process may reserve, negative for no limit; PyTorch's allocator only
	Memory int64         // bytes that may be taken at most, 0 for nine tenths of what is free
	Touch  bool          // write to each allocation
	// Layout gives PyTorch's allocator the addresses of this device instead of the driver's own; nil for those.
	Layout *sim.Config
	// Each is called now and then with how many events were replayed. May be nil.
	Each func(done, of int)
}

// Result is what the GPU did.
type Result struct {
	Mode   Mode
	Device cuda.Info
	Memory int64 // the bound on what was taken, bytes

	Run       simulate.Run // on the GPU
	Predicted simulate.Run // in the simulation

	Before, After, Total int64 // bytes free on the device before the first call and after all was given back, and bytes it has
	PeakUsed             int64 // by how much less was free at least, bytes
	Refused              int64 // requests of memory that the device refused
	Beyond               int64 // and those that Memory did

	Timings *cuda.Timings
	Calls   []Call   // what PyTorch's allocator asked of the device, in order
	Parted  *Parting // nil if the simulation said all that happened
	// Placed counts the allocations of address space, and those that are where the simulation put them.
	Placed, PlacedAsSaid int
	// Displaced is the first that is elsewhere, nil if none is.
	Displaced *Displaced
	// OneAhead is how well the rules of the simulated driver foretell each address from those before it.
	OneAhead sim.Score

	Interrupted bool
	Elapsed     time.Duration // of the replay alone
}

// Parting is where a GPU and its simulation first do different things.
type Parting struct {
	Event          int
	GPU, Simulated Act
}

// Act is what one of them does at an event.
type Act struct {
	Verb  string // "takes", "gives back", …
	Bytes int64  // how much, 0 if the verb says it all
	Used  int64  // what of it is used, of pools; negative where that means nothing
}

func act(verb string, bytes int64) Act { return Act{verb, bytes, -1} }

// nothing is what one does where only the other does something.
func nothing() Act { return act("does nothing", 0) }

// Displaced is an allocation whose address the simulation did not foretell.
type Displaced struct {
	Event          int
	Size           int64
	GPU, Simulated int64 // bytes from where the first allocation of all is
}

// share of the free memory that is taken at most, if nothing else is said.
const shareTaken = 0.9

// Replay makes requests on a device. What it took is given back, whatever happens. An error that is not a
// *cuda.Missing says that the GPU did what it must not, or that memory was not given back.
func Replay(ctx context.Context, r *simulate.Requests, dev *cuda.Device, o Options) (*Result, error) {
	if err := warm(r, dev, o); err != nil {
		return nil, err
	}
	free, total, err := dev.Memory()
	if err != nil {
		return nil, err
	}
	res := &Result{Mode: o.Mode, Device: dev.Info, Memory: o.Memory, Before: free, Total: total, Timings: &cuda.Timings{}}
	if res.Memory <= 0 {
		res.Memory = int64(float64(free) * shareTaken)
	}
	res.Memory = min(res.Memory, total)
	res.Memory = max(res.Memory/sim.Granule, 1) * sim.Granule
	if o.Mode == Expandable {
		o.Config.Expandable = true
	}
	x := &replay{ctx: ctx, r: r, dev: dev, o: o, res: res}
	dev.TakeTimings()
	switch o.Mode {
	case CudaMalloc:
		err = x.requests(newDirect)
	case Pool:
		err = x.requests(newPooled)
	case Caching, Expandable:
		err = x.caching()
	default:
		return nil, fmt.Errorf("no mode %q", o.Mode)
	}
	if after, _, e := dev.Memory(); e != nil {
		err = errors.Join(err, e)
	} else {
		res.After = after
	}
	res.Interrupted = ctx.Err() != nil && !res.Run.Completed
	return res, err
}

// warm uses once what the driver takes memory for that it keeps for as long as there is a context: a write to memory, and as
// many streams as will be needed. So that is in no figure.
func warm(r *simulate.Requests, dev *cuda.Device, o Options) error {
	var err error
	if o.Touch {
		dev.Slots(1)
		ops := []cuda.Op{
			{Kind: cuda.Alloc, Size: sim.Granule, Flags: cuda.InSlot},
			{Kind: cuda.Fill, Size: sim.Granule, Flags: cuda.InSlot},
			{Kind: cuda.Sync},
			{Kind: cuda.Free, Flags: cuda.InSlot},
		}
		_, err = dev.Run(ops)
		for i := range ops {
			err = errors.Join(err, dev.Err(&ops[i]))
		}
	}
	if o.Mode != Pool || err != nil {
		return err
	}
	streams := map[trace.StreamID]bool{}
	for _, e := range r.Device.Events.All() {
		if e.Op == trace.OpAlloc {
			streams[e.Stream] = true
		}
	}
	pool, err := dev.Pool(0)
	if err != nil {
		return err
	}
	for range streams {
		var s uint16
		if s, err = dev.Stream(); err != nil {
			break
		}
		ops := []cuda.Op{
			{Kind: cuda.PoolAlloc, Size: 1, Handle: pool, Stream: s, Flags: cuda.InSlot},
			{Kind: cuda.PoolFree, Stream: s, Flags: cuda.InSlot},
		}
		dev.Slots(1)
		_, err = dev.Run(ops)
		for i := range ops {
			err = errors.Join(err, dev.Err(&ops[i]))
		}
	}
	return errors.Join(err, dev.Empty())
}

// replay is a replay under way.
type replay struct {
	ctx context.Context
	r   *simulate.Requests
	dev *cuda.Device
	o   Options
	res *Result
}

// play replays the requests through a model. It calls each before the first event and after every one, with
// the number of the next, and ends where stop says so.
func (x *replay) play(model allocators.Allocator, each func(next int, e *trace.Event), stop func() bool) simulate.Run {
	n := x.r.Device.Events.Len()
	each(0, nil)
	p := &simulate.Player{Requests: x.r, Model: model, Each: func(i int, e *trace.Event) { each(i+1, e) }, Stop: stop}
	if err := p.Start(); err != nil {
		run := simulate.Run{Stats: *model.Stats(), FirstOOM: &simulate.FailedRequest{}}
		var oom *allocators.OOM
		if errors.As(err, &oom) {
			run.FirstOOM.OOM = *oom
		}
		return run
	}
	run := p.Play()
	if x.o.Each != nil {
		x.o.Each(n, n)
	}
	return run
}

// progress tells now and then how far it has come.
func (x *replay) progress(next int) {
	if x.o.Each != nil && next%4096 == 0 {
		x.o.Each(next, x.r.Device.Events.Len())
	}
}
