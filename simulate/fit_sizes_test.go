package simulate

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// outcomes is a program for the search: for each size in steps whether it finishes, in stretches of one
// outcome, of which a replay anywhere in one reaches the lower end.
type outcomes struct {
	finishes []bool
	start    []int // of the stretch that a size is in
}

func (o outcomes) run(step int) Run {
	var r Run
	i := min(max(step, 0), len(o.finishes)-1)
	r.Completed = o.finishes[i]
	r.Stats.Reserved.Peak = int64(o.start[i]) * FitStep
	return r
}

func genOutcomes(t *rapid.T) outcomes {
	var o outcomes
	o.finishes, o.start = []bool{false}, []int{0}
	for _, n := range rapid.SliceOfN(rapid.IntRange(1, 9), 1, 30).Draw(t, "stretches") {
		ok, from := rapid.Bool().Draw(t, "finishes"), len(o.finishes)
		for range n {
			o.finishes, o.start = append(o.finishes, ok), append(o.start, from)
		}
	}
	o.finishes, o.start = append(o.finishes, true), append(o.start, len(o.start))
	return o
}

func (o outcomes) fitting(replays int, skips bool) *fitting {
	return &fitting{
		replay: func(bytes int64, _ int) Run { return o.run(int(bytes / FitStep)) },
		lower:  FitStep, upper: int64(len(o.finishes)-1) * FitStep, skips: skips, proven: skips, replays: replays,
	}
}

// With replays enough for every stretch all sizes are settled, and what is said of them is true.
func TestFitSettlesEverySize(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := genOutcomes(t)
		skips := rapid.Bool().Draw(t, "skips")
		l := o.fitting(10*len(o.finishes), skips).least()
		if want := int64(slices.Index(o.finishes, true)) * FitStep; l.Bytes != want {
			t.Fatalf("least %d, want %d", l.Bytes/FitStep, want/FitStep)
		}
		safe := len(o.finishes) - 1
		for safe > 0 && o.finishes[safe-1] {
			safe--
		}
		if l.Safe != int64(safe)*FitStep {
			t.Fatalf("safe %d, want %d", l.Safe/FitStep, safe)
		}
		if l.Every != skips {
			t.Fatalf("every size settled: %v, proven %v", l.Every, skips)
		}
		listed := map[int64]bool{}
		for _, f := range l.Fails {
			for b := f.From; b <= f.To; b += FitStep {
				listed[b] = true
			}
		}
		for i, ok := range o.finishes {
			b := int64(i) * FitStep
			if b >= l.Bytes && listed[b] == ok || b < l.Bytes && listed[b] {
				t.Fatalf("size %d finishes: %v, listed as failing: %v", i, ok, listed[b])
			}
		}
		if l.Monotone() != (len(listed) == 0) || !l.Run.Completed {
			t.Fatalf("%+v", l)
		}
	})
}

// With few replays the least still finishes while a step less does not, and what is said to be safe does
// not contradict anything that was seen.
func TestFitWithFewReplays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := genOutcomes(t)
		j := o.fitting(rapid.IntRange(0, 5).Draw(t, "replays"), rapid.Bool().Draw(t, "skips"))
		l := j.least()
		at := int(l.Bytes / FitStep)
		if !o.finishes[at] || o.finishes[at-1] {
			t.Fatalf("least %d: it finishes %v, a step less %v", at, o.finishes[at], o.finishes[at-1])
		}
		safe := int(l.Safe / FitStep)
		if safe < at || !o.finishes[safe] || safe > at && o.finishes[safe-1] {
			t.Fatalf("safe from %d: least %d", safe, at)
		}
		if l.Every && l.Bytes != int64(slices.Index(o.finishes, true))*FitStep {
			t.Fatal("every size is said to be settled, and a smaller one finishes")
		}
	})
}

// Under another guess the least is found near the first one.
func TestFitNear(t *testing.T) {
	for least := 1; least < 40; least++ {
		for first := 1; first < 40; first++ {
			j := &fitting{lower: FitStep, out: &Least{Bytes: int64(first) * FitStep},
				replay: func(bytes int64, _ int) Run { return Run{Completed: bytes >= int64(least)*FitStep} }}
			if got := j.near(1); got != int64(least)*FitStep {
				t.Fatalf("least %d looked for from %d: %d", least, first, got/FitStep)
			}
		}
	}
}

// Where nothing is enough, that is the answer, and it is soon there.
func TestFitNever(t *testing.T) {
	j := &fitting{lower: 1, upper: 100 * FitStep, replay: func(int64, int) Run { return Run{} }}
	if l := j.least(); l.Bytes != 0 || l.Tried > 100 {
		t.Errorf("%+v", l)
	}
	// A board of astronomic sizes has larger steps.
	j = &fitting{lower: 1, upper: 1 << 60, replay: func(bytes int64, _ int) Run { return Run{Completed: bytes > 1<<50} }}
	if l := j.least(); l.Bytes <= 1<<50 || l.Bytes > 1<<50+1<<42 {
		t.Errorf("%+v", l)
	}
}
