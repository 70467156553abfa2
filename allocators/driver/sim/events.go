package sim

import (
	"cmp"
	"slices"
)

// EventKind says what happens in an Event.
type EventKind uint8

const (
	// OpenGap makes address space free: a library unloaded, host memory given back.
	OpenGap EventKind = iota
	// OpenHole makes a hole: a block of the driver's own freed. A chunk that this leaves wholly free
	// goes back. A range that begins in a chunk and reaches into space that is not known to be free
	// says that the chunk is larger than was thought. Where there is no chunk at all, one is taken to
	// exist around the range, otherwise full of things that stay.
	OpenHole
	// TakeRange takes what is free of a range, for good.
	TakeRange
	// TakeBlock takes a block of the given size where the driver would put it, for good.
	TakeBlock
	// TakeMapping takes address space where the system would map it, for good: the top of the highest
	// gap that holds it.
	TakeMapping
)

// Event is a change of the address space that no call of the allocator causes. Where the state is not
// as the event supposes, as much of it happens as can: what is in use is never touched.
type Event struct {
	Op   int64 // operation number, as given to Tick, before which it happens
	Kind EventKind
	Addr uint64 // start of the range, not for TakeBlock and TakeMapping
	Size int64  // bytes
}

// Tick says that the caller's operation op is about to happen, and lets the events before it take
// place. Operations are whatever the caller counts, in the unit of Config.Events.
func (d *Driver) Tick(op int64) {
	for len(d.events) > 0 && d.events[0].Op <= op {
		d.apply(d.events[0])
		d.events = d.events[1:]
	}
}

// apply makes an event happen as far as the state allows it.
func (d *Driver) apply(e Event) {
	if d.policy != Placed || e.Size <= 0 || uint64(e.Size) > addressLimit {
		return
	}
	size := uint64(e.Size)
	switch e.Kind {
	case TakeBlock:
		d.place(roundUp(size, Granule))
		return
	case TakeMapping:
		if g, ok := d.gaps.highest(size); ok {
			d.gaps.remove(span{g.end - size, g.end})
		}
		return
	}
	if e.Addr > addressLimit-size {
		return
	}
	s := span{roundDown(e.Addr, Granule), roundUp(e.Addr+size, Granule)}
	switch e.Kind {
	case OpenGap:
		d.openGap(s)
	case OpenHole:
		d.openHole(s)
	case TakeRange:
		d.takeRange(s)
	}
}

func (d *Driver) takeRange(s span) {
	d.gaps.remove(s)
	for _, c := range d.chunks.overlapping(s) {
		if c.removeHoles(s) {
			d.chunks.update(c)
		}
	}
}

// openGap adds what no chunk and no reservation holds of a range to the gaps.
func (d *Driver) openGap(s span) {
	rest := []span{s}
	for _, c := range d.chunks.overlapping(s) {
		rest = subtract(rest, c.span)
	}
	for addr, size := range d.reserved {
		rest = subtract(rest, span{addr, addr + roundUp(uint64(size), ChunkUnit)})
	}
	for _, r := range rest {
		d.gaps.remove(r)
		d.gaps.add(r)
	}
}

// openHole adds what is neither in use nor a hole already to the holes.
func (d *Driver) openHole(s span) {
	cs := d.chunks.overlapping(s)
	if len(cs) == 0 {
		d.holeInUnknown(s)
		return
	}
	slices.SortFunc(cs, func(a, b *chunk) int { return cmp.Compare(a.start, b.start) })
	if last := cs[len(cs)-1]; last.end < s.end {
		rest := span{last.end, s.end}
		if g, ok := d.gaps.next(rest.start); ok {
			rest.end = max(rest.start, min(rest.end, g.start))
		}
		if !d.reservedIn(rest) {
			last.end = rest.end
		}
	}
	for _, c := range cs {
		rest := []span{{max(s.start, c.start), min(s.end, c.end)}}
		for _, h := range c.holes {
			rest = subtract(rest, h)
		}
		for addr, b := range d.live {
			rest = subtract(rest, b.span(addr))
		}
		for _, r := range rest {
			c.addHole(r)
		}
		d.settle(c)
	}
}

// holeInUnknown makes a chunk around a hole where none is known, as large as its neighbours allow.
func (d *Driver) holeInUnknown(s span) {
	around := span{roundDown(s.start, ChunkUnit), roundUp(s.end, ChunkUnit)}
	for _, c := range d.chunks.overlapping(around) {
		if c.end <= s.start {
			around.start = max(around.start, c.end)
		} else {
			around.end = min(around.end, c.start)
		}
	}
	switch {
	case d.reservedIn(around):
	case around == s: // nothing would keep such a chunk
		d.openGap(s)
	default:
		d.gaps.remove(around)
		c := d.chunks.add(around)
		c.addHole(s)
		d.chunks.update(c)
	}
}

// reservedIn reports whether a reservation has bytes of a range.
func (d *Driver) reservedIn(s span) bool {
	for addr, size := range d.reserved {
		if s.overlaps(span{addr, addr + roundUp(uint64(size), ChunkUnit)}) {
			return true
		}
	}
	return false
}
