package minimalloc

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/vramscope/vramscope/trace"
)

func read(text string) (*trace.Trace, error) {
	return Read(bufio.NewReaderSize(strings.NewReader(text), 64<<10))
}

func show(tr *trace.Trace) string {
	var out []string
	for _, d := range tr.Devices {
		for _, e := range d.Events.All() {
			out = append(out, fmt.Sprintf("%v %#x %d %d", e.Op, e.Addr, e.Size, int32(e.Block)))
		}
	}
	return strings.Join(out, "; ")
}

func codes(list []trace.Warning) string {
	var out []string
	for _, w := range list {
		out = append(out, fmt.Sprintf("%s×%d", w.Code, w.Count))
	}
	return strings.Join(out, " ")
}

func TestKinds(t *testing.T) {
	for _, c := range []struct{ name, text, format, want, warnings string }{
		{"allocatorSim", "0 3 100\n1 2 200\n4 5 300\n", formatAllocatorSim, "alloc 0x0 100 0; alloc 0x0 200 1; free 0x0 200 1; free 0x0 100 0; alloc 0x0 300 2; free 0x0 300 2", ""},
		// The example of MiniMalloc's documentation. At step 3 b1 goes and b2 comes, at step 9 b2 and b3 go.
		{"MiniMalloc", "id,lower,upper,size\nb1,0,3,4\nb2,3,9,4\nb3,0,9,4\nb4,9,21,4\nb5,0,21,4\n", formatMiniMalloc,
			"alloc 0x0 4 0; alloc 0x0 4 2; alloc 0x0 4 4; free 0x0 4 0; alloc 0x0 4 1; free 0x0 4 1; free 0x0 4 2; alloc 0x0 4 3; free 0x0 4 3; free 0x0 4 4", ""},
		{"MiniMalloc, placed", "id,lower,upper,size,offset\r\nb1,0,3,4,8\r\nb2,3,9,4,8\r\n", formatMiniMalloc, "alloc 0x8 4 0; free 0x8 4 0; alloc 0x8 4 1; free 0x8 4 1", "placed×1"},
		{"MiniMalloc, old", "buffer_id,size,start,end\nx,5,0,3\ny,6,4,4\n", formatMiniMalloc, "alloc 0x0 5 0; free 0x0 5 0; alloc 0x0 6 1; free 0x0 6 1", ""},
		{"MiniMalloc, bad", "id,lower,upper,size,gaps,alignment\nx,0,3,5,1-2 2-3@0:1,8\ny,3,3,5,,8\nz,0,4,-5,,8\nw,0,4\n", formatMiniMalloc, "alloc 0x0 5 0; free 0x0 5 0", "bad-line×3 gaps×1"},
		{"MiniMalloc, cut", "id,lower,upper,size\nx,0,3,5\ny,1,", formatMiniMalloc, "alloc 0x0 5 0; free 0x0 5 0", "cut×1"},
		{"allocatorSim, cut", "0 1 5\n2 3 6\n4", formatAllocatorSim, "alloc 0x0 5 0; free 0x0 5 0; alloc 0x0 6 1; free 0x0 6 1", "cut×1"},
		{"MiniMalloc, empty", "id,lower,upper,size\n", formatMiniMalloc, "", ""},
	} {
		tr, err := read(c.text)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := show(tr); tr.Source.Format != c.format || got != c.want || codes(tr.Warnings) != c.warnings {
			t.Errorf("%s: %s\ngot  %s\nwant %s\nwarnings %s", c.name, tr.Source.Format, got, c.want, codes(tr.Warnings))
		}
		if tr.Source.Cut != strings.Contains(c.warnings, "cut") || tr.Source.Clock != trace.ClockNone {
			t.Errorf("%s: %+v", c.name, tr.Source)
		}
	}
}

// Numbers in three columns are in many files.
func TestOthers(t *testing.T) {
	for _, text := range []string{"", "1 2 3\n", "1 2 3\n1 4 5\n", "0 3 100\n3 4 5\n", "0 3 100\n1 2\n", "3 0 100\n1 2 7\n", "0 3 1.5\n1 2 7\n",
		"id,lower,upper\na,1,2\n", "id,lower,upper,size,color\n", "id,id,lower,upper,size\n"} {
		in := bufio.NewReader(strings.NewReader(text))
		if _, err := Read(in); err != trace.ErrUnrecognized {
			t.Errorf("%q: %v", text, err)
		}
		if rest, _ := in.Peek(1); len(text) > 0 && len(rest) == 0 {
			t.Errorf("%q: something taken", text)
		}
	}
}

// However lives lie, what is in use after each step is what the lives say.
func TestLives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := "id,lower,upper,size\n"
		inUse := map[int64]int64{} // by step
		for i := range rapid.IntRange(0, 30).Draw(t, "buffers") {
			from := rapid.Int64Range(0, 20).Draw(t, "lower")
			to := rapid.Int64Range(from+1, 25).Draw(t, "upper")
			size := rapid.Int64Range(0, 1000).Draw(t, "size")
			text += fmt.Sprintf("b%d,%d,%d,%d\n", i, from, to, size)
			for s := from; s < to; s++ {
				inUse[s] += size
			}
		}
		want := int64(0)
		for _, n := range inUse {
			want = max(want, n)
		}
		tr, err := read(text)
		if err != nil {
			t.Fatal(err)
		}
		d := &tr.Devices[0]
		now, most := int64(0), int64(0)
		live := map[trace.BlockID]bool{}
		for _, e := range d.Events.All() {
			if e.Op == trace.OpAlloc {
				now += e.Size
				if live[e.Block] {
					t.Fatalf("%d twice", e.Block)
				}
				live[e.Block] = true
			} else {
				now -= e.Size
				if !live[e.Block] {
					t.Fatalf("%d freed without having been allocated", e.Block)
				}
				delete(live, e.Block)
			}
			most = max(most, now)
		}
		if now != 0 || most != want || len(live) > 0 {
			t.Fatalf("at most %d, want %d; %d at the end", most, want, now)
		}
	})
}

// FuzzRead: any text ends in a result that holds together.
func FuzzRead(f *testing.F) {
	f.Add([]byte("0 3 100\n1 2 200\n4 5 300\n"))
	f.Add([]byte("id,lower,upper,size,offset,gaps\nb1,0,3,4,8,1-2\nb2,3,9,4,8,\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		tr, err := Read(bufio.NewReaderSize(bytes.NewReader(data), 64<<10))
		if err != nil {
			if !errors.Is(err, trace.ErrUnrecognized) && !errors.Is(err, trace.ErrCorrupt) {
				t.Errorf("%v", err)
			}
			return
		}
		for _, d := range tr.Devices {
			for _, e := range d.Events.All() {
				if e.Block != trace.NoBlock && int(e.Block) >= d.NumBlocks || int(e.Stream) >= len(d.Streams) || e.Size < 0 {
					t.Fatalf("%+v of %d blocks, %d streams", e, d.NumBlocks, len(d.Streams))
				}
			}
		}
	})
}
