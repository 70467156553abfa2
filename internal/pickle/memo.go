package pickle

import "fmt"

const (
	memoPageShift = 14
	memoPageSize  = 1 << memoPageShift

	entryBits = 27 // of the payload; the 5 bits above are the kind
	entryMask = 1<<entryBits - 1
)

type memoPage [memoPageSize]uint32

// memo is what the pickle may refer back to. Writers number their entries 0, 1, 2, … so these live in
// pages of four-byte entries; a number out of turn goes to a map, so that none of them can demand
// memory that the input does not back.
type memo struct {
	pages  []*memoPage
	n      uint32 // entries in pages
	sparse map[uint32]uint32
	wide   []Value // values that do not fit an entry
}

// count is the slot that MEMOIZE uses.
func (m *memo) count() uint32 { return m.n + uint32(len(m.sparse)) }

func (m *memo) put(slot uint32, v Value) error {
	e, err := m.pack(v)
	if err != nil {
		return err
	}
	switch {
	case slot < m.n:
		m.pages[slot>>memoPageShift][slot%memoPageSize] = e
	case slot == m.n:
		if slot>>memoPageShift == uint32(len(m.pages)) {
			m.pages = append(m.pages, new(memoPage))
		}
		m.pages[slot>>memoPageShift][slot%memoPageSize] = e
		m.n++
	default:
		if m.sparse == nil {
			m.sparse = map[uint32]uint32{}
		}
		m.sparse[slot] = e
	}
	return nil
}

func (m *memo) pack(v Value) (uint32, error) {
	if v.n <= entryMask {
		return uint32(v.kind)<<entryBits | uint32(v.n), nil
	}
	if n := len(m.wide); n > 0 && m.wide[n-1] == v {
		return uint32(kindWide)<<entryBits | uint32(n-1), nil
	}
	if len(m.wide) > entryMask {
		return 0, fmt.Errorf("more than %d large values are memoized", entryMask)
	}
	m.wide = append(m.wide, v)
	return uint32(kindWide)<<entryBits | uint32(len(m.wide)-1), nil
}

// entry gives the packed entry, 0 if there is none.
func (m *memo) entry(slot uint32) uint32 {
	if slot < m.n {
		return m.pages[slot>>memoPageShift][slot%memoPageSize]
	}
	return m.sparse[slot]
}

func (m *memo) unpack(e uint32) Value {
	v := Value{n: uint64(e & entryMask), kind: Kind(e >> entryBits)}
	if v.kind == kindWide {
		v = m.wide[v.n]
	}
	return v
}
