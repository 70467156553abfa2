package simulate

import (
	"cmp"
	"math"
	"slices"

	"github.com/vramscope/vramscope/allocators/caching"
	"github.com/vramscope/vramscope/trace"
)

// Memory that a recording shows taken where the model still has some. Its release must have been left out,
// or never was: the recording is right, and what was there goes.

// vacant says whether the model has no memory in a range. Address space without pages is none, since nobody
// knows how far it reaches.
func (f *follower) vacant(addr uint64, size int64) bool {
	over := f.regions.over(addr, size)
	for _, r := range over {
		if !r.expandable {
			return false
		}
	}
	return len(over) == 0 && !f.tangled || !f.holds(addr, addr+uint64(size))
}

// holds says whether the model has memory in a range, by looking at all that it has.
func (f *follower) holds(addr, end uint64) bool {
	f.work += f.a.Len()
	hit := false
	f.a.Layout(func(p caching.Placed) { hit = hit || p.Addr < end && addr < p.Addr+uint64(p.Size) })
	return hit
}

// vacate removes whatever the model has in a range: classic segments whole, of expandable ones the pages.
func (f *follower) vacate(addr uint64, size int64) {
	end := addr + uint64(size)
	if !f.holds(addr, end) {
		return
	}
	f.tangled = true
	f.work += 10 * f.a.Len()
	var placed []caching.Placed
	f.a.Layout(func(p caching.Placed) { placed = append(placed, p) })
	slices.SortFunc(placed, func(x, y caching.Placed) int { return cmp.Compare(x.Addr, y.Addr) })
	for i := 0; i < len(placed); {
		j := i + 1 // the end of a segment, or of an expandable block
		for !placed[i].Expandable && j < len(placed) && !placed[j].First && !placed[j].Expandable {
			j++
		}
		from, to := placed[i].Addr, placed[j-1].Addr+uint64(placed[j-1].Size)
		if from < end && addr < to {
			f.remove(placed[i:j], max(from, addr), min(to, end))
		}
		i = j
	}
}

// room is how much a range at an address may take before it meets memory that the model has.
func (f *follower) room(addr uint64) int64 {
	room := int64(min(math.MaxUint64-addr, math.MaxInt64))
	f.work += f.a.Len()
	f.a.Layout(func(p caching.Placed) {
		if d := int64(p.Addr - addr); d > 0 {
			room = min(room, d)
		}
	})
	return room
}

// adoptPages maps pages where the recording does. Where the model's address space is another, its whole pages
// would reach into other memory: then they are an expandable segment of their own.
func (f *follower) adoptPages(e *trace.Event, pool uint32, small bool) {
	f.vacate(e.Addr, e.Size)
	r := f.regions.at(e.Addr)
	if r != nil {
		pool, small = r.pool, r.small
	}
	end := e.Addr + uint64(e.Size)
	if r != nil && !f.holds(end, end+uint64(f.a.PageOf(false))) {
		f.a.AdoptMap(pool, uint32(e.Stream), small, e.Addr, e.Size)
		return
	}
	size := e.Size
	if r == nil {
		size = max(size, f.spanFrom(e.Addr, f.a.ReservationSize(small), 0))
		f.regions.addSpace(region{addr: e.Addr, size: size, pool: pool, stream: uint32(e.Stream), small: small, expandable: true})
	}
	f.tangled = f.tangled || r != nil || f.regions.at(e.Addr).end() < end
	f.a.AdoptReservation(e.Addr, size, []caching.Range{{Addr: e.Addr, Size: e.Size, Pool: pool, Stream: uint32(e.Stream), Small: small}})
}

// remove gives back the blocks of a segment, and its memory: all of it if it is a classic one, the given
// range of an expandable block.
func (f *follower) remove(blocks []caching.Placed, from, to uint64) {
	for _, b := range blocks {
		if !b.Free {
			f.a.Free(b.Number, false)
			f.a.Complete(b.Number)
		}
	}
	f.work += f.a.Len()
	if blocks[0].Expandable {
		f.a.AdoptUnmap(from, int64(to-from))
		return
	}
	f.a.Forget(blocks[0].Addr)
	f.regions.remove(blocks[0].Addr)
}
