package simulate

import (
	"fmt"
	"slices"

	"github.com/vramscope/vramscope/allocators"
	"github.com/vramscope/vramscope/allocators/caching"
	"github.com/vramscope/vramscope/allocators/caching/config"
	"github.com/vramscope/vramscope/trace"
)

// Following a recording.
//
// The follower lets the caching model do what the recording says was done, and compares. Whatever the
// model decides is checked: where each block goes, whether new memory is needed, how much, what is given
// back and in which order. What the model cannot decide is taken from the recording: the addresses that
// the driver chose, the instants at which deferred frees completed, and, where no limit is known, that
// the device refused.
//
// A request with the events that the allocator made while serving it is a group. The short group is an
// alloc alone: served from the cache, at the address of the best fit. A long group begins with completions
// and releases and may take new memory; what it means is found by trying explanations, the likeliest
// first, on the model itself, until one reproduces the group event by event (explain.go). Where none does,
// the recording is right and the model adopts it: a mismatch.

// Score is how much of a recording the model reproduced.
type Score struct {
	Events     int // explained or not, all events of the device
	Placements Tally
	Segments   Tally // segments allocated and freed, pages mapped and unmapped
	OOMs       Tally
	Blocks     Tally // blocks of the final state, free ones included
	Retries    bool  // whether the number of retries is certain
	Repairs    int   // sizes of blocks older than the recording that were corrected on the way
	Abandoned  bool  // the comparison was given up, see Assumed
	Unscored   int   // events of a first group that the recording may have caught in the middle
	First      *Mismatch
	Assumed    []string // what was taken for granted, for people
}

// Decisions is all that was checked.
func (s *Score) Decisions() Tally {
	var sum Tally
	for _, t := range []Tally{s.Placements, s.Segments, s.OOMs, s.Blocks} {
		sum.Checked += t.Checked
		sum.Matched += t.Matched
	}
	return sum
}

// Tally counts decisions.
type Tally struct{ Checked, Matched int }

func (t *Tally) count(ok bool) {
	t.Checked++
	if ok {
		t.Matched++
	}
}

// Mismatch is the first decision that the model made otherwise.
type Mismatch struct {
	Event         int
	What          string
	Expected, Got string // what the model expected, what the recording has
}

// Exact says whether everything that was checked matched.
func (s *Score) Exact() bool {
	return s.First == nil
}

// FollowOptions say what is known beside the recording.
type FollowOptions struct {
	Limit  int64 // bytes the process may reserve, negative if not known
	Memory int64 // bytes the device can give, 0 if not known
	Until  int   // stop once all events below this number are explained; 0 goes to the end, -1 stops before the first
	// Each is called after each event. May be nil.
	Each func(event int, e *trace.Event, now Now)
}

// Now is the memory after an event, as the recording has it: also where the model has other ideas.
type Now struct {
	Allocated int64 // bytes handed out, after rounding
	Reserved  int64 // bytes held from the driver
	Model     *caching.Allocator
	// FailedPool is the pool that was asked, after a request that ran out of memory.
	FailedPool uint32
}

// Following is what came of following one device.
type Following struct {
	Score     Score
	Requests  *Requests
	Model     *caching.Allocator // in the state after the last event
	Bounds    Bounds
	Config    config.Config // at the start
	Sizes     []int64       // bytes that each block took, by its number; 0 for one that was never placed
	Loose     int           // blocks older than the recording that may take up to 1 MiB more than is counted
	Truncated bool          // the recording does not begin with an empty allocator

	PeakAllocated int64 // bytes, of the recording
	PeakReserved  int64
	End           Now // after the last event

	initial *initialState
	total   int64 // estimate of the device's memory, 0 if there is none
}

type follower struct {
	dev    *trace.Device
	cfg    config.Config
	opt    FollowOptions
	bounds Bounds
	out    *Following

	state
	i   int // the next event to be explained
	end int // the group ends before this event

	bases    []uint64 // where contiguous mapped memory begins, over the whole recording
	asking   asked    // what the running request is asked of
	retries  int64    // of the model, before the present group
	mixed    bool     // both kinds of segments occur
	tangled  bool     // the recording took memory that it had not given back: regions do not tell all that the model has
	now      Now
	counted  int // events that now knows of
	work     int // what explaining in vain has cost so far, in blocks copied or looked at
	seen     int // number of blocks so far
	adopting bool
	broken   bool
	doubtful bool // a burst may have been a flush or a call of empty_cache
	why      Mismatch
	noted    map[string]bool
	switches []int // requests before which expandable_segments was switched, as far as a search has found them
	search   *searched
	spare    *caching.Allocator // memory for the next copy of the model
}

// state is what an attempt to explain a group may change, and what is put back if it fails.
type state struct {
	a         *caching.Allocator
	regions   regions
	acts      int
	segments  Tally
	newest    []uint32 // by stream: the private pool that took a segment last, 0 for none
	previous  []uint32 // by stream: the pool of the last block
	pools     uint32   // number of pools, named and inferred
	exchanged uint32   // the pool of what was taken for the default pool's first, 0 for none
	assumed   map[uint64]slack
}

// Follow holds the caching model against the recording of one device. Where there are only requests, they are
// counted and nothing is compared.
func Follow(dev *trace.Device, cfg config.Config, opt FollowOptions) *Following {
	f := newFollower(dev, cfg, opt)
	if f.mixed {
		switches := f.findSwitches()
		f = newFollower(dev, cfg, opt)
		f.switches = switches
	}
	return f.follow()
}

func newFollower(dev *trace.Device, cfg config.Config, opt FollowOptions) *follower {
	f := &follower{dev: dev, cfg: cfg, opt: opt, noted: map[string]bool{}}
	f.kinds()
	return f
}

func (f *follower) follow() *Following {
	dev, opt := f.dev, f.opt
	f.bounds = boundsOf(dev, &f.cfg, opt.Limit, opt.Memory)
	f.out = &Following{
		Requests: &Requests{Device: dev, Expandable: f.cfg.Expandable},
		Bounds:   f.bounds,
		Config:   f.cfg,
		Sizes:    make([]int64, dev.NumBlocks),
	}
	model := caching.NewConfig(f.cfg)
	if opt.Limit >= 0 {
		model.Limit = opt.Limit
	}
	whole := noSplitPools(dev, &f.cfg)
	initial := newInitialState(dev, &f.cfg, whole)
	if dev.Content == trace.Decisions {
		f.bases = mappedBases(dev, initial.spaces)
	}
	model.DeviceTotal = deviceTotal(f.bases)
	f.a = caching.New((*recordedDriver)(f), model)
	f.pools = uint32(max(1, len(dev.Pools)))
	initial.adopt(f)
	for i := range dev.Pools {
		if whole[uint32(i)] {
			f.a.KeepWhole(uint32(i))
			f.assume("pool %v never splits its blocks (no_split)", dev.Pools[i])
		}
	}
	f.assumed = initial.assumed
	f.out.Loose = len(f.assumed)
	f.out.initial, f.out.total = initial, model.DeviceTotal
	f.out.Requests.Initial = initial.blocks
	for _, b := range initial.blocks {
		f.out.Sizes[b.ID] = b.Size
		f.seen = max(f.seen, int(b.ID))
		f.setPool(b.ID, b.Pool)
	}
	for _, b := range dev.Final.Blocks {
		if int(b.ID) < len(f.out.Sizes) && f.out.Sizes[b.ID] == 0 {
			f.out.Sizes[b.ID] = b.Size // the file tells
		}
	}
	f.hook()
	f.out.Truncated = len(initial.segments) > 0 || len(initial.blocks) > 0 || dev.Overflow
	f.begin(initial)
	switch {
	case dev.Content == trace.Decisions && len(dev.Streams) > mostStreams:
		f.abandon(dev.Events.Len())
	case dev.Content == trace.Decisions:
		f.run()
	default:
		f.i = dev.Events.Len() // nothing was decided here that a model could be held against
		f.count()
	}
	f.finish()
	return f.out
}

// kinds looks over the recording for what decides how it is read.
func (f *follower) kinds() {
	if f.dev.Content != trace.Decisions {
		return // segments are of the driver's pools there, and say nothing of the settings
	}
	var classic, expandable bool
	first := trace.OpNone
	for _, e := range f.dev.Events.All() {
		switch e.Op {
		case trace.OpSegmentAlloc, trace.OpSegmentMap:
			if first == trace.OpNone {
				first = e.Op
			}
			classic = classic || e.Op == trace.OpSegmentAlloc
			expandable = expandable || e.Op == trace.OpSegmentMap
		}
	}
	f.mixed = classic && expandable
	switch first {
	case trace.OpSegmentAlloc:
		f.cfg.Expandable = false
	case trace.OpSegmentMap:
		f.cfg.Expandable = true
	}
	if f.mixed {
		f.assume("expandable_segments was switched while recording")
	}
}

func (f *follower) hook() {
	h := caching.Hooks{Acted: f.acted, Synced: f.completeRecorded}
	if f.bounds.Limit < 0 {
		h.Refuses = func(int64) bool { return f.bounds.Capacity == 0 && !f.servedNext() }
		if f.cfg.GCThreshold > 0 {
			h.Collects = f.collectedNext
		}
	}
	f.a.SetHooks(h)
}

func (f *follower) assume(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if !f.noted[text] {
		f.noted[text] = true
		if f.out != nil {
			f.out.Score.Assumed = append(f.out.Score.Assumed, text)
		}
	}
}

func (f *follower) event(i int) *trace.Event { return f.dev.Events.At(i) }

func (f *follower) run() {
	n := f.dev.Events.Len()
	switch until := f.opt.Until; {
	case until > 0:
		n = min(n, until)
	case until < 0:
		n = 0
	}
	for f.i < n && !f.searchEnds() {
		e := f.event(f.i)
		if f.work > f.patience() || len(f.regions.list) > mostRegions || f.pools > mostPools {
			f.abandon(n)
			break
		}
		switch e.Op {
		case trace.OpFreeRequested:
			f.free(e)
		case trace.OpFree:
			f.a.Free(uint32(e.Block), false)
			f.forgetSlack(e.Block)
			f.i++
		case trace.OpAlloc, trace.OpOOM, trace.OpFreeCompleted,
			trace.OpSegmentAlloc, trace.OpSegmentFree, trace.OpSegmentMap, trace.OpSegmentUnmap:
			f.group()
		default:
			f.i++
		}
		f.count()
	}
}

// begin counts what was there before the first event.
func (f *follower) begin(s *initialState) {
	for _, r := range s.segments {
		f.now.Reserved += r.Size
	}
	for _, b := range s.blocks {
		if b.State == trace.BlockLive {
			f.now.Allocated += b.Size
		}
	}
	f.now.Reserved += f.directBefore()
	f.out.PeakAllocated, f.out.PeakReserved = f.now.Allocated, f.now.Reserved
}

// directBefore is what blocks older than the recording took of the driver by themselves. Which pool they are
// of shows when they are freed.
func (f *follower) directBefore() int64 {
	if len(f.dev.PoolInfo) == 0 {
		return 0
	}
	old := map[trace.BlockID]bool{}
	for _, b := range f.out.Requests.Initial {
		old[b.ID] = b.State == trace.BlockLive
	}
	n := int64(0)
	for _, e := range f.dev.Events.All() {
		if len(old) == 0 {
			break
		}
		if e.Op == trace.OpFree && old[e.Block] {
			n += f.direct(e)
			delete(old, e.Block)
		}
	}
	return n
}

// count brings the figures of the recording up to the events that are done.
func (f *follower) count() {
	for ; f.counted < f.i; f.counted++ {
		e := f.event(f.counted)
		switch e.Op {
		case trace.OpAlloc:
			if int(e.Block) < len(f.out.Sizes) {
				if f.out.Sizes[e.Block] == 0 {
					f.out.Sizes[e.Block] = f.sizeOf(e)
				}
				f.now.Allocated += f.out.Sizes[e.Block]
				f.now.Reserved += f.direct(e)
				f.seen = max(f.seen, int(e.Block))
			}
		case trace.OpFreeRequested, trace.OpFree:
			if int(e.Block) < len(f.out.Sizes) {
				f.now.Allocated -= f.out.Sizes[e.Block]
				f.now.Reserved -= f.direct(e)
			}
		case trace.OpSegmentAlloc, trace.OpSegmentMap:
			f.now.Reserved += e.Size
		case trace.OpSegmentFree, trace.OpSegmentUnmap:
			f.now.Reserved -= e.Size
		}
		f.out.PeakAllocated = max(f.out.PeakAllocated, f.now.Allocated)
		f.out.PeakReserved = max(f.out.PeakReserved, f.now.Reserved)
		if f.opt.Each != nil {
			f.now.Model = f.a
			if e.Op == trace.OpOOM {
				f.now.FailedPool = f.out.Requests.FailedPools[f.counted]
			}
			f.opt.Each(f.counted, e, f.now)
		}
	}
}

// direct is how much the block of an event takes of the driver by itself: all of it if it is of no pool.
func (f *follower) direct(e *trace.Event) int64 {
	if int(e.Pool) < len(f.dev.PoolInfo) && f.dev.PoolInfo[e.Pool].Direct {
		return f.out.Sizes[e.Block]
	}
	return 0
}

// sizeOf is what a block takes that the model did not place: of another allocator nobody knows how it rounds.
func (f *follower) sizeOf(e *trace.Event) int64 {
	if f.dev.Content != trace.Decisions {
		return e.Size
	}
	return f.cfg.RoundSize(e.Size)
}

// mostStreams is how many streams a program may have and still be followed: no program has as many, and the model
// keeps a set of free blocks for each.
const mostStreams = 1024

// patience is how much work a recording is worth that the model does not explain: enough for many
// differences, not for a recording of another allocator.
func (f *follower) patience() int { return 150_000_000 + 300*f.dev.Events.Len() }

// What no device and no program has, and what would make every step of the model long.
const (
	mostRegions = 1 << 15
	mostPools   = 1 << 12
)

// abandon gives up explaining: what is left is only counted.
func (f *follower) abandon(n int) {
	f.assume("the recording does not follow the rules of this allocator: nothing was compared from event %d on", f.i)
	f.out.Score.Abandoned = true
	f.mismatch(Mismatch{Event: f.i, What: "comparison", Expected: "the rules of PyTorch's caching allocator", Got: "a recording that differs at nearly every step"})
	f.i = n
	f.count()
}

// free handles a free that the program asked for. It completes at once unless another stream uses the
// block, which shows by the completion not following directly.
func (f *follower) free(e *trace.Event) {
	f.i++
	pending := true
	if f.i < f.dev.Events.Len() {
		if next := f.event(f.i); next.Op == trace.OpFreeCompleted && next.Block == e.Block {
			pending = false
			f.i++
		}
	}
	if pending {
		f.out.Requests.Deferred = true
	} else {
		f.forgetSlack(e.Block)
	}
	f.a.Free(uint32(e.Block), pending)
}

func (f *follower) forgetSlack(b trace.BlockID) {
	if len(f.assumed) == 0 {
		return
	}
	if addr, size, ok := f.a.Block(uint32(b)); ok {
		delete(f.assumed, addr+uint64(size))
	}
}

// complete applies the completion of a deferred free.
func (f *follower) complete(e *trace.Event) {
	f.forgetSlack(e.Block)
	f.a.Complete(uint32(e.Block))
}

// completeRecorded applies the completions that come next in the group.
func (f *follower) completeRecorded() {
	for f.i < f.end && f.event(f.i).Op == trace.OpFreeCompleted {
		f.complete(f.event(f.i))
		f.i++
	}
}

// group explains the events up to and including the next alloc or oom, or up to the next event that is
// not the allocator's own.
func (f *follower) group() {
	n := f.dev.Events.Len()
	t := f.i
	moved := false
scan:
	for ; t < n; t++ {
		switch op := f.event(t).Op; op {
		case trace.OpFreeCompleted:
		case trace.OpSegmentAlloc, trace.OpSegmentFree, trace.OpSegmentMap, trace.OpSegmentUnmap:
			moved = true
		default:
			break scan
		}
	}
	f.end = t
	if slices.Contains(f.switches, t) {
		f.toggle()
	}
	if t == n || f.event(t).Op != trace.OpAlloc && f.event(t).Op != trace.OpOOM {
		f.loose(moved)
		return
	}
	if !moved && f.event(t).Op == trace.OpAlloc {
		f.completeRecorded()
		if f.cached(f.event(t)) {
			f.out.Score.Placements.count(true)
			f.i = t + 1
			return
		}
		if n := f.restored(t); n > 0 {
			f.layOut(t, n)
			return
		}
	}
	f.explain(t)
}

// request is what an event asked for.
func request(e *trace.Event, pool uint32) allocators.Request {
	return allocators.Request{Block: uint32(e.Block), Size: max(e.Size, 1), Stream: uint32(e.Stream), Pool: pool}
}

// cached serves an alloc from the cache if that puts it where the recording does. The pool is the one of
// the segment that the address lies in.
func (f *follower) cached(e *trace.Event) bool {
	r := f.regions.at(e.Addr)
	if r == nil || f.mixed && !f.sizeAsTold(e, r) || !f.a.MallocCached(request(e, r.pool), r.small, e.Addr) {
		return false
	}
	f.placed(e, r)
	return true
}

// placed notes where a block went.
func (f *follower) placed(e *trace.Event, r *region) {
	if _, size, ok := f.a.Block(uint32(e.Block)); ok && int(e.Block) < len(f.out.Sizes) && f.out.Sizes[e.Block] == 0 {
		f.out.Sizes[e.Block] = size
	}
	f.setPool(e.Block, r.pool)
	setAt(&f.previous, e.Stream, r.pool)
	if small := f.cfg.RoundSize(e.Size) <= config.SmallSize; small != r.small {
		f.isRestored(e, r)
	}
}

func (f *follower) setPool(b trace.BlockID, pool uint32) {
	if pool != 0 && f.out.Requests.Pools == nil {
		f.out.Requests.Pools = make([]uint32, f.dev.NumBlocks)
	}
	if f.out.Requests.Pools != nil && int(b) < len(f.out.Requests.Pools) {
		f.out.Requests.Pools[b] = pool
	}
}

func setAt(list *[]uint32, s trace.StreamID, v uint32) {
	for int(s) >= len(*list) {
		*list = append(*list, 0)
	}
	(*list)[s] = v
}

func getAt(list []uint32, s trace.StreamID) uint32 {
	if int(s) < len(list) {
		return list[s]
	}
	return 0
}

// act notes something that the program did before the next event.
func (f *follower) act(kind ActKind, pool uint32) {
	f.out.Requests.Acts = append(f.out.Requests.Acts[:f.acts], Act{Event: f.i, Kind: kind, Pool: pool})
	f.acts++
}

// finish compares the model with the state that the file ends with.
func (f *follower) finish() {
	f.out.Model = f.a
	f.a.SetHooks(caching.Hooks{})
	f.out.Requests.Acts = f.out.Requests.Acts[:f.acts]
	s := &f.out.Score
	if n := f.out.Requests.addMissedCalls(); n > 0 {
		f.assume("empty_cache is called in a rhythm: %d more of its calls, which found nothing, left no event", n)
	}
	s.Events = f.dev.Events.Len()
	s.Segments = f.segments
	s.Retries = !f.doubtful
	f.out.Bounds.Low, f.out.Bounds.High = f.bounds.Low, f.bounds.High
	f.out.End = f.now
	f.out.End.Model = f.a
	if f.dev.HasFinal && f.dev.Content == trace.Decisions && f.i >= f.dev.Events.Len() && !s.Abandoned {
		f.compareFinal()
	}
}
