package caching_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/vramscope/vramscope/allocators"
	"github.com/vramscope/vramscope/allocators/caching"
	"github.com/vramscope/vramscope/allocators/caching/config"
)

// rangeOf is memory as it is adopted.
func rangeOf(m memory, list []caching.Placed) caching.Range {
	r := caching.Range{Addr: m.addr, Size: m.size}
	for _, p := range list {
		if p.Addr < m.addr || p.Addr >= m.addr+uint64(m.size) {
			continue
		}
		r.Pool, r.Stream, r.Small = p.Pool, p.Stream, p.Small
		if !p.Free {
			r.Blocks = append(r.Blocks, caching.Adopted{Number: p.Number, Addr: p.Addr, Size: p.Size, Requested: p.Requested, Pending: p.Pending})
		}
	}
	return r
}

// adoptAll builds the state of another allocator.
func adoptAll(b *caching.Allocator, from *caching.Allocator, l *ledger) {
	list := layout(from)
	spaces := map[uint64][]caching.Range{}
	var order []uint64
	for _, m := range l.held() {
		r := rangeOf(m, list)
		if m.space == 0 {
			b.AdoptSegment(r)
			continue
		}
		if spaces[m.space] == nil {
			order = append(order, m.space)
		}
		spaces[m.space] = append(spaces[m.space], r)
	}
	for _, base := range order {
		b.AdoptReservation(base, l.spaces[base], spaces[base])
	}
}

// TestAdoptAll: an allocator that takes over the state of another is as valid, has the same in use, and goes
// on in the same way. (Ages are not taken over, nor are reservations without a mapped page, so without
// garbage collection and failing devices.)
func TestAdoptAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := setups(t)
		s.cfg.GCThreshold, s.cfg.Limit, s.device.Capacity = 0, -1, 0
		list := ops(t, &s)
		cut := roll(t, len(list)+1, "cut")
		driver := newBump(0)
		l := newLedger(driver)
		a := s.build(l)
		play(a, list[:cut])

		// What it goes on with: the driver as it is now, and what the driver gave.
		state := *driver
		l2 := newLedger(&state)
		for addr, size := range l.segments {
			l2.segments[addr] = size
		}
		for g := range l.mapped {
			l2.mapped[g] = true
		}
		for base, size := range l.spaces {
			l2.spaces[base] = size
		}
		b := s.build(l2)
		b.SetExpandable(a.Config().Expandable)
		for id := uint32(1); id < 4; id++ {
			if a.Retired(id) {
				b.Retire(id)
			}
		}
		adoptAll(b, a, l)
		if err := judge(b, l2); err != nil {
			t.Fatal(err)
		}
		compare := func() {
			t.Helper()
			if x, y := fmt.Sprint(layout(a)), fmt.Sprint(layout(b)); x != y {
				t.Fatalf("blocks\n%s\nbecame\n%s\n%v\n%s", x, y, s, text(list))
			}
			if x, y := a.Fragmentation(), b.Fragmentation(); x != y || a.Allocated() != b.Allocated() {
				t.Fatalf("fragmentation %+v became %+v", x, y)
			}
		}
		compare()
		if want := b.Fragmentation(); b.Stats().AtPeak != want {
			t.Fatalf("AtPeak is %+v after adopting %+v", b.Stats().AtPeak, want)
		}
		want, got := play(a, list[cut:]), play(b, list[cut:])
		if !slices.Equal(want, got) {
			t.Fatalf("went on with\n%q, the original with\n%q\n%v", got, want, s)
		}
		compare()
		if err := judge(b, l2); err != nil {
			t.Fatal(err)
		}
	})
}

// TestAdoptAnything: what a recording may force on the model leaves it valid, whether it agrees or not.
func TestAdoptAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := setups(t)
		driver := newBump(0)
		l := newLedger(driver)
		a := s.build(l)
		next := uint32(1 << 16)
		for _, o := range ops(t, &s) {
			list := layout(a)
			any := func() caching.Placed {
				if len(list) == 0 {
					return caching.Placed{Addr: 12345, Size: 100}
				}
				return list[roll(t, len(list), "block")]
			}
			within := func(p caching.Placed) uint64 { return p.Addr + uint64(roll(t, int(p.Size), "at"))/512*512 }
			what := ""
			switch roll(t, 16, "force") {
			case 0:
				p := any()
				x := caching.Adopted{Number: next, Addr: within(p), Size: rapid.Int64Range(1, 40*mib).Draw(t, "size"), Requested: 1, Pending: roll(t, 3, "pending") == 0}
				next++
				what = fmt.Sprintf("Adopt(%+v) in %+v", x, p)
				if got := a.Adopt(x); got != p.Free {
					t.Fatalf("%s: %v", what, got)
				}
				if addr, size, ok := a.Block(x.Number); ok != p.Free || ok && (addr != x.Addr || size > x.Size) {
					t.Fatalf("%s: at %#x+%d %v", what, addr, size, ok)
				}
			case 1:
				p := any()
				what = fmt.Sprintf("Evict in %+v", p)
				if got := a.Evict(within(p)); got == p.Free && len(list) > 0 {
					t.Fatalf("%s: %v", what, got)
				}
			case 2:
				p := any()
				n := int64(1+roll(t, 3000, "more")) * 512
				what = fmt.Sprintf("Extend %+v by %d", p, n)
				_, size, _ := a.Block(p.Number)
				if a.Extend(p.Number, n) {
					if _, now, _ := a.Block(p.Number); now != size+n {
						t.Fatalf("%s: %d bytes", what, now)
					}
				}
			case 3:
				r := memory{addr: uint64(1<<46 + len(l.segments)*(1<<30)), size: int64(1+roll(t, 30, "MiB")) * granule}
				if l.segments[r.addr] != 0 {
					break
				}
				what = "AdoptMalloc"
				l.segments[r.addr] = r.size
				driver.used += r.size
				a.AdoptMalloc(uint32(roll(t, 3, "pool")), 0, roll(t, 2, "small") == 0, r.addr, r.size)
			case 4:
				p := any()
				what = fmt.Sprintf("Forget %+v", p)
				if got, want := a.Forget(p.Addr), p.Free && p.Whole && !p.Expandable; got != want {
					t.Fatalf("%s: %v", what, got)
				}
			case 5:
				p := any()
				what = fmt.Sprintf("Relabel %+v", p)
				if !p.Expandable {
					a.Relabel(p.Addr, uint32(roll(t, 4, "pool")))
				}
			case 6:
				p := any()
				page := a.PageOf(p.Small)
				base := uint64(0)
				for b, size := range l.spaces {
					if b <= p.Addr && p.Addr < b+uint64(size) {
						base = b
					}
				}
				addr := base + (within(p)-base)/uint64(page)*uint64(page)
				n := int64(1+roll(t, 2, "pages")) * page
				what = fmt.Sprintf("AdoptUnmap %#x+%d in %+v", addr, n, p)
				if base != 0 {
					if got, want := a.AdoptUnmap(addr, n), p.Free && addr >= p.Addr && addr+uint64(n) <= p.Addr+uint64(p.Size); got && !want {
						t.Fatalf("%s: %v", what, got)
					}
				}
			default:
				what = o.String()
				if err := o.apply(a); err != nil && len(s.uncut) == 0 && o.size < 1<<30 && s.cfg.Limit < 0 && s.cfg.DeviceTotal == 0 && s.cfg.ReserveFraction == 0 && s.cfg.ReserveBytes == 0 {
					t.Fatalf("%s: %v", what, err)
				}
			}
			if err := judge(a, l); err != nil {
				t.Fatalf("%s: %v\n%v", what, err, s)
			}
		}
	})
}

// AdoptMap has two ways: into a hole that is known, and into address space that is not.
func TestAdoptMap(t *testing.T) {
	c := config.Default()
	c.Expandable = true
	driver := newBump(0)
	l := newLedger(driver)
	a := caching.New(l, caching.NewConfig(c))
	base := uint64(0x302000000)
	l.spaces[base] = a.ReservationSize(false)
	a.AdoptMap(0, 0, false, base, 40*mib)
	a.AdoptMap(0, 0, false, base+100*mib, 20*mib)
	if err := judge(a, l); err != nil {
		t.Fatal(err)
	}
	for _, p := range layout(a) {
		if !p.Free || !p.Expandable || p.First != (p.Addr == base) {
			t.Errorf("%+v", p)
		}
	}
	if got := a.Reserved(); got != 60*mib {
		t.Errorf("%d bytes reserved", got)
	}
	// The two are apart by a hole of 60 MiB: 90 MiB fit in the first and the hole, by mapping 60 more.
	if err := a.Malloc(allocators.Request{Block: 1, Size: 90 * mib}); err != nil {
		t.Fatal(err)
	}
	if addr, size, _ := a.Block(1); addr != base || size != 90*mib || a.Reserved() != 120*mib {
		t.Errorf("block at %#x+%d, %d bytes reserved", addr, size, a.Reserved())
	}
	if err := judge(a, l); err != nil {
		t.Fatal(err)
	}
}

// TestLook: what the follower is told that a request would find is what the request finds.
func TestLook(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := setups(t)
		a := s.build(newBump(s.device.Capacity))
		for _, o := range ops(t, &s) {
			if _, _, ok := a.Block(o.block); o.kind != opMalloc || ok {
				o.apply(a)
				continue
			}
			r := allocators.Request{Block: o.block, Size: o.size, Stream: o.stream, Pool: o.pool}
			z := s.cfg.RoundSize(o.size)
			small := z <= config.SmallSize
			fit, size, fits := a.Fit(o.pool, o.stream, small, z)
			run, mapped, runs := a.Run(o.pool, o.stream, small, z)
			before, wrong := seen(a), fit+512
			if a.MallocCached(r, small, wrong) || seen(a) != before {
				t.Fatalf("%v was served at %#x, or changed something", o, wrong)
			}
			reserved := a.Reserved()
			var err error
			if roll(t, 2, "cached") == 1 && fits {
				if !a.MallocCached(r, small, fit) {
					t.Fatalf("%v was not served at %#x", o, fit)
				}
			} else {
				err = a.Malloc(r)
			}
			addr, got, _ := a.Block(o.block)
			switch {
			case fits && (addr != fit || got > size || a.Reserved() != reserved):
				t.Fatalf("%v: fits at %#x+%d, put at %#x+%d", o, fit, size, addr, got)
			case !fits && runs && err == nil && a.Config().Expandable && a.Detail().NumAllocRetries == 0 && len(s.lenders) == 0 && s.cfg.Limit < 0:
				if addr != run || mapped != (a.Reserved() == reserved) {
					t.Fatalf("%v: would begin at %#x (mapped %v), put at %#x", o, run, mapped, addr)
				}
			}
		}
	})
}

// TestPlan: what a flush is said to give back is what it gives back.
func TestPlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := setups(t)
		a := s.build(newBump(s.device.Capacity))
		play(a, ops(t, &s))
		for _, p := range layout(a) {
			if p.Pending {
				a.Complete(p.Number) // a plan does not wait
			}
		}
		var want, got []caching.Action
		for _, small := range []bool{false, true} {
			want = append(want, a.Plan(0, small)...)
		}
		a.SetHooks(caching.Hooks{Acted: func(x caching.Action) { got = append(got, x) }})
		for id := uint32(1); id < 4; id++ {
			if a.Retired(id) {
				return // whose turn it is comes after the default pool's, and is not in the plan
			}
		}
		a.EmptyCache()
		if !slices.Equal(got, want) {
			t.Fatalf("%v was planned, %v came", want, got)
		}
	})
}

// TestAdoptNonsense: blocks that cannot have been, from a file that contradicts itself, leave a valid state.
func TestAdoptNonsense(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newLedger(newBump(0))
		a := caching.New(l, caching.NewConfig(config.Default()))
		base := uint64(1 << 40)
		r := caching.Range{Addr: base, Size: 20 * mib}
		for n := range roll(t, 12, "blocks") {
			r.Blocks = append(r.Blocks, caching.Adopted{
				Number:    uint32(n),
				Addr:      base - 4*mib + uint64(roll(t, 28*mib, "at"))/512*512,
				Size:      choose(t, "size", 0, -512, 1<<62, int64(roll(t, 8*mib, "bytes"))),
				Requested: 1, Pending: roll(t, 2, "pending") == 1,
			})
		}
		l.segments[base] = r.Size
		a.AdoptSegment(r)
		for _, b := range r.Blocks {
			a.Free(b.Number, false)
			a.Complete(b.Number)
		}
		a.EmptyCache()
		if err := judge(a, l); err != nil || a.Reserved() != 0 {
			t.Fatalf("%v, %d bytes reserved, %v", err, a.Reserved(), r)
		}
	})
}
