package sim

import (
	"encoding/binary"
	"testing"
)

// FuzzDriver makes any calls and events whatever, with addresses and sizes that fit nothing as well as
// ones that do, and looks at the state after each.
func FuzzDriver(f *testing.F) {
	f.Add([]byte{0, 0, 20, 0, 0, 2, 1, 0, 0, 0, 0, 40})
	f.Add([]byte{3, 0, 0, 0, 1, 34, 0, 0, 40, 5, 3, 10, 1, 0, 0, 6, 1, 9, 7, 2, 30, 8, 0, 3, 0, 0, 12, 2, 0, 0})
	f.Add([]byte{9, 0, 34, 0, 0, 10, 0, 0, 10, 10, 5, 1, 11, 0, 200, 12, 0, 80, 13, 3, 1, 14, 200, 7, 1, 1, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 3*400 {
			return
		}
		next := func() (a, b, c byte) {
			var three [3]byte
			copy(three[:], data)
			data = data[min(3, len(data)):]
			return three[0], three[1], three[2]
		}
		first, _, third := next()
		config := Config{Policy: Policy(first % 4), Capacity: int64(third) * 64 * mib, NoBaseHole: first&4 != 0}
		if first&8 != 0 {
			config.Held = []Range{{DefaultBase - 500*mib, 100 * mib}, {DefaultBase + uint64(third)*mib, 20 * mib}, {3, int64(third)}}
			config.Reserved = []Range{{reserveBottom, 1 << 30}, {reserveBottom + 1, 1 << 30}, {reserveBottom, 64 * mib}, {DefaultBase - 400*mib, 32 * mib}}
			config.Mapped = int64(third)
		}
		d := New(config)
		most := max(d.capacity, d.used) // what is held at the start can be more than there is
		var blocks, reservations []had
		for len(data) > 0 {
			op, b, c := next()
			size := int64(c) * mib
			if b&1 != 0 {
				size += int64(b) - 9
			}
			if b == 255 {
				size = int64(binary.LittleEndian.Uint64(append([]byte{c, b, c, b, c, b, c}, b)))
			}
			at := DefaultBase + uint64(b)*16*mib - 2048*mib
			switch op % 16 {
			case 0, 1, 2:
				if addr, err := d.Alloc(size); err == nil {
					blocks = append(blocks, had{addr, size})
				}
			case 3, 4:
				if len(blocks) > 0 {
					i := int(c) % len(blocks)
					d.Free(blocks[i].addr, blocks[i].size+int64(op%16-3))
					blocks = append(blocks[:i], blocks[i+1:]...)
				}
			case 5:
				if addr, err := d.Reserve(size * 64); err == nil {
					reservations = append(reservations, had{addr, size * 64})
				}
			case 6:
				if len(reservations) > 0 {
					i := int(c) % len(reservations)
					d.Release(reservations[i].addr, reservations[i].size)
					reservations = append(reservations[:i], reservations[i+1:]...)
				}
			case 7:
				_ = d.Map(reserveBottom, size)
			case 8:
				d.Unmap(reserveBottom, size)
			case 9:
				d.Free(at, size)
			case 10:
				d.Release(at, size)
			default:
				d.apply(Event{Kind: EventKind(op%16 - 11), Addr: at, Size: size})
			}
			if err := d.check(); err != nil {
				t.Fatalf("after %d %d %d: %v", op, b, c, err)
			}
			if d.capacity > 0 && d.used > most {
				t.Fatalf("after %d %d %d: %d in use of %d", op, b, c, d.used, d.capacity)
			}
		}
	})
}

// FuzzLearn follows any recording at all, and replays what it learned.
func FuzzLearn(f *testing.F) {
	f.Add([]byte{1, 8, 20, 1, 190, 2, 1, 0, 20, 0, 8, 20, 1, 4, 34})
	f.Add([]byte{1, 0, 94, 1, 94, 2, 1, 200, 20, 1, 180, 20, 0, 0, 94, 1, 0, 60, 1, 60, 40, 1, 33, 7})
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 3*300 {
			return
		}
		var steps []Step
		var held []Range
		if len(data) > 0 && data[0]&64 != 0 {
			held = []Range{{DefaultBase - 480*mib, 64 * mib}, {DefaultBase, 20 * mib}}
		}
		for i := 0; i+3 <= len(data); i += 3 {
			s := Step{Op: int64(i), Alloc: data[i]&1 != 0, Size: int64(data[i+2]) * 2 * mib,
				Addr: DefaultBase - 4096*mib + uint64(data[i+1])*16*mib}
			switch {
			case data[i]&2 != 0:
				s.Addr += uint64(data[i]>>2) * 2 * mib
			case data[i]&4 != 0:
				s.Size, s.Addr = -s.Size, s.Addr<<(data[i]>>3)
			}
			steps = append(steps, s)
		}
		l := Learn(held, steps)
		if s := l.Score; s.Matched > s.Checked || s.LateMatched > s.LateChecked || s.Checked > len(steps) {
			t.Fatalf("score %+v of %d steps", s, len(steps))
		}
		if len(l.FirstSight) != len(l.Earliest) {
			t.Fatalf("%d events at first sight, %d as early as can be", len(l.FirstSight), len(l.Earliest))
		}
		for _, v := range Variants(Config{Held: held}, int64(len(data)), l) {
			d := New(v.Config)
			at := map[uint64]had{}
			for _, s := range steps {
				d.Tick(s.Op)
				if s.Alloc {
					if addr, err := d.Alloc(s.Size); err == nil {
						at[s.Addr] = had{addr, s.Size}
					}
				} else if b, ok := at[s.Addr]; ok {
					d.Free(b.addr, b.size)
					delete(at, s.Addr)
				}
			}
			if err := d.check(); err != nil {
				t.Fatalf("%s: %v", v.Name, err)
			}
		}
	})
}

type had struct {
	addr uint64
	size int64
}
