package caching_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/vramscope/vramscope/allocators"
	"github.com/vramscope/vramscope/allocators/caching"
)

// A bump is a driver whose state is a few numbers, so that it can be put back.
type bump struct{ next, space, used, capacity int64 }

func newBump(capacity int64) *bump { return &bump{next: 1 << 40, space: 1 << 33, capacity: capacity} }

func (b *bump) take(size int64) error {
	if b.capacity > 0 && b.used+size > b.capacity {
		return allocators.ErrNoMemory
	}
	b.used += size
	return nil
}

func (b *bump) Alloc(size int64) (uint64, error) {
	if err := b.take(size); err != nil {
		return 0, err
	}
	b.next -= (size + granule) / granule * granule // downwards, as on a GPU
	return uint64(b.next), nil
}

func (b *bump) Reserve(size int64) (uint64, error) {
	b.space += 1 << 39
	return uint64(b.space), nil
}

func (b *bump) Free(_ uint64, size int64)      { b.used -= size }
func (b *bump) Release(uint64, int64)          {}
func (b *bump) Map(_ uint64, size int64) error { return b.take(size) }
func (b *bump) Unmap(_ uint64, size int64)     { b.used -= size }
func (b *bump) Memory() (free, total int64)    { return b.capacity - b.used, b.capacity }

// seen is what can be seen of an allocator, to be compared.
func seen(a *caching.Allocator) string {
	s := *a.Stats()
	return fmt.Sprintf("%v\n%+v\n%+v\n%+v", layout(a), a.Detail(), s, a.Fragmentation())
}

func play(a *caching.Allocator, list []op) []string {
	var out []string
	for _, o := range list {
		err := o.apply(a)
		addr, size, ok := a.Block(o.block)
		out = append(out, fmt.Sprintf("%v: %v, %#x+%d %v, reserved %d", o, err, addr, size, ok, a.Reserved()))
	}
	return out
}

// TestCopy: a copy is the same and goes on in the same way, whatever its memory held before, and neither of
// the two notices what is done to the other.
func TestCopy(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := setups(t)
		list := ops(t, &s)
		cut := roll(t, len(list)+1, "cut")
		driver := newBump(s.device.Capacity)
		a := s.build(driver)
		play(a, list[:cut])

		c := new(caching.Allocator)
		if roll(t, 2, "used before") == 1 {
			other := setups(t)
			c = other.build(newBump(other.device.Capacity))
			play(c, ops(t, &other))
		}
		a.CopyTo(c)
		then, state := seen(a), *driver
		if got := seen(c); got != then {
			t.Fatalf("the copy is\n%s\nof\n%s", got, then)
		}
		want := play(a, list[cut:])
		if got := seen(c); got != then {
			t.Fatalf("the copy was\n%s\nand is\n%s", then, got)
		}
		end := seen(a)
		*driver = state
		if got := play(c, list[cut:]); !slices.Equal(got, want) {
			t.Fatalf("the copy went on with\n%q, the original with\n%q", got, want)
		}
		if got := seen(c); got != end {
			t.Fatalf("the copy ends as\n%s\nthe original as\n%s", got, end)
		}
		if got := seen(a); got != end {
			t.Fatalf("the original was\n%s\nand is\n%s", end, got)
		}
	})
}
