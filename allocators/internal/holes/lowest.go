package holes

import "slices"

const (
	placeBits    = 4
	clusterHoles = 1 << placeBits
	groupSize    = 16 // clusters of a group

	noKey = ^uint64(0)
)

// Lowest is a set of pieces of a chain that finds the lowest that is large enough. Holes that are near each
// other are in one cluster, in no order. A search looks at all holes of a cluster and never asks whether it
// could stop: for so few that is less work for a processor than to guess wrong which way a comparison goes.
//
// Every address belongs to one cluster: order[c] is the one with the holes between first[c] and first[c+1].
// What a search asks of clusters is in arrays of their own, in their order:
//
//	first[0] == 0, first grows, and ends with one more that is above all addresses
//	no hole of cluster order[c] is larger than limit[c], and no limit of group g is above top[g]
//	places of a cluster that are not used have size -1
//
// limit and top are not kept exact where a hole shrinks or goes: the search that they mislead corrects them.
//
// The pieces are of one range, their addresses below 2^60, and no two of them touch. Make one with
// NewLowest.
type Lowest struct {
	clusters []cluster // by number; 0 is not used, so that Piece.a is 0 for pieces outside the set
	spare    []uint32  // numbers to use again

	order []uint32
	first []uint64
	limit []int64 // bytes
	top   []int64 // bytes; group g are the clusters from g*groupSize on

	near int // where the last cut was, as an index of order
}

// A cluster has up to clusterHoles holes.
type cluster struct {
	n    int                  // places used, from 0 on
	at   int                  // its index in order
	key  [clusterHoles]uint64 // address, and the place itself in the low bits
	size [clusterHoles]int64
	id   [clusterHoles]uint32
}

// NewLowest is an empty set.
func NewLowest() Lowest {
	s := Lowest{clusters: make([]cluster, 1)}
	s.order, s.first, s.limit = []uint32{s.number()}, []uint64{0, noKey}, []int64{0}
	s.reindex(0)
	return s
}

// number is an empty cluster.
func (s *Lowest) number() uint32 {
	var n uint32
	if last := len(s.spare) - 1; last >= 0 {
		n = s.spare[last]
		s.spare = s.spare[:last]
	} else {
		n = uint32(len(s.clusters))
		s.clusters = append(s.clusters, cluster{})
	}
	k := &s.clusters[n]
	k.n = 0
	for i := range k.size {
		k.size[i] = -1
	}
	return n
}

// reindex brings up to date what depends on the order of clusters, from c on.
func (s *Lowest) reindex(c int) {
	for i := c; i < len(s.order); i++ {
		s.clusters[s.order[i]].at = i
	}
	groups := (len(s.order) + groupSize - 1) / groupSize
	for len(s.top) < groups {
		s.top = append(s.top, 0)
	}
	s.top = s.top[:groups]
	for g := c / groupSize; g < groups; g++ {
		s.top[g] = slices.Max(s.limit[g*groupSize : min((g+1)*groupSize, len(s.limit))])
	}
}

// clusterOf is where in the order the cluster of an address is.
func (s *Lowest) clusterOf(addr uint64) int {
	c, n := 0, len(s.order)
	for n > 1 {
		half := n >> 1
		if s.first[c+half] <= addr {
			c += half
		}
		n -= half
	}
	return c
}

// find is the key of the lowest hole at or above from that has at least size bytes, less from; noKey or
// close below it if there is none.
func (k *cluster) find(size int64, from uint64) uint64 {
	best := noKey
	for i := 0; i < clusterHoles; i += 4 {
		// An address below from is a large one after the subtraction.
		k0, k1, k2, k3 := k.key[i]-from, k.key[i+1]-from, k.key[i+2]-from, k.key[i+3]-from
		if k.size[i] < size {
			k0 = noKey
		}
		if k.size[i+1] < size {
			k1 = noKey
		}
		if k.size[i+2] < size {
			k2 = noKey
		}
		if k.size[i+3] < size {
			k3 = noKey
		}
		best = min(best, min(k0, k1), min(k2, k3))
	}
	return best
}

func (k *cluster) largest() int64 {
	n := k.size[0]
	for _, size := range k.size[1:] {
		n = max(n, size)
	}
	return max(n, 0)
}

// Cut takes a block from the low end of the lowest piece that has at least size bytes, among those that
// begin at or above from. It is None if there is no such piece.
func (s *Lowest) Cut(ch *Chain, size int64, from uint64) uint32 {
	k, i := s.find(size, from)
	if k == nil {
		return None
	}
	s.near = k.at
	return s.CutPiece(ch, k.id[i], size)
}

// CutPiece takes a block from the low end of a piece that is large enough.
func (s *Lowest) CutPiece(ch *Chain, id uint32, size int64) uint32 {
	p := &ch.pieces[id]
	if p.Size == size {
		s.Remove(ch, id)
		return id
	}
	k := &s.clusters[p.a]
	i := p.b % clusterHoles
	k.key[i] += uint64(size) << placeBits
	k.size[i] -= size
	return ch.SplitLow(id, size)
}

// find is the cluster and the place in it of the piece that Cut cuts, nil if there is none.
func (s *Lowest) find(size int64, from uint64) (k *cluster, i uint64) {
	c := 0
	if from > 0 {
		if c = s.near; c+1 >= len(s.first) || s.first[c] > from || from >= s.first[c+1] {
			c = s.clusterOf(from)
		}
		if s.limit[c] >= size {
			k := &s.clusters[s.order[c]]
			from <<= placeBits
			if best := k.find(size, from) + from; best >= from && best != noKey {
				return k, best % clusterHoles
			}
		}
		c++
	}
	for g := c / groupSize; g < len(s.top); g++ {
		if s.top[g] < size {
			c = (g + 1) * groupSize
			continue
		}
		whole := c == g*groupSize
		end := min((g+1)*groupSize, len(s.limit))
		for ; c < end; c++ {
			if s.limit[c] < size {
				continue
			}
			k := &s.clusters[s.order[c]]
			if best := k.find(size, 0); best != noKey {
				return k, best % clusterHoles
			}
			s.limit[c] = k.largest()
		}
		if whole {
			s.top[g] = slices.Max(s.limit[g*groupSize : end])
		}
	}
	return nil, 0
}

// Put makes a piece free, and one piece of it and those beside it that are free.
func (s *Lowest) Put(ch *Chain, id uint32) {
	p := &ch.pieces[id]
	before, after := p.Prev, p.Next
	switch prev, next := &ch.pieces[before], &ch.pieces[after]; {
	case prev.Free():
		if next.Free() {
			s.Remove(ch, after)
			ch.Join(id)
		}
		ch.Join(before)
		k := &s.clusters[prev.a]
		k.size[prev.b%clusterHoles] = prev.Size
		s.raise(k.at, prev)
	case next.Free():
		ch.JoinLow(after)
		k := &s.clusters[next.a]
		i := next.b % clusterHoles
		k.key[i] = next.Addr<<placeBits | uint64(i)
		k.size[i] = next.Size
		s.raise(k.at, next)
		s.first[k.at] = min(s.first[k.at], next.Addr)
	default:
		at := s.clusterOf(p.Addr)
		if s.clusters[s.order[at]].n == clusterHoles {
			s.split(ch, at)
			at = s.clusterOf(p.Addr)
		}
		s.clusters[s.order[at]].add(s.order[at], id, p)
		s.raise(at, p)
	}
}

// raise makes the bounds of a cluster hold for a piece that came into it or has grown.
func (s *Lowest) raise(c int, p *Piece) {
	s.limit[c] = max(s.limit[c], p.Size)
	g := c / groupSize
	s.top[g] = max(s.top[g], p.Size)
	s.first[c+1] = max(s.first[c+1], p.Addr+uint64(p.Size))
}

// add puts a piece into a cluster, which has room.
func (k *cluster) add(number, id uint32, p *Piece) {
	i := k.n % clusterHoles
	k.n++
	k.key[i] = p.Addr<<placeBits | uint64(i)
	k.size[i] = p.Size
	k.id[i] = id
	p.a, p.b = number, uint32(i)
}

// Remove takes a piece out of the set, which must have it.
func (s *Lowest) Remove(ch *Chain, id uint32) {
	p := &ch.pieces[id]
	k := &s.clusters[p.a]
	p.a = 0
	k.n--
	last := k.n % clusterHoles
	i := p.b % clusterHoles
	moved := k.id[last]
	ch.pieces[moved].b = i
	k.key[i] = k.key[last]&^(clusterHoles-1) | uint64(i)
	k.size[i] = k.size[last]
	k.id[i] = moved
	k.size[last] = -1
	if k.n == 0 && len(s.order) > 1 {
		s.drop(k.at)
	}
}

// split moves the upper half of a full cluster to a new one behind it.
func (s *Lowest) split(ch *Chain, c int) {
	n, up := s.order[c], s.number()
	old := s.clusters[n]
	s.spare = append(s.spare, n)
	s.number() // the same one, emptied
	slices.Sort(old.key[:])
	for j, key := range old.key {
		to := n
		if j >= clusterHoles/2 {
			to = up
		}
		id := old.id[key%clusterHoles]
		s.clusters[to].add(to, id, &ch.pieces[id])
	}
	s.order = insert(s.order, c+1, up)
	s.first = insert(s.first, c+1, old.key[clusterHoles/2]>>placeBits)
	s.limit = insert(s.limit, c+1, s.limit[c])
	s.reindex(c)
}

// drop removes an empty cluster that is not the only one. Its addresses go to the one before it.
func (s *Lowest) drop(c int) {
	s.spare = append(s.spare, s.order[c])
	s.order, s.first, s.limit = erase(s.order, c), erase(s.first, c), erase(s.limit, c)
	s.first[0] = 0
	s.reindex(c)
}

// Largest is the size of the largest piece. It looks at all of them.
func (s *Lowest) Largest() int64 {
	var n int64
	for c, number := range s.order {
		s.limit[c] = s.clusters[number].largest()
		n = max(n, s.limit[c])
	}
	return n
}
