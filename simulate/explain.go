package simulate

import (
	"fmt"

	"github.com/vramscope/vramscope/allocators"
	"github.com/vramscope/vramscope/allocators/caching"
	"github.com/vramscope/vramscope/allocators/caching/config"
	"github.com/vramscope/vramscope/trace"
)

// explanation is one way to explain a group that ends in an alloc or an oom.
type explanation struct {
	emptied bool // the program called empty_cache (or dropped a MemPool) before the request
	late    bool // the completions belong to the flush of this request, not to its beginning
	toggled bool // expandable_segments was switched before the request
	choice  int  // which of the possible pools
}

// explain finds what the group that ends with event t means.
func (f *follower) explain(t int) {
	f.exchange(t)
	e := f.event(t)
	reserved := f.reserved()
	for _, x := range f.explanations(t) {
		if f.attempt(func() bool { return f.try(x, t) }) {
			f.accept(e, reserved, x)
			f.i = t + 1
			return
		}
		if f.work <= f.patience() && f.repair(e) {
			f.explain(t)
			return
		}
	}
	f.adoptGroup(t)
}

func (f *follower) reserved() int64 { return f.a.Reserved() }

// explanations lists them, the likeliest first. A burst of releases before new memory is a flush by
// the request itself if it was refused, and a call of empty_cache if it was not. Where nothing tells,
// both look the same.
func (f *follower) explanations(t int) []explanation {
	var released, completed bool
	for i := f.i; i < t; i++ {
		switch f.event(i).Op {
		case trace.OpSegmentFree, trace.OpSegmentUnmap:
			released = true
		case trace.OpFreeCompleted:
			completed = true
		}
	}
	orders := []bool{false}
	if released {
		z := f.cfg.RoundSize(f.event(t).Size)
		own := f.bounds.judge(f.reserved(), f.cfg.SegmentSize(z)) != notRefused ||
			f.cfg.GCThreshold > 0 || f.bounds.Limit >= 0
		orders = []bool{!own, own}
	}
	var out []explanation
	add := func(x explanation) {
		for x.choice = 0; x.choice < maxPools; x.choice++ {
			out = append(out, x)
		}
	}
	for _, toggled := range []bool{false, true} {
		if toggled && !f.mixed {
			break
		}
		for _, emptied := range orders {
			add(explanation{emptied: emptied, toggled: toggled})
		}
		if released && completed {
			add(explanation{late: true, toggled: toggled})
		}
	}
	return out
}

// try runs an explanation on the model. It is right if the model did what the group shows, no more, no
// less, and in the same order.
func (f *follower) try(x explanation, t int) bool {
	e := f.event(t)
	if x.toggled {
		f.toggle()
	}
	if x.emptied && !f.releases() {
		return false
	}
	if !x.late {
		f.completeRecorded()
	}
	where, ok := f.askedOf(e, t, x.choice)
	if !ok {
		return false
	}
	page := f.a.PageOf(where.small)
	where.pages = (f.cfg.RoundSize(e.Size) + page - 1) / page * page
	f.asking = where
	r := request(e, where.pool)
	if e.Op == trace.OpOOM {
		r.Block = uint32(f.dev.NumBlocks)
	}
	err := f.a.MallocIn(r, where.small)
	if f.broken {
		return false
	}
	if f.i != t {
		return f.fail("memory given back or taken", "no more", f.show(f.i))
	}
	if e.Op == trace.OpOOM {
		return err != nil || f.fail("out of memory", "served", "refused")
	}
	if err != nil {
		return f.fail("out of memory", "refused", "served")
	}
	addr, size, _ := f.a.Block(r.Block)
	if told := f.told(e.Block); f.mixed && told > 0 && told != size {
		return f.fail("size of a block", fmt.Sprint(size, " bytes"), fmt.Sprint(told, " bytes"))
	}
	return addr == e.Addr || f.fail("place of a block", hex(addr), hex(e.Addr))
}

func hex(addr uint64) string { return fmt.Sprintf("%#x", addr) }

// fail marks the running attempt as wrong. The first reason of a group is kept for the report.
func (f *follower) fail(what, expected, got string) bool {
	if !f.broken {
		f.broken = true
		if f.why.What == "" {
			f.why = Mismatch{Event: f.i, What: what, Expected: expected, Got: got}
		}
	}
	return false
}

func (f *follower) show(i int) string {
	e := f.event(i)
	switch e.Op {
	case trace.OpAlloc:
		return fmt.Sprintf("alloc of %d bytes at %#x", e.Size, e.Addr)
	case trace.OpOOM:
		return fmt.Sprintf("oom for %d bytes", e.Size)
	}
	return fmt.Sprintf("%v of %d bytes at %#x", e.Op, e.Size, e.Addr)
}

// accept counts an explained group.
func (f *follower) accept(e *trace.Event, reserved int64, x explanation) {
	f.why = Mismatch{}
	if e.Op == trace.OpOOM {
		f.out.Score.OOMs.count(true)
		setAt(&f.previous, e.Stream, f.asking.pool)
		f.failed(f.i, f.asking.pool)
	} else {
		f.out.Score.Placements.count(true)
		if r := f.regions.at(e.Addr); r != nil {
			f.placed(e, r)
		}
	}
	tried := f.cfg.SegmentSize(f.cfg.RoundSize(e.Size))
	f.proven(e, tried)
	if f.bounds.Limit < 0 && f.bounds.Capacity == 0 {
		if x.emptied && reserved+tried > f.bounds.Low && reserved+tried < f.bounds.High {
			f.doubtful = true
		}
	}
	if f.bounds.Limit < 0 && f.bounds.Capacity == 0 && !x.emptied && f.a.Detail().NumAllocRetries > f.retries {
		f.assume("no limit is known: memory is taken to have been refused where the recording shows a flush or a failure")
		f.doubtful = f.doubtful || reserved+tried < f.bounds.High
		f.bounds.High = min(f.bounds.High, reserved+tried)
	}
	f.retries = f.a.Detail().NumAllocRetries
}

// proven raises what a limit was at least: a request that took new memory passed the test of the limit with
// its whole size, counted on what was held before.
func (f *follower) proven(e *trace.Event, tried int64) {
	if e.Op != trace.OpAlloc {
		return
	}
	var taken int64
	for i := f.i - 1; i >= 0; i-- {
		n := f.event(i)
		if n.Op != trace.OpSegmentAlloc && n.Op != trace.OpSegmentMap {
			break
		}
		taken += n.Size
	}
	if taken > 0 {
		f.bounds.Low = max(f.bounds.Low, f.reserved()-taken+tried)
	}
}

// failed notes a request that ran out of memory.
func (f *follower) failed(event int, pool uint32) {
	r := f.out.Requests
	r.Failed = append(r.Failed, event)
	if pool != 0 {
		if r.FailedPools == nil {
			r.FailedPools = map[int]uint32{}
		}
		r.FailedPools[event] = pool
	}
}

func (f *follower) toggle() {
	on := !f.a.Config().Expandable
	f.a.SetExpandable(on)
	f.cfg.Expandable = on
	kind := ExpandableOff
	if on {
		kind = ExpandableOn
	}
	f.act(kind, 0)
}

type saved struct {
	state
	i          int
	expandable bool
	cost       int
}

// attempt runs an explanation, and undoes all of it if it does not hold. What was in vain counts as work, and
// a little of what was not, so that no recording can make copying endless.
func (f *follower) attempt(holds func() bool) bool {
	s := f.save()
	f.broken = false
	if holds() && !f.broken {
		f.spare = s.a
		f.work += s.cost / 16
		return true
	}
	f.work += s.cost
	f.restore(s)
	return false
}

func (f *follower) save() saved {
	s := saved{state: f.state, i: f.i, expandable: f.cfg.Expandable}
	s.a = f.spare
	f.spare = nil
	if s.a == nil {
		s.a = new(caching.Allocator)
	}
	f.a.CopyTo(s.a)
	s.regions = f.regions.clone()
	s.newest = append([]uint32(nil), f.newest...)
	s.previous = append([]uint32(nil), f.previous...)
	s.assumed = make(map[uint64]slack, len(f.assumed))
	for k, v := range f.assumed {
		s.assumed[k] = v
	}
	// A block is the unit, of some nanoseconds. The model also has tables by block number, pool and stream.
	s.cost = 300 + f.a.Len() + len(f.regions.list) + 10*len(f.assumed) + f.seen/16 + int(f.pools)*(2+len(f.previous))/2
	return s
}

func (f *follower) restore(s saved) {
	f.spare = f.a
	f.state, f.i, f.cfg.Expandable = s.state, s.i, s.expandable
	f.broken = false
}

// asked is what a request is taken to have been asked of.
type asked struct {
	pool  uint32
	small bool
	sure  bool
	pages int64 // bytes of the whole pages that it takes in a new reservation
}

const maxPools = 4

// askedOf says which pool served a request. The address tells, if it lies in memory that was there before.
// A new segment tells if the file names its pool. Otherwise it is inferred from what the pools could have
// served: nobody takes new memory while the own pool has room.
func (f *follower) askedOf(e *trace.Event, t, choice int) (asked, bool) {
	z := f.cfg.RoundSize(e.Size)
	small := z <= config.SmallSize
	if e.Op == trace.OpAlloc {
		// What lies there goes, if the request gives it back and takes a segment at the same place.
		if r := f.regions.at(e.Addr); r != nil && !f.takenAnew(e.Addr, t) {
			return asked{pool: r.pool, small: r.small, sure: r.sure}, choice == 0
		}
	}
	for i := t - 1; i >= f.i; i-- {
		if n := f.event(i); n.Op == trace.OpSegmentAlloc || n.Op == trace.OpSegmentMap {
			if n.Pool != trace.PoolUnknown {
				return asked{pool: uint32(n.Pool), small: small, sure: true}, choice == 0
			}
			break
		}
	}
	if e.Pool != trace.PoolUnknown {
		return asked{pool: uint32(e.Pool), small: small, sure: true}, choice == 0
	}
	list := f.likelyPools(e, z, small)
	if choice >= len(list) {
		return asked{}, false
	}
	p := list[choice]
	if p == f.pools {
		f.pools++
		f.assume("some memory belongs to a private pool (a CUDA graph's or a MemPool's) that the file does not name")
	}
	return asked{pool: p, small: small}, true
}

// likelyPools orders the pools that may have asked for new memory on a stream: the default one, the private
// one that took memory there last, and one that is new (its number is then f.pools).
func (f *follower) likelyPools(e *trace.Event, z int64, small bool) []uint32 {
	stream := uint32(e.Stream)
	private := getAt(f.newest, e.Stream)
	if private != 0 && !f.regions.has(private) {
		private = 0
	}
	room := func(pool uint32) bool {
		if _, _, ok := f.a.Fit(pool, stream, small, z); ok {
			return true
		}
		if f.cfg.Expandable {
			_, _, ok := f.a.Run(pool, stream, small, z)
			return ok
		}
		return false
	}
	inDefault, inPrivate := room(0), private != 0 && room(private)
	switch {
	case e.Op == trace.OpOOM:
		return unique(0, getAt(f.previous, e.Stream), private, f.pools)
	case inDefault && (private == 0 || inPrivate):
		return unique(f.pools, 0)
	case inDefault:
		return unique(private, f.pools, 0)
	case inPrivate || private == 0:
		return unique(0, f.pools)
	case getAt(f.previous, e.Stream) == private:
		return unique(private, 0, f.pools)
	}
	return unique(0, private, f.pools)
}

// exchange corrects what was taken for the default pool's. If the file says that the default pool takes new memory,
// it had no room: segments that have some, and of which the file does not tell, belong to a private pool.
func (f *follower) exchange(t int) {
	e := f.event(t)
	if e.Op != trace.OpAlloc || !f.takenAnew(e.Addr, t) || f.regions.at(e.Addr) != nil {
		return
	}
	for i := t - 1; i >= f.i; i-- {
		if n := f.event(i); n.Op == trace.OpSegmentAlloc && n.Addr == e.Addr && n.Pool != trace.PoolDefault {
			return
		}
	}
	z := f.cfg.RoundSize(e.Size)
	for {
		addr, _, ok := f.a.Fit(0, uint32(e.Stream), z <= config.SmallSize, z)
		r := f.regions.at(addr)
		if !ok || r == nil || r.pool != 0 || r.sure || r.expandable {
			return
		}
		if f.exchanged == 0 {
			f.exchanged = f.pools
			f.pools++
			f.assume("memory that seemed the default pool's turned out to be a private pool's")
		}
		f.work += f.a.Len()
		for _, b := range f.a.Repool(r.addr, r.size, f.exchanged) {
			f.setPool(trace.BlockID(b), f.exchanged)
		}
		r.pool, r.sure = f.exchanged, true
	}
}

// takenAnew says whether the group takes the segment that begins at an address.
func (f *follower) takenAnew(addr uint64, t int) bool {
	for i := t - 1; i >= f.i; i-- {
		if n := f.event(i); n.Op == trace.OpSegmentAlloc && n.Addr == addr {
			return true
		}
	}
	return false
}

func unique(ids ...uint32) []uint32 {
	var out []uint32
next:
	for _, id := range ids {
		for _, o := range out {
			if o == id {
				continue next
			}
		}
		out = append(out, id)
	}
	return out
}

// repair corrects the assumed end of a block older than the recording. If the best fit is the free block
// right behind it, and the recording went elsewhere, that free block must have been too small: the older
// block was longer.
func (f *follower) repair(e *trace.Event) bool {
	if len(f.assumed) == 0 || e.Op != trace.OpAlloc {
		return false
	}
	pool, small := uint32(0), f.cfg.RoundSize(e.Size) <= config.SmallSize
	if r := f.regions.at(e.Addr); r != nil {
		pool, small = r.pool, r.small
	}
	z := f.cfg.RoundSize(e.Size)
	addr, size, ok := f.a.Fit(pool, uint32(e.Stream), small, z)
	if !ok || addr == e.Addr {
		return false
	}
	s, ok := f.assumed[addr]
	more, before := size-z+config.MinBlock, f.a.Allocated()
	if !ok || s.extra+more > config.SmallSize || size-more <= config.SmallSize || !f.a.Extend(s.number, more) {
		return false
	}
	delete(f.assumed, addr)
	s.extra += more
	f.assumed[addr+uint64(more)] = s
	f.out.Sizes[s.number] += more
	f.now.Allocated += f.a.Allocated() - before // nothing, if the block is only pending
	for i := range f.out.Requests.Initial {
		if b := &f.out.Requests.Initial[i]; uint32(b.ID) == s.number {
			b.Size += more
		}
	}
	f.out.Score.Repairs++
	return true
}

var _ allocators.Driver = (*recordedDriver)(nil)
