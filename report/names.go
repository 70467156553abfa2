package report

import (
	"fmt"

	"github.com/vramscope/vramscope/trace"
)

// PoolName names a pool by what the file calls it, or by its numbers there. Pools behind those of the file are what
// following it found out.
func PoolName(dev *trace.Device, pool uint32) string {
	if int(pool) < len(dev.PoolInfo) && dev.PoolInfo[pool].Name != "" {
		return dev.PoolInfo[pool].Name
	}
	if pool == uint32(trace.PoolDefault) {
		return "default"
	}
	if int(pool) >= len(dev.Pools) {
		return fmt.Sprintf("private pool without a name %d", int(pool)-max(len(dev.Pools), 1)+1)
	}
	switch p := dev.Pools[pool]; {
	case p[1] == 0:
		return fmt.Sprintf("graph pool %d", p[0])
	case p[0] == 0:
		return fmt.Sprintf("MemPool %d", p[1])
	default:
		return fmt.Sprintf("pool %d,%d", p[0], p[1])
	}
}

// StreamName is a stream's handle: small ones are numbers, others addresses.
func StreamName(dev *trace.Device, s trace.StreamID) string {
	if int(s) >= len(dev.Streams) {
		return "unknown"
	}
	if h := dev.Streams[s]; h >= 1<<16 {
		return fmt.Sprintf("%#x", h)
	}
	return fmt.Sprint(dev.Streams[s])
}
