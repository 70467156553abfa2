package simulate

import (
	"time"

	"github.com/vramscope/vramscope/allocators"
	"github.com/vramscope/vramscope/allocators/caching/config"
)

// What calls of the driver take, as measured on an NVIDIA H200 (driver 580.159) that had nothing else to do:
// docs/gpu.md has the figures, vramscope gpu cost measures them elsewhere. A call takes a time of its own, or
// each of the pages that it maps does, and some more for each gibibyte.
var (
	takeCost  = callCost{50 * time.Microsecond, 80 * time.Microsecond}
	giveCost  = callCost{35 * time.Microsecond, 600 * time.Microsecond}
	mapCost   = callCost{45 * time.Microsecond, 70 * time.Microsecond}
	unmapCost = callCost{35 * time.Microsecond, 600 * time.Microsecond}
)

// callCost is what a call or a page takes, and a gibibyte.
type callCost struct{ each, perGiB time.Duration }

func (c callCost) of(n, bytes int64) time.Duration {
	return time.Duration(n)*c.each + time.Duration(float64(c.perGiB)*float64(bytes)/(1<<30))
}

// meter is a driver that adds up what its calls would take.
type meter struct {
	allocators.Driver
	page  int64 // unit of what is mapped in multiples of it, bytes; the rest is in granules of 2 MiB
	spent time.Duration
}

// poolPage is the unit in which stream-ordered pools map memory, bytes.
const poolPage = 32 << 20

// newMeter is a meter for a model under settings.
func newMeter(d allocators.Driver, w WhatIf) *meter {
	if w.isCaching() {
		return &meter{Driver: d, page: w.Config.LargeSegmentSize}
	}
	return &meter{Driver: d, page: poolPage}
}

func (m *meter) pages(size int64) int64 {
	if m.page > 0 && size%m.page == 0 {
		return size / m.page
	}
	return size / config.SmallSegment
}

// Alloc implements allocators.Driver. A call that is refused takes as long as one that is not.
func (m *meter) Alloc(size int64) (uint64, error) {
	m.spent += takeCost.of(1, size)
	return m.Driver.Alloc(size)
}

// Free implements allocators.Driver.
func (m *meter) Free(addr uint64, size int64) {
	m.spent += giveCost.of(1, size)
	m.Driver.Free(addr, size)
}

// Map implements allocators.Driver.
func (m *meter) Map(addr uint64, size int64) error {
	m.spent += mapCost.of(m.pages(size), size)
	return m.Driver.Map(addr, size)
}

// Unmap implements allocators.Driver.
func (m *meter) Unmap(addr uint64, size int64) {
	m.spent += unmapCost.of(m.pages(size), size)
	m.Driver.Unmap(addr, size)
}
