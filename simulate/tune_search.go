package simulate

import (
	"cmp"
	"slices"

	"github.com/vramscope/vramscope/allocators/caching/config"
)

// The search goes in rounds: one setting changed, then pairs of those that did best, then small steps from
// the leaders, as long as there is something new and the budget lasts. Which settings a round tries depends
// on the figures of the rounds before, never on the order in which its replays end.

// Candidate is a setting and what comes of it.
type Candidate struct {
	Conf     string // as in PYTORCH_CUDA_ALLOC_CONF
	Config   config.Config
	Findings []config.Finding
	Changed  int // settings that differ from the recording's own
	keys     setKeys
	Prediction
	// Guesses is over how many guesses at what no recording tells Low and High are, 0 where only the best
	// one was replayed; Finishing is in how many of them it finishes.
	Guesses, Finishing int
	looked             []bool // by guess
}

// Calls is how often the device is called for memory.
func (c *Candidate) Calls() int64 { return c.Stats.DeviceAllocs + c.Stats.DeviceFrees }

// cost is how often the program waits for the device.
func (c *Candidate) cost() int64 { return c.Calls() + c.Stats.Retries }

// waits are the calls that wait for the device: those that give memory back, and flushes.
func (c *Candidate) waits() int64 { return c.Stats.DeviceFrees + c.Stats.Retries }

// compare ranks: what finishes first, of that what reserves least, then what costs least. What does not
// finish comes last, what goes on longest first.
func compare(a, b *Candidate) int {
	if a.Completed != b.Completed {
		if a.Completed {
			return -1
		}
		return 1
	}
	if !a.Completed && a.Ended != b.Ended {
		return cmp.Compare(b.Ended, a.Ended)
	}
	return cmp.Or(
		cmp.Compare(a.Stats.Reserved.Peak, b.Stats.Reserved.Peak),
		cmp.Compare(a.cost(), b.cost()),
		cmp.Compare(a.Stats.Retries, b.Stats.Retries),
		cmp.Compare(a.Changed, b.Changed),
		cmp.Compare(a.Conf, b.Conf),
	)
}

// Skipped is a setting that was not replayed.
type Skipped struct {
	Conf string
	Same string // the setting that it comes to the same as here
}

// search tries settings.
type search struct {
	r       *Requests
	s       *Surroundings
	o       TuneOptions
	demand  *demand
	base    config.Config
	seen    map[essence]string
	peaks   map[essence]int64 // reserved, bytes
	named   map[string]bool
	tried   []Candidate // the recording's own first
	skipped []Skipped
	work    *effort
}

// candidate reads a setting back from the text that would be pasted. It is false for one that cannot be
// written, or that the version does not know.
func (q *search) candidate(c config.Config) (Candidate, bool) {
	conf := c.String()
	parsed, findings, err := config.Parse(conf, q.o.Version)
	parsed.LegacyDiv1 = c.LegacyDiv1
	if err != nil || parsed != c {
		return Candidate{}, false
	}
	keys := changes(&c, &q.base)
	return Candidate{Conf: conf, Config: c, Findings: findings, Changed: keys.count(), keys: keys}, true
}

// try replays those of a list that are new, as far as the budget goes, and says whether there were any.
func (q *search) try(list []config.Config) bool {
	first := len(q.tried)
	for _, c := range list {
		if len(q.tried) > q.o.Settings {
			break
		}
		x, ok := q.candidate(c)
		if !ok || q.named[x.Conf] {
			continue
		}
		q.named[x.Conf] = true
		e := q.essence(&c)
		if same, ok := q.seen[e]; ok {
			q.skipped = append(q.skipped, Skipped{x.Conf, same})
			continue
		}
		q.seen[e] = x.Conf
		q.tried = append(q.tried, x)
	}
	added := q.tried[first:]
	q.work.expect(len(added))
	each(len(added), func(i int) {
		x := &added[i]
		x.Run = q.r.Once(q.s, q.whatIf(x))
		q.work.step()
	})
	for i := range added {
		q.peaks[q.essence(&added[i].Config)] = added[i].Stats.Reserved.Peak
	}
	return len(added) > 0
}

// essence is the one of the demand, with what the replays so far add to it: garbage is never collected if
// without that the threshold is never passed.
func (q *search) essence(c *config.Config) essence {
	e := q.demand.essence(c)
	if e.gc > 0 {
		without := e
		without.gc = 0
		if peak, ok := q.peaks[without]; ok && peak <= int64(e.gc*float64(q.o.Room.Limit)) {
			return without
		}
	}
	return e
}

func (q *search) whatIf(x *Candidate) WhatIf {
	return WhatIf{Config: x.Config, Limit: q.o.Room.Limit, Memory: q.o.Room.Memory}
}

// run searches until nothing new is left, or the budget is spent.
func (q *search) run() {
	q.try(q.demand.singles(q.base))
	q.try(q.pairs())
	for q.try(q.steps()) {
	}
}

// best lists the candidates that a condition holds for, ranked, at most n.
func (q *search) best(n int, holds func(c *config.Config) bool) []*Candidate {
	var list []*Candidate
	for i := range q.tried {
		if x := &q.tried[i]; holds(&x.Config) {
			list = append(list, x)
		}
	}
	slices.SortFunc(list, compare)
	return list[:min(n, len(list))]
}

// pairs combines what did best of each setting.
func (q *search) pairs() []config.Config {
	var out []config.Config
	add := func(c config.Config, change func(*config.Config)) {
		change(&c)
		out = append(out, c)
	}
	divided := q.best(2, func(c *config.Config) bool { return c.Roundup != q.base.Roundup })
	sized := q.best(2, func(c *config.Config) bool { return c.LargeSegmentSize != q.base.LargeSegmentSize })
	collected := q.best(1, func(c *config.Config) bool { return c.GCThreshold != 0 })
	divide := func(x *Candidate) func(*config.Config) {
		return func(c *config.Config) { c.Roundup = x.Config.Roundup }
	}
	resize := func(x *Candidate) func(*config.Config) {
		return func(c *config.Config) { setLargeSegment(c, x.Config.LargeSegmentSize) }
	}
	collect := func(x *Candidate) func(*config.Config) {
		return func(c *config.Config) { setGC(c, x.Config.GCThreshold) }
	}
	expandable := q.base
	setExpandable(&expandable, true)
	for _, x := range divided {
		add(expandable, divide(x))
	}
	add(expandable, func(c *config.Config) { setLargeSegment(c, segmentSizes[0]*config.MiB) })
	for _, x := range sized {
		add(expandable, resize(x))
	}
	for _, split := range q.best(2, func(c *config.Config) bool { return c.MaxSplitSize != config.Unlimited }) {
		for _, x := range divided {
			add(split.Config, divide(x))
		}
		for _, n := range roundingSizes {
			add(split.Config, func(c *config.Config) { c.MaxNonSplitRounding = n * config.MiB })
		}
		for _, x := range collected {
			add(split.Config, collect(x))
		}
		for _, x := range sized {
			add(split.Config, resize(x))
		}
	}
	for _, d := range divided {
		for _, x := range collected {
			add(d.Config, collect(x))
		}
		for _, x := range sized {
			add(d.Config, resize(x))
		}
	}
	return out
}

// steps lists what lies near the leaders: the two best, and the best without expandable segments, which not
// every program can have.
func (q *search) steps() []config.Config {
	leaders := append(q.best(2, func(*config.Config) bool { return true }),
		q.best(1, func(c *config.Config) bool { return !c.Expandable })...)
	var out []config.Config
	for _, x := range leaders {
		out = append(out, q.neighbours(x.Config)...)
	}
	return out
}

// neighbours changes one number of a setting: divisions for the sizes that most bytes are asked for in,
// which makes a list of a number, and the sizes and shares by a quarter.
func (q *search) neighbours(of config.Config) []config.Config {
	var out []config.Config
	add := func(change func(c *config.Config)) {
		c := of
		change(&c)
		out = append(out, c)
	}
	for _, i := range q.demand.busiest(3) {
		for _, n := range []int{0, 4, 8, 2, 16} {
			add(func(c *config.Config) { c.Roundup[i] = n })
		}
	}
	if of.MaxSplitSize != config.Unlimited {
		for _, quarters := range []int64{3, 5, 6} {
			add(func(c *config.Config) { setMaxSplit(c, of.MaxSplitSize*quarters/4/config.MiB*config.MiB) })
		}
	}
	if of.GCThreshold != 0 {
		for _, percent := range []float64{-5, 5} {
			hundredths := float64(int(of.GCThreshold*100+percent+0.5)) / 100
			if hundredths >= 0.3 && hundredths < 1 {
				add(func(c *config.Config) { c.GCThreshold = hundredths })
			}
		}
	}
	if of.LargeSegmentSize != config.DefaultLargeSegment {
		for _, quarters := range []int64{3, 6} {
			size := of.LargeSegmentSize * quarters / 4 / config.RoundLarge * config.RoundLarge
			if size > config.MinLarge && size <= 1<<30 {
				add(func(c *config.Config) { setLargeSegment(c, size) })
			}
		}
	}
	return out
}
