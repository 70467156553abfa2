// Package holes keeps the free ranges of an address space and finds one for a request.
//
// Chain has the pieces that ranges are cut into, handed out or free, so that a piece that becomes free
// finds its neighbours. The free ones of them are in a set: Lowest finds the lowest that is large enough,
// for first fit and next fit, and BySize the smallest, for best fit.
//
// ByAddr is for those who know ranges by their addresses alone: it holds the free ones in their order.
package holes

const (
	// chunkCap is how many holes lie side by side. A search looks at one number for each chunk and then
	// at the holes of one chunk.
	chunkCap = 32
	// nowhere is the address in the unused places of a chunk: above all real ones, so that a search need
	// not know how many are used.
	nowhere = uint64(1)<<63 - 1
)

// ByAddr is a set of disjoint holes in the order of their addresses; no two touch. It is a list of chunks
// of up to chunkCap holes, with what a search asks of a chunk in arrays of their own:
//
//	first[c] == chunks[c].holes[0].addr
//	chunks[c].holes[chunks[c].n:] are at nowhere
//	no hole of chunks[c] is larger than limit[c]
//
// limit is not kept exact when a hole shrinks: the search that it misleads has just looked at every hole
// of the chunk, and corrects it then.
//
// The zero value is an empty set.
type ByAddr struct {
	first  []uint64
	limit  []int64
	chunks []*chunk
}

type chunk struct {
	n     int
	holes [chunkCap]hole
}

type hole struct {
	addr uint64
	size int64
}

// newChunk is a chunk of the given holes.
func newChunk(holes []hole) *chunk {
	k := &chunk{n: len(holes)}
	for i := copy(k.holes[:], holes); i < chunkCap; i++ {
		k.holes[i].addr = nowhere
	}
	return k
}

// A Place is where Find found a hole. It is valid until the set changes.
type Place struct{ c, i int }

// locate is the last chunk whose first hole is at or below addr, or 0.
func (h *ByAddr) locate(addr uint64) int {
	low, high := 0, len(h.first) // first[low] <= addr < first[high], as far as they exist
	for high-low > 1 {
		if mid := int(uint(low+high) >> 1); h.first[mid] <= addr {
			low = mid
		} else {
			high = mid
		}
	}
	return low
}

// below is how many holes of the chunk begin below addr. It counts, first every eighth, then the eight
// behind those: which way a binary search turns cannot be foreseen, and processors are slow where they
// guess wrong.
func (k *chunk) below(addr uint64) int {
	const group = 8
	full := 0
	for i := group - 1; i < chunkCap; i += group {
		full += int((k.holes[i].addr - addr) >> 63) // 1 if it is below
	}
	if full == chunkCap/group {
		return chunkCap
	}
	n := full * group
	for _, h := range k.holes[n : n+group] {
		n += int((h.addr - addr) >> 63)
	}
	return n
}

// Find is the hole with the lowest address, among those that begin at or above from, that has at least
// size bytes.
func (h *ByAddr) Find(size int64, from uint64) (p Place, ok bool) {
	c := 0
	if from > 0 && len(h.chunks) > 0 {
		c = h.locate(from)
		if h.limit[c] >= size {
			k := h.chunks[c]
			for i := k.below(from); i < k.n; i++ {
				if k.holes[i].size >= size {
					return Place{c, i}, true
				}
			}
		}
		c++
	}
	for ; c < len(h.limit); c++ {
		if h.limit[c] < size {
			continue
		}
		k := h.chunks[c]
		for i := range k.holes[:k.n] {
			if k.holes[i].size >= size {
				return Place{c, i}, true
			}
		}
		h.limit[c] = k.largest()
	}
	return Place{}, false
}

// Take cuts size bytes from the low end of the hole and says where they are.
func (h *ByAddr) Take(p Place, size int64) uint64 {
	at := &h.chunks[p.c].holes[p.i]
	addr := at.addr
	if at.size == size {
		h.remove(p)
		return addr
	}
	at.addr += uint64(size)
	at.size -= size
	if p.i == 0 {
		h.first[p.c] = at.addr
	}
	return addr
}

// TakeAt cuts a given range out of the hole that holds all of it; false if there is none.
func (h *ByAddr) TakeAt(addr uint64, size int64) bool {
	if len(h.chunks) == 0 {
		return false
	}
	p := Place{c: h.locate(addr)}
	k := h.chunks[p.c]
	if p.i = k.below(addr+1) - 1; p.i < 0 {
		return false
	}
	at := &k.holes[p.i]
	before := int64(addr - at.addr)
	after := at.size - before - size
	if after < 0 {
		return false
	}
	switch {
	case before > 0:
		at.size = before
		if after > 0 {
			h.Put(addr+uint64(size), after)
		}
	default:
		h.Take(p, size)
	}
	return true
}

// Put adds a free range, which becomes one hole with those that it touches.
func (h *ByAddr) Put(addr uint64, size int64) {
	if len(h.chunks) == 0 {
		h.first, h.limit = append(h.first, addr), append(h.limit, size)
		h.chunks = append(h.chunks, newChunk([]hole{{addr, size}}))
		return
	}
	c := h.locate(addr)
	k := h.chunks[c]
	i := k.below(addr)
	next := Place{c, i} // the hole after it
	if i == k.n {
		next = Place{c + 1, 0}
	}
	var after *hole // the hole after it, if they touch
	if next.c < len(h.chunks) {
		if a := &h.chunks[next.c].holes[next.i]; a.addr == addr+uint64(size) {
			after = a
		}
	}
	if i > 0 {
		if before := &k.holes[i-1]; before.addr+uint64(before.size) == addr {
			if after != nil {
				size += after.size
				h.remove(next)
			}
			before.size += size
			h.limit[c] = max(h.limit[c], before.size)
			return
		}
	}
	if after != nil {
		after.addr = addr
		after.size += size
		h.limit[next.c] = max(h.limit[next.c], after.size)
		if next.i == 0 {
			h.first[next.c] = addr
		}
		return
	}
	if k.n == chunkCap {
		h.split(c)
		if i > chunkCap/2 {
			c, i = c+1, i-chunkCap/2
			k = h.chunks[c]
		}
	}
	copy(k.holes[i+1:k.n+1], k.holes[i:k.n])
	k.holes[i] = hole{addr, size}
	k.n++
	h.limit[c] = max(h.limit[c], size)
	if i == 0 {
		h.first[c] = addr
	}
}

// split moves the upper half of a full chunk to a new one behind it.
func (h *ByAddr) split(c int) {
	const half = chunkCap / 2
	k := h.chunks[c]
	up := newChunk(k.holes[half:])
	k.n = half
	for i := half; i < chunkCap; i++ {
		k.holes[i].addr = nowhere
	}
	h.first = insert(h.first, c+1, up.holes[0].addr)
	h.limit = insert(h.limit, c+1, h.limit[c])
	h.chunks = insert(h.chunks, c+1, up)
}

func (h *ByAddr) remove(p Place) {
	k := h.chunks[p.c]
	copy(k.holes[p.i:k.n-1], k.holes[p.i+1:k.n])
	k.n--
	k.holes[k.n].addr = nowhere
	if p.i == 0 {
		h.first[p.c] = k.holes[0].addr
	}
	if k.n < chunkCap/8 {
		h.shorten(p.c)
	}
}

// shorten gives a chunk that has become short the holes of the next one, or removes it if it is empty.
func (h *ByAddr) shorten(c int) {
	k := h.chunks[c]
	if k.n == 0 {
		h.drop(c)
		return
	}
	if c+1 == len(h.chunks) || h.chunks[c+1].n > chunkCap/2 {
		return
	}
	next := h.chunks[c+1]
	k.n += copy(k.holes[k.n:], next.holes[:next.n])
	h.limit[c] = max(h.limit[c], h.limit[c+1])
	h.drop(c + 1)
}

func (h *ByAddr) drop(c int) {
	h.first = erase(h.first, c)
	h.limit = erase(h.limit, c)
	h.chunks = erase(h.chunks, c)
}

// Last is the hole with the highest address; size is 0 if there is none.
func (h *ByAddr) Last() (addr uint64, size int64) {
	if len(h.chunks) == 0 {
		return 0, 0
	}
	k := h.chunks[len(h.chunks)-1]
	last := &k.holes[k.n-1]
	return last.addr, last.size
}

// DropLast removes the hole with the highest address.
func (h *ByAddr) DropLast() {
	if c := len(h.chunks) - 1; c >= 0 {
		h.remove(Place{c, h.chunks[c].n - 1})
	}
}

// Largest is the size of the largest hole. It looks at all of them.
func (h *ByAddr) Largest() int64 {
	var largest int64
	for c, k := range h.chunks {
		h.limit[c] = k.largest()
		largest = max(largest, h.limit[c])
	}
	return largest
}

func (k *chunk) largest() int64 {
	var largest int64
	for i := range k.holes[:k.n] {
		largest = max(largest, k.holes[i].size)
	}
	return largest
}

func insert[T any](s []T, i int, v T) []T {
	s = append(s, v)
	copy(s[i+1:], s[i:])
	s[i] = v
	return s
}

func erase[T any](s []T, i int) []T {
	copy(s[i:], s[i+1:])
	clear(s[len(s)-1:])
	return s[:len(s)-1]
}
