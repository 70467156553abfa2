package gpu

import (
	"errors"
	"fmt"
	"time"

	"github.com/vramscope/vramscope/allocators"
	"github.com/vramscope/vramscope/allocators/driver/cuda"
	"github.com/vramscope/vramscope/simulate"
	"github.com/vramscope/vramscope/trace"
)

// batch is how many calls are made in one crossing to the driver.
const batch = 1024

// server is an allocator whose requests are calls of the driver, one for each. They are queued, and what came
// of them is known when the queue is flushed.
type server interface {
	allocators.Allocator
	// settle takes in what came of a call.
	settle(op *cuda.Op, s *said)
	// again makes ready for a second try of a request that failed; it is false if there is none.
	again() bool
	// touched is called when a write to a block was queued.
	touched()
	// predicted is what the simulation counted.
	predicted() allocators.Stats
	// giveBack gives back what is held.
	giveBack() error
}

// said is what the simulation says of a call, and what the call is for.
type said struct {
	event  int
	block  uint32
	size   int64  // of the request, 0 for calls that are none
	addr   uint64 // where the block comes to lie
	held   int64  // bytes held after the call, -1 if nothing is said
	used   int64  // bytes used, of a pool, likewise
	beyond bool   // the bound refuses it
}

// queue is the calls that are yet to be made.
type queue struct {
	*replay
	server server
	ops    []cuda.Op
	said   []said
	event  int    // number of the present one
	spare  uint32 // number of the block of a request that may fail
	denied bool   // the last such request failed

	stats  allocators.Stats // on the device
	failed *simulate.FailedRequest
	beyond *simulate.FailedRequest // the first request that the bound refused
	least  int64
	spent  time.Duration
	err    error
}

// requests replays where each request is a call of its own.
func (x *replay) requests(serve func(*queue) (server, error)) (err error) {
	q := &queue{replay: x, spare: uint32(x.r.Device.NumBlocks), least: x.res.Before}
	x.dev.ClearSlots()
	defer func() { err = errors.Join(err, x.dev.Empty()) }()
	if q.server, err = serve(q); err != nil {
		return err
	}
	x.res.Run = x.play(q.server, func(next int, _ *trace.Event) {
		q.event = next
		x.progress(next)
	}, func() bool { return q.ready() != nil })
	q.flush()
	run := &x.res.Run
	run.Stats, run.Elapsed = q.stats, q.spent
	if q.failed != nil { // earlier than the player could know
		run.Completed, run.Ended, run.FirstOOM = false, q.failed.Event, q.failed
	}
	x.res.Elapsed = q.spent
	x.res.Predicted = simulate.Run{Completed: q.beyond == nil, FirstOOM: q.beyond, Stats: q.server.predicted(), Ended: run.Ended}
	x.res.Timings = x.dev.TakeTimings()
	x.res.PeakUsed = x.res.Before - q.least
	err = q.server.giveBack()
	if q.err != nil {
		err = errors.Join(fmt.Errorf("event %d: %w", q.event, q.err), err)
	}
	return err
}

// ready is an error if no more requests are to be made.
func (q *queue) ready() error {
	switch {
	case q.ctx.Err() != nil:
		return q.ctx.Err()
	case q.err != nil:
		return q.err
	case q.failed != nil:
		return &q.failed.OOM
	}
	return nil
}

// push queues a call.
func (q *queue) push(op cuda.Op, s said) {
	s.event = q.event
	q.ops, q.said = append(q.ops, op), append(q.said, s)
	if len(q.ops) == batch {
		q.flush()
	}
}

// ask queues a request, and says whether it can already be known to have failed.
func (q *queue) ask(op cuda.Op, s said) error {
	q.dev.Slots(int(s.block) + 1)
	op.Slot, op.Flags = s.block, op.Flags|cuda.InSlot|cuda.Stop
	q.push(op, s)
	if q.o.Touch {
		q.push(cuda.Op{Kind: cuda.Fill, Size: s.size, Slot: s.block, Stream: op.Stream, Flags: cuda.InSlot}, said{held: -1, used: -1})
		q.server.touched()
	}
	if s.block == q.spare {
		q.denied = false
		if q.flush(); q.denied {
			return q.oom(s.size)
		}
	}
	return q.ready()
}

// refuse is the error of a request that the bound refuses.
func (q *queue) refuse(size int64) error {
	q.flush()
	q.stats.OOMs++
	err := q.oom(size)
	q.isBeyond(q.event, err)
	return err
}

// isBeyond counts a request that the bound refuses.
func (q *queue) isBeyond(event int, err *allocators.OOM) {
	q.res.Beyond++
	if q.beyond == nil {
		q.beyond = &simulate.FailedRequest{Event: event, OOM: *err}
	}
}

func (q *queue) oom(size int64) *allocators.OOM {
	return &allocators.OOM{Requested: size, Tried: size, Allocated: q.stats.Allocated.Current, Reserved: q.stats.Reserved.Current}
}

// flush makes the queued calls. After an interruption, or a failure that ends the replay, it makes none.
func (q *queue) flush() {
	ops, said := q.ops, q.said
	q.ops, q.said = q.ops[:0], q.said[:0]
	for tries := 0; len(ops) > 0 && q.ready() == nil; {
		start := time.Now()
		n, err := q.dev.Run(ops)
		q.spent += time.Since(start)
		if err != nil {
			q.err = err
			return
		}
		last := n - 1
		stopped := ops[last].Result > 0 && ops[last].Flags&cuda.Stop != 0
		for i := range n {
			if i < last || !stopped {
				q.take(&ops[i], &said[i])
			}
		}
		if stopped {
			if tries++; tries == 1 && ops[last].OutOfMemory() && q.server.again() {
				n-- // that call once more
			} else {
				q.fail(&ops[last], &said[last])
				tries = 0
			}
		} else {
			tries = 0
		}
		ops, said = ops[n:], said[n:]
	}
}

// take takes in what came of a call that did not stop the batch.
func (q *queue) take(op *cuda.Op, s *said) {
	if err := q.dev.Err(op); err != nil {
		if q.err == nil {
			q.err = err
		}
		return
	}
	if op.Available >= 0 {
		q.least = min(q.least, op.Available)
	}
	if op.Result == cuda.NotMade {
		return
	}
	q.server.settle(op, s)
}

// fail takes in a request that failed.
func (q *queue) fail(op *cuda.Op, s *said) {
	if !op.OutOfMemory() {
		q.err = q.dev.Err(op)
		return
	}
	q.stats.OOMs++
	if s.beyond {
		q.isBeyond(s.event, q.oom(s.size))
	} else {
		q.res.Refused++
		q.part(s.event, act("is refused", s.size), act("takes", s.size))
	}
	if s.block == q.spare {
		q.denied = true
		return
	}
	q.failed = &simulate.FailedRequest{Event: s.event, OOM: *q.oom(s.size)}
}

// part notes where the two first do different things.
func (q *queue) part(event int, gpu, said Act) {
	if q.res.Parted == nil {
		q.res.Parted = &Parting{event, gpu, said}
	}
}

// place notes where a block came to lie: at so many bytes from where the first one is.
func (q *queue) place(s *said, gpu, said int64) {
	q.res.Placed++
	if gpu == said {
		q.res.PlacedAsSaid++
	} else if q.res.Displaced == nil {
		q.res.Displaced = &Displaced{s.event, s.size, gpu, said}
	}
}

// count counts a request that was served, or a block that was given back.
func (q *queue) count(op *cuda.Op, s *said) {
	n := s.size
	switch op.Kind {
	case cuda.Alloc, cuda.PoolAlloc:
		q.stats.DeviceAllocs++
	case cuda.Free, cuda.PoolFree:
		q.stats.DeviceFrees++
		n = -n
	default:
		return
	}
	q.stats.Requested.Add(n)
	q.stats.Allocated.Add(n)
	q.stats.Active.Add(n)
}

// back gives the blocks of the slots up to a number back that are still held.
func (q *queue) back(blocks int, op func(block int) cuda.Op) error {
	var errs []error
	ops := make([]cuda.Op, 0, batch)
	run := func() {
		_, err := q.dev.Run(ops)
		errs = append(errs, err)
		for i := range ops {
			errs = append(errs, q.dev.Err(&ops[i]))
		}
		ops = ops[:0]
	}
	for b := range blocks {
		o := op(b)
		o.Slot, o.Flags = uint32(b), cuda.InSlot
		if ops = append(ops, o); len(ops) == batch {
			run()
		}
	}
	run()
	return errors.Join(append(errs, q.dev.Sync())...)
}
