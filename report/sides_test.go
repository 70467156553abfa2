package report_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/internal/recordtest"
	"github.com/vramscope/vramscope/internal/tracetest"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/trace"
	"github.com/vramscope/vramscope/trace/source"
)

// sidesAddUp says what does not add up of what a device held at its instants, seen from all sides, and of how its memory lay.
func sidesAddUp(d *report.Device) error {
	var bad []error
	check := func(title string, p report.Peak) {
		if b := p.Breakdown; b != nil && p.Allocated >= 0 {
			bad = append(bad, breakdownAddsUp(title, b, p.Allocated, len(d.Steps.Steps) > 0))
		}
		if l := p.Layout; l != nil {
			bad = append(bad, layoutAddsUp(title, l, p.Allocated, p.Reserved))
		}
	}
	check("peak", d.PeakAllocated)
	check("reserved peak", d.PeakReserved)
	check("end", d.End)
	if d.At != nil {
		check("instant", *d.At)
	}
	for i := range d.OOMs {
		o := &d.OOMs[i]
		check("failure", report.Peak{Allocated: o.Allocated, Reserved: o.Reserved, Breakdown: o.Breakdown, Layout: o.Layout})
	}
	bad = append(bad, usesAddUp(d))
	return errors.Join(bad...)
}

func breakdownAddsUp(title string, b *report.Breakdown, allocated int64, steps bool) error {
	if len(b.ByCategory) == 0 && allocated > 0 {
		return fmt.Errorf("%s: %d bytes and no categories", title, allocated)
	}
	blocks := b.BeforeBlocks + b.Holders.Unknown
	for _, h := range b.ByStack {
		blocks += h.Blocks
	}
	for name, list := range map[string][]report.Share{"category": b.ByCategory, "file": b.ByFile, "module": b.ByModule, "phase": b.ByPhase,
		"step": b.ByStep, "stream": b.ByStream, "pool": b.ByPool} {
		if list == nil && (name == "module" || name == "step" && !steps || allocated == 0) {
			continue
		}
		var sum int64
		n := 0
		for _, s := range list {
			sum += s.Bytes
			n += s.Blocks
		}
		if sum != allocated || n != blocks {
			return fmt.Errorf("%s by %s: %d bytes in %d blocks, of %d in %d", title, name, sum, n, allocated, blocks)
		}
	}
	var own int64
	children := make([]int64, len(b.Tree))
	for i, n := range b.Tree {
		own += n.Own
		if n.Parent >= i || n.Parent < 0 != (i == 0) || n.Parent >= 0 && n.Depth != b.Tree[n.Parent].Depth+1 {
			return fmt.Errorf("%s: node %d has parent %d and depth %d", title, i, n.Parent, n.Depth)
		}
		if n.Parent >= 0 {
			children[n.Parent] += n.Bytes
		}
	}
	for i, n := range b.Tree {
		if children[i]+n.Own != n.Bytes {
			return fmt.Errorf("%s: node %d %q has %d bytes, its parts %d", title, i, n.Name, n.Bytes, children[i]+n.Own)
		}
	}
	if own != allocated || b.Tree[0].Bytes != allocated || b.Tree[0].Blocks != blocks {
		return fmt.Errorf("%s: the tree has %d bytes, of %d", title, own, allocated)
	}
	return nil
}

func layoutAddsUp(title string, l *report.Layout, allocated, reserved int64) error {
	if l.Stranded+l.Cached+l.Pending != reserved-allocated {
		return fmt.Errorf("%s: %+v of %d reserved, %d allocated", title, l.Fragmentation, reserved, allocated)
	}
	var sum report.PoolUse
	var private int64
	for _, p := range l.Pools {
		if p.Reserved != p.Allocated+p.Pending+p.Free {
			return fmt.Errorf("%s: pool %+v", title, p)
		}
		sum.Reserved += p.Reserved
		sum.Allocated += p.Allocated
		sum.Pending += p.Pending
		sum.Free += p.Free
		sum.Largest = max(sum.Largest, p.Largest)
		if p.Pool != 0 {
			private += p.Reserved
		}
	}
	if sum.Reserved != reserved || sum.Allocated != allocated || sum.Pending != l.Pending || sum.Free != l.Stranded+l.Cached || sum.Largest != l.Largest || private != l.Private {
		return fmt.Errorf("%s: pools are %+v, %d private; of %d reserved, %d allocated, %+v, %d private", title, sum, private, reserved, allocated, l.Fragmentation, l.Private)
	}
	var free int64
	for _, s := range l.FreeSizes {
		if s.Bytes < s.From*int64(s.Blocks) || s.Bytes >= 2*s.From*int64(s.Blocks) {
			return fmt.Errorf("%s: %+v", title, s)
		}
		free += s.Bytes
	}
	if free != sum.Free {
		return fmt.Errorf("%s: free sizes add up to %d of %d", title, free, sum.Free)
	}
	for _, p := range l.PinnedBy {
		if p.Live <= 0 || p.Live >= p.Segment || p.StackSize > p.Live || p.Blocks < 1 {
			return fmt.Errorf("%s: pin %+v", title, p)
		}
	}
	return nil
}

// usesAddUp looks at what was in use over time: the points are few, in order, what they say adds up, and the peaks and
// failures are among them.
func usesAddUp(d *report.Device) error {
	if d.Follow == nil {
		return nil
	}
	if len(d.Uses) > 1100 {
		return fmt.Errorf("%d points", len(d.Uses))
	}
	var marks report.Mark
	failures, last := 0, -2
	var most int64
	for _, u := range d.Uses {
		if u.Event <= last {
			return fmt.Errorf("event %d after %d", u.Event, last)
		}
		last = u.Event
		marks |= u.Mark
		if u.Mark&report.MarkOOM != 0 {
			failures++
		}
		most = max(most, u.Allocated)
		if u.Known && (u.Reserved != u.Allocated+u.Pending+u.Cached+u.Stranded || u.Private > u.Reserved || min(u.Pending, u.Cached, u.Stranded, u.Private) < 0) {
			return fmt.Errorf("event %d: %+v", u.Event, u)
		}
	}
	if n := d.Trace.Events.Len(); n > 0 && (marks&(report.MarkPeakAllocated|report.MarkPeakReserved) != report.MarkPeakAllocated|report.MarkPeakReserved ||
		failures < min(len(d.OOMs), 64) || most != d.PeakAllocated.Allocated) {
		return fmt.Errorf("marks %b, %d of %d failures, %d of %d at most", marks, failures, len(d.OOMs), most, d.PeakAllocated.Allocated)
	}
	return nil
}

// Of every recording, at every instant that is tried, all that is said adds up, in every form.
func TestSidesAddUp(t *testing.T) {
	for _, rec := range recordtest.Snapshots() {
		if testing.Short() && !rec.Own {
			continue
		}
		t.Run(rec.Name, func(t *testing.T) {
			tr, err := source.Open(rec.File, source.Options{})
			if err != nil {
				t.Fatal(err)
			}
			for i := range tr.Devices {
				n := tr.Devices[i].Events.Len()
				instants := []int{-1, n / 3, n - 1}
				if n < 20_000 {
					instants = append(instants, 0, n/7, n/2, 5*n/7)
				}
				for _, at := range instants {
					if at >= n || at < -1 {
						continue
					}
					a := report.Analyze(rec.Name, tr, report.Options{Limit: rec.Limit, Device: tr.Devices[i].Index, At: &at})
					if err := sidesAddUp(&a.Devices[0]); err != nil {
						t.Errorf("at event %d: %v", at, err)
					}
					if d := &a.Devices[0]; d.At == nil || d.At.Event != at {
						t.Errorf("at event %d: %+v", at, d.At)
					} else if whole := at < 0 || tr.Devices[i].Events.At(at).Op == trace.OpAlloc; whole && d.At.Layout == nil && d.Follow.Score.Exact() {
						t.Errorf("at event %d: it is not known how memory lay", at)
					}
					if at == instants[0] || n < 2000 {
						jsonAddsUp(t, a)
					}
				}
			}
		})
	}
}

// jsonAddsUp compares the sums of a document with what was analysed.
func jsonAddsUp(t *testing.T, a *report.Analysis) {
	t.Helper()
	var b bytes.Buffer
	if err := a.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	type shares []struct{ Bytes int64 }
	type instant struct {
		By_category, By_file, By_phase, By_stream, By_pool, By_stack, By_step, By_module shares
		Tree                                                                             []struct {
			Parent *int
			Bytes  int64
		}
		Before_recording_bytes, Unattributed_bytes, Allocated_bytes, Bytes int64
	}
	var doc struct {
		Devices []struct {
			Peak_allocated, End instant
			At                  *instant
		}
	}
	if err := json.Unmarshal(b.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	for i, d := range doc.Devices {
		want := &a.Devices[i]
		look := func(title string, x instant, allocated int64) {
			if got := x.Bytes + x.Allocated_bytes; got != allocated {
				t.Errorf("%s: %d bytes, want %d", title, got, allocated)
			}
			for name, list := range map[string]shares{"category": x.By_category, "file": x.By_file, "phase": x.By_phase, "stream": x.By_stream,
				"pool": x.By_pool, "stack": x.By_stack, "step": x.By_step, "module": x.By_module} {
				var sum int64
				for _, s := range list {
					sum += s.Bytes
				}
				if name == "stack" {
					sum += x.Before_recording_bytes + x.Unattributed_bytes
				}
				if (list != nil || name != "step" && name != "module") && sum != allocated {
					t.Errorf("%s by %s: %d bytes, want %d", title, name, sum, allocated)
				}
			}
			if len(x.Tree) > 0 && (x.Tree[0].Parent != nil || x.Tree[0].Bytes != allocated) {
				t.Errorf("%s: the root of the tree is %+v", title, x.Tree[0])
			}
		}
		look("peak", d.Peak_allocated, want.PeakAllocated.Allocated)
		look("end", d.End, want.End.Allocated)
		if d.At == nil {
			t.Error("the instant is missing")
			continue
		}
		look("instant", *d.At, want.At.Allocated)
	}
}

// The recordings that leak on purpose say what and where, and none of the others is said to.
func TestLeaksOfRecordings(t *testing.T) {
	leaks := map[string]struct {
		bytes float64
		line  string
	}{
		"gpt_leak_loss":  {512_000, "workloads.py:78"},
		"gpt_leak_grads": {65_544_192, "workloads.py:81"},
	}
	for _, rec := range recordtest.Snapshots() {
		want, leaky := leaks[rec.Workload()]
		switch rec.Workload() {
		case "gpt_fixed", "gpt_accum", "resnet_train", "dynamic_batch", "gpt_long", "gpt_varlen":
		default:
			if !leaky {
				continue
			}
		}
		if testing.Short() && !rec.Own {
			continue
		}
		t.Run(rec.Name, func(t *testing.T) {
			tr, err := source.Open(rec.File, source.Options{})
			if err != nil {
				t.Fatal(err)
			}
			a := report.Analyze(rec.Name, tr, report.Options{Limit: rec.Limit, Device: -1})
			g := &a.Devices[0].Growth
			if !leaky {
				if len(g.Leaks) > 0 {
					t.Errorf("%d leaks, %v bytes a step", len(g.Leaks), g.Leaks[0].Bytes.Slope)
				}
				return
			}
			if len(g.Leaks) == 0 {
				t.Fatal("no leak")
			}
			var sum float64
			for _, l := range g.Leaks {
				sum += l.Bytes.Slope
			}
			if first := report.PlaceOf(tr.Stacks, g.Leaks[0].Stack); sum != want.bytes || !strings.HasPrefix(first.String(), want.line) {
				t.Errorf("%v bytes a step, the first at %s; want %v at %s", sum, first, want.bytes, want.line)
			}
			var text bytes.Buffer
			if err := a.WriteText(&text, report.Style{}); err != nil {
				t.Fatal(err)
			}
			if _, after, ok := strings.Cut(text.String(), "confidence  at the end  where\n"); !ok || !strings.Contains(strings.SplitN(after, "\n", 2)[0], want.line) {
				t.Errorf("the text does not name the line first:\n%s", after)
			}
		})
	}
}

// The failure that a dump of one instant was written for has no event, and the pieces of a failure that was recorded are
// those of the request's own pool.
func TestFailuresInJSON(t *testing.T) {
	type failures struct {
		Devices []struct {
			Ooms []struct {
				Event              *int
				Largest_free_bytes *int64
				Freeing            *struct{ Bytes, Room_bytes int64 }
			}
		}
	}
	read := func(tr *trace.Trace) failures {
		t.Helper()
		var b bytes.Buffer
		if err := report.Analyze("test", tr, report.Options{Limit: -1, Device: -1}).WriteJSON(&b); err != nil {
			t.Fatal(err)
		}
		var doc failures
		if err := json.Unmarshal(b.Bytes(), &doc); err != nil {
			t.Fatal(err)
		}
		return doc
	}
	tr, err := source.Open(filepath.Join(recordtest.Testdata(), "inputs", "tensorflow.log"), source.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if doc := read(tr); len(doc.Devices[0].Ooms) != 1 || doc.Devices[0].Ooms[0].Event != nil {
		t.Errorf("%+v", doc)
	}
	r := tracetest.New("", 100*mib)
	const line = "/home/user/train.py:3 main"
	r.Free(r.Alloc(40*mib, line))
	kept := r.Alloc(30*mib, line) // leaves 10 MiB of the segment
	r.Alloc(512, line)            // what is left of its segment is of the small pool
	r.Alloc(90*mib, line)
	if kept < 0 {
		t.Fatal("no room")
	}
	doc := read(r.Trace())
	o := doc.Devices[0].Ooms[0]
	if o.Event == nil || o.Largest_free_bytes == nil || *o.Largest_free_bytes != 10*mib {
		t.Errorf("%+v", o)
	}
}
