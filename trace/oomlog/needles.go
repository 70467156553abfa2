package oomlog

// needleSet finds any of a set of strings in a text, ignoring case, much faster than one byte at a time.
// It is the method of Wu and Manber: look at the two bytes at the end of a window as long as the shortest
// string; a table tells how far the window can move without missing a string. Where those two bytes end
// no string at all, which is nearly everywhere in a log, the window moves by almost its length.
type needleSet struct {
	needles []needle
	window  int               // length of the shortest needle
	shift   [pairHashes]uint8 // how far the window can move, by the hash of its last two bytes
	ending  [pairHashes][]uint16
}

const pairHashes = 1 << 13

// pairHash folds case by setting one bit in both bytes. That also makes some other bytes look alike,
// which costs a comparison now and then.
func pairHash(a, b byte) uint { return (uint(a|0x20)<<6 ^ uint(b|0x20)) & (pairHashes - 1) }

func newNeedleSet(needles []needle) *needleSet {
	s := &needleSet{needles: needles, window: len(needles[0].text)}
	for _, n := range needles {
		s.window = min(s.window, len(n.text))
	}
	for i := range s.shift {
		s.shift[i] = uint8(s.window - 1)
	}
	for i, n := range needles {
		for end := 2; end <= s.window; end++ {
			h := pairHash(n.text[end-2], n.text[end-1])
			s.shift[h] = min(s.shift[h], uint8(s.window-end))
			if end == s.window {
				s.ending[h] = append(s.ending[h], uint16(i))
			}
		}
	}
	return s
}

// find returns the first place at or after from where a needle stands whole, and its number; -1 if there
// is none. Of several needles at one place it takes the first of the set.
func (s *needleSet) find(text []byte, from int) (at, which int) {
	last := s.window - 1
	for i := from + last; i < len(text); {
		h := pairHash(text[i-1], text[i])
		if d := s.shift[h]; d != 0 {
			i += int(d)
			continue
		}
		start := i - last
		for _, n := range s.ending[h] {
			if hasPrefixFold(text[start:], s.needles[n].text) {
				return start, int(n)
			}
		}
		i++
	}
	return -1, -1
}

// hasPrefixFold tells whether text starts with prefix, which is in lower case.
func hasPrefixFold(text []byte, prefix string) bool {
	if len(text) < len(prefix) {
		return false
	}
	for i := 0; i < len(prefix); i++ {
		if lower(text[i]) != prefix[i] {
			return false
		}
	}
	return true
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c | 0x20
	}
	return c
}
