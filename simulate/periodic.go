package simulate

import (
	"cmp"
	"slices"

	"github.com/vramscope/vramscope/trace"
)

// A call of empty_cache that finds nothing to give back leaves no event, but it is felt in a replay under
// other settings, where it may find something. Programs call it in a rhythm, so such calls show as beats
// that are missing.

const leastBeats = 4 // calls that must be seen before a rhythm is believed in

// missedCalls finds the calls of empty_cache that left no event: if all calls that did come after a whole
// number of periods, counted in requests and frees, there was one at each of the other periods as well.
func (r *Requests) missedCalls() []Act {
	var seen []int // program operations before each call
	operations := 0
	next := 0
	acts := slices.DeleteFunc(slices.Clone(r.Acts), func(a Act) bool { return a.Kind != EmptyCache })
	if len(acts) < leastBeats {
		return nil
	}
	counts := func(op trace.Op) bool {
		return op == trace.OpAlloc || op == trace.OpOOM || op == trace.OpFreeRequested || op == trace.OpFree
	}
	for i, e := range r.Device.Events.All() {
		for next < len(acts) && acts[next].Event <= i {
			seen = append(seen, operations)
			next++
		}
		if counts(e.Op) {
			operations++
		}
	}
	period := seen[0]
	for i := 1; i < len(seen); i++ {
		period = min(period, seen[i]-seen[i-1])
	}
	if period < 2 {
		return nil
	}
	beat := map[int]bool{}
	for _, s := range seen {
		if s%period != 0 {
			return nil
		}
		beat[s] = true
	}
	var missed []Act
	operations = 0
	for i, e := range r.Device.Events.All() {
		if !counts(e.Op) {
			continue
		}
		if operations > 0 && operations%period == 0 && !beat[operations] {
			missed = append(missed, Act{Event: i, Kind: EmptyCache})
			beat[operations] = true
		}
		operations++
	}
	return missed
}

// addMissedCalls puts them among the acts.
func (r *Requests) addMissedCalls() int {
	missed := r.missedCalls()
	r.Acts = append(r.Acts, missed...)
	slices.SortStableFunc(r.Acts, func(a, b Act) int { return cmp.Compare(a.Event, b.Event) })
	return len(missed)
}
