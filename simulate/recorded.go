package simulate

import (
	"fmt"

	"github.com/vramscope/vramscope/allocators"
	"github.com/vramscope/vramscope/allocators/caching"
	"github.com/vramscope/vramscope/trace"
)

// recordedDriver answers the model as the device answered the recording: with the addresses of the events
// that come next, and with a refusal where they show one.
type recordedDriver follower

// next is the event that comes next in the group, or nil.
func (d *recordedDriver) next() *trace.Event {
	if d.i < d.end {
		return d.dev.Events.At(d.i)
	}
	return nil
}

// grants says whether the device can give so many bytes more, as far as its capacity is known.
func (d *recordedDriver) grants(size int64) bool {
	return d.bounds.Capacity == 0 || (*follower)(d).reserved()+size <= d.bounds.Capacity
}

func (d *recordedDriver) Alloc(size int64) (uint64, error) {
	f := (*follower)(d)
	if !d.grants(size) {
		return 0, allocators.ErrNoMemory
	}
	e := d.next()
	if e != nil && e.Op == trace.OpSegmentAlloc {
		if e.Size != size {
			f.fail("size of a segment", fmt.Sprint(size, " bytes"), fmt.Sprint(e.Size, " bytes"))
			return 0, allocators.ErrNoMemory
		}
		if !f.vacant(e.Addr, size) {
			f.fail("place of a segment", "memory that is not in use", f.show(f.i))
			return 0, allocators.ErrNoMemory
		}
		return e.Addr, nil
	}
	return 0, f.refusedHere("a segment of", size)
}

// refusedHere is the answer where the recording does not go on with what was asked. If a limit or the
// capacity is known the model has already taken refusals into account, and this one contradicts it.
func (f *follower) refusedHere(what string, size int64) error {
	if f.bounds.Limit >= 0 || f.bounds.Capacity > 0 || f.servedNext() {
		got := "nothing"
		if f.i < f.dev.Events.Len() {
			got = f.show(f.i)
		}
		f.fail("need for new memory", fmt.Sprint(what, " ", size, " bytes"), got)
	}
	return allocators.ErrNoMemory
}

// servedNext says whether the recording goes on with memory being taken or handed out.
func (f *follower) servedNext() bool {
	if f.i >= f.dev.Events.Len() {
		return false
	}
	switch f.event(f.i).Op {
	case trace.OpSegmentAlloc, trace.OpSegmentMap, trace.OpAlloc:
		return true
	}
	return false
}

func (d *recordedDriver) Free(uint64, int64) {}

func (d *recordedDriver) Reserve(size int64) (uint64, error) {
	f := (*follower)(d)
	e := d.next()
	if e == nil || e.Op != trace.OpSegmentMap || f.regions.at(e.Addr) != nil {
		if !d.grants(f.asking.pages) {
			return 0, allocators.ErrNoMemory // address space there is, but no pages to put behind it
		}
		return 0, f.refusedHere("address space of", size)
	}
	span := f.spanFrom(e.Addr, size, 0)
	if f.holds(e.Addr, e.Addr+uint64(span)) {
		f.fail("place of an expandable segment", "address space that is not in use", f.show(f.i))
		return 0, allocators.ErrNoMemory
	}
	f.regions.addSpace(region{addr: e.Addr, size: span, pool: f.asking.pool, stream: uint32(e.Stream), small: f.asking.small, expandable: true, sure: f.asking.sure})
	f.newSegment(e)
	return e.Addr, nil
}

func (f *follower) newSegment(e *trace.Event) {
	if f.asking.pool != 0 {
		setAt(&f.newest, e.Stream, f.asking.pool)
	}
}

func (d *recordedDriver) Release(addr uint64, size int64) { d.regions.removeSpace(addr, size) }

func (d *recordedDriver) Map(addr uint64, size int64) error {
	f := (*follower)(d)
	if f.adopting {
		return nil
	}
	if !d.grants(size) {
		return allocators.ErrNoMemory
	}
	if e := d.next(); e != nil && e.Op == trace.OpSegmentMap {
		r := f.regions.at(addr)
		if e.Addr != addr || e.Size != size || r == nil || !r.expandable || r.end() < addr+uint64(size) || f.tangled && f.holds(addr, addr+uint64(size)) {
			f.fail("pages mapped", fmt.Sprintf("%d bytes at %#x", size, addr), f.show(f.i))
			return allocators.ErrNoMemory
		}
		return nil
	}
	return f.refusedHere("pages for", size)
}

func (d *recordedDriver) Unmap(uint64, int64) {}

func (d *recordedDriver) Memory() (free, total int64) { return 0, d.bounds.Capacity }

// acted compares an exchange of the model with the event that comes next.
func (f *follower) acted(x caching.Action) {
	if f.adopting || f.broken {
		return
	}
	if f.i >= f.end || !sameAction(x, f.event(f.i)) {
		got := "nothing"
		if f.i < f.dev.Events.Len() {
			got = f.show(f.i)
		}
		f.fail("memory given back or taken", showAction(x), got)
		return
	}
	e := f.event(f.i)
	switch x.Kind {
	case caching.SegmentAlloc:
		f.regions.add(region{addr: x.Addr, size: x.Size, pool: f.asking.pool, stream: x.Stream, small: f.asking.small, sure: f.asking.sure})
		f.newSegment(e)
	case caching.SegmentFree:
		f.regions.remove(x.Addr)
	}
	f.segments.count(true)
	f.i++
}

func showAction(x caching.Action) string {
	return fmt.Sprintf("%v of %d bytes at %#x", opOf(x.Kind), x.Size, x.Addr)
}

// adoptGroup takes a group that the model cannot explain as it is, and counts what it got wrong. The first
// group of a recording that begins in the middle of a run may be the rest of one, and is not counted.
func (f *follower) adoptGroup(t int) {
	s := &f.out.Score
	scored := !(f.out.Truncated && s.Placements.Checked == 0 && s.OOMs.Checked == 0)
	f.why.Event = f.i
	if scored && f.why.What != "" {
		f.mismatch(f.why)
	}
	f.why = Mismatch{}
	f.adopting = true
	defer func() { f.adopting = false }()
	last := t
	if t < f.dev.Events.Len() {
		if op := f.event(t).Op; op == trace.OpAlloc || op == trace.OpOOM {
			last = t + 1
		}
	}
	for ; f.i < last; f.i++ {
		if f.work > f.patience() || len(f.regions.list) > mostRegions {
			f.i = last
			return
		}
		e := f.event(f.i)
		if !scored {
			s.Unscored++
		}
		f.work += f.a.Len()
		f.adoptEvent(e, scored, t)
	}
}

func (f *follower) adoptEvent(e *trace.Event, scored bool, t int) {
	small := e.Size == f.a.PageOf(true)
	pool := uint32(0)
	if e.Pool != trace.PoolUnknown {
		pool = uint32(e.Pool)
	}
	if t < f.dev.Events.Len() && f.event(t).Op == trace.OpAlloc {
		small = f.cfg.RoundSize(f.event(t).Size) <= f.a.SmallSize()
	}
	s := &f.out.Score
	if e.Op.IsSegment() && e.Size == 0 {
		return
	}
	switch e.Op {
	case trace.OpFreeCompleted:
		f.complete(e)
		return
	case trace.OpSegmentAlloc:
		f.vacate(e.Addr, e.Size)
		f.a.AdoptMalloc(pool, uint32(e.Stream), small, e.Addr, e.Size)
		f.regions.add(region{addr: e.Addr, size: e.Size, pool: pool, stream: uint32(e.Stream), small: small})
	case trace.OpSegmentFree:
		if !f.a.Forget(e.Addr) {
			f.vacate(e.Addr, e.Size)
		}
		f.regions.remove(e.Addr)
	case trace.OpSegmentMap:
		f.adoptPages(e, pool, small)
	case trace.OpSegmentUnmap:
		if !f.a.AdoptUnmap(e.Addr, e.Size) {
			f.vacate(e.Addr, e.Size)
		}
	case trace.OpAlloc:
		f.adoptBlock(e)
		if scored {
			s.Placements.count(false)
		}
		return
	case trace.OpOOM:
		f.failed(f.i, pool)
		if scored {
			s.OOMs.count(false)
		}
		return
	}
	if scored {
		f.segments.count(false)
	}
}

// adoptBlock puts a block where the recording has it. What is in its way must have been freed without a
// word; where there is no memory, a segment is made for it.
func (f *follower) adoptBlock(e *trace.Event) {
	z := f.cfg.RoundSize(e.Size)
	small := z <= f.a.SmallSize()
	if f.regions.at(e.Addr) == nil {
		f.assume("blocks lie in memory of which the recording has no segment")
		f.vacate(e.Addr, z)
		size := max(z, min(f.cfg.SegmentSize(z), f.room(e.Addr)))
		f.a.AdoptMalloc(0, uint32(e.Stream), small, e.Addr, size)
		f.regions.add(region{addr: e.Addr, size: size, stream: uint32(e.Stream), small: small})
	}
	block := caching.Adopted{Number: uint32(e.Block), Addr: e.Addr, Size: z, Requested: e.Size}
	for range 2 {
		if f.a.Adopt(block) {
			if r := f.regions.at(e.Addr); r != nil {
				f.placed(e, r)
			}
			return
		}
		f.work += 2 * f.a.Len()
		if !f.a.Evict(e.Addr) {
			return
		}
	}
}
