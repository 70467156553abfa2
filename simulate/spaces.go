package simulate

import (
	"cmp"
	"slices"

	"github.com/vramscope/vramscope/allocators/caching"
	"github.com/vramscope/vramscope/allocators/caching/config"
	"github.com/vramscope/vramscope/trace"
)

// The address spaces of expandable segments.
//
// A recording shows which pages were mapped, and neither where an expandable segment begins nor how far it
// reaches. Both follow from how they are made: one for each pool, stream and size class, each with nine
// eighths of the device's memory of address space, the first of a process at a fixed address and the
// others wherever there is room, mostly one behind the other.

const (
	// firstSpace is where the driver puts the first address space that a process reserves.
	firstSpace = 0x302000000
	// spaceStep is what all of them begin at multiples of.
	spaceStep = 32 << 20
	// leastReach is the address space in bytes that the smallest devices give rise to.
	leastReach = 8 << 30
)

// space is an expandable segment that existed before the recording.
type space struct {
	base   uint64
	ranges []caching.Range // mapped parts, in the order of addresses; never empty
	known  bool            // the file names the pool
}

func (x *space) end() uint64 {
	last := x.ranges[len(x.ranges)-1]
	return last.Addr + uint64(last.Size)
}

// spacesOf groups the mapped ranges of the state before the recording by the expandable segments that they
// lie in, and finds where those begin.
func spacesOf(dev *trace.Device, segments []caching.Range, cfg *config.Config) []space {
	var mapped []caching.Range
	var known []bool
	for i, seg := range dev.Initial.Segments {
		if seg.Expandable {
			mapped = append(mapped, segments[i])
			known = append(known, seg.Pool != trace.PoolUnknown)
		}
	}
	if len(mapped) == 0 {
		return nil
	}
	reach := reachOf(mapped, known)
	var out []space
next:
	for i, r := range mapped {
		for j := range out {
			x := &out[j]
			first := &x.ranges[0]
			if first.Stream != r.Stream || first.Small != r.Small || r.Addr-x.base >= reach || x.known && known[i] && first.Pool != r.Pool {
				continue
			}
			if known[i] && !x.known {
				x.known = true
				for k := range x.ranges {
					x.ranges[k].Pool = r.Pool
				}
			}
			r.Pool = first.Pool
			x.ranges = append(x.ranges, r)
			continue next
		}
		out = append(out, space{base: r.Addr, ranges: []caching.Range{r}, known: known[i]})
	}
	later := mapsOf(dev)
	for i := range out {
		page := int64(config.SmallSegment)
		if !out[i].ranges[0].Small {
			page = cfg.LargeSegmentSize
		}
		floor := uint64(0)
		if i > 0 {
			floor = out[i-1].end()
		}
		out[i].place(uint64(page), floor, later)
	}
	return out
}

// reachOf is how far one expandable segment may reach: the least distance from the beginning of a run of
// ranges that may be one segment's to the beginning of the next run.
func reachOf(mapped []caching.Range, known []bool) uint64 {
	reach, start := uint64(0), mapped[0].Addr
	for i := 1; i < len(mapped); i++ {
		a, b := mapped[i-1], mapped[i]
		if a.Stream == b.Stream && a.Small == b.Small && !(known[i-1] && known[i] && a.Pool != b.Pool) {
			continue
		}
		if d := b.Addr - start; reach == 0 || d < reach {
			reach = d
		}
		start = b.Addr
	}
	return max(reach/10*9, leastReach)
}

// place finds the base: the first of a process begins where the driver puts it; pages that the recording
// maps in front show how far down another one reaches; and it begins at a multiple of its step, whole pages
// below what is mapped.
func (x *space) place(page, floor uint64, later []uint64) {
	from := x.ranges[0].Addr
	i, _ := slices.BinarySearch(later, floor)
	for ; i < len(later) && later[i] < from; i++ {
		if at := later[i]; from-at < leastReach && (from-at)%page == 0 {
			from = at
			break
		}
	}
	if floor == 0 && from > firstSpace && from-firstSpace < leastReach && (from-firstSpace)%page == 0 {
		x.base = firstSpace
		return
	}
	x.base = from
	for at := from; from-at < spaceStep*page/config.MiB && at > page; at -= page {
		if at%spaceStep == 0 {
			x.base = at
			return
		}
	}
}

// mapsOf lists the addresses that a recording maps, in order.
func mapsOf(dev *trace.Device) []uint64 {
	var out []uint64
	for _, e := range dev.Events.All() {
		if e.Op == trace.OpSegmentMap {
			out = append(out, e.Addr)
		}
	}
	slices.Sort(out)
	return out
}

// deviceTotal estimates the memory of the device from the distance between its first two address spaces,
// which is nine eighths of it, rounded up; 0 if there are not two.
func deviceTotal(bases []uint64) int64 {
	if len(bases) < 2 || bases[0] != firstSpace {
		return 0
	}
	return int64(bases[1]-bases[0]) / 9 * 8
}

// mappedBases lists the beginnings of the address ranges that were mapped at any time, adjacent ones, and
// those of one segment at the start, taken together. Memory of an expandable segment grows at its end, so
// each range is one segment's, at least as long as no two segments meet, for which a device would have to
// be full.
func mappedBases(dev *trace.Device, spaces []space) []uint64 {
	type span struct{ from, to uint64 }
	var spans []span
	for _, x := range spaces {
		spans = append(spans, span{x.base, x.end()})
	}
	for _, e := range dev.Events.All() {
		if e.Op == trace.OpSegmentMap {
			spans = append(spans, span{e.Addr, e.Addr + uint64(e.Size)})
		}
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	var bases []uint64
	var end uint64
	for i, s := range spans {
		if i == 0 || s.from > end {
			bases = append(bases, s.from)
		}
		end = max(end, s.to)
	}
	return bases
}

// spanFrom is how far the address space of an expandable segment at base can reach: not to the next one,
// nor to a classic segment that is there or comes while some of the space is mapped. mapped is how many
// bytes of it are.
func (f *follower) spanFrom(base uint64, size, mapped int64) int64 {
	i, found := slices.BinarySearch(f.bases, base)
	if found {
		i++
	}
	if i < len(f.bases) {
		size = min(size, int64(f.bases[i]-base))
	}
	if !f.mixed {
		return size
	}
	for _, r := range f.regions.over(base, size) {
		if !r.expandable && r.addr > base {
			size = min(size, int64(r.addr-base))
		}
	}
	for i := f.i; i < f.dev.Events.Len(); i++ {
		e := f.event(i)
		f.work += i & 1
		if !e.Op.IsSegment() || e.Addr < base || e.Addr-base >= uint64(size) {
			continue
		}
		switch e.Op {
		case trace.OpSegmentMap:
			mapped += e.Size
		case trace.OpSegmentUnmap:
			if mapped -= e.Size; mapped <= 0 {
				return size // the space is gone with its last page
			}
		case trace.OpSegmentAlloc:
			if e.Addr > base {
				size = int64(e.Addr - base)
			}
		}
	}
	return size
}
