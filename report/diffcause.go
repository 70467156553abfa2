package report

import (
	"fmt"
	"strings"

	"github.com/vramscope/vramscope/allocators"
	"github.com/vramscope/vramscope/allocators/caching/config"
	"github.com/vramscope/vramscope/simulate"
	"github.com/vramscope/vramscope/trace"
)

// SameRequests says how far two programs asked the same of their allocator.
type SameRequests struct {
	Same  bool
	A, B  int // requests and frees of each
	Until int // so many of them agree, from the first on
}

// sameRequests compares sizes, and which block is freed when, in order.
func sameRequests(a, b *simulate.Requests) SameRequests {
	x, y := newRequestReader(a), newRequestReader(b)
	s := SameRequests{Same: true}
	for {
		p, okA := x.next()
		q, okB := y.next()
		if okA {
			s.A++
		}
		if okB {
			s.B++
		}
		if !okA && !okB {
			return s
		}
		if s.Same && okA && okB && p == q {
			s.Until++
		} else {
			s.Same = false
		}
	}
}

// asked is a request or a free.
type asked struct {
	size  int64 // of a request; of a free -1
	block int   // the how manyth request; the state before the recording comes first
}

type requestReader struct {
	events *trace.Events
	at     int
	number []int // by block
	n      int
}

func newRequestReader(r *simulate.Requests) *requestReader {
	x := &requestReader{events: &r.Device.Events, number: make([]int, r.Device.NumBlocks)}
	for _, b := range r.Initial {
		x.number[b.ID] = x.n
		x.n++
	}
	return x
}

func (r *requestReader) next() (asked, bool) {
	for ; r.at < r.events.Len(); r.at++ {
		e := r.events.At(r.at)
		if int(e.Block) >= len(r.number) {
			continue
		}
		switch e.Op {
		case trace.OpAlloc:
			r.at++
			r.number[e.Block] = r.n
			r.n++
			return asked{e.Size, r.n - 1}, true
		case trace.OpFreeRequested, trace.OpFree:
			r.at++
			return asked{-1, r.number[e.Block]}, true
		}
	}
	return asked{}, false
}

// counterpart is the event of another recording of the same requests that answers to one of this; -1 is before
// the first in both.
func counterpart(of, in *Device, event int) int {
	if event < 0 {
		return -1
	}
	r := newRequestReader(of.Follow.Requests)
	n := 0
	for {
		if _, ok := r.next(); !ok || r.at > event+1 {
			break
		}
		n++
	}
	r = newRequestReader(in.Follow.Requests)
	for range n {
		r.next()
	}
	return r.at - 1
}

// Cause splits the difference in reserved memory into what the settings did and what the requests did, by
// replaying each run's requests from an empty cache. Bytes.
type Cause struct {
	A, B     int64 // replayed, each under its own settings
	Crossed  int64 // the requests of A under the settings of B
	Settings []SettingEffect
}

// BySettings is what the settings make of the same requests.
func (c *Cause) BySettings() int64 { return c.Crossed - c.A }

// ByRequests is what the requests make under the same settings.
func (c *Cause) ByRequests() int64 { return c.B - c.Crossed }

// SettingEffect is what one setting alone makes of the requests of A, as peak reserved bytes.
type SettingEffect struct {
	SettingDelta
	Peak int64
}

// mostEffects bounds how many settings are tried alone.
const mostEffects = 6

// findCause replays, if there is a difference to explain.
func (d *DeviceDiff) findCause() *Cause {
	if d.A.PeakReserved == Unknown || d.B.PeakReserved == Unknown {
		return nil
	}
	if d.A.PeakReserved == d.B.PeakReserved && d.A.PeakReplayed == d.B.PeakReplayed && len(d.Settings) == 0 {
		return nil
	}
	c := &Cause{A: d.A.PeakReplayed, B: d.B.PeakReplayed, Crossed: d.A.PeakReplayed}
	if len(d.Settings) == 0 {
		return c
	}
	f := d.A.Analysis.Follow
	c.Crossed = replayFromEmpty(f, d.B.Settings).Stats.Reserved.Peak
	if len(d.Settings) == 1 {
		c.Settings = []SettingEffect{{d.Settings[0], c.Crossed}}
		return c
	}
	for _, s := range d.Settings[:min(len(d.Settings), mostEffects)] {
		if cfg, ok := withSetting(d.A.Settings, s); ok {
			c.Settings = append(c.Settings, SettingEffect{s, replayFromEmpty(f, cfg).Stats.Reserved.Peak})
		}
	}
	return c
}

// withSetting is a configuration with one setting changed to what it is in the second run.
func withSetting(c config.Config, s SettingDelta) (config.Config, bool) {
	var parts []string
	for _, p := range settingParts(c.String()) {
		if p.Key != s.Key {
			parts = append(parts, p.Key+":"+p.A)
		}
	}
	if s.B != "" {
		parts = append(parts, s.Key+":"+s.B)
	}
	out, _, err := config.Parse(strings.Join(parts, ","), config.Latest)
	out.LegacyDiv1 = c.LegacyDiv1
	return out, err == nil
}

// mechanism says how a setting works on reserved memory, with what was held and not in use in each recording.
func mechanism(s SettingDelta, a, b *Profiled) string {
	held := heldText(a.Analysis.Fragmentation, b.Analysis.Fragmentation)
	on := s.B != "" && s.B != "False"
	switch s.Key {
	case "max_split_size_mb":
		if on {
			return fmt.Sprintf("blocks of %s MiB and more are kept whole and serve only requests of nearly their own size, so where sizes vary new ones are taken beside those that lie idle: %s", s.B, held)
		}
		return "without it every block may be split, so that one large block serves requests of any size: " + held
	case "expandable_segments":
		if on {
			return "memory is mapped page by page into one range that grows, so free memory joins up whatever was freed: " + held
		}
		return "each segment is of a fixed size again, and what is free in one does not join what is free in another: " + held
	case "roundup_power2_divisions":
		if on {
			return "sizes are rounded up to a few steps between powers of two, so that freed blocks fit again, at the price of what the rounding adds: " + held
		}
		return "sizes are no longer rounded up to steps between powers of two: " + held
	case "garbage_collection_threshold":
		return "above its share of the memory limit idle segments are given back before new ones are taken: " + held
	case "large_segment_size_mb":
		return "requests between 1 and 10 MiB share segments of this size: " + held
	case "max_non_split_rounding_mb":
		return "a block that is kept whole may be this much longer than what it serves: " + held
	}
	return held
}

// heldText says what was reserved and not in use, where that differs.
func heldText(a, b allocators.Fragmentation) string {
	parts := []struct {
		what string
		a, b int64
	}{
		{"in whole segments that nothing uses", a.Cached, b.Cached},
		{"free beside something in use", a.Stranded, b.Stranded},
		{"waiting for other streams", a.Pending, b.Pending},
		{"rounding", a.Rounding, b.Rounding},
	}
	total := abs(b.Cached-a.Cached) + abs(b.Stranded-a.Stranded) + abs(b.Pending-a.Pending) + abs(b.Rounding-a.Rounding)
	var out []string
	for _, p := range parts {
		if abs(p.b-p.a)*20 > total {
			out = append(out, fmt.Sprintf("%s %s, before %s", MiB(p.b), p.what, MiB(p.a)))
		}
	}
	if len(out) == 0 {
		return "as much is held and not in use as before"
	}
	return "at its peak it held " + strings.Join(out, "; ")
}
