package stream_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/vramscope/vramscope/allocators"
	"github.com/vramscope/vramscope/allocators/stream"
)

// TestScripts runs small sequences, each of which settles a rule. What they expect was seen on a GPU.
//
//	a BLOCK BYTES [STREAM [POOL]]   f BLOCK   p BLOCK, a pending free   c BLOCK, the end of its wait
//	t KEEP [POOL], a trim   S STREAM and D, synchronisations
//
// The result of an operation is where the block lies, if it was given one, and what is reserved and used
// in all pools, in MiB.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			r := recording{opt: stream.Options{ReleaseThreshold: stream.KeepAll}}
			for _, arg := range d.CmdArgs {
				if err := r.set(arg.Key, arg.Vals[0]); err != nil {
					d.Fatalf(t, "%v", err)
				}
			}
			a := r.allocator()
			bases := map[int64]uint64{}
			var out strings.Builder
			for _, line := range strings.Split(d.Input, "\n") {
				op := line[:1]
				var n [4]int64
				fmt.Sscan(line[1:], &n[0], &n[1], &n[2], &n[3]) // what is not there stays 0
				switch op {
				case "a":
					req := allocators.Request{Block: uint32(n[0]), Size: n[1], Stream: uint32(n[2]), Pool: uint32(n[3])}
					if err := a.Malloc(req); err != nil {
						fmt.Fprintf(&out, "refused ")
						break
					}
					addr, _, _ := a.Block(req.Block)
					if _, ok := bases[n[3]]; !ok {
						bases[n[3]] = addr // the first block of a pool lies at its start
					}
					fmt.Fprintf(&out, "at %.4f ", float64(addr-bases[n[3]])/(1<<20))
				case "f", "p":
					a.Free(uint32(n[0]), op == "p")
				case "c":
					a.Complete(uint32(n[0]))
				case "t":
					a.Trim(uint32(n[1]), n[0])
				case "S":
					a.SynchronizeStream(uint32(n[0]))
				case "D":
					a.Synchronize()
				default:
					d.Fatalf(t, "no operation %q", line)
				}
				fmt.Fprintf(&out, "reserved %d used %.4f\n", a.Stats().Reserved.Current>>20, float64(a.Used().Current)/(1<<20))
			}
			return out.String()
		})
	})
}
