package simulate

import (
	"github.com/vramscope/vramscope/allocators/caching/config"
	"github.com/vramscope/vramscope/trace"
)

// Saved graph pools.
//
// CUDA graph trees save how the blocks of a graph's pool lie and lay them out again later: all that is live in the
// pool is freed, then each segment is cut into the saved blocks, free ones too, by requests of their own sizes. They
// go where the saved blocks were and not to the best fit. In a recording such requests follow one another without
// a gap until they fill what was free.

// restored is how many requests, from event t on, lay out a free block of a private pool again, 0 if they do not.
func (f *follower) restored(t int) int {
	e := f.event(t)
	r := f.regions.at(e.Addr)
	if r == nil || r.pool == 0 {
		return 0
	}
	f.work += f.a.Len()
	left := f.a.FreeAt(e.Addr)
	at, n := e.Addr, 0
	defer func() { f.work += n }()
	for i := t; left > 0; i++ {
		if i >= f.dev.Events.Len() {
			return 0
		}
		x := f.event(i)
		if x.Op != trace.OpAlloc || x.Addr != at || x.Stream != e.Stream || x.Size <= 0 || x.Size%config.MinBlock != 0 || x.Size > left {
			return 0
		}
		at += uint64(x.Size)
		left -= x.Size
		n++
	}
	return n
}

// layOut follows the restoration of a free block by n requests from event t on.
func (f *follower) layOut(t, n int) {
	for f.i = t; f.i < t+n; f.count() {
		e := f.event(f.i)
		r := f.regions.at(e.Addr)
		if r == nil || !f.a.Lay(request(e, r.pool), r.small, e.Addr) {
			f.explain(f.i)
			return
		}
		f.out.Score.Placements.count(true)
		f.placed(e, r)
		f.isRestored(e, r)
		f.i++
	}
}

// isRestored notes that a request restored a block.
func (f *follower) isRestored(e *trace.Event, r *region) {
	if f.out.Requests.Restored == nil {
		f.out.Requests.Restored = map[trace.BlockID]bool{}
		f.assume("a saved graph pool was laid out again")
	}
	f.out.Requests.Restored[e.Block] = r.small
}
