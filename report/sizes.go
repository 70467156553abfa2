package report

import (
	"math/bits"

	"github.com/vramscope/vramscope/allocators/caching"
	"github.com/vramscope/vramscope/simulate"
	"github.com/vramscope/vramscope/trace"
)

// SizeRange is the blocks of a range of sizes.
type SizeRange struct {
	From   int64 // bytes, a power of two: sizes from it on and below twice as much
	Bytes  int64
	Blocks int
}

// sizeRanges adds blocks up by their sizes.
type sizeRanges [65]SizeRange

func (r *sizeRanges) add(size int64) {
	s := &r[bits.Len64(uint64(max(size, 0)))]
	s.Bytes += size
	s.Blocks++
}

// list is those that have blocks, the smallest first.
func (r *sizeRanges) list() []SizeRange {
	var out []SizeRange
	for n, s := range r {
		if s.Blocks > 0 {
			s.From = 1 << max(n-1, 0)
			out = append(out, s)
		}
	}
	return out
}

// LiveSizes sorts what was allocated after an event by size; -1 is before the first.
func (d *Device) LiveSizes(event int) []SizeRange {
	var r sizeRanges
	d.liveAt(event, func(x liveBlock) { r.add(x.size) })
	return r.list()
}

// SizesOf sorts the blocks of a state by size: those in use, and those that are free.
func SizesOf(s *trace.State) (used, free []SizeRange) {
	var u, f sizeRanges
	for i := range s.Blocks {
		if b := &s.Blocks[i]; b.State == trace.BlockFree {
			f.add(b.Size)
		} else {
			u.add(b.Size)
		}
	}
	return u.list(), f.list()
}

// BlocksAt lists all blocks that the allocator's memory consisted of after an event, in the order of their addresses, by
// following the recording once more up to there; ok is false where the recording does not keep to the model's rules then.
func (d *Device) BlocksAt(o Options, at Peak) (blocks []caching.Placed, ok bool) {
	if d.Follow == nil || d.Trace.Content != trace.Decisions {
		return nil, false
	}
	model := d.Follow.Model
	if last := d.Trace.Events.Len() - 1; at.Event < last {
		until := at.Event + 1
		if at.Event < 0 {
			until = -1
		}
		model = simulate.Follow(d.Trace, d.cfg, simulate.FollowOptions{Limit: o.Limit, Memory: o.Memory, Until: until}).Model
	}
	if model.Reserved() != at.Reserved || model.Allocated() != at.Allocated {
		return nil, false
	}
	return placed(model), true
}
