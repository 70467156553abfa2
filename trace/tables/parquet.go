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
	maxFooter = 4 << 20  // bytes of a file's metadata
	maxPage   = 64 << 20 // bytes of a page; writers make them of one MiB
	maxHeader = 64 << 10 // bytes of a page's header
)

// Folder is a folder of Parquet files, each a table that is called as the file is.
type Folder struct {
	dir    string
	tables map[string]*parquetTable // by name in lower case
}

type parquetTable struct {
	name  string
	file  *os.File
	size  int64
	pq    *parquet.File
	where map[string]int // leaf columns by name in lower case
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
		if t.file != nil {
			all = append(all, t.file.Close())
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
	defer t.rescue(&err)
	if t.file, err = os.Open(filepath.Join(f.dir, t.name+".parquet")); err != nil {
		return nil, err
	}
	info, err := t.file.Stat()
	if err != nil {
		return nil, err
	}
	t.size = info.Size()
	if err := t.checkFooter(); err != nil {
		return nil, err
	}
	pq, err := parquet.OpenFile(t.file, t.size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true), parquet.ReadBufferSize(64<<10))
	if err != nil {
		return nil, t.corrupt("%s", show(err.Error()))
	}
	if pq.NumRows() > t.size {
		return nil, t.corrupt("%d rows in %d bytes", pq.NumRows(), t.size)
	}
	t.where = map[string]int{}
	for i, path := range pq.Schema().Columns() {
		if len(path) == 1 {
			t.where[strings.ToLower(path[0])] = i
		}
	}
	t.pq = pq
	return t, nil
}

func (t *parquetTable) corrupt(format string, args ...any) error {
	return trace.Corrupt(-1, "the table %s.parquet is damaged or cut off (%s); export the folder again", show(t.name), fmt.Sprintf(format, args...))
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
	if n > maxFooter {
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
	row := &pageRow{columns: make([]*pageColumn, len(columns))}
	for i, c := range columns {
		leaf, ok := t.where[strings.ToLower(c)]
		if !ok {
			continue
		}
		row.columns[i] = &pageColumn{table: t, leaf: leaf}
	}
	for _, group := range t.pq.RowGroups() {
		if err := t.scanGroup(group, row, each); err != nil {
			return err
		}
	}
	return nil
}

func (t *parquetTable) scanGroup(group parquet.RowGroup, row *pageRow, each func(Row) error) error {
	for _, c := range row.columns {
		if c == nil {
			continue
		}
		if err := c.begin(group); err != nil {
			return err
		}
		defer c.end()
	}
	for range group.NumRows() {
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

// pageRow is the row that the columns are at.
type pageRow struct {
	columns []*pageColumn // nil for those that the table lacks
}

func (r *pageRow) Int(column int) int64 {
	c := r.columns[column]
	if c == nil || c.at >= len(c.ints) {
		return 0
	}
	return c.ints[c.at]
}

func (r *pageRow) Bytes(column int) []byte {
	c := r.columns[column]
	if c == nil || c.at >= len(c.texts) {
		return nil
	}
	return c.texts[c.at]
}

func (r *pageRow) Text(column int) string { return string(r.Bytes(column)) }

func (r *pageRow) Null(column int) bool {
	c := r.columns[column]
	return c == nil || c.null[c.at]
}

// pageColumn is a column with one of its pages, decoded.
type pageColumn struct {
	table *parquetTable
	leaf  int
	rows  int64 // of the row group
	pages parquet.Pages

	unsigned bool
	page     parquet.Page // that the texts are of

	at    int
	null  []bool
	ints  []int64  // of a column of numbers
	texts [][]byte // of a column of texts
}

// begin opens the column's part of a row group.
func (c *pageColumn) begin(group parquet.RowGroup) error {
	chunks := group.ColumnChunks()
	if c.leaf >= len(chunks) {
		return c.table.corrupt("%s", errThrift)
	}
	c.rows = group.NumRows()
	if c.rows < 0 || c.rows > c.table.size {
		return c.table.corrupt("%d rows", c.rows)
	}
	chunk, ok := chunks[c.leaf].(*parquet.FileColumnChunk)
	if !ok {
		return c.table.corrupt("%s", errThrift)
	}
	if err := c.checkPages(group, c.leaf); err != nil {
		return err
	}
	if l := chunk.Type().LogicalType(); l != nil {
		i, ok := l.Value.(*format.IntType)
		c.unsigned = ok && !i.IsSigned
	}
	c.pages = chunk.Pages()
	c.at, c.null, c.ints, c.texts = 0, c.null[:0], c.ints[:0], c.texts[:0]
	return nil
}

func (c *pageColumn) end() {
	if c.page != nil {
		parquet.Release(c.page)
		c.page = nil
	}
	if c.pages != nil {
		c.pages.Close()
		c.pages = nil
	}
}

// checkPages walks over the headers of the pages before the library makes room for what they claim.
func (c *pageColumn) checkPages(group parquet.RowGroup, leaf int) error {
	t := c.table
	number := slices.IndexFunc(t.pq.RowGroups(), func(g parquet.RowGroup) bool { return g == group })
	meta := t.pq.Metadata().RowGroups[number].Columns[leaf].MetaData
	at := meta.DataPageOffset
	if meta.DictionaryPageOffset != 0 {
		at = meta.DictionaryPageOffset
	}
	end := at + meta.TotalCompressedSize
	if at < 0 || meta.TotalCompressedSize < 0 || at > t.size || end > t.size {
		return t.corrupt("a column outside the file")
	}
	buf := make([]byte, maxHeader)
	for at < end {
		n, err := t.file.ReadAt(buf[:min(maxHeader, end-at)], at)
		if n == 0 && err != nil {
			return err
		}
		h, err := readPageHeader(buf[:n])
		if err != nil || h.uncompressed > maxPage || h.values > max(c.rows, maxDictionary(h)) || h.compressed > end-at-int64(h.size) {
			return t.corrupt("a page that makes no sense at byte %d", at)
		}
		at += int64(h.size) + h.compressed
	}
	return nil
}

// maxDictionary is how many values a dictionary may have: each takes a byte at least.
func maxDictionary(h pageHeader) int64 {
	if h.kind == pageDictionary {
		return h.uncompressed
	}
	return 0
}

// next goes to the next row.
func (c *pageColumn) next() error {
	if c.at+1 < len(c.null) {
		c.at++
		return nil
	}
	for {
		if c.page != nil {
			parquet.Release(c.page)
			c.page = nil
		}
		page, err := c.pages.ReadPage()
		if err == io.EOF {
			return c.table.corrupt("fewer values than rows")
		}
		if err != nil {
			return c.table.corrupt("%s", show(err.Error()))
		}
		c.page = page
		if err := c.decode(page); err != nil {
			return err
		}
		if len(c.null) > 0 {
			c.at = 0
			return nil
		}
	}
}

// decode takes a page's values out.
func (c *pageColumn) decode(page parquet.Page) error {
	n := int(page.NumValues())
	if int64(n) > c.rows {
		return c.table.corrupt("more values than rows")
	}
	c.null = resize(c.null, n)
	levels := page.DefinitionLevels()
	if levels != nil && len(levels) != n || page.RepetitionLevels() != nil {
		return c.table.corrupt("a column of lists")
	}
	for i := range c.null {
		c.null[i] = levels != nil && levels[i] == 0
	}
	data, kind := page.Data(), page.Type().Kind()
	var index []int32
	dict := page.Dictionary()
	if dict != nil {
		index = data.Int32()
		data = dict.Page().Data()
	}
	c.ints, c.texts = c.ints[:0], c.texts[:0]
	switch kind {
	case parquet.Int64:
		c.ints = spread(c.ints, c.null, data.Int64(), index, dict != nil, func(v int64) int64 { return v })
	case parquet.Int32:
		c.ints = spread(c.ints, c.null, data.Int32(), index, dict != nil, func(v int32) int64 {
			if c.unsigned {
				return int64(uint32(v))
			}
			return int64(v)
		})
	case parquet.ByteArray:
		bytes, offsets := data.ByteArray()
		texts := make([][]byte, max(0, len(offsets)-1))
		for i := range texts {
			texts[i] = bytes[offsets[i]:offsets[i+1]]
		}
		c.texts = spread(c.texts, c.null, texts, index, dict != nil, func(v []byte) []byte { return v })
	default:
		return nil // a kind of column that no table here has: its values read as zero
	}
	if len(c.ints)+len(c.texts) != n {
		return c.table.corrupt("fewer values than rows")
	}
	return nil
}

// spread puts values where they are not null, through a dictionary if there is one. It stops where there are
// too few.
func spread[V, R any](out []R, null []bool, values []V, index []int32, indexed bool, convert func(V) R) []R {
	at := 0
	var zero R
	for _, isNull := range null {
		if isNull {
			out = append(out, zero)
			continue
		}
		i := at
		if indexed {
			if at >= len(index) {
				return out
			}
			i = int(index[at])
		}
		if i < 0 || i >= len(values) {
			return out
		}
		out = append(out, convert(values[i]))
		at++
	}
	return out
}

func resize(s []bool, n int) []bool { return slices.Grow(s[:0], n)[:n] }
