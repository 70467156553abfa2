package packing

import (
	"cmp"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
)

// The search for a packing of a given height. It is our own; from MiniMalloc it has the idea that only
// packings matter in which every buffer stands on the floor or on another one.
//
// # Structures
//
// Of all instants only those count at which no further buffer could be added to the ones that live: the
// sections, in the order of time. A buffer covers a range of sections, and two buffers overlap if and
// only if they share one. Buffers are placed from below. Every section has a floor, the height below
// which nothing more will be placed in it; the lowest offset that a buffer can still have is the highest
// floor of its sections.
//
// # One node
//
//  1. If the buffers that are left fall into groups that share no section, each group is a problem of its
//     own.
//  2. Each section is a machine and each of its buffers a job that cannot start before its lowest offset:
//     if one section cannot be done by the height that is allowed, the node is dead.
//  3. A section is chosen that has the lowest floor among all sections of the buffers that cover it. What
//     stands next on its floor is either a buffer all of whose sections have that floor, or nothing.
//     Among such sections the one with the fewest such buffers is taken, then the one with the least
//     room to spare.
//  4. If one of those buffers covers all others that overlap it, it can be put there without loss: any
//     packing stays one if that buffer is moved to the bottom and what was below it up.
//  5. Otherwise each is tried; and last, that nothing stands there: the floor rises to the next height at
//     which something could stand.
//
// Step 5 is complete: in a packing where everything stands on something, the next buffer above the floor
// either begins at the floor, or on a buffer that is placed, or on one that is not placed yet and does not
// cover the section.
//
// # Restarts
//
// A search that has gone wrong early seldom recovers, and which one goes right is a matter of luck. So
// there are many, each with another order in which the buffers of step 5 are tried, their lengths in the
// proportions of Luby, Sinclair and Zuckerman (Optimal Speedup of Las Vegas Algorithms, 1993). What they
// learn from each other is in which sections step 2 failed, and how often: half of them divide the count
// of step 3 by it, a quarter try the buffers of such sections first.

// maxSearch is the number of buffers above which a node costs too much for a search to make sense.
const maxSearch = 5000

// Verdict is how a search ended.
type Verdict uint8

// The verdicts.
const (
	GaveUp     Verdict = iota // the nodes were used up
	Solved                    // there is a packing
	Infeasible                // there is none
)

func (v Verdict) String() string { return [...]string{"gave up", "solved", "infeasible"}[v] }

// Solve looks for a packing of at most the given height, at no more than the given number of nodes. It
// gives the offsets if there is one, and the nodes used.
func Solve(buffers []Buffer, capacity, nodes int64) (offsets []int64, used int64, v Verdict) {
	if Bound(buffers) > capacity {
		return nil, 0, Infeasible
	}
	s := newSearch(buffers, capacity)
	for round := 0; used < nodes; round++ {
		s.reset(round)
		s.nodes, s.limit = 0, min(shortest*luby(round+1), nodes-used)
		ok := s.solve(s.all())
		used += s.nodes
		if ok {
			return s.offset, used, Solved
		}
		if !s.spent() {
			return nil, used, Infeasible
		}
	}
	return nil, used, GaveUp
}

// luby is the i-th number, from 1, of the series 1 1 2 1 1 2 4 1 1 2 1 1 2 4 8 ….
func luby(i int) int64 {
	k := bits.Len(uint(i))
	if i == 1<<k-1 {
		return 1 << (k - 1)
	}
	return luby(i - 1<<(k-1) + 1)
}

const (
	shortest = 1000 // nodes of the shortest search
	seed     = 3
)

// orders are ways to value a buffer: the higher, the earlier it is tried.
var orders = []func(width, size float64) float64{
	func(w, s float64) float64 { return w + s*1e-15 },
	func(w, s float64) float64 { return w * s },
	func(_, s float64) float64 { return s },
	func(w, s float64) float64 { return w - s*1e-15 },
}

type search struct {
	capacity int64
	boxes    []box
	cover    [][]int32 // by section: the boxes that cover it

	offset []int64 // by box, unplaced for one that is not placed
	low    []int64 // by box: its lowest offset, for those not placed
	floor  []int64 // by section
	left   []int64 // by section: sizes of the boxes not placed

	value    []float64 // by box: the order in which they are tried
	failures []float64 // by section: how often it was the one that could not be done
	weighted bool

	nodes, limit int64
	done         []int64 // scratch, by section
	reach        []int32 // scratch, by section
	around       []extent
}

type box struct {
	from, to int32 // sections, half open
	size     int64
}

const unplaced = -1

func newSearch(buffers []Buffer, capacity int64) *search {
	s := &search{capacity: capacity}
	s.boxes = sections(buffers)
	n := int32(0)
	for _, b := range s.boxes {
		n = max(n, b.to)
	}
	s.cover = make([][]int32, n)
	for i, b := range s.boxes {
		for k := b.from; k < b.to; k++ {
			s.cover[k] = append(s.cover[k], int32(i))
		}
	}
	s.offset = make([]int64, len(buffers))
	s.low = make([]int64, len(buffers))
	s.value = make([]float64, len(buffers))
	s.floor = make([]int64, n)
	s.left = make([]int64, n)
	s.done = make([]int64, n)
	s.reach = make([]int32, n)
	s.around = make([]extent, n)
	s.failures = make([]float64, n)
	for k := range s.failures {
		s.failures[k] = 1
	}
	return s
}

// sections numbers the instants at which a buffer has begun since the last one and one ends at the next,
// and gives the range of them in which each buffer lives. A buffer without a life has none.
func sections(buffers []Buffer) []box {
	type edge struct {
		time  int64
		begin bool
		i     int
	}
	edges := make([]edge, 0, 2*len(buffers))
	for i, b := range buffers {
		if b.Lower < b.Upper {
			edges = append(edges, edge{b.Lower, true, i}, edge{b.Upper, false, i})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int {
		end := func(e edge) int {
			if e.begin {
				return 1
			}
			return 0
		}
		return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(end(a), end(b)), cmp.Compare(a.i, b.i))
	})
	boxes := make([]box, len(buffers))
	section := int32(0)
	for n, e := range edges {
		if e.begin {
			boxes[e.i] = box{from: section, size: buffers[e.i].Size}
			continue
		}
		if n > 0 && edges[n-1].begin {
			section++ // the instant before this end is a section
		}
		boxes[e.i].to = section
	}
	return boxes
}

// reset begins anew, with the order of the round.
func (s *search) reset(round int) {
	s.weighted = round>>2&1 == 1
	noise := 0.0
	if round >= 8 {
		noise = []float64{1, 0.3}[round>>3&1]
	}
	learned := round>>4&1 == 1
	clear(s.floor)
	clear(s.left)
	clear(s.low)
	random := rand.New(rand.NewPCG(uint64(round), seed))
	for i, b := range s.boxes {
		s.offset[i] = unplaced
		v := orders[round%len(orders)](float64(b.to-b.from), float64(b.size))
		worst := 1.0
		for k := b.from; k < b.to; k++ {
			s.left[k] += b.size
			worst = max(worst, s.failures[k])
		}
		if learned {
			v *= math.Sqrt(worst)
		}
		s.value[i] = v * (1 + noise*random.Float64())
	}
}

// all is the boxes of the problem; those without a section can be anywhere.
func (s *search) all() []int32 {
	var ids []int32
	for i, b := range s.boxes {
		if b.from == b.to {
			s.offset[i] = 0
		} else {
			ids = append(ids, int32(i))
		}
	}
	return ids
}

func (s *search) spent() bool { return s.nodes > s.limit }

// solve places the boxes, none of which is placed. If it cannot, their offsets and left are as before;
// floors and lows of their sections may not be.
func (s *search) solve(ids []int32) bool {
	if len(ids) == 0 {
		return true
	}
	if s.nodes++; s.spent() || !s.feasible(ids) {
		return false
	}
	if groups := s.groups(ids); groups != nil {
		for i, g := range groups {
			if !s.solve(g) {
				for _, g := range groups[:i] {
					s.remove(g)
				}
				return false
			}
		}
		return true
	}
	k := s.choose(ids)
	floor := s.floor[k]
	var next []int32 // what can stand on the floor
	for _, b := range s.cover[k] {
		if s.offset[b] == unplaced && s.low[b] == floor {
			next = append(next, b)
		}
	}
	for _, b := range next {
		if s.coversAll(b, ids) {
			return s.try(ids, func() []int32 { return s.place(ids, b, floor) }, b)
		}
	}
	slices.SortStableFunc(next, func(a, b int32) int { return cmp.Compare(s.value[b], s.value[a]) })
	for i, b := range next {
		if slices.ContainsFunc(next[:i], func(a int32) bool { return s.boxes[a] == s.boxes[b] }) {
			continue // the same again
		}
		if s.try(ids, func() []int32 { return s.place(ids, b, floor) }, b) {
			return true
		}
		if s.spent() {
			return false
		}
	}
	up := s.above(k, ids)
	if up > s.capacity-s.left[k] {
		return false
	}
	return s.try(ids, func() []int32 { return s.raise(ids, k, up) }, unplaced)
}

// feasible is step 2. It leaves ids in the order of their lowest offsets.
func (s *search) feasible(ids []int32) bool {
	for i := 1; i < len(ids); i++ { // nearly sorted already
		b, j := ids[i], i
		for ; j > 0 && s.low[ids[j-1]] > s.low[b]; j-- {
			ids[j] = ids[j-1]
		}
		ids[j] = b
	}
	for _, b := range ids {
		x := &s.boxes[b]
		copy(s.done[x.from:x.to], s.floor[x.from:x.to])
	}
	for _, b := range ids {
		x := &s.boxes[b]
		low := s.low[b]
		done := s.done[x.from:x.to]
		for k, d := range done {
			d = max(d, low) + x.size
			if d > s.capacity {
				s.failures[int(x.from)+k]++
				return false
			}
			done[k] = d
		}
	}
	return true
}

// groups splits the boxes into those that share sections; nil if they are one group. The smallest comes
// first.
func (s *search) groups(ids []int32) [][]int32 {
	first, last := int32(len(s.reach)), int32(0)
	for _, b := range ids {
		first, last = min(first, s.boxes[b].from), max(last, s.boxes[b].to)
	}
	reach := s.reach[first:last]
	clear(reach)
	for _, b := range ids {
		x := &s.boxes[b]
		reach[x.from-first] = max(reach[x.from-first], x.to)
	}
	n, end := int32(0), first // groups begun, end of the present one
	for k, to := range reach {
		if int32(k)+first >= end && to > 0 {
			n++
		}
		end = max(end, to)
		reach[k] = n // from here on: the group of the section
	}
	if n == 1 {
		return nil
	}
	groups := make([][]int32, n)
	for _, b := range ids {
		g := &groups[reach[s.boxes[b].from-first]-1]
		*g = append(*g, b)
	}
	slices.SortStableFunc(groups, func(a, b []int32) int { return cmp.Compare(len(a), len(b)) })
	return groups
}

// choose is step 3.
func (s *search) choose(ids []int32) int32 {
	first, last := int32(len(s.floor)), int32(0)
	for _, b := range ids {
		first, last = min(first, s.boxes[b].from), max(last, s.boxes[b].to)
	}
	around := s.around[first:last]
	for i := range around {
		around[i] = extent{from: last, to: first}
	}
	for _, b := range ids {
		x := &s.boxes[b]
		low := s.low[b]
		floor := s.floor[x.from:x.to]
		around := s.around[x.from:x.to]
		for i, f := range floor {
			a := &around[i]
			if low == f {
				a.next++
			}
			a.from, a.to = min(a.from, x.from), max(a.to, x.to)
		}
	}
	best, least := int32(-1), 0.0
	for i := range around {
		a, k := &around[i], first+int32(i)
		if a.to <= k { // nothing is left in it
			continue
		}
		spare := float64(s.capacity-s.floor[k]-s.left[k]) / float64(s.capacity)
		score := float64(a.next)
		if spare > 0 {
			score += 0.5 // for the choice of leaving a gap
		}
		if s.weighted {
			score /= s.failures[k]
		}
		score += spare * 1e-3
		if (best < 0 || score < least) && !s.lower(a.from, a.to, s.floor[k]) {
			best, least = k, score
		}
	}
	return best
}

// An extent is what the boxes that cover a section and are not placed say of it.
type extent struct {
	next     int32 // how many can stand on its floor
	from, to int32 // the sections that they cover together
}

// lower reports whether a section in which something is left has a floor below the given one.
func (s *search) lower(from, to int32, floor int64) bool {
	for k := from; k < to; k++ {
		if s.floor[k] < floor && s.left[k] > 0 {
			return true
		}
	}
	return false
}

// coversAll is the condition of step 4.
func (s *search) coversAll(b int32, ids []int32) bool {
	x := &s.boxes[b]
	for _, c := range ids {
		y := &s.boxes[c]
		if y.from < x.to && x.from < y.to && (y.from < x.from || y.to > x.to) {
			return false
		}
	}
	return true
}

// above is the next height above its floor at which something can stand in section k, given that nothing
// stands on the floor.
func (s *search) above(k int32, ids []int32) int64 {
	up := int64(1) << 62
	from, to := k, k // the sections of what could stand on the floor and shall not
	for _, b := range s.cover[k] {
		switch {
		case s.offset[b] != unplaced:
		case s.low[b] > s.floor[k]:
			up = min(up, s.low[b])
		default:
			from, to = min(from, s.boxes[b].from), max(to, s.boxes[b].to)
		}
	}
	for _, c := range ids { // that will stand on a box which does not cover k
		if y := &s.boxes[c]; y.to > from && y.to <= k || y.from > k && y.from < to {
			up = min(up, s.low[c]+y.size)
		}
	}
	return up
}

// try makes a change, solves what is left, and undoes the change if that fails. b is the box that the
// change places, or unplaced.
func (s *search) try(ids []int32, change func() []int32, b int32) bool {
	first, last := int32(len(s.floor)), int32(0)
	lows := make([]int64, len(ids))
	for i, c := range ids {
		lows[i] = s.low[c]
		first, last = min(first, s.boxes[c].from), max(last, s.boxes[c].to)
	}
	kept := slices.Clone(ids) // deeper nodes sort their own copies, groups share this one
	floors := slices.Clone(s.floor[first:last])
	if s.solve(change()) {
		return true
	}
	if b != unplaced {
		s.remove([]int32{b})
	}
	copy(s.floor[first:last], floors)
	for i, c := range kept {
		s.low[c] = lows[i]
	}
	return false
}

// place puts a box at an offset and gives the boxes that are left.
func (s *search) place(ids []int32, b int32, offset int64) []int32 {
	x := &s.boxes[b]
	top := offset + x.size
	s.offset[b] = offset
	for k := x.from; k < x.to; k++ {
		s.floor[k] = top
		s.left[k] -= x.size
	}
	rest := make([]int32, 0, len(ids)-1)
	for _, c := range ids {
		if c == b {
			continue
		}
		rest = append(rest, c)
		if y := &s.boxes[c]; y.from < x.to && x.from < y.to {
			s.low[c] = max(s.low[c], top)
		}
	}
	return rest
}

// raise lifts the floor of a section.
func (s *search) raise(ids []int32, k int32, floor int64) []int32 {
	s.floor[k] = floor
	for _, c := range s.cover[k] {
		if s.offset[c] == unplaced {
			s.low[c] = max(s.low[c], floor)
		}
	}
	return slices.Clone(ids)
}

// remove takes boxes out again.
func (s *search) remove(ids []int32) {
	for _, b := range ids {
		if s.offset[b] == unplaced {
			continue
		}
		s.offset[b] = unplaced
		x := &s.boxes[b]
		for k := x.from; k < x.to; k++ {
			s.left[k] += x.size
		}
	}
}
