package parquet

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/trace"
	"github.com/vramscope/vramscope/trace/tables"
)

const again = "copy it again, or convert the recording again"

// Read reads a file that Write wrote.
func Read(in io.ReaderAt, size int64) (*trace.Trace, error) {
	f, err := tables.OpenFile(in, size, again)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	said, ok := f.Metadata(metadataKey)
	if !ok {
		return nil, foreign(f)
	}
	r, err := newReader(said)
	if err != nil {
		return nil, err
	}
	if _, ok := f.Kinds()["record"]; !ok {
		return nil, &trace.SyntaxError{Offset: -1, Err: trace.ErrUnrecognized,
			Msg: "is a part of a trace in a data set; give the folder in which the folders record=event, record=frame and so on are"}
	}
	if err := r.read(f, r.parts, true); err != nil {
		return nil, err
	}
	return r.finish()
}

// foreign is the answer to a file of another program.
func foreign(f *tables.File) error {
	kinds := f.Kinds()
	for _, column := range []string{"globalPid", "globalTid"} {
		if _, ok := kinds[column]; ok {
			return &trace.SyntaxError{Offset: -1, Err: trace.ErrUnrecognized, Msg: "is one table of an export of Nsight Systems; give the folder that it is in"}
		}
	}
	names := slices.Sorted(maps.Keys(kinds))
	const shown = 6
	what := "without columns of its own"
	if n := len(names); n > 0 {
		what = "with the columns " + strings.Join(names[:min(n, shown)], ", ")
		if n > shown {
			what += fmt.Sprintf(" and %d more", n-shown)
		}
	}
	what = strings.ToValidUTF8(strings.Join(strings.Fields(what), " "), "?")
	if len(what) > 200 {
		what = what[:200] + "…"
	}
	return &trace.SyntaxError{Offset: -1, Err: trace.ErrUnrecognized,
		Msg: "is a Parquet file of another program, " + what + "; give the folder that it is in, if that is an export of Nsight Systems; what vramscope convert wrote and another program rewrote without its metadata is not read"}
}

// reader puts rows together to a trace.
type reader struct {
	trace *trace.Trace
	said  *description
	parts []part

	bad    error // what is wrong with the row at hand
	names  map[string]string
	frames []trace.Frame
	known  []bool // by frame
	ids    []trace.FrameID
	starts []int // of stacks in ids; stack 0 is empty
}

func newReader(said string) (*reader, error) {
	d, err := parse(said)
	if err != nil {
		return nil, broken(err)
	}
	t, err := d.restore()
	if err != nil {
		return nil, broken(err)
	}
	return &reader{trace: t, said: d, parts: layout(t, d), names: map[string]string{}, starts: []int{0, 0}}, nil
}

func broken(err error) error {
	return trace.Corrupt(-1, "the Parquet file is damaged, or was changed (%s); %s", err, again)
}

// needed are the columns that a kind of rows is read back from.
var needed = [numKinds][]column{
	kindEvent:   {colTime, colOp, colAddress, colSize, colBlock, colStack, colFree, colStreamID, colPoolID},
	kindSegment: {colAddress, colSize, colStack, colClass, colExpandable, colStreamID, colPoolID},
	kindBlock:   {colAddress, colSize, colBlock, colStack, colState, colRequested, colStreamID},
	kindGroup:   {colSize, colStack, colCount, colName},
	kindFrame:   {colStack, colDepth, colFrame, colFile, colFunction, colLine},
	kindMarker:  {colDevice, colTime, colName, colEdge},
	kindSample:  {colTime, colLow, colHigh, colValue},
}

// isText are the columns of texts that are read.
func (c column) isText() bool {
	switch c {
	case colOp, colState, colClass, colFile, colFunction, colName, colEdge, colRecord:
		return true
	}
	return false
}

// read reads the rows of a file, which are those of the parts.
func (r *reader) read(f *tables.File, parts []part, several bool) error {
	kinds, names := f.Kinds(), columnNames()
	for k := range numKinds {
		for _, c := range needed[k] {
			if kind, ok := kinds[names[c]]; !ok || c.isText() != (kind == tables.Texts) || kind == tables.Others {
				return broken(fmt.Errorf("it has no column %s of the right type", names[c]))
			}
		}
	}
	if several && kinds["record"] != tables.Texts {
		return broken(errors.New("it has no column record of the right type"))
	}
	left := f.Rows()
	for _, p := range parts {
		if p.rows < 0 || p.rows > left {
			return broken(fmt.Errorf("its description tells of more rows than it has, which are %d", f.Rows()))
		}
		left -= p.rows
	}
	groups := f.Groups()
	for _, n := range groups {
		left += n
	}
	if left != f.Rows() {
		return broken(fmt.Errorf("it has %d rows, and its description or its row groups tell of others", f.Rows()))
	}
	c := cursor{reader: r, parts: parts}
	if several {
		c.record = int(colRecord)
	}
	for g, rows := range groups {
		if err := f.ScanGroup(g, c.columns(rows, &names, several), c.row); err != nil {
			return err
		}
	}
	return nil
}

// cursor is where the reader is among the parts.
type cursor struct {
	*reader
	parts  []part
	at     int
	done   int64 // rows of the part
	record int   // the column of the kind, 0 where there is none
}

// skip goes past parts that are done.
func (c *cursor) skip() {
	for c.at < len(c.parts) && c.done == c.parts[c.at].rows {
		c.at++
		c.done = 0
	}
}

// columns are the names of the columns that the next rows need, by column.
func (c *cursor) columns(rows int64, names *[numColumns]string, several bool) []string {
	list := make([]string, numColumns)
	rows += c.done
	for _, p := range c.parts[c.at:] {
		if rows <= 0 {
			break
		}
		rows -= p.rows
		if p.rows > 0 {
			for _, col := range needed[p.kind] {
				list[col] = names[col]
			}
		}
	}
	if several {
		list[colRecord] = names[colRecord]
	}
	return list
}

// row takes the next row. There is a part for it.
func (c *cursor) row(row tables.Row) error {
	c.skip()
	p := &c.parts[c.at]
	c.done++
	if c.record != 0 && string(row.Bytes(c.record)) != kindNames[p.kind] {
		return broken(fmt.Errorf("a row is of the kind %.20q where its description has %ss", row.Bytes(c.record), p.kind))
	}
	c.bad = nil
	r := rowOf{row, c.reader}
	switch p.kind {
	case kindEvent:
		p.device.Events.Append(r.event())
	case kindSegment:
		p.state.Segments = append(p.state.Segments, r.segment())
	case kindBlock:
		p.state.Blocks = append(p.state.Blocks, r.block())
	case kindGroup:
		p.state.Groups = append(p.state.Groups, trace.Group{Stack: r.stack(), Kind: r.text(colName), Bytes: r.int(colSize), Blocks: r.int(colCount)})
	case kindFrame:
		r.frame()
	case kindMarker:
		c.trace.Markers = append(c.trace.Markers, r.marker())
	case kindSample:
		p.series.Points = append(p.series.Points, trace.Point{Time: trace.Time(r.int(colTime)), Low: r.int(colLow), High: r.int(colHigh), Last: r.int(colValue)})
	}
	if c.bad != nil {
		return broken(fmt.Errorf("%s %d: %w", p.kind, c.done-1, c.bad))
	}
	return nil
}

// finish makes the table of stacks and looks at the whole.
func (r *reader) finish() (*trace.Trace, error) {
	if err := r.stacks(); err != nil {
		return nil, broken(err)
	}
	if err := check(r.trace); err != nil {
		return nil, broken(err)
	}
	return r.trace, nil
}
