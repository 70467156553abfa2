package simulate

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/vramscope/vramscope/allocators"
	"github.com/vramscope/vramscope/allocators/caching"
	"github.com/vramscope/vramscope/allocators/driver/sim"
	"github.com/vramscope/vramscope/trace"
)

// Run is what came of replaying requests through a model.
type Run struct {
	// Completed says that every request was served which the program could not do without: those that
	// failed in the recording too, and after which it went on, may fail again.
	Completed bool
	Stats     allocators.Stats
	FirstOOM  *FailedRequest // the first request that failed, nil if none did
	Ended     int            // the event at which the replay ended: their number, unless it ran out of memory
	// Operations are the requests and frees that were replayed, in Elapsed.
	Operations int64
	Elapsed    time.Duration
	// DeviceTime is what the calls of the driver would take on a device that has nothing else to do, roughly.
	DeviceTime time.Duration
}

// FailedRequest is a request that ran out of memory.
type FailedRequest struct {
	Event int
	allocators.OOM
}

// Player replays requests through a model.
type Player struct {
	Requests *Requests
	Model    allocators.Allocator
	// Driver is told of the passing of events, if it is a simulated one whose surroundings change.
	Driver *sim.Driver
	// ShiftFrees moves the completion of each deferred free by up to so many events, chosen by Seed.
	ShiftFrees int
	Seed       uint64
	// Each is called after each event. May be nil.
	Each func(event int, e *trace.Event)
	// Stop is asked before each event whether to end there. May be nil.
	Stop func() bool

	run   Run
	acts  []Act
	owner poolOwner // the model, if it knows about pools
	same  bool      // the model begins with expandable segments as the recording did, and is switched as it was
	due   map[int][]trace.BlockID
	spare uint32 // number of a block that the recording does not have
	last  int    // the last event that is a request
}

// poolOwner is what a model of PyTorch's allocator can do beyond the others.
type poolOwner interface {
	Retire(pool uint32)
	ReleasePool(pool uint32)
	Restore(r allocators.Request, small bool) error
	SetExpandable(on bool)
	Config() caching.Config
}

// Play replays from an empty model, or one that has the initial blocks (Start).
func (p *Player) Play() Run {
	r := p.Requests
	p.acts = r.Acts
	p.owner, _ = p.Model.(poolOwner)
	p.same = p.owner != nil && p.owner.Config().Expandable == r.Expandable
	p.spare = uint32(r.Device.NumBlocks)
	p.last = lastRequest(r.Device)
	if p.ShiftFrees > 0 && r.Deferred {
		p.due = p.shifted()
	}
	begin := time.Now()
	events := &r.Device.Events
	p.run.Completed = true
	p.run.Ended = events.Len()
	for i, e := range events.All() {
		if p.Stop != nil && p.Stop() || !p.step(i, e) {
			p.run.Completed, p.run.Ended = false, i
			break
		}
		if p.Each != nil {
			p.Each(i, e)
		}
	}
	p.run.Elapsed = time.Since(begin)
	p.run.Stats = *p.Model.Stats()
	return p.run
}

// Start asks the model for the blocks that are older than the recording, in the order of their addresses.
// What the free memory between them was like under other settings nobody knows.
func (p *Player) Start() error {
	for _, b := range p.Requests.Initial {
		if err := p.malloc(allocators.Request{Block: uint32(b.ID), Size: max(b.Requested, 1), Stream: uint32(b.Stream), Pool: b.Pool}, b.ID); err != nil {
			return err
		}
		if b.State == trace.BlockPending {
			p.Model.Free(uint32(b.ID), true)
		}
	}
	return nil
}

func lastRequest(d *trace.Device) int {
	for i := d.Events.Len() - 1; i >= 0; i-- {
		if op := d.Events.At(i).Op; op == trace.OpAlloc || op == trace.OpOOM {
			return i
		}
	}
	return -1
}

// step replays one event and says whether the program can go on.
func (p *Player) step(i int, e *trace.Event) bool {
	for len(p.acts) > 0 && p.acts[0].Event <= i {
		p.act(p.acts[0])
		p.acts = p.acts[1:]
	}
	if p.Driver != nil {
		p.Driver.Tick(int64(p.Requests.Recorded(i)))
	}
	if p.due != nil {
		for _, b := range p.due[i] {
			p.Model.Complete(uint32(b))
		}
	}
	switch e.Op {
	case trace.OpAlloc:
		p.run.Operations++
		pool := p.Requests.Pool(e.Block)
		err := p.malloc(allocators.Request{Block: uint32(e.Block), Size: max(e.Size, 1), Stream: uint32(e.Stream), Pool: pool}, e.Block)
		if err != nil {
			p.failed(i, err)
			return false
		}
	case trace.OpOOM:
		if e.Size <= 0 {
			return true // the recording does not tell how much was asked for
		}
		p.run.Operations++
		// What the program would have done with memory that it did not get, nobody knows: it is given back
		// at once.
		err := p.Model.Malloc(allocators.Request{Block: p.spare, Size: max(e.Size, 1), Stream: uint32(e.Stream), Pool: p.Requests.FailedPools[i]})
		if err == nil {
			p.Model.Free(p.spare, false)
			return true
		}
		p.failed(i, err)
		return i < p.last
	case trace.OpFree:
		p.run.Operations++
		p.Model.Free(uint32(e.Block), false)
	case trace.OpFreeRequested:
		p.run.Operations++
		p.Model.Free(uint32(e.Block), !p.completesAtOnce(i, e.Block))
	case trace.OpFreeCompleted:
		if p.due == nil {
			p.Model.Complete(uint32(e.Block))
		}
	}
	return true
}

func (p *Player) malloc(r allocators.Request, b trace.BlockID) error {
	if p.owner != nil && p.Requests.Restored != nil {
		if small, ok := p.Requests.Restored[b]; ok {
			return p.owner.Restore(r, small)
		}
	}
	return p.Model.Malloc(r)
}

func (p *Player) completesAtOnce(i int, b trace.BlockID) bool {
	events := &p.Requests.Device.Events
	if i+1 >= events.Len() {
		return false
	}
	next := events.At(i + 1)
	return next.Op == trace.OpFreeCompleted && next.Block == b
}

func (p *Player) failed(i int, err error) {
	if p.run.FirstOOM != nil {
		return
	}
	p.run.FirstOOM = &FailedRequest{Event: i}
	var oom *allocators.OOM
	if errors.As(err, &oom) {
		p.run.FirstOOM.OOM = *oom
	}
}

func (p *Player) act(a Act) {
	switch a.Kind {
	case EmptyCache:
		p.Model.EmptyCache()
	case RetirePool:
		if p.owner != nil {
			p.owner.Retire(a.Pool)
		}
	case ReleasePool:
		if p.owner != nil {
			p.owner.ReleasePool(a.Pool)
		}
	case ExpandableOn, ExpandableOff:
		if p.same {
			p.owner.SetExpandable(a.Kind == ExpandableOn)
		}
	}
}

// shifted chooses when deferred frees complete, by event. A block never completes before its free, and no
// later than the end.
func (p *Player) shifted() map[int][]trace.BlockID {
	random := rand.New(rand.NewPCG(p.Seed, 1))
	due := map[int][]trace.BlockID{}
	asked := map[trace.BlockID]int{}
	for _, b := range p.Requests.Initial {
		if b.State == trace.BlockPending {
			asked[b.ID] = -1
		}
	}
	events := &p.Requests.Device.Events
	for i, e := range events.All() {
		switch e.Op {
		case trace.OpFreeRequested:
			if !p.completesAtOnce(i, e.Block) {
				asked[e.Block] = i
			}
		case trace.OpFreeCompleted:
			from, deferred := asked[e.Block]
			if !deferred {
				break
			}
			at := i + random.IntN(2*p.ShiftFrees+1) - p.ShiftFrees
			at = min(max(at, from+1), events.Len()-1)
			due[at] = append(due[at], e.Block)
		}
	}
	return due
}

var _ poolOwner = (*caching.Allocator)(nil)
