package tables

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/format"
)

// Pages are unpacked and decoded here and not by the library, which makes room for as much as a run, a delta
// header or packed data claims to be: tens of gigabytes in some bytes. Here nothing becomes larger than the header
// of the page says it is, and those of all columns are counted together.

// The encodings of values.
const (
	encodingPlain           = 0
	encodingPlainDictionary = 2
	encodingRLE             = 3
	encodingDelta           = 5
	encodingDeltaLengths    = 6
	encodingDictionary      = 8
)

var errPage = errors.New("a page that is shorter or longer than it says")

// unpacker unpacks pages.
type unpacker struct{ zstd *zstd.Decoder }

// unpack unpacks a page that has n bytes, into the room of out.
func (u *unpacker) unpack(codec format.CompressionCodec, packed, out []byte, n int) ([]byte, error) {
	if codec == format.Uncompressed {
		if len(packed) != n {
			return nil, errPage
		}
		return append(out[:0], packed...), nil
	}
	if cap(out) < n {
		out = make([]byte, 0, n)
	}
	out = out[:0:n]
	var err error
	switch codec {
	case format.Zstd:
		if u.zstd == nil {
			if u.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecodeAllCapLimit(true)); err != nil {
				return nil, err
			}
		}
		out, err = u.zstd.DecodeAll(packed, out)
	case format.Snappy:
		size, e := snappy.DecodedLen(packed)
		if e != nil || size != n {
			return nil, errPage
		}
		out, err = snappy.Decode(out[:n], packed)
	case format.Gzip:
		z, e := gzip.NewReader(bytes.NewReader(packed))
		if e != nil {
			return nil, e
		}
		out = out[:n]
		if _, err = io.ReadFull(z, out); err == nil {
			if more, _ := z.Read(make([]byte, 1)); more > 0 {
				err = errPage
			}
		}
	default:
		return nil, fmt.Errorf("it is packed with %s, which is not read here", codec)
	}
	if err == nil && len(out) != n {
		err = errPage
	}
	return out, err
}

func (u *unpacker) close() {
	if u.zstd != nil {
		u.zstd.Close()
	}
}

// runs decodes n numbers of a width in bits from runs and packed groups, and gives what is behind the last one.
func runs[T uint8 | uint32](out []T, n, width int, data []byte) ([]T, error) {
	out = out[:0]
	if width > 32 {
		return out, errPage
	}
	bytes := (width + 7) / 8
	for len(out) < n {
		head, size := binary.Uvarint(data)
		if size <= 0 {
			return out, errPage
		}
		data = data[size:]
		if head&1 == 0 {
			if len(data) < bytes {
				return out, errPage
			}
			v := uint32(0)
			for i, b := range data[:bytes] {
				v |= uint32(b) << (8 * i)
			}
			data = data[bytes:]
			if head == 0 || uint64(v)>>width != 0 {
				return out, errPage
			}
			for range min(head>>1, uint64(n-len(out))) {
				out = append(out, T(v))
			}
			continue
		}
		groups := head >> 1
		if width > 0 && groups > uint64(len(data)/width) {
			groups = uint64(len(data) / width) // the last group may be cut short
			if groups == 0 {
				return out, errPage
			}
		}
		values := int(min(groups*8, uint64(n-len(out))))
		if values == 0 {
			return out, errPage
		}
		out = bits(out, values, width, data)
		data = data[min(uint64(len(data)), groups*uint64(width)):]
	}
	return out, nil
}

// bits unpacks numbers of a width in bits, the lowest bit first. There are enough.
func bits[T uint8 | uint32](out []T, n, width int, data []byte) []T {
	for at := range n {
		out = append(out, T(bitsAt(data, at*width, width)))
	}
	return out
}

// deltas decodes n integers from blocks of differences, and gives what is behind them.
func deltas(out []int64, n int, data []byte) (values []int64, rest []byte, err error) {
	out = out[:0]
	r := deltaReader{data: data}
	block, minis, total := r.varint(), r.varint(), r.varint()
	last := r.signed()
	if r.bad || total != uint64(n) || minis == 0 || minis > 1<<10 || block > 1<<20 || block%minis != 0 || block/minis%8 != 0 {
		return out, nil, errPage
	}
	if n == 0 {
		return out, r.data, nil
	}
	out = append(out, last)
	per := int(block / minis)
	for len(out) < n {
		least := r.signed()
		widths := r.take(int(minis))
		if r.bad {
			return out, nil, errPage
		}
		for _, width := range widths {
			if len(out) == n {
				break
			}
			if width > 64 {
				return out, nil, errPage
			}
			values := min(per, n-len(out))
			packed := r.data[:min(len(r.data), per*int(width)/8)]
			r.data = r.data[len(packed):]
			if len(packed)*8 < values*int(width) {
				return out, nil, errPage
			}
			at := 0 // in bits
			for range values {
				last += least + int64(bitsAt(packed, at, int(width)))
				at += int(width)
				out = append(out, last)
			}
		}
		if per == 0 {
			return out, nil, errPage
		}
	}
	return out, r.data, nil
}

// bitsAt is the number of a width that begins at a bit.
func bitsAt(data []byte, at, width int) uint64 {
	if width == 0 {
		return 0
	}
	i, shift := at>>3, at&7
	if i+9 <= len(data) {
		v := binary.LittleEndian.Uint64(data[i:]) >> shift
		if shift > 0 {
			v |= uint64(data[i+8]) << (64 - shift)
		}
		return v << (64 - width) >> (64 - width)
	}
	v := uint64(0)
	for b := range width {
		v |= uint64(data[(at+b)>>3]>>((at+b)&7)&1) << b
	}
	return v
}

type deltaReader struct {
	data []byte
	bad  bool
}

func (r *deltaReader) varint() uint64 {
	v, n := binary.Uvarint(r.data)
	if n <= 0 {
		r.bad = true
		return 0
	}
	r.data = r.data[n:]
	return v
}

func (r *deltaReader) signed() int64 {
	v := r.varint()
	return int64(v>>1) ^ -int64(v&1)
}

func (r *deltaReader) take(n int) []byte {
	if n > len(r.data) {
		r.bad = true
		return nil
	}
	b := r.data[:n]
	r.data = r.data[n:]
	return b
}

// plainInts decodes n integers.
func plainInts(out []int64, n int, data []byte, kind format.Type, unsigned bool) ([]int64, error) {
	out = out[:0]
	switch kind {
	case format.Int64:
		if len(data)/8 < n {
			return out, errPage
		}
		for i := range n {
			out = append(out, int64(binary.LittleEndian.Uint64(data[8*i:])))
		}
	case format.Int32:
		if len(data)/4 < n {
			return out, errPage
		}
		for i := range n {
			v := binary.LittleEndian.Uint32(data[4*i:])
			if unsigned {
				out = append(out, int64(v))
			} else {
				out = append(out, int64(int32(v)))
			}
		}
	case format.Boolean:
		if len(data)*8 < n {
			return out, errPage
		}
		for i := range n {
			out = append(out, int64(data[i>>3]>>(i&7)&1))
		}
	}
	return out, nil
}

// lengthTexts finds n texts behind their lengths.
func lengthTexts(out [][]byte, lengths []int64, n int, data []byte) (texts [][]byte, spare []int64, err error) {
	out = out[:0]
	lengths, data, err = deltas(lengths, n, data)
	if err != nil {
		return out, lengths, err
	}
	for _, size := range lengths {
		if size = int64(int32(size)); size < 0 || size > int64(len(data)) {
			return out, lengths, errPage
		}
		out = append(out, data[:size:size])
		data = data[size:]
	}
	return out, lengths, nil
}

// plainTexts finds n texts.
func plainTexts(out [][]byte, n int, data []byte) ([][]byte, error) {
	out = out[:0]
	for range n {
		if len(data) < 4 {
			return out, errPage
		}
		size := binary.LittleEndian.Uint32(data)
		data = data[4:]
		if uint64(size) > uint64(len(data)) {
			return out, errPage
		}
		out = append(out, data[:size:size])
		data = data[size:]
	}
	return out, nil
}
