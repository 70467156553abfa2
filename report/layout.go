package report

import (
	"cmp"
	"slices"

	"github.com/vramscope/vramscope/allocators"
	"github.com/vramscope/vramscope/allocators/caching"
	"github.com/vramscope/vramscope/simulate"
	"github.com/vramscope/vramscope/trace"
)

// Layout is how the memory that an allocator held lay at one instant, after an event.
type Layout struct {
	Event int
	allocators.Fragmentation
	Private   int64       // bytes held for private pools
	PinnedBy  []Pin       // segments that live blocks keep, the most wasteful first
	FreeSizes []SizeRange // free blocks by size, the smallest first
	Pools     []PoolUse   // by pool and stream, the largest first
	Freeing   *Freeing    // what would have made room for the request that failed then; nil if none did
}

// PoolUse is the memory of one pool that belongs to one stream:
//
//	Reserved = Allocated + Pending + Free
type PoolUse struct {
	Pool      uint32
	Stream    trace.StreamID
	Reserved  int64 // bytes
	Allocated int64 // bytes in use
	Pending   int64 // bytes freed that wait for a stream
	Free      int64 // bytes
	Largest   int64 // bytes of the largest free block
	Blocks    int   // in use
}

// Pin is a segment that cannot be given back because something in it is in use.
type Pin struct {
	Addr      uint64
	Segment   int64 // bytes of the segment, or of the mapped range of an expandable one
	Live      int64 // bytes in use in it, pending ones included
	Blocks    int   // blocks in use
	Pool      uint32
	Block     trace.BlockID // the largest of them
	StackSize int64         // bytes that it takes
	Stack     trace.StackID // of its allocation
	Born      int           // the event of it, -1 if it is older than the recording
	Old       bool          // it is older than the recording
}

// Stranded is what the live blocks keep from being given back.
func (p Pin) Stranded() int64 { return p.Segment - p.Live }

// placed are the blocks of a model, in the order of their addresses.
func placed(a *caching.Allocator) []caching.Placed {
	blocks := make([]caching.Placed, 0, a.Len())
	a.Layout(func(p caching.Placed) { blocks = append(blocks, p) })
	slices.SortFunc(blocks, func(x, y caching.Placed) int { return cmp.Compare(x.Addr, y.Addr) })
	return blocks
}

// begins says whether a block begins a segment, or a mapped range of an expandable one.
func begins(blocks []caching.Placed, i int) bool {
	return i == 0 || blocks[i].First || blocks[i-1].Addr+uint64(blocks[i-1].Size) != blocks[i].Addr
}

// layoutOf looks at the memory of a model.
func layoutOf(event int, a *caching.Allocator) *Layout {
	l := &Layout{Event: event, Fragmentation: a.Fragmentation(), Private: a.Private()}
	blocks := placed(a)
	l.PinnedBy = pinsOf(blocks)
	type key struct{ pool, stream uint32 }
	index := map[key]int{}
	var sizes sizeRanges
	for i := range blocks {
		b := &blocks[i]
		k := key{b.Pool, b.Stream}
		at, ok := index[k]
		if !ok {
			at = len(l.Pools)
			index[k] = at
			l.Pools = append(l.Pools, PoolUse{Pool: b.Pool, Stream: trace.StreamID(b.Stream)})
		}
		u := &l.Pools[at]
		u.Reserved += b.Size
		switch {
		case b.Free:
			u.Free += b.Size
			u.Largest = max(u.Largest, b.Size)
			sizes.add(b.Size)
		case b.Pending:
			u.Pending += b.Size
		default:
			u.Allocated += b.Size
			u.Blocks++
		}
	}
	l.FreeSizes = sizes.list()
	slices.SortFunc(l.Pools, func(x, y PoolUse) int {
		return cmp.Or(cmp.Compare(y.Reserved, x.Reserved), cmp.Compare(x.Pool, y.Pool), cmp.Compare(x.Stream, y.Stream))
	})
	return l
}

// pinsOf lists the segments with free memory in them that something keeps.
func pinsOf(blocks []caching.Placed) []Pin {
	var pins []Pin
	for i := 0; i < len(blocks); {
		p := Pin{Addr: blocks[i].Addr, Pool: blocks[i].Pool}
		first := true
		for ; i < len(blocks) && (first || !begins(blocks, i)); i++ {
			first = false
			b := &blocks[i]
			p.Segment += b.Size
			if b.Free {
				continue
			}
			p.Live += b.Size
			p.Blocks++
			if b.Size > p.StackSize {
				p.StackSize, p.Block = b.Size, trace.BlockID(b.Number)
			}
		}
		if p.Blocks > 0 && p.Stranded() > 0 {
			pins = append(pins, p)
		}
	}
	slices.SortStableFunc(pins, func(x, y Pin) int { return cmp.Compare(y.Stranded(), x.Stranded()) })
	return pins
}

// attribute finds out who allocated the blocks that layouts name.
func (d *Device) attribute(layouts ...*Layout) {
	type origin struct {
		stack trace.StackID
		born  int
	}
	named := map[trace.BlockID]origin{}
	each := func(do func(b trace.BlockID, set func(origin))) {
		for _, l := range layouts {
			if l == nil {
				continue
			}
			for i := range l.PinnedBy {
				p := &l.PinnedBy[i]
				do(p.Block, func(o origin) { p.Stack, p.Born, p.Old = o.stack, o.born, o.born < 0 })
			}
			if l.Freeing == nil {
				continue
			}
			for i := range l.Freeing.Blocks {
				b := &l.Freeing.Blocks[i]
				do(b.Block, func(o origin) { b.Stack, b.Born = o.stack, o.born })
			}
		}
	}
	each(func(b trace.BlockID, _ func(origin)) { named[b] = origin{born: -1} })
	if len(named) == 0 {
		return
	}
	for _, b := range d.Follow.Requests.Initial {
		if _, ok := named[b.ID]; ok {
			named[b.ID] = origin{b.Stack, -1}
		}
	}
	for i, e := range d.Trace.Events.All() {
		if e.Op != trace.OpAlloc {
			continue
		}
		if _, ok := named[e.Block]; ok {
			named[e.Block] = origin{e.Stack, i}
		}
	}
	each(func(b trace.BlockID, set func(origin)) { set(named[b]) })
}

// layouts looks at the memory after some events, in ascending order, by following the recording once more up to the
// last of them. Where the recording does not keep to the model's rules then, the model may hold other memory, of which
// there is nothing to say: there is no layout.
func (d *Device) layouts(o Options, events ...int) map[int]*Layout {
	out := map[int]*Layout{}
	if len(events) == 0 {
		return out
	}
	look := func(event int, now simulate.Now) {
		if a := now.Model; a.Reserved() == now.Reserved && a.Allocated() == now.Allocated {
			out[event] = layoutOf(event, a)
		}
	}
	if events[0] < 0 {
		look(-1, simulate.Follow(d.Follow.Requests.Device, d.cfg, simulate.FollowOptions{Limit: o.Limit, Memory: o.Memory, Until: -1}).End)
		if events = events[1:]; len(events) == 0 {
			return out
		}
	}
	last := d.Trace.Events.Len() - 1
	if events[len(events)-1] >= last && len(events) == 1 || last < 0 {
		look(last, d.Follow.End)
		return out
	}
	follow := simulate.FollowOptions{Limit: o.Limit, Memory: o.Memory, Until: events[len(events)-1] + 1, Each: func(i int, _ *trace.Event, now simulate.Now) {
		for len(events) > 0 && events[0] < i {
			events = events[1:]
		}
		if len(events) > 0 && events[0] == i {
			look(i, now)
		}
	}}
	simulate.Follow(d.Follow.Requests.Device, d.cfg, follow)
	return out
}
