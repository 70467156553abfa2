package alloctest

import (
	"math/rand/v2"
	"testing"

	"github.com/vramscope/vramscope/allocators"
)

// Trace is a script of about n operations with the shape of a training run: weights that stay, then
// steps of a forward pass that keeps activations and makes short-lived workspaces, and a backward pass
// that frees them in reverse and makes gradients. The sequence length, and with it most sizes, changes
// from step to step. About a thousand blocks are live at the peak, 4 GiB. It is the same every time.
func Trace(n int) Script {
	r := rand.New(rand.NewPCG(20, 24))
	var s Script
	next := uint32(0)
	malloc := func(size int64) uint32 {
		s = append(s, Op{Kind: Malloc, Block: next, Size: size})
		next++
		return next - 1
	}
	free := func(b uint32) { s = append(s, Op{Kind: Free, Block: b}) }

	const layers = 32
	// Bytes an activation takes for each token, in the order in which a layer makes them; 0 for one of
	// a fixed small size.
	perToken := []int64{2048, 0, 6144, 2048, 4096, 0, 2048, 8192, 8192, 2048, 16}
	for range layers * 6 {
		malloc(int64(1+r.IntN(64)) * 16 << 10)
	}
	for len(s) < n {
		tokens := int64(64 + r.IntN(33)*32)
		var kept [layers][]uint32
		for l := range layers {
			for _, b := range perToken {
				if b == 0 {
					kept[l] = append(kept[l], malloc(int64(4+r.IntN(2000))))
					continue
				}
				if r.IntN(3) == 0 {
					w := malloc(tokens * b / 2)
					kept[l] = append(kept[l], malloc(tokens*b))
					free(w)
				} else {
					kept[l] = append(kept[l], malloc(tokens*b))
				}
			}
		}
		var grads []uint32
		for l := layers - 1; l >= 0; l-- {
			for i := len(kept[l]) - 1; i >= 0; i-- {
				g := malloc(tokens*perToken[i%len(perToken)] + 512)
				if r.IntN(4) == 0 {
					grads = append(grads, malloc(int64(1+r.IntN(64))*16<<10))
				}
				free(kept[l][i])
				free(g)
			}
		}
		for _, g := range grads {
			free(g)
		}
	}
	return s[:n]
}

// Benchmark runs a trace of a million operations through fresh models on a device without limit and
// reports millions of operations a second, by the clock and by the processor time used.
func Benchmark(b *testing.B, model New) {
	b.Helper()
	const n = 1_000_000
	ops := Trace(n)
	var peak, live int64
	start := cpuTime()
	for b.Loop() {
		a := model(NewDriver(0))
		for i := range ops {
			op := &ops[i]
			if op.Kind == Malloc {
				if err := a.Malloc(allocators.Request{Block: op.Block, Size: op.Size, Stream: op.Stream}); err != nil {
					b.Fatal(err)
				}
			} else {
				a.Free(op.Block, false)
			}
		}
		peak, live = a.Stats().Reserved.Peak, a.Stats().Requested.Peak
	}
	used := cpuTime() - start
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mop/s")
	if used > 0 {
		b.ReportMetric(float64(n)*float64(b.N)/used.Seconds()/1e6, "Mop/cpu-s")
	}
	b.ReportMetric(float64(peak)/float64(live), "reserved/live")
}
