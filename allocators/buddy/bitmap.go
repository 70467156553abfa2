package buddy

import "math/bits"

// A bitmap is a set of indices that gives its least member at once. The bits lie in words of 64; above
// them lie two levels with a bit for each word below that is not zero:
//
//	bit w of l1 is set  ==  word w of l0 is not 0
//	bit w of l2 is set  ==  word w of l1 is not 0
//	words of l2 before low are 0
//
// A word of l2 stands for 262,144 indices, so there are few of them and a walk from low finds the first.
type bitmap struct {
	l0, l1, l2 []uint64
	low        int
	n          int // members
}

// grow makes room for indices below size.
func (b *bitmap) grow(size int) {
	for _, l := range []*[]uint64{&b.l0, &b.l1, &b.l2} {
		size = (size + 63) / 64
		if have := len(*l); have < size {
			words := make([]uint64, max(size, have+have/2))
			copy(words, *l)
			*l = words
		}
		size = len(*l)
	}
}

func (b *bitmap) has(i int) bool {
	w := uint(i) >> 6
	return w < uint(len(b.l0)) && b.l0[w]>>(uint(i)&63)&1 != 0
}

func (b *bitmap) add(index int) {
	i := uint(index)
	b.n++
	w := &b.l0[i>>6]
	was := *w
	*w = was | 1<<(i&63)
	if was != 0 {
		return
	}
	i >>= 6
	w = &b.l1[i>>6]
	was = *w
	*w = was | 1<<(i&63)
	if was != 0 {
		return
	}
	i >>= 6
	b.l2[i>>6] |= 1 << (i & 63)
	b.low = min(b.low, int(i>>6))
}

func (b *bitmap) remove(index int) {
	i := uint(index)
	b.n--
	w := &b.l0[i>>6]
	*w &^= 1 << (i & 63)
	if *w != 0 {
		return
	}
	i >>= 6
	w = &b.l1[i>>6]
	*w &^= 1 << (i & 63)
	if *w != 0 {
		return
	}
	i >>= 6
	b.l2[i>>6] &^= 1 << (i & 63)
}

// least is the smallest member; the set must not be empty.
func (b *bitmap) least() int {
	for b.l2[b.low] == 0 {
		b.low++
	}
	i := uint(b.low)
	i = i<<6 | uint(bits.TrailingZeros64(b.l2[i]))
	i = i<<6 | uint(bits.TrailingZeros64(b.l1[i]))
	return int(i<<6 | uint(bits.TrailingZeros64(b.l0[i])))
}
