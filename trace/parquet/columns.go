package parquet

import (
	"reflect"
	"strings"

	"github.com/parquet-go/parquet-go"
)

// row is the schema: its fields are the columns, in their order. Those that a trace is read back from have a
// star; the others are worked out from them.
type row struct {
	Device  int64  `parquet:"device,optional,dict"` // the ordinal, null for none (* of markers)
	Memory  string `parquet:"memory,optional,dict"` // what is beside devices: its kind
	Event   int64  `parquet:"event,optional,delta"` // number within the device
	Time    int64  `parquet:"time_ns,optional,delta"`
	Op      string `parquet:"op,optional,dict"`       // * trace.Op
	Address int64  `parquet:"address,optional,plain"` // * null for oom
	Size    int64  `parquet:"size_bytes,optional,dict"`
	Block   int64  `parquet:"block_id,optional,delta"`
	Stack   int64  `parquet:"stack_id,optional,dict"`
	Stream  int64  `parquet:"stream,optional,dict"` // the handle
	Pool    string `parquet:"pool,optional,dict"`
	Free    int64  `parquet:"device_free_bytes,optional,plain"` // * of oom

	Moment     string `parquet:"moment,optional,dict"` // start or end, of segments, blocks and groups
	State      string `parquet:"state,optional,dict"`  // * of blocks
	Requested  int64  `parquet:"requested_bytes,optional,dict"`
	Segment    int64  `parquet:"segment_address,optional,dict"` // of a block
	Class      string `parquet:"segment_class,optional,dict"`   // * small or large, null where not known
	Expandable bool   `parquet:"expandable,optional"`           // * of segments
	Count      int64  `parquet:"block_count,optional,plain"`    // * of groups

	Depth    int64  `parquet:"depth,optional,dict"`    // * 0 innermost
	Frame    int64  `parquet:"frame_id,optional,dict"` // *
	File     string `parquet:"file,optional,dict"`     // *
	Function string `parquet:"function,optional,dict"` // *
	Line     int64  `parquet:"line,optional,dict"`     // *

	Name string `parquet:"name,optional,dict"` // * of markers and groups; of series
	Edge string `parquet:"edge,optional,dict"` // * of markers

	Series   int64  `parquet:"series,optional,dict"`
	Quantity string `parquet:"quantity,optional,dict"`
	Unit     string `parquet:"unit,optional,dict"`
	PID      int64  `parquet:"pid,optional,dict"`
	Low      int64  `parquet:"low,optional,plain"`   // * of samples
	High     int64  `parquet:"high,optional,plain"`  // *
	Value    int64  `parquet:"value,optional,plain"` // *

	StreamID int64 `parquet:"stream_id,optional,dict"` // *
	PoolID   int64 `parquet:"pool_id,optional,dict"`   // * null where not known
}

// recordRow is a row of a file that has several kinds of them. In a data set the kind is in the path.
type recordRow struct {
	Record string `parquet:"record,dict"`
	row
}

// column numbers the fields of row, and the column record after them.
type column int

// The columns.
const (
	colDevice column = iota
	colMemory
	colEvent
	colTime
	colOp
	colAddress
	colSize
	colBlock
	colStack
	colStream
	colPool
	colFree
	colMoment
	colState
	colRequested
	colSegment
	colClass
	colExpandable
	colCount
	colDepth
	colFrame
	colFile
	colFunction
	colLine
	colName
	colEdge
	colSeries
	colQuantity
	colUnit
	colPID
	colLow
	colHigh
	colValue
	colStreamID
	colPoolID
	colRecord
	numColumns
)

// columnNames are the names in a file.
func columnNames() [numColumns]string {
	var names [numColumns]string
	t := reflect.TypeFor[row]()
	for i := range t.NumField() {
		names[i], _, _ = strings.Cut(t.Field(i).Tag.Get("parquet"), ",")
	}
	names[colRecord] = "record"
	return names
}

// schema is that of a file of several kinds of rows, or of one.
func schema(several bool) *parquet.Schema {
	if several {
		return parquet.NewSchema("trace", parquet.SchemaOf(recordRow{}))
	}
	return parquet.NewSchema("trace", parquet.SchemaOf(row{}))
}
