package caching_test

import (
	"github.com/vramscope/vramscope/allocators"
	"github.com/vramscope/vramscope/allocators/caching"
)

// What the plain model counts: after each step every quantity is added up from all parts, and what rose or
// fell since the step before is booked.

type quantity int

const (
	allocation quantity = iota
	segments
	active
	inactive
	allocatedBytes
	reservedBytes
	activeBytes
	inactiveBytes
	requestedBytes
	oversizeBlocks
	oversizeSegments
	quantities
)

type counts struct {
	book [quantities]caching.Metric

	retries, ooms, syncs, deviceAllocs, deviceFrees int64

	atPeak allocators.Fragmentation
	raised bool
}

func (c *counts) now(q quantity) int64 { return c.book[q][caching.All].Current }

// settle adds everything up.
func (m *plain) settle() {
	var now [quantities][3]int64
	for _, a := range m.areas {
		kind := caching.LargePool
		if a.small {
			kind = caching.SmallPool
		}
		add := func(q quantity, n int64) { now[q][kind] += n }
		if a.page == 0 {
			add(segments, 1)
			if a.size >= m.cfg.MaxSplitSize {
				add(oversizeSegments, 1)
			}
		}
		for _, p := range a.parts {
			if p.use != gap {
				add(reservedBytes, p.size)
			}
			if p.use == open && a.page == 0 && len(a.parts) > 1 {
				add(inactive, 1)
				add(inactiveBytes, p.size)
			}
			if p.use == taken || p.use == waiting {
				add(active, 1)
				add(activeBytes, p.size)
				add(requestedBytes, p.asked)
			}
			if p.use == taken {
				add(allocation, 1)
				add(allocatedBytes, p.size)
				if p.size >= m.cfg.MaxSplitSize {
					add(oversizeBlocks, 1)
				}
			}
		}
	}
	if sum := now[reservedBytes][caching.SmallPool] + now[reservedBytes][caching.LargePool]; sum > m.seen.book[reservedBytes][caching.All].Peak {
		m.seen.raised = true
	}
	for q := range now {
		book := &m.seen.book[q]
		for _, kind := range []caching.Kind{caching.SmallPool, caching.LargePool} {
			c := &book[kind]
			if diff := now[q][kind] - c.Current; diff > 0 {
				c.Allocated += diff
			} else {
				c.Freed -= diff
			}
			c.Current = now[q][kind]
			c.Peak = max(c.Peak, c.Current)
		}
		all, s, l := &book[caching.All], book[caching.SmallPool], book[caching.LargePool]
		all.Current, all.Allocated, all.Freed = s.Current+l.Current, s.Allocated+l.Allocated, s.Freed+l.Freed
		all.Peak = max(all.Peak, all.Current)
	}
}

// notePeak looks at how memory is used if a peak was just reached.
func (c *counts) notePeak(m *plain) {
	if c.raised {
		c.raised = false
		c.atPeak = m.fragmentation()
	}
}

func (m *plain) fragmentation() allocators.Fragmentation {
	var f allocators.Fragmentation
	for _, a := range m.areas {
		for _, p := range a.parts {
			switch p.use {
			case taken:
				f.Rounding += p.size - p.asked
			case waiting:
				f.Pending += p.size
			case open:
				cached := int64(0)
				if a.page > 0 {
					_, cached = spot{a, p}.pages()
				} else if len(a.parts) == 1 {
					cached = p.size
				}
				f.Cached += cached
				f.Stranded += p.size - cached
				f.Largest = max(f.Largest, p.size)
			}
		}
	}
	return f
}

// detail is what was counted, in the model's form.
func (m *plain) detail() caching.Detail {
	b := &m.seen.book
	return caching.Detail{
		Allocation: b[allocation], Segment: b[segments], Active: b[active], InactiveSplit: b[inactive],
		AllocatedBytes: b[allocatedBytes], ReservedBytes: b[reservedBytes], ActiveBytes: b[activeBytes],
		InactiveSplitBytes: b[inactiveBytes], RequestedBytes: b[requestedBytes],
		OversizeAllocations: b[oversizeBlocks][caching.All], OversizeSegments: b[oversizeSegments][caching.All],
		NumAllocRetries: m.seen.retries, NumOOMs: m.seen.ooms, NumSyncAllStreams: m.seen.syncs,
		NumDeviceAlloc: m.seen.deviceAllocs, NumDeviceFree: m.seen.deviceFrees,
	}
}
