package fleet

import (
	"cmp"
	"slices"

	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/simulate/fleet"
)

// Common is what a stack held at the peaks of all members together.
type Common struct {
	Stack   fleet.Print
	Bytes   int64   // of the members that list it
	Unsure  int64   // bytes that it may have held besides, in members that do not
	Members int     // that list it
	Max     int64   // bytes in one
	Worst   *Member // which
}

// common adds up the stacks at the peaks, the largest first.
func (f *Fleet) common() {
	index := map[fleet.Print]int{}
	for _, m := range f.Members {
		f.Cut += m.Facts.Floor
	}
	for _, m := range f.Members {
		for _, h := range m.Facts.Held {
			i, ok := index[h.Stack]
			if !ok {
				i = len(f.Common)
				index[h.Stack] = i
				f.Common = append(f.Common, Common{Stack: h.Stack, Unsure: f.Cut})
			}
			c := &f.Common[i]
			c.Bytes += h.Bytes
			c.Unsure -= m.Facts.Floor
			c.Members++
			if c.Worst == nil || h.Bytes > c.Max {
				c.Max, c.Worst = h.Bytes, m
			}
		}
	}
	slices.SortStableFunc(f.Common, func(a, b Common) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Stack, b.Stack))
	})
}

// placeHeld is what a place in the code held at the peaks of all members, or what blocks held that no stack tells of.
type placeHeld struct {
	where string
	Common
}

// places adds up the stacks that a person would call one place, the largest first. On how many members a place held
// something is at least what is said.
func (f *Fleet) places() []placeHeld {
	index := map[string]int{}
	var out []placeHeld
	for _, c := range f.Common {
		where := f.place(c.Stack)
		i, ok := index[where]
		if !ok {
			i = len(out)
			index[where] = i
			out = append(out, placeHeld{where: where})
		}
		g := &out[i]
		g.Bytes += c.Bytes
		g.Unsure += c.Unsure
		g.Members = max(g.Members, c.Members)
		if g.Worst == nil || c.Max > g.Max {
			g.Max, g.Worst = c.Max, c.Worst
		}
	}
	bare := func(what string, of func(f *fleet.Facts) int64) {
		g := placeHeld{where: what}
		for _, m := range f.Members {
			if n := of(m.Facts); n > 0 {
				g.Bytes += n
				g.Members++
				if n > g.Max {
					g.Max, g.Worst = n, m
				}
			}
		}
		if g.Members > 0 {
			out = append(out, g)
		}
	}
	bare(report.WithoutStack, func(f *fleet.Facts) int64 { return f.Unattributed })
	bare(report.BeforeRecording, func(f *fleet.Facts) int64 { return f.Before })
	slices.SortStableFunc(out, func(a, b placeHeld) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return out
}
