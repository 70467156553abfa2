package stream

import (
	"math/bits"

	"github.com/vramscope/vramscope/allocators"
)

// pageSize is the unit in which a pool takes memory: 32 MiB, at multiples of 32 MiB from its start.
const pageSize = 32 << 20

// pages knows which pages of a pool's address range have memory, and takes it from the driver.
//
// A page is an index: page q is the bytes [q*pageSize, (q+1)*pageSize) from the start of the range.
// Ranges of pages are half open.
type pages struct {
	driver allocators.Driver
	stats  *allocators.Stats // counts what the driver gave and got back
	base   uint64            // address of page 0
	words  []uint64          // a bit a page, set if it has memory; pages behind the last word have none
	held   int64             // pages with memory
}

// within gives the whole pages inside the bytes [addr, end).
func within(addr, end int64) (from, to int64) {
	from, to = (addr+pageSize-1)/pageSize, end/pageSize
	return from, max(from, to)
}

// touched gives the pages that hold any of the bytes [addr, end).
func touched(addr, end int64) (from, to int64) {
	return addr / pageSize, (end + pageSize - 1) / pageSize
}

// has says whether a page has memory.
func (p *pages) has(q int64) bool {
	return q/64 < int64(len(p.words)) && p.words[q/64]>>(q%64)&1 != 0
}

// count is how many of the pages [from, to) have memory.
func (p *pages) count(from, to int64) (n int64) {
	to = min(to, int64(len(p.words))*64)
	for from < to {
		w := p.words[from/64] >> (from % 64)
		step := min(64-from%64, to-from)
		if step < 64 {
			w &= 1<<step - 1
		}
		n += int64(bits.OnesCount64(w))
		from += step
	}
	return n
}

// next is the first of the pages [from, to) that has memory, or that has none; to if there is no such
// page.
func (p *pages) next(from, to int64, backed bool) int64 {
	for from < to && from/64 < int64(len(p.words)) {
		w := p.words[from/64]
		if !backed {
			w = ^w
		}
		if w >>= from % 64; w != 0 {
			return min(to, from+int64(bits.TrailingZeros64(w)))
		}
		from += 64 - from%64
	}
	if backed {
		return to
	}
	return min(from, to)
}

// highest is the last of the pages [from, to) that has memory, -1 if none has.
func (p *pages) highest(from, to int64) int64 {
	to = min(to, int64(len(p.words))*64)
	for to > from {
		top := (to - 1) % 64
		if w := p.words[(to-1)/64] << (63 - top); w != 0 {
			if q := to - 1 - int64(bits.LeadingZeros64(w)); q >= from {
				return q
			}
			return -1
		}
		to -= top + 1
	}
	return -1
}

// mapPages asks the driver for memory for the pages [from, to), none of which has any.
func (p *pages) mapPages(from, to int64) error {
	size := (to - from) * pageSize
	if err := p.driver.Map(p.base+uint64(from)*pageSize, size); err != nil {
		return err
	}
	p.stats.Reserved.Add(size)
	p.stats.DeviceAllocs++
	for int64(len(p.words))*64 < to {
		p.words = append(p.words, 0)
	}
	for q := from; q < to; q++ {
		p.words[q/64] |= 1 << (q % 64)
	}
	p.held += to - from
	return nil
}

// unmapPages gives the memory of the pages [from, to) back, all of which have some.
func (p *pages) unmapPages(from, to int64) {
	size := (to - from) * pageSize
	p.driver.Unmap(p.base+uint64(from)*pageSize, size)
	p.stats.Reserved.Add(-size)
	p.stats.DeviceFrees++
	for q := from; q < to; q++ {
		p.words[q/64] &^= 1 << (q % 64)
	}
	p.held -= to - from
}

// back gives memory to the lowest of the pages [from, to) that have none, as many as n and as the driver
// allows, and says how many got some.
func (p *pages) back(from, to, n int64) (got int64) {
	for q := from; got < n; {
		q = p.next(q, to, false)
		if q == to {
			return got
		}
		end := min(p.next(q, to, true), q+n-got)
		// The driver gives all of a run or nothing: what it refuses is asked for page by page.
		if end-q > 1 && p.mapPages(q, end) != nil {
			end = q + 1
		}
		if !p.has(q) && p.mapPages(q, end) != nil {
			return got
		}
		got += end - q
		q = end
	}
	return got
}

// boundless is the driver of an allocator that was given none: a device without limit, whose
// reservations lie one behind the other from 0.
type boundless struct{ end uint64 }

func (b *boundless) Reserve(size int64) (uint64, error) {
	addr := b.end
	b.end += uint64(size)
	return addr, nil
}

func (b *boundless) Alloc(size int64) (uint64, error) { return b.Reserve(size) }
func (b *boundless) Free(uint64, int64)               {}
func (b *boundless) Release(uint64, int64)            {}
func (b *boundless) Map(uint64, int64) error          { return nil }
func (b *boundless) Unmap(uint64, int64)              {}
func (b *boundless) Memory() (free, total int64)      { return 0, 0 }
