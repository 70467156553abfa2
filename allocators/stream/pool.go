package stream

// A span is a range of bytes of a pool. The spans of a pool tile its address range:
//
//	spans[s.above].addr == s.addr + s.size
//
// A free span belongs to one list, and no two neighbours to the same: they would be one span.
type span struct {
	addr, size   int64  // bytes, from the start of the pool
	want         int64  // live or pending: bytes asked for
	born         uint64 // free: the number of the change that gave it its present extent
	below, above int32  // neighbours by address, 0 at the ends
	newer, older int32  // neighbours in the chain of a stream's list, or in that of the pending
	list         int32  // free: the list that it is in; live or pending: that of its stream
	idle, lack   int32  // shared: whole pages inside with memory, and without
	block        uint32 // live or pending: the caller's number
	pool         uint32 // index of the pool
	state        state
}

type state uint8

const (
	free state = iota
	live
	waiting // pending
)

// An arena holds the spans of all pools of an allocator, so that one number names a span.
type arena struct {
	spans  []span // spans[0] is none
	unused int32  // spans to use again, linked by above
}

func (a *arena) newSpan(s span) int32 {
	id := a.unused
	if id == 0 {
		a.spans = append(a.spans, s)
		return int32(len(a.spans) - 1)
	}
	a.unused = a.spans[id].above
	a.spans[id] = s
	return id
}

func (a *arena) retire(id int32) {
	a.spans[id] = span{above: a.unused}
	a.unused = id
}

// shared is the list of spans that belong to no stream. The lists of streams count from 1.
const shared = int32(0)

// A chain links spans by the time at which they were freed.
type chain struct{ newest, oldest int32 }

// A list is what was freed on one stream: by size for the best fit, and by time for a flush.
type list struct {
	fits order
	chain
}

// A pool is one cudaMemPool_t: an address range and the spans that tile it. The package comment has its
// rules.
type pool struct {
	pages
	*arena
	number        uint32
	opportunistic bool
	most          int64 // pages that it may hold

	space int64 // length of the address range, bytes
	first int32 // the lowest span

	streams    map[uint32]int32 // stream to list
	lastStream uint32           // the stream asked for last, and its list
	lastList   int32
	lists      []list // in the order of the streams' first use; lists[shared] is empty
	listed     int    // spans in the lists of streams
	pending    chain

	whole order // shared spans with memory throughout, by size
	holed order // shared spans that lack some, the tail among them, by size
	roomy order // shared spans with wholly free pages that have memory, by address
	idle  int64 // those pages

	births uint64
	moved  int64 // pages whose memory went from one place in the pool to another
}

// open makes the whole address range one shared span: the tail.
func (p *pool) open() {
	p.streams, p.lists = map[uint32]int32{}, make([]list, 1, 4)
	p.first = p.newSpan(span{size: p.space, pool: p.number})
	p.put(p.first, shared)
}

// listOf is the list of a stream, made at its first use.
func (p *pool) listOf(stream uint32) int32 {
	if p.lastList != shared && stream == p.lastStream {
		return p.lastList
	}
	l, ok := p.streams[stream]
	if !ok {
		l = int32(len(p.lists))
		p.lists = append(p.lists, list{})
		p.streams[stream] = l
	}
	p.lastStream, p.lastList = stream, l
	return l
}

// lend is the first fit among the streams other than own, in the order of their first use, and in each
// the best fit; 0 if there is none.
func (p *pool) lend(n int64, own int32) int32 {
	if p.listed == 0 {
		return 0
	}
	for l := 1; l < len(p.lists); l++ {
		if int32(l) == own {
			continue
		}
		if e, _, ok := p.lists[l].fits.ceil(n); ok {
			return e.id
		}
	}
	return 0
}

// findShared is the best fit over the shared spans, with memory or without; 0 when not even the tail is
// long enough.
func (p *pool) findShared(n int64) int32 {
	w, _, ok := p.whole.ceil(n)
	h, _, holed := p.holed.ceil(n)
	if !ok || holed && (h.n < w.n || h.n == w.n && h.born < w.born) {
		return h.id
	}
	return w.id
}

// cut makes the low end of a free span live and returns it. What is left stays in the span's list, at
// its place in the chain, but counts as new for the best fit.
func (p *pool) cut(id int32, n int64, own int32) int32 {
	p.unindex(&p.spans[id])
	return p.cutOut(id, n, own)
}

// cutOut is cut for a span that is out of its orders already.
func (p *pool) cutOut(id int32, n int64, own int32) int32 {
	s := &p.spans[id]
	if s.size == n {
		if s.list != shared {
			p.unlink(&p.lists[s.list].chain, id)
			p.listed--
		}
		s.state, s.list = live, own
		return id
	}
	low := p.newSpan(span{addr: s.addr, size: n, below: s.below, above: id, list: own, pool: p.number, state: live})
	s = &p.spans[id]
	if s.below != 0 {
		p.spans[s.below].above = low
	} else {
		p.first = low
	}
	s.below = low
	s.addr += n
	s.size -= n
	p.births++
	s.born = p.births
	p.index(s, id)
	return low
}

// put enters a span that is in no list into one, merged with what it touches there, as the newest.
func (p *pool) put(id, to int32) int32 {
	id = p.merge(id, to)
	p.births++
	p.spans[id].born = p.births
	p.enter(id, to)
	return id
}

func (p *pool) enter(id, to int32) {
	s := &p.spans[id]
	s.state, s.list = free, to
	if to != shared {
		p.link(&p.lists[to].chain, id)
		p.listed++
	}
	p.index(s, id)
}

// flush moves what the streams' lists hold to the shared spans: streams in the order of their first use.
func (p *pool) flush() {
	for l := 1; p.listed > 0 && l < len(p.lists); l++ {
		p.flushList(int32(l))
	}
}

// flushList does so for one list, the newest free first, and says whether there was anything.
func (p *pool) flushList(list int32) bool {
	l := &p.lists[list]
	id := l.newest
	if id == 0 {
		return false
	}
	l.fits.clear()
	l.chain = chain{}
	for id != 0 {
		older := p.spans[id].older
		p.listed--
		p.put(id, shared)
		id = older
	}
	return true
}

// merge adds the neighbours of a span that are in the given list to it. It returns the span.
func (p *pool) merge(id, list int32) int32 {
	s := &p.spans[id]
	if b := s.below; b != 0 {
		if o := &p.spans[b]; o.state == free && o.list == list {
			p.leave(b)
			s.addr, s.size, s.below = o.addr, s.size+o.size, o.below
			if o.below != 0 {
				p.spans[o.below].above = id
			} else {
				p.first = id
			}
			p.retire(b)
		}
	}
	if a := s.above; a != 0 {
		if o := &p.spans[a]; o.state == free && o.list == list {
			p.leave(a)
			s.size, s.above = s.size+o.size, o.above
			if o.above != 0 {
				p.spans[o.above].below = id
			}
			p.retire(a)
		}
	}
	return id
}

// leave takes a free span out of its list.
func (p *pool) leave(id int32) {
	s := &p.spans[id]
	p.unindex(s)
	if s.list != shared {
		p.unlink(&p.lists[s.list].chain, id)
		p.listed--
	}
}

// link puts a span at the newest end of a chain.
func (p *pool) link(c *chain, id int32) {
	s := &p.spans[id]
	s.newer, s.older = 0, c.newest
	if c.newest != 0 {
		p.spans[c.newest].newer = id
	} else {
		c.oldest = id
	}
	c.newest = id
}

func (p *pool) unlink(c *chain, id int32) {
	s := &p.spans[id]
	if s.newer != 0 {
		p.spans[s.newer].older = s.older
	} else {
		c.newest = s.older
	}
	if s.older != 0 {
		p.spans[s.older].newer = s.newer
	} else {
		c.oldest = s.newer
	}
}

// index enters a free span into the orders of its list.
func (p *pool) index(s *span, id int32) {
	e := entry{s.size, s.born, id}
	if s.list != shared {
		p.lists[s.list].fits.add(e)
		return
	}
	s.idle, s.lack = 0, 0
	if from, to := within(s.addr, s.addr+s.size); from < to {
		idle := p.count(from, to)
		s.idle, s.lack = int32(idle), int32(to-from-idle)
		if idle > 0 {
			p.idle += idle
			p.roomy.add(entry{s.addr, s.born, id})
		}
	}
	if s.lack == 0 {
		p.whole.add(e)
	} else {
		p.holed.add(e)
	}
}

// unindex takes it out of them.
func (p *pool) unindex(s *span) {
	switch {
	case s.list != shared:
		p.lists[s.list].fits.remove(s.size, s.born)
		return
	case s.lack == 0:
		p.whole.remove(s.size, s.born)
	default:
		p.holed.remove(s.size, s.born)
	}
	if s.idle > 0 {
		p.idle -= int64(s.idle)
		p.roomy.remove(s.addr, s.born)
	}
}
