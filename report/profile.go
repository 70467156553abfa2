package report

import (
	"github.com/vramscope/vramscope/allocators/caching"
	"github.com/vramscope/vramscope/allocators/caching/config"
	"github.com/vramscope/vramscope/allocators/driver/sim"
	"github.com/vramscope/vramscope/simulate"
	"github.com/vramscope/vramscope/trace"
)

// Unknown is the value of a figure that a recording cannot give.
const Unknown = -1

// Profile is what the recording of one device comes to: figures that can be kept and compared with those of
// another run. By stack it counts what the program asked for, since what the allocator makes of a request
// changes with its settings and its history, and the request does not.
type Profile struct {
	Device   int
	Events   int
	Complete bool          // the recording starts from an empty allocator
	Settings config.Config // in force

	PeakAllocated int64 // bytes, rounded as the allocator does
	PeakRequested int64 // bytes asked for, of those, at the same moment
	PeakReserved  int64 // bytes, as recorded; Unknown if the recording does not show the allocator's memory
	PeakReplayed  int64 // bytes reserved at most when the requests are replayed from an empty cache
	End           int64 // bytes allocated after the last event
	EndReserved   int64 // bytes; may be Unknown
	Retries       int64 // requests for which the cache was flushed; may be Unknown
	OOMs          int64 // requests that failed

	Steps  int     // 0 if none were found
	Growth float64 // bytes a step by which the memory in use grows, 0 where nothing does; Unknown without steps

	Stacks       *trace.Stacks
	Uses         []StackUse // by stack, those that ever held anything
	Before       StackUse   // blocks older than the recording whose stack the file does not know
	Unattributed StackUse   // blocks recorded without a stack
}

// StackUse is what one call stack held. Bytes are those asked for.
type StackUse struct {
	Stack  trace.StackID
	Peak   int64 // when the most was allocated on the device
	Blocks int   // then
	Most   int64 // at any moment
	End    int64 // after the last event
	Calls  int   // allocations
}

// Fragmentation is the share of what was reserved that was never in use at once, Unknown if reserved is.
func (p *Profile) Fragmentation() float64 {
	if p.PeakReserved <= 0 {
		return Unknown
	}
	return max(0, float64(p.PeakReserved-p.PeakAllocated)/float64(p.PeakReserved))
}

// Profiled is a profile with the analysis that it comes from.
type Profiled struct {
	Profile
	Analysis *Device
}

// HasRequests says whether a device shows what was asked of an allocator, in order, so that it has a profile:
// samples and dumps of one moment do not.
func HasRequests(dev *trace.Device) bool {
	return dev.Events.Len() > 0 && (dev.Content == trace.Decisions || dev.Content == trace.Requests)
}

// ProfileOf reduces a device that has requests to its profile.
func ProfileOf(t *trace.Trace, dev *trace.Device, o Options) *Profiled {
	cfg, _ := simulate.SettingsOf(t, config.DefaultVersion)
	o.Replay = false
	d := analyzeDevice(t, dev, cfg, o)
	f := d.Follow
	p := &Profiled{Analysis: &d}
	p.Profile = Profile{
		Device: dev.Index, Events: dev.Events.Len(), Complete: !f.Truncated, Settings: f.Config,
		PeakAllocated: d.PeakAllocated.Allocated, PeakReserved: Unknown, End: d.End.Allocated, EndReserved: Unknown,
		Retries: Unknown, OOMs: int64(countOOMs(dev)), Steps: len(d.Steps.Steps), Growth: Unknown, Stacks: t.Stacks,
	}
	if dev.Content == trace.Decisions || countedBy(dev) != nil {
		p.PeakReserved, p.EndReserved = d.PeakReserved.Reserved, d.End.Reserved
	}
	if dev.Content == trace.Decisions && !f.Score.Abandoned {
		p.Retries = f.Model.Detail().NumAllocRetries
	}
	if d.Growth.Enough() {
		p.Growth = growthOf(&d.Growth)
	}
	p.PeakReplayed = replayFromEmpty(f, f.Config).Stats.Reserved.Peak
	p.countAt(d.PeakAllocated.Event)
	p.PeakRequested = p.Before.Peak + p.Unattributed.Peak
	for _, u := range p.Uses {
		p.PeakRequested += u.Peak
	}
	return p
}

// growthOf is how many bytes a step stay that were not there before: what the call stacks come to that grow, or
// all together if that grows by more.
func growthOf(g *simulate.Growth) float64 {
	var sum float64
	for _, l := range g.Leaks {
		sum += l.Bytes.Slope
	}
	if g.LiveGrows {
		sum = max(sum, g.Live.Slope)
	}
	return max(sum, 0)
}

func countOOMs(dev *trace.Device) int {
	n := 0
	for _, e := range dev.Events.All() {
		if e.Op == trace.OpOOM {
			n++
		}
	}
	return n
}

// countAt counts by stack, with the moment after the given event as the peak.
func (p *Profiled) countAt(event int) {
	type block struct {
		stack trace.StackID
		size  int64
		old   bool
		live  bool
	}
	dev := p.Analysis.Trace
	blocks := make([]block, dev.NumBlocks)
	uses := make([]StackUse, p.Stacks.Len())
	held := make([]StackUse, len(uses)) // now, in End and Blocks
	var before, beforeNow, bare, bareNow StackUse
	of := func(b block) (use, now *StackUse) {
		switch {
		case b.stack != trace.NoStack && int(b.stack) < len(uses):
			return &uses[b.stack], &held[b.stack]
		case b.old:
			return &before, &beforeNow
		}
		return &bare, &bareNow
	}
	take := func(b block) {
		use, now := of(b)
		now.End += b.size
		now.Blocks++
		use.Most = max(use.Most, now.End)
	}
	atPeak := func() {
		for i := range uses {
			uses[i].Peak, uses[i].Blocks = held[i].End, held[i].Blocks
		}
		before.Peak, before.Blocks = beforeNow.End, beforeNow.Blocks
		bare.Peak, bare.Blocks = bareNow.End, bareNow.Blocks
	}
	for _, b := range p.Analysis.Follow.Requests.Initial {
		if b.State != trace.BlockLive || int(b.ID) >= len(blocks) {
			continue
		}
		blocks[b.ID] = block{b.Stack, requestedOf(b.Block), true, true}
		take(blocks[b.ID])
	}
	if event < 0 {
		atPeak()
	}
	for i, e := range dev.Events.All() {
		if int(e.Block) < len(blocks) {
			switch b := &blocks[e.Block]; e.Op {
			case trace.OpAlloc:
				*b = block{e.Stack, e.Size, false, true}
				use, _ := of(*b)
				use.Calls++
				take(*b)
			case trace.OpFreeRequested, trace.OpFree:
				if b.live {
					b.live = false
					_, now := of(*b)
					now.End -= b.size
					now.Blocks--
				}
			}
		}
		if i == event {
			atPeak()
		}
	}
	p.Uses = p.Uses[:0]
	for i := range uses {
		uses[i].End = held[i].End
		if uses[i].Most > 0 {
			uses[i].Stack = trace.StackID(i)
			p.Uses = append(p.Uses, uses[i])
		}
	}
	before.End, bare.End = beforeNow.End, bareNow.End
	p.Before, p.Unattributed = before, bare
}

// requestedOf is what was asked for a block older than the recording; what it takes, if the file does not say.
func requestedOf(b trace.Block) int64 {
	if b.Requested > 0 {
		return b.Requested
	}
	return b.Size
}

// replayFromEmpty replays the requests of a recording in a process that has held nothing before, under the
// given settings. What comes of it depends on the requests alone, so it is the same wherever and whenever it
// is done, while what a recording has reserved depends on all that its process did before.
func replayFromEmpty(f *simulate.Following, cfg config.Config) simulate.Run {
	c := caching.NewConfig(cfg)
	c.Limit = f.Bounds.Limit
	memory := f.Bounds.Capacity
	if len(f.Requests.Failed) > 0 && c.Limit < 0 && memory == 0 {
		c.Limit = f.Bounds.Low // a limit there was, and it was no less
	}
	driver := sim.New(sim.Config{Capacity: memory})
	p := simulate.Player{Requests: f.Requests, Model: caching.New(driver, c)}
	if err := p.Start(); err != nil {
		return simulate.Run{Stats: *p.Model.Stats()}
	}
	return p.Play()
}
