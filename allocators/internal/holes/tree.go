package holes

// A bin of BySize with many pieces is a search tree through the pieces themselves:
//
//	the head's b is the root
//	pieces from a on  <  the piece  <  pieces from b on, by size, then address
//	rank(piece) >= rank of the two below it
//
// The head stands for a piece that is not there. The ranks are as good as random, which keeps the tree
// flat (Seidel and Aragon, Randomized Search Trees, 1996). A tree that has lost its last piece is a ring
// again.

func rank(id uint32) uint32 { return id * 0x9e3779b1 }

func (s *BySize) isTree(b uint32) bool { return s.tall[b>>6]>>(b&63)&1 != 0 }

// toTree makes a ring a tree.
func (s *BySize) toTree(c *Chain, b uint32) {
	s.trees++
	s.tall[b>>6] |= 1 << (b & 63)
	pieces := c.pieces
	head := s.base + b
	id := pieces[head].b
	pieces[head].b = head
	for id != head {
		next := pieces[id].b
		s.plant(c, b, id)
		id = next
	}
}

// plant adds a piece to a tree.
func (s *BySize) plant(c *Chain, b, id uint32) {
	pieces := c.pieces
	head := s.base + b
	p := &pieces[id]
	link := &pieces[head].b
	for *link != head && rank(*link) >= rank(id) {
		if q := &pieces[*link]; q.before(p) {
			link = &q.b
		} else {
			link = &q.a
		}
	}
	at := *link // the tree in whose place the piece comes; what is before it and behind it is parted
	*link = id
	lower, higher := &p.a, &p.b
	for at != head {
		if q := &pieces[at]; q.before(p) {
			*lower = at
			lower = &q.b
			at = q.b
		} else {
			*higher = at
			higher = &q.a
			at = q.a
		}
	}
	*lower, *higher = head, head
}

// fell takes a piece out of a tree.
func (s *BySize) fell(c *Chain, b, id uint32) {
	pieces := c.pieces
	head := s.base + b
	p := &pieces[id]
	link := &pieces[head].b
	for *link != id {
		if q := &pieces[*link]; q.before(p) {
			link = &q.b
		} else {
			link = &q.a
		}
	}
	lower, higher := p.a, p.b
	for lower != head && higher != head {
		if rank(lower) >= rank(higher) {
			*link = lower
			link = &pieces[lower].b
			lower = *link
		} else {
			*link = higher
			link = &pieces[higher].a
			higher = *link
		}
	}
	if lower == head {
		lower = higher
	}
	*link = lower
	p.a = 0
	if pieces[head].b == head {
		s.trees--
		s.tall[b>>6] &^= 1 << (b & 63)
		s.used[b>>6] &^= 1 << (b & 63)
		pieces[head].a = head
	}
}

// climb is the first piece of a tree that has at least size bytes, None if there is none.
func (s *BySize) climb(c *Chain, b uint32, size int64) uint32 {
	pieces := c.pieces
	head := s.base + b
	best := None
	for id := pieces[head].b; id != head; {
		if p := &pieces[id]; p.Size >= size {
			best, id = id, p.a
		} else {
			id = p.b
		}
	}
	return best
}

// tallest is the size of the last piece of a tree.
func (s *BySize) tallest(c *Chain, b uint32) int64 {
	pieces := c.pieces
	head := s.base + b
	id := pieces[head].b
	for pieces[id].b != head {
		id = pieces[id].b
	}
	return pieces[id].Size
}

// walk gives the pieces of a tree in order.
func (s *BySize) walk(c *Chain, id, head uint32, yield func(uint32) bool) bool {
	if id == head {
		return true
	}
	p := &c.pieces[id]
	return s.walk(c, p.a, head, yield) && yield(id) && s.walk(c, p.b, head, yield)
}
