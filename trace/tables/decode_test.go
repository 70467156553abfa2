package tables

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"slices"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/encoding/delta"
	"github.com/parquet-go/parquet-go/encoding/rle"
	"github.com/parquet-go/parquet-go/format"
	"pgregory.net/rapid"
)

// What the library encodes is decoded.
func TestRuns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		width := rapid.IntRange(1, 31).Draw(t, "width")
		var values []int32
		for range rapid.IntRange(1, 40).Draw(t, "pieces") {
			v := rapid.Int32Range(0, int32(uint32(1)<<width-1)).Draw(t, "value")
			for range rapid.SampledFrom([]int{1, 1, 1, 2, 7, 8, 9, 100}).Draw(t, "times") {
				values = append(values, v)
			}
		}
		data, err := (&rle.Encoding{BitWidth: width}).EncodeInt32(nil, values)
		if err != nil {
			t.Fatal(err)
		}
		got, err := runs([]uint32(nil), len(values), width, data)
		if err != nil || !slices.EqualFunc(got, values, func(a uint32, b int32) bool { return a == uint32(b) }) {
			t.Fatalf("width %d: %d, want %d: %v", width, got, values, err)
		}
		for cut := range len(data) {
			if _, err := runs([]uint32(nil), len(values), width, data[:cut]); err == nil && cut == 0 {
				t.Fatalf("nothing is %d values", len(values))
			}
		}
	})
}

func TestDeltas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Int64(), 0, 300).Draw(t, "values")
		if rapid.Bool().Draw(t, "near") {
			for i := range values {
				values[i] = values[i]>>50 + int64(i)*1000
			}
		}
		data, err := (&delta.BinaryPackedEncoding{}).EncodeInt64(nil, values)
		if err != nil {
			t.Fatal(err)
		}
		got, rest, err := deltas(nil, len(values), append(data, "rest"...))
		if err != nil || !slices.Equal(got, values) || string(rest) != "rest" {
			t.Fatalf("%d, want %d, and %q: %v", got, values, rest, err)
		}
		if _, _, err := deltas(nil, len(values)+1, data); err == nil {
			t.Fatal("one more than there are")
		}
		for cut := range len(data) {
			_, _, _ = deltas(nil, len(values), data[:cut])
		}
	})
}

func TestLengthTexts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, 20), 0, 100).Draw(t, "values")
		var all []byte
		offsets := []uint32{0}
		for _, v := range values {
			all = append(all, v...)
			offsets = append(offsets, uint32(len(all)))
		}
		data, err := (&delta.LengthByteArrayEncoding{}).EncodeByteArray(nil, all, offsets)
		if err != nil {
			t.Fatal(err)
		}
		got, _, err := lengthTexts(nil, nil, len(values), data)
		if err != nil || !slices.EqualFunc(got, values, bytes.Equal) {
			t.Fatalf("%q, want %q: %v", got, values, err)
		}
		for cut := range len(data) {
			_, _, _ = lengthTexts(nil, nil, len(values), data[:cut])
		}
	})
}

// Nothing that is claimed is believed before it is there.
func TestBombs(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	many := binary.AppendUvarint(nil, 1<<32|1<<31)
	if got, err := runs([]uint32(nil), 10, 1, append(many, 1)); err != nil || len(got) != 10 {
		t.Errorf("a run of billions: %d values, %v", len(got), err)
	}
	if got, err := runs([]uint8(nil), 10, 1, binary.AppendUvarint(nil, 1<<40|1)); err == nil {
		t.Errorf("billions of groups that are not there: %d values", len(got))
	}
	for _, width := range []int{33, 255} {
		if _, err := runs([]uint32(nil), 1, width, []byte{3, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}); err == nil {
			t.Errorf("%d bits", width)
		}
	}
	if got, err := runs([]uint8(nil), 8, 1, []byte{16, 255}); err == nil {
		t.Errorf("a level that is none: %d", got)
	}
	head := binary.AppendUvarint(binary.AppendUvarint(binary.AppendUvarint(nil, 128), 4), 1<<31-1)
	if got, _, err := deltas(nil, 10, append(head, 0, 0, 0, 0, 0, 0)); err == nil {
		t.Errorf("billions of differences: %d values", len(got))
	}
	for _, head := range [][]byte{{0, 0, 10, 0, 0}, {0, 1, 10, 0, 0}, {7, 1, 10, 0, 0, 1, 1}, {128, 1, 200, 1, 10, 0}} {
		if got, _, err := deltas(nil, 10, head); err == nil {
			t.Errorf("blocks % x: %d", head, got)
		}
	}
	bomb := make([]byte, 64<<20)
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	var gz bytes.Buffer
	g := gzip.NewWriter(&gz)
	if _, err := g.Write(bomb); err != nil {
		t.Fatal(err)
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	packed := map[format.CompressionCodec][]byte{format.Zstd: z.EncodeAll(bomb, nil), format.Snappy: snappy.Encode(nil, bomb), format.Gzip: gz.Bytes()}
	runtime.ReadMemStats(&before)
	var u unpacker
	defer u.close()
	for codec, data := range packed {
		if out, err := u.unpack(codec, data, nil, 1000); err == nil {
			t.Errorf("%s: %d bytes of 1000", codec, len(out))
		}
		if _, err := u.unpack(codec, data[:len(data)/2], nil, len(bomb)/8); err == nil {
			t.Errorf("%s: half of it is as much as an eighth", codec)
		}
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 64<<20 {
		t.Errorf("bombs took %d bytes", took)
	}
	for codec, data := range packed {
		if out, err := u.unpack(codec, data, nil, len(bomb)); err != nil || len(out) != len(bomb) {
			t.Errorf("%s: %d bytes, %v", codec, len(out), err)
		}
	}
	if _, err := u.unpack(format.Brotli, nil, nil, 10); err == nil {
		t.Error("brotli")
	}
}

func TestPlain(t *testing.T) {
	for _, c := range []struct {
		kind format.Type
		n    int
		data string
		want []int64
	}{
		{format.Int64, 1, "\xff\xff\xff\xff\xff\xff\xff\xff", []int64{-1}},
		{format.Int64, 2, "12345678", nil},
		{format.Int32, 2, "\x01\x00\x00\x00\xff\xff\xff\xff", []int64{1, -1}},
		{format.Int32, 2, "1234567", nil},
		{format.Boolean, 9, "\x05\x01", []int64{1, 0, 1, 0, 0, 0, 0, 0, 1}},
		{format.Boolean, 9, "\x05", nil},
	} {
		got, err := plainInts(nil, c.n, []byte(c.data), c.kind, false)
		if (err == nil) != (c.want != nil) || err == nil && !slices.Equal(got, c.want) {
			t.Errorf("%s %q: %d, %v", c.kind, c.data, got, err)
		}
	}
	got, err := plainTexts(nil, 2, []byte("\x01\x00\x00\x00a\x00\x00\x00\x00"))
	if err != nil || len(got) != 2 || string(got[0]) != "a" || len(got[1]) != 0 {
		t.Errorf("%q, %v", got, err)
	}
	for _, bad := range []string{"", "\x01\x00", "\x02\x00\x00\x00a", "\xff\xff\xff\xffabc"} {
		if got, err := plainTexts(nil, 1, []byte(bad)); err == nil {
			t.Errorf("%q: %q", bad, got)
		}
	}
}
