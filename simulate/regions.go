package simulate

import "slices"

// region is memory that belongs to one pool: a classic segment, or the address space of an expandable one
// as far as it is known.
type region struct {
	addr       uint64
	size       int64
	pool       uint32
	stream     uint32
	small      bool
	expandable bool
	sure       bool // the pool is told by the file, not inferred
	old        bool // it existed before the recording
}

func (r *region) end() uint64 { return r.addr + uint64(r.size) }

// regions finds the segment of an address. A segment lives from its allocation to its release: an address
// that is used again belongs to another one.
type regions struct {
	list []region // in the order of addresses
	last int      // index of the last find, a good guess for the next
}

func (g *regions) search(addr uint64) int {
	i, _ := slices.BinarySearchFunc(g.list, addr, func(r region, a uint64) int {
		switch {
		case r.end() <= a:
			return -1
		case r.addr > a:
			return 1
		}
		return 0
	})
	return i
}

// at is the region that holds an address, or nil.
func (g *regions) at(addr uint64) *region {
	if g.last < len(g.list) {
		if r := &g.list[g.last]; r.addr <= addr && addr < r.end() {
			return r
		}
	}
	i := g.search(addr)
	if i < len(g.list) && g.list[i].addr <= addr {
		g.last = i
		return &g.list[i]
	}
	return nil
}

// add puts a region in, in place of whatever overlaps it.
func (g *regions) add(r region) {
	i := g.search(r.addr)
	j := i
	for j < len(g.list) && g.list[j].addr < r.end() {
		j++
	}
	g.list = slices.Replace(g.list, i, j, r)
}

// remove takes out the region that begins at an address.
func (g *regions) remove(addr uint64) {
	if i := g.search(addr); i < len(g.list) && g.list[i].addr == addr {
		g.list = slices.Delete(g.list, i, i+1)
	}
}

func (g *regions) has(pool uint32) bool {
	return slices.ContainsFunc(g.list, func(r region) bool { return r.pool == pool })
}

func (g *regions) clone() regions { return regions{list: slices.Clone(g.list), last: g.last} }
