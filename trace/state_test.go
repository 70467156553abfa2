package trace

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func ev(op Op, addr uint64, size int64, time Time) Event {
	return Event{Op: op, Addr: addr, Size: size, Time: time, Block: NoBlock, Pool: PoolUnknown}
}

func TestAddrTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table, model := newAddrTable(), map[uint64]BlockID{}
		table.slots = make([]liveBlock, 4) // grows and wraps soon
		for i := range rapid.IntRange(0, 300).Draw(t, "steps") {
			addr := rapid.Uint64Range(0, 40).Draw(t, "addr") * 512
			if rapid.Bool().Draw(t, "insert") {
				s, ok := table.insert(addr)
				if _, want := model[addr]; ok != want {
					t.Fatalf("insert %d: %v", addr, ok)
				}
				*s = liveBlock{addr: addr, id: BlockID(i), state: BlockLive}
				model[addr] = BlockID(i)
			} else if s := table.find(addr); s != nil {
				table.remove(s)
				delete(model, addr)
			}
			if table.n != len(model) {
				t.Fatalf("%d entries, want %d", table.n, len(model))
			}
			for a := range uint64(41) {
				s := table.find(a * 512)
				id, ok := model[a*512]
				if (s != nil) != ok || s != nil && s.id != id {
					t.Fatalf("find %d: %+v, want %d %v", a, s, id, ok)
				}
			}
		}
	})
}

func TestCutStale(t *testing.T) {
	const sec = Time(1e9)
	for _, c := range []struct {
		name  string
		times []Time // seconds
		want  []Time
		code  string
	}{
		{"in order", []Time{1, 2, 2, 3}, []Time{1, 2, 2, 3}, ""},
		{"no times", []Time{0, 0, 0}, []Time{0, 0, 0}, ""},
		{"one", []Time{5}, []Time{5}, ""},
		{"shrunk: stale behind everything", []Time{5, 6, 7, 1, 2}, []Time{5, 6, 7}, "time-runs-back"},
		{"shrunk: stale in front of the newest", []Time{5, 6, 1, 2, 7, 8}, []Time{5, 6, 7, 8}, "time-runs-back"},
		{"grown: the middle behind the newest", []Time{1, 2, 5, 6, 3, 4}, []Time{3, 4, 5, 6}, "time-runs-back"},
		{"mixed up", []Time{1, 9, 2, 8, 3, 7}, []Time{1, 9, 2, 8, 3, 7}, "time-runs-back"},
		{"parts that interleave", []Time{1, 3, 5, 2, 4, 6}, []Time{1, 3, 5, 2, 4, 6}, "time-runs-back"},
	} {
		var d Device
		for _, s := range c.times {
			d.Events.Append(ev(OpAlloc, 0, 0, s*sec))
		}
		CutStale(&d)
		var got []Time
		for _, e := range d.Events.All() {
			got = append(got, e.Time/sec)
		}
		code := ""
		if len(d.Warnings) > 0 {
			code = d.Warnings[0].Code
		}
		if !slices.Equal(got, c.want) || code != c.code {
			t.Errorf("%s: got %v %q, want %v %q", c.name, got, code, c.want, c.code)
		}
	}
	var d Device
	for _, us := range []Time{100, 101, 99, 102} { // clocks are not that exact
		d.Events.Append(ev(OpAlloc, 0, 0, us*1000))
	}
	if CutStale(&d); len(d.Warnings) > 0 {
		t.Errorf("jitter: %v", d.Warnings)
	}
}

// memory plays an allocator that takes memory, hands it out and gives it back at random, and records it.
type memory struct {
	segments map[uint64]bool // 16 classic segments of 4 KiB, by address
	pages    map[uint64]bool // 16 pages of 1 KiB of an expandable segment
	blocks   map[uint64]BlockState
	events   []Event
}

const (
	classicBase, classicSize = uint64(1 << 20), int64(4096)
	pageBase, pageBytes      = uint64(1 << 30), int64(1024)
)

func (m *memory) step(t *rapid.T) {
	i := rapid.Uint64Range(0, 15).Draw(t, "i")
	record := func(op Op, addr uint64, size int64) {
		m.events = append(m.events, ev(op, addr, size, Time(len(m.events))))
	}
	switch rapid.IntRange(0, 3).Draw(t, "what") {
	case 0:
		addr := classicBase + i*uint64(classicSize)
		switch {
		case !m.segments[addr]:
			m.segments[addr] = true
			record(OpSegmentAlloc, addr, classicSize)
		case m.empty(addr, classicSize):
			delete(m.segments, addr)
			record(OpSegmentFree, addr, classicSize)
		}
	case 1: // several pages in one go, all mapped or all not
		addr := pageBase + i*uint64(pageBytes)
		mapped, n := m.pages[addr], int64(0)
		for k := range rapid.Uint64Range(1, 4).Draw(t, "pages") {
			a := addr + k*uint64(pageBytes)
			if i+k > 15 || m.pages[a] != mapped || mapped && !m.empty(a, pageBytes) {
				break
			}
			n++
		}
		if n == 0 {
			return
		}
		for k := range n {
			if a := addr + uint64(k*pageBytes); mapped {
				delete(m.pages, a)
			} else {
				m.pages[a] = true
			}
		}
		op := OpSegmentMap
		if mapped {
			op = OpSegmentUnmap
		}
		record(op, addr, n*pageBytes)
	default: // every block has 512 bytes of one segment or page
		addr := classicBase + i*uint64(classicSize) + 512*rapid.Uint64Range(0, 7).Draw(t, "at")
		held := m.segments[classicBase+i*uint64(classicSize)]
		if rapid.Bool().Draw(t, "expandable") {
			addr = pageBase + i*uint64(pageBytes) + 512*rapid.Uint64Range(0, 1).Draw(t, "half")
			held = m.pages[pageBase+i*uint64(pageBytes)]
		}
		switch state, used := m.blocks[addr]; {
		case !held:
		case !used:
			m.blocks[addr] = BlockLive
			record(OpAlloc, addr, 500)
		case state == BlockLive:
			m.blocks[addr] = BlockPending
			record(OpFreeRequested, addr, 500)
		default:
			delete(m.blocks, addr)
			record(OpFreeCompleted, addr, 500)
		}
	}
}

func (m *memory) empty(addr uint64, n int64) bool {
	for a := range m.blocks {
		if a >= addr && a < addr+uint64(n) {
			return false
		}
	}
	return true
}

// state is what the memory holds, in the form of a final state without its free blocks.
func (m *memory) state() State {
	var s State
	for a := range m.segments {
		s.Segments = append(s.Segments, Segment{Addr: a, Size: classicSize, Pool: 1, KindKnown: true})
	}
	byAddr := func(x, y Segment) int { return int(int64(x.Addr) - int64(y.Addr)) }
	slices.SortFunc(s.Segments, byAddr)
	for i := range uint64(16) {
		a := pageBase + i*uint64(pageBytes)
		if !m.pages[a] {
			continue
		}
		if n := len(s.Segments); n > 0 && s.Segments[n-1].Expandable && s.Segments[n-1].Addr+uint64(s.Segments[n-1].Size) == a {
			s.Segments[n-1].Size += pageBytes
			continue
		}
		s.Segments = append(s.Segments, Segment{Addr: a, Size: pageBytes, Pool: 2, KindKnown: true, Expandable: true})
	}
	for a, st := range m.blocks {
		s.Blocks = append(s.Blocks, Block{ID: NoBlock, Addr: a, Size: 512, Requested: 500, State: st})
	}
	slices.SortFunc(s.Blocks, func(x, y Block) int { return int(int64(x.Addr) - int64(y.Addr)) })
	return s
}

// Whatever happened before a recording began, the state then is found from what was recorded and the end.
func TestRewindAndPair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := memory{segments: map[uint64]bool{}, pages: map[uint64]bool{}, blocks: map[uint64]BlockState{}}
		for range rapid.IntRange(0, 200).Draw(t, "before") {
			m.step(t)
		}
		m.events = nil
		start := m.state()
		for range rapid.IntRange(0, 200).Draw(t, "after") {
			m.step(t)
		}
		// One whole life, so that the recording does not look as if it had half of the frees only.
		const spare = classicBase + 100*uint64(classicSize)
		for i, op := range []Op{OpSegmentAlloc, OpAlloc, OpFreeRequested, OpFreeCompleted, OpSegmentFree} {
			m.events = append(m.events, ev(op, spare, 500, Time(len(m.events)+i)))
		}
		d := Device{Events: EventsOf(m.events...), Final: m.state(), HasFinal: true, Streams: []uint64{0}, Pools: make([]Pool, 3)}
		Rewind(&d)
		Pair(&d)

		got := d.Initial
		got.Segments, got.Blocks = slices.Clone(got.Segments), slices.Clone(got.Blocks)
		for i := range got.Segments { // what a file cannot tell
			s := &got.Segments[i]
			if s.Pool == PoolUnknown && !s.KindKnown {
				s.KindKnown, s.Pool = true, map[bool]PoolID{false: 1, true: 2}[s.Expandable]
			}
		}
		ids := map[BlockID]bool{}
		for i := range got.Blocks {
			b := &got.Blocks[i]
			if int(b.ID) >= d.NumBlocks || ids[b.ID] {
				t.Fatalf("initial block with id %d", b.ID)
			}
			ids[b.ID] = true
			b.ID, b.Size = NoBlock, 512
		}
		if diff := cmp.Diff(start, got); diff != "" {
			t.Fatalf("state before the first event (-want +got):\n%s\n%v", diff, m.events)
		}
		live := map[uint64]BlockID{}
		for _, b := range d.Initial.Blocks {
			live[b.Addr] = b.ID
		}
		for i, e := range d.Events.All() {
			switch e.Op {
			case OpAlloc:
				if ids[e.Block] {
					t.Fatalf("event %d: id %d again", i, e.Block)
				}
				ids[e.Block] = true
				live[e.Addr] = e.Block
			case OpFreeRequested, OpFreeCompleted:
				if live[e.Addr] != e.Block {
					t.Fatalf("event %d: block %d, want %d", i, e.Block, live[e.Addr])
				}
			default:
				if e.Block != NoBlock {
					t.Fatalf("event %d: block %d", i, e.Block)
				}
			}
		}
		if len(ids) != d.NumBlocks {
			t.Fatalf("%d ids for %d blocks", d.NumBlocks, len(ids))
		}
		for _, b := range d.Final.Blocks {
			if b.ID != live[b.Addr] {
				t.Fatalf("final block %+v, want id %d", b, live[b.Addr])
			}
		}
		for _, w := range d.Warnings {
			if w.Code != "starts-in-mid-run" {
				t.Fatalf("%+v", w)
			}
		}
	})
}

// The pool of a segment that is still held is told to the event that brought this incarnation of it.
func TestPoolsByIncarnation(t *testing.T) {
	d := Device{HasFinal: true, Streams: []uint64{0}, Pools: make([]Pool, 2),
		Events: EventsOf(
			ev(OpSegmentAlloc, 4096, 4096, 1),
			ev(OpSegmentFree, 4096, 4096, 2),
			ev(OpSegmentAlloc, 4096, 4096, 3),
			ev(OpSegmentMap, 1<<20, 3<<10, 4),
			ev(OpSegmentUnmap, 1<<20, 1<<10, 5),
			ev(OpSegmentMap, 1<<20, 1<<10, 6),
			ev(OpSegmentMap, 2<<20, 1<<10, 7),
			ev(OpSegmentUnmap, 2<<20, 1<<10, 8)),
		Final: State{Segments: []Segment{{Addr: 4096, Size: 4096, Pool: 1}, {Addr: 1 << 20, Size: 3 << 10, Pool: 1, Expandable: true}}},
	}
	Rewind(&d)
	var got []PoolID
	for _, e := range d.Events.All() {
		got = append(got, e.Pool)
	}
	want := []PoolID{PoolUnknown, PoolUnknown, 1, 1, PoolUnknown, 1, PoolUnknown, PoolUnknown}
	if !slices.Equal(got, want) || len(d.Initial.Segments) > 0 || len(d.Warnings) > 0 {
		t.Errorf("got %d, want %d; %v %v", got, want, d.Initial, d.Warnings)
	}
}

func TestStacks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := NewStacks()
		model := map[string]StackID{"": NoStack}
		for range rapid.IntRange(0, 300).Draw(t, "n") {
			var ids []FrameID
			key := ""
			for _, line := range rapid.SliceOfN(rapid.IntRange(0, 99), 0, 4).Draw(t, "stack") {
				f := Frame{File: "f", Func: "g", Line: line}
				ids = append(ids, s.AddFrame(f))
				key += string(rune('A' + line))
				if s.Frame(ids[len(ids)-1]) != f {
					t.Fatalf("frame %v", f)
				}
			}
			id := s.AddStack(ids)
			if want, ok := model[key]; ok && id != want || !ok && int(id) != len(model) {
				t.Fatalf("stack %q: id %d", key, id)
			}
			model[key] = id
			if !slices.Equal(s.Frames(id), ids) {
				t.Fatalf("stack %q: %v", key, s.Frames(id))
			}
		}
	})
}

func TestSplit(t *testing.T) {
	for _, lengths := range [][]int{{}, {5}, {30000}, {0, 30000}, {0, 9000, 0, 9000, 100, 11900}, {1, 8191, 8192, 1}, {30000, 0, 0}} {
		var l Events
		for i := range 30000 {
			l.Append(Event{Size: int64(i)})
		}
		parts, at := l.Split(lengths...), int64(0)
		if len(parts) != len(lengths) || l.Len() != 0 {
			t.Fatalf("%v: %d parts, %d left", lengths, len(parts), l.Len())
		}
		for p := range parts {
			n := 0
			for i, e := range parts[p].All() {
				if e.Size != at || i != n || parts[p].At(i) != e {
					t.Fatalf("%v: part %d, event %d is %d, want %d", lengths, p, i, e.Size, at)
				}
				at, n = at+1, n+1
			}
			if n != lengths[p] || n != parts[p].Len() {
				t.Fatalf("%v: part %d has %d", lengths, p, n)
			}
		}
	}
}

// Of blocks that no event allocated, only those count as older than the trace that can be.
func TestBlocksThatCannotBeOlder(t *testing.T) {
	d := Device{HasFinal: true, Streams: []uint64{0}, Pools: make([]Pool, 1),
		Events: EventsOf(
			ev(OpFreeCompleted, 4096, 1024, 1), // 0: older
			ev(OpFreeRequested, 4608, 512, 2),  // 1: in the way of 0, which was there
			ev(OpFreeCompleted, 4608, 512, 2),
			ev(OpAlloc, 6144, 512, 3), // 3
			ev(OpFreeRequested, 6144, 512, 4),
			ev(OpFreeCompleted, 6144, 512, 4),
			ev(OpFreeCompleted, 6144, 512, 5),   // 6: was allocated and freed before
			ev(OpFreeCompleted, 4096, 1024, 6),  // 7: the second at its address
			ev(OpFreeCompleted, 1<<20, 512, 7)), // 8: in no segment
		Final: State{
			Segments: []Segment{{Addr: 4096, Size: 4096}},
			Blocks:   []Block{{ID: NoBlock, Addr: 4096, Size: 3584}, {ID: NoBlock, State: BlockLive, Addr: 7680, Size: 512, Requested: 500}},
		},
	}
	Rewind(&d)
	Pair(&d)
	if len(d.Initial.Blocks) != 2 || d.Initial.Blocks[0].Addr != 4096 || d.Initial.Blocks[0].State != BlockPending ||
		d.Initial.Blocks[1].Addr != 7680 || d.Initial.Blocks[1].Size != 512 {
		t.Errorf("initial blocks %+v", d.Initial.Blocks)
	}
	var known []bool
	for _, e := range d.Events.All() {
		known = append(known, e.Block != NoBlock)
	}
	if want := []bool{true, false, false, true, true, true, false, false, false}; !slices.Equal(known, want) {
		t.Errorf("events with blocks %v, want %v", known, want)
	}
	if d.Final.Blocks[0].ID != NoBlock || d.Final.Blocks[1].ID != d.Initial.Blocks[1].ID {
		t.Errorf("final blocks %+v", d.Final.Blocks)
	}
	want := []Warning{{Code: "starts-in-mid-run", Count: 2, First: -1}, {Code: "free-without-alloc", Count: 4, First: 1}}
	for i := range d.Warnings {
		d.Warnings[i].Message = ""
	}
	if diff := cmp.Diff(want, d.Warnings); diff != "" {
		t.Error(diff)
	}
}

func TestSpans(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s spans
		var model [64]bool
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			from := rapid.Uint64Range(0, 63).Draw(t, "from")
			to := rapid.Uint64Range(0, 63).Draw(t, "to")
			add := rapid.Bool().Draw(t, "add")
			if add {
				s.add(from, to)
			} else {
				s.remove(from, to)
			}
			for a := from; a < to; a++ {
				model[a] = add
			}
			for a := range model {
				if s.holds(uint64(a)) != model[a] {
					t.Fatalf("address %d: %v in %v", a, !model[a], s.list)
				}
			}
		}
	})
}
