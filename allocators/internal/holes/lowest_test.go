package holes

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// check says what is wrong with a set.
func (s *Lowest) check(c *Chain) error {
	if len(s.first) != len(s.order)+1 || s.first[0] != 0 || !slices.IsSorted(s.first) {
		return fmt.Errorf("%d clusters begin at %v", len(s.order), s.first)
	}
	for at, number := range s.order {
		k := &s.clusters[number]
		if k.at != at || k.n == 0 && len(s.order) > 1 {
			return fmt.Errorf("cluster %d at %d: %+v", number, at, *k)
		}
		if top := s.top[at/groupSize]; top < s.limit[at] {
			return fmt.Errorf("cluster at %d: limit %d, of the group %d", at, s.limit[at], top)
		}
		for i := range k.size {
			if i >= k.n {
				if k.size[i] != -1 {
					return fmt.Errorf("cluster at %d: place %d of %d has size %d", at, i, k.n, k.size[i])
				}
				continue
			}
			p := c.At(k.id[i])
			if p.a != number || p.b != uint32(i) || p.Size != k.size[i] || p.Addr<<placeBits|uint64(i) != k.key[i] {
				return fmt.Errorf("cluster at %d, place %d: piece %+v, key %x, size %d", at, i, *p, k.key[i], k.size[i])
			}
			if p.Size > s.limit[at] || p.Addr < s.first[at] || p.Addr+uint64(p.Size) > s.first[at+1] {
				return fmt.Errorf("cluster from %d to %d, limit %d: piece %+v", s.first[at], s.first[at+1], s.limit[at], *p)
			}
		}
	}
	return nil
}

// TestLowest runs random operations on a range cut into pieces against ByAddr, which knows the holes by
// their addresses alone.
func TestLowest(t *testing.T) {
	most := 0
	rapid.Check(t, func(t *rapid.T) {
		const size = 1 << 22
		c, s := NewChain(), NewLowest()
		var twin ByAddr
		whole := c.Append(None, 0, size)
		c.Append(whole, size, 1) // a hole is never the last piece
		s.Put(&c, whole)
		twin.Put(0, size)
		var live []uint32
		seed := rapid.Uint64().Draw(t, "seed")
		biggest := rapid.SampledFrom([]int64{300, 3000, 40000}).Draw(t, "largest request")
		random := func(n int64) int64 {
			seed = seed*6364136223846793005 + 1442695040888963407
			return int64(seed>>33) % n
		}
		n := rapid.SampledFrom([]int{20, 200, 2000, 10000}).Draw(t, "n")
		for k := range n {
			if random(8) < 1+int64(6*k/n) && len(live) > 0 { // at first it fills, then it empties
				i := random(int64(len(live)))
				id := live[i]
				live = slices.Delete(live, int(i), int(i)+1)
				twin.Put(c.At(id).Addr, c.At(id).Size)
				s.Put(&c, id)
			} else {
				n := random(biggest) + 1
				from := uint64(random(size) * random(2))
				place, ok := twin.Find(n, from)
				id := s.Cut(&c, n, from)
				if ok != (id != None) {
					t.Fatalf("%d bytes from %d: piece %d, twin %v", n, from, id, ok)
				}
				if ok {
					if at := twin.Take(place, n); at != c.At(id).Addr || c.At(id).Size != n {
						t.Fatalf("%d bytes from %d: piece %+v, twin at %d", n, from, *c.At(id), at)
					}
					live = append(live, id)
				}
			}
			most = max(most, len(s.order))
			if k%64 != 0 {
				continue
			}
			if err := s.check(&c); err != nil {
				t.Fatal(err)
			}
			if s.Largest() != twin.Largest() {
				t.Fatalf("largest %d, twin %d", s.Largest(), twin.Largest())
			}
		}
		for _, id := range live {
			s.Put(&c, id)
			if err := s.check(&c); err != nil {
				t.Fatal(err)
			}
		}
		if s.Largest() != size || len(s.order) != 1 {
			t.Fatalf("all is free, the largest hole has %d bytes, in %d clusters", s.Largest(), len(s.order))
		}
	})
	if most <= 2*groupSize {
		t.Errorf("no more than %d clusters, too few for several groups", most)
	}
}
