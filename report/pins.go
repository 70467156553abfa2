package report

import (
	"cmp"
	"slices"

	"github.com/vramscope/vramscope/allocators/caching"
	"github.com/vramscope/vramscope/allocators/caching/config"
	"github.com/vramscope/vramscope/simulate"
	"github.com/vramscope/vramscope/trace"
)

// Pin is a segment that cannot be given back because something in it is in use.
type Pin struct {
	Addr      uint64
	Segment   int64         // bytes of the segment, or of the mapped range of an expandable one
	Live      int64         // bytes in use in it, pending ones included
	Blocks    int           // blocks in use
	Stack     trace.StackID // of the largest of them
	StackSize int64         // bytes that it takes
	Old       bool          // it is older than the recording
}

// Stranded is what the live blocks keep from being given back.
func (p Pin) Stranded() int64 { return p.Segment - p.Live }

// fragmentation looks at the memory after an event: by following the recording once more, up to there. Where
// the recording does not keep to the model's rules, the model may hold other memory then, of which there is
// nothing to say.
func (d *Device) fragmentation(cfg config.Config, o Options, event int) {
	model := d.Follow.Model
	if event < d.Trace.Events.Len()-1 {
		until := event + 1
		if event < 0 {
			until = -1
		}
		model = simulate.Follow(d.Trace, cfg, simulate.FollowOptions{Limit: o.Limit, Memory: o.Memory, Until: until}).Model
	}
	if model.Reserved() != d.PeakReserved.Reserved || model.Allocated() != d.PeakReserved.Allocated {
		return
	}
	d.Fragmented = true
	d.Fragmentation = model.Fragmentation()
	d.PinnedBy = d.pins(model)
}

// pins lists the segments with free memory in them that something keeps.
func (d *Device) pins(a *caching.Allocator) []Pin {
	var blocks []caching.Placed
	a.Layout(func(p caching.Placed) {
		blocks = append(blocks, p)
	})
	slices.SortFunc(blocks, func(x, y caching.Placed) int { return cmp.Compare(x.Addr, y.Addr) })
	stacks := make([]trace.StackID, d.Trace.NumBlocks)
	old := make([]bool, d.Trace.NumBlocks)
	for _, e := range d.Trace.Events.All() {
		if e.Op == trace.OpAlloc && int(e.Block) < len(stacks) {
			stacks[e.Block] = e.Stack
		}
	}
	for _, b := range d.Follow.Requests.Initial {
		stacks[b.ID], old[b.ID] = b.Stack, true
	}
	var pins []Pin
	var p Pin
	var largest int64
	flush := func() {
		if p.Blocks > 0 && p.Stranded() > 0 {
			pins = append(pins, p)
		}
		p, largest = Pin{}, 0
	}
	for i, b := range blocks {
		if i > 0 && (b.First || blocks[i-1].Addr+uint64(blocks[i-1].Size) != b.Addr) {
			flush()
		}
		if p.Segment == 0 {
			p.Addr = b.Addr
		}
		p.Segment += b.Size
		if b.Free {
			continue
		}
		p.Live += b.Size
		p.Blocks++
		if b.Size > largest {
			largest = b.Size
			p.StackSize = b.Size
			if int(b.Number) < len(stacks) {
				p.Stack, p.Old = stacks[b.Number], old[b.Number]
			}
		}
	}
	flush()
	slices.SortStableFunc(pins, func(x, y Pin) int { return cmp.Compare(y.Stranded(), x.Stranded()) })
	return pins
}
