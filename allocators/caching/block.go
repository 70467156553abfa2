package caching

// block is a range of memory. Links are slots.
type block struct {
	addr       uint64
	size       int64
	requested  int64  // of a live or pending block
	prev, next int32  // neighbours in the segment, 0 for none
	pool       int32  // index in Allocator.pools, -1 for a slot that is idle
	number     uint32 // the caller's, of a live or pending block
	stream     uint32
	segment    int32 // index of the reservation, -1 for a classic segment
	state      blockState
	born       int64 // the pool's clock when it became free
}

type blockState uint8

const (
	free blockState = iota
	live
	pendingFree
	unmapped
)

func (b *block) whole() bool { return b.prev == 0 && b.next == 0 }

func (b *block) expandable() bool { return b.segment >= 0 }

func (a *Allocator) slot(number uint32) int32 {
	if int(number) < len(a.slotOf) {
		return a.slotOf[number]
	}
	return 0
}

// cut splits a block that is in no set after n bytes and returns the second part, in no set either.
func (a *Allocator) cut(slot int32, n int64) int32 {
	b := &a.blocks[slot]
	rest := a.newBlock(block{
		addr: b.addr + uint64(n), size: b.size - n, prev: slot, next: b.next,
		pool: b.pool, stream: b.stream, segment: b.segment, state: b.state,
	})
	b = &a.blocks[slot] // newBlock may have moved it
	if b.next != 0 {
		a.blocks[b.next].prev = rest
	}
	b.next, b.size = rest, n
	return rest
}

// absorb joins a block and a neighbour, both in no set, under the block's slot.
func (a *Allocator) absorb(slot, neighbour int32) {
	b, n := &a.blocks[slot], &a.blocks[neighbour]
	if b.prev == neighbour {
		b.addr, b.prev = n.addr, n.prev
		if b.prev != 0 {
			a.blocks[b.prev].next = slot
		}
	} else {
		b.next = n.next
		if b.next != 0 {
			a.blocks[b.next].prev = slot
		}
	}
	b.size += n.size
	a.dropBlock(neighbour)
}

// Block says where a live or pending block is.
func (a *Allocator) Block(number uint32) (addr uint64, size int64, ok bool) {
	slot := a.slot(number)
	if slot == 0 {
		return 0, 0, false
	}
	b := &a.blocks[slot]
	return b.addr, b.size, true
}

func (a *Allocator) newBlock(b block) int32 {
	if n := len(a.idle); n > 0 {
		slot := a.idle[n-1]
		a.idle = a.idle[:n-1]
		a.blocks[slot] = b
		return slot
	}
	a.blocks = append(a.blocks, b)
	return int32(len(a.blocks) - 1)
}

func (a *Allocator) dropBlock(slot int32) {
	a.blocks[slot].pool = -1
	a.idle = append(a.idle, slot)
}
