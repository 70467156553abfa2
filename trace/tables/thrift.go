package tables

import (
	"encoding/binary"
	"errors"
)

// Parquet's metadata and the headers of its pages are in Thrift's compact encoding. The library that decodes
// them makes room for as many elements as a list says it has, and for as many bytes as a page says it will
// have. So they are walked through first, and what cannot be is refused.

var errThrift = errors.New("metadata that makes no sense")

// The types of the compact encoding.
const (
	thriftTrue   = 1
	thriftFalse  = 2
	thriftByte   = 3
	thriftI16    = 4
	thriftI32    = 5
	thriftI64    = 6
	thriftDouble = 7
	thriftBinary = 8
	thriftList   = 9
	thriftSet    = 10
	thriftMap    = 11
	thriftStruct = 12
)

const deepest = 16 // structs in each other

// walker walks through a struct.
type walker struct {
	data []byte
	at   int
	// elements counts those of lists. Each will take some hundred bytes of memory.
	elements int
}

func (w *walker) varint() (uint64, error) {
	n, size := binary.Uvarint(w.data[w.at:])
	if size <= 0 {
		return 0, errThrift
	}
	w.at += size
	return n, nil
}

func (w *walker) zigzag() (int64, error) {
	n, err := w.varint()
	return int64(n>>1) ^ -int64(n&1), err
}

func (w *walker) skip(n int) error {
	if n < 0 || n > len(w.data)-w.at {
		return errThrift
	}
	w.at += n
	return nil
}

// fields walks through a struct. Integers, and truth values as 1 and 0, are given to the function with their numbers
// from the outermost struct inwards.
func (w *walker) fields(path []int64, integer func(path []int64, v int64)) error {
	if len(path) >= deepest {
		return errThrift
	}
	id := int64(0)
	for {
		if w.at >= len(w.data) {
			return errThrift
		}
		head := w.data[w.at]
		w.at++
		if head == 0 {
			return nil
		}
		if delta := int64(head >> 4); delta != 0 {
			id += delta
		} else {
			v, err := w.zigzag()
			if err != nil {
				return err
			}
			id = v
		}
		if err := w.value(head&0xf, append(path, id), integer, false); err != nil {
			return err
		}
	}
}

// value walks through a value. Truth values are in the type, except in lists.
func (w *walker) value(kind byte, path []int64, integer func(path []int64, v int64), inList bool) error {
	switch kind {
	case thriftTrue, thriftFalse:
		if inList {
			return w.skip(1)
		}
		if integer != nil {
			integer(path, int64(thriftFalse-kind))
		}
		return nil
	case thriftByte:
		return w.skip(1)
	case thriftI16, thriftI32, thriftI64:
		v, err := w.zigzag()
		if err == nil && integer != nil {
			integer(path, v)
		}
		return err
	case thriftDouble:
		return w.skip(8)
	case thriftBinary:
		n, err := w.varint()
		if err != nil || n > uint64(len(w.data)) {
			return errThrift
		}
		return w.skip(int(n))
	case thriftList, thriftSet:
		return w.list(path)
	case thriftStruct:
		return w.fields(path, integer)
	}
	return errThrift // maps are in none of Parquet's structs
}

func (w *walker) list(path []int64) error {
	if w.at >= len(w.data) || len(path) >= deepest {
		return errThrift
	}
	head := w.data[w.at]
	w.at++
	n := uint64(head >> 4)
	if n == 15 {
		var err error
		if n, err = w.varint(); err != nil {
			return err
		}
	}
	if n > uint64(len(w.data)-w.at) { // each takes a byte at least
		return errThrift
	}
	w.elements += int(n)
	for range n {
		if err := w.value(head&0xf, path, nil, true); err != nil {
			return err
		}
	}
	return nil
}

// pageHeader is what the header of a page claims.
type pageHeader struct {
	size                     int // bytes of the header itself
	kind                     int64
	uncompressed, compressed int64 // bytes of the page
	checksum                 int64 // 0 for none
	values, encoding         int64
	levels                   int64 // encoding of the levels, of a page of the first form
	repetition, definition   int64 // bytes of the levels, of a page of the second form
	plain                    bool  // the page is not packed, of a page of the second form
}

// The kinds of pages.
const (
	pageData       = 0
	pageIndex      = 1
	pageDictionary = 2
	pageDataV2     = 3
)

// readPageHeader reads the header that data begins with.
func readPageHeader(data []byte) (h pageHeader, err error) {
	w := walker{data: data}
	h.kind, h.encoding, h.levels = -1, -1, encodingRLE
	err = w.fields(nil, func(path []int64, v int64) {
		switch {
		case len(path) == 2:
			h.of(path[0], path[1], v)
		case len(path) != 1:
		case path[0] == 1:
			h.kind = v
		case path[0] == 2:
			h.uncompressed = v
		case path[0] == 3:
			h.compressed = v
		case path[0] == 4:
			h.checksum = v
		}
	})
	h.size = w.at
	if err == nil && (h.kind < 0 || h.uncompressed < 0 || h.compressed < 0 || h.values < 0 || h.repetition < 0 || h.definition < 0) {
		err = errThrift
	}
	return h, err
}

// of takes a field of the header that is for one kind of page.
func (h *pageHeader) of(kind, field, v int64) {
	const data, dictionary, dataV2 = 5, 7, 8
	switch {
	case field == 1:
		h.values = v
	case kind == data && field == 2, kind == dictionary && field == 2, kind == dataV2 && field == 4:
		h.encoding = v
	case kind == data && field == 3:
		h.levels = v
	case kind == dataV2 && field == 5:
		h.definition = v
	case kind == dataV2 && field == 6:
		h.repetition = v
	case kind == dataV2 && field == 7:
		h.plain = v == 0
	}
}
