package report

import (
	"cmp"
	"path"
	"slices"

	"github.com/vramscope/vramscope/trace"
)

// line is a frame that stacks go through, and what they do there.
type line struct {
	frame   trace.Frame
	id      trace.FrameID
	calls   float64            // allocations made through it
	bytes   float64            // that the stacks through it held at most, together
	callees map[callee]float64 // what it called, by allocations
	last    int                // the stack that was counted last, so that a recursion counts once
}

// callee is a function as a line calls it; the zero one is the allocator itself.
type callee struct{ file, fn string }

// linesOf lists the frames of a profile's stacks by their number; nil for one that no stack has.
func linesOf(p *Profile) []*line {
	lines := make([]*line, p.Stacks.NumFrames())
	for i, u := range p.Uses {
		var inner callee
		n := float64(max(u.Calls, 1))
		for _, id := range p.Stacks.Frames(u.Stack) {
			l := lines[id]
			if l == nil {
				f := p.Stacks.Frame(id)
				l = &line{frame: f, id: id, callees: map[callee]float64{}, last: -1}
				lines[id] = l
			}
			if l.last != i {
				l.last = i
				l.calls += n
				l.bytes += float64(u.Most)
			}
			l.callees[inner] += n
			inner = callee{path.Base(slashed(l.frame.File)), l.frame.Func}
		}
	}
	return lines
}

// mostAligned bounds the work of one function: lines of one run times lines of the other.
const mostAligned = 1 << 18

// alignLines pairs the lines of a function in order, for the greatest likeness in all.
func alignLines(a, b []*line) [][2]*line {
	byLine := func(x, y *line) int { return cmp.Compare(x.frame.Line, y.frame.Line) }
	slices.SortFunc(a, byLine)
	slices.SortFunc(b, byLine)
	if len(a)*len(b) > mostAligned {
		return sameLines(a, b)
	}
	width := len(b) + 1
	best := make([]float64, (len(a)+1)*width) // of the lines from i and j on
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			v := max(best[(i+1)*width+j], best[i*width+j+1])
			if s := likeness(a[i], b[j]); s > 0 {
				v = max(v, s+best[(i+1)*width+j+1])
			}
			best[i*width+j] = v
		}
	}
	var out [][2]*line
	for i, j := 0, 0; i < len(a) && j < len(b); {
		switch v := best[i*width+j]; {
		case v == best[(i+1)*width+j]:
			i++
		case v == best[i*width+j+1]:
			j++
		default:
			out = append(out, [2]*line{a[i], b[j]})
			i++
			j++
		}
	}
	return out
}

// sameLines pairs lines of the same number.
func sameLines(a, b []*line) [][2]*line {
	at := map[int]*line{}
	for _, l := range a {
		at[l.frame.Line] = l
	}
	var out [][2]*line
	for _, l := range b {
		if x := at[l.frame.Line]; x != nil {
			out = append(out, [2]*line{x, l})
		}
	}
	return out
}

// likeness is how much two lines of a function look like the same one, 0 if they cannot be: what they call
// counts most, then how often, how much memory, and that the number is the same.
func likeness(a, b *line) float64 {
	var common, all float64
	for c, n := range a.callees {
		m := b.callees[c]
		common += min(n, m)
		all += max(n, m)
	}
	for c, m := range b.callees {
		if _, ok := a.callees[c]; !ok {
			all += m
		}
	}
	if common == 0 {
		return 0
	}
	s := 1 + 2*common/all + ratio(a.calls, b.calls) + ratio(a.bytes, b.bytes)
	if a.frame.Line == b.frame.Line {
		s += 0.01 // of a whole function less than one line more that is paired
	}
	return s
}

func ratio(x, y float64) float64 {
	if x <= 0 || y <= 0 {
		return 0
	}
	return min(x, y) / max(x, y)
}
