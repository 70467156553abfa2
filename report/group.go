package report

import (
	"cmp"
	"slices"

	"github.com/vramscope/vramscope/trace"
)

// group is what a place in the code held: all stacks that show as the same line.
type group struct {
	Holder
	where string
}

// groupByPlace adds up the stacks that a person would call the same place, the largest first.
func groupByPlace(stacks *trace.Stacks, holders []Holder) []group {
	index := map[string]int{}
	var out []group
	for _, h := range holders {
		where := place(stacks.Stack(h.Stack)).String()
		i, ok := index[where]
		if !ok {
			i = len(out)
			index[where] = i
			out = append(out, group{where: where, Holder: Holder{Stack: h.Stack}})
		}
		out[i].Bytes += h.Bytes
		out[i].Blocks += h.Blocks
	}
	slices.SortStableFunc(out, func(a, b group) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return out
}
