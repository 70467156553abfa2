// Package ledger is the account that a model of an allocator keeps of its blocks, so that every model
// counts the same things in the same way and its own files are about where blocks go.
//
// It has a table with a row for each block that the caller may name, and the statistics. A row is in one
// of three states: unused, live, or pending (freed, a stream still uses it). The figures follow from the
// rows and from what the model says it took from the driver and gave back:
//
//	Allocated = sizes of live rows
//	Active    = sizes of live and pending rows
//	Requested = what was asked for, of live and pending rows
//	Reserved  = taken - given back
//
// A model calls Admit at the start of a request, Open once it has a place for it, and Refuse where it
// has none; Release and Complete tell it when memory became free. It calls Took and Gave beside each
// call of its driver that moved memory, and AtPeak at the end of a request after which Raised says that
// the reserved bytes have a new peak.
package ledger

import (
	"fmt"
	"iter"

	"github.com/vramscope/vramscope/allocators"
)

// MaxRequest is the largest request that is looked at: far above any device, and small enough that
// rounding it up never overflows. A larger one is out of memory without more ado.
const MaxRequest = int64(1) << 56

// State is what a block is doing.
type State uint8

// The states of a row.
const (
	Unused State = iota
	Live
	Pending
)

// Entry is the row of a block.
type Entry struct {
	Addr      uint64
	Size      int64  // bytes that it takes
	Requested int64  // bytes that were asked for
	Slot      uint32 // whatever the model needs to find its own record of the block
	Stream    uint16 // for models that care about streams: an index of the model's own
	State     State
}

const (
	pageShift = 12
	pageRows  = 1 << pageShift
)

// Ledger is the account of one allocator. The zero value is an empty one.
type Ledger struct {
	pages []*[pageRows]Entry // row b is pages[b>>pageShift][b&(pageRows-1)]: growing copies no rows
	stats allocators.Stats

	pendingRequested int64 // what was asked for, of pending rows
	peakSeen         int64 // the peak of Reserved that Stats.AtPeak describes
}

// Stats is what has been counted; the pointer stays valid.
func (l *Ledger) Stats() *allocators.Stats { return &l.stats }

// Blocks walks the rows that are live or pending, in the order of their numbers.
func (l *Ledger) Blocks() iter.Seq2[uint32, *Entry] {
	return func(yield func(uint32, *Entry) bool) {
		for p, page := range l.pages {
			for i := range page {
				if page[i].State != Unused && !yield(uint32(p<<pageShift+i), &page[i]) {
					return
				}
			}
		}
	}
}

// row is the row of a block, nil if it never was admitted.
func (l *Ledger) row(block uint32) *Entry {
	if p := uint(block >> pageShift); p < uint(len(l.pages)) {
		return &l.pages[p][block&(pageRows-1)]
	}
	return nil
}

// Admit looks at a request before the model does. An error other than *allocators.OOM means that the
// caller broke the protocol; nothing has changed then.
func (l *Ledger) Admit(req allocators.Request) error {
	if e := l.row(req.Block); e != nil && e.State == Unused && uint64(req.Size-1) < uint64(MaxRequest) {
		return nil
	}
	return l.admit(req)
}

func (l *Ledger) admit(req allocators.Request) error {
	if req.Size <= 0 {
		return fmt.Errorf("block %d: a request must be for at least one byte, not %d", req.Block, req.Size)
	}
	if e := l.row(req.Block); e != nil && e.State != Unused {
		return fmt.Errorf("block %d: already allocated, free it first", req.Block)
	}
	if req.Size > MaxRequest {
		return l.Refuse(req.Size, req.Size, 0)
	}
	for uint(len(l.pages)) <= uint(req.Block>>pageShift) {
		l.pages = append(l.pages, new([pageRows]Entry))
	}
	return nil
}

// Open makes an admitted block live.
func (l *Ledger) Open(req allocators.Request, addr uint64, size int64, slot uint32) *Entry {
	e := l.row(req.Block)
	e.Addr = addr // one by one: a whole Entry would be put together on the stack and copied
	e.Size = size
	e.Requested = req.Size
	e.Slot = slot
	e.State = Live
	l.stats.Requested.Add(req.Size)
	l.stats.Allocated.Add(size)
	l.stats.Active.Add(size)
	return e
}

// Refuse counts a request that failed and makes its error.
func (l *Ledger) Refuse(requested, tried, largestFree int64) error {
	l.stats.OOMs++
	return &allocators.OOM{
		Requested: requested, Tried: tried,
		Allocated: l.stats.Allocated.Current, Reserved: l.stats.Reserved.Current, LargestFree: largestFree,
	}
}

// Release frees a live block. It gives the row if the memory is free now, nil if the block is not live
// or has to wait. The row's content stays readable until the block is opened again.
func (l *Ledger) Release(block uint32, pending bool) *Entry {
	e := l.row(block)
	if e == nil || e.State != Live {
		return nil
	}
	l.stats.Allocated.Current -= e.Size
	if pending {
		e.State = Pending
		l.pendingRequested += e.Requested
		return nil
	}
	e.State = Unused
	l.stats.Requested.Current -= e.Requested
	l.stats.Active.Current -= e.Size
	return e
}

// Complete ends the wait of a pending block: its row, or nil if it is not pending.
func (l *Ledger) Complete(block uint32) *Entry {
	e := l.row(block)
	if e == nil || e.State != Pending {
		return nil
	}
	e.State = Unused
	l.pendingRequested -= e.Requested
	l.stats.Requested.Current -= e.Requested
	l.stats.Active.Current -= e.Size
	return e
}

// Block answers allocators.Allocator's question of the same name.
func (l *Ledger) Block(block uint32) (addr uint64, size int64, ok bool) {
	e := l.row(block)
	if e == nil || e.State == Unused {
		return 0, 0, false
	}
	return e.Addr, e.Size, true
}

// Took counts memory that came from the driver in one call.
func (l *Ledger) Took(size int64) {
	l.stats.Reserved.Add(size)
	l.stats.DeviceAllocs++
}

// Gave counts memory that went back in one call.
func (l *Ledger) Gave(size int64) {
	l.stats.Reserved.Current -= size
	l.stats.DeviceFrees++
}

// Flushed counts a request for which the model gave back what it could before it tried again.
func (l *Ledger) Flushed() { l.stats.Retries++ }

// Raised says that Reserved has a peak that AtPeak does not describe yet.
func (l *Ledger) Raised() bool { return l.stats.Reserved.Peak > l.peakSeen }

// AtPeak records how the reserved bytes are used now. cached is what EmptyCache would give back, largest
// the largest free block; what is free and not cached is stranded.
func (l *Ledger) AtPeak(cached, largest int64) {
	s := &l.stats
	l.peakSeen = s.Reserved.Peak
	pending := s.Active.Current - s.Allocated.Current
	s.AtPeak = allocators.Fragmentation{
		Rounding: s.Allocated.Current - (s.Requested.Current - l.pendingRequested),
		Pending:  pending,
		Cached:   cached,
		Stranded: s.Reserved.Current - s.Active.Current - cached,
		Largest:  largest,
	}
}
