package caching

// EachFree shows the sets of free blocks to the tests of package caching_test: each block once, in the
// order in which its set holds it.
func (a *Allocator) EachFree(f func(pool uint32, small bool, stream uint32, addr uint64, size int64)) {
	for _, p := range a.pools {
		for stream, s := range p.free {
			if s == nil {
				continue
			}
			for at := s.first(); at.ok(); at = s.next(at) {
				e := s.at(at)
				f(p.id, p.small, uint32(stream), e.addr, e.size)
			}
		}
	}
}
