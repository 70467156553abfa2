package parquet

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"github.com/vramscope/vramscope/trace"
)

const (
	groupRows = 1 << 17 // rows of a row group: what engines split work by
	batchRows = 1 << 12 // rows that are collected before they go to the columns

	// A kind of rows begins a row group of its own, so that a query on another kind never looks at it, unless both
	// are so few that another row group costs more.
	fewRows = 1 << 13

	pageBytes       = 1 << 20 // of a page, before packing
	dictionaryBytes = 1 << 19 // a dictionary that grows beyond is given up
)

// Write writes a trace as one file.
func Write(w io.Writer, t *trace.Trace) error {
	d, parts, err := prepare(t)
	if err != nil {
		return err
	}
	return write(w, t, d, parts, true)
}

// prepare describes a trace and lays out its rows.
func prepare(t *trace.Trace) (description []byte, parts []part, err error) {
	if err := check(t); err != nil {
		return nil, nil, fmt.Errorf("the recording cannot be written as Parquet: %w", err)
	}
	d := describe(t)
	description, err = json.Marshal(d)
	return description, layout(t, d), err
}

// write writes some of the rows of a trace.
func write(w io.Writer, t *trace.Trace, description []byte, parts []part, several bool) error {
	s := newSheet(w, t, description, several)
	var before kind
	for _, p := range parts {
		if p.rows == 0 {
			continue
		}
		if p.kind != before && (s.inGroup > fewRows || rowsOf(p.kind, parts) > fewRows) {
			s.endGroup()
		}
		before = p.kind
		s.part(p)
	}
	return s.close()
}

// rowsOf is how many rows there are of a kind.
func rowsOf(k kind, parts []part) int64 {
	n := int64(0)
	for _, p := range parts {
		if p.kind == k {
			n += p.rows
		}
	}
	return n
}

// sheet puts rows into columns.
type sheet struct {
	trace   *trace.Trace
	file    *parquet.GenericWriter[any]
	columns [numColumns]*parquet.ColumnWriter // record may be missing
	batch   [numColumns][]parquet.Value
	rows    int // of the batch
	inGroup int
	record  parquet.Value
	nulls   []parquet.Value
	device  *ofDevice // that of the last row that had one
	err     error
}

func newSheet(w io.Writer, t *trace.Trace, description []byte, several bool) *sheet {
	s := &sheet{trace: t, nulls: make([]parquet.Value, batchRows)}
	options := []parquet.WriterOption{
		parquet.Compression(&zstd.Codec{}),
		parquet.CreatedBy("vramscope", "1.0.0", formatName),
		parquet.KeyValueMetadata(metadataKey, string(description)),
		parquet.DataPageVersion(1), // every engine reads it
		parquet.PageBufferSize(pageBytes),
		parquet.DictionaryMaxBytes(dictionaryBytes)}
	columns := schema(several)
	for _, c := range columns.Fields() {
		if c.Type().Kind() == parquet.ByteArray {
			// The header of a page would have its first and last text twice, however long they are.
			options = append(options, parquet.SkipPageStatistics(c.Name()))
		}
	}
	s.file = parquet.NewGenericWriter[any](w, append(options, columns)...)
	writers := s.file.ColumnWriters()
	first := len(writers) - int(colRecord)
	for c := range colRecord {
		s.columns[c] = writers[int(c)+first]
	}
	if several {
		s.columns[colRecord] = writers[0]
	}
	return s
}

// set gives the row its value in a column. A column that is not set is null.
func (s *sheet) set(c column, v parquet.Value) {
	b := s.batch[c]
	for len(b) < s.rows {
		b = append(b, parquet.Value{})
	}
	s.batch[c] = append(b, v)
}

func (s *sheet) int(c column, v int64) { s.set(c, intValue(v)) }

func (s *sheet) text(c column, v string) { s.set(c, textValue(v)) }

// intValue is a number in a column that may be null. The column itself knows its place in the file.
func intValue(v int64) parquet.Value { return parquet.Int64Value(v).Level(0, 1, 0) }

// textValue is a text in a column that may be null: null if there is none.
func textValue(v string) parquet.Value {
	if v == "" {
		return parquet.Value{}
	}
	return parquet.ValueOf(escape(v)).Level(0, 1, 0)
}

// end ends the row.
func (s *sheet) end() {
	s.set(colRecord, s.record)
	s.rows++
	s.inGroup++
	if s.rows == batchRows || s.inGroup == groupRows {
		s.flush()
	}
	if s.inGroup == groupRows {
		s.endGroup()
	}
}

// flush gives the batch to the columns.
func (s *sheet) flush() {
	for c, w := range s.columns {
		values := s.batch[c]
		s.batch[c] = values[:0]
		if w == nil || s.err != nil {
			continue
		}
		if len(values) == 0 {
			values = s.nulls[:s.rows]
		}
		for len(values) < s.rows {
			values = append(values, parquet.Value{})
		}
		_, s.err = w.WriteRowValues(values)
	}
	s.rows = 0
}

func (s *sheet) endGroup() {
	s.flush()
	if s.inGroup > 0 && s.err == nil {
		s.err = s.file.Flush()
	}
	s.inGroup = 0
}

func (s *sheet) close() error {
	s.endGroup()
	if s.err != nil {
		return s.err
	}
	return s.file.Close()
}
