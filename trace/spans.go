package trace

import (
	"cmp"
	"slices"
)

// spans is a set of address ranges, kept sorted. It is meant for the segments of a device: some thousand
// at most. work counts the entries that were moved to keep the order, so that a user can give up on more.
type spans struct {
	list []addrRange // disjoint; neighbours that touch may be separate
	work int
}

type addrRange struct{ from, to uint64 }

// holds reports whether an address is in the set.
func (s *spans) holds(addr uint64) bool {
	i := s.after(addr)
	return i > 0 && addr < s.list[i-1].to
}

// after is the index of the first range that begins behind addr.
func (s *spans) after(addr uint64) int {
	i, _ := slices.BinarySearchFunc(s.list, addr, func(r addrRange, a uint64) int {
		if r.from <= a {
			return -1
		}
		return cmp.Compare(r.from, a)
	})
	return i
}

func (s *spans) add(from, to uint64) {
	if from >= to {
		return
	}
	s.remove(from, to)
	i := s.after(from)
	s.work += len(s.list) - i
	s.list = slices.Insert(s.list, i, addrRange{from, to})
}

func (s *spans) remove(from, to uint64) {
	if from >= to {
		return
	}
	i := s.after(from)
	if i > 0 && s.list[i-1].to > from {
		i--
	}
	j := i
	var rest [2]addrRange
	n := 0
	for ; j < len(s.list) && s.list[j].from < to; j++ {
		if r := s.list[j]; r.from < from {
			rest[n] = addrRange{r.from, from}
			n++
		}
		if r := s.list[j]; r.to > to {
			rest[n] = addrRange{to, r.to}
			n++
		}
	}
	if i == j {
		return
	}
	s.work += len(s.list) - i
	s.list = slices.Replace(s.list, i, j, rest[:n]...)
}
