package tables

import (
	"io"
	"slices"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// Columns are decoded a page at a time, and read row by row next to each other. Pages of the columns of a
// table need not end at the same row.

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
