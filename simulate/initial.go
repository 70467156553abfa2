package simulate

import (
	"cmp"
	"slices"

	"github.com/vramscope/vramscope/allocators/caching"
	"github.com/vramscope/vramscope/allocators/caching/config"
	"github.com/vramscope/vramscope/trace"
)

// The state before a recording.
//
// A file has the state at its end and the sizes that were asked for, so the reader can say where blocks
// older than the recording were and how much each wanted. How much each took is lost with its free, and
// follows from the allocator's rules: a block of a small pool or an expandable segment takes its rounded
// size. In a large classic segment a rest of up to 1 MiB is never split off, so a gap of up to that belongs
// to the block. In front of a larger gap the block may still be up to 1 MiB longer than its rounded size;
// an allocation of the recording that begins there shows where the gap begins; otherwise the rounded size is
// assumed, and the follower raises it when a placement contradicts it.

// slack is a block whose end was assumed.
type slack struct {
	number uint32
	extra  int64 // bytes added to its rounded size so far
}

// initialState is what existed before the first event, as the model takes it over.
type initialState struct {
	segments   []caching.Range
	expandable [][]caching.Range // those of segments that are mapped ranges, by reservation, the lowest first
	blocks     []InitialBlock
	assumed    map[uint64]slack // by the address at which the block was assumed to end
}

func newInitialState(dev *trace.Device, cfg *config.Config) *initialState {
	s := &initialState{assumed: map[uint64]slack{}}
	blocks := dev.Initial.Blocks
	open := &gaps{}
	for _, seg := range dev.Initial.Segments {
		end := seg.Addr + uint64(seg.Size)
		lo, _ := slices.BinarySearchFunc(blocks, seg.Addr, byAddr)
		hi, _ := slices.BinarySearchFunc(blocks, end, byAddr)
		in := blocks[lo:hi]
		pool := uint32(seg.Pool)
		if seg.Pool == trace.PoolUnknown {
			pool = 0
		}
		small := isSmall(seg, in)
		r := caching.Range{Addr: seg.Addr, Size: seg.Size, Pool: pool, Stream: uint32(seg.Stream), Small: small}
		for i, b := range in {
			room := int64(end - b.Addr)
			if i+1 < len(in) {
				room = int64(in[i+1].Addr - b.Addr)
			}
			size, assumed := blockSize(b, room, cfg, small || seg.Expandable, seg.Size)
			if assumed {
				open.add(gap{from: b.Addr + uint64(size), to: b.Addr + uint64(min(size+config.SmallSize, room-config.SmallSize-1)),
					block: b.ID, segment: len(s.segments), index: len(r.Blocks)})
			}
			r.Blocks = append(r.Blocks, caching.Adopted{
				Number: uint32(b.ID), Addr: b.Addr, Size: size, Requested: b.Requested, Pending: b.State == trace.BlockPending,
			})
			b.Size = size
			s.blocks = append(s.blocks, InitialBlock{Block: b, Pool: pool, Small: small})
		}
		s.segments = append(s.segments, r)
	}
	var mapped []caching.Range
	for i, seg := range dev.Initial.Segments {
		if seg.Expandable {
			mapped = append(mapped, s.segments[i])
		}
	}
	s.expandable = reservationsOf(mapped)
	open.resolve(dev)
	for _, g := range open.list {
		b := &s.segments[g.segment].Blocks[g.index]
		if g.known {
			b.Size += int64(g.starts - g.from)
			continue
		}
		s.assumed[g.from] = slack{number: b.Number}
	}
	return s
}

func byAddr(b trace.Block, addr uint64) int { return cmp.Compare(b.Addr, addr) }

// isSmall guesses the size class of a segment that did not live to the end of the recording.
func isSmall(seg trace.Segment, blocks []trace.Block) bool {
	if seg.KindKnown {
		return seg.Small
	}
	if !seg.Expandable {
		return seg.Size == config.SmallSegment
	}
	for _, b := range blocks {
		return b.Requested <= config.SmallSize
	}
	return seg.Size%config.DefaultLargeSegment != 0
}

// blockSize is what a block took, and whether that is only assumed.
func blockSize(b trace.Block, room int64, cfg *config.Config, exact bool, segment int64) (size int64, assumed bool) {
	if b.Size > 0 {
		return min(b.Size, room), false
	}
	z := min(cfg.RoundSize(b.Requested), room)
	switch {
	case exact:
		return z, false
	case z >= cfg.MaxSplitSize:
		return room, false
	case room-z <= config.SmallSize:
		return room, false
	}
	return z, true
}

// gap is a range in which the free memory behind a block may begin.
type gap struct {
	from, to       uint64 // inclusive
	block          trace.BlockID
	segment, index int
	known          bool
	starts         uint64
	closed         bool
}

// gaps looks for the allocations that show where free memory began.
type gaps struct {
	list    []gap
	byBlock map[trace.BlockID]int
}

func (g *gaps) add(x gap) {
	if g.byBlock == nil {
		g.byBlock = map[trace.BlockID]int{}
	}
	g.byBlock[x.block] = len(g.list)
	g.list = append(g.list, x)
}

// resolve goes through the recording until every gap is closed by the end of its block.
func (g *gaps) resolve(dev *trace.Device) {
	left := len(g.list)
	if left == 0 {
		return
	}
	slices.SortFunc(g.list, func(a, b gap) int { return cmp.Compare(a.from, b.from) })
	for i := range g.list {
		g.byBlock[g.list[i].block] = i
	}
	for _, e := range dev.Events.All() {
		switch e.Op {
		case trace.OpAlloc:
			i, _ := slices.BinarySearchFunc(g.list, e.Addr, func(x gap, a uint64) int { return cmp.Compare(x.from, a+1) })
			if i--; i >= 0 && e.Addr <= g.list[i].to && !g.list[i].closed {
				x := &g.list[i]
				x.known, x.starts, x.closed = true, e.Addr, true
				left--
			}
		case trace.OpFreeCompleted, trace.OpFree:
			if i, ok := g.byBlock[e.Block]; ok && !g.list[i].closed {
				g.list[i].closed = true
				left--
			}
		}
		if left == 0 {
			return
		}
	}
}

// adopt builds the state in the model, and the regions that go with it.
func (s *initialState) adopt(f *follower) {
	for i, seg := range f.dev.Initial.Segments {
		if seg.Expandable {
			continue
		}
		r := s.segments[i]
		f.a.AdoptSegment(r)
		f.regions.add(region{addr: r.Addr, size: r.Size, pool: r.Pool, stream: r.Stream, small: r.Small, sure: seg.Pool != trace.PoolUnknown, old: true})
	}
	for i, group := range s.expandable {
		first, last := group[0], group[len(group)-1]
		base, size := placeReservation(group, f.a.PageOf(first.Small), f.a.ReservationSize(first.Small), i == 0)
		size = int64(last.Addr-base) + f.spanFrom(last.Addr, size-int64(last.Addr-base))
		f.a.AdoptReservation(base, size, group)
		f.regions.addSpace(region{addr: base, size: size, pool: first.Pool, stream: first.Stream, small: first.Small, expandable: true, sure: true})
	}
}

// reservationsOf groups mapped ranges by the expandable segment that they lie in: there is one for each
// pool, stream and size class, and their address spaces are far apart.
func reservationsOf(ranges []caching.Range) [][]caching.Range {
	type key struct {
		pool, stream uint32
		small        bool
	}
	var groups [][]caching.Range
	index := map[key]int{}
	for _, r := range ranges {
		k := key{r.Pool, r.Stream, r.Small}
		i, ok := index[k]
		if !ok {
			i = len(groups)
			index[k] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], r)
	}
	return groups
}

// firstReservation is where the driver puts the first address space that a process reserves, and
// reservationStep what others are multiples of.
const (
	firstReservation = 0x302000000
	reservationStep  = 32 << 20
)

// placeReservation finds the base of an expandable segment from its mapped ranges. The lowest segment
// begins where the first of a process does, if that is near enough. Others begin at the last possible
// place that is a whole number of pages below the first mapped range; mostly nothing lies in front of it.
func placeReservation(group []caching.Range, page, size int64, lowest bool) (base uint64, length int64) {
	from := group[0].Addr
	end := group[len(group)-1].Addr + uint64(group[len(group)-1].Size)
	base = from
	if near := from - firstReservation; lowest && from > firstReservation && near < nearFirst && near%uint64(page) == 0 {
		base = firstReservation
	}
	for range reservationStep / config.MiB { // after so many pages of whole MiB the remainders repeat
		if base%reservationStep == 0 || base <= uint64(page) {
			break
		}
		base -= uint64(page)
	}
	if base%reservationStep != 0 {
		base = from
	}
	return base, max(size, int64(end-base))
}

// nearFirst is how far above firstReservation mapped memory may begin and still be in it, in bytes: no more
// than the address space that the smallest devices give rise to.
const nearFirst = 8 << 30

// deviceTotal estimates the memory of the device from the distance between its first two reservations, which
// is nine eighths of it, rounded up; 0 if there are not two.
func deviceTotal(bases []uint64) int64 {
	if len(bases) < 2 || bases[0] != firstReservation {
		return 0
	}
	return int64(bases[1]-bases[0]) / 9 * 8
}

// mappedBases lists the beginnings of the address ranges that were mapped at any time, adjacent ones, and
// those that lay in one expandable segment at the start, taken together. Memory of an expandable segment grows at its end, so each range is one segment's, at least as
// long as no two segments meet, for which a device would have to be full.
func mappedBases(dev *trace.Device, initial [][]caching.Range) []uint64 {
	type span struct{ from, to uint64 }
	var spans []span
	for _, group := range initial {
		last := group[len(group)-1]
		spans = append(spans, span{group[0].Addr, last.Addr + uint64(last.Size)})
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

// spanFrom is how far the address space of an expandable segment at base can reach: not to the next one.
func (f *follower) spanFrom(base uint64, size int64) int64 {
	i, found := slices.BinarySearch(f.bases, base)
	if found {
		i++
	}
	if i < len(f.bases) {
		return min(size, int64(f.bases[i]-base))
	}
	return size
}
