package stream

// How a request is served: the pool that it names (pool.go), then what is left to try when the device
// refuses, and the figures.

import (
	"fmt"

	"github.com/vramscope/vramscope/allocators"
)

// Malloc serves a request, or returns an *allocators.OOM. Another error means that the request makes no
// sense.
func (a *Allocator) Malloc(req allocators.Request) error {
	if req.Size <= 0 {
		return fmt.Errorf("block %d: a request must be for at least one byte, not %d", req.Block, req.Size)
	}
	if a.find(req.Block) != 0 {
		return fmt.Errorf("block %d: already allocated, free it first", req.Block)
	}
	if a.opt.Limit > 0 && req.Size > a.opt.Limit-a.used.Current {
		return a.refuse(req.Size, 0)
	}
	p, err := a.pool(req.Pool)
	if err != nil || req.Size > p.space || a.total > 0 && req.Size > a.total {
		return a.refuse(req.Size, req.Size)
	}
	n := (req.Size + granule - 1) &^ (granule - 1)
	own := p.listOf(req.Stream)
	peak := a.stats.Reserved.Peak
	id, asked := a.serve(p, n, own)
	if id == 0 && a.opt.Retry {
		a.stats.Retries++
		a.EmptyCache()
		id, asked = a.serve(p, n, own)
	}
	if id != 0 {
		for int64(len(a.blocks)) <= int64(req.Block) {
			a.blocks = append(a.blocks, 0)
		}
		a.blocks[req.Block] = id
		s := &a.spans[id]
		s.want, s.block = req.Size, req.Block
		a.used.Add(req.Size)
		a.stats.Requested.Add(req.Size)
		a.stats.Allocated.Add(n)
		a.stats.Active.Add(n)
	}
	if s := &a.stats; s.Reserved.Peak > peak && s.Reserved.Current == s.Reserved.Peak {
		a.notePeak()
	}
	if id == 0 {
		return a.refuse(req.Size, asked*pageSize)
	}
	return nil
}

func (a *Allocator) refuse(size, tried int64) error {
	a.stats.OOMs++
	return &allocators.OOM{
		Requested: size, Tried: tried,
		Allocated: a.stats.Allocated.Current, Reserved: a.stats.Reserved.Current, LargestFree: a.largest(),
	}
}

// notePeak splits the reserved bytes as they are now.
func (a *Allocator) notePeak() {
	s := &a.stats
	f := allocators.Fragmentation{
		Pending:  s.Active.Current - s.Allocated.Current,
		Rounding: s.Allocated.Current - (s.Requested.Current - a.pendingWant),
		Largest:  a.largest(),
	}
	for _, p := range a.pools {
		f.Cached += p.cached()
	}
	f.Stranded = s.Reserved.Current - s.Active.Current - f.Cached
	s.AtPeak = f
}

func (a *Allocator) largest() (n int64) {
	for _, p := range a.pools {
		n = max(n, p.largest())
	}
	return n
}

// pool is the pool of a number, made at its first use.
func (a *Allocator) pool(id uint32) (*pool, error) {
	if a.last != nil && id == a.lastID {
		return a.last, nil
	}
	p := a.named[id]
	if p == nil {
		space := defaultSpace
		if _, a.total = a.driver.Memory(); a.total > 0 {
			space = max(minSpace, min(a.total, maxSpace/8)*8) &^ (pageSize - 1)
		}
		base, err := a.driver.Reserve(space)
		if err != nil {
			return nil, err
		}
		p = &pool{
			pages: pages{driver: a.driver, stats: &a.stats, base: base}, arena: &a.arena,
			number: uint32(len(a.pools)), opportunistic: !a.opt.NoOpportunistic, space: space, most: space / pageSize,
		}
		if a.opt.MaxSize > 0 {
			p.most = min(p.most, (a.opt.MaxSize-1)/pageSize+1)
		}
		p.open()
		a.pools = append(a.pools, p)
		a.named[id] = p
	}
	a.last, a.lastID = p, id
	return p, nil
}

// serve makes a live span of n bytes, by steps 2 to 8. Where it cannot, id is 0 and asked how many
// pages it wanted of the driver.
func (a *Allocator) serve(p *pool, n int64, own int32) (id int32, asked int64) {
	peak := a.stats.Reserved.Peak
	id, asked = p.take(n, own)
	if id == 0 && a.stats.Reserved.Peak > peak {
		a.notePeak() // now, as some of it may be given back before the request is through
	}
	if id == 0 && p.held < p.most && a.trimOthers(p) {
		id, asked = p.take(n, own)
	}
	if id == 0 && !a.opt.NoInternalDependencies {
		id = a.wait(p, n, own)
	}
	return id, asked
}

// trimOthers gives back the free pages of all pools but one, without waiting for any stream, and says
// whether there were any.
func (a *Allocator) trimOthers(but *pool) (some bool) {
	for _, p := range a.pools {
		if p != but && p.idle > 0 {
			p.trim(0)
			some = true
		}
	}
	return some
}

// wait serves a request with memory that another stream still uses: of a list that was not flushed, or
// of the smallest pending span, whose wait ends so.
func (a *Allocator) wait(p *pool, n int64, own int32) int32 {
	if id := p.lend(n, own); id != 0 {
		return p.cut(id, n, own)
	}
	var best int32
	for id := p.pending.oldest; id != 0; id = a.spans[id].newer {
		if size := a.spans[id].size; size >= n && (best == 0 || size < a.spans[best].size) {
			best = id
		}
	}
	if best == 0 {
		return 0
	}
	return p.cut(a.complete(best), n, own)
}
