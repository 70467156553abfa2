package parquet_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/vramscope/vramscope/internal/recordtest"
	"github.com/vramscope/vramscope/trace"
	"github.com/vramscope/vramscope/trace/parquet"
	"github.com/vramscope/vramscope/trace/source"
)

// long is the longest recording that is here.
func long(b *testing.B) *trace.Trace {
	path := filepath.Join(recordtest.Corpus(), "torch", "gpt_long.c0.pickle.zst")
	if _, err := os.Stat(path); err != nil {
		path = filepath.Join(recordtest.Testdata(), "torch", "dynamic_batch.c0.pickle.zst")
	}
	tr, err := source.Open(path, source.Options{})
	if err != nil {
		b.Fatal(err)
	}
	return tr
}

func rate(b *testing.B, tr *trace.Trace) {
	b.ReportMetric(float64(tr.Devices[0].Events.Len())*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mev/s")
}

func BenchmarkWrite(b *testing.B) {
	tr := long(b)
	b.ReportAllocs()
	for b.Loop() {
		if err := parquet.Write(io.Discard, tr); err != nil {
			b.Fatal(err)
		}
	}
	rate(b, tr)
}

func BenchmarkRead(b *testing.B) {
	tr := long(b)
	data := written(b, tr)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := parquet.Read(bytes.NewReader(data), int64(len(data))); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(int64(len(data)))
	rate(b, tr)
}
