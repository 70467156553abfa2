// Package parquet is the tool's own columnar form of a trace: it writes a trace and reads it back, and nothing
// is lost on the way. docs/format/parquet.md describes it for those who query it with other programs.
//
// A trace is one table. A row is an event, or one of the other things of which there may be many: segments,
// blocks, groups of blocks, frames of stacks, markers, samples. The column record says which, and the columns that
// do not concern a kind of row are null in it. What is said once of the trace or of a device is a JSON document in
// the file's metadata, see description.
//
// One table rather than seven has reasons. One file can hold it, so that a trace stays one file. A data set of
// many traces is the same table once more, partitioned, so that every query on a file is one on a data set. A null
// column takes some tens of bytes in a row group, however many rows that has.
//
// The rows of a kind follow one another, in the order of kinds; within a kind they are in the order of devices,
// then of what is beside devices, and within those in the order of the trace. The description says how many there
// are of each, and a reader tells by the position of a row what it belongs to. So the columns fall in two classes:
// those that a trace is read back from, and those that only spare a query a join (event, stream, pool, …).
package parquet

import "github.com/vramscope/vramscope/trace"

// kind is what a row is.
type kind uint8

// The kinds, in the order of a file.
const (
	kindEvent kind = iota
	kindSegment
	kindBlock
	kindGroup
	kindFrame
	kindMarker
	kindSample
	numKinds
)

var kindNames = [numKinds]string{"event", "segment", "block", "group", "frame", "marker", "sample"}

func (k kind) String() string { return kindNames[k] }

// The moments of which a trace has a state: before the first event, and when the file was written.
const (
	momentStart = "start"
	momentEnd   = "end"
)

// The classes of segments.
const (
	classSmall = "small"
	classLarge = "large"
)

var (
	stateNames = [...]string{trace.BlockFree: "free", trace.BlockLive: "live", trace.BlockPending: "pending"}
	edgeNames  = [...]string{trace.EdgePoint: "point", trace.EdgeStart: "start", trace.EdgeEnd: "end"}
)

// part is a run of rows of one kind that belong together.
type part struct {
	kind   kind
	rows   int64
	device *trace.Device // nil for frames and markers
	state  *trace.State  // of segments, blocks and groups
	series *trace.Series // of samples
	number int           // of the series
}

// layout is the order of a trace's rows, as many as the description says.
func layout(t *trace.Trace, d *description) []part {
	var parts []part
	for k := range numKinds {
		switch k {
		case kindFrame:
			parts = append(parts, part{kind: k, rows: d.FrameRows})
		case kindMarker:
			parts = append(parts, part{kind: k, rows: d.MarkerRows})
		default:
			for i := range t.Devices {
				parts = append(parts, partsOf(k, &t.Devices[i], &d.Devices[i])...)
			}
			for i := range t.Beside {
				parts = append(parts, partsOf(k, &t.Beside[i], &d.Beside[i])...)
			}
		}
	}
	return parts
}

// partsOf is what a device has of a kind.
func partsOf(k kind, d *trace.Device, said *describedDevice) []part {
	states := [...]struct {
		state *trace.State
		rows  *describedState
	}{{&d.Initial, &said.Start}, {&d.Final, &said.End}}
	var parts []part
	switch k {
	case kindEvent:
		parts = append(parts, part{kind: k, device: d, rows: said.Events})
	case kindSegment:
		for _, s := range states {
			parts = append(parts, part{kind: k, device: d, state: s.state, rows: s.rows.Segments})
		}
	case kindBlock:
		for _, s := range states {
			parts = append(parts, part{kind: k, device: d, state: s.state, rows: s.rows.Blocks})
		}
	case kindGroup:
		for _, s := range states {
			parts = append(parts, part{kind: k, device: d, state: s.state, rows: s.rows.Groups})
		}
	case kindSample:
		for i := range d.Series {
			parts = append(parts, part{kind: k, device: d, series: &d.Series[i], number: i, rows: said.Series[i].Points})
		}
	}
	return parts
}
