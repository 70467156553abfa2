package trace

import (
	"cmp"
	"slices"
)

// Rewind works out which segments a device had before the first event, from those that it had at the end
// and the events that brought and took them, and fills Initial.Segments. Segment events whose memory is
// still held at the end get the pool that the final state names.
//
// The first event that touches a range tells what it was before: memory that is freed or unmapped first
// was there, memory that is allocated or mapped first was not; what no event touches was as it is at the
// end. A segment is an incarnation, from its alloc to its free: the same address may hold several.
func Rewind(d *Device) {
	bound(d)
	r := rewind{d: d}
	var mapped bool
	for i, e := range d.Events.All() {
		switch e.Op {
		case OpSegmentAlloc, OpSegmentFree:
			r.classic = append(r.classic, i)
		case OpSegmentMap, OpSegmentUnmap:
			r.pages = append(r.pages, i)
		}
	}
	r.whole()
	for i := range d.Final.Segments {
		mapped = mapped || d.Final.Segments[i].Expandable
	}
	if mapped || len(r.pages) > 0 {
		r.expandable()
	}
	slices.SortFunc(d.Initial.Segments, func(x, y Segment) int { return cmp.Compare(x.Addr, y.Addr) })
	r.overlaps()
	r.homeless()
	r.warn()
}

type rewind struct {
	d       *Device
	classic []int // segment_alloc and segment_free
	pages   []int // segment_map and segment_unmap

	twice, unfreed, unborn, lost, overlap, outside fault
}

// whole handles segments of cudaMalloc, which come and go in one piece.
func (r *rewind) whole() {
	type incarnation struct {
		born int // event, -1 if it was there before
		held bool
	}
	d := r.d
	now := map[uint64]incarnation{}
	for _, i := range r.classic {
		e := d.Events.At(i)
		s, known := now[e.Addr]
		if e.Op == OpSegmentAlloc {
			if known && s.held {
				r.unfreed.add(i)
			}
			now[e.Addr] = incarnation{i, true}
			continue
		}
		switch {
		case !known:
			d.Initial.Segments = append(d.Initial.Segments, Segment{
				Addr: e.Addr, Size: e.Size, Stream: e.Stream, Pool: e.Pool})
		case !s.held:
			r.twice.add(i)
		}
		now[e.Addr] = incarnation{-1, false}
	}
	held := 0
	for i := range d.Final.Segments {
		f := &d.Final.Segments[i]
		if f.Expandable {
			continue
		}
		s, known := now[f.Addr]
		switch {
		case !known:
			d.Initial.Segments = append(d.Initial.Segments, *f)
		case s.held:
			held++
			if e := d.Events.At(s.born); e.Pool == PoolUnknown {
				e.Pool = f.Pool
			}
		default:
			r.unborn.add(-1)
		}
	}
	if d.HasFinal {
		for _, s := range now {
			if s.held {
				held--
			}
		}
		if held < 0 {
			r.lost = fault{-held, -1}
		}
	}
}

// expandable handles ranges of expandable segments. The address space is cut at every edge of an event
// or final segment; each piece is painted once by the first and once by the last event that covers it.
func (r *rewind) expandable() {
	d := r.d
	var edges []uint64
	for _, i := range r.pages {
		e := d.Events.At(i)
		edges = append(edges, e.Addr, e.Addr+uint64(e.Size))
	}
	for i := range d.Final.Segments {
		if s := &d.Final.Segments[i]; s.Expandable {
			edges = append(edges, s.Addr, s.Addr+uint64(s.Size))
		}
	}
	slices.Sort(edges)
	edges = slices.Compact(edges)
	if len(edges) < 2 {
		return
	}
	at := func(a uint64) int {
		i, _ := slices.BinarySearch(edges, a)
		return i
	}
	span := func(i int) (int, int) {
		e := d.Events.At(i)
		return at(e.Addr), at(e.Addr + uint64(e.Size))
	}
	first, last := newPaint(len(edges)-1), newPaint(len(edges)-1)
	for k, i := range r.pages {
		from, to := span(i)
		first.paint(from, to, i)
		j := r.pages[len(r.pages)-1-k]
		from, to = span(j)
		last.paint(from, to, j)
	}
	owner := newPaint(len(edges) - 1)
	for i := range d.Final.Segments {
		if s := &d.Final.Segments[i]; s.Expandable {
			owner.paint(at(s.Addr), at(s.Addr+uint64(s.Size)), i)
		}
	}
	final := make([]*Segment, len(edges)-1)
	for k, i := range owner.by {
		if i >= 0 {
			final[k] = &d.Final.Segments[i]
		}
	}
	for k := range final {
		size := int64(edges[k+1] - edges[k])
		if i := last.by[k]; i >= 0 && d.HasFinal {
			e := d.Events.At(i)
			switch {
			case e.Op == OpSegmentMap && final[k] != nil:
				if e.Pool == PoolUnknown {
					e.Pool = final[k].Pool
				}
			case e.Op == OpSegmentMap:
				r.lost.add(i)
			case final[k] != nil:
				r.unborn.add(-1)
			}
		}
		switch i := first.by[k]; {
		case i < 0 && final[k] != nil:
			s := *final[k]
			s.Addr, s.Size = edges[k], size
			r.mapped(s)
		case i >= 0 && d.Events.At(i).Op == OpSegmentUnmap:
			e := d.Events.At(i)
			r.mapped(Segment{Addr: edges[k], Size: size, Stream: e.Stream, Pool: e.Pool, Expandable: true})
		}
	}
}

// mapped adds a range that was mapped before the first event, to the range in front of it if they touch.
func (r *rewind) mapped(s Segment) {
	if n := len(r.d.Initial.Segments); n > 0 {
		p := &r.d.Initial.Segments[n-1]
		if p.Expandable && p.Addr+uint64(p.Size) == s.Addr && p.Stream == s.Stream &&
			(p.Pool == s.Pool || p.Pool == PoolUnknown || s.Pool == PoolUnknown) &&
			(p.Small == s.Small || !p.KindKnown || !s.KindKnown) {
			p.Size += s.Size
			if p.Pool == PoolUnknown {
				p.Pool = s.Pool
			}
			if !p.KindKnown {
				p.Small, p.KindKnown = s.Small, s.KindKnown
			}
			if p.Stack == NoStack {
				p.Stack = s.Stack
			}
			return
		}
	}
	r.d.Initial.Segments = append(r.d.Initial.Segments, s)
}

// overlaps drops segments that cannot have been there together with the one in front of them.
func (r *rewind) overlaps() {
	segs := r.d.Initial.Segments
	out := segs[:0]
	var end uint64
	for _, s := range segs {
		if len(out) > 0 && s.Addr < end {
			r.overlap.add(-1)
			continue
		}
		out = append(out, s)
		end = s.Addr + uint64(s.Size)
	}
	r.d.Initial.Segments = out
}

// maxWork bounds what keeping the segments in order may cost: hostile files, not real ones, reach it.
const maxWork = 1 << 27

// homeless counts blocks that are allocated where no segment is held: a recording without its segment
// events, or one that was put together by hand.
func (r *rewind) homeless() {
	if !r.d.HasFinal {
		return
	}
	var held spans
	for _, s := range r.d.Initial.Segments {
		held.add(s.Addr, s.Addr+uint64(s.Size))
	}
	for i, e := range r.d.Events.All() {
		switch e.Op {
		case OpAlloc:
			if !held.holds(e.Addr) {
				r.outside.add(i)
			}
		case OpSegmentAlloc, OpSegmentMap:
			held.add(e.Addr, e.Addr+uint64(e.Size))
		case OpSegmentFree, OpSegmentUnmap:
			held.remove(e.Addr, e.Addr+uint64(e.Size))
		}
		if held.work > maxWork {
			return
		}
	}
}

func (r *rewind) warn() {
	for _, w := range []struct {
		fault
		code, message string
	}{
		{r.unfreed, "segment-alloc-at-live-address", "segments were allocated where one was held already"},
		{r.twice, "segment-free-twice", "segments were freed that were not held"},
		{r.unborn, "segment-without-alloc", "segments are in the final state that were freed before"},
		{r.lost, "segment-not-in-final", "segments held after the last event are not in the final state"},
		{r.overlap, "segments-overlap", "segments overlap in the state before the first event: segment events are missing"},
		{r.outside, "alloc-outside-segments", "blocks were allocated where no segment was held: segment events are missing"},
	} {
		if w.n > 0 {
			r.d.Warnings = append(r.d.Warnings, Warning{Code: w.code, Message: w.message, Count: w.n, First: w.first})
		}
	}
}

// paint covers a row of pieces, each with the first colour that it gets.
type paint struct {
	by   []int // colour, -1 for none
	next []int // a piece at or after this one that may be bare; compressed as it is followed
}

func newPaint(n int) paint {
	p := paint{by: make([]int, n), next: make([]int, n+1)}
	for i := range p.next {
		p.next[i] = i
	}
	for i := range p.by {
		p.by[i] = -1
	}
	return p
}

func (p *paint) bare(i int) int {
	for p.next[i] != i {
		p.next[i] = p.next[p.next[i]]
		i = p.next[i]
	}
	return i
}

func (p *paint) paint(from, to, colour int) {
	for i := p.bare(from); i < to; i = p.bare(i) {
		p.by[i] = colour
		p.next[i] = i + 1
	}
}
