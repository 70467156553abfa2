package report

import (
	"cmp"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/trace"
)

// Reduced is the profile with its stacks cut down to what is worth keeping in a file: the frames of the person's
// own code and the function of the framework that they called. Stacks that come to the same are added up. No
// more than most are kept, those that held the most; what never held more than floor bytes is left out then.
func (p *Profile) Reduced(most int) (reduced *Profile, floor int64) {
	r := *p
	r.Stacks, r.Uses = trace.NewStacks(), nil
	index := map[trace.StackID]int{}
	for _, u := range p.Uses {
		var ids []trace.FrameID
		for _, f := range reducedStack(p.Stacks.Stack(u.Stack)) {
			f.File = shortPath(f.File)
			ids = append(ids, r.Stacks.AddFrame(f))
		}
		u.Stack = r.Stacks.AddStack(ids)
		i, ok := index[u.Stack]
		if !ok {
			index[u.Stack] = len(r.Uses)
			r.Uses = append(r.Uses, u)
			continue
		}
		sum := sumUses([]StackUse{r.Uses[i], u}, []int{0, 1})
		sum.Stack = u.Stack
		r.Uses[i] = sum
	}
	slices.SortStableFunc(r.Uses, func(x, y StackUse) int { return cmp.Or(cmp.Compare(y.Most, x.Most), cmp.Compare(y.Calls, x.Calls)) })
	if most > 0 && len(r.Uses) > most {
		floor = r.Uses[most].Most
		r.Uses = slices.DeleteFunc(r.Uses[:most], func(u StackUse) bool { return u.Most <= floor })
	}
	return &r, floor
}

// reducedStack keeps what place shows and the own frames further out; without any, the innermost three.
func reducedStack(frames []trace.Frame) []trace.Frame {
	var out []trace.Frame
	var via *trace.Frame
	for i, f := range frames {
		if isOwn(f) {
			if len(out) == 0 && via != nil {
				out = append(out, *via)
			}
			out = append(out, f)
			continue
		}
		if via == nil && isVia(f) {
			via = &frames[i]
		}
	}
	if len(out) == 0 {
		return frames[:min(len(frames), 3)]
	}
	return out
}

// isVia says whether a frame of a framework is the one to name.
func isVia(f trace.Frame) bool { return isPython(f) && f.Func != "wrapper" && f.Func != "<lambda>" }

// shortPath is a path without what differs between machines: from the folder of installed packages on, or the
// last folders of others. It is known by its end, and still to be told from the person's own.
func shortPath(file string) string {
	const kept = 3
	s := slashed(file)
	for _, mark := range []string{"/site-packages/", "/dist-packages/", "/lib/python"} {
		if i := strings.LastIndex(s, mark); i >= 0 {
			return "..." + s[i:]
		}
	}
	parts := strings.Split(s, "/")
	if len(parts) <= kept {
		return file
	}
	return ".../" + strings.Join(parts[len(parts)-kept:], "/")
}

// MostHeld is the most that the stacks which match held at once, in bytes asked for.
func (p *Profiled) MostHeld(match func(trace.StackID) bool) int64 {
	dev := p.Analysis.Trace
	counts := make([]bool, p.Stacks.Len())
	for i := range counts {
		counts[i] = match(trace.StackID(i))
	}
	sizes := make([]int64, dev.NumBlocks) // of live blocks that match
	var now, most int64
	take := func(b trace.BlockID, s trace.StackID, size int64) {
		if int(b) < len(sizes) && int(s) < len(counts) && counts[s] {
			sizes[b] = size
			now += size
			most = max(most, now)
		}
	}
	for _, b := range p.Analysis.Follow.Requests.Initial {
		if b.State == trace.BlockLive {
			take(b.ID, b.Stack, requestedOf(b.Block))
		}
	}
	for _, e := range dev.Events.All() {
		switch e.Op {
		case trace.OpAlloc:
			take(e.Block, e.Stack, e.Size)
		case trace.OpFreeRequested, trace.OpFree:
			if int(e.Block) < len(sizes) {
				now -= sizes[e.Block]
				sizes[e.Block] = 0
			}
		}
	}
	return most
}

// WhereIn is the place to show of a stack, on one line.
func WhereIn(frames []trace.Frame) string { return place(frames).String() }
