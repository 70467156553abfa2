package caching

// tops knows the largest free block of all pools and streams at once. A set of free blocks (of one pool and one stream)
// tells when its largest changes; what it told before stays in the heap until it comes to the top. So a change costs the
// logarithm of the number of sets, and a program of many streams does not look at all of them for each new peak. As long
// as the sets are few it is not kept: looking at all of them then costs less.
//
//	current[s] = largest block of set s in bytes, 0 if it is empty
//	each set that is not empty has an entry with its current size in the heap
type tops struct {
	kept    bool
	heap    []top // the largest first; entries that are not current are skipped
	current []int64
}

type top struct {
	size int64
	set  int32
}

// fewSets are looked at one by one.
const fewSets = 16

// keepTops begins to keep the largest, once the sets are many.
func (a *Allocator) keepTops() {
	a.tops.kept = true
	for _, p := range a.pools {
		for _, s := range p.free {
			if s != nil {
				s.most = s.largest()
				a.tops.current[s.top] = s.most
			}
		}
	}
	a.tops.rebuild()
}

// largestFree is the size of the largest free block of all, 0 if there is none.
func (a *Allocator) largestFree() (most int64) {
	if a.tops.kept {
		return a.tops.largest()
	}
	for _, p := range a.pools {
		for _, s := range p.free {
			if s != nil {
				most = max(most, s.largest())
			}
		}
	}
	return most
}

// join adds a set, an empty one, and gives its number.
func (t *tops) join() int32 {
	t.current = append(t.current, 0)
	return int32(len(t.current) - 1)
}

// change notes the largest block of a set.
func (t *tops) change(set int32, size int64) {
	t.current[set] = size
	if size == 0 {
		return
	}
	if len(t.heap) > 64+4*len(t.current) {
		t.rebuild()
		return
	}
	t.heap = append(t.heap, top{size, set})
	for i := len(t.heap) - 1; i > 0; {
		parent := (i - 1) / 2
		if t.heap[parent].size >= t.heap[i].size {
			break
		}
		t.heap[parent], t.heap[i] = t.heap[i], t.heap[parent]
		i = parent
	}
}

// largest is the size of the largest free block, 0 if there is none.
func (t *tops) largest() int64 {
	for len(t.heap) > 0 {
		if x := t.heap[0]; t.current[x.set] == x.size {
			return x.size
		}
		last := len(t.heap) - 1
		t.heap[0] = t.heap[last]
		t.heap = t.heap[:last]
		t.sink(0)
	}
	return 0
}

// rebuild leaves out what is not current.
func (t *tops) rebuild() {
	t.heap = t.heap[:0]
	for set, size := range t.current {
		if size > 0 {
			t.heap = append(t.heap, top{size, int32(set)})
		}
	}
	for i := len(t.heap)/2 - 1; i >= 0; i-- {
		t.sink(i)
	}
}

// sink moves an entry down to where none below is larger.
func (t *tops) sink(i int) {
	for {
		child := 2*i + 1
		if child >= len(t.heap) {
			return
		}
		if child+1 < len(t.heap) && t.heap[child+1].size > t.heap[child].size {
			child++
		}
		if t.heap[i].size >= t.heap[child].size {
			return
		}
		t.heap[i], t.heap[child] = t.heap[child], t.heap[i]
		i = child
	}
}
