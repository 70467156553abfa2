package simulate

import (
	"math"

	"github.com/vramscope/vramscope/allocators/caching/config"
	"github.com/vramscope/vramscope/trace"
)

// Bounds is what is known of the memory that a recording could use.
type Bounds struct {
	Limit    int64 // bytes that the process allowed itself, -1 if not known
	Capacity int64 // bytes that the device could give the allocator, 0 if not known
	// Without a known limit: it was at least Low, and less than High, if there was one.
	Low, High int64
	// Told says where Capacity comes from.
	Told string
}

// boundsOf derives from a recording what its out-of-memory events tell. The driver fails exactly when
// what is reserved and what is asked exceed a constant, which is then the sum of reserved and free bytes
// at the failure; if the device had enough for the request, the process's own limit refused it.
func boundsOf(dev *trace.Device, cfg *config.Config, limit, memory int64) Bounds {
	b := Bounds{Limit: limit, Capacity: memory, High: math.MaxInt64}
	if memory > 0 {
		b.Told = "given"
	}
	var reserved int64
	for _, s := range dev.Initial.Segments {
		reserved += s.Size
	}
	b.Low = reserved
	capacity, constant := int64(0), true
	for _, e := range dev.Events.All() {
		switch e.Op {
		case trace.OpSegmentAlloc, trace.OpSegmentMap:
			reserved += e.Size
			b.Low = max(b.Low, reserved)
		case trace.OpSegmentFree, trace.OpSegmentUnmap:
			reserved -= e.Size
		case trace.OpOOM:
			tried, free := cfg.SegmentSize(e.Size), int64(e.Addr)
			missing := tried
			if cfg.Expandable {
				missing += cfg.LargeSegmentSize
			}
			if free < missing && free > 0 {
				if capacity != 0 && capacity != reserved+free {
					constant = false
				}
				capacity = reserved + free
			} else {
				b.High = min(b.High, reserved+tried)
			}
		}
	}
	if cfg.Expandable {
		// The limit counts what was asked, not the whole pages that were mapped for it.
		b.Low -= cfg.LargeSegmentSize - config.SmallSegment
	}
	if b.Capacity == 0 && capacity > 0 && constant {
		b.Capacity = capacity
		b.Told = "told by the out-of-memory events"
	}
	return b
}

// refusal is whether a request was refused before it was served.
type refusal int

const (
	notRefused refusal = iota
	maybeRefused
	surelyRefused
)

// judge says what is known about a request for so many bytes.
func (b *Bounds) judge(reserved, tried int64) refusal {
	need := reserved + tried
	switch {
	case b.Limit >= 0 && need > b.Limit, b.Capacity > 0 && need > b.Capacity:
		return surelyRefused
	case b.Limit >= 0:
		return notRefused
	case need <= b.Low:
		return notRefused
	case need >= b.High:
		return surelyRefused
	case b.High < math.MaxInt64:
		return maybeRefused
	}
	return notRefused
}
