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
	segments []caching.Range
	spaces   []space // the expandable segments that the mapped ranges among them lie in
	blocks   []InitialBlock
	assumed  map[uint64]slack // by the address at which the block was assumed to end
}

func newInitialState(dev *trace.Device, cfg *config.Config, whole map[uint32]bool) *initialState {
	if dev.Content != trace.Decisions {
		return requestsBefore(dev)
	}
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
			size, assumed := blockSize(b, room, cfg, small || seg.Expandable)
			if whole[pool] {
				size, assumed = room, false
			}
			if assumed {
				open.add(gap{from: b.Addr + uint64(size), to: b.Addr + uint64(min(size+config.SmallSize, room-config.SmallSize-1)),
					block: b.ID, segment: len(s.segments), index: len(r.Blocks), at: len(s.blocks)})
			}
			r.Blocks = append(r.Blocks, caching.Adopted{
				Number: uint32(b.ID), Addr: b.Addr, Size: size, Requested: b.Requested, Pending: b.State == trace.BlockPending,
			})
			b.Size = size
			s.blocks = append(s.blocks, InitialBlock{Block: b, Pool: pool, Small: small})
		}
		s.segments = append(s.segments, r)
	}
	s.homeless(dev, cfg)
	s.spaces = spacesOf(dev, s.segments, cfg)
	open.resolve(dev)
	for _, g := range open.list {
		b := &s.segments[g.segment].Blocks[g.index]
		if g.known {
			b.Size += int64(g.starts - g.from)
			s.blocks[g.at].Size = b.Size
			continue
		}
		s.assumed[g.from] = slack{number: b.Number}
	}
	return s
}

// homeless adds the blocks that lie in no segment of which the file tells. They count, although the model
// cannot hold them.
func (s *initialState) homeless(dev *trace.Device, cfg *config.Config) {
	if len(s.blocks) == len(dev.Initial.Blocks) {
		return
	}
	known := make(map[trace.BlockID]bool, len(s.blocks))
	for i := range s.blocks {
		known[s.blocks[i].ID] = true
	}
	for _, b := range dev.Initial.Blocks {
		if known[b.ID] {
			continue
		}
		if b.Size == 0 {
			b.Size = cfg.RoundSize(b.Requested)
		}
		s.blocks = append(s.blocks, InitialBlock{Block: b, Small: b.Size <= config.SmallSize})
	}
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
	if len(blocks) > 0 {
		return blocks[0].Requested <= config.SmallSize
	}
	return seg.Size%config.DefaultLargeSegment != 0
}

// blockSize is what a block took, and whether that is only assumed.
func blockSize(b trace.Block, room int64, cfg *config.Config, exact bool) (size int64, assumed bool) {
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
	segment, index int // where it is in the segments
	at             int // and among the blocks
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
	for _, x := range s.spaces {
		first, last := x.ranges[0], x.ranges[len(x.ranges)-1]
		mapped := int64(0)
		for _, r := range x.ranges {
			mapped += r.Size
		}
		size := int64(last.Addr-x.base) + f.spanFrom(last.Addr, f.a.ReservationSize(first.Small)-int64(last.Addr-x.base), mapped)
		size = max(size, int64(x.end()-x.base))
		f.a.AdoptReservation(x.base, size, x.ranges)
		f.regions.addSpace(region{addr: x.base, size: size, pool: first.Pool, stream: first.Stream, small: first.Small, expandable: true, sure: x.known})
	}
}

// noSplitPools finds pools made with no_split: every segment holds one block, one of them with more room
// than would have been split off.
func noSplitPools(dev *trace.Device, cfg *config.Config) map[uint32]bool {
	type seen struct{ one, slack bool }
	pools := map[trace.PoolID]*seen{}
	blocks := dev.Final.Blocks
	at := 0
	for _, seg := range dev.Final.Segments {
		n, used, slackest := 0, int64(0), int64(0)
		for ; at < len(blocks) && blocks[at].Addr < seg.Addr+uint64(seg.Size); at++ {
			n++
			if b := blocks[at]; b.State != trace.BlockFree {
				used++
				slackest = max(slackest, b.Size-cfg.RoundSize(b.Requested))
			}
		}
		if seg.Pool == trace.PoolDefault || seg.Pool == trace.PoolUnknown {
			continue
		}
		p := pools[seg.Pool]
		if p == nil {
			p = &seen{one: true}
			pools[seg.Pool] = p
		}
		p.one = p.one && n == 1
		p.slack = p.slack || slackest > config.SmallSize || seg.Small && slackest >= config.MinBlock
	}
	found := map[uint32]bool{}
	for id, p := range pools {
		if p.one && p.slack {
			found[uint32(id)] = true
		}
	}
	wholePages(dev, cfg, found)
	return found
}

// mostWatched is how many blocks of a pool are watched for room that the next one does not use.
const mostWatched = 64

// wholePages finds those of them whose memory is expandable: there a block takes whole pages, and the next one begins
// with the page behind it, although there was room.
func wholePages(dev *trace.Device, cfg *config.Config, found map[uint32]bool) {
	type used struct {
		addr   uint64
		left   int64 // of its last page
		stream trace.StreamID
		small  bool
	}
	type seen struct {
		within bool // a block begins or ends within a page
		live   map[trace.BlockID]used
		passed bool // a block begins with a page although another has left enough of its last one
	}
	pools := map[trace.PoolID]*seen{}
	segments, blocks := dev.Final.Segments, dev.Final.Blocks
	for _, seg := range segments {
		if seg.Expandable && seg.Pool != trace.PoolDefault && seg.Pool != trace.PoolUnknown && pools[seg.Pool] == nil {
			pools[seg.Pool] = &seen{live: map[trace.BlockID]used{}}
		}
	}
	if len(pools) == 0 {
		return
	}
	home := map[trace.BlockID]*seen{}
	of := func(addr uint64) (*trace.Segment, *seen) {
		i, _ := slices.BinarySearchFunc(segments, addr, func(s trace.Segment, a uint64) int { return cmp.Compare(s.Addr+uint64(s.Size), a+1) })
		if i == len(segments) || addr < segments[i].Addr || !segments[i].Expandable {
			return nil, nil
		}
		return &segments[i], pools[segments[i].Pool]
	}
	for _, b := range blocks {
		if _, p := of(b.Addr); p != nil && b.State != trace.BlockFree {
			p.within = p.within || b.Size%config.SmallSegment != 0
		}
	}
	for _, e := range dev.Events.All() {
		switch e.Op {
		case trace.OpAlloc:
			seg, p := of(e.Addr)
			if p == nil || p.within {
				continue
			}
			page, z := cfg.LargeSegmentSize, cfg.RoundSize(e.Size)
			small := z <= config.SmallSize
			if small {
				page = config.SmallSegment
			}
			p.within = int64(e.Addr-seg.Addr)%page != 0
			for _, u := range p.live {
				p.passed = p.passed || u.addr != e.Addr && u.left >= z && u.stream == e.Stream && u.small == small
			}
			if len(p.live) < mostWatched {
				p.live[e.Block] = used{e.Addr, page - 1 - (z-1)%page, e.Stream, small}
				home[e.Block] = p
			}
		case trace.OpFreeCompleted, trace.OpFree:
			if p := home[e.Block]; p != nil {
				delete(p.live, e.Block)
				delete(home, e.Block)
			}
		}
	}
	for id, p := range pools {
		if p.passed && !p.within {
			found[uint32(id)] = true
		}
	}
}
