package trace

import (
	"cmp"
	"fmt"
	"slices"
)

// Pair gives every event that concerns a block the block's id: an alloc a new one, the events that end
// it the one that lives at their address. Blocks that were there before the first event (they are freed
// without having been allocated, or are in the final state without having been) go to Initial.Blocks.
// Blocks of the final state that are not free get their ids as well.
//
// A source calls it once for each device, after Rewind if it has segments. What does not fit together
// becomes warnings. Frees that must have been, but are missing, are put in: nobody has to count twice what lay
// at one address, and what lives after the last event is in the final state.
func Pair(d *Device) {
	bound(d)
	p := pairing{d: d, live: newAddrTable()}
	p.count()
	p.merge()
	p.run()
	p.final()
	p.settle()
	p.warn()
	p.insert()
}

type pairing struct {
	d    *Device
	live addrTable
	ops  [numOps]int
	next BlockID
	old  []oldBlock // candidates for Initial.Blocks
	gone []lostFree // in the order of events

	twice, unasked, atLive, lost, state, unmatched fault
}

// oldBlock is a block that no event allocated.
type oldBlock struct {
	Block
	first int // the event that showed it, -1 if only the final state does
}

// fault counts what does not fit together.
type fault struct{ n, first int }

func (f *fault) add(at int) {
	if f.n == 0 || at < f.first {
		f.first = at
	}
	f.n++
}

func (p *pairing) count() {
	for _, e := range p.d.Events.All() {
		if e.Op < numOps {
			p.ops[e.Op]++
		}
	}
}

// merge makes one of the two halves of a free when the recording has only one of them throughout:
// that half is then all that is known of the free.
func (p *pairing) merge() {
	req, done := p.ops[OpFreeRequested], p.ops[OpFreeCompleted]
	half := OpNone
	switch {
	case req > 0 && done == 0 && p.ops[OpFree] == 0 && req > p.pendingAtEnd():
		half = OpFreeRequested
		p.warnf("no-free-completed", req, -1,
			"free_completed was not recorded: memory is taken to be reusable as soon as it is freed, which is wrong where several streams use it")
	case done > 0 && req == 0:
		half = OpFreeCompleted
		p.warnf("no-free-requested", done, -1,
			"free_requested was not recorded: blocks that wait for a stream count as allocated")
	default:
		return
	}
	for _, e := range p.d.Events.All() {
		if e.Op == half {
			e.Op = OpFree
		}
	}
}

func (p *pairing) pendingAtEnd() int {
	n := 0
	for i := range p.d.Final.Blocks {
		if p.d.Final.Blocks[i].State == BlockPending {
			n++
		}
	}
	return n
}

func (p *pairing) run() {
	for i, e := range p.d.Events.All() {
		switch e.Op {
		case OpAlloc:
			s, ok := p.live.insert(e.Addr)
			if ok {
				p.atLive.add(i)
				p.lose(s, p.requestOf(i))
			}
			*s = liveBlock{addr: e.Addr, id: p.next, state: BlockLive}
			e.Block = p.next
			p.next++
		case OpFreeRequested:
			s, ok := p.live.insert(e.Addr)
			if !ok {
				*s = liveBlock{addr: e.Addr, id: p.before(i, e, BlockLive)}
			} else if s.state == BlockPending {
				p.twice.add(i)
				continue
			}
			s.state = BlockPending
			e.Block = s.id
		case OpFreeCompleted, OpFree:
			s := p.live.find(e.Addr)
			if s == nil {
				state := BlockLive
				if e.Op == OpFreeCompleted {
					state = BlockPending
				}
				e.Block = p.before(i, e, state)
				continue
			}
			if e.Op == OpFreeCompleted && s.state == BlockLive {
				p.unasked.add(i)
				e.Op = OpFree
			} else if s.state == BlockPending {
				e.Op = OpFreeCompleted // the first half came before
			}
			e.Block = s.id
			p.live.remove(s)
		}
	}
}

// before makes a block that the event shows to have existed before the first event.
func (p *pairing) before(i int, e *Event, state BlockState) BlockID {
	id := p.next
	p.next++
	p.old = append(p.old, oldBlock{first: i, Block: Block{
		ID: id, State: state, Stream: e.Stream, Addr: e.Addr, Requested: e.Size}})
	return id
}

// final finds the blocks of the final state among those that live after the last event.
func (p *pairing) final() {
	if !p.d.HasFinal {
		return
	}
	matched, held := 0, 0
	for i := range p.d.Final.Blocks {
		if p.d.Final.Blocks[i].State != BlockFree {
			held++
		}
	}
	p.old = slices.Grow(p.old, max(0, held-p.live.n))
	var ofOld map[BlockID]int
	for i := range p.d.Final.Blocks {
		b := &p.d.Final.Blocks[i]
		if b.State == BlockFree {
			continue
		}
		if s := p.live.find(b.Addr); s != nil {
			matched++
			b.ID = s.id
			if s.state != b.State {
				p.state.add(-1)
			}
			if ofOld == nil {
				ofOld = make(map[BlockID]int, len(p.old))
				for j := range p.old {
					ofOld[p.old[j].ID] = j
				}
			}
			if j, ok := ofOld[s.id]; ok { // freed in the trace, still pending
				p.old[j].Size, p.old[j].Stack = b.Size, b.Stack
			}
			continue
		}
		b.ID = p.next
		p.next++
		old := oldBlock{Block: *b, first: p.d.Events.Len()}
		if b.State == BlockPending && p.ops[OpFreeRequested] > 0 || b.State == BlockLive {
			old.State = b.State
		}
		p.old = append(p.old, old)
	}
	if extra := p.live.n - matched; extra > 0 {
		p.lost = fault{n: extra, first: -1}
		p.loseRest()
	}
}

// settle keeps those blocks that can have existed before the first event, and takes the others for what
// they are: frees of something unknown.
func (p *pairing) settle() {
	if len(p.old) == 0 {
		p.d.NumBlocks = int(p.next)
		return
	}
	refused, n := p.refuse()
	p.d.Initial.Blocks = make([]Block, 0, len(p.old)-n)
	var bytes int64
	for i := range p.old {
		b := &p.old[i]
		if refused[b.ID] {
			p.unmatched.add(b.first)
			continue
		}
		bytes += b.Requested
		p.d.Initial.Blocks = append(p.d.Initial.Blocks, b.Block)
	}
	if n > 0 {
		p.gone = slices.DeleteFunc(p.gone, func(g lostFree) bool { return refused[g.block.id] })
		for _, e := range p.d.Events.All() {
			if e.Block != NoBlock && refused[e.Block] {
				e.Block = NoBlock
			}
		}
	}
	p.d.NumBlocks = int(p.next)
	if n := len(p.d.Initial.Blocks); n > 0 && p.d.Events.Len() > 0 {
		p.warnf("starts-in-mid-run", n, -1,
			"blocks of %.1f MiB in all are older than the first event: the recording began late, or its ring buffer overflowed", float64(bytes)/(1<<20))
	}
}

// refuse sorts the candidates by address and finds those that cannot have existed before the first event:
// something was allocated at their address before they were freed, or no segment was there at the start,
// or another block was in their way.
func (p *pairing) refuse() (refused []bool, n int) {
	refused = make([]bool, p.next)
	refuse := func(id BlockID) {
		if !refused[id] {
			refused[id] = true
			n++
		}
	}
	byAddr := make(map[uint64]*oldBlock, len(p.old))
	last := 0
	for i := range p.old {
		b := &p.old[i]
		if p.d.HasFinal && !inside(p.d.Initial.Segments, b.Addr, max(b.Size, b.Requested)) || byAddr[b.Addr] != nil {
			refuse(b.ID) // no segment there, or the second of two at one address
			continue
		}
		byAddr[b.Addr] = b
		last = max(last, b.first)
	}
	for i, e := range p.d.Events.All() {
		if i >= last {
			break
		}
		if e.Op == OpAlloc {
			if b := byAddr[e.Addr]; b != nil && b.first > i {
				refuse(b.ID)
			}
		}
	}
	// Of two that overlap, the one that was freed first was there.
	slices.SortFunc(p.old, func(x, y oldBlock) int { return cmp.Or(cmp.Compare(x.Addr, y.Addr), cmp.Compare(x.ID, y.ID)) })
	kept := -1
	for i := range p.old {
		b := &p.old[i]
		if refused[b.ID] {
			continue
		}
		if kept >= 0 {
			k := &p.old[kept]
			if b.Addr-k.Addr < uint64(max(k.Size, k.Requested)) {
				if k.first <= b.first {
					refuse(b.ID)
					continue
				}
				refuse(k.ID)
			}
		}
		kept = i
	}
	return refused, n
}

// inside reports whether n bytes from addr on lie in one of the segments, which are sorted.
func inside(segments []Segment, addr uint64, n int64) bool {
	i, found := slices.BinarySearchFunc(segments, addr, func(s Segment, a uint64) int { return cmp.Compare(s.Addr, a) })
	if !found {
		i--
	}
	if i < 0 {
		return false
	}
	s := segments[i]
	return addr-s.Addr <= uint64(s.Size) && uint64(n) <= uint64(s.Size)-(addr-s.Addr)
}

func (p *pairing) warn() {
	if p.ops[OpAlloc] == 0 && p.unmatched.n > 0 {
		p.warnf("no-allocs", 1, -1, "the trace has frees but no allocs: they were not recorded")
	}
	p.unmatched.warn(p, "free-without-alloc", "blocks were freed, or are in the final state, that were never allocated and cannot be older than the trace")
	p.atLive.warn(p, "alloc-at-live-address", "allocs at an address whose block had not been freed: the free is missing")
	p.twice.warn(p, "free-twice", "blocks were freed a second time before the first free was completed")
	p.unasked.warn(p, "completed-without-request", "frees were completed that nobody had requested")
	p.lost.warn(p, "not-in-final", "blocks live after the last event are not in the final state")
	p.state.warn(p, "final-state-differs", "blocks are live in the trace and waiting in the final state, or the other way round")
}

func (f fault) warn(p *pairing, code, message string) {
	if f.n > 0 {
		p.warnf(code, f.n, f.first, "%s", message)
	}
}

func (p *pairing) warnf(code string, count, first int, format string, args ...any) {
	if first >= p.d.Events.Len() {
		first = -1
	}
	p.d.Warnings = append(p.d.Warnings, Warning{Code: code, Message: fmt.Sprintf(format, args...), Count: count, First: first})
}
