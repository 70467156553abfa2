package sim

import (
	"cmp"
	"slices"
)

// chunk is a range that the driver took from the system.
//
//	size(chunk) = blocks in use + holes; the holes are disjoint, sorted and not adjacent
type chunk struct {
	span
	holes   []span
	largest uint64 // bytes of the largest hole
	high    uint64 // end of the highest block there has been
	made    uint64 // chunks made before it
	slot    int
}

// addHole makes a free range of the chunk a hole, merged with its neighbours.
func (c *chunk) addHole(s span) {
	i, _ := slices.BinarySearchFunc(c.holes, s.start, func(h span, a uint64) int {
		if h.start < a {
			return -1
		}
		return 1
	})
	before := i > 0 && c.holes[i-1].end == s.start
	after := i < len(c.holes) && c.holes[i].start == s.end
	switch {
	case before && after:
		c.holes[i-1].end = c.holes[i].end
		c.holes = slices.Delete(c.holes, i, i+1)
		c.largest = max(c.largest, c.holes[i-1].size())
	case before:
		c.holes[i-1].end = s.end
		c.largest = max(c.largest, c.holes[i-1].size())
	case after:
		c.holes[i].start = s.start
		c.largest = max(c.largest, c.holes[i].size())
	default:
		c.holes = slices.Insert(c.holes, i, s)
		c.largest = max(c.largest, s.size())
	}
}

// takeFrom takes n bytes at the low end of a hole that has them.
func (c *chunk) takeFrom(hole int, n uint64) {
	h := &c.holes[hole]
	largest := h.size() == c.largest
	h.start += n
	c.high = max(c.high, h.start)
	if h.size() == 0 {
		c.holes = slices.Delete(c.holes, hole, hole+1)
	}
	if largest {
		c.measure()
	}
}

// smallest is the index of the hole that n bytes go into: the smallest that has them, the lowest of
// equals, -1 for none.
func (c *chunk) smallest(n uint64) int {
	best := -1
	for i, h := range c.holes {
		if h.size() >= n && (best < 0 || h.size() < c.holes[best].size()) {
			best = i
		}
	}
	return best
}

// removeHoles takes what is free of a range out of the holes, and reports whether that was anything.
func (c *chunk) removeHoles(s span) bool {
	rest := subtract(c.holes, s)
	if slices.Equal(rest, c.holes) {
		return false
	}
	c.holes = rest
	c.measure()
	return true
}

func (c *chunk) measure() {
	c.largest = 0
	for _, h := range c.holes {
		c.largest = max(c.largest, h.size())
	}
}

// chunkList holds the chunks in the order in which they were made. Slots of chunks that are gone stay
// empty until the list is full and packed again. Over the slots stands a tree of the largest holes, so
// that the newest chunk with enough room is found in a few steps however many there are:
//
//	tree[1] is the root, tree[i] = max(tree[2i], tree[2i+1]), slot s is the leaf len(slots)+s
type chunkList struct {
	slots []*chunk
	tree  []uint64
	next  int      // the first slot never used since the list was packed
	made  uint64   // chunks made so far
	spare []*chunk // removed chunks, kept for their memory
}

// add makes a chunk, full, the newest.
func (l *chunkList) add(s span) *chunk {
	if l.next == len(l.slots) {
		l.pack()
	}
	var c *chunk
	if n := len(l.spare); n > 0 {
		c = l.spare[n-1]
		l.spare = l.spare[:n-1]
	} else {
		c = &chunk{}
	}
	*c = chunk{span: s, holes: c.holes[:0], high: s.start, made: l.made, slot: l.next}
	l.slots[c.slot] = c
	l.next++
	l.made++
	return c
}

// restore makes a chunk, full, as old as one that is gone: the order of the others is kept.
func (l *chunkList) restore(s span, made uint64) *chunk {
	c := l.add(s)
	c.made = made
	live := slices.DeleteFunc(slices.Clone(l.slots), func(c *chunk) bool { return c == nil })
	slices.SortStableFunc(live, func(a, b *chunk) int { return cmp.Compare(a.made, b.made) })
	l.fill(live)
	return c
}

// remove takes a chunk out of the list; it stays readable until the next add.
func (l *chunkList) remove(c *chunk) {
	l.slots[c.slot] = nil
	l.set(c.slot, 0)
	l.spare = append(l.spare, c)
}

// update must follow every change of a chunk's holes.
func (l *chunkList) update(c *chunk) { l.set(c.slot, c.largest) }

func (l *chunkList) set(slot int, v uint64) {
	i := len(l.slots) + slot
	l.tree[i] = v
	for i /= 2; i > 0; i /= 2 {
		m := max(l.tree[2*i], l.tree[2*i+1])
		if l.tree[i] == m {
			return
		}
		l.tree[i] = m
	}
}

// newestWith is the newest chunk that has a hole of n bytes, nil for none.
func (l *chunkList) newestWith(n uint64) *chunk {
	if len(l.tree) == 0 || l.tree[1] < n {
		return nil
	}
	i := 1
	for i < len(l.slots) {
		i = 2*i + 1
		if l.tree[i] < n {
			i--
		}
	}
	return l.slots[i-len(l.slots)]
}

// pack moves the chunks together and makes room for as many again.
func (l *chunkList) pack() {
	l.fill(slices.DeleteFunc(slices.Clone(l.slots), func(c *chunk) bool { return c == nil }))
}

// fill makes the list be the given chunks, in a power of two of slots.
func (l *chunkList) fill(live []*chunk) {
	size := 64
	for size < 2*len(live) {
		size *= 2
	}
	l.slots, l.tree, l.next = make([]*chunk, size), make([]uint64, 2*size), len(live)
	for i, c := range live {
		c.slot = i
		l.slots[i] = c
		l.tree[size+i] = c.largest
	}
	for i := size - 1; i > 0; i-- {
		l.tree[i] = max(l.tree[2*i], l.tree[2*i+1])
	}
}

// overlapping lists the chunks that share bytes with a range, oldest first. It looks at all of them:
// for events, which are few.
func (l *chunkList) overlapping(s span) []*chunk {
	var out []*chunk
	for _, c := range l.slots[:l.next] {
		if c != nil && c.overlaps(s) {
			out = append(out, c)
		}
	}
	return out
}
