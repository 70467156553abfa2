package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
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

// AsRecorded names the variant in which memory is where the recording had it.
const AsRecorded = "2 as recorded, changes at first sight"

// Variants lists the guesses for a process: twenty-five, or twenty-three without what a recording taught (nil).
// The first is the best single one, a fresh process in which nothing else happens. c has what is common
// to all, operations is how many the caller will count through Tick. The list is the same for the same
// arguments.
//
// Do not use it where the recording says that the rules are not the driver's, see Score.Fits; Plain has
// the guesses for that.
func Variants(c Config, operations int64, learned *Learned) []Variant {
	list := []Variant{{Name: "1 fresh process", Config: c}}
	if learned != nil {
		list = append(list, learned.variants(c)...)
	}
	add := func(v Variant, events ...Event) {
		v.Config.Events = slices.Concat(c.Events, events)
		list = append(list, v)
	}
	for i, n := range []int64{96, 160, 256, 544, 1056, 4096} {
		name := fmt.Sprintf("%d gap of %d MiB above the context", 4+i, n)
		add(Variant{Name: name, Config: c}, gapAbove(c, n*mib))
	}
	full := c
	full.NoBaseHole = true
	add(Variant{Name: "10 no hole in the first chunk", Config: full})
	add(Variant{Name: "11 no hole in the first chunk, gap of 4096 MiB above", Config: full}, gapAbove(c, 4096*mib))
	seed := uint64(11)
	for range 4 {
		for _, n := range []int{12, 24, 36} {
			seed++
			name := fmt.Sprintf("%d %d places for a chunk open above the context", seed, n)
			add(Variant{Name: name, Config: c, ShiftFrees: maxShift, Seed: seed},
				openings(rand.New(rand.NewPCG(seed, 0)), c, n, operations)...)
		}
	}
	for range 2 {
		seed++
		name := fmt.Sprintf("%d blocks and mappings taken", seed)
		add(Variant{Name: name, Config: c, ShiftFrees: maxShift, Seed: seed},
			takings(rand.New(rand.NewPCG(seed, 0)), operations)...)
	}
	return list
}

// variants are the two guesses that repeat what was learned.
func (l *Learned) variants(c Config) []Variant {
	c.Base = l.Base
	first, early := c, c
	first.Events = slices.Concat(c.Events, l.FirstSight)
	early.Events = slices.Concat(c.Events, l.Earliest)
	return []Variant{
		{Name: AsRecorded, Config: first},
		{Name: "3 as recorded, changes as early as can be", Config: early},
	}
}

// Plain lists the guesses for a driver whose rules are not known. Such a range is no more than that.
func Plain(c Config) []Variant {
	down, up := c, c
	down.Policy, up.Policy = Descending, Ascending
	return []Variant{
		{Name: "descending addresses", Config: down},
		{Name: "ascending addresses", Config: up},
	}
}

// gapAbove is free address space from the start, directly above the context's first chunk.
func gapAbove(c Config, size int64) Event {
	return Event{Kind: OpenGap, Addr: c.base() + ChunkUnit, Size: size}
}

// openings are n places above the context that each hold one smallest chunk, in random order. A chunk
// needs almost as much again in its gap, so each place is two units, and lies two from the next.
func openings(r *rand.Rand, c Config, n int, operations int64) []Event {
	events := make([]Event, n)
	for i, at := range r.Perm(n) {
		events[i] = Event{
			Op:   early(r, operations),
			Kind: OpenGap,
			Addr: c.base() + uint64(2+4*at)*ChunkUnit,
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
