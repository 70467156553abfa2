package report

import (
	"slices"

	"github.com/vramscope/vramscope/allocators/caching/config"
	"github.com/vramscope/vramscope/simulate"
	"github.com/vramscope/vramscope/trace"
)

// peaks watches a follow for its greatest moments.
type peaks struct {
	from, to            int
	allocated, reserved moment
	raised              bool // the event before this one raised reserved to a new peak
	failed              []OOM
	held                *trace.Series // what the allocator had reserved by its own count, nil if that is in the events
	dev                 *trace.Device
	uses                *uses
	at                  *moment // the instant that was asked for, nil if none was
	limit               int64   // bytes that the process may reserve, negative if not known
}

type moment struct {
	event               int
	allocated, reserved int64
}

func (p *peaks) watch(i int, e *trace.Event, now simulate.Now) {
	if p.held != nil {
		now.Reserved = levelAt(p.held, e.Time)
	}
	if p.dev.Content != trace.Decisions {
		now.Model = nil // it has no memory
	}
	if e.Op == trace.OpOOM {
		p.fail(i, e, &now)
	}
	p.uses.add(i, e, &now)
	if p.at != nil && p.at.event == i {
		p.at.allocated, p.at.reserved = now.Allocated, now.Reserved
	}
	if i < p.from || i >= p.to {
		return
	}
	allocated, reserved := now.Allocated, now.Reserved
	if p.allocated.event < 0 || allocated > p.allocated.allocated {
		p.allocated = moment{i, allocated, reserved}
	}
	// The peak of reserved is after the request that raised it: what a segment is taken for is not unused.
	raised := p.reserved.event < 0 || reserved > p.reserved.reserved
	if raised || p.raised && e.Op == trace.OpAlloc && reserved == p.reserved.reserved {
		p.reserved = moment{i, allocated, reserved}
	}
	p.raised = raised && e.Op.IsSegment()
}

// watch follows a device and looks out for its greatest moments. Where following shows that blocks older than the
// recording are larger than was assumed, it follows once more: what is said of a moment before that was known would not
// add up with what is said later.
func (o Options) watch(dev *trace.Device, cfg config.Config) (*simulate.Following, *peaks) {
	follow := func(dev *trace.Device) (*simulate.Following, *peaks) {
		p := &peaks{dev: dev, held: countedBy(dev), from: o.From, to: o.To, allocated: moment{event: -1}, reserved: moment{event: -1},
			uses: newUses(&dev.Events), limit: o.Limit}
		if o.To <= 0 {
			p.to = dev.Events.Len()
		}
		if o.At != nil {
			p.at = &moment{event: *o.At}
		}
		return simulate.Follow(dev, cfg, simulate.FollowOptions{Limit: o.Limit, Memory: o.Memory, Each: p.watch}), p
	}
	f, p := follow(dev)
	if f.Score.Repairs == 0 {
		return f, p
	}
	known := *dev
	known.Initial.Blocks = slices.Clone(dev.Initial.Blocks)
	sizes := map[trace.BlockID]int64{}
	for _, b := range f.Requests.Initial {
		sizes[b.ID] = b.Size
	}
	for i := range known.Initial.Blocks {
		if b := &known.Initial.Blocks[i]; sizes[b.ID] > 0 {
			b.Size = sizes[b.ID]
		}
	}
	again, q := follow(&known)
	if again.Score.Repairs > 0 {
		return f, p
	}
	again.Score, again.Loose = f.Score, f.Loose
	return again, q
}
