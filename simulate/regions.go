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

// add puts a region in. Of what overlaps it, classic segments go, and address space is cut.
func (g *regions) add(r region) {
	i := g.search(r.addr)
	j := i
	var front, back []region
	for ; j < len(g.list) && g.list[j].addr < r.end(); j++ {
		o := g.list[j]
		if o.expandable && o.addr < r.addr {
			front = []region{o.part(o.addr, r.addr)}
		}
		if o.expandable && o.end() > r.end() {
			back = []region{o.part(r.end(), o.end())}
		}
	}
	g.list = slices.Replace(g.list, i, j, slices.Concat(front, []region{r}, back)...)
}

// addSpace puts the address space of an expandable segment in, as far as nothing else is there.
func (g *regions) addSpace(r region) {
	i := g.search(r.addr)
	j := i
	var list []region
	at := r.addr
	for ; j < len(g.list) && g.list[j].addr < r.end(); j++ {
		if o := g.list[j]; at < o.addr {
			list = append(list, r.part(at, o.addr))
		}
		list = append(list, g.list[j])
		at = g.list[j].end()
	}
	if at < r.end() {
		list = append(list, r.part(at, r.end()))
	}
	g.list = slices.Replace(g.list, i, j, list...)
}

func (r region) part(from, to uint64) region {
	r.addr, r.size = from, int64(to-from)
	return r
}

// remove takes out the region that begins at an address.
func (g *regions) remove(addr uint64) {
	if i := g.search(addr); i < len(g.list) && g.list[i].addr == addr {
		g.list = slices.Delete(g.list, i, i+1)
	}
}

// removeSpace takes out the address space of the expandable segment that begins at an address.
func (g *regions) removeSpace(addr uint64, size int64) {
	i := g.search(addr)
	if i == len(g.list) || g.list[i].addr != addr {
		return
	}
	first := g.list[i]
	j := i
	for j < len(g.list) && g.list[j].addr < addr+uint64(size) {
		j++
	}
	rest := slices.DeleteFunc(g.list[i:j], func(r region) bool {
		return r.expandable && r.pool == first.pool && r.stream == first.stream && r.small == first.small
	})
	g.list = append(g.list[:i+len(rest)], g.list[j:]...)
}

// over lists the regions that overlap a range.
func (g *regions) over(addr uint64, size int64) []region {
	i := g.search(addr)
	j := i
	for j < len(g.list) && g.list[j].addr < addr+uint64(size) {
		j++
	}
	return g.list[i:j]
}

func (g *regions) has(pool uint32) bool {
	return slices.ContainsFunc(g.list, func(r region) bool { return r.pool == pool })
}

func (g *regions) clone() regions { return regions{list: slices.Clone(g.list), last: g.last} }
