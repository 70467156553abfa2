package sim

import (
	"cmp"
	"slices"
)

// follower is a driver that is led along a recording.
//
// A miss has one of these causes, tried in this order, and each is made to be the case by events:
//
//   - The place lies in a chunk and is not known to be free: the driver freed something there. The
//     context's large block is the usual case; with nothing of ours in its chunk, the chunk went back.
//   - The place begins in a hole and ends beyond the chunk: the chunk is larger than was thought.
//   - The place is in a gap where a chunk went back, at that chunk's low end or inside: a block of the
//     driver's pins the chunk, which never went back. It stands where the driver would have put one,
//     directly above the highest block of ours.
//   - The place is a chunk's in a gap, or where nothing is known: a gap opened, or is larger.
//   - The place is none where a chunk can start: a hole in a chunk that the trace has not shown before.
//
// Then everything that the rules would still prefer must have been taken by others.
type follower struct {
	*Driver
	base  uint64
	score Score

	first, earliest []Event
	pins            []pin
	known           int // pins known from the start

	dead []grave
	odd  map[uint64]span // allocations that could not be explained, kept outside the model
	past []placed

	unexplained int
}

// grave is a chunk that went back when nothing known was left in it, and that nothing has replaced.
type grave struct {
	span
	high uint64 // end of the highest block there had been
	made uint64 // its age
	op   int64  // when it went back
}

// pin is a block of the driver's that keeps a chunk: what was learned of it, at both times.
type pin struct{ first, earliest Event }

// placed is an allocation of the recording.
type placed struct {
	span
	op    int64
	fresh bool  // a new chunk was made for it
	until int64 // the operation that frees it, or never
}

const (
	never      = int64(1) << 62
	maxMisses  = 512  // after so many, half of the steps must match
	maxEvents  = 8192 // no more is followed then
	maxTakings = 256  // changes made for one miss
	lookBack   = 2048
	maxGraves  = 1024
	growth     = 512 * mib // by which a chunk turns out larger than the block that shows it, at most
)

func newFollower(held []Range, base uint64, pins []pin) *follower {
	c := Config{Base: base, Held: held}
	f := &follower{base: c.base(), odd: map[uint64]span{}, pins: slices.Clone(pins), known: len(pins)}
	for _, p := range pins {
		c.Events = append(c.Events, p.first)
		f.first = append(f.first, p.first)
		f.earliest = append(f.earliest, p.earliest)
	}
	f.Driver = New(c)
	return f
}

func (f *follower) run(steps []Step) {
	index := map[uint64]int{} // of live allocations in past
	for _, s := range steps {
		if len(f.first) > maxEvents || f.score.Checked-f.score.Matched > maxMisses && 2*f.score.Matched < f.score.Checked {
			return
		}
		f.Tick(s.Op)
		if !(Range{s.Addr, s.Size}).valid() || s.Addr%Granule != 0 {
			if s.Alloc {
				f.count(false)
			}
			continue
		}
		if !s.Alloc {
			if i, ok := index[s.Addr]; ok {
				f.past[i].until = s.Op
				delete(index, s.Addr)
			}
			f.free(s)
			continue
		}
		want := span{s.Addr, s.Addr + roundUp(uint64(s.Size), Granule)}
		r, ok := f.find(want.size())
		match := ok && r.addr == s.Addr
		f.count(match)
		if !match {
			r, ok = f.adopt(s.Op, want)
		}
		p := placed{span: want, op: s.Op, until: never}
		if ok {
			p.fresh = r.chunk == nil
			c := f.take(r, want.size())
			f.live[s.Addr] = block{s.Size, c}
			f.used += f.live[s.Addr].taken()
			f.dead = slices.DeleteFunc(f.dead, func(g grave) bool { return g.overlaps(c.span) })
		} else {
			f.takeRange(want)
			f.odd[s.Addr] = want
			f.unexplained++
		}
		index[s.Addr] = len(f.past)
		f.past = append(f.past, p)
	}
}

// cost says how badly the recording fits the base: misses, changes that it took to explain them, and
// above all what they could not explain.
func (f *follower) cost() int {
	return 8*(f.score.Checked-f.score.Matched) + len(f.first) + 40*f.unexplained
}

func (f *follower) count(match bool) {
	s := &f.score
	s.Checked++
	late := s.Checked > LateAfter
	if late {
		s.LateChecked++
	}
	if match {
		s.Matched++
		if late {
			s.LateMatched++
		}
	}
}

func (f *follower) free(s Step) {
	delete(f.odd, s.Addr)
	b, ok := f.live[s.Addr]
	if !ok {
		return
	}
	c := *b.chunk
	f.Free(s.Addr, b.size)
	if f.chunks.slots[c.slot] == nil && len(f.dead) < maxGraves {
		f.dead = append(f.dead, grave{span: c.span, high: c.high, made: c.made, op: s.Op})
	}
}

// adopt changes the state so that the rules put a block at a place, and says where they then do; ok is
// false if no change was found.
func (f *follower) adopt(op int64, want span) (r room, ok bool) {
	for _, o := range f.odd {
		if o.overlaps(want) {
			return r, false
		}
	}
	for addr, b := range f.live {
		if b.span(addr).overlaps(want) {
			return r, false
		}
	}
	cs := f.chunks.overlapping(want)
	if c := f.contextChunk(cs); c != nil {
		f.openedHole(op, c.span) // and so gives it back
		cs = nil
	}
	if len(cs) > 0 {
		if !f.adoptInChunk(op, want, cs) {
			return r, false
		}
	} else if !f.adoptPinned(op, want) {
		if want.start%ChunkUnit != 0 {
			f.openedHole(op, span{want.start, roundUp(want.end, ChunkUnit)})
		} else {
			f.openedGap(op, span{want.start - ChunkUnit, roundUp(want.end, ChunkUnit)})
		}
	}
	return f.takePreferred(op, want)
}

// contextChunk is the chunk of the context's large block, if it is the only one of those given and
// nothing of ours is in it.
func (f *follower) contextChunk(cs []*chunk) *chunk {
	if len(cs) != 1 || cs[0].start != f.base-layoutBelow || cs[0].end != f.base-64*mib {
		return nil
	}
	for _, b := range f.live {
		if b.chunk == cs[0] {
			return nil
		}
	}
	return cs[0]
}

// adoptInChunk opens a place that is in a chunk at least in part.
func (f *follower) adoptInChunk(op int64, want span, cs []*chunk) bool {
	c := slices.MinFunc(cs, func(a, b *chunk) int { return cmp.Compare(a.start, b.start) })
	if c.start > want.start {
		return false
	}
	if want.end > c.end {
		end := want.end + growth
		for _, o := range f.chunks.slots[:f.chunks.next] {
			if o != nil && o.start >= c.end {
				end = min(end, o.start)
			}
		}
		if g, ok := f.gaps.next(c.end); ok {
			end = min(end, g.start)
		}
		if end < want.end {
			return false
		}
		f.openedHole(op, span{want.start, end})
		return true
	}
	for _, h := range c.holes {
		if h.start <= want.start && want.end <= h.end {
			return true
		}
	}
	end := c.end
	for addr, b := range f.live {
		if b.chunk == c && addr >= want.end {
			end = min(end, addr)
		}
	}
	f.openedHole(op, span{want.start, end})
	return true
}

// adoptPinned brings back a chunk that the place was part of.
func (f *follower) adoptPinned(op int64, want span) bool {
	for i, g := range f.dead {
		at := span{g.high, g.high + Granule}
		inside := g.start == want.start || g.start < want.start && want.start%ChunkUnit != 0
		if !inside || want.end > at.start || at.end > g.end || f.refuted(g) {
			continue
		}
		f.dead = slices.Delete(f.dead, i, i+1)
		f.gaps.remove(g.span)
		c := f.chunks.restore(g.span, g.made)
		c.high = at.end
		for _, s := range subtract([]span{g.span}, at) {
			c.addHole(s)
		}
		f.chunks.update(c)
		f.record(Event{Op: g.op, Kind: TakeRange, Addr: at.start, Size: Granule}, f.freeSince(at))
		f.pins = append(f.pins, pin{f.first[len(f.first)-1], f.earliest[len(f.earliest)-1]})
		return true
	}
	return false
}

// refuted reports whether something was placed in a new chunk that the pinned chunk would have held.
func (f *follower) refuted(g grave) bool {
	for _, p := range slices.Backward(f.past[max(0, len(f.past)-lookBack):]) {
		if p.op < g.op {
			return false
		}
		if p.fresh && p.size() <= g.high-g.start {
			return true
		}
	}
	return false
}

// takePreferred takes what the rules would prefer to a place until they choose it.
func (f *follower) takePreferred(op int64, want span) (room, bool) {
	for range maxTakings {
		r, ok := f.find(want.size())
		if !ok {
			return r, false
		}
		if r.addr == want.start {
			return r, true
		}
		t := span{r.addr, r.addr + want.size()}
		if r.chunk != nil {
			if t.start < want.start && want.start < t.end {
				t.end = want.start
			}
		} else {
			if r.addr < want.start {
				return r, false
			}
			g, _ := f.gaps.holding(r.addr)
			t = g
			if g.start <= want.start {
				t.start = roundUp(want.end, ChunkUnit)
			} else if cut := roundUp(g.size()-r.fresh.size()-slack+1, ChunkUnit); cut <= ChunkUnit {
				// what slack leaves below a chunk is where small mappings of the process go
				t.end = g.start + cut
			}
			if t.size() == 0 || t.start >= t.end {
				return r, false
			}
		}
		f.taken(op, t)
	}
	return room{}, false
}

// The functions below make an event happen now and write it down, for now and for the earliest time at
// which it can have happened.

func (f *follower) openedGap(op int64, s span) {
	e := Event{Op: op, Kind: OpenGap, Addr: s.start, Size: int64(s.size())}
	f.apply(e)
	early := f.freeSince(s)
	for _, p := range slices.Backward(f.past[max(0, len(f.past)-lookBack):]) {
		if p.op < early {
			break
		}
		if p.fresh && p.start < s.start && roundUp(p.size(), ChunkUnit)+slack <= s.size() {
			early = p.op + 1
			break
		}
	}
	f.record(e, early)
}

func (f *follower) openedHole(op int64, s span) {
	e := Event{Op: op, Kind: OpenHole, Addr: s.start, Size: int64(s.size())}
	f.apply(e)
	early := f.freeSince(s)
	for _, p := range slices.Backward(f.past[max(0, len(f.past)-lookBack):]) {
		if p.op < early {
			break
		}
		if p.fresh && p.size() <= s.size() {
			early = p.op + 1
			break
		}
	}
	f.record(e, early)
}

func (f *follower) taken(op int64, s span) {
	e := Event{Op: op, Kind: TakeRange, Addr: s.start, Size: int64(s.size())}
	f.apply(e)
	early := f.freeSince(s)
	for _, o := range f.earliest {
		if o.Kind != TakeRange && s.overlaps(span{o.Addr, o.Addr + uint64(o.Size)}) {
			early = max(early, o.Op) // not before it was there
		}
	}
	f.record(e, early)
}

func (f *follower) record(e Event, early int64) {
	if n := len(f.first) - 1; n >= f.known && e.Kind == TakeRange {
		last := &f.first[n]
		if last.Kind == TakeRange && last.Op == e.Op && last.Addr+uint64(last.Size) == e.Addr {
			last.Size += e.Size
			f.earliest[n].Size += e.Size
			f.earliest[n].Op = max(f.earliest[n].Op, min(early, e.Op))
			return
		}
	}
	f.first = append(f.first, e)
	e.Op = min(early, e.Op)
	f.earliest = append(f.earliest, e)
}

// freeSince is the first operation after the last block of ours in a range was freed.
func (f *follower) freeSince(s span) int64 {
	op := int64(0)
	for _, p := range f.past[max(0, len(f.past)-lookBack):] {
		if p.overlaps(s) && p.until != never {
			op = max(op, p.until+1)
		}
	}
	return op
}
