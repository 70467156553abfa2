package alloctest

import (
	"math/rand/v2"
	"testing"

	"github.com/vramscope/vramscope/allocators"
)

// Trace is a script of about n operations with the shape of a training run: weights that stay, then
// steps of a forward pass that keeps activations and makes short-lived workspaces, and a backward pass
// that frees them in reverse and makes gradients. Every step does the same operations, as programs do;
// the sequence length, and with it most sizes, changes from step to step. About six hundred blocks are
// live at the peak, 1.4 GiB. It is the same every time.
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
	// The activations of a layer: bytes for each token, or a fixed small size.
	activations := []struct {
		perToken, fixed int64
		workspace       bool
		gradient        int64
	}{
		{perToken: 2048}, {fixed: 4096}, {perToken: 6144, workspace: true, gradient: 3 << 20}, {perToken: 2048},
		{perToken: 4096, workspace: true}, {fixed: 20}, {perToken: 2048, gradient: 1 << 20}, {perToken: 8192},
		{perToken: 8192, workspace: true, gradient: 4 << 20}, {perToken: 2048, gradient: 8 << 10}, {perToken: 16},
	}
	for range layers {
		for _, a := range activations {
			if a.gradient > 0 {
				malloc(a.gradient)
			}
		}
	}
	for len(s) < n {
		tokens := int64(64 + r.IntN(33)*32)
		var kept, grads []uint32
		for range layers {
			for _, a := range activations {
				size := a.perToken*tokens + a.fixed
				if a.workspace {
					w := malloc(size / 2)
					kept = append(kept, malloc(size))
					free(w)
				} else {
					kept = append(kept, malloc(size))
				}
			}
		}
		for i := len(kept) - 1; i >= 0; i-- {
			a := activations[i%len(activations)]
			g := malloc(a.perToken*tokens + 512)
			if a.gradient > 0 {
				grads = append(grads, malloc(a.gradient))
			}
			free(kept[i])
			free(g)
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
