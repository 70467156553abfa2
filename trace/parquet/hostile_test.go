package parquet_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	lib "github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/vramscope/vramscope/internal/tracetest"
	"github.com/vramscope/vramscope/trace"
	"github.com/vramscope/vramscope/trace/parquet"
)

// small is a recording that has something of each kind of row.
func small() *trace.Trace {
	r := tracetest.New("expandable_segments:True", -1)
	r.Training(2, nil)
	t := r.Trace()
	d := &t.Devices[0]
	d.Initial.Groups = []trace.Group{{Stack: 1, Kind: "buffer", Bytes: 5, Blocks: 2}}
	d.Final.Groups = []trace.Group{{Kind: "executable", Bytes: 7, Blocks: 1}}
	d.Warnings = []trace.Warning{{Code: "a-code", Message: "a message", Count: 3, First: -1}}
	d.Events.Append(trace.Event{Op: trace.OpOOM, Size: 1 << 30, Addr: 1 << 20, Block: trace.NoBlock, Pool: trace.PoolUnknown})
	d.Events.Append(trace.Event{Op: trace.OpSnapshot, Size: 5, Block: trace.NoBlock, Pool: 0})
	series := trace.Series{Quantity: trace.DeviceUsed, Name: "python", PID: 7}
	series.Limit(4)
	for i := range int64(100) {
		series.Add(trace.Time(i), i*i%17)
	}
	d.Series = []trace.Series{series}
	t.Beside = []trace.Device{{Content: trace.Requests, Index: -1, Name: "pinned host memory", Pools: []trace.Pool{{}}, Streams: []uint64{0}}}
	t.Beside[0].Events.Append(trace.Event{Op: trace.OpAlloc, Addr: 4096, Size: 10, Pool: trace.PoolUnknown})
	t.Beside[0].NumBlocks = 1
	return t
}

func read(data []byte) (*trace.Trace, error) {
	return parquet.Read(bytes.NewReader(data), int64(len(data)))
}

// oneLine checks that an error is a line that says what kind of bad the file is.
func oneLine(t testing.TB, what string, err error) {
	t.Helper()
	if !errors.Is(err, trace.ErrCorrupt) && !errors.Is(err, trace.ErrUnrecognized) {
		t.Errorf("%s: %v is neither damaged nor of another kind", what, err)
	}
	if msg := err.Error(); strings.ContainsAny(msg, "\n\r") || strings.Contains(msg, os.TempDir()) || len(msg) > 500 {
		t.Errorf("%s: not one line without the file's name: %q", what, msg)
	}
}

func TestCutAfterEveryHundredth(t *testing.T) {
	data := written(t, small())
	for i := range 100 {
		_, err := read(data[:len(data)*i/100])
		if !errors.Is(err, trace.ErrCorrupt) {
			t.Fatalf("cut to %d %%: %v", i, err)
		}
		oneLine(t, fmt.Sprintf("cut to %d %%", i), err)
	}
}

// Bytes that change are found by the checksums of pages, or make metadata that cannot be, or change what the metadata
// says without harm; in no case is more made of it than the file explains.
func TestMangled(t *testing.T) {
	data := written(t, small())
	random := rand.New(rand.NewPCG(1, 2))
	var before, after runtime.MemStats
	tried, refused := 0, 0
	for at := 0; at < len(data); at += 1 + random.IntN(5) {
		tried++
		bad := bytes.Clone(data)
		if at%3 == 0 {
			bad[at] ^= 1 << random.IntN(8)
		} else {
			bad[at] = []byte{0, 0xff, 0x80, 0x7f}[random.IntN(4)]
		}
		runtime.ReadMemStats(&before)
		_, err := read(bad)
		runtime.ReadMemStats(&after)
		if err != nil {
			refused++
			oneLine(t, fmt.Sprintf("byte %d", at), err)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > 160<<20 {
			t.Errorf("byte %d: it took %d MiB", at, took>>20)
		}
	}
	if refused < tried/3 {
		t.Errorf("%d of %d changes were noticed", refused, tried)
	}
}

// other is a row as another program would write it: the columns in another order, each of them nullable, without
// those that nothing is read back from.
type other struct {
	Value      *int64  `parquet:"value,optional"`
	High       *int64  `parquet:"high,optional"`
	Low        *int64  `parquet:"low,optional"`
	Edge       *string `parquet:"edge,optional"`
	Name       *string `parquet:"name,optional"`
	Line       *int64  `parquet:"line,optional"`
	Function   *string `parquet:"function,optional"`
	File       *string `parquet:"file,optional"`
	Frame      *int64  `parquet:"frame_id,optional"`
	Depth      *int64  `parquet:"depth,optional"`
	Count      *int64  `parquet:"block_count,optional"`
	Expandable *bool   `parquet:"expandable,optional"`
	Class      *string `parquet:"segment_class,optional"`
	Requested  *int64  `parquet:"requested_bytes,optional"`
	State      *string `parquet:"state,optional"`
	Free       *int64  `parquet:"device_free_bytes,optional"`
	PoolID     *int64  `parquet:"pool_id,optional"`
	StreamID   *int64  `parquet:"stream_id,optional"`
	Stack      *int64  `parquet:"stack_id,optional"`
	Block      *int64  `parquet:"block_id,optional"`
	Size       *int64  `parquet:"size_bytes,optional"`
	Address    *int64  `parquet:"address,optional"`
	Op         *string `parquet:"op,optional"`
	Time       *int64  `parquet:"time_ns,optional"`
	Device     *int64  `parquet:"device,optional"`
	Record     *string `parquet:"record,optional"`
}

// rowsOf reads a file with the library's own reader of rows, and its description.
func rowsOf(t testing.TB, data []byte) ([]other, string) {
	t.Helper()
	rows, err := lib.Read[other](bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	f, err := lib.OpenFile(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	said, ok := f.Lookup("vramscope")
	if !ok {
		t.Fatal("no description")
	}
	return rows, said
}

func rewritten[T any](t testing.TB, rows []T, said string, options ...lib.WriterOption) []byte {
	t.Helper()
	var b bytes.Buffer
	if said != "" {
		options = append(options, lib.KeyValueMetadata("vramscope", said))
	}
	w := lib.NewGenericWriter[T](&b, options...)
	if _, err := w.Write(rows); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// A file may be written again by another program: with columns in another order, packed otherwise, in pages of the
// other form, in row groups of other sizes. What it lacks or has of the wrong type is said.
func TestOtherWriters(t *testing.T) {
	want := small()
	rows, said := rowsOf(t, written(t, want))
	for name, options := range map[string][]lib.WriterOption{
		"as it comes":    nil,
		"version 1":      {lib.DataPageVersion(1)},
		"snappy":         {lib.Compression(&lib.Snappy)},
		"gzip":           {lib.Compression(&lib.Gzip), lib.DataPageVersion(1)},
		"small groups":   {lib.MaxRowsPerRowGroup(7)},
		"small pages":    {lib.PageBufferSize(50), lib.Compression(&lib.Zstd)},
		"zstd in form 2": {lib.Compression(&lib.Zstd), lib.DataPageVersion(2)},
	} {
		data := rewritten(t, rows, said, options...)
		got, err := read(data)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		same(t, want, got)
	}
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"brotli":                 {rewritten(t, rows, said, lib.Compression(&lib.Brotli)), "BROTLI"},
		"without its end":        {rewritten(t, rows[:len(rows)-1], said), "more rows than it has"},
		"with a row too many":    {rewritten(t, append(rows[:len(rows):len(rows)], rows[0]), said), "rows"},
		"in another order":       {rewritten(t, append(rows[1:len(rows):len(rows)], rows[0]), said), "of the kind"},
		"without a description":  {rewritten(t, rows, ""), "is a Parquet file of another program"},
		"of a later form":        {rewritten(t, rows, strings.Replace(said, "parquet/v1", "parquet/v9", 1)), "a newer one"},
		"with no JSON":           {rewritten(t, rows, said[1:]), "description is damaged"},
		"of more frames":         {rewritten(t, rows, strings.Replace(said, `"frames":`, `"frames":9`, 1)), "frames"},
		"of more stacks":         {rewritten(t, rows, strings.Replace(said, `"stacks":`, `"stacks":9`, 1)), "stacks"},
		"of another clock":       {rewritten(t, rows, strings.Replace(said, `"clock":"epoch"`, `"clock":"sun"`, 1)), "clock"},
		"of other content":       {rewritten(t, rows, strings.Replace(said, `"content":"decisions"`, `"content":"?"`, 1)), "content"},
		"of another quantity":    {rewritten(t, rows, strings.Replace(said, `"quantity":"device_used"`, `"quantity":"?"`, 1)), "quantity"},
		"of billions of blocks":  {rewritten(t, rows, strings.Replace(said, `"block_ids":`, `"block_ids":1000000000`, 1)), "blocks"},
		"without streams":        {rewritten(t, rows, strings.Replace(said, `"event_rows":`, `"event_rows":-`, 1)), "rows"},
		"with rows beyond count": {rewritten(t, rows, strings.Replace(said, `"event_rows":`, `"event_rows":9223372036854775`, 1)), "rows"},
	} {
		_, err := read(c.data)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		oneLine(t, name, err)
		t.Logf("%-24s %v", name, err)
	}
}

// Rows that say what cannot be.
func TestRowsThatCannotBe(t *testing.T) {
	rows, said := rowsOf(t, written(t, small()))
	find := func(record, op string) int {
		for i, r := range rows {
			if *r.Record == record && (op == "" || r.Op != nil && *r.Op == op) {
				return i
			}
		}
		t.Fatalf("no %s %s", record, op)
		return 0
	}
	number := func(v int64) *int64 { return &v }
	word := func(v string) *string { return &v }
	for name, c := range map[string]struct {
		at     int
		change func(*other)
	}{
		"an unknown operation":            {find("event", "alloc"), func(r *other) { r.Op = word("eat") }},
		"no operation":                    {find("event", "alloc"), func(r *other) { r.Op = nil }},
		"no time":                         {find("event", "alloc"), func(r *other) { r.Time = nil }},
		"no address":                      {find("event", "alloc"), func(r *other) { r.Address = nil }},
		"a size below nothing":            {find("event", "alloc"), func(r *other) { r.Size = number(-1) }},
		"a size of no device":             {find("event", "alloc"), func(r *other) { r.Size = number(1 << 50) }},
		"the end of the address space":    {find("event", "alloc"), func(r *other) { r.Address = number(-1) }},
		"an alloc of no block":            {find("event", "alloc"), func(r *other) { r.Block = nil }},
		"an alloc of a block before":      {find("event", "alloc") + 5, func(r *other) { r.Op, r.Block = word("alloc"), number(0) }},
		"a free of a block to come":       {find("event", "free_requested"), func(r *other) { r.Block = number(20) }},
		"a second free":                   {find("event", "free_completed"), func(r *other) { r.Op = word("free_requested") }},
		"a free that was not asked for":   {find("event", "free_requested"), func(r *other) { r.Op = word("free_completed") }},
		"a segment that is a block":       {find("event", "segment_map"), func(r *other) { r.Block = number(1) }},
		"a block beyond":                  {find("event", "alloc"), func(r *other) { r.Block = number(1 << 31) }},
		"a block below":                   {find("event", "alloc"), func(r *other) { r.Block = number(-1) }},
		"a block beyond 32 bits":          {find("event", "alloc"), func(r *other) { r.Block = number(1 << 32) }},
		"a stack beyond":                  {find("event", "alloc"), func(r *other) { r.Stack = number(1000) }},
		"a stream beyond":                 {find("event", "alloc"), func(r *other) { r.StreamID = number(1) }},
		"no stream":                       {find("event", "alloc"), func(r *other) { r.StreamID = nil }},
		"a pool beyond":                   {find("event", "alloc"), func(r *other) { r.PoolID = number(1) }},
		"a failure of exabytes":           {find("event", "oom"), func(r *other) { r.Size = number(1 << 61) }},
		"a segment of no class":           {find("segment", ""), func(r *other) { r.Class = word("medium") }},
		"a block of no state":             {find("block", ""), func(r *other) { r.State = word("") }},
		"a block that asked for -1":       {find("block", ""), func(r *other) { r.Requested = number(-1) }},
		"a group of a stack beyond":       {find("group", ""), func(r *other) { r.Stack = number(1000) }},
		"a frame that is none":            {find("frame", ""), func(r *other) { r.Frame = nil }},
		"a frame beyond":                  {find("frame", ""), func(r *other) { r.Frame = number(1000) }},
		"a frame of the empty stack":      {find("frame", ""), func(r *other) { r.Stack = number(0) }},
		"a frame at another depth":        {find("frame", ""), func(r *other) { r.Depth = number(1) }},
		"a frame of a later stack":        {find("frame", ""), func(r *other) { r.Stack = number(2) }},
		"a marker without an edge":        {find("marker", ""), func(r *other) { r.Edge = nil }},
		"a marker without a time":         {find("marker", ""), func(r *other) { r.Time = nil }},
		"a sample without a value":        {find("sample", ""), func(r *other) { r.Value = nil }},
		"a row that is of no kind at all": {find("sample", ""), func(r *other) { r.Record = nil }},
	} {
		bad := append([]other(nil), rows...)
		c.change(&bad[c.at])
		_, err := read(rewritten(t, bad, said))
		if !errors.Is(err, trace.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		oneLine(t, name, err)
		t.Logf("%-32s %v", name, err)
	}
}

// Columns that are missing or of another type.
func TestColumnsThatCannotBe(t *testing.T) {
	_, said := rowsOf(t, written(t, small()))
	type few struct {
		Record string `parquet:"record"`
		Time   int64  `parquet:"time_ns"`
	}
	type wrong struct {
		other
		Time string `parquet:"time_ns"`
	}
	type floating struct {
		other
		Time float64 `parquet:"time_ns"`
	}
	type lists struct {
		Time []int64 `parquet:"time_ns"`
	}
	type nsys struct {
		PID int64 `parquet:"globalPid"`
	}
	type nothing struct {
		A int64 `parquet:"a"`
	}
	for name, data := range map[string][]byte{
		"few": rewritten(t, []few{{"event", 1}}, said), "texts": rewritten(t, []wrong{{Time: "1"}}, said),
		"numbers with points": rewritten(t, []floating{{Time: 1}}, said), "lists": rewritten(t, []lists{{[]int64{1, 2}}}, said),
		"other": rewritten(t, []nothing{{1}}, said), "another program's": rewritten(t, []nothing{{1}}, ""),
		"a table": rewritten(t, []nsys{{1}}, ""),
		"no rows": rewritten(t, []nothing{}, ""),
	} {
		_, err := read(data)
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		oneLine(t, name, err)
		t.Logf("%-20s %v", name, err)
	}
}

// patched is a file whose metadata was changed, with bytes put between its pages and its metadata, of which change
// is told where they are.
func patched(t testing.TB, data, more []byte, change func(m *format.FileMetaData, at int64)) []byte {
	t.Helper()
	f, err := lib.OpenFile(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	end := len(data) - 8 - int(binary.LittleEndian.Uint32(data[len(data)-8:]))
	m := f.Metadata()
	change(m, int64(end))
	footer, err := thrift.Marshal(new(thrift.CompactProtocol), m)
	if err != nil {
		t.Fatal(err)
	}
	out := append(bytes.Clone(data[:end]), more...)
	out = append(out, footer...)
	return append(binary.LittleEndian.AppendUint32(out, uint32(len(footer))), "PAR1"...)
}

// page is a page with a header that may say anything.
func page(t testing.TB, h format.PageHeader, body []byte) []byte {
	t.Helper()
	head, err := thrift.Marshal(new(thrift.CompactProtocol), &h)
	if err != nil {
		t.Fatal(err)
	}
	return append(head, body...)
}

// Pages and metadata that claim more than there is take no more memory than the file explains.
func TestBombs(t *testing.T) {
	want := small()
	rows, said := rowsOf(t, written(t, want))
	plain := rewritten(t, rows, said, lib.DataPageVersion(1))
	n := int32(len(rows))
	header := func(values, encoding int32) format.DataPageHeader {
		return format.DataPageHeader{NumValues: values, Encoding: format.Encoding(encoding), DefinitionLevelEncoding: format.RLE, RepetitionLevelEncoding: format.RLE}
	}
	data := func(claims int32, values int32, encoding format.Encoding, body []byte) []byte {
		return page(t, format.PageHeader{Type: format.DataPage, UncompressedPageSize: claims, CompressedPageSize: int32(len(body)),
			DataPageHeader: thrift.New(header(values, int32(encoding)))}, body)
	}
	dictionary := func(claims int32, values int32, body []byte) []byte {
		return page(t, format.PageHeader{Type: format.DictionaryPage, UncompressedPageSize: claims, CompressedPageSize: int32(len(body)),
			DictionaryPageHeader: thrift.New(format.DictionaryPageHeader{NumValues: values, Encoding: format.Plain})}, body)
	}
	varint := func(v uint64) []byte { return binary.AppendUvarint(nil, v) }
	levels := func(run []byte) []byte {
		return append(binary.LittleEndian.AppendUint32(nil, uint32(len(run))), run...)
	}
	all := levels(append(varint(uint64(n)<<1), 1)) // of a column without nulls
	billions := levels(append(varint(1<<32-2), 1))
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	zeros, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	bomb := zeros.EncodeAll(make([]byte, 256<<20), nil)
	delta := join(varint(128), varint(4), varint(1<<31-1), varint(0), varint(0), []byte{0, 0, 0, 0})
	const text, number = "op", "time_ns"
	for name, c := range map[string]struct {
		column string
		chunk  []byte
		codec  format.CompressionCodec
	}{
		"a page of 2^31 rows":              {number, data(16, 1<<31-1, format.Plain, join(billions, make([]byte, 8))), format.Uncompressed},
		"levels of 2^31 rows":              {number, data(int32(len(billions)), n, format.Plain, billions), format.Uncompressed},
		"differences of 2^31 rows":         {number, data(int32(len(all)+len(delta)), n, format.DeltaBinaryPacked, join(all, delta)), format.Uncompressed},
		"a page of 2 GiB":                  {number, data(1<<31-1, n, format.Plain, bomb), format.Zstd},
		"a page of less than it unpacks":   {number, data(1000, n, format.Plain, bomb), format.Zstd},
		"a dictionary of 2 GiB":            {text, dictionary(1<<31-1, 1, bomb), format.Zstd},
		"a dictionary of 2^31 values":      {text, dictionary(8, 1<<31-1, make([]byte, 8)), format.Uncompressed},
		"a dictionary of 2^27 empty texts": {text, dictionary(256<<20, 64<<20, bomb), format.Zstd},
		"indexes of 2^31 rows": {text, join(dictionary(4, 1, make([]byte, 4)),
			data(int32(len(all)+7), n, format.RLEDictionary, join(all, []byte{1}, varint(1<<32-2), []byte{0}))), format.Uncompressed},
		"indexes without a dictionary":   {text, data(int32(len(all)+3), n, format.RLEDictionary, join(all, []byte{1, 2, 0})), format.Uncompressed},
		"indexes of 255 bits":            {text, join(dictionary(4, 1, make([]byte, 4)), data(int32(len(all)+3), n, format.RLEDictionary, join(all, []byte{255, 3, 0}))), format.Uncompressed},
		"many pages of nothing":          {number, bytes.Repeat(data(6, 0, format.Plain, levels([]byte{2, 1})), 10000), format.Uncompressed},
		"a text of 4 GiB":                {text, data(int32(len(all)+4), n, format.Plain, join(all, []byte{255, 255, 255, 255})), format.Uncompressed},
		"an encoding that nobody writes": {number, data(int32(len(all)+8), n, format.BitPacked, join(all, make([]byte, 8))), format.Uncompressed},
		"no page":                        {number, nil, format.Uncompressed},
		"no header":                      {number, bytes.Repeat([]byte{0xff}, 100), format.Uncompressed},
	} {
		file := patched(t, plain, c.chunk, func(m *format.FileMetaData, at int64) {
			columns := m.RowGroups[0].Columns
			i := slices.IndexFunc(columns, func(x format.ColumnChunk) bool { return x.MetaData.PathInSchema[0] == c.column })
			x := &columns[i].MetaData
			x.Codec, x.DataPageOffset, x.DictionaryPageOffset, x.TotalCompressedSize = c.codec, at, 0, int64(len(c.chunk))
		})
		refused(t, name, file)
	}
	for name, change := range map[string]func(m *format.FileMetaData, at int64){
		"2^62 rows":             func(m *format.FileMetaData, _ int64) { m.NumRows = 1 << 62 },
		"fewer than no rows":    func(m *format.FileMetaData, _ int64) { m.NumRows = -1 },
		"a group of 2^62":       func(m *format.FileMetaData, _ int64) { m.RowGroups[0].NumRows = 1 << 62 },
		"a group of -1":         func(m *format.FileMetaData, _ int64) { m.RowGroups[0].NumRows = -1 },
		"twice the same group":  func(m *format.FileMetaData, _ int64) { m.RowGroups = append(m.RowGroups, m.RowGroups[0]) },
		"no groups":             func(m *format.FileMetaData, _ int64) { m.RowGroups = nil },
		"a group without pages": func(m *format.FileMetaData, _ int64) { m.RowGroups[0].Columns = nil },
		"pages behind the end":  func(m *format.FileMetaData, _ int64) { m.RowGroups[0].Columns[3].MetaData.DataPageOffset = 1 << 60 },
		"pages of exabytes": func(m *format.FileMetaData, _ int64) {
			m.RowGroups[0].Columns[3].MetaData.TotalCompressedSize = 1 << 60
		},
		"pages before the start": func(m *format.FileMetaData, _ int64) { m.RowGroups[0].Columns[3].MetaData.DataPageOffset = -1 },
		"a column of two types":  func(m *format.FileMetaData, _ int64) { m.RowGroups[0].Columns[23].MetaData.Type = format.ByteArray },
		"no schema":              func(m *format.FileMetaData, _ int64) { m.Schema = nil },
		"a schema of itself":     func(m *format.FileMetaData, _ int64) { m.Schema = m.Schema[:1] },
	} {
		refused(t, name, patched(t, plain, nil, change))
	}
}

// refused checks that a file is, without much ado.
func refused(t *testing.T, name string, file []byte) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := read(file)
	runtime.ReadMemStats(&after)
	if !errors.Is(err, trace.ErrCorrupt) {
		t.Errorf("%s: %v", name, err)
		return
	}
	oneLine(t, name, err)
	if took := after.TotalAlloc - before.TotalAlloc; took > 16<<20+20*uint64(len(file)) {
		t.Errorf("%s: %d bytes of input took %d KiB", name, len(file), took>>10)
	}
	t.Logf("%-32s %v", name, err)
}
