package caching_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/vramscope/vramscope/allocators"
	"github.com/vramscope/vramscope/allocators/caching"
	"github.com/vramscope/vramscope/allocators/caching/config"
	"github.com/vramscope/vramscope/allocators/driver/sim"
)

const mib = 1 << 20

// roll draws a number below n, evenly: rapid's own draws prefer small ones, which suits values and not
// choices. It shrinks to 0.
func roll(t *rapid.T, n int, label string) int {
	u := rapid.Uint64().Draw(t, label) * 0x9e3779b97f4a7c15
	return int((u ^ u>>32) % uint64(n))
}

func choose[T any](t *rapid.T, label string, from ...T) T { return from[roll(t, len(from), label)] }

// A setup is an allocator in its surroundings.
type setup struct {
	cfg     caching.Config
	device  sim.Config
	lenders []uint32
	uncut   []uint32
	toggles bool // the script switches expandable segments
}

func (s setup) String() string {
	return fmt.Sprintf("%s, limit %d MiB, device total %d MiB, capacity %d MiB, addresses %d, lenders %v, uncut %v, legacy %v",
		s.cfg.Config.String(), s.cfg.Limit/mib, s.cfg.DeviceTotal/mib, s.device.Capacity/mib, s.device.Policy, s.lenders, s.uncut, s.cfg.LegacyDiv1)
}

// setups draws settings and devices of all kinds; nothing is as rare here as it is with people.
func setups(t *rapid.T) setup {
	c := config.Default()
	c.Expandable = roll(t, 2, "expandable") == 1
	c.LargeSegmentSize = choose[int64](t, "large segment", 20, 20, 20, 12, 32) * mib
	c.MaxNonSplitRounding = choose[int64](t, "rounding", 20, 20, 22, 40) * mib
	if split := choose[int64](t, "max split", 0, 0, 32, 33, 48); split > 0 {
		c.MaxSplitSize = split * mib
	}
	if roll(t, 4, "divided") == 1 {
		for i := range c.Roundup {
			c.Roundup[i] = choose(t, "divisions", 0, 1, 2, 4, 8)
		}
		c.LegacyDiv1 = roll(t, 2, "legacy") == 1
	}
	s := setup{cfg: caching.NewConfig(c)}
	switch roll(t, 4, "bound") {
	case 1:
		s.cfg.Limit = int64(roll(t, 300, "limit")) * mib
	case 2:
		s.cfg.Limit = int64(30<<20 + roll(t, 300<<20, "odd limit"))
		s.cfg.GCThreshold = choose(t, "threshold", 0.2, 0.5, 0.8)
	case 3:
		s.device.Capacity = int64(1+roll(t, 300, "capacity")) * mib
	}
	s.cfg.ThrowOnOOM = roll(t, 20, "throw") == 1
	s.cfg.DeviceTotal = choose[int64](t, "total", 0, 0, 50, 90, 4096) * mib
	switch roll(t, 12, "reserve less") {
	case 1:
		s.cfg.ReserveFraction = 0.5
	case 2:
		s.cfg.ReserveBytes = 45 * mib
	}
	s.device.Policy = choose(t, "addresses", sim.Placed, sim.Descending, sim.Ascending)
	for id := uint32(1); id < 4; id++ {
		switch roll(t, 6, "pool") {
		case 1:
			s.lenders = append(s.lenders, id)
		case 2:
			s.uncut = append(s.uncut, id)
		}
	}
	s.toggles = roll(t, 3, "toggles") == 1
	return s
}

type opKind int

const (
	opMalloc opKind = iota
	opFree
	opFreePending
	opComplete
	opEmptyCache
	opRetire
	opReleasePool
	opSwitch
)

type op struct {
	kind   opKind
	block  uint32
	size   int64
	stream uint32
	pool   uint32
}

func (o op) String() string {
	switch o.kind {
	case opMalloc:
		return fmt.Sprintf("malloc %d %d stream=%d pool=%d", o.block, o.size, o.stream, o.pool)
	case opEmptyCache:
		return "empty-cache"
	case opRetire, opReleasePool:
		return fmt.Sprintf("%s %d", map[opKind]string{opRetire: "retire", opReleasePool: "release-pool"}[o.kind], o.pool)
	case opSwitch:
		return "switch expandable segments"
	}
	return fmt.Sprintf("%s %d", map[opKind]string{opFree: "free", opFreePending: "free-pending", opComplete: "complete"}[o.kind], o.block)
}

// drawSize draws a size, often one that a rule turns at.
func drawSize(t *rapid.T, cfg *caching.Config, earlier []int64) int64 {
	near := func(n int64) int64 { return max(1, n+choose[int64](t, "off", 0, 0, -1, 1, -512, 512, -mib, mib)) }
	switch roll(t, 7, "shape") {
	case 0:
		return rapid.Int64Range(1, 5000).Draw(t, "tiny")
	case 1:
		return rapid.Int64Range(1, mib).Draw(t, "small")
	case 2:
		return near(choose[int64](t, "boundary", 512, 4096, mib, 2*mib, 10*mib, 19*mib, 20*mib))
	case 3:
		if cfg.MaxSplitSize != config.Unlimited {
			return near(cfg.MaxSplitSize + choose(t, "beyond", 0, 0, cfg.MaxNonSplitRounding, 5*mib, 12*mib))
		}
		return near(cfg.LargeSegmentSize)
	case 4:
		if len(earlier) > 0 {
			return near(earlier[roll(t, len(earlier), "like")])
		}
		return 3 * mib
	case 5:
		return int64(1+roll(t, 80, "MiB")) * mib
	}
	return mib + int64(roll(t, 30*mib, "large"))
}

// ops draws a script. Block numbers are used again.
func ops(t *rapid.T, s *setup) []op {
	var (
		list          []op
		live, pending []uint32
		unused        []uint32
		next          uint32
		sizes         []int64
		streams       = 1 + roll(t, 3, "streams")
		pools         = 1 + roll(t, 4, "pools")
	)
	take := func(from *[]uint32) uint32 {
		i := roll(t, len(*from), "which")
		b := (*from)[i]
		*from = slices.Delete(*from, i, i+1)
		return b
	}
	for range choose(t, "operations", 10, 40, 160) {
		o := op{}
		switch k := roll(t, 80, "kind"); {
		case k < 40 || len(live) == 0 && k < 68:
			o = op{kind: opMalloc, size: drawSize(t, &s.cfg, sizes), block: next}
			o.stream = uint32(roll(t, streams, "stream"))
			o.pool = uint32(roll(t, pools, "of pool"))
			if len(unused) > 0 && roll(t, 2, "again") == 1 {
				o.block = take(&unused)
			} else {
				next++
			}
			sizes = append(sizes, o.size)
			live = append(live, o.block)
		case k < 62:
			o = op{kind: opFree, block: take(&live)}
			unused = append(unused, o.block)
		case k < 68:
			o = op{kind: opFreePending, block: take(&live)}
			pending = append(pending, o.block)
		case k < 74 && len(pending) > 0:
			o = op{kind: opComplete, block: take(&pending)}
			unused = append(unused, o.block)
		case k == 75 && pools > 1:
			o = op{kind: choose(t, "at once", opRetire, opReleasePool), pool: uint32(1 + roll(t, pools-1, "of pool"))}
		case k < 80 && k > 75 && s.toggles:
			o.kind = opSwitch
		case k < 79:
			continue
		default:
			o.kind = opEmptyCache
		}
		list = append(list, o)
	}
	return list
}

// TestDiffer lets the model and the plain model run the same scripts over two devices that are alike, and
// compares all that can be seen of them.
func TestDiffer(t *testing.T) {
	rounds := 10 // of as many scripts as rapid makes
	if testing.Short() {
		rounds = 1
	}
	for i := range rounds {
		t.Run(fmt.Sprint(i), rapid.MakeCheck(func(t *rapid.T) {
			s := setups(t)
			list := ops(t, &s)
			if err := differ(s, list); err != nil {
				t.Fatalf("%v\n%v\n%s", err, s, text(list))
			}
		}))
	}
}

func text(list []op) string {
	var b strings.Builder
	for _, o := range list {
		fmt.Fprintln(&b, o)
	}
	return b.String()
}

func differ(s setup, list []op) error {
	var log []caching.Action
	driver, other := sim.New(s.device), sim.New(s.device)
	a, m := caching.New(driver, s.cfg), newPlain(other, s.cfg)
	a.SetHooks(caching.Hooks{Acted: func(x caching.Action) { log = append(log, x) }})
	for _, id := range s.lenders {
		a.Lend(id)
		m.lenders = append(m.lenders, id)
	}
	for _, id := range s.uncut {
		a.KeepWhole(id)
		m.uncut[id] = true
	}
	for i, o := range list {
		var got, want error
		switch o.kind {
		case opMalloc:
			if _, _, ok := a.Block(o.block); ok {
				continue // its last free is pending still, or was left out
			}
			r := allocators.Request{Block: o.block, Size: o.size, Stream: o.stream, Pool: o.pool}
			got, want = a.Malloc(r), m.malloc(r)
		case opFree, opFreePending:
			a.Free(o.block, o.kind == opFreePending)
			m.free(o.block, o.kind == opFreePending)
		case opComplete:
			a.Complete(o.block)
			m.complete(o.block)
		case opEmptyCache:
			a.EmptyCache()
			m.flush()
		case opRetire:
			a.Retire(o.pool)
			m.retire(o.pool)
		case opReleasePool:
			a.ReleasePool(o.pool)
			m.releasePool(o.pool)
		case opSwitch:
			m.expandable = !m.expandable
			a.SetExpandable(m.expandable)
		}
		if err := same(a, m, o, got, want); err != nil {
			return fmt.Errorf("operation %d, %v: %w", i, o, err)
		}
		if !slices.Equal(m.log, log) {
			return fmt.Errorf("operation %d, %v: memory taken and given back (- plain, + model):\n%s", i, o, cmp.Diff(m.log, log))
		}
		log, m.log = log[:0], m.log[:0]
	}
	if driver.Faults() != 0 || driver.Used() != a.Reserved() {
		return fmt.Errorf("%d faulty calls of the driver, which has %d bytes in use; %d are reserved", driver.Faults(), driver.Used(), a.Reserved())
	}
	return nil
}

// same compares the two after an operation.
func same(a *caching.Allocator, m *plain, o op, got, want error) error {
	var x, y allocators.OOM
	if p := (*allocators.OOM)(nil); errors.As(got, &p) {
		x = *p
	}
	if p := (*allocators.OOM)(nil); errors.As(want, &p) {
		y = *p
	}
	if (got == nil) != (want == nil) || x != y {
		return fmt.Errorf("model: %v, plain: %v", got, want)
	}
	addr, size, ok := a.Block(o.block)
	if b, there := m.block(o.block); there != ok || there && (b.addr != addr || b.part.size != size) {
		return fmt.Errorf("block at %#x+%d (%v), plain has %v", addr, size, ok, b.part)
	}
	if x, y := m.detail(), a.Detail(); x != y {
		return fmt.Errorf("statistics (- plain, + model):\n%s", cmp.Diff(x, y))
	}
	if x, y := m.fragmentation(), a.Fragmentation(); x != y {
		return fmt.Errorf("fragmentation (- plain, + model):\n%s", cmp.Diff(x, y))
	}
	if x, y := m.seen.atPeak, a.Stats().AtPeak; x != y {
		return fmt.Errorf("fragmentation at the peak (- plain, + model):\n%s", cmp.Diff(x, y))
	}
	return nil
}
