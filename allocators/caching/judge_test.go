package caching_test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/vramscope/vramscope/allocators"
	"github.com/vramscope/vramscope/allocators/caching"
	"github.com/vramscope/vramscope/allocators/driver/sim"
)

// granule is the unit in which a ledger notes what is mapped, in bytes.
const granule = 2 * mib

// A ledger is a driver that notes who holds what.
type ledger struct {
	allocators.Driver
	segments map[uint64]int64 // sizes by address
	spaces   map[uint64]int64 // reserved address space, sizes by address
	mapped   map[uint64]bool  // granules
}

func newLedger(d allocators.Driver) *ledger {
	return &ledger{d, map[uint64]int64{}, map[uint64]int64{}, map[uint64]bool{}}
}

func (l *ledger) Alloc(size int64) (uint64, error) {
	addr, err := l.Driver.Alloc(size)
	if err == nil {
		l.segments[addr] = size
	}
	return addr, err
}

func (l *ledger) Free(addr uint64, size int64) {
	l.Driver.Free(addr, size)
	delete(l.segments, addr)
}

func (l *ledger) Reserve(size int64) (uint64, error) {
	addr, err := l.Driver.Reserve(size)
	if err == nil {
		l.spaces[addr] = size
	}
	return addr, err
}

func (l *ledger) Release(addr uint64, size int64) {
	l.Driver.Release(addr, size)
	delete(l.spaces, addr)
}

func (l *ledger) Map(addr uint64, size int64) error {
	err := l.Driver.Map(addr, size)
	for g := addr; err == nil && g < addr+uint64(size); g += granule {
		l.mapped[g] = true
	}
	return err
}

func (l *ledger) Unmap(addr uint64, size int64) {
	l.Driver.Unmap(addr, size)
	for g := addr; g < addr+uint64(size); g += granule {
		delete(l.mapped, g)
	}
}

// memory is a range that the driver gave.
type memory struct {
	addr  uint64
	size  int64
	space uint64 // the reservation that it is part of, 0 for a segment
}

// held lists all memory in the order of addresses: segments, and mapped ranges of reservations.
func (l *ledger) held() []memory {
	var out []memory
	for addr, size := range l.segments {
		out = append(out, memory{addr, size, 0})
	}
	for _, g := range slices.Sorted(maps.Keys(l.mapped)) {
		if n := len(out); n > 0 && out[n-1].space != 0 && out[n-1].addr+uint64(out[n-1].size) == g && l.spaces[g] == 0 {
			out[n-1].size += granule
			continue
		}
		space := uint64(0)
		for base, size := range l.spaces {
			if base <= g && g < base+uint64(size) {
				space = base
			}
		}
		out = append(out, memory{g, granule, space})
	}
	slices.SortFunc(out, func(x, y memory) int { return cmp.Compare(x.addr, y.addr) })
	return out
}

func layout(a *caching.Allocator) []caching.Placed {
	var list []caching.Placed
	a.Layout(func(p caching.Placed) { list = append(list, p) })
	slices.SortFunc(list, func(x, y caching.Placed) int { return cmp.Compare(x.Addr, y.Addr) })
	return list
}

// judge checks everything that must hold between two operations, from what the model shows and what the
// driver was asked.
func judge(a *caching.Allocator, l *ledger) error {
	list := layout(a)
	var want [3]map[string]int64
	for k := range want {
		want[k] = map[string]int64{}
	}
	var frag allocators.Fragmentation
	var requested int64
	rest := list
	for _, m := range l.held() {
		end := m.addr + uint64(m.size)
		var in []caching.Placed
		for len(rest) > 0 && rest[0].Addr < end {
			in, rest = append(in, rest[0]), rest[1:]
		}
		if err := tiles(m, in, l); err != nil {
			return fmt.Errorf("%v in memory %#x+%d", err, m.addr, m.size)
		}
		for _, p := range in {
			kind := caching.LargePool
			if p.Small {
				kind = caching.SmallPool
			}
			add := func(what string, n int64) { want[kind][what] += n; want[caching.All][what] += n }
			add("reserved", p.Size)
			switch {
			case !p.Free:
				add("active", 1)
				add("active bytes", p.Size)
				add("requested", p.Requested)
				if p.Pending {
					frag.Pending += p.Size
					break
				}
				add("allocated", 1)
				add("allocated bytes", p.Size)
				requested += p.Requested
				frag.Rounding += p.Size - p.Requested
			case m.space == 0:
				if !p.Whole {
					add("split", 1)
					add("split bytes", p.Size)
					frag.Stranded += p.Size
				} else {
					frag.Cached += p.Size
				}
			default:
				page := uint64(a.PageOf(p.Small))
				lo := (p.Addr - m.space + page - 1) / page
				hi := (p.Addr - m.space + uint64(p.Size)) / page
				if lo < hi {
					frag.Cached += int64((hi - lo) * page)
					frag.Stranded += p.Size - int64((hi-lo)*page)
				} else {
					frag.Stranded += p.Size
				}
			}
			if p.Free {
				frag.Largest = max(frag.Largest, p.Size)
			} else if addr, size, ok := a.Block(p.Number); !ok || addr != p.Addr || size != p.Size {
				return fmt.Errorf("block %d is shown at %#x+%d and said to be at %#x+%d", p.Number, p.Addr, p.Size, addr, size)
			}
		}
		if m.space == 0 {
			kind := caching.LargePool
			if in[0].Small {
				kind = caching.SmallPool
			}
			want[kind]["segments"]++
			want[caching.All]["segments"]++
		}
	}
	if len(rest) > 0 {
		return fmt.Errorf("block at %#x is in no memory that the driver gave", rest[0].Addr)
	}
	if err := sorted(a, list); err != nil {
		return err
	}
	d := a.Detail()
	for what, m := range map[string]caching.Metric{
		"reserved": d.ReservedBytes, "active": d.Active, "active bytes": d.ActiveBytes, "requested": d.RequestedBytes,
		"allocated": d.Allocation, "allocated bytes": d.AllocatedBytes, "split": d.InactiveSplit, "split bytes": d.InactiveSplitBytes,
		"segments": d.Segment,
	} {
		for k, c := range m {
			if c.Current != want[k][what] || c.Peak < c.Current || c.Allocated-c.Freed != c.Current {
				return fmt.Errorf("%s of kind %d is %d, counted %+v", what, k, want[k][what], c)
			}
		}
	}
	var private int64
	largest := map[[3]uint32]int64{} // by pool, stream and size class
	for _, p := range list {
		if p.Pool != 0 {
			private += p.Size
		}
		if k := classOf(p); p.Free {
			largest[k] = max(largest[k], p.Size)
		}
	}
	if got := a.Private(); got != private {
		return fmt.Errorf("private pools hold %d, counted %d", private, got)
	}
	for _, p := range list {
		size := a.SmallSize()
		if !p.Small {
			size++
		}
		if got, want := a.LargestFree(p.Pool, p.Stream, size), largest[classOf(p)]; got != want {
			return fmt.Errorf("the largest free block of pool %d and stream %d is %d, said to be %d", p.Pool, p.Stream, want, got)
		}
	}
	if got := a.Fragmentation(); got != frag {
		return fmt.Errorf("fragmentation %+v, counted %+v", frag, got)
	}
	if sum := requested + frag.Rounding + frag.Pending + frag.Cached + frag.Stranded; sum != a.Reserved() {
		return fmt.Errorf("requested %d and %+v make %d, reserved are %d", requested, frag, sum, a.Reserved())
	}
	return nil
}

// classOf is the pool, stream and size class of a block.
func classOf(p caching.Placed) [3]uint32 {
	small := uint32(0)
	if p.Small {
		small = 1
	}
	return [3]uint32{p.Pool, p.Stream, small}
}

// tiles checks the blocks of one segment, or one mapped range.
func tiles(m memory, in []caching.Placed, l *ledger) error {
	at := m.addr
	for i, p := range in {
		if p.Addr != at || p.Size <= 0 {
			return fmt.Errorf("blocks do not tile: one at %#x+%d, the last ended at %#x", p.Addr, p.Size, at)
		}
		at += uint64(p.Size)
		if i > 0 && p.Free && in[i-1].Free {
			return fmt.Errorf("free neighbours at %#x", p.Addr)
		}
		if q := in[0]; p.Pool != q.Pool || p.Small != q.Small || p.Stream != q.Stream {
			return fmt.Errorf("different owners at %#x", p.Addr)
		}
		first, whole := i == 0, len(in) == 1
		if m.space != 0 {
			first = p.Addr == m.space
			whole = whole && p.Size == l.spaces[m.space]
		}
		if p.Expandable != (m.space != 0) || p.First != first || p.Whole != whole {
			return fmt.Errorf("block at %#x is shown as %+v", p.Addr, p)
		}
		if !p.Free && p.Size < p.Requested {
			return fmt.Errorf("block at %#x has %d bytes for %d", p.Addr, p.Size, p.Requested)
		}
	}
	if at != m.addr+uint64(m.size) {
		return fmt.Errorf("blocks end at %#x", at)
	}
	return nil
}

// sorted checks that the sets of free blocks hold just the free blocks, in order.
func sorted(a *caching.Allocator, list []caching.Placed) error {
	type set struct {
		pool   uint32
		small  bool
		stream uint32
	}
	type entry struct {
		size int64
		addr uint64
	}
	want := map[set][]entry{}
	for _, p := range list {
		if p.Free {
			k := set{p.Pool, p.Small, p.Stream}
			want[k] = append(want[k], entry{p.Size, p.Addr})
		}
	}
	got := map[set][]entry{}
	a.EachFree(func(pool uint32, small bool, stream uint32, addr uint64, size int64) {
		k := set{pool, small, stream}
		got[k] = append(got[k], entry{size, addr})
	})
	for k := range want {
		slices.SortFunc(want[k], func(x, y entry) int { return cmp.Or(cmp.Compare(x.size, y.size), cmp.Compare(x.addr, y.addr)) })
	}
	if !maps.EqualFunc(want, got, slices.Equal) {
		return fmt.Errorf("free blocks are %v, the sets hold %v", want, got)
	}
	return nil
}

// apply makes one operation.
func (o op) apply(a *caching.Allocator) error {
	switch o.kind {
	case opMalloc:
		if _, _, ok := a.Block(o.block); ok {
			return nil // its last free is pending still, or was left out
		}
		return a.Malloc(allocators.Request{Block: o.block, Size: o.size, Stream: o.stream, Pool: o.pool})
	case opFree, opFreePending:
		a.Free(o.block, o.kind == opFreePending)
	case opComplete:
		a.Complete(o.block)
	case opEmptyCache:
		a.EmptyCache()
	case opRetire:
		a.Retire(o.pool)
	case opReleasePool:
		a.ReleasePool(o.pool)
	case opSwitch:
		a.SetExpandable(!a.Config().Expandable)
	}
	return nil
}

func (s setup) build(d allocators.Driver) *caching.Allocator {
	a := caching.New(d, s.cfg)
	for _, id := range s.lenders {
		a.Lend(id)
	}
	for _, id := range s.uncut {
		a.KeepWhole(id)
	}
	return a
}

// TestInvariants has the judge look after each operation of random scripts, and at the promises of single
// operations.
func TestInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := setups(t)
		list := ops(t, &s)
		driver := sim.New(s.device)
		l := newLedger(driver)
		a := s.build(l)
		fail := func(i int, err error) { t.Fatalf("operation %d, %v: %v\n%v\n%s", i, list[i], err, s, text(list)) }
		for i, o := range list {
			before, was := layout(a), a.Stats().Reserved.Peak
			err := o.apply(a)
			if err := judge(a, l); err != nil {
				fail(i, err)
			}
			if err != nil {
				if err := untouched(err, before, a); err != nil {
					fail(i, err)
				}
			}
			if o.kind == opEmptyCache {
				if err := emptied(a); err != nil {
					fail(i, err)
				}
			}
			if err := peak(a, was, before); err != nil {
				fail(i, err)
			}
		}
		// Everything freed and flushed, everything is returned.
		for _, p := range layout(a) {
			if !p.Free {
				a.Free(p.Number, false)
				a.Complete(p.Number)
			}
		}
		for id := uint32(1); id < 4; id++ {
			a.Retire(id)
		}
		a.EmptyCache()
		if a.Reserved() != 0 || len(layout(a)) != 0 || driver.Used() != 0 || driver.Faults() != 0 {
			t.Fatalf("%d bytes reserved, %v, driver used %d, %d faulty calls\n%v\n%s", a.Reserved(), layout(a), driver.Used(), driver.Faults(), s, text(list))
		}
	})
}

// untouched checks that a failed request left the blocks that are in use where they were. Pending ones may
// have been completed.
func untouched(err error, before []caching.Placed, a *caching.Allocator) error {
	var oom *allocators.OOM
	if !errors.As(err, &oom) {
		return err
	}
	for _, p := range before {
		addr, size, ok := a.Block(p.Number)
		if p.Free || p.Pending && !ok {
			continue
		}
		if !ok || addr != p.Addr || size != p.Size {
			return fmt.Errorf("block %d was at %#x+%d and is at %#x+%d", p.Number, p.Addr, p.Size, addr, size)
		}
	}
	return nil
}

// emptied checks that there is nothing left to give back.
func emptied(a *caching.Allocator) error {
	for _, p := range layout(a) {
		if p.Pending {
			return fmt.Errorf("block %d is pending still", p.Number)
		}
		if p.Pool != 0 && !a.Retired(p.Pool) {
			continue
		}
		if p.Free && p.Whole {
			return fmt.Errorf("the whole segment at %#x is free still", p.Addr)
		}
	}
	for _, small := range []bool{true, false} {
		if plan := a.Plan(0, small); len(plan) > 0 {
			return fmt.Errorf("%v could still be given back", plan)
		}
	}
	return nil
}

// peak checks that AtPeak splits a new peak of what is reserved without remainder. It is the state after the
// request, or that before if the request gave memory back in between, or failed.
func peak(a *caching.Allocator, was int64, before []caching.Placed) error {
	s := a.Stats()
	if s.Reserved.Peak == was {
		return nil
	}
	f := s.AtPeak
	if f.Stranded < 0 || f.Cached < 0 || f.Rounding < 0 || f.Pending < 0 || f.Largest > f.Stranded+f.Cached {
		return fmt.Errorf("a part of %+v cannot be", f)
	}
	for _, list := range [][]caching.Placed{before, layout(a)} {
		sum := f.Stranded + f.Cached + f.Rounding + f.Pending
		for _, p := range list {
			if !p.Free && !p.Pending {
				sum += p.Requested
			}
		}
		if sum == s.Reserved.Peak {
			return nil
		}
	}
	return fmt.Errorf("%+v does not split the peak of %d bytes", f, s.Reserved.Peak)
}
