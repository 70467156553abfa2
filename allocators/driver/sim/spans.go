package sim

import (
	"slices"
	"sort"
)

// span is the range [start, end) of addresses.
type span struct{ start, end uint64 }

func (s span) size() uint64         { return s.end - s.start }
func (s span) overlaps(o span) bool { return s.start < o.end && o.start < s.end }

// subtract is what is left of disjoint ranges without one.
func subtract(list []span, cut span) []span {
	out := make([]span, 0, len(list)+1)
	for _, s := range list {
		if !s.overlaps(cut) {
			out = append(out, s)
			continue
		}
		if s.start < cut.start {
			out = append(out, span{s.start, cut.start})
		}
		if cut.end < s.end {
			out = append(out, span{cut.end, s.end})
		}
	}
	return out
}

// bucketSize is the most ranges of a bucket; a full one becomes two.
const bucketSize = 64

// spanSet is a set of addresses as ranges, sorted, disjoint and never adjacent. They are kept in
// buckets, each with the size of its largest, so that a search passes over a bucket at a time and an
// insertion moves few.
type spanSet struct {
	buckets []bucket // none empty
}

type bucket struct {
	largest uint64
	spans   []span
}

func (b *bucket) measure() {
	b.largest = 0
	for _, s := range b.spans {
		b.largest = max(b.largest, s.size())
	}
}

// find is the bucket that a range starting at addr belongs to: the last that starts at or before it.
func (t *spanSet) find(addr uint64) int {
	i := sort.Search(len(t.buckets), func(i int) bool { return t.buckets[i].spans[0].start > addr })
	return max(i-1, 0)
}

// add puts a range in that shares no byte with the set.
func (t *spanSet) add(s span) {
	if s.size() == 0 {
		return
	}
	if len(t.buckets) == 0 {
		t.buckets = append(t.buckets, bucket{s.size(), []span{s}})
		return
	}
	bi := t.find(s.start)
	b := &t.buckets[bi]
	i := sort.Search(len(b.spans), func(i int) bool { return b.spans[i].start > s.start })
	if i > 0 && b.spans[i-1].end == s.start { // joins the one before it
		s.start = b.spans[i-1].start
		i--
		b.spans = slices.Delete(b.spans, i, i+1)
	}
	if i < len(b.spans) { // joins the one after it, in this bucket
		if b.spans[i].start == s.end {
			s.end = b.spans[i].end
			b.spans = slices.Delete(b.spans, i, i+1)
		}
	} else if bi+1 < len(t.buckets) { // or in the next
		if next := &t.buckets[bi+1]; next.spans[0].start == s.end {
			s.end = next.spans[0].end
			next.spans = slices.Delete(next.spans, 0, 1)
			next.measure()
			if len(next.spans) == 0 {
				t.buckets = slices.Delete(t.buckets, bi+1, bi+2)
				b = &t.buckets[bi]
			}
		}
	}
	b.spans = slices.Insert(b.spans, i, s)
	b.measure()
	t.split(bi)
}

// split halves a bucket that has grown too large.
func (t *spanSet) split(bi int) {
	b := &t.buckets[bi]
	if len(b.spans) <= bucketSize {
		return
	}
	half := len(b.spans) / 2
	upper := bucket{spans: slices.Clone(b.spans[half:])}
	upper.measure()
	b.spans = b.spans[:half]
	b.measure()
	t.buckets = slices.Insert(t.buckets, bi+1, upper)
}

// remove takes a range out of the set; parts of it may be missing already.
func (t *spanSet) remove(cut span) {
	if cut.size() == 0 || len(t.buckets) == 0 {
		return
	}
	for bi := t.find(cut.start); bi < len(t.buckets) && t.buckets[bi].spans[0].start < cut.end; {
		b := &t.buckets[bi]
		// the ranges that overlap are i, i+1, … j-1
		i := sort.Search(len(b.spans), func(i int) bool { return b.spans[i].end > cut.start })
		j := i
		for j < len(b.spans) && b.spans[j].start < cut.end {
			j++
		}
		if i == j {
			bi++
			continue
		}
		var left [2]span
		keep := left[:0]
		if first := b.spans[i]; first.start < cut.start {
			keep = append(keep, span{first.start, cut.start})
		}
		if last := b.spans[j-1]; last.end > cut.end {
			keep = append(keep, span{cut.end, last.end})
		}
		b.spans = slices.Replace(b.spans, i, j, keep...)
		if len(b.spans) == 0 {
			t.buckets = slices.Delete(t.buckets, bi, bi+1)
			continue
		}
		b.measure()
		n := len(t.buckets)
		t.split(bi)
		bi += 1 + len(t.buckets) - n
	}
}

// highest is the range of at least n bytes with the highest addresses.
func (t *spanSet) highest(n uint64) (span, bool) {
	for bi := len(t.buckets) - 1; bi >= 0; bi-- {
		b := &t.buckets[bi]
		if b.largest < n {
			continue
		}
		for i := len(b.spans) - 1; i >= 0; i-- {
			if b.spans[i].size() >= n {
				return b.spans[i], true
			}
		}
	}
	return span{}, false
}

// lowest is the range of at least n bytes with the lowest addresses, of those from addr on.
func (t *spanSet) lowest(n, addr uint64) (span, bool) {
	for bi := range t.buckets {
		b := &t.buckets[bi]
		if b.largest < n {
			continue
		}
		for _, s := range b.spans {
			if s.start >= addr && s.size() >= n {
				return s, true
			}
		}
	}
	return span{}, false
}

// next is the first range that starts at addr or later.
func (t *spanSet) next(addr uint64) (span, bool) {
	for bi := range t.buckets {
		b := &t.buckets[bi]
		if b.spans[len(b.spans)-1].start < addr {
			continue
		}
		i := sort.Search(len(b.spans), func(i int) bool { return b.spans[i].start >= addr })
		return b.spans[i], true
	}
	return span{}, false
}

// holding is the range that has an address.
func (t *spanSet) holding(addr uint64) (span, bool) {
	if len(t.buckets) == 0 {
		return span{}, false
	}
	b := &t.buckets[t.find(addr)]
	i := sort.Search(len(b.spans), func(i int) bool { return b.spans[i].end > addr })
	if i < len(b.spans) && b.spans[i].start <= addr {
		return b.spans[i], true
	}
	return span{}, false
}

// all lists the ranges in order.
func (t *spanSet) all() []span {
	var out []span
	for _, b := range t.buckets {
		out = append(out, b.spans...)
	}
	return out
}
