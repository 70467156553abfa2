package report

import (
	"fmt"

	"github.com/vramscope/vramscope/allocators/caching"
	"github.com/vramscope/vramscope/allocators/caching/config"
	"github.com/vramscope/vramscope/simulate"
	"github.com/vramscope/vramscope/trace"
)

// OOM is a request that ran out of memory in the recording, with the arithmetic of the moment: after
// everything that could be given back had been.
type OOM struct {
	Event       int
	Time        trace.Time
	Requested   int64 // bytes, rounded as the allocator does
	Tried       int64 // bytes that the driver was asked for
	Allocated   int64 // bytes in use then
	Reserved    int64 // bytes held then
	DeviceFree  int64 // bytes that the device had free, 0 if the file does not tell
	LargestFree int64 // the largest free block that the request could have had, of its pool and stream; -1 if not known
	Verdict     string
	Why         string
	Holders     Holders    // of the first few
	Breakdown   *Breakdown // of the first few
	Layout      *Layout    // of the first few, where it is known
}

// The verdicts, as in the rest of the tool.
const (
	Genuine          = "genuine"
	Fragmented       = "fragmentation"
	FragmentedLittle = "fragmentation-low"
	OwnLimit         = "limit"
	NeverPossible    = "impossible-request"
	NotKnown         = "unknown-partial"
)

// Unusable is what was held and free, and still could not serve the request.
func (o OOM) Unusable() int64 { return o.Reserved - o.Allocated }

// fail notes a request that ran out of memory, and how memory lay then.
func (p *peaks) fail(i int, e *trace.Event, now *simulate.Now) {
	o := OOM{Event: i, Time: e.Time, Requested: e.Size, DeviceFree: int64(e.Addr), Allocated: now.Allocated, Reserved: now.Reserved, LargestFree: -1}
	if a := now.Model; a != nil && a.Allocated() == now.Allocated && a.Reserved() == now.Reserved {
		o.LargestFree = a.LargestFree(now.FailedPool, uint32(e.Stream), e.Size)
		if len(p.failed) < mostHolders {
			cfg := a.Config().Config
			lacking := cfg.SegmentSize(e.Size)
			switch {
			case p.limit >= 0:
				lacking += o.Reserved - p.limit
			case o.DeviceFree > 0 && o.DeviceFree < lacking:
				lacking -= o.DeviceFree
			}
			o.Layout = layoutOf(i, a)
			o.Layout.Freeing = freeingFor(placed(a), caching.Placed{Pool: now.FailedPool, Stream: uint32(e.Stream), Size: e.Size,
				Small: e.Size <= config.SmallSize}, &cfg, lacking)
		}
	}
	p.failed = append(p.failed, o)
}

func (d *Device) outOfMemory(failed []OOM) []OOM {
	cfg := d.Follow.Config
	for i := range failed {
		o := &failed[i]
		o.Tried = cfg.SegmentSize(o.Requested)
		o.Verdict, o.Why = judge(*o, d.Follow.Bounds.Limit)
	}
	return failed
}

// judge says what kind of failure it was. The allocator had given back all whole segments before, so what
// it still held and did not use was in pieces. Shares are of what the allocator could have had.
func judge(o OOM, limit int64) (verdict, why string) {
	had := o.Reserved + o.DeviceFree
	switch {
	case o.DeviceFree > 0 && o.Tried > had:
		return NeverPossible, fmt.Sprintf("%s tried are more than the %s that the allocator could have had with nothing else in use: a size that is too large, or wrong",
			Bytes(o.Tried), Bytes(had))
	case limit >= 0 && o.Reserved+o.Tried > limit:
		return OwnLimit, fmt.Sprintf("%s reserved and %s more are over the limit of %s that the process set itself",
			Bytes(o.Reserved), Bytes(o.Tried), Bytes(limit)) + inPieces(o, limit)
	case o.DeviceFree == 0:
		return NotKnown, fmt.Sprintf("the file does not tell how much the device had free when %s more than the %s reserved were tried; %s of what was reserved were free%s",
			Bytes(o.Tried), Bytes(o.Reserved), Bytes(o.Unusable()), o.pieces())
	case o.DeviceFree >= o.Tried:
		return OwnLimit, fmt.Sprintf("the device still had %s free, enough for the %s tried: a limit that the process set itself (a memory fraction) refused it",
			Bytes(o.DeviceFree), Bytes(o.Tried)) + inPieces(o, o.Reserved+o.Tried)
	case o.Allocated+o.Tried > had:
		return Genuine, fmt.Sprintf("%s in use and %s more exceed the %s that the allocator could have: nothing but less memory in use would have helped",
			Bytes(o.Allocated), Bytes(o.Tried), Bytes(had))
	case o.Unusable()*100 >= had*3:
		return Fragmented, fmt.Sprintf("%s were reserved but free in pieces, %s free on the device: together enough for the %s tried%s",
			Bytes(o.Unusable()), Bytes(o.DeviceFree), Bytes(o.Tried), o.largestPiece())
	case o.Unusable()*100 >= had:
		return FragmentedLittle, fmt.Sprintf("%s were reserved but free in pieces, little of %s: the device was nearly full as well",
			Bytes(o.Unusable()), Bytes(had))
	}
	return Genuine, fmt.Sprintf("of %s that the allocator could have, %s were in use: the device was simply full", Bytes(had), Bytes(o.Allocated))
}

func inPieces(o OOM, limit int64) string {
	if o.Unusable() < o.Requested {
		return ""
	}
	if o.Allocated+o.Requested > limit {
		return ""
	}
	return fmt.Sprintf("; %s of what it held were free%s", Bytes(o.Unusable()), o.pieces())
}

// pieces and largestPiece say how large the pieces were that the request could have had, if that is known.
func (o OOM) pieces() string {
	if o.LargestFree < 0 {
		return ""
	}
	return ", for this request in pieces of at most " + Bytes(o.LargestFree)
}

func (o OOM) largestPiece() string {
	if o.LargestFree < 0 {
		return ""
	}
	return ", the largest piece for it was " + Bytes(o.LargestFree)
}

// Help is a change of the settings that was tried by replaying the recording.
type Help struct {
	Conf      string
	Completed bool
	Peak      int64 // reserved bytes
	Instead   int64 // reserved bytes that it compares with: the recording's, or a replay's from where it begins
	Prefix    bool  // the recording ends where it ran out: what would have come after is not in it
}

const worthTrying = 5 // percent of the reserved peak that must be lost before a replay is made

// help replays under what most can change without knowing more, where memory was lost or ran out: with
// expandable segments, and without the settings that were made. The better one is kept.
func (d *Device) help() []Help {
	f := d.Follow
	lost := d.PeakReserved.Reserved - d.PeakAllocated.Allocated
	if d.Trace.Events.Len() == 0 || len(d.OOMs) == 0 && lost*100 < d.PeakReserved.Reserved*worthTrying {
		return nil
	}
	w := simulate.WhatIf{Config: f.Config, Limit: f.Bounds.Limit, Memory: f.Bounds.Capacity}
	if len(d.OOMs) > 0 && w.Limit < 0 && w.Memory == 0 {
		w.Limit = f.Bounds.Low // a limit there was, and it was no less
	}
	around, instead := f.Surroundings(), d.PeakReserved.Reserved
	if f.Truncated {
		around = f.Alike()
		instead = f.Requests.Once(around, w).Stats.Reserved.Peak
	}
	var best *Help
	for _, c := range helpful(f.Config) {
		w.Config = c
		run := f.Requests.Once(around, w)
		h := Help{
			Conf:      c.String(),
			Completed: run.Completed && run.FirstOOM == nil,
			Peak:      run.Stats.Reserved.Peak,
			Instead:   instead,
			Prefix:    f.Requests.Prefix(),
		}
		if best == nil || h.Completed && !best.Completed || h.Completed == best.Completed && h.Peak < best.Peak {
			best = &h
		}
	}
	if best == nil {
		return nil
	}
	return []Help{*best}
}

// Enough is memory in which a recording that ran out of it would have finished on its own settings, as a replay showed.
type Enough struct {
	Bytes int64 // what the process may reserve, or the device give
	Limit bool  // it is the limit that the process set itself
}

const (
	enoughReplays = 10        // sizes that are tried at most
	enoughEvents  = 4_000_000 // events that are replayed for it, about
)

// enough looks for a size of memory that suffices: between what was there and what is reserved if there is no limit, by
// halving. The one that is named was replayed; smaller ones may do. It is nil if more memory does not help.
func (d *Device) enough() *Enough {
	f := d.Follow
	if len(d.OOMs) == 0 {
		return nil
	}
	around := f.Surroundings()
	if f.Truncated {
		around = f.Alike()
	}
	last := d.OOMs[len(d.OOMs)-1]
	limited := f.Bounds.Limit >= 0 || last.Verdict == OwnLimit
	finishes := func(run simulate.Run) bool { return run.Completed && run.FirstOOM == nil }
	w := simulate.WhatIf{Config: f.Config, Limit: -1}
	free := f.Requests.Once(around, w)
	if !finishes(free) {
		return nil
	}
	low, high := d.PeakReserved.Reserved, free.Stats.Reserved.Peak
	for range min(max(enoughEvents/max(d.Trace.Events.Len(), 1), 1), enoughReplays) - 1 {
		middle := (low + (high-low)/2) / simulate.FitStep * simulate.FitStep
		if middle <= low || high-low <= high/200 {
			break
		}
		if limited {
			w.Limit = middle
		} else {
			w.Memory = middle
		}
		if run := f.Requests.Once(around, w); finishes(run) {
			high = middle
		} else {
			low = middle
		}
	}
	return &Enough{Bytes: high, Limit: limited}
}

// helpful lists the settings to try.
func helpful(now config.Config) []config.Config {
	var out []config.Config
	plain := config.Default()
	plain.MemoryFraction = now.MemoryFraction
	expandable := plain
	expandable.Expandable = true
	for _, c := range []config.Config{expandable, plain} {
		if c != now {
			out = append(out, c)
		}
	}
	return out
}

func confName(conf string) string {
	if conf == "" {
		return "the default settings"
	}
	return conf
}
