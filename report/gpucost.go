package report

import (
	"fmt"
	"io"

	"github.com/vramscope/vramscope/allocators/driver/cuda"
	"github.com/vramscope/vramscope/simulate/gpu"
)

// GPUCost is how long a driver's calls take on a device, by size.
type GPUCost struct {
	Device cuda.Info
	Costs  []gpu.Cost
}

type gpuCostJSON struct {
	Schema string         `json:"schema"`
	GPU    gpuJSON        `json:"gpu"`
	Calls  []callCostJSON `json:"calls"`
}

type callCostJSON struct {
	Size int64 `json:"size_bytes"`
	callJSON
}

// WriteJSON renders the times for programs, schema vramscope/gpu-cost/v1.
func (c *GPUCost) WriteJSON(w io.Writer) error {
	out := gpuCostJSON{Schema: "vramscope/gpu-cost/v1", GPU: newGPUJSON(c.Device, -1), Calls: []callCostJSON{}}
	for i := range c.Costs {
		x := &c.Costs[i]
		out.Calls = append(out.Calls, callCostJSON{x.Size, newCallJSON(x.Kind, &x.Timing)})
	}
	return WriteJSON(w, out)
}

// WriteText renders the times for people: a row for each size, a column for each call.
func (c *GPUCost) WriteText(w io.Writer, style Style) error {
	p := &page{w: w, style: style}
	p.line("%s", p.bold(fmt.Sprintf("%s (device %d): how long the driver's calls take, median and 99th percentile", c.Device.Name, c.Device.Index)))
	p.line("")
	kinds := []cuda.Kind{cuda.Alloc, cuda.Free, cuda.Create, cuda.Map, cuda.Access, cuda.Unmap, cuda.Discard}
	header := []any{"size"}
	for _, k := range kinds {
		header = append(header, k.String())
	}
	tab := Grid(header...)
	tab.SetColumnConfigs(rightAligned(1, len(header)))
	for i := 0; i < len(c.Costs); {
		size := c.Costs[i].Size
		row := make([]any, len(header))
		row[0] = Bytes(size)
		for j := range kinds {
			row[j+1] = "–"
		}
		for ; i < len(c.Costs) && c.Costs[i].Size == size; i++ {
			for j, k := range kinds {
				if x := &c.Costs[i]; x.Kind == k {
					row[j+1] = Micros(x.Quantile(0.5)) + ", " + Micros(x.Quantile(0.99))
				}
			}
		}
		tab.AppendRow(row)
	}
	p.grid(tab)
	return p.err
}
