package parquet_test

import (
	"bytes"
	"testing"

	lib "github.com/parquet-go/parquet-go"

	"github.com/vramscope/vramscope/trace"
	"github.com/vramscope/vramscope/trace/parquet"
)

// FuzzRead reads any bytes. What is read can be written, and that is read as the same.
func FuzzRead(f *testing.F) {
	data := written(f, small())
	rows, said := rowsOf(f, data)
	f.Add(data)
	f.Add(written(f, &trace.Trace{Stacks: trace.NewStacks()}))
	f.Add(rewritten(f, rows, said, lib.DataPageVersion(1)))
	f.Add(rewritten(f, rows, said, lib.Compression(&lib.Snappy), lib.MaxRowsPerRowGroup(50)))
	f.Add(rewritten(f, rows[:0], said))
	f.Add(rewritten(f, rows, ""))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := read(data)
		if err != nil {
			oneLine(t, "fuzzed", err)
			return
		}
		var b bytes.Buffer
		if err := parquet.Write(&b, got); err != nil {
			t.Fatal(err)
		}
		again, err := read(b.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		same(t, got, again)
	})
}
