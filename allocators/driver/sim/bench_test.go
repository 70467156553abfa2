package sim_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/vramscope/vramscope/allocators/driver/sim"
)

// BenchmarkDriver frees a random segment and allocates another, with so many live. The calls per second
// are those of the driver alone.
func BenchmarkDriver(b *testing.B) {
	for _, live := range []int{300, 3000, 30000} {
		b.Run(fmt.Sprint(live), func(b *testing.B) {
			r := rand.New(rand.NewPCG(1, 2))
			size := func() int64 { return 2 * mib * (1 + r.Int64N(64)) }
			d := sim.New(sim.Config{})
			type block struct {
				addr uint64
				size int64
			}
			blocks := make([]block, live)
			for i := range blocks {
				n := size()
				addr, err := d.Alloc(n)
				if err != nil {
					b.Fatal(err)
				}
				blocks[i] = block{addr, n}
			}
			b.ResetTimer()
			for range b.N {
				i := r.IntN(live)
				d.Free(blocks[i].addr, blocks[i].size)
				n := size()
				addr, err := d.Alloc(n)
				if err != nil {
					b.Fatal(err)
				}
				blocks[i] = block{addr, n}
			}
			b.ReportMetric(2*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mcalls/s")
		})
	}
}

// BenchmarkStart is what a sweep pays for a device.
func BenchmarkStart(b *testing.B) {
	b.ReportAllocs()
	for range b.N {
		sim.New(sim.Config{})
	}
}

func BenchmarkLearn(b *testing.B) {
	steps := readSteps(b, "streams")
	for range b.N {
		sim.Learn(nil, steps)
	}
	b.ReportMetric(float64(b.N*len(steps))/b.Elapsed().Seconds(), "steps/s")
}
