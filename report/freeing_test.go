package report

import (
	"testing"

	"github.com/vramscope/vramscope/allocators/caching"
	"github.com/vramscope/vramscope/allocators/caching/config"
	"github.com/vramscope/vramscope/internal/recordtest"
	"github.com/vramscope/vramscope/internal/tracetest"
	"github.com/vramscope/vramscope/simulate"
	"github.com/vramscope/vramscope/trace"
	"github.com/vramscope/vramscope/trace/source"
	"pgregory.net/rapid"
)

// freed gives the blocks back that would have made room for a request, on a copy of the model as it was when the request
// failed, and says what is wrong if there is no room then.
func freed(t interface{ Errorf(string, ...any) }, l *Layout, a *caching.Allocator, e *trace.Event, pool uint32) {
	var c caching.Allocator
	a.CopyTo(&c)
	c.SetHooks(caching.Hooks{})
	releasable := func() (sum int64) {
		for _, small := range []bool{false, true} {
			for _, x := range c.Plan(0, small) {
				sum += x.Size
			}
		}
		return sum
	}
	before := releasable()
	var bytes int64
	for _, b := range l.Freeing.Blocks {
		_, size, ok := c.Block(uint32(b.Block))
		if !ok || size != b.Bytes {
			t.Errorf("block %d has %d bytes there, not %d", b.Block, size, b.Bytes)
		}
		bytes += size
		c.Free(uint32(b.Block), false)
	}
	if bytes != l.Freeing.Bytes || bytes == 0 {
		t.Errorf("the blocks have %d bytes, not %d", bytes, l.Freeing.Bytes)
	}
	if l.Freeing.Segments > 0 {
		if got := releasable() - before; got != l.Freeing.Room {
			t.Errorf("freeing them lets %d bytes be given back, not %d", got, l.Freeing.Room)
		}
		return
	}
	if _, size, ok := c.Fit(pool, uint32(e.Stream), e.Size <= config.SmallSize, e.Size); !ok || size < l.Freeing.Room {
		t.Errorf("freeing them makes a block of %d bytes (%v), not %d", size, ok, l.Freeing.Room)
	}
}

// What is said to make room makes room, for every request that failed in a recording.
func TestFreeingOfRecordings(t *testing.T) {
	for _, rec := range recordtest.Snapshots() {
		if testing.Short() && !rec.Own {
			continue
		}
		tr, err := source.Open(rec.File, source.Options{})
		if err != nil {
			t.Fatal(err)
		}
		cfg, _ := simulate.SettingsOf(tr, config.DefaultVersion)
		for i := range tr.Devices {
			d := &tr.Devices[i]
			failures := 0
			simulate.Follow(d, cfg, simulate.FollowOptions{Limit: rec.Limit, Each: func(i int, e *trace.Event, now simulate.Now) {
				if e.Op != trace.OpOOM || now.Model.Reserved() != now.Reserved || now.Model.Allocated() != now.Allocated {
					return
				}
				if failures++; failures > 20 {
					return
				}
				p := peaks{dev: d, limit: rec.Limit}
				p.fail(i, e, &now)
				l := p.failed[0].Layout
				if l.Freeing == nil {
					return
				}
				freed(t, l, now.Model, e, now.FailedPool)
			}})
			if t.Failed() {
				t.Fatalf("in %s", rec.Name)
			}
		}
	}
}

// Within a segment there is no cheaper way than the one that is found.
func TestFreeingWithinIsLeast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var blocks []caching.Placed
		addr := uint64(1 << 30)
		for range rapid.IntRange(1, 4).Draw(t, "segments") {
			pool, stream := uint32(rapid.IntRange(0, 1).Draw(t, "pool")), uint32(rapid.IntRange(0, 1).Draw(t, "stream"))
			for i := range rapid.IntRange(1, 7).Draw(t, "blocks") {
				b := caching.Placed{Addr: addr, Size: int64(rapid.IntRange(1, 9).Draw(t, "size")) << 20, Pool: pool, Stream: stream, First: i == 0,
					Free: rapid.Bool().Draw(t, "free"), Number: uint32(len(blocks))}
				addr += uint64(b.Size)
				blocks = append(blocks, b)
			}
			addr += 1 << 30
		}
		cfg := config.Default()
		want := caching.Placed{Size: int64(rapid.IntRange(1, 30).Draw(t, "request")) << 20}
		best := int64(-1)
		for i := range blocks {
			var size, used int64
			for j := i; j < len(blocks) && (j == i || !begins(blocks, j)); j++ {
				size += blocks[j].Size
				used += inUse(&blocks[j])
				if blocks[i].Pool == 0 && blocks[i].Stream == 0 && size >= want.Size && (best < 0 || used < best) {
					best = used
				}
			}
		}
		switch f := freeingWithin(blocks, want, &cfg); {
		case f == nil && best > 0:
			t.Fatalf("nothing, but freeing %d would do", best)
		case f != nil && f.Bytes != best:
			t.Fatalf("%d bytes, but %d would do", f.Bytes, best)
		case f != nil && f.Room < want.Size:
			t.Fatalf("a room of %d for %d", f.Room, want.Size)
		}
	})
}

// A request is over the limit, and of the segments that are held one has little in it: that one is named.
func TestFreeingSegments(t *testing.T) {
	const mib = tracetest.MiB
	r := tracetest.New("", 100*mib)
	var first []int
	for range 4 {
		first = append(first, r.Alloc(20*mib, "/home/user/train.py:3 fill"))
	}
	r.Free(first...)
	small := r.Alloc(2*mib, "/home/user/other.py:9 hold")
	for range 3 {
		r.Alloc(19*mib, "/home/user/train.py:5 keep") // a whole segment, since 1 MiB is not split off
	}
	if n := r.Alloc(60*mib, "/home/user/train.py:8 big"); n >= 0 || small < 0 {
		t.Fatal("there was room")
	}
	tr := r.Trace()
	a := Analyze("test", tr, Options{Limit: 100 * mib, Device: -1})
	o := a.Devices[0].OOMs[0]
	if o.Layout == nil || o.Layout.Freeing == nil {
		t.Fatalf("%+v", o.Layout)
	}
	f := o.Layout.Freeing
	if f.Segments != 2 || len(f.Blocks) != 2 || f.Bytes != 22*mib || f.Room != 40*mib || f.Blocks[0].Bytes != 20*mib || f.Blocks[1].Block != trace.BlockID(small) {
		t.Fatalf("%+v", f)
	}
	if got := PlaceOf(tr.Stacks, f.Blocks[1].Stack).String(); got != "other.py:9 hold" || f.Blocks[1].Born < 0 {
		t.Errorf("%s, event %d", got, f.Blocks[1].Born)
	}
}
