package report

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestWrap(t *testing.T) {
	for _, c := range []struct {
		text  string
		width int
		want  string
	}{
		{"short", 40, "short"},
		{"  one two three four", 12, "  one two\n    three\n    four"},
		{"a row   of a table that is long", 12, "a row   of a table that is long"},
		{"averyveryverylongword and more", 10, "averyveryverylongword\n  and more"},
		{bold + "ten glyphs" + plain + " more", 10, bold + "ten glyphs" + plain + "\n  more"},
		{"Größe ± 5 µs, ×2", 9, "Größe ±\n  5 µs,\n  ×2"},
		{"of 12 MiB (3 %) more", 9, "of 12 MiB\n  (3 %)\n  more"},
	} {
		if got := wrap(c.text, c.width); got != c.want {
			t.Errorf("%q in %d columns: %q, want %q", c.text, c.width, got, c.want)
		}
	}
}

// Wrapping loses no word, and no line is longer than it may be unless it has one word.
func TestWrapAny(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.StringMatching(`[a-zµ×]{3,12}`), 1, 30).Draw(t, "words")
		indent := strings.Repeat(" ", rapid.IntRange(0, 4).Draw(t, "indent"))
		width := rapid.IntRange(20, 60).Draw(t, "width")
		got := wrap(indent+strings.Join(words, " "), width)
		if !slicesEqual(strings.Fields(got), words) || !strings.HasPrefix(got, indent) {
			t.Fatalf("%q is not %q", got, words)
		}
		for line := range strings.Lines(got) {
			if columns(strings.TrimRight(line, "\n")) > width && len(strings.Fields(line)) > 1 {
				t.Fatalf("%q is longer than %d", line, width)
			}
		}
	})
}

func slicesEqual(a, b []string) bool { return strings.Join(a, "\x00") == strings.Join(b, "\x00") }

func TestCutTo(t *testing.T) {
	for _, c := range []struct {
		text  string
		width int
		want  string
	}{
		{"short", 5, "short"},
		{"longer", 5, "long…"},
		{red + "longer" + plain + "!", 5, red + "long…" + plain},
		{"±±±±±±", 4, "±±±…"},
	} {
		if got := cutTo(c.text, c.width); got != c.want {
			t.Errorf("%q in %d columns: %q, want %q", c.text, c.width, got, c.want)
		}
	}
}

func TestStrokes(t *testing.T) {
	if got := strokes([]int64{0, 1, 50, 100}, 100); got != " ▁▄█" {
		t.Errorf("%q", got)
	}
	if got := strokes([]int64{0, 0}, 0); got != "  " {
		t.Errorf("%q", got)
	}
}

// What a document leaves out of the points has less allocated than what it keeps, and is not marked.
func TestFewer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var points []UsePoint
		most := int64(0)
		for i := range rapid.IntRange(0, 60).Draw(t, "points") {
			p := UsePoint{Event: i, Allocated: rapid.Int64Range(0, 9).Draw(t, "allocated"), Mark: rapid.SampledFrom([]Mark{0, 0, 0, MarkOOM}).Draw(t, "mark")}
			points = append(points, p)
			most = max(most, p.Allocated)
		}
		kept := fewer(points, 20)
		marked := map[bool]int{}
		for _, list := range [][]UsePoint{points, kept} {
			for i, p := range list {
				if i > 0 && list[i-1].Event >= p.Event {
					t.Fatalf("event %d after %d", p.Event, list[i-1].Event)
				}
				if p.Mark != 0 {
					marked[len(list) == len(points)]++
				}
			}
		}
		high := int64(0)
		for _, p := range kept {
			high = max(high, p.Allocated)
		}
		if high != most || len(kept) != len(points) && (marked[true] != marked[false] || len(kept) > 20+marked[true]) {
			t.Fatalf("%d of %d points, %d of %d at most, %v", len(kept), len(points), high, most, marked)
		}
	})
}
