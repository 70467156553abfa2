package report

import (
	"fmt"
	"strings"

	"github.com/vramscope/vramscope/trace"
)

// Beside sums up memory that no device is charged with: pinned host memory and the like.
type Beside struct {
	Kind          string
	Allocs, Frees int
	Peak, End     int64 // bytes
}

// besides sums up what a trace has of such memory.
func besides(t *trace.Trace) []Beside {
	var out []Beside
	for i := range t.Beside {
		d := &t.Beside[i]
		b := Beside{Kind: d.Name}
		sizes := make([]int64, d.NumBlocks)
		for _, old := range d.Initial.Blocks {
			sizes[old.ID] = old.Requested
			b.End += old.Requested
		}
		b.Peak = b.End
		for _, e := range d.Events.All() {
			switch e.Op {
			case trace.OpAlloc:
				b.Allocs++
				sizes[e.Block] = e.Size
				b.End += e.Size
			case trace.OpFree:
				b.Frees++
				if e.Block != trace.NoBlock {
					b.End -= sizes[e.Block]
				}
			}
			b.Peak = max(b.Peak, b.End)
		}
		out = append(out, b)
	}
	return out
}

type besideJSON struct {
	Kind   string `json:"kind"`
	Allocs int    `json:"allocs"`
	Frees  int    `json:"frees"`
	Peak   int64  `json:"peak_bytes"`
	End    int64  `json:"end_bytes"`
}

func besideList(t *trace.Trace) []besideJSON {
	out := []besideJSON{}
	for _, b := range besides(t) {
		out = append(out, besideJSON(b))
	}
	return out
}

// besides writes a line for each kind.
func (p *page) besides(t *trace.Trace) {
	for _, b := range besides(t) {
		p.line("  beside it: %s, %s, %s; peak %s, %s at the end", b.Kind, plural(b.Allocs, "alloc"), plural(b.Frees, "free"), Bytes(b.Peak), Bytes(b.End))
	}
}

// poolNames says which pools a device has beside the default one, as far as they have names.
func poolNames(d *trace.Device) string {
	n := len(d.Pools) - 1
	if len(d.PoolInfo) != len(d.Pools) {
		return plural(n, "private pool")
	}
	const shown = 4
	var names []string
	for _, p := range d.PoolInfo[1:min(len(d.PoolInfo), shown+1)] {
		names = append(names, p.Name)
	}
	if n > shown {
		names = append(names, fmt.Sprintf("%s more", plural(n-shown, "pool")))
	}
	return strings.Join(names, ", ")
}

// reservedThen is what was reserved at a failure, nil where the recording does not tell.
func (d *Device) reservedThen(o *OOM) *int64 {
	if d.Trace.Content != trace.Decisions && o.Reserved == 0 {
		return nil
	}
	return &o.Reserved
}

// amountAsked is how much a request wanted, which not every recording tells.
func amountAsked(n int64) string {
	if n <= 0 {
		return "an amount that was not recorded"
	}
	return Bytes(n)
}
