package browsertest

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/report/page"
)

// bytesAndBlocks is a row of a table.
type bytesAndBlocks struct {
	Bytes  int64
	Blocks int
}

// What the page adds up of a moment, in the browser, is what the analysis found: who held the memory, seen from each side;
// the tree of calls; what was free, and what keeps it.
func TestFindings(t *testing.T) {
	for _, name := range []string{oom, "golden/graph.pickle.zst", "golden/expandable.pickle.zst", "torch/streams.c0.pickle.zst", "torch/gpt_leak_grads.c0.pickle.zst", "inputs/kineto.json"} {
		t.Run(name, func(t *testing.T) {
			a := recorded(t, name)
			d := &a.Devices[0]
			x := open(t, written(t, a, page.Options{}), "")
			for _, at := range []report.Peak{d.PeakAllocated, d.End} {
				b := at.Breakdown
				state := at.Event + 1
				for side, want := range map[string][]report.Share{"role": b.ByCategory, "phase": b.ByPhase, "stream": b.ByStream, "pool": b.ByPool, "step": b.ByStep, "module": b.ByModule, "file": b.ByFile} {
					if !eval[bool](x, `vramscope.holders.sides.includes(%q)`, side) {
						if len(want) > 1 {
							t.Errorf("the page does not offer %s, of which there are %d", side, len(want))
						}
						continue
					}
					got := eval[[]bytesAndBlocks](x, `vramscope.holders.rows(%d, %q).map((r) => ({Bytes: r.bytes, Blocks: r.blocks}))`, state, side)
					same(t, fmt.Sprintf("state %d by %s", state, side), got, shares(want))
				}
				places := map[string]bytesAndBlocks{}
				add := func(name string, bytes int64, blocks int) {
					if blocks > 0 {
						x := places[name]
						places[name] = bytesAndBlocks{x.Bytes + bytes, x.Blocks + blocks}
					}
				}
				for _, h := range at.Holders.ByStack {
					add(report.PlaceOf(a.Trace.Stacks, h.Stack).String(), h.Bytes, h.Blocks)
				}
				add(report.BeforeRecording, at.Holders.Before, at.Holders.BeforeBlocks)
				add("without a call stack", at.Holders.Unattributed, at.Holders.Unknown)
				type row struct {
					Name   string
					Bytes  int64
					Blocks int
				}
				rows := eval[[]row](x, `vramscope.holders.rows(%d, "place").map((r) => ({Name: r.name, Bytes: r.bytes, Blocks: r.blocks}))`, state)
				for _, r := range rows {
					if places[r.Name] != (bytesAndBlocks{r.Bytes, r.Blocks}) {
						t.Errorf("state %d: %+v, want %+v", state, r, places[r.Name])
					}
				}
				if len(rows) != len(places) {
					t.Errorf("state %d: %d places, want %d", state, len(rows), len(places))
				}
				tree(t, x, state, b.Tree)
			}
			layout(t, x, d)
		})
	}
}

func shares(list []report.Share) []bytesAndBlocks {
	var out []bytesAndBlocks
	for _, s := range list {
		out = append(out, bytesAndBlocks{s.Bytes, s.Blocks})
	}
	return out
}

func same(t *testing.T, what string, got, want []bytesAndBlocks) {
	t.Helper()
	order := func(a, b bytesAndBlocks) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(b.Blocks, a.Blocks))
	}
	slices.SortFunc(got, order)
	slices.SortFunc(want, order)
	if !slices.Equal(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// tree compares the tree of calls, node by node.
func tree(t *testing.T, x *tab, state int, want []report.TreeNode) {
	t.Helper()
	type node struct {
		Path          string
		Bytes, Own    int64
		Blocks, Depth int
	}
	got := eval[[]node](x, `(() => {
		vramscope.goTo(%d); vramscope.flame.painter.now();
		const t = vramscope.flame.tree, out = [];
		const go = (n, path, depth) => {
			out.push({Path: path, Bytes: t.bytes[n], Own: n === 0 ? 0 : t.own[n], Blocks: t.blocks[n], Depth: depth});
			for (const c of t.below(n)) go(c, path + "/" + t.name(c), depth + 1);
		};
		go(0, "", 0);
		return out;
	})()`, state)
	paths := make([]string, len(want))
	index := map[string]report.TreeNode{}
	for i, n := range want {
		if n.Parent >= 0 {
			paths[i] = paths[n.Parent] + "/" + n.Name
		}
		old := index[paths[i]]
		n.Bytes, n.Own, n.Blocks = n.Bytes+old.Bytes, n.Own+old.Own, n.Blocks+old.Blocks
		index[paths[i]] = n
	}
	sums := map[string]node{}
	for _, n := range got { // frames of the same name in the same place, of other lines or files
		old := sums[n.Path]
		n.Bytes, n.Own, n.Blocks = n.Bytes+old.Bytes, n.Own+old.Own, n.Blocks+old.Blocks
		sums[n.Path] = n
	}
	for path, n := range sums {
		w, ok := index[path]
		if path == "" {
			w.Own = 0
		}
		if !ok || w.Bytes != n.Bytes || w.Own != n.Own || w.Blocks != n.Blocks {
			t.Errorf("state %d: %q has %+v, want %+v", state, path, n, w)
		}
	}
	if len(sums) != len(index) {
		t.Errorf("state %d: a tree of %d nodes, want %d", state, len(sums), len(index))
	}
}

// layout compares what was free at the reserved peak.
func layout(t *testing.T, x *tab, d *report.Device) {
	t.Helper()
	if !d.Fragmented {
		return
	}
	type pin struct {
		Free, Segment, Used int64
		Blocks              int
		Largest             int64
	}
	got := eval[struct {
		Stranded, Cached, Largest, Pending int64
		Pins                               []pin
	}](x, `(() => {
		vramscope.goTo(%d); vramscope.map.painter.now();
		const l = vramscope.map.layout, f = l.free(), r = vramscope.recording;
		return {Stranded: f.stranded, Cached: f.cached, Largest: f.largest, Pending: l.blocks.filter((b) => l.waits(b)).reduce((a, b) => a + r.bytesOf(b), 0),
			Pins: vramscope.pins.rows(l).map((p) => ({Free: p.free, Segment: p.segment.end - p.segment.addr, Used: p.segment.used, Blocks: p.blocks, Largest: r.bytesOf(p.largest)}))};
	})()`, d.PeakReserved.Event+1)
	f := d.Fragmentation
	if got.Stranded+got.Cached != f.Stranded+f.Cached || got.Pending != f.Pending {
		t.Errorf("at the reserved peak %+v, want %+v", got, f)
	}
	var want []pin
	for _, p := range d.PinnedBy {
		want = append(want, pin{p.Stranded(), p.Segment, p.Live, p.Blocks, p.StackSize})
	}
	order := func(a, b pin) int {
		return cmp.Or(cmp.Compare(b.Free, a.Free), cmp.Compare(b.Segment, a.Segment), cmp.Compare(b.Blocks, a.Blocks), cmp.Compare(b.Largest, a.Largest))
	}
	slices.SortFunc(got.Pins, order)
	slices.SortFunc(want, order)
	if !slices.Equal(got.Pins, want) {
		t.Errorf("kept: %v, want %v", got.Pins, want)
	}
}
