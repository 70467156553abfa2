package parquet

import (
	"fmt"

	"github.com/vramscope/vramscope/trace"
)

// check says what is wrong with a trace that no source gives. Whoever works with a trace relies on it that ids are
// in range, that sizes can be added, and that the life of a block is one: it is there at the start or is allocated,
// may wait for a stream, and goes, each once.
func check(t *trace.Trace) error {
	if t.Stacks == nil {
		return fmt.Errorf("it has no table of stacks")
	}
	if t.Source.Clock > trace.ClockNone {
		return fmt.Errorf("clock %d", t.Source.Clock)
	}
	for _, m := range t.Markers {
		if m.Edge > trace.EdgeEnd {
			return fmt.Errorf("edge %d of a marker", m.Edge)
		}
	}
	for _, list := range [...][]trace.Device{t.Devices, t.Beside} {
		for i := range list {
			d := checked{Device: &list[i], stacks: t.Stacks.Len()}
			if err := d.check(); err != nil {
				return fmt.Errorf("device %d: %w", list[i].Index, err)
			}
		}
	}
	return nil
}

type checked struct {
	*trace.Device
	stacks int
	life   []life // by block
}

// life is what a block has been through.
type life uint8

const (
	unborn life = iota
	live
	pending
	gone
)

func (d *checked) check() error {
	switch {
	case d.Content > trace.Samples:
		return fmt.Errorf("content %d", d.Content)
	case d.NumBlocks < 0 || d.NumBlocks > d.Events.Len()+len(d.Initial.Blocks)+len(d.Final.Blocks):
		return fmt.Errorf("%d blocks, more than it tells of", d.NumBlocks)
	case d.Missing.Frees < 0 || d.Missing.Completions < 0 || d.Missing.Frees > d.Events.Len()-d.Missing.Completions:
		return fmt.Errorf("more frees were put in than there are events")
	}
	d.life = make([]life, d.NumBlocks)
	for _, s := range [...]*trace.State{&d.Initial, &d.Final} {
		if err := d.state(s); err != nil {
			return err
		}
	}
	for i := range d.Initial.Blocks {
		b := &d.Initial.Blocks[i]
		if b.ID == trace.NoBlock || d.life[b.ID] != unborn {
			return fmt.Errorf("block %d is there twice at the start", b.ID)
		}
		switch b.State {
		case trace.BlockLive:
			d.life[b.ID] = live
		case trace.BlockPending:
			d.life[b.ID] = pending
		}
	}
	for i, e := range d.Events.All() {
		if err := d.event(e); err != nil {
			return fmt.Errorf("event %d: %w", i, err)
		}
	}
	for i := range d.Series {
		if q := d.Series[i].Quantity; q.String() == "unknown" {
			return fmt.Errorf("a series of quantity %d", q)
		}
	}
	return nil
}

// place checks what events, segments and blocks have in common.
func (d *checked) place(addr uint64, size int64, block trace.BlockID, stack trace.StackID, stream trace.StreamID, pool trace.PoolID) error {
	switch {
	case !trace.Possible(addr, size):
		return fmt.Errorf("%d bytes at %#x, where no device has memory", size, addr)
	case block != trace.NoBlock && int(block) >= d.NumBlocks:
		return fmt.Errorf("block %d of %d", block, d.NumBlocks)
	case int(stack) >= d.stacks:
		return fmt.Errorf("stack %d of %d", stack, d.stacks)
	case int(stream) >= len(d.Streams) && stream != 0:
		return fmt.Errorf("stream %d of %d", stream, len(d.Streams))
	case pool != trace.PoolUnknown && int(pool) >= len(d.Pools) && pool != 0:
		return fmt.Errorf("pool %d of %d", pool, len(d.Pools))
	}
	return nil
}

func (d *checked) state(s *trace.State) error {
	for i := range s.Segments {
		x := &s.Segments[i]
		if err := d.place(x.Addr, x.Size, trace.NoBlock, x.Stack, x.Stream, x.Pool); err != nil {
			return fmt.Errorf("segment: %w", err)
		}
		if x.Small && !x.KindKnown {
			return fmt.Errorf("segment: it is small, and not known to be")
		}
	}
	for i := range s.Blocks {
		b := &s.Blocks[i]
		if err := d.place(b.Addr, b.Size, b.ID, b.Stack, b.Stream, trace.PoolUnknown); err != nil {
			return fmt.Errorf("block: %w", err)
		}
		if !trace.Possible(b.Addr, b.Requested) || b.State > trace.BlockPending {
			return fmt.Errorf("block: %d bytes requested, state %d", b.Requested, b.State)
		}
	}
	for _, g := range s.Groups {
		if int(g.Stack) >= d.stacks {
			return fmt.Errorf("group: stack %d of %d", g.Stack, d.stacks)
		}
	}
	return nil
}

func (d *checked) event(e *trace.Event) error {
	addr, size := e.Addr, e.Size
	if e.Op == trace.OpOOM {
		if size < 0 || size > trace.MaxAsked || addr > trace.MaxAsked {
			return fmt.Errorf("%d bytes refused with %d free", size, addr)
		}
		addr, size = 0, 0
	}
	if err := d.place(addr, size, e.Block, e.Stack, e.Stream, e.Pool); err != nil {
		return err
	}
	if e.Block == trace.NoBlock {
		if e.Op == trace.OpAlloc || e.Op == trace.OpNone || e.Op > trace.OpSnapshot {
			return fmt.Errorf("operation %d without a block", e.Op)
		}
		return nil
	}
	now, ok := d.life[e.Block], false
	switch e.Op {
	case trace.OpAlloc:
		ok, d.life[e.Block] = now == unborn, live
	case trace.OpFreeRequested:
		ok, d.life[e.Block] = now == live, pending
	case trace.OpFreeCompleted:
		ok, d.life[e.Block] = now == pending, gone
	case trace.OpFree:
		ok, d.life[e.Block] = now == live, gone
	}
	if !ok {
		return fmt.Errorf("%s of block %d, which cannot be then", e.Op, e.Block)
	}
	return nil
}
