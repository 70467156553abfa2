package stream

// An order keeps free spans sorted by a number, their size or their address, and those of one number
// in the order in which they came.
//
// It is a list of sorted chunks: a search halves the chunks and then one chunk, an insertion moves
// part of one chunk. A pool has some thousand free spans at most, mostly much fewer, so that a tree
// has nothing to win: a chunk is one piece of memory, and a small order is one chunk.
type order struct{ chunks [][]entry }

type entry struct {
	n    int64  // what is sorted by
	born uint64 // when it came: later ones are larger
	id   int32  // the span
}

// chunkLen is where a chunk is cut in two.
const chunkLen = 32

// place is where an entry stands. Any change of the order makes it void.
type place struct{ chunk, at int }

// last is the entry of the largest number.
func (o *order) last() (entry, bool) {
	if len(o.chunks) == 0 {
		return entry{}, false
	}
	c := o.chunks[len(o.chunks)-1]
	return c[len(c)-1], true
}

// largest is the largest number, 0 if there is none.
func (o *order) largest() int64 {
	e, _ := o.last()
	return e.n
}

// ceil finds the entry of the smallest number that is not below n, of several the one that came first.
func (o *order) ceil(n int64) (entry, place, bool) {
	lo, hi := 0, len(o.chunks)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if c := o.chunks[mid]; c[len(c)-1].n < n {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == len(o.chunks) {
		return entry{}, place{}, false
	}
	c := o.chunks[lo]
	at := search(c, n, 0)
	return c[at], place{lo, at}, true
}

// add inserts an entry.
func (o *order) add(e entry) {
	if len(o.chunks) == 0 {
		o.chunks = append(o.chunks, append(make([]entry, 0, 4), e))
		return
	}
	lo, hi := 0, len(o.chunks)-1
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		c := o.chunks[mid]
		if l := &c[len(c)-1]; l.n < e.n || l.n == e.n && l.born < e.born {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	c := o.chunks[lo]
	at := search(c, e.n, e.born)
	c = append(c, entry{})
	copy(c[at+1:], c[at:])
	c[at] = e
	o.chunks[lo] = c
	if len(c) == chunkLen {
		o.split(lo)
	}
}

func (o *order) split(at int) {
	c := o.chunks[at]
	upper := append(make([]entry, 0, chunkLen), c[chunkLen/2:]...)
	o.chunks = append(o.chunks, nil)
	copy(o.chunks[at+2:], o.chunks[at+1:])
	o.chunks[at], o.chunks[at+1] = c[:chunkLen/2], upper
}

// remove takes an entry out. It must be there.
func (o *order) remove(n int64, born uint64) {
	lo, hi := 0, len(o.chunks)-1
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		c := o.chunks[mid]
		if e := &c[len(c)-1]; e.n < n || e.n == n && e.born < born {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	o.removeAt(place{lo, search(o.chunks[lo], n, born)})
}

func (o *order) removeAt(p place) {
	c := o.chunks[p.chunk]
	copy(c[p.at:], c[p.at+1:])
	c = c[:len(c)-1]
	if len(c) > 0 {
		o.chunks[p.chunk] = c
		return
	}
	copy(o.chunks[p.chunk:], o.chunks[p.chunk+1:])
	o.chunks[len(o.chunks)-1] = nil
	o.chunks = o.chunks[:len(o.chunks)-1]
}

// clear takes all entries out.
func (o *order) clear() {
	clear(o.chunks)
	o.chunks = o.chunks[:0]
}

// search finds the first entry of a chunk that is not below (n, born).
func search(c []entry, n int64, born uint64) int {
	lo, hi := 0, len(c)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if e := &c[mid]; e.n < n || e.n == n && e.born < born {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}
