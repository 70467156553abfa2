package sim

import (
	"fmt"
	"math/rand/v2"
)

// Variant is one guess at what a trace cannot know of a process. A what-if that is replayed over all of
// them gives a range; where all agree the answer does not depend on what is unknown.
type Variant struct {
	Name   string
	Config Config
	// ShiftFrees is by how many operations at most the caller should move each free that waited for an
	// event of another stream, earlier or later: such events complete at other times in each run.
	ShiftFrees int
	// Seed is for the caller's choice of those shifts.
	Seed uint64
}

// maxShift is as far as a free that waits for an event is moved, in operations.
const maxShift = 64

// Variants lists the guesses that need no recording of where segments were; the first is the best
// single one, a fresh process in which nothing else happens. The numbers in the names leave out 2 and
// 3, which Learned.Variants has. operations is how many the caller will count through Tick. The list is
// the same for the same arguments.
func Variants(capacity, operations int64) []Variant {
	plain := Config{Capacity: capacity}
	list := []Variant{{Name: "1 fresh process", Config: plain}}
	for i, n := range []int64{96, 160, 256, 544, 1056, 4096} {
		c := plain
		c.Events = []Event{gapAbove(n * mib)}
		list = append(list, Variant{Name: fmt.Sprintf("%d gap of %d MiB above the context", 4+i, n), Config: c})
	}
	noHole := plain
	noHole.NoBaseHole = true
	list = append(list, Variant{Name: "10 no hole in the first chunk", Config: noHole})
	noHole.Events = []Event{gapAbove(4096 * mib)}
	list = append(list, Variant{Name: "11 no hole in the first chunk, gap of 4096 MiB above", Config: noHole})
	for i, n := range []int{12, 24, 36} {
		seed := uint64(12 + i)
		c := plain
		c.Events = openings(rand.New(rand.NewPCG(seed, 0)), n, operations)
		list = append(list, Variant{
			Name:   fmt.Sprintf("%d %d places for a chunk open above the context", seed, n),
			Config: c, ShiftFrees: maxShift, Seed: seed,
		})
	}
	for seed := uint64(15); seed <= 16; seed++ {
		c := plain
		c.Events = takings(rand.New(rand.NewPCG(seed, 0)), operations)
		list = append(list, Variant{
			Name:   fmt.Sprintf("%d blocks and mappings taken", seed),
			Config: c, ShiftFrees: maxShift, Seed: seed,
		})
	}
	return list
}

// gapAbove is free address space from the start, directly above the context's first chunk.
func gapAbove(size int64) Event {
	return Event{Kind: OpenGap, Addr: DefaultBase + ChunkUnit, Size: size}
}

// openings are n places above the context that each hold one smallest chunk, in random order. A chunk
// needs almost as much again in its gap, so each place is two units, and lies two from the next.
func openings(r *rand.Rand, n int, operations int64) []Event {
	events := make([]Event, n)
	for i, at := range r.Perm(n) {
		events[i] = Event{
			Op:   early(r, operations),
			Kind: OpenGap,
			Addr: DefaultBase + uint64(2+4*at)*ChunkUnit,
			Size: 2 * ChunkUnit,
		}
	}
	return events
}

// takings are blocks of the driver's own (code, the data of modules) and mappings of the process
// (arenas of threads) that come to stay.
func takings(r *rand.Rand, operations int64) []Event {
	var events []Event
	for range 8 {
		events = append(events, Event{Op: early(r, operations), Kind: TakeBlock, Size: Granule})
	}
	for range 4 {
		events = append(events, Event{Op: early(r, operations), Kind: TakeMapping, Size: 64 * mib})
	}
	return events
}

// early is a random operation number from 1 on, early ones more likely: half of them lie in the first
// eighth, as programs do most things for the first time near their start.
func early(r *rand.Rand, operations int64) int64 {
	u := r.Float64()
	return 1 + int64(u*u*u*float64(max(operations-1, 0)))
}
