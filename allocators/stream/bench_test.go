package stream_test

import (
	"testing"

	"github.com/vramscope/vramscope/allocators"
	"github.com/vramscope/vramscope/allocators/alloctest"
	"github.com/vramscope/vramscope/allocators/stream"
)

// BenchmarkRecordings replays the recordings, in operations a second.
func BenchmarkRecordings(b *testing.B) {
	for _, file := range recordings(b, "*.csv.gz") {
		r := readCSV(b, file)
		b.Run(r.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				a := r.allocator()
				for i := range r.steps {
					apply(a, &r.steps[i])
				}
			}
			b.ReportMetric(float64(b.N)*float64(len(r.steps))/b.Elapsed().Seconds(), "ops/s")
		})
	}
}

// BenchmarkTrace is the run that all models are timed on.
func BenchmarkTrace(b *testing.B) {
	alloctest.Benchmark(b, func(d allocators.Driver) allocators.Allocator { return stream.New(d, stream.PyTorch()) })
}
