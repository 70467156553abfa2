package trace

import (
	"fmt"
	"slices"
)

// MaxSize is more than any device has, in bytes. No event, segment or block of a device that Rewind and Pair
// have seen is larger, or reaches beyond the end of the address space, so that whoever works with them may
// add without fear. Only what was refused, the size of an OpOOM, may be up to 1 EiB.
const MaxSize = 1 << 44

// MaxAsked is more than anybody asks for, in bytes.
const MaxAsked = 1 << 60

// Possible reports whether a device can have memory there.
func Possible(addr uint64, size int64) bool {
	return size >= 0 && size <= MaxSize && addr <= ^uint64(0)-2*uint64(size)-2<<20
}

// bound takes out what cannot be: sizes of events become 0, segments and blocks go.
func bound(d *Device) {
	var bad fault
	for i, e := range d.Events.All() {
		switch {
		case e.Op == OpOOM:
			if e.Size >= 0 && e.Size <= MaxAsked && e.Addr <= MaxAsked {
				continue
			}
			e.Size, e.Addr = max(0, min(e.Size, MaxAsked)), min(e.Addr, MaxAsked)
		case Possible(e.Addr, e.Size):
			continue
		case Possible(e.Addr, 0):
			e.Size = 0
		default:
			e.Addr, e.Size = 0, 0
		}
		bad.add(i)
	}
	for _, s := range []*State{&d.Initial, &d.Final} {
		s.Segments = slices.DeleteFunc(s.Segments, func(x Segment) bool {
			ok := Possible(x.Addr, x.Size)
			if !ok {
				bad.add(-1)
			}
			return !ok || x.Size == 0
		})
		s.Blocks = slices.DeleteFunc(s.Blocks, func(x Block) bool {
			ok := Possible(x.Addr, x.Size) && Possible(x.Addr, x.Requested)
			if !ok {
				bad.add(-1)
			}
			return !ok
		})
	}
	if bad.n > 0 {
		d.Warnings = append(d.Warnings, Warning{Code: "impossible-size", Count: bad.n, First: bad.first,
			Message: fmt.Sprintf("sizes or addresses are no device's (over %d TiB): they were left out", int64(MaxSize)>>40)})
	}
}
