package simulate

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/vramscope/vramscope/allocators/caching/config"
)

// TuneOptions say how to look for better settings.
type TuneOptions struct {
	Room     Room
	Settings int            // how many to try at most
	Top      int            // how many to look at closely and return
	Version  config.Version // only settings that it knows are tried
	Progress Progress
}

// Room is how much memory there is.
type Room struct {
	Limit  int64 // bytes that may be reserved, negative for no limit
	Memory int64 // bytes the device can give, 0 for no limit
	// Own says that the limit is one that the process sets itself. Garbage is collected at a share of such a
	// limit only.
	Own  bool
	Told string // where it comes from; empty if somebody gave it
}

// Tuning is what a search over settings found.
type Tuning struct {
	Room        Room
	Baseline    Candidate   // the recording's own settings
	Candidates  []Candidate // ranked, the best first
	Tried       int         // settings that were replayed, besides the recording's own
	Skipped     []Skipped
	Recommended *Recommendation // nil if nothing is worth it
	Span        time.Duration   // of the recording, 0 if it has no times
}

// Recommendation is the setting to use.
type Recommendation struct {
	Candidate *Candidate // one of those listed
	// Saves is by how much less it reserves, bytes. It says nothing if Rescues.
	Saves   int64
	Rescues bool // it finishes where the recording's own settings do not
	// Over is the candidate that reserves less still, for more settings or at a greater cost; nil if none does.
	Over *Candidate
}

const (
	// slowAt is the share of the recording's time from which on more calls of the device are too many.
	slowAt = 0.1
	// waitTime is what waiting for the device takes, roughly: a call that gives memory back does, and a flush.
	waitTime = 500 * time.Microsecond
	// fewCalls are made while a program warms up, whatever its settings.
	fewCalls = 100
)

// Room is the memory that the recording itself ran in, as far as it tells: what the device had, or, if memory
// was refused without that being known, what it was at least.
func (f *Following) Room() Room {
	stats := f.Model.Stats()
	switch b := f.Bounds; {
	case b.Limit >= 0:
		return Room{Limit: b.Limit, Memory: b.Capacity, Own: true}
	case b.Capacity > 0:
		return Room{Limit: -1, Memory: b.Capacity, Told: "the memory of the device as the out-of-memory events tell it"}
	case b.High < math.MaxInt64:
		return Room{Limit: b.Low, Own: true, Told: "what the process held at most; a limit of its own refused it more, and how much that was the recording does not tell"}
	case stats.Retries > 0 || stats.OOMs > 0:
		return Room{Limit: b.Low, Told: "what it held at most; it was short of memory, and how much there was the recording does not tell"}
	}
	return Room{Limit: -1}
}

// Tune searches for settings under which the recording would have reserved less. The surroundings are Alike.
// The result does not depend on how many cores there are.
func (r *Requests) Tune(s *Surroundings, base config.Config, o TuneOptions) *Tuning {
	if _, _, err := config.Parse(base.String(), o.Version); err != nil {
		o.Version = config.Latest // the recording has settings that the version lacks, so it is another
	}
	q := &search{r: r, s: s, o: o, base: base, demand: newDemand(r, o.Room.Own && o.Room.Limit >= 0),
		seen: map[essence]string{}, peaks: map[essence]int64{}, named: map[string]bool{}, work: &effort{progress: o.Progress}}
	own := Candidate{Conf: base.String(), Config: base}
	own.Run = r.Once(s, q.whatIf(&own))
	e := q.demand.essence(&base)
	q.named[own.Conf], q.seen[e], q.peaks[e] = true, own.Conf, own.Stats.Reserved.Peak
	q.tried = append(q.tried, own)
	q.run()

	t := &Tuning{Room: o.Room, Tried: len(q.tried) - 1, Skipped: q.skipped, Span: r.span()}
	list := q.finalists()
	q.look(list[:1], 1)
	q.look(list[1:], q.stride(list[1:]))
	for {
		t.Baseline, t.Candidates = *list[0], nil
		for _, x := range list[1:] {
			t.Candidates = append(t.Candidates, *x)
		}
		t.Recommended = t.recommend()
		if t.Recommended == nil || t.Recommended.Candidate.lookedAt() {
			return t
		}
		for _, x := range list[1:] {
			if x.Conf == t.Recommended.Candidate.Conf {
				q.look([]*Candidate{x}, 1)
			}
		}
	}
}

// finalists are the recording's own settings, and behind them those worth a closer look, ranked: of the
// settings that change the same keys one, unless changing fewer does as well.
func (q *search) finalists() []*Candidate {
	ranked := q.best(len(q.tried), func(c *config.Config) bool { return *c != q.base })
	var list []*Candidate
	taken := map[setKeys]bool{}
	for _, x := range ranked {
		if len(list) == q.o.Top {
			break
		}
		if taken[x.keys] || slices.ContainsFunc(ranked, func(y *Candidate) bool { return y.spares(x) }) {
			continue
		}
		taken[x.keys] = true
		list = append(list, plainest(x, ranked))
	}
	slices.SortFunc(list, compare)
	return append([]*Candidate{&q.tried[0]}, list...)
}

// plainest is the shortest of those that change the same keys and do as well as the best of them, to a
// thousandth: many lists of divisions come to nearly the same.
func plainest(best *Candidate, ranked []*Candidate) *Candidate {
	pick := best
	for _, x := range ranked {
		if x.keys == best.keys && len(x.Conf) < len(pick.Conf) && x.Completed == best.Completed &&
			x.Stats.Reserved.Peak-best.Stats.Reserved.Peak <= best.Stats.Reserved.Peak/1000 && x.cost() <= best.cost()+fewCalls {
			pick = x
		}
	}
	return pick
}

// spares says whether a candidate does as well as another that changes more.
func (c *Candidate) spares(other *Candidate) bool {
	return c.keys.within(other.keys) && (c.Completed || !other.Completed) &&
		c.Stats.Reserved.Peak <= other.Stats.Reserved.Peak && c.cost() <= other.cost()+fewCalls
}

// manyEvents is how many may be replayed to know the ranges of all that is shown. Beyond it only what is
// recommended is replayed under every guess, and the rest under a fifth of them.
const manyEvents = 40_000_000

// stride says whether only every fifth guess is replayed, where all are too many.
func (q *search) stride(list []*Candidate) int {
	replays := 0
	for _, x := range list {
		replays += len(q.r.variants(q.s, q.whatIf(x))) - 1
	}
	if replays*q.r.Device.Events.Len() > manyEvents {
		return 5
	}
	return 1
}

// look replays candidates again under every guess, or every fifth, at what no recording tells.
func (q *search) look(list []*Candidate, stride int) {
	type job struct {
		of    *Candidate
		guess int
		run   Run
	}
	var jobs []job
	for _, x := range list {
		if x.looked == nil {
			x.looked = make([]bool, len(q.r.variants(q.s, q.whatIf(x))))
			x.Low, x.High, x.Guess = x.Stats.Reserved.Peak, x.Stats.Reserved.Peak, !q.s.known
			x.saw(0, x.Run)
		}
		for g := 0; g < len(x.looked); g += stride {
			if !x.looked[g] {
				jobs = append(jobs, job{of: x, guess: g})
			}
		}
	}
	q.work.expect(len(jobs))
	each(len(jobs), func(i int) {
		j := &jobs[i]
		w := q.whatIf(j.of)
		j.run = q.r.play(q.s, w, q.r.variants(q.s, w)[j.guess])
		q.work.step()
	})
	for _, j := range jobs {
		j.of.saw(j.guess, j.run)
	}
}

// saw takes in what came of a guess.
func (c *Candidate) saw(guess int, run Run) {
	c.looked[guess] = true
	c.Low, c.High = min(c.Low, run.Stats.Reserved.Peak), max(c.High, run.Stats.Reserved.Peak)
	c.Guesses++
	if run.Completed {
		c.Finishing++
	}
}

// lookedAt says whether every guess was tried.
func (c *Candidate) lookedAt() bool { return !slices.Contains(c.looked, false) }

// span is how long the recording took, 0 if it has no times.
func (r *Requests) span() time.Duration {
	events := &r.Device.Events
	if n := events.Len(); n > 0 {
		return time.Duration(events.At(n-1).Time - events.At(0).Time)
	}
	return 0
}

// Slows says how much more time a candidate spends calling the device for memory than the recording's own
// settings, roughly and as a share of the recording's time; 0 if that has no times, if it is only a few calls
// more, or if those settings run out of memory and so have made part of their calls only.
func (t *Tuning) Slows(c *Candidate) float64 {
	if t.Span <= 0 || c.cost()-t.Baseline.cost() <= fewCalls || !t.Baseline.Completed {
		return 0
	}
	more := c.DeviceTime - t.Baseline.DeviceTime + time.Duration(c.waits()-t.Baseline.waits())*waitTime
	return max(more.Seconds(), 0) / t.Span.Seconds()
}

// recommend picks the setting to use. It must finish, whatever the guess, and reserve less than the present
// settings for certain: at its most less than those at their least, by a hundredth or more. One that makes
// the program wait for the device more often comes only after all that do not. Of those that differ from
// the best by no more than a hundredth, or than it is uncertain itself, it is the one that changes least,
// then one that not only the newest versions know, then the one that costs least.
func (t *Tuning) recommend() *Recommendation {
	base := &t.Baseline
	rescues := !base.Completed
	little := base.Stats.Reserved.Peak / 100
	var worth []*Candidate
	for i := range t.Candidates {
		c := &t.Candidates[i]
		if !c.Completed || c.Finishing < c.Guesses {
			continue
		}
		if rescues || c.High < base.Low && base.Stats.Reserved.Peak-c.Stats.Reserved.Peak >= little {
			worth = append(worth, c)
		}
	}
	from := t.affordable(worth)
	if len(from) == 0 {
		return nil
	}
	best := from[0]
	little = max(little, best.High-best.Low)
	pick := best
	for _, c := range from[1:] {
		if c.Stats.Reserved.Peak-best.Stats.Reserved.Peak <= little && simpler(c, pick) {
			pick = c
		}
	}
	rec := &Recommendation{Candidate: pick, Saves: base.Stats.Reserved.Peak - pick.Stats.Reserved.Peak, Rescues: rescues}
	if worth[0] != pick {
		rec.Over = worth[0]
	}
	return rec
}

// affordable are those of a list that hardly call the device more often than the present settings do; if
// there are none, those that save a tenth and do not slow the program down much; and if only finishing
// counts, any.
func (t *Tuning) affordable(list []*Candidate) []*Candidate {
	if len(list) == 0 {
		return nil
	}
	usual := t.Baseline.cost()
	if !t.Baseline.Completed {
		usual = slices.MinFunc(list, func(a, b *Candidate) int { return cmp.Compare(a.cost(), b.cost()) }).cost()
	}
	var cheap, bearable []*Candidate
	for _, c := range list {
		if c.cost() <= usual+fewCalls {
			cheap = append(cheap, c)
		}
		if !t.Baseline.Completed || t.Slows(c) < slowAt && c.Stats.Reserved.Peak <= t.Baseline.Stats.Reserved.Peak/10*9 {
			bearable = append(bearable, c)
		}
	}
	if len(cheap) > 0 {
		return cheap
	}
	return bearable
}

func simpler(a, b *Candidate) bool {
	if a.Changed != b.Changed {
		return a.Changed < b.Changed
	}
	if a.Recent() != b.Recent() {
		return b.Recent()
	}
	return a.cost() < b.cost()
}

// Recent says whether versions of PyTorch that cannot take the setting are still in wide use.
func (c *Candidate) Recent() bool {
	v := Since(c.Conf)
	return v == config.Version{} || v.Major > 2 || v.Major == 2 && v.Minor > 4
}

// Since says from which version of PyTorch on a setting is understood, the zero value if no known version
// does.
func Since(conf string) config.Version {
	for _, v := range versions() {
		if _, _, err := config.Parse(conf, v); err == nil {
			return v
		}
	}
	return config.Version{}
}

// versions lists the releases whose rules are known, the oldest first.
func versions() []config.Version {
	var out []config.Version
	for minor := 10; minor <= 13; minor++ {
		out = append(out, config.Version{Major: 1, Minor: minor})
	}
	for minor := 0; minor <= config.Latest.Minor; minor++ {
		out = append(out, config.Version{Major: 2, Minor: minor})
	}
	return out
}
