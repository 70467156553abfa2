package page

import (
	"cmp"
	"slices"

	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/trace"
)

// extent is a range of memory that the allocator held in the states from <= s < to. A range of an expandable segment
// that is cut is several, one after the other.
type extent struct {
	addr     uint64
	size     int64
	from, to int
	pool     uint32
	stream   uint32
	flags    uint8
}

// What is known of an extent.
const (
	isExpandable = 1 << iota
	isOld        // it is older than the recording
	isPoolTold   // the file names its pool, or a block in it has told
)

// extents finds the memory that a device held, from its events.
type extents struct {
	done []extent
	open []extent // in the order of addresses
	work int      // extents that were moved to keep the order
}

// patience is how many extents may be moved. No device has so many segments that it does not do; a file that somebody
// made may.
const patience = 1 << 27

// extentsOf goes through a recording. It gives none where there are more than a page can show.
func extentsOf(d *report.Device) []extent {
	x := &extents{}
	dev := d.Trace
	last := dev.Events.Len() + 1 // behind the last state
	if d.Follow == nil {
		last = 1
		for _, s := range dev.Final.Segments {
			x.add(segmentOf(s))
		}
		return x.close(last)
	}
	for _, s := range dev.Initial.Segments {
		e := segmentOf(s)
		e.flags |= isOld
		x.add(e)
	}
	pools := d.Follow.Requests.Pools
	for _, b := range d.Follow.Requests.Initial {
		x.told(b.Addr, b.Pool)
	}
	for i, e := range dev.Events.All() {
		if x.work > patience {
			return nil
		}
		switch e.Op {
		case trace.OpSegmentAlloc, trace.OpSegmentMap:
			n := extent{addr: e.Addr, size: e.Size, from: i + 1, pool: poolOf(e.Pool), stream: uint32(e.Stream)}
			if e.Op == trace.OpSegmentMap {
				n.flags = isExpandable
			}
			if e.Pool != trace.PoolUnknown {
				n.flags |= isPoolTold
			}
			x.cut(e.Addr, e.Size, i+1)
			x.add(n)
		case trace.OpSegmentFree, trace.OpSegmentUnmap:
			x.cut(e.Addr, e.Size, i+1)
		case trace.OpAlloc:
			if int(e.Block) < len(pools) && pools[e.Block] != 0 {
				x.told(e.Addr, pools[e.Block])
			}
		}
	}
	return x.close(last)
}

func poolOf(p trace.PoolID) uint32 {
	if p == trace.PoolUnknown {
		return 0
	}
	return uint32(p)
}

func segmentOf(s trace.Segment) extent {
	e := extent{addr: s.Addr, size: s.Size, pool: poolOf(s.Pool), stream: uint32(s.Stream)}
	if s.Expandable {
		e.flags |= isExpandable
	}
	if s.Pool != trace.PoolUnknown {
		e.flags |= isPoolTold
	}
	return e
}

// after is the index of the first extent that begins behind an address.
func (x *extents) after(addr uint64) int {
	i, _ := slices.BinarySearchFunc(x.open, addr, func(e extent, a uint64) int {
		if e.addr <= a {
			return -1
		}
		return 1
	})
	return i
}

func (x *extents) add(e extent) {
	if e.size > 0 {
		i := x.after(e.addr)
		x.work += len(x.open) - i
		x.open = slices.Insert(x.open, i, e)
	}
}

// told notes the pool of a block for the extent that it lies in.
func (x *extents) told(addr uint64, pool uint32) {
	if i := x.after(addr) - 1; i >= 0 && x.open[i].flags&isPoolTold == 0 && addr < x.open[i].addr+uint64(x.open[i].size) {
		x.open[i].pool = pool
		x.open[i].flags |= isPoolTold
	}
}

// cut ends what is held in a range. Of an extent that reaches beyond it the rest goes on as another one.
func (x *extents) cut(addr uint64, size int64, state int) {
	end := addr + uint64(size)
	i := x.after(addr)
	if i > 0 && x.open[i-1].addr+uint64(x.open[i-1].size) > addr {
		i--
	}
	j := i
	var rest []extent
	for ; j < len(x.open) && x.open[j].addr < end; j++ {
		e := x.open[j]
		if e.addr < addr {
			front := e
			front.size, front.from = int64(addr-e.addr), state
			rest = append(rest, front)
		}
		if last := e.addr + uint64(e.size); last > end {
			back := e
			back.addr, back.size, back.from = end, int64(last-end), state
			rest = append(rest, back)
		}
		e.to = state
		x.done = append(x.done, e)
	}
	x.work += len(x.open) - i
	x.open = slices.Replace(x.open, i, j, rest...)
}

// close ends what is left, and gives all extents in the order of their addresses.
func (x *extents) close(state int) []extent {
	for _, e := range x.open {
		e.to = state
		x.done = append(x.done, e)
	}
	slices.SortStableFunc(x.done, func(a, b extent) int { return cmp.Or(cmp.Compare(a.addr, b.addr), cmp.Compare(a.from, b.from)) })
	return x.done
}

// packExtents adds the columns.
func packExtents(p *packing, prefix string, list []extent, unit uint64) {
	n := len(list)
	addr, size := make([]uint64, n), make([]uint64, n)
	from, to := make([]uint32, n), make([]uint32, n)
	pool, stream, flags := make([]uint32, n), make([]uint32, n), make([]uint8, n)
	last := uint64(0)
	for i, e := range list {
		addr[i], size[i] = (e.addr-last)/unit, uint64(e.size)
		from[i], to[i] = uint32(e.from), uint32(e.to)
		pool[i], stream[i], flags[i] = e.pool, e.stream, e.flags
		last = e.addr
	}
	add(p, prefix+"extent/addr", addr)
	add(p, prefix+"extent/size", size)
	add(p, prefix+"extent/from", from)
	add(p, prefix+"extent/to", to)
	add(p, prefix+"extent/pool", pool)
	add(p, prefix+"extent/stream", stream)
	add(p, prefix+"extent/flags", flags)
}

// unitOf is what all addresses are multiples of.
func unitOf(addrs []uint64, list []extent) uint64 {
	var all uint64
	for _, a := range addrs {
		all |= a
	}
	for _, e := range list {
		all |= e.addr
	}
	unit := uint64(1)
	for unit < 512 && all != 0 && all&unit == 0 {
		unit *= 2
	}
	return unit
}
