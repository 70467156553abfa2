package stalloc

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

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
		{"STAlloc", "Iteration Index : 0\n1 0x7f00 4096 0\nmicro-batch : F\nmodel.layers.1.mlp->MoELayer Layer : F-start\n1 0x8f00 1 0x5\n0 0x7f00 4096 0\n1 0 12 0\n0 0 0 0\n",
			Format, "alloc 0x7f00 4096 0; alloc 0x8f00 1 1; free 0x7f00 4096 0", ""},
		{"STAlloc, cut", "1 0x7f00 4096 0\n0 0x7f", Format, "alloc 0x7f00 4096 0", "cut×1"},
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

func TestOthers(t *testing.T) {
	for _, text := range []string{"", "1 2 3\n", "1 0x7f 1\n", "1 0xZZ 1 0\n", "hello\n1 0x7f 1 0\n", "Layer\n", "2 0x7f 1 0\n", "1 7f 1 0\n", "1 0x7f -1 0\n", "1 0x7f 1 x\n"} {
		in := bufio.NewReader(strings.NewReader(text))
		if _, err := Read(in); err != trace.ErrUnrecognized {
			t.Errorf("%q: %v", text, err)
		}
		if rest, _ := in.Peek(1); len(text) > 0 && len(rest) == 0 {
			t.Errorf("%q: something taken", text)
		}
	}
}

func TestNamed(t *testing.T) {
	for name, want := range map[string]int{"mem_log_dev3.txt": 3, "mem_log_dev12.txt.zst": 12, "x.txt": 0, "mem_log_dev.txt": 0} {
		tr, err := read("1 0x7f00 4096 0\n")
		if err != nil {
			t.Fatal(err)
		}
		if Named(tr, name); tr.Devices[0].Index != want {
			t.Errorf("%s: device %d", name, tr.Devices[0].Index)
		}
	}
}

func TestLongLines(t *testing.T) {
	tr, err := read(strings.Repeat("1 0x7f00 4096 0\n0 0x7f00 4096 0\n", 3000) + strings.Repeat("x", 100<<10) + "\nnonsense\n1 0x7f00 4096 0\n")
	if err != nil || tr.Devices[0].Events.Len() != 6001 || codes(tr.Warnings) != "bad-line×2" || !strings.Contains(tr.Warnings[0].Message, "line 6001") {
		t.Errorf("%v", err)
	}
}

// FuzzRead: any text ends in a result that holds together.
func FuzzRead(f *testing.F) {
	f.Add([]byte("Iteration Index : 0\n1 0x7f00 4096 0\n0 0x7f00 4096 0\n"))
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

func BenchmarkRead(b *testing.B) {
	text := strings.Repeat("1 0x7f1e41329c00 1048576 0\n0 0x7f1e41329c00 1048576 0\n", 100_000)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := read(text); err != nil {
			b.Fatal(err)
		}
	}
}
