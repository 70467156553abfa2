package page

import (
	"cmp"
	"slices"

	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/trace"
)

// A recording, as a page holds it.
//
// State 0 is what existed before the first event, and state s what there is after event s-1. A block is allocated in the
// states born <= s < freed, and its memory is in use for born <= s < gone: between the two it waits for a stream.
//
// Blocks are numbered in the order in which they were born, those of state 0 first. When a block was born is told by
// the operations of the events, one column for all. When it was freed is told by how many frees there are from its birth
// to its own, and when it was gone by how many completions there are from its free to its own: in a program that does
// the same over and over these are the same small numbers over and over.

// blocks are the columns of a device's blocks, by number.
type blocks struct {
	op      []uint8  // by event; an allocation or free that concerns no block of ours is none
	life    []uint32 // frees from the birth on up to that of the block; 0 for one that is never freed
	wait    []uint32 // completions from the free on up to that of the block; 0 for one that waits for ever
	stack   []uint32 // as codes numbers them
	size    []uint32 // index of sizes
	addr    []uint32 // index of addrs
	stream  []uint32
	pool    []uint32
	role    []uint8 // category
	phase   []uint8
	count   []uint32 // blocks that it stands for: more than 1 only for groups
	old     int      // blocks of state 0
	waiting []int    // those of them that were freed already
	waits   bool     // some blocks are gone later than in the event behind their free

	frees, completions int
	sizes              []sizeOf      // in the order of their first block
	addrs              []uint64      // different addresses, ascending
	states             int           // number of states
	byID               []uint32      // number + 1 of a block, by its id
	all                []trace.Block // while they are gathered: id, stack, stream, address, sizes
}

// sizeOf is how large a block is: what it takes and what was asked for, in bytes.
type sizeOf struct{ taken, requested int64 }

// gather makes the columns of a device.
func gather(d *report.Device, codes *codes) *blocks {
	dev := d.Trace
	b := &blocks{states: 1}
	if d.Follow == nil {
		b.instant(&dev.Final)
	} else {
		b.states += dev.Events.Len()
		b.byID = make([]uint32, dev.NumBlocks)
		b.all = make([]trace.Block, 0, dev.NumBlocks)
		b.before(d)
		b.events(d)
	}
	b.describe(d, codes)
	return b
}

// instant takes the blocks of a recording that has one state.
func (b *blocks) instant(s *trace.State) {
	for _, x := range s.Blocks {
		if x.State != trace.BlockFree {
			b.all = append(b.all, x)
			b.count = append(b.count, 1)
		}
	}
	for _, g := range s.Groups {
		b.all = append(b.all, trace.Block{ID: trace.NoBlock, State: trace.BlockLive, Size: g.Bytes, Requested: g.Bytes, Stack: g.Stack})
		b.count = append(b.count, uint32(min(max(g.Blocks, 1), 1<<32-1)))
	}
	b.old = len(b.all)
	b.life, b.wait = make([]uint32, b.old), make([]uint32, b.old)
}

// before takes the blocks that are older than the recording.
func (b *blocks) before(d *report.Device) {
	for _, x := range d.Follow.Requests.Initial {
		if int(x.ID) >= len(b.byID) || b.byID[x.ID] != 0 {
			continue
		}
		if x.State == trace.BlockPending {
			b.waiting = append(b.waiting, len(b.all))
		}
		x.Size = d.Follow.Sizes[x.ID]
		b.all = append(b.all, x.Block)
		b.byID[x.ID] = uint32(len(b.all))
	}
	b.old = len(b.all)
}

// events goes through the recording and finds the lives of its blocks.
func (b *blocks) events(d *report.Device) {
	dev := d.Trace
	const never = ^uint32(0)
	n := dev.NumBlocks
	b.op = make([]uint8, dev.Events.Len())
	b.life, b.wait = make([]uint32, len(b.all), n), make([]uint32, len(b.all), n)
	freesAt := make([]uint32, len(b.all), n) // frees before the birth; never for a block that is freed
	waits := make([]uint32, len(b.all), n)   // completions before the free + 1; 0 before the free
	open := 0                                // blocks that were freed and are not gone
	for _, i := range b.waiting {
		freesAt[i], waits[i] = never, 1
		open++
	}
	b.waits = open > 0
	var frees, completions uint32
	for i, e := range dev.Events.All() {
		op := e.Op
		at := never
		if int(e.Block) < n && b.byID[e.Block] != 0 {
			at = b.byID[e.Block] - 1
		}
		switch op {
		case trace.OpAlloc:
			if int(e.Block) >= n || at != never {
				op = trace.OpNone
				break
			}
			b.all = append(b.all, trace.Block{ID: e.Block, Stream: e.Stream, Addr: e.Addr,
				Size: d.Follow.Sizes[e.Block], Requested: e.Size, Stack: e.Stack})
			b.byID[e.Block] = uint32(len(b.all))
			b.life, b.wait = append(b.life, 0), append(b.wait, 0)
			freesAt, waits = append(freesAt, frees), append(waits, 0)
		case trace.OpFree, trace.OpFreeRequested:
			if at == never || freesAt[at] == never {
				op = trace.OpNone
				break
			}
			frees++
			b.life[at], freesAt[at] = frees-freesAt[at], never
			waits[at] = completions + 1
			if op == trace.OpFreeRequested {
				open++
			}
		case trace.OpFreeCompleted:
			completions++
			if at != never && waits[at] != 0 && b.wait[at] == 0 {
				b.wait[at] = completions - waits[at] + 1
				open--
			}
		}
		b.waits = b.waits || open > 0 && op != trace.OpFreeRequested || open > 1
		b.op[i] = uint8(op)
	}
	b.frees, b.completions = int(frees), int(completions)
}

// describe fills in what else there is to say of each block.
func (b *blocks) describe(d *report.Device, codes *codes) {
	n := len(b.all)
	b.stack, b.size, b.stream, b.pool = make([]uint32, n), make([]uint32, n), make([]uint32, n), make([]uint32, n)
	b.role, b.phase = make([]uint8, n), make([]uint8, n)
	index := map[sizeOf]uint32{}
	for i, x := range b.all {
		s := sizeOf{x.Size, x.Requested}
		at, ok := index[s]
		if !ok {
			at = uint32(len(b.sizes))
			index[s] = at
			b.sizes = append(b.sizes, s)
		}
		b.size[i] = at
		b.stack[i] = codes.stack(x.Stack)
		b.stream[i] = uint32(x.Stream)
		if d.Follow != nil {
			b.pool[i] = d.Follow.Requests.Pool(x.ID)
			b.role[i], b.phase[i] = uint8(d.Roles.Category(x.ID)), uint8(d.Roles.Phase(x.ID))
		}
	}
	b.places()
}

// places numbers the addresses.
func (b *blocks) places() {
	type place struct {
		addr  uint64
		block uint32
	}
	list := make([]place, len(b.all))
	for i, x := range b.all {
		list[i] = place{x.Addr, uint32(i)}
	}
	slices.SortFunc(list, func(x, y place) int { return cmp.Compare(x.addr, y.addr) })
	b.addr = make([]uint32, len(b.all))
	for i, x := range list {
		if i == 0 || x.addr != list[i-1].addr {
			b.addrs = append(b.addrs, x.addr)
		}
		b.addr[x.block] = uint32(len(b.addrs) - 1)
	}
}

// pack adds the columns of the blocks.
func (b *blocks) pack(p *packing, prefix string, unit uint64) {
	add(p, prefix+"op", b.op)
	add(p, prefix+"life", b.life)
	add(p, prefix+"wait", b.wait)
	add(p, prefix+"stack", b.stack)
	add(p, prefix+"size", b.size)
	add(p, prefix+"addr", b.addr)
	add(p, prefix+"stream", b.stream)
	add(p, prefix+"pool", b.pool)
	add(p, prefix+"role", b.role)
	add(p, prefix+"phase", b.phase)
	if b.count != nil {
		add(p, prefix+"count", b.count)
	}
	taken, more := make([]uint64, len(b.sizes)), make([]uint64, len(b.sizes))
	for i, s := range b.sizes {
		taken[i], more[i] = uint64(s.taken), zigzag(s.taken-s.requested)
	}
	add(p, prefix+"taken", taken)
	add(p, prefix+"rounding", more)
	steps := make([]uint64, len(b.addrs))
	last := uint64(0)
	for i, a := range b.addrs {
		steps[i] = (a - last) / unit
		last = a
	}
	add(p, prefix+"addrs", steps)
}
