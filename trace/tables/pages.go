package tables

import (
	"bufio"
	"errors"
	"hash/crc32"
	"io"
	"slices"

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

// release gives back the room that the pages took.
func (r *pageRow) release() {
	for _, c := range r.columns {
		if c != nil {
			c.table.held -= c.held + c.heldDictionary
			c.held, c.heldDictionary = 0, 0
		}
	}
}

// pageColumn is a column with one of its pages, decoded.
type pageColumn struct {
	table *parquetTable
	leaf  int

	in             *bufio.Reader
	rest           int64 // bytes of the column's part of the row group that have not been read
	rows           int64 // of the row group that have not been decoded
	kind           format.Type
	codec          format.CompressionCodec
	optional       bool
	unsigned       bool
	packed, page   []byte // the bytes of a page, as in the file and unpacked
	dictionaryPage []byte
	held           int64 // bytes of memory that the column's pages take
	heldDictionary int64

	dictionaryInts  []int64
	dictionaryTexts [][]byte

	at      int
	null    []bool
	ints    []int64  // of a column of numbers
	texts   [][]byte // of a column of texts
	levels  []uint8  // 0 for null
	index   []uint32
	lengths []int64 // of texts
}

// begin opens the column's part of a row group.
func (c *pageColumn) begin(group int) error {
	t := c.table
	meta := t.pq.Metadata().RowGroups[group]
	if c.leaf >= len(meta.Columns) {
		return t.corrupt("%s", errThrift)
	}
	if t.leaves[c.leaf].list {
		return t.corrupt("a column of lists")
	}
	m := meta.Columns[c.leaf].MetaData
	if m.Type != t.leaves[c.leaf].kind {
		return t.corrupt("a column of two types")
	}
	c.rows = meta.NumRows
	if c.rows < 0 || c.rows > t.maxRows {
		return t.corrupt("%d rows", c.rows)
	}
	at := m.DataPageOffset
	if m.DictionaryPageOffset != 0 {
		at = min(at, m.DictionaryPageOffset)
	}
	c.rest = m.TotalCompressedSize
	if at < 0 || c.rest < 0 || at > t.size || c.rest > t.size-at {
		return t.corrupt("a column outside the file")
	}
	c.kind, c.codec = m.Type, m.Codec
	c.optional, c.unsigned = t.leaves[c.leaf].optional, t.leaves[c.leaf].unsigned
	section := io.NewSectionReader(t.file, at, c.rest)
	if window := int(min(usualHeader, c.rest)); c.in == nil || c.in.Size() < window {
		c.in = bufio.NewReaderSize(section, window)
	} else {
		c.in.Reset(section)
	}
	c.at, c.null, c.ints, c.texts = 0, c.null[:0], c.ints[:0], c.texts[:0]
	c.dictionaryInts, c.dictionaryTexts = c.dictionaryInts[:0], c.dictionaryTexts[:0]
	return nil
}

// next goes to the next row.
func (c *pageColumn) next() error {
	if c.at+1 < len(c.null) {
		c.at++
		return nil
	}
	c.null = c.null[:0]
	for len(c.null) == 0 {
		if err := c.readPage(); err != nil {
			var path interface{ Timeout() bool } // an error of the operating system
			if errors.As(err, &path) {
				return err
			}
			return c.table.corrupt("%s", show(err.Error()))
		}
	}
	c.at = 0
	return nil
}

// readPage reads the next page, whichever it is.
func (c *pageColumn) readPage() error {
	if c.rest == 0 {
		return errors.New("fewer values than rows")
	}
	h, err := c.readHeader()
	if err != nil {
		return err
	}
	c.rest -= int64(h.size)
	if h.compressed > c.rest {
		return errPage
	}
	c.rest -= h.compressed
	if _, err := c.in.Discard(h.size); err != nil {
		return err
	}
	c.packed = slices.Grow(c.packed[:0], int(h.compressed))[:h.compressed]
	if _, err := io.ReadFull(c.in, c.packed); err != nil {
		return err
	}
	if h.checksum != 0 && uint32(h.checksum) != crc32.ChecksumIEEE(c.packed) {
		return errors.New("a page whose checksum is wrong")
	}
	switch h.kind {
	case pageDictionary:
		return c.readDictionary(h)
	case pageData, pageDataV2:
		return c.readData(h)
	}
	return nil // an index
}

// readHeader looks at the header of the next page. It is short but for the least and the largest text of the page, which
// some programs write in it, so there is more room if it takes more.
func (c *pageColumn) readHeader() (pageHeader, error) {
	for {
		head, err := c.in.Peek(int(min(int64(c.in.Size()), c.rest)))
		if len(head) == 0 {
			return pageHeader{}, err
		}
		h, err := readPageHeader(head)
		if err == nil || int64(len(head)) == c.rest || len(head) < c.in.Size() || len(head) >= maxHeader {
			return h, err
		}
		c.in = bufio.NewReaderSize(c.in, min(8*c.in.Size(), maxHeader))
	}
}

// hold makes sure that the pages of all columns together take no more than the table may.
func (c *pageColumn) hold(of *int64, bytes int64) error {
	t := c.table
	t.held += bytes - *of
	*of = bytes
	if t.held > t.maxHeld {
		return errors.New("pages that are larger than the file explains")
	}
	return nil
}

// valueBytes is what a value takes in memory beside what it takes in the page.
func (c *pageColumn) valueBytes() int64 {
	if c.kind == format.ByteArray {
		return 32
	}
	return 16
}

func (c *pageColumn) readDictionary(h pageHeader) (err error) {
	if h.encoding != encodingPlain && h.encoding != encodingPlainDictionary || h.values > h.uncompressed {
		return errors.New("a dictionary that makes no sense")
	}
	if err := c.hold(&c.heldDictionary, h.uncompressed+h.values*c.valueBytes()); err != nil {
		return err
	}
	if c.dictionaryPage, err = c.table.unpack.unpack(c.codec, c.packed, c.dictionaryPage, int(h.uncompressed)); err != nil {
		return err
	}
	if c.kind == format.ByteArray {
		c.dictionaryTexts, err = plainTexts(c.dictionaryTexts, int(h.values), c.dictionaryPage)
	} else {
		c.dictionaryInts, err = plainInts(c.dictionaryInts, int(h.values), c.dictionaryPage, c.kind, c.unsigned)
	}
	return err
}

func (c *pageColumn) readData(h pageHeader) error {
	if h.values > c.rows {
		return errors.New("more values than rows")
	}
	c.rows -= h.values
	if err := c.hold(&c.held, h.uncompressed+h.values*c.valueBytes()); err != nil {
		return err
	}
	levels, values, err := c.partsOfPage(h)
	if err != nil {
		return err
	}
	n := int(h.values)
	c.null = resize(c.null, n)
	present := n
	if c.optional {
		if c.levels, err = runs(slices.Grow(c.levels[:0], n), n, 1, levels); err != nil {
			return err
		}
		present = 0
		for i, level := range c.levels {
			c.null[i] = level == 0
			present += int(level)
		}
	} else {
		clear(c.null)
	}
	if err := c.readValues(h, present, values); err != nil {
		return err
	}
	c.ints, c.texts = spread(c.ints, c.null, present), spread(c.texts, c.null, present)
	return nil
}

// partsOfPage unpacks a page, and finds its levels and its values.
func (c *pageColumn) partsOfPage(h pageHeader) (levels, values []byte, err error) {
	if h.kind == pageDataV2 {
		if h.repetition != 0 || h.definition > int64(len(c.packed)) || h.definition > h.uncompressed {
			return nil, nil, errors.New("levels that make no sense")
		}
		codec := c.codec
		if h.plain {
			codec = format.Uncompressed
		}
		levels = c.packed[:h.definition]
		rest := c.packed[h.definition:]
		if len(rest) == 0 && h.uncompressed == h.definition {
			codec = format.Uncompressed // all are null
		}
		c.page, err = c.table.unpack.unpack(codec, rest, c.page, int(h.uncompressed-h.definition))
		return levels, c.page, err
	}
	if c.page, err = c.table.unpack.unpack(c.codec, c.packed, c.page, int(h.uncompressed)); err != nil || !c.optional {
		return nil, c.page, err
	}
	if h.levels != encodingRLE {
		return nil, nil, errors.New("levels in an encoding that is not read here")
	}
	r := deltaReader{data: c.page}
	size := r.take(4)
	if r.bad {
		return nil, nil, errPage
	}
	levels = r.take(int(size[0]) | int(size[1])<<8 | int(size[2])<<16 | int(size[3])<<24)
	if r.bad {
		return nil, nil, errPage
	}
	return levels, r.data, nil
}

// readValues decodes the values that are there, one after the other.
func (c *pageColumn) readValues(h pageHeader, n int, data []byte) (err error) {
	c.ints, c.texts = c.ints[:0], c.texts[:0]
	switch c.kind {
	case format.Int64, format.Int32, format.Boolean, format.ByteArray:
	default:
		return nil // a kind of column that no table here has: its values read as zero
	}
	if n == 0 {
		return nil
	}
	switch h.encoding {
	case encodingPlain:
		if c.kind == format.ByteArray {
			c.texts, err = plainTexts(c.texts, n, data)
		} else {
			c.ints, err = plainInts(c.ints, n, data, c.kind, c.unsigned)
		}
		return err
	case encodingDictionary, encodingPlainDictionary:
		if len(data) == 0 {
			return errPage
		}
		if c.index, err = runs(slices.Grow(c.index[:0], n), n, int(data[0]), data[1:]); err != nil {
			return err
		}
		if c.kind == format.ByteArray {
			c.texts, err = lookUp(c.texts, c.index, c.dictionaryTexts)
		} else {
			c.ints, err = lookUp(c.ints, c.index, c.dictionaryInts)
		}
		return err
	case encodingDelta:
		if c.kind == format.Int64 || c.kind == format.Int32 {
			c.ints, _, err = deltas(c.ints, n, data)
			for i := range c.ints {
				switch {
				case c.kind == format.Int64:
				case c.unsigned:
					c.ints[i] = int64(uint32(c.ints[i]))
				default:
					c.ints[i] = int64(int32(c.ints[i]))
				}
			}
			return err
		}
	case encodingDeltaLengths:
		if c.kind == format.ByteArray {
			c.texts, c.lengths, err = lengthTexts(c.texts, c.lengths, n, data)
			return err
		}
	case encodingRLE:
		if c.kind == format.Boolean && len(data) >= 4 {
			if c.index, err = runs(slices.Grow(c.index[:0], n), n, 1, data[4:]); err != nil {
				return err
			}
			c.ints, err = lookUp(c.ints, c.index, []int64{0, 1})
			return err
		}
	}
	return errors.New("values in an encoding that is not read here")
}

// lookUp takes values out of a dictionary.
func lookUp[V any](out []V, index []uint32, dictionary []V) ([]V, error) {
	for _, i := range index {
		if int(i) >= len(dictionary) {
			return out, errors.New("a value that is not in the dictionary")
		}
		out = append(out, dictionary[i])
	}
	return out, nil
}

// spread puts values, which lie one after the other, where they are not null.
func spread[V any](values []V, null []bool, present int) []V {
	if len(values) == 0 || present == len(null) {
		return values
	}
	values = slices.Grow(values, len(null)-len(values))[:len(null)]
	var zero V
	from := present
	for i := len(null) - 1; i >= 0; i-- {
		if null[i] {
			values[i] = zero
			continue
		}
		from--
		values[i] = values[from]
	}
	return values
}

func resize(s []bool, n int) []bool { return slices.Grow(s[:0], n)[:n] }
