package simulate

import (
	"github.com/vramscope/vramscope/allocators/caching"
	"github.com/vramscope/vramscope/trace"
)

// Releases that no request made: calls of empty_cache, and the deletion of MemPools. They leave nothing
// but the events of what they gave back.

// releases explains the burst of releases that comes next, as one or more such calls.
func (f *follower) releases() bool {
	found := false
	for f.releaseNext() && (f.attempt(f.emptied) || f.attempt(f.dropped)) {
		found = true
	}
	f.broken = false
	return found
}

// releaseNext says whether memory is given back next, after completions if there are any.
func (f *follower) releaseNext() bool {
	for i := f.i; i < f.end; i++ {
		switch f.event(i).Op {
		case trace.OpFreeCompleted:
		case trace.OpSegmentFree, trace.OpSegmentUnmap:
			return true
		default:
			return false
		}
	}
	return false
}

// emptied explains the burst as a flush of everything. The default pools come first; what follows them
// belongs to private pools whose owners are gone. That also tells pools that the file does not: a segment
// thought to be in the default pool that comes later, or not at all, is in a private one.
func (f *follower) emptied() bool {
	at := f.i
	f.completeRecorded()
	burst := f.burst()
	given := placesOf(burst)
	k := 0
	var missing []caching.Action
	for _, small := range []bool{false, true} {
		for _, x := range f.a.Plan(0, small) {
			if k < len(burst) && sameAction(x, burst[k]) {
				k++
			} else {
				missing = append(missing, x)
			}
		}
	}
	if k == 0 && len(missing) > 0 {
		return f.fail("memory given back", showAction(missing[0]), f.show(f.i))
	}
	if !f.relabel(missing, burst, given, k) {
		return false
	}
	asked := map[uint32]bool{}
	for _, e := range burst[k:] {
		if r := f.regions.at(e.Addr); r != nil && r.pool != 0 && !asked[r.pool] && !f.a.Retired(r.pool) {
			asked[r.pool] = true
			if f.goesWhole(r.pool, given, k) {
				f.retire(at, r.pool)
			}
		}
	}
	now := f.i
	f.i = at
	f.act(EmptyCache, 0)
	f.i = now
	f.a.EmptyCache()
	return !f.broken && f.i > at
}

func (f *follower) retire(at int, pool uint32) {
	now := f.i
	f.i = at
	f.act(RetirePool, pool)
	f.i = now
	f.a.Retire(pool)
}

// places finds releases in a burst.
type places map[caching.Action]int

func placesOf(burst []*trace.Event) places {
	p := make(places, len(burst))
	for i, e := range burst {
		kind := caching.SegmentFree
		if e.Op == trace.OpSegmentUnmap {
			kind = caching.SegmentUnmap
		}
		p[caching.Action{Kind: kind, Addr: e.Addr, Size: e.Size, Stream: uint32(e.Stream)}] = i
	}
	return p
}

// from says whether a release is in the burst, and where, from the k-th on.
func (p places) from(k int, x caching.Action) (int, bool) {
	i, ok := p[x]
	return i, ok && i >= k
}

// goesWhole says whether everything that a flush would take of a private pool is in the burst from the k-th on.
func (f *follower) goesWhole(pool uint32, given places, k int) bool {
	for _, small := range []bool{true, false} {
		for _, x := range f.a.Plan(pool, small) {
			if _, ok := given.from(k, x); !ok {
				return false
			}
		}
	}
	return true
}

// relabel moves segments out of the default pool that the burst shows to be private: those that come after
// the default pools' are their pool's last; those that do not come at all are still in use by their owner,
// which is only believed of segments older than the recording, whose taking was not seen. Only segments of
// which the file does not tell the pool can be moved.
func (f *follower) relabel(missing []caching.Action, burst []*trace.Event, given places, k int) bool {
	if len(missing) == 0 {
		return true
	}
	for _, x := range missing {
		_, in := given.from(k, x)
		if r := f.regions.at(x.Addr); r == nil || r.sure || r.expandable || !r.old && !in {
			return f.fail("memory given back", showAction(x), "not given back")
		}
	}
	kept := uint32(0)
	for _, x := range missing {
		if f.work += f.a.Len() + len(burst); f.work > f.patience() {
			return f.fail("memory given back", showAction(x), "not given back")
		}
		pool := kept
		at, in := given.from(k, x)
		if in {
			pool = f.poolBefore(burst[k:at])
		}
		if pool == 0 {
			pool = f.pools
			f.pools++
		}
		if !in {
			kept = pool
		}
		f.a.Relabel(x.Addr, pool)
		r := f.regions.at(x.Addr)
		r.pool, r.sure = pool, true
	}
	return true
}

func (f *follower) poolBefore(events []*trace.Event) uint32 {
	for i := len(events) - 1; i >= 0; i-- {
		if r := f.regions.at(events[i].Addr); r != nil && r.pool != 0 {
			return r.pool
		}
	}
	return 0
}

// dropped explains the burst as the deletion of a MemPool, which waits for its pending blocks and gives back its
// memory alone.
func (f *follower) dropped() bool {
	first := f.i
	for first < f.end && f.event(first).Op == trace.OpFreeCompleted {
		first++
	}
	if first == f.end || f.event(first).Op != trace.OpSegmentFree && f.event(first).Op != trace.OpSegmentUnmap {
		return false
	}
	r := f.regions.at(f.event(first).Addr)
	if r == nil || r.pool == 0 && !f.leaves(first) {
		return f.fail("memory given back", "nothing", f.show(first))
	}
	f.act(ReleasePool, r.pool)
	at := f.i
	f.a.ReleasePool(r.pool)
	return !f.broken && f.i > at
}

// leaves makes the segments of the burst that begins with an event a private pool's. That is only believed of
// segments older than the recording, whose taking was not seen.
func (f *follower) leaves(first int) bool {
	for i := f.i; i < first; i++ {
		f.complete(f.event(i))
	}
	pool := f.pools
	f.pools++
	for i := first; i < f.end && f.event(i).Op == trace.OpSegmentFree; i++ {
		r := f.regions.at(f.event(i).Addr)
		if r == nil || r.sure || r.expandable || r.pool != 0 || !r.old {
			return false
		}
		f.a.Relabel(r.addr, pool)
		f.work += f.a.Len()
		r.pool, r.sure = pool, true
	}
	return true
}

// burst lists the releases that come next without a break.
func (f *follower) burst() []*trace.Event {
	var out []*trace.Event
	for i := f.i; i < f.end; i++ {
		e := f.event(i)
		if e.Op != trace.OpSegmentFree && e.Op != trace.OpSegmentUnmap {
			break
		}
		out = append(out, e)
	}
	return out
}

// collectedNext says whether the recording goes on with just this pass of garbage collection.
func (f *follower) collectedNext(pass []caching.Action) bool {
	burst := f.burst()
	if len(pass) > len(burst) {
		return false
	}
	for i, x := range pass {
		if !sameAction(x, burst[i]) {
			return false
		}
	}
	return true
}

func sameAction(x caching.Action, e *trace.Event) bool {
	return opOf(x.Kind) == e.Op && x.Addr == e.Addr && x.Size == e.Size && x.Stream == uint32(e.Stream)
}

func opOf(k caching.ActionKind) trace.Op {
	switch k {
	case caching.SegmentAlloc:
		return trace.OpSegmentAlloc
	case caching.SegmentFree:
		return trace.OpSegmentFree
	case caching.SegmentMap:
		return trace.OpSegmentMap
	}
	return trace.OpSegmentUnmap
}

// loose explains events that no alloc or oom follows.
func (f *follower) loose(moved bool) {
	if !moved {
		f.completeRecorded()
		return
	}
	if f.attempt(func() bool {
		if f.releases() {
			f.completeRecorded()
		}
		return f.i == f.end || f.fail("memory given back or taken", "nothing", f.show(f.i))
	}) {
		f.why = Mismatch{}
		return
	}
	f.adoptGroup(f.end)
}
