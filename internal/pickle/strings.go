package pickle

import "hash/maphash"

const stringPage = 64 << 10

// Strings interns byte strings: equal content, equal number. It holds no Go pointers per string, so that
// a hostile file of many short strings costs a small multiple of its size.
type Strings struct {
	seed  maphash.Seed
	pages [][]byte
	recs  []stringRec
	table []uint32 // number + 1, open addressing; its length is a power of two
}

type stringRec struct{ page, off, len uint32 }

// NewStrings is a table in which names have the numbers 0, 1, …; they must differ from each other.
func NewStrings(names ...string) *Strings {
	s := &Strings{seed: maphash.MakeSeed(), table: make([]uint32, 256)}
	for _, n := range names {
		s.Intern([]byte(n))
	}
	return s
}

// Len is the number of strings.
func (s *Strings) Len() int { return len(s.recs) }

// Bytes gives the content of a string. The slice belongs to the table.
func (s *Strings) Bytes(id uint32) []byte {
	if int(id) >= len(s.recs) {
		return nil
	}
	r := s.recs[id]
	return s.pages[r.page][r.off : r.off+r.len : r.off+r.len]
}

// Intern gives the number of a string; b is copied if it is new.
func (s *Strings) Intern(b []byte) uint32 {
	mask := uint32(len(s.table) - 1)
	i := uint32(maphash.Bytes(s.seed, b)) & mask
	for ; s.table[i] != 0; i = (i + 1) & mask {
		if id := s.table[i] - 1; string(s.Bytes(id)) == string(b) {
			return id
		}
	}
	id := uint32(len(s.recs))
	s.recs = append(s.recs, s.store(b))
	s.table[i] = id + 1
	if len(s.recs)*4 > len(s.table)*3 {
		s.grow()
	}
	return id
}

func (s *Strings) store(b []byte) stringRec {
	last := len(s.pages) - 1
	if last < 0 || cap(s.pages[last])-len(s.pages[last]) < len(b) {
		s.pages = append(s.pages, make([]byte, 0, max(stringPage, len(b))))
		last++
	}
	off := len(s.pages[last])
	s.pages[last] = append(s.pages[last], b...)
	return stringRec{uint32(last), uint32(off), uint32(len(b))}
}

func (s *Strings) grow() {
	s.table = make([]uint32, len(s.table)*2)
	mask := uint32(len(s.table) - 1)
	for id := range s.recs {
		i := uint32(maphash.Bytes(s.seed, s.Bytes(uint32(id)))) & mask
		for s.table[i] != 0 {
			i = (i + 1) & mask
		}
		s.table[i] = uint32(id) + 1
	}
}
