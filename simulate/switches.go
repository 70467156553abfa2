package simulate

import (
	"slices"

	"github.com/vramscope/vramscope/trace"
)

// When expandable_segments was switched.
//
// A program can switch the setting while it runs, and no event says so. New memory shows which it is: a segment
// or pages. In between it decides which free blocks a request may have, and whether a rest is split off, which
// may show much later, where the rest is used or the block is freed. So the recording is followed as if nothing
// had been switched but where an event cannot be explained otherwise, and where it then differs, the requests
// before are tried one by one, the last first, that the other setting would have served at the same place with
// another size.

const (
	// mostChoices is how many requests are tried for one difference.
	mostChoices = 200
	// searchEffort is how many events are looked at in all: so many for each of the recording, and so many more.
	// What explaining costs is counted as so many units of work an event.
	searchEffort    = 15
	workOfEvent     = 50
	followEffort    = 500 // that of following at all
	searchEffortMin = 300_000
)

// searched is what a search for switches learns from following once.
type searched struct {
	choices []int // requests at which a switch would have made a difference in size alone
}

// outcome is how far a recording can be followed with some switches.
type outcome struct {
	reached int // the first event that differs, more than there are if none does
	choices []int
}

// findSwitches lists the requests before which the setting was switched, those aside that show by themselves.
func (f *follower) findSwitches() []int {
	effort := searchEffortMin + searchEffort*f.dev.Events.Len()
	var found []int
	best := f.follows(found, &effort)
	for best.reached <= f.dev.Events.Len() && effort > 0 {
		from := best
		for i := len(from.choices) - 1; i >= max(0, len(from.choices)-mostChoices) && effort > 0; i-- {
			with := append(slices.Clone(found), from.choices[i])
			if o := f.follows(with, &effort); o.reached > best.reached {
				best, found = o, with
				break
			}
		}
		if best.reached == from.reached {
			break
		}
	}
	return found
}

// follows follows the recording with the given switches until it differs.
func (f *follower) follows(switches []int, effort *int) outcome {
	opt := f.opt
	opt.Each = nil
	s := newFollower(f.dev, f.cfg, opt)
	s.switches, s.search = switches, &searched{}
	out := s.follow()
	o := outcome{reached: f.dev.Events.Len() + 1, choices: s.search.choices}
	if m := out.Score.First; m != nil {
		o.reached = m.Event
	}
	*effort -= followEffort + min(o.reached, s.i) + f.dev.Events.Len()/8 + s.work/workOfEvent
	return o
}

// searchEnds says whether a search has seen enough.
func (f *follower) searchEnds() bool { return f.search != nil && f.out.Score.First != nil }

// told is the size of a block as far as the file tells it, 0 if it does not.
func (f *follower) told(b trace.BlockID) int64 {
	if int(b) < len(f.out.Sizes) {
		return f.out.Sizes[b]
	}
	return 0
}

// sizeAsTold says whether a request that is served from the cache would get a block of the size that the file
// tells, if it does.
func (f *follower) sizeAsTold(e *trace.Event, r *region) bool {
	z, on := f.cfg.RoundSize(e.Size), f.cfg.Expandable
	_, size, ok := f.a.Cut(r.pool, uint32(e.Stream), r.small, z, on)
	told := f.told(e.Block)
	if told == 0 && f.search != nil && ok {
		if addr, other, _ := f.a.Cut(r.pool, uint32(e.Stream), r.small, z, !on); addr == e.Addr && other != size {
			f.search.choices = append(f.search.choices, f.end)
		}
	}
	return told == 0 || !ok || size == told
}
