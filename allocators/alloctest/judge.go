package alloctest

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/vramscope/vramscope/allocators"
)

func isOOM(err error) bool {
	var oom *allocators.OOM
	return errors.As(err, &oom)
}

// A Judge passes every call on to a model and checks what the model did against its own idea of what must
// hold. It knows nothing of how models work: it keeps the blocks that exist as plain intervals, asks the
// driver what memory is held, and adds up the statistics itself.
//
// It holds after every call:
//
//   - every block that is live or pending lies where it was put, in memory held from the driver, is at
//     least as large as was asked for, and overlaps no other;
//   - Requested, Allocated, Active and Reserved are the sums they claim to be, and their peaks are the
//     largest values there have been;
//   - device calls and failures are counted;
//   - a request that fails changes no block and no figure but OOMs, Retries and what is reserved;
//   - when Reserved reached a new peak, AtPeak splits it without remainder.
type Judge struct {
	driver *Driver
	model  allocators.Allocator
	opts   Options

	blocks map[uint32]*blockState
	ranges spans
	want   allocators.Stats
}

type blockState struct {
	addr      uint64
	size      int64
	requested int64
	pending   bool
}

// NewJudge watches a model over a driver.
func NewJudge(model allocators.Allocator, driver *Driver, opts Options) *Judge {
	return &Judge{driver: driver, model: model, opts: opts, blocks: map[uint32]*blockState{}}
}

// Malloc makes the request and judges what came of it. Its error is the model's, or a verdict.
func (j *Judge) Malloc(req allocators.Request) error {
	before := *j.model.Stats()
	err := j.model.Malloc(req)
	j.sweep()
	if err != nil {
		var oom *allocators.OOM
		if !errors.As(err, &oom) {
			return verdict("a valid request of %d bytes failed: %w", req.Size, err)
		}
		j.want.OOMs++
		if verr := j.refused(req, before, oom); verr != nil {
			return verr
		}
		return err
	}
	addr, size, ok := j.model.Block(req.Block)
	if !ok {
		return verdict("block %d was granted and does not exist", req.Block)
	}
	if size < req.Size {
		return verdict("block %d has %d bytes, %d were asked for", req.Block, size, req.Size)
	}
	if addr+uint64(size) < addr {
		return verdict("block %d wraps around the end of memory", req.Block)
	}
	if j.ranges.overlaps(addr, size) {
		return verdict("block %d at %#x+%d overlaps another: %v", req.Block, addr, size, j.ranges)
	}
	j.ranges.add(addr, size)
	j.blocks[req.Block] = &blockState{addr: addr, size: size, requested: req.Size}
	j.want.Requested.Add(req.Size)
	j.want.Allocated.Add(size)
	j.want.Active.Add(size)
	if err := j.check(); err != nil {
		return err
	}
	if j.model.Stats().Reserved.Peak > before.Reserved.Peak {
		return j.atPeak()
	}
	return nil
}

// refused checks a failed request.
func (j *Judge) refused(req allocators.Request, before allocators.Stats, oom *allocators.OOM) error {
	if _, _, ok := j.model.Block(req.Block); ok {
		return verdict("block %d was refused and exists", req.Block)
	}
	if oom.Requested != req.Size {
		return verdict("out of memory names %d bytes, %d were asked for", oom.Requested, req.Size)
	}
	s := j.model.Stats()
	if oom.Allocated != s.Allocated.Current || oom.Reserved != s.Reserved.Current {
		return verdict("out of memory names %d allocated and %d reserved, they are %d and %d",
			oom.Allocated, oom.Reserved, s.Allocated.Current, s.Reserved.Current)
	}
	if free := s.Reserved.Current - s.Active.Current; oom.LargestFree < 0 || oom.LargestFree > free {
		return verdict("out of memory names a free block of %d, %d bytes are free", oom.LargestFree, free)
	}
	if s.Retries > before.Retries+1 {
		return verdict("one request counts %d retries", s.Retries-before.Retries)
	}
	return j.check()
}

// Free passes a free on.
func (j *Judge) Free(block uint32, pending bool) error {
	b := j.blocks[block]
	j.model.Free(block, pending)
	if b != nil {
		j.want.Allocated.Add(-b.size)
		if pending {
			b.pending = true
		} else {
			j.gone(block, b)
		}
	}
	return j.check()
}

// Complete passes the end of a wait on.
func (j *Judge) Complete(block uint32) error {
	b := j.blocks[block]
	j.model.Complete(block)
	if b != nil && b.pending {
		j.gone(block, b)
	}
	return j.check()
}

// EmptyCache passes it on.
func (j *Judge) EmptyCache() error {
	j.model.EmptyCache()
	j.sweep()
	return j.check()
}

// sweep takes note of waits that the model itself has ended.
func (j *Judge) sweep() {
	if !j.opts.CompletesEarly {
		return
	}
	for id, b := range j.blocks {
		if _, _, ok := j.model.Block(id); !ok && b.pending {
			j.gone(id, b)
		}
	}
}

func (j *Judge) gone(block uint32, b *blockState) {
	j.want.Requested.Add(-b.requested)
	j.want.Active.Add(-b.size)
	j.ranges.remove(b.addr, b.size)
	delete(j.blocks, block)
}

// check compares everything that can be seen from outside with what it should be.
func (j *Judge) check() error {
	if len(j.driver.Faults) > 0 {
		return verdict("the driver was misused: %s", j.driver.Faults[0])
	}
	if err := j.checkBlocks(); err != nil {
		return err
	}
	s := j.model.Stats()
	for _, c := range []struct {
		name string
		got  allocators.Gauge
		want allocators.Gauge
	}{
		{"requested", s.Requested, j.want.Requested},
		{"allocated", s.Allocated, j.want.Allocated},
		{"active", s.Active, j.want.Active},
		{"reserved", s.Reserved, j.driver.Held},
	} {
		if c.got != c.want {
			return verdict("%s bytes are %d (peak %d), counted %d (peak %d)",
				c.name, c.want.Current, c.want.Peak, c.got.Current, c.got.Peak)
		}
	}
	if s.Reserved.Current < s.Active.Current {
		return verdict("%d bytes reserved hold %d active", s.Reserved.Current, s.Active.Current)
	}
	if s.OOMs != j.want.OOMs {
		return verdict("%d requests failed, counted %d", j.want.OOMs, s.OOMs)
	}
	if !j.opts.OwnCallCounts && (s.DeviceAllocs != j.driver.Takes || s.DeviceFrees != j.driver.Gives) {
		return verdict("the driver was called %d times for memory and %d times to give it back, counted %d and %d",
			j.driver.Takes, j.driver.Gives, s.DeviceAllocs, s.DeviceFrees)
	}
	return nil
}

func (j *Judge) checkBlocks() error {
	for _, id := range slices.Sorted(maps.Keys(j.blocks)) {
		b := j.blocks[id]
		addr, size, ok := j.model.Block(id)
		if !ok {
			return verdict("block %d has vanished", id)
		}
		if addr != b.addr || size != b.size {
			return verdict("block %d was at %#x+%d and is at %#x+%d", id, b.addr, b.size, addr, size)
		}
		if !j.driver.holds(addr, size) {
			return verdict("block %d at %#x+%d is outside the memory held from the driver", id, addr, size)
		}
	}
	return nil
}

// atPeak checks the split of the reserved bytes at the moment that a request raised their peak.
func (j *Judge) atPeak() error {
	s := j.model.Stats()
	if s.Reserved.Current != s.Reserved.Peak {
		return nil // something was given back within the same request
	}
	var want allocators.Fragmentation
	var live int64
	for _, b := range j.blocks {
		if b.pending {
			want.Pending += b.size
		} else {
			live += b.requested
			want.Rounding += b.size - b.requested
		}
	}
	f := s.AtPeak
	if f.Pending != want.Pending || f.Rounding != want.Rounding {
		return verdict("at the peak %d bytes are pending and %d rounding, AtPeak has %d and %d",
			want.Pending, want.Rounding, f.Pending, f.Rounding)
	}
	if sum := live + f.Rounding + f.Pending + f.Cached + f.Stranded; sum != s.Reserved.Current {
		return verdict("AtPeak %+v and %d requested make %d, reserved are %d", f, live, sum, s.Reserved.Current)
	}
	if f.Cached < 0 || f.Stranded < 0 || f.Largest < 0 || f.Largest > f.Cached+f.Stranded {
		return verdict("AtPeak %+v has a part that cannot be", f)
	}
	return nil
}

// Verdict is what a Judge returns when a model did something that must not happen.
type Verdict struct{ error }

// Unwrap gives the model's own error, if it was one.
func (v Verdict) Unwrap() error { return v.error }

func verdict(format string, args ...any) error { return Verdict{fmt.Errorf(format, args...)} }
