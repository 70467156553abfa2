package report

import (
	"cmp"
	"slices"

	"github.com/vramscope/vramscope/allocators/caching"
	"github.com/vramscope/vramscope/allocators/caching/config"
	"github.com/vramscope/vramscope/trace"
)

// Freeing is the least that would have had to be freed for a request that failed to be served, found by looking at what
// lay around free memory then. Either the blocks lie side by side with free ones that together are large enough, in the
// pool and for the stream of the request; or they are all that is in use in some segments, which could then have been
// given back, so that the driver could have given a new one.
type Freeing struct {
	Blocks   []FreeingBlock // the largest first
	Bytes    int64          // of them
	Room     int64          // bytes that would have been free in one piece, or be given back
	Segments int            // that would have been given back, 0 if the room is inside of one
}

// FreeingBlock is one of the blocks that were in the way.
type FreeingBlock struct {
	Block trace.BlockID
	Bytes int64
	Stack trace.StackID
	Born  int // event, -1 if it is older than the recording
}

// mostFreeing is how many blocks are worth naming: a person frees no more by hand.
const mostFreeing = 1000

// freeingFor looks for the cheapest way to make room for a request, of which its pool, stream, size class and rounded
// size count. The driver lacked so many bytes for a new segment. It is nil if there is none.
func freeingFor(blocks []caching.Placed, request caching.Placed, cfg *config.Config, lacking int64) *Freeing {
	within := freeingWithin(blocks, request, cfg)
	given := freeingSegments(blocks, request, lacking)
	switch {
	case within == nil:
		return given
	case given == nil || within.Bytes <= given.Bytes:
		return within
	}
	return given
}

// freeingWithin slides over each segment for the run of blocks that is large enough with the least in use.
func freeingWithin(blocks []caching.Placed, request caching.Placed, cfg *config.Config) *Freeing {
	best, from, to := int64(-1), 0, 0
	for i := 0; i < len(blocks); {
		end := i + 1
		for end < len(blocks) && !begins(blocks, end) {
			end++
		}
		if b := &blocks[i]; b.Pool == request.Pool && b.Stream == request.Stream && b.Small == request.Small {
			var total, used int64
			left := i
			for right := i; right < end; right++ {
				total += blocks[right].Size
				used += inUse(&blocks[right])
				for left < right && total-blocks[left].Size >= request.Size {
					total -= blocks[left].Size
					used -= inUse(&blocks[left])
					left++
				}
				if total >= request.Size && (best < 0 || used < best) && serves(cfg, request.Size, merged(blocks, left, right)) {
					best, from, to = used, left, right+1
				}
			}
		}
		i = end
	}
	if best <= 0 {
		return nil
	}
	f := &Freeing{}
	f.take(blocks[from:to])
	return f.named()
}

// freeingSegments gives back the segments that keep the least for what they have, until the driver could give a new one.
// Pages of expandable segments are not looked at: the allocator gives back what is free of them by itself.
func freeingSegments(blocks []caching.Placed, request caching.Placed, lacking int64) *Freeing {
	if lacking <= 0 || request.Pool != 0 {
		return nil
	}
	type segment struct {
		from, to   int
		size, used int64
	}
	var list []segment
	for i := 0; i < len(blocks); {
		s := segment{from: i, to: i + 1, size: blocks[i].Size, used: inUse(&blocks[i])}
		for s.to < len(blocks) && !begins(blocks, s.to) {
			s.size += blocks[s.to].Size
			s.used += inUse(&blocks[s.to])
			s.to++
		}
		if !blocks[i].Expandable && blocks[i].Pool == 0 && s.used > 0 {
			list = append(list, s)
		}
		i = s.to
	}
	alone := slices.Clone(list)
	slices.SortStableFunc(alone, func(x, y segment) int { return cmp.Compare(x.used, y.used) })
	var best []segment
	if i := slices.IndexFunc(alone, func(s segment) bool { return s.size >= lacking }); i >= 0 {
		best = alone[i : i+1]
	}
	// Several together: those that give most for what is freed.
	slices.SortStableFunc(list, func(x, y segment) int {
		return cmp.Compare(float64(x.used)/float64(x.size), float64(y.used)/float64(y.size))
	})
	var room, used int64
	for i, s := range list {
		room += s.size
		used += s.used
		if room >= lacking {
			if len(best) == 0 || used < best[0].used {
				best = list[:i+1]
			}
			break
		}
	}
	if len(best) == 0 {
		return nil
	}
	f := &Freeing{Segments: len(best)}
	for _, s := range best {
		f.take(blocks[s.from:s.to])
	}
	return f.named()
}

// merged is the size of the free block that the blocks from left to right would become, with free neighbours.
func merged(blocks []caching.Placed, left, right int) int64 {
	for left > 0 && !begins(blocks, left) && blocks[left-1].Free {
		left--
	}
	for right+1 < len(blocks) && !begins(blocks, right+1) && blocks[right+1].Free {
		right++
	}
	return int64(blocks[right].Addr-blocks[left].Addr) + blocks[right].Size
}

// serves says whether the allocator takes a free block for a request, both in bytes: with max_split_size_mb it keeps large
// ones for large requests.
func serves(cfg *config.Config, request, size int64) bool {
	if request < cfg.MaxSplitSize {
		return size < cfg.MaxSplitSize
	}
	return size < request+cfg.MaxNonSplitRounding
}

// holders are who allocated the blocks.
func (f *Freeing) holders() Holders {
	var h Holders
	for _, b := range f.Blocks {
		h.hold(liveBlock{id: b.Block, stack: b.Stack, born: b.Born, size: b.Bytes})
	}
	h.sort()
	return h
}

// inUse is the bytes of a block that is not free.
func inUse(b *caching.Placed) int64 {
	if b.Free {
		return 0
	}
	return b.Size
}

func (f *Freeing) take(blocks []caching.Placed) {
	for i := range blocks {
		b := &blocks[i]
		f.Room += b.Size
		if !b.Free {
			f.Bytes += b.Size
			f.Blocks = append(f.Blocks, FreeingBlock{Block: trace.BlockID(b.Number), Bytes: b.Size})
		}
	}
}

// named brings the largest to the front. What takes more blocks than a person frees is no help.
func (f *Freeing) named() *Freeing {
	if len(f.Blocks) > mostFreeing {
		return nil
	}
	slices.SortStableFunc(f.Blocks, func(x, y FreeingBlock) int { return cmp.Compare(y.Bytes, x.Bytes) })
	return f
}
