package parquet

import (
	"fmt"
	"slices"

	"github.com/parquet-go/parquet-go"

	"github.com/vramscope/vramscope/trace"
)

// part writes the rows of a part. An error stays in the sheet.
func (s *sheet) part(p part) {
	s.record = parquet.ValueOf(p.kind.String())
	switch p.kind {
	case kindEvent:
		s.events(p.device)
	case kindSegment:
		for i := range p.state.Segments {
			s.segment(p, &p.state.Segments[i])
		}
	case kindBlock:
		for i := range p.state.Blocks {
			s.block(p, &p.state.Blocks[i])
		}
	case kindGroup:
		for i := range p.state.Groups {
			s.group(p, &p.state.Groups[i])
		}
	case kindFrame:
		s.allFrames()
	case kindMarker:
		for i := range s.trace.Markers {
			s.marker(&s.trace.Markers[i])
		}
	case kindSample:
		for i := range p.series.Points {
			s.sample(p, &p.series.Points[i])
		}
	}
}

// ofDevice are the values that a device's rows have again and again.
type ofDevice struct {
	*trace.Device
	index, memory parquet.Value
	streams       []parquet.Value // handles
	pools         []parquet.Value // names
}

func (s *sheet) ofDevice(d *trace.Device) *ofDevice {
	if s.device != nil && s.device.Device == d {
		return s.device
	}
	o := &ofDevice{Device: d, index: intValue(int64(d.Index))}
	for i := range s.trace.Beside {
		if d == &s.trace.Beside[i] {
			o.index, o.memory = parquet.Value{}, textValue(d.Name)
		}
	}
	for _, h := range d.Streams {
		o.streams = append(o.streams, intValue(int64(h)))
	}
	for i := range d.Pools {
		o.pools = append(o.pools, textValue(poolName(d, i)))
	}
	s.device = o
	return o
}

// poolName is what people call a pool.
func poolName(d *trace.Device, i int) string {
	if i < len(d.PoolInfo) && d.PoolInfo[i].Name != "" {
		return d.PoolInfo[i].Name
	}
	p := d.Pools[i]
	if p == (trace.Pool{}) {
		return "default"
	}
	return fmt.Sprintf("(%d,%d)", p[0], p[1])
}

func (s *sheet) owner(d *ofDevice) {
	s.set(colDevice, d.index)
	s.set(colMemory, d.memory)
}

func (s *sheet) stack(id trace.StackID) {
	if id != trace.NoStack {
		s.int(colStack, int64(id))
	}
}

func (s *sheet) stream(d *ofDevice, id trace.StreamID) {
	s.int(colStreamID, int64(id))
	if int(id) < len(d.streams) {
		s.set(colStream, d.streams[id])
	}
}

func (s *sheet) pool(d *ofDevice, id trace.PoolID) {
	if id != trace.PoolUnknown {
		s.int(colPoolID, int64(id))
		s.poolName(d, id)
	}
}

func (s *sheet) poolName(d *ofDevice, id trace.PoolID) {
	if int(id) < len(d.pools) {
		s.set(colPool, d.pools[id])
	}
}

func (s *sheet) events(device *trace.Device) {
	var ops [trace.OpSnapshot + 1]parquet.Value
	for i := range ops {
		ops[i] = textValue(trace.Op(i).String())
	}
	d := s.ofDevice(device)
	for i, e := range d.Events.All() {
		s.owner(d)
		s.int(colEvent, int64(i))
		s.int(colTime, int64(e.Time))
		s.set(colOp, ops[e.Op])
		switch {
		case e.Op != trace.OpOOM:
			s.int(colAddress, int64(e.Addr))
		case e.Addr != 0:
			s.int(colFree, int64(e.Addr))
		}
		s.int(colSize, e.Size)
		if e.Block != trace.NoBlock {
			s.int(colBlock, int64(e.Block))
		}
		s.stack(e.Stack)
		s.stream(d, e.Stream)
		s.pool(d, e.Pool)
		s.end()
	}
}

// moment begins a row of a state.
func (s *sheet) moment(p part) *ofDevice {
	d := s.ofDevice(p.device)
	s.owner(d)
	if p.state == &p.device.Initial {
		s.text(colMoment, momentStart)
	} else {
		s.text(colMoment, momentEnd)
	}
	return d
}

func (s *sheet) segment(p part, x *trace.Segment) {
	d := s.moment(p)
	s.int(colAddress, int64(x.Addr))
	s.int(colSize, x.Size)
	s.stream(d, x.Stream)
	s.pool(d, x.Pool)
	switch {
	case x.KindKnown && x.Small:
		s.text(colClass, classSmall)
	case x.KindKnown:
		s.text(colClass, classLarge)
	}
	s.set(colExpandable, parquet.BooleanValue(x.Expandable).Level(0, 1, 0))
	s.stack(x.Stack)
	s.end()
}

func (s *sheet) block(p part, b *trace.Block) {
	d := s.moment(p)
	if b.ID != trace.NoBlock {
		s.int(colBlock, int64(b.ID))
	}
	s.text(colState, stateNames[b.State])
	s.stream(d, b.Stream)
	s.int(colAddress, int64(b.Addr))
	if b.Size != 0 {
		s.int(colSize, b.Size)
	}
	s.int(colRequested, b.Requested)
	if x := segmentAt(p.state.Segments, b.Addr); x != nil {
		s.int(colSegment, int64(x.Addr))
		s.poolName(d, x.Pool)
	}
	s.stack(b.Stack)
	s.end()
}

// segmentAt is the segment at an address, nil if there is none.
func segmentAt(segments []trace.Segment, addr uint64) *trace.Segment {
	i, found := slices.BinarySearchFunc(segments, addr, func(x trace.Segment, a uint64) int {
		switch {
		case x.Addr < a:
			return -1
		case x.Addr > a:
			return 1
		}
		return 0
	})
	if !found {
		i--
	}
	if i < 0 || addr-segments[i].Addr >= uint64(segments[i].Size) {
		return nil
	}
	return &segments[i]
}

func (s *sheet) group(p part, g *trace.Group) {
	s.moment(p)
	s.text(colName, g.Kind)
	s.int(colSize, g.Bytes)
	s.int(colCount, g.Blocks)
	s.stack(g.Stack)
	s.end()
}

// allFrames writes the frames of all stacks, and then those that are in no stack.
func (s *sheet) allFrames() {
	stacks := s.trace.Stacks
	texts := make([][2]parquet.Value, stacks.NumFrames())
	for i := range texts {
		f := stacks.Frame(trace.FrameID(i))
		texts[i] = [2]parquet.Value{textValue(f.File), textValue(f.Func)}
	}
	frame := func(id trace.FrameID) {
		s.int(colFrame, int64(id))
		s.set(colFile, texts[id][0])
		s.set(colFunction, texts[id][1])
		s.int(colLine, int64(stacks.Frame(id).Line))
		s.end()
	}
	for id := range stacks.Len() {
		for depth, f := range stacks.Frames(trace.StackID(id)) {
			s.int(colStack, int64(id))
			s.int(colDepth, int64(depth))
			frame(f)
		}
	}
	for _, f := range unused(stacks) {
		frame(f)
	}
}

func (s *sheet) marker(m *trace.Marker) {
	if m.Device != -1 {
		s.int(colDevice, int64(m.Device))
	}
	s.int(colTime, int64(m.Time))
	s.text(colName, m.Name)
	s.text(colEdge, edgeNames[m.Edge])
	s.end()
}

func (s *sheet) sample(p part, x *trace.Point) {
	s.owner(s.ofDevice(p.device))
	s.int(colTime, int64(x.Time))
	s.int(colSeries, int64(p.number))
	s.text(colQuantity, p.series.Quantity.String())
	s.text(colUnit, p.series.Quantity.Unit())
	s.text(colName, p.series.Name)
	if p.series.PID != 0 {
		s.int(colPID, p.series.PID)
	}
	s.int(colLow, x.Low)
	s.int(colHigh, x.High)
	s.int(colValue, x.Last)
	s.end()
}
