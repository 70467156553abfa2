package fleettest

import (
	"encoding/binary"

	"github.com/vramscope/vramscope/allocators/caching/config"
	"github.com/vramscope/vramscope/trace"
)

// pickler writes plain data as Python does, protocol 2. Strings and stacks are written once and then referred to, as
// Python does with what is one object.
type pickler struct {
	b       []byte
	strings map[string]uint32
	stacks  map[trace.StackID]uint32
	next    uint32
}

// field is a member of a dict.
type field struct {
	name  string
	value any
}

func (p *pickler) put() uint32 {
	p.b = binary.LittleEndian.AppendUint32(append(p.b, 'r'), p.next)
	p.next++
	return p.next - 1
}

func (p *pickler) get(n uint32) { p.b = binary.LittleEndian.AppendUint32(append(p.b, 'j'), n) }

func (p *pickler) text(s string) {
	if n, ok := p.strings[s]; ok {
		p.get(n)
		return
	}
	p.b = binary.LittleEndian.AppendUint32(append(p.b, 'X'), uint32(len(s)))
	p.b = append(p.b, s...)
	p.strings[s] = p.put()
}

func (p *pickler) int(n int64) {
	if n >= 0 && n < 1<<31 {
		p.b = binary.LittleEndian.AppendUint32(append(p.b, 'J'), uint32(n))
		return
	}
	p.b = binary.LittleEndian.AppendUint64(append(p.b, 0x8a, 8), uint64(n))
}

func (p *pickler) value(v any) {
	switch v := v.(type) {
	case string:
		p.text(v)
	case int64:
		p.int(v)
	case bool:
		p.b = append(p.b, map[bool]byte{true: 0x88, false: 0x89}[v])
	case float64:
		panic("write it as an integer") // unreachable: nothing here has fractions
	case func():
		v()
	}
}

func (p *pickler) dict(fields ...field) {
	p.b = append(p.b, '}', '(')
	for _, f := range fields {
		p.text(f.name)
		p.value(f.value)
	}
	p.b = append(p.b, 'u')
}

func (p *pickler) list(n int, item func(i int)) {
	p.b = append(p.b, ']', '(')
	for i := range n {
		item(i)
	}
	p.b = append(p.b, 'e')
}

// pickled is a recording as a PyTorch snapshot.
func pickled(t *trace.Trace) []byte {
	p := &pickler{b: []byte{0x80, 2}, strings: map[string]uint32{}, stacks: map[trace.StackID]uint32{}}
	d := &t.Devices[0]
	frames := func(id trace.StackID) func() {
		return func() {
			if n, ok := p.stacks[id]; ok {
				p.get(n)
				return
			}
			stack := t.Stacks.Stack(id)
			p.list(len(stack), func(i int) {
				p.dict(field{"filename", stack[i].File}, field{"line", int64(stack[i].Line)}, field{"name", stack[i].Func})
			})
			p.stacks[id] = p.put()
		}
	}
	event := func(i int) {
		e := d.Events.At(i)
		fields := []field{{"action", e.Op.String()}, {"size", e.Size}, {"stream", int64(0)}, {"time_us", int64(e.Time) / 1000}, {"frames", frames(e.Stack)}}
		if e.Op == trace.OpOOM {
			fields = append(fields, field{"device_free", int64(e.Addr)})
		} else {
			fields = append(fields, field{"addr", int64(e.Addr)})
		}
		p.dict(fields...)
	}
	blocks := d.Final.Blocks
	segment := func(i int) {
		s := d.Final.Segments[i]
		n := 0
		for n < len(blocks) && blocks[n].Addr < s.Addr+uint64(s.Size) {
			n++
		}
		own := blocks[:n]
		blocks = blocks[n:]
		kind := "large"
		if s.Size == config.SmallSegment {
			kind = "small"
		}
		p.dict(field{"device", int64(0)}, field{"address", int64(s.Addr)}, field{"total_size", s.Size}, field{"stream", int64(0)}, field{"segment_type", kind},
			field{"segment_pool_id", func() { p.b = append(p.b, 'K', 0, 'K', 0, 0x86) }}, field{"is_expandable", s.Expandable},
			field{"frames", func() { p.list(0, nil) }}, field{"blocks", func() {
				p.list(len(own), func(i int) {
					b := own[i]
					state := "inactive"
					if b.State == trace.BlockLive {
						state = "active_allocated"
					}
					p.dict(field{"address", int64(b.Addr)}, field{"size", b.Size}, field{"requested_size", b.Requested}, field{"state", state}, field{"frames", frames(b.Stack)})
				})
			}})
	}
	marker := func(i int) {
		m := t.Markers[i]
		stage := map[trace.Edge]string{trace.EdgeStart: "START", trace.EdgeEnd: "END"}[m.Edge]
		p.dict(field{"device", int64(0)}, field{"name", m.Name}, field{"stage", stage}, field{"time_us", int64(m.Time) / 1000})
	}
	p.dict(
		field{"segments", func() { p.list(len(d.Final.Segments), segment) }},
		field{"device_traces", func() { p.list(1, func(int) { p.list(d.Events.Len(), event) }) }},
		field{"allocator_settings", func() {
			p.dict(field{"PYTORCH_CUDA_ALLOC_CONF", t.Settings.Conf}, field{"max_split_size", func() { p.b = append(p.b, 0x8a, 1, 0xff) }},
				field{"garbage_collection_threshold", func() { p.b = append(append(p.b, 'G'), make([]byte, 8)...) }},
				field{"expandable_segments", t.Settings.Expandable})
		}},
		field{"external_annotations", func() { p.list(len(t.Markers), marker) }},
	)
	return append(p.b, '.')
}
