package caching

import "github.com/vramscope/vramscope/allocators"

// Kind indexes a Metric.
type Kind int

// The kinds of pool that statistics are kept for.
const (
	All Kind = iota
	SmallPool
	LargePool
)

// Counter is one statistic: its value now, its peak, and the sums of all increases and decreases.
type Counter struct{ Current, Peak, Allocated, Freed int64 }

// Metric is a statistic for all pools together and for the small and large ones.
type Metric [3]Counter

func (m *Metric) up(k Kind, n int64) {
	c, all := &m[k], &m[All]
	c.Current += n
	c.Allocated += n
	all.Current += n
	if c.Current > c.Peak {
		c.Peak = c.Current
	}
	if all.Current > all.Peak {
		all.Peak = all.Current
	}
}

func (m *Metric) down(k Kind, n int64) {
	m[k].Current -= n
	m[All].Current -= n
}

// change adds a difference that may be of either sign.
func (m *Metric) change(k Kind, n int64) {
	if n > 0 {
		m.up(k, n)
	} else {
		m.down(k, -n)
	}
}

// sums fills in what is not kept as it goes.
func (m *Metric) sums() {
	m[All].Allocated = m[SmallPool].Allocated + m[LargePool].Allocated
	for k := range m {
		m[k].Freed = m[k].Allocated - m[k].Current
	}
}

// Detail are the statistics that torch.cuda.memory_stats() has, by the same names. Byte counts are of
// rounded blocks except RequestedBytes. "Active" is allocated or waiting for a stream; "inactive split"
// is free in a segment that is not whole; expandable segments are in neither that nor Segment.
type Detail struct {
	Allocation, Segment, Active, InactiveSplit                                     Metric // counts
	AllocatedBytes, ReservedBytes, ActiveBytes, InactiveSplitBytes, RequestedBytes Metric // bytes

	OversizeAllocations, OversizeSegments Counter // counts; blocks and segments of at least max_split_size

	NumAllocRetries   int64 // requests for which the cache was flushed
	NumOOMs           int64
	NumSyncAllStreams int64 // times that the device was waited for
	NumDeviceAlloc    int64
	NumDeviceFree     int64
}

func (c *Counter) up() {
	c.Current++
	c.Allocated++
	c.Peak = max(c.Peak, c.Current)
}

func (c *Counter) down() {
	c.Current--
	c.Freed++
}

// Detail is what has been counted so far, in PyTorch's terms.
func (a *Allocator) Detail() Detail {
	d := a.detail
	for _, m := range []*Metric{&d.Allocation, &d.Segment, &d.Active, &d.InactiveSplit,
		&d.AllocatedBytes, &d.ReservedBytes, &d.ActiveBytes, &d.InactiveSplitBytes, &d.RequestedBytes} {
		m.sums()
	}
	return d
}

// Stats is what has been counted so far, in the terms that all models share.
func (a *Allocator) Stats() *allocators.Stats {
	gauge := func(m *Metric) allocators.Gauge { return allocators.Gauge{Current: m[All].Current, Peak: m[All].Peak} }
	d := &a.detail
	a.stats.Requested = gauge(&d.RequestedBytes)
	a.stats.Allocated = gauge(&d.AllocatedBytes)
	a.stats.Active = gauge(&d.ActiveBytes)
	a.stats.Reserved = gauge(&d.ReservedBytes)
	a.stats.DeviceAllocs, a.stats.DeviceFrees = d.NumDeviceAlloc, d.NumDeviceFree
	a.stats.Retries, a.stats.OOMs = d.NumAllocRetries, d.NumOOMs
	return &a.stats
}

// Allocated is the bytes handed out now.
func (a *Allocator) Allocated() int64 { return a.detail.AllocatedBytes[All].Current }

// Reserved is the bytes held from the driver now.
func (a *Allocator) Reserved() int64 { return a.detail.ReservedBytes[All].Current }

// Private is the bytes held from the driver now for private pools.
func (a *Allocator) Private() int64 { return a.private }

// Fragmentation splits what is reserved now.
func (a *Allocator) Fragmentation() allocators.Fragmentation {
	f := a.Unused()
	f.Largest = a.largestFree()
	return f
}

// Unused is Fragmentation without the largest free block.
func (a *Allocator) Unused() allocators.Fragmentation {
	d := &a.detail
	active, allocated := d.ActiveBytes[All].Current, d.AllocatedBytes[All].Current
	requestedLive := d.RequestedBytes[All].Current - a.pendingRequested
	return allocators.Fragmentation{
		Cached:   a.cached,
		Stranded: d.ReservedBytes[All].Current - active - a.cached,
		Rounding: allocated - requestedLive,
		Pending:  active - allocated,
	}
}
