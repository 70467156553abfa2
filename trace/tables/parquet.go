package tables

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"github.com/vramscope/vramscope/trace"
)

const (
	maxFooter   = 4 << 20  // bytes of a file's metadata
	usualHeader = 64 << 10 // bytes of a page's header, as far as it is looked at first
	maxHeader   = 4 << 20

	// Pages that are open at the same time, a page of each column, may take this much memory whatever the size of
	// the file, and this many times its size.
	freeHeld  = 128 << 20
	timesHeld = 16
)

// Folder is a folder of Parquet files, each a table that is called as the file is.
type Folder struct {
	dir    string
	tables map[string]*parquetTable // by name in lower case
	meter  meter
}

type parquetTable struct {
	name   string
	file   io.ReaderAt
	closer io.Closer // nil if the file is somebody else's
	size   int64
	pq     *parquet.File
	where  map[string]int // leaf columns by name in lower case
	leaves []leaf
	unpack unpacker

	maxFooter, maxRows int64
	held, maxHeld      int64                   // bytes of memory that pages take, and may take
	broken             func(what string) error // the error of a damaged file
}

// leaf is a column as the schema has it.
type leaf struct {
	name                     string
	kind                     format.Type
	optional, unsigned, list bool
}

// OpenFolder opens a folder. Files that are no Parquet are passed over unless they are named so.
func OpenFolder(dir string) (*Folder, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	f := &Folder{dir: dir, tables: map[string]*parquetTable{}}
	for _, e := range entries {
		stem, named := strings.CutSuffix(e.Name(), ".parquet")
		if !named || !e.Type().IsRegular() || len(f.tables) == maxTables {
			continue
		}
		f.tables[strings.ToLower(stem)] = &parquetTable{name: stem}
	}
	return f, nil
}

// Close lets go of the files.
func (f *Folder) Close() error {
	var all []error
	for _, t := range f.tables {
		t.unpack.close()
		if t.closer != nil {
			all = append(all, t.closer.Close())
		}
	}
	return errors.Join(all...)
}

// Size is the bytes of the tables that were looked at.
func (f *Folder) Size() int64 {
	n := int64(0)
	for _, t := range f.tables {
		n += t.size
	}
	return n
}

// Len is the number of tables.
func (f *Folder) Len() int { return len(f.tables) }

// Has says whether there is a table of this name.
func (f *Folder) Has(table string) bool { return f.tables[strings.ToLower(table)] != nil }

// Columns lists the columns of a table.
func (f *Folder) Columns(table string) ([]string, error) {
	t, err := f.open(table)
	if err != nil || t == nil {
		return nil, err
	}
	names := make([]string, 0, len(t.where))
	for n := range t.where {
		names = append(names, n)
	}
	slices.Sort(names)
	return names, nil
}

// open opens a table's file, once; nil without an error if there is none.
func (f *Folder) open(table string) (t *parquetTable, err error) {
	t = f.tables[strings.ToLower(table)]
	if t == nil || t.pq != nil {
		return t, nil
	}
	file, err := os.Open(filepath.Join(f.dir, t.name+".parquet"))
	if err != nil {
		return nil, err
	}
	t.file, t.closer = file, file
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	t.size, t.maxFooter, t.maxRows = info.Size(), maxFooter, info.Size()
	t.broken = func(what string) error {
		return trace.Corrupt(-1, "the table %s.parquet is damaged or cut off (%s); export the folder again", show(t.name), what)
	}
	return t, t.begin()
}

// begin reads the metadata.
func (t *parquetTable) begin() (err error) {
	defer t.rescue(&err)
	t.maxHeld = max(freeHeld, timesHeld*t.size)
	if err := t.checkFooter(); err != nil {
		return err
	}
	pq, err := parquet.OpenFile(t.file, t.size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true), parquet.ReadBufferSize(64<<10))
	if err != nil {
		return t.corrupt("%s", show(err.Error()))
	}
	if pq.NumRows() < 0 || pq.NumRows() > t.maxRows {
		return t.corrupt("%d rows in %d bytes", pq.NumRows(), t.size)
	}
	t.where = map[string]int{}
	for i, path := range pq.Schema().Columns() {
		l := leaf{}
		if len(path) == 1 {
			c, ok := pq.Schema().Lookup(path...)
			if !ok {
				return t.corrupt("%s", errThrift)
			}
			t.where[strings.ToLower(path[0])] = i
			l.name, l.kind = path[0], format.Type(c.Node.Type().Kind())
			l.optional, l.list = c.MaxDefinitionLevel == 1, c.MaxRepetitionLevel > 0 || c.MaxDefinitionLevel > 1
			if kind := c.Node.Type().LogicalType(); kind != nil {
				n, ok := kind.Value.(*format.IntType)
				l.unsigned = ok && !n.IsSigned
			}
		}
		t.leaves = append(t.leaves, l)
	}
	t.pq = pq
	return nil
}

func (t *parquetTable) corrupt(format string, args ...any) error {
	return t.broken(fmt.Sprintf(format, args...))
}

// rescue makes an error of a panic of the library, which is not made for damaged files.
func (t *parquetTable) rescue(err *error) {
	if p := recover(); p != nil {
		*err = t.corrupt("%s", show(fmt.Sprint(p)))
	}
}

// checkFooter looks at the metadata before the library believes it.
func (t *parquetTable) checkFooter() error {
	const ends = 4 + 8 // the magic in front; the length of the footer and the magic at the end
	if t.size < ends {
		return t.corrupt("%d bytes", t.size)
	}
	var tail [8]byte
	if _, err := t.file.ReadAt(tail[:], t.size-8); err != nil {
		return err
	}
	n := int64(binary.LittleEndian.Uint32(tail[:]))
	if string(tail[4:]) != "PAR1" || n > t.size-ends {
		return t.corrupt("it has no end")
	}
	if n > t.maxFooter {
		return t.corrupt("%d bytes of metadata", n)
	}
	footer := make([]byte, n)
	if _, err := t.file.ReadAt(footer, t.size-8-n); err != nil {
		return err
	}
	w := walker{data: footer}
	if err := w.fields(nil, nil); err != nil || w.elements > len(footer)/4+64 {
		return t.corrupt("%s", errThrift)
	}
	return nil
}

// Rows is the number of rows that the file says it has.
func (f *Folder) Rows(table string) int64 {
	t, err := f.open(table)
	if err != nil || t == nil {
		return 0
	}
	return t.pq.NumRows()
}

// Scan reads a table, a page of each column at a time.
func (f *Folder) Scan(table string, columns []string, each func(Row) error) (err error) {
	t, err := f.open(table)
	if err != nil || t == nil {
		return err
	}
	defer t.rescue(&err)
	row := t.row(columns)
	defer row.release()
	counted := func(r Row) error {
		f.meter.row()
		return each(r)
	}
	for group := range t.pq.RowGroups() {
		if err := t.scanGroup(group, row, counted); err != nil {
			return err
		}
	}
	return nil
}

// row is a row of the columns that the table has.
func (t *parquetTable) row(columns []string) *pageRow {
	row := &pageRow{columns: make([]*pageColumn, len(columns))}
	for i, c := range columns {
		if leaf, ok := t.where[strings.ToLower(c)]; ok {
			row.columns[i] = &pageColumn{table: t, leaf: leaf}
		}
	}
	return row
}

// scanGroup reads a row group.
func (t *parquetTable) scanGroup(group int, row *pageRow, each func(Row) error) error {
	for _, c := range row.columns {
		if c == nil {
			continue
		}
		if err := c.begin(group); err != nil {
			return err
		}
	}
	for range t.pq.Metadata().RowGroups[group].NumRows {
		for _, c := range row.columns {
			if c == nil {
				continue
			}
			if err := c.next(); err != nil {
				return err
			}
		}
		if err := each(row); err != nil {
			return err
		}
	}
	return nil
}
