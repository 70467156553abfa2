package report

import (
	"math/bits"
	"strings"

	"github.com/vramscope/vramscope/trace"
)

// Bin counts the chunks of a range of sizes, as the BFC allocator sorts them: from Size up to twice that, the last one
// without an end.
type Bin struct {
	Size             int64
	Chunks, InUse    int
	Bytes, FreeBytes int64
	LargestFree      int64
}

const (
	firstBin = 256
	lastBin  = 256 * mib
)

// BinsOf sorts the chunks of an instant by their size. Empty bins are left out.
func BinsOf(s *trace.State) []Bin {
	const n = 21
	var all [n]Bin
	for i := range s.Blocks {
		b := &s.Blocks[i]
		k := 0
		if b.Size >= firstBin {
			k = min(n-1, bits.Len64(uint64(b.Size))-bits.Len64(firstBin))
		}
		bin := &all[k]
		bin.Chunks++
		bin.Bytes += b.Size
		if b.State == trace.BlockFree {
			bin.FreeBytes += b.Size
			bin.LargestFree = max(bin.LargestFree, b.Size)
		} else {
			bin.InUse++
		}
	}
	var out []Bin
	for k := range all {
		if all[k].Chunks > 0 {
			all[k].Size = firstBin << k
			out = append(out, all[k])
		}
	}
	return out
}

// MapOf draws what is held, in the order of addresses, as so many cells of equal size: # is in use, . is free and + is
// some of each.
func MapOf(s *trace.State, cells int) string {
	var held int64
	for i := range s.Blocks {
		held += s.Blocks[i].Size
	}
	if held == 0 {
		return ""
	}
	used, free := make([]bool, cells), make([]bool, cells)
	var at int64
	for i := range s.Blocks {
		b := &s.Blocks[i]
		from, to := cell(at, held, cells), cell(at+b.Size-1, held, cells)
		for c := from; c <= to; c++ {
			used[c] = used[c] || b.State != trace.BlockFree
			free[c] = free[c] || b.State == trace.BlockFree
		}
		at += b.Size
	}
	var out strings.Builder
	for c := range cells {
		switch {
		case used[c] && free[c]:
			out.WriteByte('+')
		case used[c]:
			out.WriteByte('#')
		default:
			out.WriteByte('.')
		}
	}
	return out.String()
}

// cell is the one that a byte lies in.
func cell(at, held int64, cells int) int {
	hi, lo := bits.Mul64(uint64(max(at, 0)), uint64(cells))
	c, _ := bits.Div64(hi, lo, uint64(held))
	return min(int(c), cells-1)
}

const (
	mapWidth = 64
	mapRows  = 4
)

// chunks writes the bins and the map of an instant.
func (p *page) chunks(s *trace.State) {
	p.fence()
	p.line("  %22s %8s %8s %11s %11s %12s", "chunks of", "number", "in use", "bytes", "free", "largest free")
	for _, b := range BinsOf(s) {
		upto := " – " + Bytes(2*b.Size)
		if b.Size == lastBin {
			upto = " and more"
		}
		p.line("  %22s %8s %8s %11s %11s %12s", Bytes(b.Size)+upto, Count(b.Chunks), Count(b.InUse), Bytes(b.Bytes), Bytes(b.FreeBytes), Bytes(b.LargestFree))
	}
	picture := MapOf(s, mapWidth*mapRows)
	for i := 0; i < len(picture); i += mapWidth {
		p.line("  %s", picture[i:i+mapWidth])
	}
	p.fence()
}
