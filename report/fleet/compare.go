package fleet

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/simulate/fleet"
)

// Outlier is a member that is far from those that it should be like.
type Outlier struct {
	Member *Member
	Measure
	Value  int64  // bytes
	Median int64  // bytes, of those that it was compared with
	Usual  int64  // bytes, how far from the median they usually are: the standard deviation, if they are spread as chance would
	Among  int    // how many those are, itself included
	At     string // their position, empty for all
	// The stack that explains most of the difference, where the measure is what was allocated, with what it held at
	// the peak and the median of that. Both are 0 if none does.
	Stack             fleet.Print
	Held, HeldUsually int64
}

const (
	// leastAlike is how many must be alike before one is called odd.
	leastAlike = 5
	// farOff is how many times the usual distance an outlier is from the median.
	farOff = 5
	// leastOff is the share of the median that it is off at least: identical ranks differ by nothing at all.
	leastOff = 20
)

// crowd is members that should be alike.
type crowd struct {
	at      string // the position, empty for all
	members []*Member
	usual   map[fleet.Print]int64 // bytes that each stack held at the peak, the median
	peak    int64                 // bytes allocated at the peak, the median
}

func newCrowd(at string, members []*Member) *crowd {
	c := &crowd{at: at, members: members, usual: map[fleet.Print]int64{}}
	values := map[fleet.Print][]int64{}
	n := 0
	var peaks []int64
	for _, m := range members {
		if m.Facts.PeakAllocated < 0 {
			continue
		}
		n++
		peaks = append(peaks, m.Facts.PeakAllocated)
		for s, held := range heldBy(m) {
			values[s] = append(values[s], held)
		}
	}
	for s, list := range values {
		for len(list) < n {
			list = append(list, 0) // in the others it held nothing, or too little to be listed
		}
		c.usual[s] = fleet.Median(list)
	}
	c.peak = fleet.Median(peaks)
	return c
}

// median is that of a measure, of the members that have it.
func (c *crowd) median(of func(f *fleet.Facts) int64) int64 {
	var list []int64
	for _, m := range c.members {
		if v := of(m.Facts); v >= 0 {
			list = append(list, v)
		}
	}
	return fleet.Median(list)
}

// differs finds the stack by which a member differs most from a crowd, in the direction in which its peak does.
func (c *crowd) differs(x *Member) (stack fleet.Print, held, usual int64) {
	own := heldBy(x)
	sign := int64(1)
	if x.Facts.PeakAllocated < c.peak {
		sign = -1
	}
	var most int64
	look := func(s fleet.Print) {
		if by := sign * (own[s] - c.usual[s]); by > most || by == most && by > 0 && s < stack {
			most, stack, held, usual = by, s, own[s], c.usual[s]
		}
	}
	for s := range own {
		look(s)
	}
	for s := range c.usual {
		look(s)
	}
	return stack, held, usual
}

// heldBy is what a member held at its peak, by stack.
func heldBy(m *Member) map[fleet.Print]int64 {
	out := make(map[fleet.Print]int64, len(m.Facts.Held))
	for _, h := range m.Facts.Held {
		out[h.Stack] += h.Bytes
	}
	return out
}

// crowds groups the members that should be alike: those at the same position, data parallelism aside, as long as there
// are enough of them; then those of the same stage; then all.
func (f *Fleet) crowds() []*crowd {
	keys := []func(m *Member) string{
		func(m *Member) string {
			var parts []string
			for _, a := range m.At {
				if a.Name != "dp" {
					parts = append(parts, fmt.Sprintf("%s %d", a.Name, a.N))
				}
			}
			return strings.Join(parts, ", ")
		},
		func(m *Member) string {
			if n, ok := m.On("pp"); ok {
				return fmt.Sprintf("pp %d", n)
			}
			return ""
		},
	}
	for _, key := range keys {
		groups := map[string][]*Member{}
		for _, m := range f.Members {
			groups[key(m)] = append(groups[key(m)], m)
		}
		enough := len(groups) > 1
		for _, g := range groups {
			enough = enough && len(g) >= leastAlike
		}
		if !enough {
			continue
		}
		var out []*crowd
		for _, at := range slices.Sorted(maps.Keys(groups)) {
			out = append(out, newCrowd(at, groups[at]))
		}
		return out
	}
	return []*crowd{newCrowd("", f.Members)}
}

// outliers finds the members that are far off, by the distance that is usual among them: a measure that a few of them
// cannot shift, however far off they are.
func (f *Fleet) outliers(crowds []*crowd) {
	for _, c := range crowds {
		for _, m := range measures() {
			f.outliersBy(c, m)
		}
	}
	order := func(o *Outlier) int {
		return slices.IndexFunc(measures(), func(m Measure) bool { return m.Name == o.Name })
	}
	slices.SortStableFunc(f.Outliers, func(a, b Outlier) int {
		return cmp.Or(cmp.Compare(order(&a), order(&b)), cmp.Compare(distance(b.Value, b.Median), distance(a.Value, a.Median)), a.Member.order(b.Member))
	})
}

func (f *Fleet) outliersBy(c *crowd, m Measure) {
	median := c.median(m.Of)
	var off []int64
	for _, x := range c.members {
		if v := m.Of(x.Facts); v >= 0 {
			off = append(off, distance(v, median))
		}
	}
	if len(off) < leastAlike {
		return
	}
	usual := fleet.Median(off) * 14826 / 10000
	// What a tenth of them does is not odd: they may fall into two groups.
	slices.Sort(off)
	usual = max(usual, off[(len(off)-1)*9/10]*1000/1645)
	for _, x := range c.members {
		v := m.Of(x.Facts)
		by := distance(v, median)
		if v < 0 || by <= farOff*usual || by*leastOff <= median || m.Name == "unused" && by*leastOff/2 <= x.Facts.PeakReserved {
			continue
		}
		o := Outlier{Member: x, Measure: m, Value: v, Median: median, Usual: usual, Among: len(off), At: c.at}
		if m.Name == "peak_allocated" {
			o.Stack, o.Held, o.HeldUsually = c.differs(x)
		}
		f.Outliers = append(f.Outliers, o)
	}
}

func distance(a, b int64) int64 { return max(a-b, b-a) }

// RanOut is a member that ran out of memory, and what was different about it.
type RanOut struct {
	Member *Member
	First  fleet.OOM
	OOMs   int
	// Different is what sets it apart from those that did not run out, for people; empty if nothing does.
	Different []string
	Stack     fleet.Print // that held more than in the others, if one did
	Held      int64       // bytes
	Usual     int64       // bytes, the median of the others
}

// ranOut compares the members that ran out of memory with those that did not.
func (f *Fleet) ranOut(crowds []*crowd) {
	for _, c := range crowds {
		didNot := slices.DeleteFunc(slices.Clone(c.members), func(x *Member) bool { return len(x.Facts.OOMs) > 0 })
		if len(didNot) == len(c.members) {
			continue
		}
		others := newCrowd(c.at, didNot)
		for _, m := range c.members {
			if len(m.Facts.OOMs) == 0 {
				continue
			}
			r := RanOut{Member: m, First: m.Facts.OOMs[0], OOMs: len(m.Facts.OOMs)}
			if len(didNot) > 0 {
				f.different(&r, others)
			}
			f.RanOut = append(f.RanOut, r)
		}
	}
	slices.SortStableFunc(f.RanOut, func(a, b RanOut) int { return a.Member.order(b.Member) })
}

// different fills in what sets a member apart from those that did not run out.
func (f *Fleet) different(r *RanOut, others *crowd) {
	x := r.Member.Facts
	say := func(format string, args ...any) { r.Different = append(r.Different, fmt.Sprintf(format, args...)) }
	needed := r.First.Allocated + r.First.Requested
	if d := x.PeakAllocated - others.peak; others.peak > 0 && d*leastOff > others.peak {
		say("it allocated %s at its peak, %s more than the median of the others", report.Bytes(x.PeakAllocated), report.Bytes(d))
	} else if d := needed - others.peak; others.peak > 0 && r.First.Requested > 0 && d*leastOff > others.peak {
		say("it wanted %s in use at once, %s more than the others have at their peak", report.Bytes(needed), report.Bytes(d))
	}
	if s, held, usual := others.differs(r.Member); held > usual && (held-usual)*leastOff > x.PeakAllocated {
		r.Stack, r.Held, r.Usual = s, held, usual
		say("%s held %s there, in the others %s", f.place(s), report.Bytes(held), report.Bytes(usual))
	}
	if u := others.median(func(f *fleet.Facts) int64 { return f.Unused }); x.Unused-u > x.PeakReserved/leastOff {
		say("%s of what it had reserved was not in use at the reserved peak, in the others %s", report.Bytes(x.Unused), report.Bytes(u))
	}
	if u := others.median(func(f *fleet.Facts) int64 { return f.Retries }); x.Retries > 2*u+1 {
		say("it flushed its cache %s, the others %s", times(x.Retries), times(u))
	}
	c := others.median(func(f *fleet.Facts) int64 {
		if f.Capacity == 0 {
			return -1
		}
		return f.Capacity
	})
	if c > 0 && x.Capacity > 0 && (c-x.Capacity)*leastOff > c {
		say("the device could give it %s, the others %s: something else is on it", report.Bytes(x.Capacity), report.Bytes(c))
	}
	if !slices.ContainsFunc(others.members, func(m *Member) bool { return m.Facts.Conf == x.Conf }) {
		say("it ran under %s, the others under %s", named(x.Conf), named(others.members[0].Facts.Conf))
	}
}

func times(n int64) string {
	switch n {
	case 0:
		return "never"
	case 1:
		return "once"
	case 2:
		return "twice"
	}
	return report.Count(int(n)) + " times"
}

// Growth is a stack whose blocks pile up, on how many members.
type Growth struct {
	Stack   fleet.Print
	Members []*Member // on which it does, the fastest first
	PerStep []int64   // bytes a step, of each of those
	AtEnd   int64     // bytes at the end, of all
	Buffer  bool      // a block that is larger each time, on all of those
}

// Total is bytes a step, of all.
func (g *Growth) Total() int64 {
	var n int64
	for _, p := range g.PerStep {
		n += p
	}
	return n
}

// Spread says on how many of the members that could tell a stack grows.
func (g *Growth) Spread(looked int) string {
	switch n := len(g.Members); {
	case n == looked:
		return "all"
	case n == 1:
		return "one"
	default:
		return fmt.Sprintf("%s of %s", report.Count(n), report.Count(looked))
	}
}

// growth finds the stacks that grow, those on most members first.
func (f *Fleet) growth() {
	index := map[fleet.Print]int{}
	for _, m := range f.Members {
		if m.Facts.Growing {
			f.Looked++
		}
		if m.Facts.Grows && len(m.Facts.Leaks) == 0 {
			f.GrowUnsaid++
		}
		for _, l := range m.Facts.Leaks {
			i, ok := index[l.Stack]
			if !ok {
				i = len(f.Growth)
				index[l.Stack] = i
				f.Growth = append(f.Growth, Growth{Stack: l.Stack, Buffer: true})
			}
			g := &f.Growth[i]
			at := 0
			for at < len(g.PerStep) && g.PerStep[at] >= l.PerStep {
				at++
			}
			g.Members, g.PerStep = slices.Insert(g.Members, at, m), slices.Insert(g.PerStep, at, l.PerStep)
			g.AtEnd += l.AtEnd
			g.Buffer = g.Buffer && l.Buffer
		}
	}
	slices.SortStableFunc(f.Growth, func(a, b Growth) int {
		return cmp.Or(cmp.Compare(b.Total(), a.Total()), cmp.Compare(a.Stack, b.Stack))
	})
}
