package tables

import (
	"io"
	"math"

	"github.com/parquet-go/parquet-go/format"

	"github.com/vramscope/vramscope/trace"
)

// File is one Parquet file, read row group by row group.
type File struct {
	table   parquetTable
	columns map[int]*pageColumn // by leaf: they keep their memory from group to group
}

// IsParquet says whether a file that begins so is a Parquet file.
func IsParquet(head []byte) bool { return len(head) >= 4 && string(head[:4]) == "PAR1" }

const (
	maxFileFooter = 256 << 20 // bytes of a file's metadata; it is not packed

	// A file may have freeRows rows whatever its size, and timesRows for each byte. A row group of 131,072 rows that
	// are all alike takes 9 KB where there are 36 columns, which makes 14 rows a byte.
	freeRows  = 1 << 20
	timesRows = 16
)

// OpenFile opens a Parquet file of size bytes. again says what to do with one that is damaged.
func OpenFile(r io.ReaderAt, size int64, again string) (*File, error) {
	f := &File{columns: map[int]*pageColumn{},
		table: parquetTable{file: r, size: size, maxFooter: maxFileFooter, maxRows: freeRows + timesRows*min(size, math.MaxInt64>>8)}}
	f.table.broken = func(what string) error {
		return trace.Corrupt(-1, "the Parquet file is damaged or cut off (%s); %s", what, again)
	}
	return f, f.table.begin()
}

// Close lets go of what was needed to read, and not of the reader.
func (f *File) Close() { f.table.unpack.close() }

// Metadata is a text in the file's metadata.
func (f *File) Metadata(key string) (value string, ok bool) { return f.table.pq.Lookup(key) }

// Kind is what a column of a file has.
type Kind uint8

// The kinds of columns. Those of other kinds read as zero.
const (
	Numbers Kind = iota // integers and truth values
	Texts
	Others
)

// Kinds are the kinds of the columns that are not lists or structs, by name.
func (f *File) Kinds() map[string]Kind {
	kinds := map[string]Kind{}
	for _, l := range f.table.leaves {
		switch {
		case l.name == "":
		case l.list:
			kinds[l.name] = Others
		case l.kind == format.Int64, l.kind == format.Int32, l.kind == format.Boolean:
			kinds[l.name] = Numbers
		case l.kind == format.ByteArray:
			kinds[l.name] = Texts
		default:
			kinds[l.name] = Others
		}
	}
	return kinds
}

// Rows is the number of rows that the file says it has.
func (f *File) Rows() int64 { return f.table.pq.NumRows() }

// Groups are the rows of each row group.
func (f *File) Groups() []int64 {
	var rows []int64
	for _, g := range f.table.pq.Metadata().RowGroups {
		rows = append(rows, g.NumRows)
	}
	return rows
}

// ScanGroup reads a row group as Scan of a Set reads a table. A column without a name is null.
func (f *File) ScanGroup(group int, columns []string, each func(Row) error) (err error) {
	defer f.table.rescue(&err)
	row := f.table.row(columns)
	for i, c := range row.columns {
		switch {
		case c == nil:
		case f.columns[c.leaf] != nil:
			row.columns[i] = f.columns[c.leaf]
		default:
			f.columns[c.leaf] = c
		}
	}
	return f.table.scanGroup(group, row, each)
}
