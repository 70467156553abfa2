package oomlog

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"testing"
)

// trainingLog is a log as a training job prints it, with a few messages in it: lines of a trainer, progress
// bars, tracebacks, and lines about memory that are no failures.
func trainingLog(size int) []byte {
	rng := rand.New(rand.NewPCG(1, 2))
	var b bytes.Buffer
	for i := 0; b.Len() < size; i++ {
		switch rng.IntN(12) {
		case 0:
			fmt.Fprintf(&b, "\r Epoch %d:  %2d%%|%s| %d/4000 [00:26<18:58,  3.44it/s, loss=%.4f]", i/4000, i%100, "████▏     ", i%4000, rng.Float64())
		case 1:
			fmt.Fprintf(&b, "[rank%d]:   File \"/opt/venv/lib/python3.11/site-packages/torch/nn/modules/module.py\", line %d, in _call_impl\n", i%8, rng.IntN(2000))
		case 2:
			fmt.Fprintf(&b, "[Rank %d] (after %d iterations) memory (MB) | allocated: %d.%d | max allocated: %d | reserved: %d | max reserved: %d\n", i%8, i, rng.IntN(60000), i%100, rng.IntN(60000), rng.IntN(80000), rng.IntN(80000))
		case 3:
			fmt.Fprintf(&b, "2026-03-11 09:14:%02d,%03d INFO trainer.py:412] step %d lr %.3e grad_norm %.3f tokens/s %d mem 61.2GiB(77.3%%)\n", i%60, i%1000, i, rng.Float64(), rng.Float64(), rng.IntN(100000))
		default:
			fmt.Fprintf(&b, "iteration %8d/ 500000 | consumed samples: %12d | elapsed time per iteration (ms): %.1f | learning rate: %.3E | global batch size: 1024 | lm loss: %.6E | loss scale: 1.0 | grad norm: %.3f |\n",
				i, i*1024, 1000*rng.Float64(), rng.Float64(), rng.Float64(), rng.Float64())
		}
	}
	b.WriteString("[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB. GPU 3 has a total capacity of 79.10 GiB of which 812.00 MiB is free. Including non-PyTorch memory, this process has 78.30 GiB memory in use. Of the allocated memory 74.00 GiB is allocated by PyTorch, and 2.90 GiB is reserved by PyTorch but unallocated.\n")
	return b.Bytes()
}

// BenchmarkScan reads a training log over and over, as from a pipe.
func BenchmarkScan(b *testing.B) {
	text := trainingLog(8 << 20)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		log, err := Scan(io.MultiReader(bytes.NewReader(text)))
		if err != nil || len(log.Messages) != 1 {
			b.Fatal(err, len(log.Messages))
		}
	}
}

// BenchmarkScanFailures reads a log that is nothing but failures.
func BenchmarkScanFailures(b *testing.B) {
	var t bytes.Buffer
	for i := range 4000 {
		fmt.Fprintf(&t, "[rank%d]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate %d.00 MiB. GPU %d has a total capacity of 79.10 GiB of which 12.00 MiB is free. Including non-PyTorch memory, this process has 78.30 GiB memory in use. Of the allocated memory 74.00 GiB is allocated by PyTorch, and 2.90 GiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.\n", i%8, 20+i%50, i%8)
	}
	b.SetBytes(int64(t.Len()))
	for b.Loop() {
		if _, err := Scan(bytes.NewReader(t.Bytes())); err != nil {
			b.Fatal(err)
		}
	}
}

// repeatReader gives a text again and again without holding it more than once.
type repeatReader struct {
	text []byte
	at   int
	left int64
}

func (r *repeatReader) Read(p []byte) (int, error) {
	if r.left <= 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), 64<<10)], r.text[r.at:]) // a pipe gives 64 KiB at most
	r.at = (r.at + n) % len(r.text)
	r.left -= int64(n)
	return n, nil
}

// TestScanMemory checks that what a long log takes does not grow with it.
func TestScanMemory(t *testing.T) {
	size := int64(256 << 20)
	if testing.Short() {
		size = 32 << 20
	}
	text := trainingLog(4 << 20)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	log, err := Scan(&repeatReader{text: text, left: size})
	runtime.ReadMemStats(&after)
	if err != nil {
		t.Fatal(err)
	}
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 24<<20 {
		t.Errorf("%d MiB allocated in all for a log of %d MiB", grown>>20, size>>20)
	}
	if len(log.Messages) != 1 || log.Messages[0].Repeated < int(size/int64(len(text))) {
		t.Errorf("messages %+v", log.Messages)
	}
}
