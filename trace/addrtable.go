package trace

import "math/rand/v2"

// addrTable maps addresses to the blocks that live there. It is open addressing with linear probing and
// holds only live blocks, so it stays small and in the cache however long the trace is.
type addrTable struct {
	slots []liveBlock // length is a power of two
	n     int
	seed  uint64 // no file can be made whose addresses all collide
}

type liveBlock struct {
	addr  uint64
	id    BlockID
	state BlockState // BlockFree marks an empty slot
}

func newAddrTable() addrTable {
	return addrTable{slots: make([]liveBlock, 1024), seed: rand.Uint64()}
}

func (t *addrTable) home(addr uint64) int {
	h := (addr ^ t.seed) * 0x9e3779b97f4a7c15
	h = (h ^ h>>32 ^ t.seed) * 0xbf58476d1ce4e5b9
	return int(h>>32) & (len(t.slots) - 1)
}

// find gives the block at addr, nil if there is none.
func (t *addrTable) find(addr uint64) *liveBlock {
	for i := t.home(addr); ; i = (i + 1) & (len(t.slots) - 1) {
		s := &t.slots[i]
		if s.state == BlockFree {
			return nil
		}
		if s.addr == addr {
			return s
		}
	}
}

// insert gives the slot of addr; ok tells whether a block was there. If not, the caller must fill it.
func (t *addrTable) insert(addr uint64) (s *liveBlock, ok bool) {
	if s = t.find(addr); s != nil {
		return s, true
	}
	if (t.n+1)*4 > len(t.slots)*3 {
		old := t.slots
		t.slots = make([]liveBlock, 2*len(old))
		for _, s := range old {
			if s.state != BlockFree {
				*t.empty(s.addr) = s
			}
		}
	}
	t.n++
	return t.empty(addr), false
}

func (t *addrTable) empty(addr uint64) *liveBlock {
	i := t.home(addr)
	for t.slots[i].state != BlockFree {
		i = (i + 1) & (len(t.slots) - 1)
	}
	return &t.slots[i]
}

// remove takes out a block that find gave, and closes the gap that it leaves in its chain.
func (t *addrTable) remove(s *liveBlock) {
	t.n--
	mask := len(t.slots) - 1
	gap := t.home(s.addr)
	for t.slots[gap].addr != s.addr || t.slots[gap].state == BlockFree {
		gap = (gap + 1) & mask
	}
	for i := (gap + 1) & mask; t.slots[i].state != BlockFree; i = (i + 1) & mask {
		// A block may move to the gap unless its home lies between the gap and itself.
		if home := t.home(t.slots[i].addr); (i-home)&mask >= (i-gap)&mask {
			t.slots[gap] = t.slots[i]
			gap = i
		}
	}
	t.slots[gap] = liveBlock{}
}
