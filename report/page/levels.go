package page

import (
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/trace"
)

// packLevels adds what was reserved, as the states in which it changed and by how much, in bytes.
func packLevels(p *packing, prefix string, d *report.Device) {
	var states []uint32
	var changes []uint64
	state, reserved := 0, int64(0)
	d.Levels(func(l report.Level) {
		if l.Event < 0 || l.Reserved != reserved {
			states = append(states, uint32(l.Event+1-state))
			changes = append(changes, zigzag(l.Reserved-reserved))
			state, reserved = l.Event+1, l.Reserved
		}
	})
	if len(states) == 0 && d.End.Reserved > 0 { // nothing happened: there is one state
		states, changes = []uint32{0}, []uint64{zigzag(d.End.Reserved)}
	}
	add(p, prefix+"reserved/states", states)
	add(p, prefix+"reserved/bytes", changes)
}

// packUses adds what was in use and what was not, at some instants.
func packUses(p *packing, prefix string, d *report.Device) {
	if d.Trace.Content != trace.Decisions {
		return
	}
	n := len(d.Uses)
	for _, f := range []struct {
		name string
		of   func(*report.UsePoint) int64
	}{
		{"state", func(x *report.UsePoint) int64 { return int64(x.Event) + 1 }},
		{"reserved", func(x *report.UsePoint) int64 { return x.Reserved }},
		{"allocated", func(x *report.UsePoint) int64 { return x.Allocated }},
		{"pending", func(x *report.UsePoint) int64 { return x.Pending }},
		{"stranded", func(x *report.UsePoint) int64 { return x.Stranded }},
		{"cached", func(x *report.UsePoint) int64 { return x.Cached }},
		{"known", func(x *report.UsePoint) int64 {
			if x.Known {
				return 1
			}
			return 0
		}},
	} {
		list := make([]uint64, n)
		for i := range d.Uses {
			list[i] = uint64(max(0, f.of(&d.Uses[i])))
		}
		add(p, prefix+"use/"+f.name, list)
	}
}
