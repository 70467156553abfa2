package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/vramscope/vramscope/trace"
)

// Live is what existed at the one instant that a file shows.
//
//	Held = Used + Free, where the file has free blocks
type Live struct {
	Used, Free   int64 // bytes
	Blocks       int64 // in use
	FreeBlocks   int64
	LargestFree  int64
	Held         int64 // bytes of the ranges that the blocks lie in, 0 if the file does not tell
	ByStack      []Holder
	Unattributed int64       // bytes in use without a stack
	Unknown      int64       // blocks of those
	Kinds        []LiveKind  // where the file tells kinds of blocks
	Failed       *LiveFailed // the request that failed, nil if there is none
}

// LiveKind is what the blocks of one kind take.
type LiveKind struct {
	Kind   string
	Bytes  int64
	Blocks int64
}

// LiveFailed is the request for which an instant was written down.
type LiveFailed struct {
	Requested int64 // bytes, rounded as the allocator does
	Time      trace.Time
}

// LiveOf adds up an instant.
func LiveOf(d *trace.Device) Live {
	var l Live
	byStack := map[trace.StackID]*Holder{}
	held := func(s trace.StackID, bytes, blocks int64) {
		l.Used += bytes
		l.Blocks += blocks
		if s == trace.NoStack {
			l.Unattributed += bytes
			l.Unknown += blocks
			return
		}
		h := byStack[s]
		if h == nil {
			h = &Holder{Stack: s}
			byStack[s] = h
		}
		h.Bytes += bytes
		h.Blocks += int(blocks)
	}
	for i := range d.Final.Blocks {
		b := &d.Final.Blocks[i]
		if b.State != trace.BlockFree {
			held(b.Stack, b.Size, 1)
			continue
		}
		l.Free += b.Size
		l.FreeBlocks++
		l.LargestFree = max(l.LargestFree, b.Size)
	}
	kinds := map[string]int{}
	for _, g := range d.Final.Groups {
		held(g.Stack, g.Bytes, g.Blocks)
		i, ok := kinds[g.Kind]
		if !ok {
			i = len(l.Kinds)
			kinds[g.Kind] = i
			l.Kinds = append(l.Kinds, LiveKind{Kind: g.Kind})
		}
		l.Kinds[i].Bytes += g.Bytes
		l.Kinds[i].Blocks += g.Blocks
	}
	for _, s := range d.Final.Segments {
		l.Held += s.Size
	}
	for _, h := range byStack {
		l.ByStack = append(l.ByStack, *h)
	}
	slices.SortFunc(l.ByStack, func(a, b Holder) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(b.Blocks, a.Blocks), cmp.Compare(a.Stack, b.Stack))
	})
	slices.SortStableFunc(l.Kinds, func(a, b LiveKind) int { return cmp.Compare(b.Bytes, a.Bytes) })
	for _, e := range d.Events.All() {
		if e.Op == trace.OpOOM {
			l.Failed = &LiveFailed{Requested: e.Size, Time: e.Time}
		}
	}
	return l
}

// External is how much of the free memory is not in the largest free block, in percent.
func (l Live) External() float64 {
	if l.Free == 0 {
		return 0
	}
	return 100 * (1 - float64(l.LargestFree)/float64(l.Free))
}

type liveJSON struct {
	Used        int64          `json:"used_bytes"`
	Blocks      int64          `json:"blocks"`
	Free        *int64         `json:"free_bytes"`
	FreeBlocks  *int64         `json:"free_blocks"`
	LargestFree *int64         `json:"largest_free_bytes"`
	Held        *int64         `json:"held_bytes"`
	Regions     *int           `json:"regions"`
	External    *float64       `json:"external_fragmentation_percent"`
	Requested   *int64         `json:"failed_request_bytes"`
	Verdict     *string        `json:"verdict"`
	Why         *string        `json:"why"`
	Kinds       []liveKindJSON `json:"kinds"`
	Bins        []binJSON      `json:"bins"`
	Map         *string        `json:"map"`
}

type binJSON struct {
	Size        int64 `json:"size_bytes"`
	Chunks      int   `json:"chunks"`
	InUse       int   `json:"in_use"`
	Bytes       int64 `json:"bytes"`
	FreeBytes   int64 `json:"free_bytes"`
	LargestFree int64 `json:"largest_free_bytes"`
}

type liveKindJSON struct {
	Kind   string `json:"kind"`
	Bytes  int64  `json:"bytes"`
	Blocks int64  `json:"blocks"`
}

// liveOf renders an instant for programs, nil where the device has none.
func liveOf(d *trace.Device) *liveJSON {
	if d.Content != trace.Instant {
		return nil
	}
	l := LiveOf(d)
	j := &liveJSON{Used: l.Used, Blocks: l.Blocks, Kinds: []liveKindJSON{}, Bins: []binJSON{}}
	if l.Held > 0 {
		j.Map = known(MapOf(&d.Final, mapWidth*mapRows))
		for _, b := range BinsOf(&d.Final) {
			j.Bins = append(j.Bins, binJSON(b))
		}
		regions, external := len(d.Final.Segments), math.Round(10*l.External())/10
		j.Free, j.FreeBlocks, j.LargestFree, j.Held = &l.Free, &l.FreeBlocks, &l.LargestFree, &l.Held
		j.Regions, j.External = &regions, &external
	}
	if l.Failed != nil {
		j.Requested = &l.Failed.Requested
		verdict, why := l.judge(d)
		j.Verdict, j.Why = known(verdict), known(why)
	}
	for _, k := range l.Kinds {
		j.Kinds = append(j.Kinds, liveKindJSON(k))
	}
	return j
}

// liveLine says what existed, on one line.
func liveLine(d *trace.Device) string {
	l := LiveOf(d)
	text := fmt.Sprintf("%s in use in %s", Bytes(l.Used), plural(int(l.Blocks), "block"))
	if l.Held > 0 {
		text += fmt.Sprintf(", %s free in %s (the largest %s), %s held", Bytes(l.Free), plural(int(l.FreeBlocks), "block"), Bytes(l.LargestFree), Bytes(l.Held))
	}
	return text
}

// judge says why the request of an instant failed, nothing if the file does not tell.
func (l Live) judge(d *trace.Device) (verdict, why string) {
	if l.Failed == nil || l.Held == 0 {
		return "", ""
	}
	asked, room := l.Failed.Requested, max(0, d.Capacity-l.Held)
	switch {
	case !d.HasFinal:
		return Untold, "what the log has of the allocator's memory is not whole"
	case d.Capacity > 0 && asked > d.Capacity:
		return "impossible-request", fmt.Sprintf("%s are more than the %s that the allocator may have at all", Bytes(asked), Bytes(d.Capacity))
	case l.Used+asked > l.Held+room:
		return Genuine, fmt.Sprintf("%s in use and %s more exceed the %s that the allocator may have: nothing but less memory in use would have helped",
			Bytes(l.Used), Bytes(asked), Bytes(l.Held+room))
	case l.LargestFree < asked:
		return Fragmented, fmt.Sprintf("%s were free, enough for the %s asked, but in %s of which the largest is %s",
			Bytes(l.Free), Bytes(asked), plural(int(l.FreeBlocks), "piece"), Bytes(l.LargestFree))
	}
	return "", fmt.Sprintf("a free block of %s would have served it: the request is of another size, or another moment", Bytes(l.LargestFree))
}

// severalInstants says whether a device's series have more than the one instant that is shown.
func severalInstants(d *trace.Device) bool {
	return slices.ContainsFunc(d.Series, func(s trace.Series) bool { return s.Samples > 1 })
}
