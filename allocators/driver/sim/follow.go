package sim

// Step is one call of a recording: a segment allocated or freed.
type Step struct {
	Op    int64 // the operation number at which it happened, in the caller's count; never decreasing
	Alloc bool
	Addr  uint64
	Size  int64 // bytes, of a free too
}

// Score says how well the rules fit a recording. The first steps of a process are left out of the
// second pair: before them most of what no trace shows happens.
type Score struct {
	Checked, Matched         int // allocations, and those predicted to the byte
	LateChecked, LateMatched int // those after the first LateAfter allocations
}

const (
	// LateAfter is the number of allocations that count as the start of a process.
	LateAfter = 40
	// fitting is the share of late allocations, in percent, that speaks for the rules. Over all
	// recordings of the driver they were measured on it is 98.8, over single short ones 90; rules that
	// differ in one point give 75 to 80.
	fitting = 85
	// enough is how many late allocations it takes to say so.
	enough = 40
)

// Fits reports whether the recording is of a driver that follows the rules. known is false where there
// is too little to tell by; the rules are then as good a guess as any.
func (s Score) Fits() (fits, known bool) {
	if s.LateChecked < enough {
		return true, false
	}
	return 100*s.LateMatched >= fitting*s.LateChecked, true
}

// Learned is what following a recording tells of the process.
type Learned struct {
	Score Score
	// Base is where the context's first chunk seems to lie.
	Base uint64
	// FirstSight are the gaps, holes and takings that explain what the rules alone do not, each at the
	// operation that shows it; Earliest are the same as early as the recording allows.
	FirstSight, Earliest []Event
}

// Follow says how well the rules fit a recording; see Learn.
func Follow(held []Range, steps []Step) Score { return Learn(held, steps).Score }

// Learn follows a recording one step ahead: it predicts each allocation, and where the recording has
// another address it looks for the smallest change of the process that would have led there, makes
// that change and goes on. held is what existed before the first step.
//
// A recording from another driver can miss at every step; the work is bounded then, and the score is of
// the part that was followed.
func Learn(held []Range, steps []Step) *Learned {
	var best *follower
	for _, base := range baseCandidates(held, steps) {
		f := newFollower(held, base, nil)
		f.run(steps[:min(len(steps), trialSteps)])
		if best == nil || f.cost() < best.cost() {
			best = f
		}
	}
	f := newFollower(held, best.base, nil)
	f.run(steps)
	score := f.score
	// A pin shows late: the chunk that it keeps should have been there since its last block was freed,
	// and other misses look different with it. So once more with the pins known.
	for pass := 0; pass < rounds && len(f.pins) > f.known; pass++ {
		f = newFollower(held, best.base, f.pins)
		f.run(steps)
	}
	return &Learned{Score: score, Base: f.base, FirstSight: f.first, Earliest: f.earliest}
}

const (
	trialSteps      = 160 // steps followed to choose among bases
	baseAllocations = 12  // allocations that bases are read from
	rounds          = 4   // that a recording is followed again at most, each time with more pins known
)

// baseCandidates lists the bases that some early allocation speaks for: in the hole of 24 MiB, 8 MiB above
// the base, or in the one of 2 MiB, 66 below it, both told by what the address leaves when divided by 32
// MiB; or else in the first chunk below the layout, or in place of its large block.
func baseCandidates(held []Range, steps []Step) []uint64 {
	if len(held) > 0 {
		return []uint64{0}
	}
	var out []uint64
	add := func(addr, above uint64) {
		base := addr + above
		if base < 2*layoutBelow || base > addressLimit-ChunkUnit {
			return
		}
		for _, b := range out {
			if b == base {
				return
			}
		}
		out = append(out, base)
	}
	n := 0
	for _, s := range steps {
		if !s.Alloc || s.Size <= 0 || s.Addr > addressLimit || uint64(s.Size) > addressLimit {
			continue
		}
		if n++; n > baseAllocations {
			break
		}
		size := roundUp(uint64(s.Size), Granule)
		switch s.Addr % ChunkUnit {
		case 30 * mib:
			if size == Granule {
				add(s.Addr, 66*mib)
			}
		case 8 * mib:
			if size <= 24*mib && s.Addr > 8*mib {
				add(s.Addr-8*mib, 0)
			}
		case 0:
			add(s.Addr, layoutBelow+roundUp(size, ChunkUnit))
			add(s.Addr, layoutBelow)
		}
	}
	if len(out) == 0 {
		for _, s := range steps {
			if s.Alloc && s.Addr < addressLimit {
				add(roundDown(s.Addr, ChunkUnit), 2*layoutBelow)
				break
			}
		}
	}
	if len(out) == 0 {
		return []uint64{0}
	}
	return out
}
