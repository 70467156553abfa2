package torch

import (
	"fmt"
	"strings"

	"github.com/vramscope/vramscope/trace"
)

// describe writes a trace as text.
func describe(t *trace.Trace) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s\n", strings.Fields(t.Source.Format)[0], t.Source.Producer)
	if s := t.Settings; s.Known {
		fmt.Fprintf(&b, "settings %q max_split %d gc %v expandable %v/%v roundup %v/%v\n",
			s.Conf, s.MaxSplitSize, s.GCThreshold, s.Expandable, s.HasExpandable, s.Roundup, s.HasRoundup)
	}
	for _, w := range t.Warnings {
		fmt.Fprintf(&b, "warning %s x%d first %d: %s\n", w.Code, w.Count, w.First, w.Message)
	}
	for _, m := range t.Markers {
		fmt.Fprintf(&b, "marker %d edge %d device %d %q\n", m.Time, m.Edge, m.Device, m.Name)
	}
	stack := func(id trace.StackID) string {
		var s string
		for _, f := range t.Stacks.Stack(id) {
			s += fmt.Sprintf(" %s:%d(%s)", f.File, f.Line, f.Func)
		}
		return s
	}
	for i := range t.Devices {
		d := &t.Devices[i]
		fmt.Fprintf(&b, "device %d: streams %x pools %d blocks %d final %v overflow %v\n", d.Index, d.Streams, d.Pools, d.NumBlocks, d.HasFinal, d.Overflow)
		for _, w := range d.Warnings {
			fmt.Fprintf(&b, "  warning %s x%d first %d: %s\n", w.Code, w.Count, w.First, w.Message)
		}
		state := func(name string, s trace.State) {
			for _, g := range s.Segments {
				kind := "kind?"
				if g.KindKnown {
					kind = map[bool]string{true: "small", false: "large"}[g.Small]
				}
				fmt.Fprintf(&b, "  %s segment %x+%x stream %d pool %s %s expandable %v%s\n", name, g.Addr, g.Size, g.Stream, pool(g.Pool), kind, g.Expandable, stack(g.Stack))
			}
			for _, k := range s.Blocks {
				fmt.Fprintf(&b, "  %s block %x+%x requested %d id %s stream %d %s%s\n", name, k.Addr, k.Size, k.Requested, block(k.ID), k.Stream,
					[]string{"free", "live", "pending"}[k.State], stack(k.Stack))
			}
		}
		state("initial", d.Initial)
		for i, e := range d.Events.All() {
			fmt.Fprintf(&b, "  %d: %d %s %x size %d block %s stream %d pool %s%s\n", i, e.Time, e.Op, e.Addr, e.Size, block(e.Block), e.Stream, pool(e.Pool), stack(e.Stack))
		}
		state("final", d.Final)
	}
	return b.String()
}

func block(id trace.BlockID) string {
	if id == trace.NoBlock {
		return "-"
	}
	return fmt.Sprint(id)
}

func pool(id trace.PoolID) string {
	if id == trace.PoolUnknown {
		return "?"
	}
	return fmt.Sprint(id)
}
