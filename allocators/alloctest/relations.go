package alloctest

import (
	"fmt"
	"slices"

	"github.com/vramscope/vramscope/allocators"
)

// A relation is something that must hold between two runs of a model, whatever the right placement of a
// block may be.
type relation struct {
	name  string
	holds func(Options) bool
	check func(Script, New, Options) error
}

func always(Options) bool { return true }

var relations = []relation{
	{"same script, same places", always, func(s Script, m New, _ Options) error {
		return samePlaces(m, s, s)
	}},
	{"block numbers are only names", always, func(s Script, m New, _ Options) error {
		t := slices.Clone(s)
		for i := range t {
			t[i].Block = t[i].Block*2 + 5
		}
		return samePlaces(m, s, t)
	}},
	{"a wait that ends at once is none", always, func(s Script, m New, _ Options) error {
		var now, later Script
		for _, op := range s {
			switch op.Kind {
			case Complete:
			case FreePending:
				now = append(now, Op{Kind: Free, Block: op.Block})
				later = append(later, op, Op{Kind: Complete, Block: op.Block})
			default:
				now, later = append(now, op), append(later, op)
			}
		}
		return samePlaces(m, now, later)
	}},
	{"emptying the cache twice", always, func(s Script, m New, _ Options) error {
		var twice Script
		for _, op := range s {
			twice = append(twice, op)
			if op.Kind == EmptyCache {
				twice = append(twice, op)
			}
		}
		return samePlaces(m, s, twice)
	}},
	{"streams make no difference", func(o Options) bool { return !o.Streams }, func(s Script, m New, _ Options) error {
		t := slices.Clone(s)
		for i := range t {
			t[i].Stream = 0
		}
		return samePlaces(m, s, t)
	}},
	{"it fits where it fitted", func(o Options) bool { return !o.KnowsCapacity }, func(s Script, m New, _ Options) error {
		free, _ := places(m, s, 0)
		peak := free.stats.Reserved.Peak
		if peak == 0 {
			return nil
		}
		tight, _ := places(m, s, peak)
		if tight.stats.OOMs != free.stats.OOMs || tight.stats.Reserved.Peak != peak {
			return fmt.Errorf("without a limit the peak is %d with %d failures, under that limit %d with %d",
				peak, free.stats.OOMs, tight.stats.Reserved.Peak, tight.stats.OOMs)
		}
		return differ(free, tight)
	}},
	{"not less than what is live", always, func(s Script, m New, o Options) error {
		r, _ := places(m, s, 0)
		var live, peak int64
		size := map[uint32]int64{}
		for i, op := range s {
			switch op.Kind {
			case Malloc:
				if r.placed[i].ok {
					size[op.Block] = op.Size
				}
				live += size[op.Block]
				peak = max(peak, live)
			case FreePending:
				if !o.CompletesEarly {
					continue // its memory is in use until Complete
				}
				fallthrough
			case Free, Complete:
				live -= size[op.Block]
				delete(size, op.Block)
			}
		}
		if r.stats.Reserved.Peak < peak {
			return fmt.Errorf("%d bytes were live at once, at most %d reserved", peak, r.stats.Reserved.Peak)
		}
		return nil
	}},
}

// A run is where a model put the blocks of a script, by operation, and what it counted.
type run struct {
	placed []place
	stats  allocators.Stats
}

type place struct {
	offset uint64 // from the lowest address that the driver gives
	size   int64
	ok     bool
}

func places(m New, s Script, capacity int64) (run, error) {
	d := NewDriver(capacity)
	base := d.next
	a := m(d)
	r := run{placed: make([]place, len(s))}
	for i, op := range s {
		if op.Kind != Malloc && op.Kind != EmptyCache {
			if _, _, ok := a.Block(op.Block); !ok {
				continue // it was refused
			}
		}
		if err := op.apply(a); err != nil {
			if !isOOM(err) {
				return r, err
			}
			continue
		}
		if op.Kind == Malloc {
			addr, size, ok := a.Block(op.Block)
			r.placed[i] = place{addr - base, size, ok}
		}
	}
	r.stats = *a.Stats()
	return r, nil
}

// samePlaces runs two scripts that make the same requests in the same order and expects the same places.
func samePlaces(m New, s, t Script) error {
	a, err := places(m, s, 0)
	if err != nil {
		return err
	}
	b, err := places(m, t, 0)
	if err != nil {
		return err
	}
	a.placed, b.placed = mallocs(s, a.placed), mallocs(t, b.placed)
	return differ(a, b)
}

func mallocs(s Script, all []place) []place {
	var out []place
	for i, op := range s {
		if op.Kind == Malloc {
			out = append(out, all[i])
		}
	}
	return out
}

func differ(a, b run) error {
	for i := range a.placed {
		if a.placed[i] != b.placed[i] {
			return fmt.Errorf("malloc %d is at %+v, then at %+v", i, a.placed[i], b.placed[i])
		}
	}
	if a.stats.Reserved != b.stats.Reserved || a.stats.AtPeak != b.stats.AtPeak {
		return fmt.Errorf("reserved %+v at peak %+v, then %+v at peak %+v",
			a.stats.Reserved, a.stats.AtPeak, b.stats.Reserved, b.stats.AtPeak)
	}
	return nil
}
