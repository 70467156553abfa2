package fleet

import (
	"cmp"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/simulate/fleet"
)

// One setting for the whole job.
//
// All ranks of a job get the same environment variable, so there is one setting to find, and it is as good as
// what it does for the rank that needs most. To search on each rank would cost more than it tells: most are alike.
// So settings are searched on the ranks that matter, those that are worst by some measure; what is found there is
// replayed closely on all of these; and what does best is replayed on every rank, since one that matters least now
// may be the one that no longer fits. After each of these rounds Next says what is left to be done, from the summary
// alone, so that it does not matter where the work is done.

const (
	searched     = 64 // settings tried on a rank that matters
	shortest     = 6  // of them kept
	mostMatter   = 8  // ranks that matter
	mostListed   = 10 // settings replayed on those
	mostVerified = 3  // settings replayed on all
)

// Next lists what is still to be found out, by file; nothing if the summary has all that can be had.
func Next(s *fleet.Summary) []Task {
	picks := matter(s)
	if list := perFile(picks, func(d *fleet.Device, t *Task) {
		if d.Search == nil {
			t.Search = append(t.Search, d.Index)
		}
	}); len(list) > 0 {
		return list
	}
	short := shortlist(picks)
	wanted := func(confs []string, near bool) func(d *fleet.Device, t *Task) {
		return func(d *fleet.Device, t *Task) {
			var missing []string
			for _, conf := range withOwn(confs, d) {
				if x := trialOf(d, conf); x == nil || near && !x.Close {
					missing = append(missing, conf)
				}
			}
			if len(missing) > 0 {
				t.Try = append(t.Try, Wish{Device: d.Index, Confs: missing, Close: near})
			}
		}
	}
	if len(short) == 0 {
		return nil
	}
	if list := perFile(picks, wanted(short, true)); len(list) > 0 {
		return list
	}
	var all []pick
	for _, d := range replayable(s) {
		all = append(all, pick{Device: d})
	}
	return perFile(all, wanted(finalists(picks, short), false))
}

// perFile makes tasks of what is missing on devices, in the order of their files. What is lost is not looked for again.
func perFile(list []pick, add func(d *fleet.Device, t *Task)) []Task {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b pick) int { return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Index, b.Index)) })
	var out []Task
	var t Task
	flush := func() {
		if len(t.Search) > 0 || len(t.Try) > 0 {
			out = append(out, t)
		}
	}
	for _, d := range list {
		if d.Lost != "" {
			continue
		}
		if d.File != t.File {
			flush()
			t = Task{File: d.File}
		}
		add(d.Device, &t)
	}
	flush()
	return out
}

// pick is a device that matters, and by which measures.
type pick struct {
	*fleet.Device
	why []string
}

func replayable(s *fleet.Summary) []*fleet.Device {
	var out []*fleet.Device
	for i := range s.Devices {
		if d := &s.Devices[i]; d.Facts != nil && d.Facts.Replayable {
			out = append(out, d)
		}
	}
	return out
}

// matter lists the devices that are worst by some measure, the first in the order of names where several are.
func matter(s *fleet.Summary) []pick {
	devices := replayable(s)
	var out []pick
	add := func(d *fleet.Device, why string) {
		for i := range out {
			if out[i].Device == d {
				out[i].why = append(out[i].why, why)
				return
			}
		}
		if len(out) < mostMatter {
			out = append(out, pick{d, []string{why}})
		}
	}
	measures := []struct {
		why   string
		most  int // how many of the worst
		value func(f *fleet.Facts) int64
	}{
		{"peak allocated", 1, func(f *fleet.Facts) int64 { return f.PeakAllocated }},
		{"peak reserved", 1, func(f *fleet.Facts) int64 { return f.PeakReserved }},
		{"reserved and unused", 1, func(f *fleet.Facts) int64 { return f.Unused }},
		{"ran out of memory", 3, func(f *fleet.Facts) int64 {
			var most int64
			for _, o := range f.OOMs {
				most = max(most, o.Requested)
			}
			return most
		}},
		{"flushes of the cache", 1, func(f *fleet.Facts) int64 { return f.Retries }},
		{"growth", 1, func(f *fleet.Facts) int64 {
			if !f.Grows {
				return 0
			}
			return f.PerStep
		}},
	}
	for _, m := range measures {
		ranked := slices.Clone(devices)
		slices.SortStableFunc(ranked, func(a, b *fleet.Device) int { return cmp.Compare(m.value(b.Facts), m.value(a.Facts)) })
		for _, d := range ranked[:min(m.most, len(ranked))] {
			if m.value(d.Facts) > 0 {
				add(d, m.why)
			}
		}
	}
	return out
}

func trialOf(d *fleet.Device, conf string) *fleet.Trial {
	i, ok := slices.BinarySearchFunc(d.Trials, conf, func(t fleet.Trial, c string) int { return cmp.Compare(t.Conf, c) })
	if !ok {
		return nil
	}
	return &d.Trials[i]
}

// withOwn adds the settings that a device ran under.
func withOwn(confs []string, d *fleet.Device) []string {
	if slices.Contains(confs, d.Facts.Conf) {
		return confs
	}
	return append([]string{d.Facts.Conf}, confs...)
}

// shortlist is what the searches found, what did well on most ranks first.
func shortlist(picks []pick) []string {
	points := map[string]int{}
	for _, p := range picks {
		if p.Search == nil {
			continue
		}
		for i, conf := range p.Search.Confs {
			points[conf] += shortest - i
		}
		if r := p.Search.Recommended; r != nil {
			points[*r] += shortest
		}
	}
	var out []string
	for conf := range points {
		out = append(out, conf)
	}
	slices.SortFunc(out, func(a, b string) int { return cmp.Or(cmp.Compare(points[b], points[a]), cmp.Compare(a, b)) })
	return out[:min(len(out), mostListed)]
}

// finalists are the settings that are replayed on all ranks: the one that does best on the ranks that matter, the one
// that is simplest of those that do nearly as well, and the best without expandable segments, which not every
// program can have.
func finalists(picks []pick, short []string) []string {
	devices := make([]*fleet.Device, len(picks))
	for i := range picks {
		devices[i] = picks[i].Device
	}
	var list []Choice
	for _, conf := range short {
		list = append(list, choose(conf, devices))
	}
	sortChoices(list)
	var out []string
	add := func(conf string) {
		if !slices.Contains(out, conf) && len(out) < mostVerified {
			out = append(out, conf)
		}
	}
	simplest, plain := -1, -1
	for i := range list {
		c := &list[i]
		if c.near(&list[0]) && (simplest < 0 || len(c.Conf) < len(list[simplest].Conf)) {
			simplest = i
		}
		if plain < 0 && !strings.Contains(c.Conf, "expandable_segments:True") {
			plain = i
		}
	}
	for _, i := range []int{0, simplest, plain} {
		if i >= 0 && i < len(list) {
			add(list[i].Conf)
		}
	}
	for _, c := range list {
		add(c.Conf)
	}
	slices.Sort(out)
	return out
}
