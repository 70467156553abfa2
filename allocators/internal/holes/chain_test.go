package holes

import (
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

// pieces walks a range from its first piece, checking the links on the way.
func pieces(t *testing.T, c *Chain, first uint32) (sizes []int64) {
	t.Helper()
	prev := None
	for id := first; id != None; id = c.At(id).Next {
		p := c.At(id)
		if p.Prev != prev {
			t.Fatalf("piece %d follows %d and names %d", id, prev, p.Prev)
		}
		if prev != None && c.At(prev).Addr+uint64(c.At(prev).Size) != p.Addr {
			t.Fatalf("piece %d at %d does not begin where %+v ends", id, p.Addr, *c.At(prev))
		}
		sizes = append(sizes, p.Size)
		prev = id
	}
	return sizes
}

func TestChain(t *testing.T) {
	c := NewChain()
	want := func(first uint32, sizes ...int64) {
		t.Helper()
		if diff := gocmp.Diff(sizes, pieces(t, &c, first)); diff != "" {
			t.Error(diff)
		}
	}
	a := c.Append(None, 1000, 100)
	b := c.Split(a, 30)
	d := c.Split(b, 50)
	want(a, 30, 50, 20)
	e := c.Append(d, 1100, 7)
	want(a, 30, 50, 20, 7)
	other := c.Append(None, 5000, 10)
	want(other, 10)
	c.Join(b)
	want(a, 30, 70, 7)
	if f := c.Split(a, 10); f != d {
		t.Errorf("the number of the piece that was joined is not used again: %d, not %d", f, d)
	}
	want(a, 10, 20, 70, 7)
	c.Drop(e)
	want(a, 10, 20, 70)
	low := c.SplitLow(d, 5)
	want(a, 10, 5, 15, 70)
	if f := c.At(low); f.Addr != 1010 || c.At(d).Addr != 1015 {
		t.Errorf("the low part is at %d, the rest at %d", f.Addr, c.At(d).Addr)
	}
	c.JoinLow(d)
	want(a, 10, 20, 70)
	c.Join(a)
	c.Join(a)
	want(a, 100)
	c.Drop(a)
	if g := c.Append(None, 1, 2); g != a {
		t.Errorf("the number of the piece that was dropped is not used again: %d, not %d", g, a)
	}
}
