package browsertest

import (
	"math"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/report/page"
)

const oom = "gpt_oom.pickle.zst"

// The first lines of a page are those of analyze.
func TestWords(t *testing.T) {
	a := recorded(t, oom)
	x := open(t, written(t, a, page.Options{}), "")
	shown := x.text("#summary")
	for _, line := range a.Lead(&a.Devices[0]) {
		if line = strings.TrimSpace(strings.ReplaceAll(line, "**", "")); !strings.Contains(shown, line) && !strings.HasPrefix(line, "More settings") {
			t.Errorf("the page lacks %q:\n%s", line, shown)
		}
	}
	if n := eval[int](x, `document.querySelectorAll("script[data-columns]").length`); n != 0 {
		t.Errorf("%d columns were not unpacked", n)
	}
}

// level is what is allocated and reserved in a state.
type level struct{ State, Allocated, Reserved int64 }

// What the page says is allocated and reserved is what the analysis says, for each event; and in every column of pixels
// the bands add up to what is allocated in the state that the column shows, however far it is zoomed in.
func TestBandsAddUp(t *testing.T) {
	for _, name := range []string{oom, "golden/graph.pickle.zst", "golden/record_stream.pickle.zst", "golden/midrun.pickle.zst", "torch/gpt_varlen.c2.pickle.zst", "inputs/kineto.json"} {
		t.Run(name, func(t *testing.T) {
			a := recorded(t, name)
			x := open(t, written(t, a, page.Options{}), "")
			var levels []level
			a.Devices[0].Levels(func(l report.Level) {
				levels = append(levels, level{int64(l.Event + 1), l.Allocated, l.Reserved})
			})
			if wrong := eval[string](x, `(() => {
				const r = vramscope.recording;
				for (const l of %s) if (r.allocated[l.State] !== l.Allocated || r.reserved(l.State) !== l.Reserved)
					return JSON.stringify([l, r.allocated[l.State], r.reserved(l.State)]);
				return "";
			})()`, jsonOf(t, levels)); wrong != "" {
				t.Fatalf("the analysis, and the page: %s", wrong)
			}
			for _, view := range []string{"f", "++", "+++", "y", "x", "f"} {
				x.press(view)
				if wrong := eval[string](x, addUp); wrong != "" {
					t.Fatalf("after %q: %s", view, wrong)
				}
			}
		})
	}
}

// addUp looks at the columns of the picture as it is: which blocks are in them, counted one by one, and how high they are.
const addUp = `(() => {
	const {recording: r, timeline} = vramscope, p = timeline.raster;
	for (let c = 0; c < p.width; c++) {
		const s = p.shown[c];
		let sum = 0;
		for (let b = 0; b < r.n; b++) if (r.born[b] <= s && s < r.freed[b]) sum += r.bytesOf(b);
		if (sum !== r.allocated[s] || sum !== p.totals[c]) return "column " + c + " shows state " + s + ": blocks of " + sum + " bytes, a stack of " + p.totals[c] + ", allocated " + r.allocated[s];
		let top = 0;
		const heights = new Map();
		for (; top < p.height && p.ids[c * p.height + top] >= 0; top++) heights.set(p.ids[c * p.height + top], (heights.get(p.ids[c * p.height + top]) || 0) + 1);
		for (let y = top; y < p.height; y++) if (p.ids[c * p.height + y] >= 0) return "column " + c + " has a hole";
		const full = Math.max(0, Math.min(p.height, (sum - p.low) / p.scale));
		if (Math.abs(full - top) > 0.501) return "column " + c + ": bands of " + top + " pixels, allocated are " + full;
		let last = -1;
		for (const [b, rows] of heights) {
			if (b <= last || !(r.born[b] <= s && s < r.freed[b])) return "column " + c + ": block " + b + " is not where it belongs";
			last = b;
			const want = r.bytesOf(b) / p.scale, cut = b === p.ids[c * p.height] || b === p.ids[c * p.height + p.height - 1];
			if (rows > want + 1 || !cut && rows < want - 1) return "column " + c + ": block " + b + " has " + rows + " pixels, " + want + " would be right";
		}
	}
	return "";
})()`

// What a column shows is the moment with the most allocated among those that it stands for, so that no peak is lost.
func TestPeaksShow(t *testing.T) {
	x := open(t, written(t, recorded(t, oom), page.Options{}), "")
	for _, view := range []string{"f", "x", "f", "+"} {
		x.press(view)
		if wrong := eval[string](x, `(() => {
			const {recording: r, timeline, axis} = vramscope, p = timeline.raster;
			const [from, to] = timeline.range(), unit = (to - from) / p.width;
			for (let s = 0; s < r.states; s++) {
				const c = Math.floor(axis.position(s) / unit) - p.first;
				if (c > 0 && c < p.width && r.allocated[p.shown[c]] < r.allocated[s]) return "state " + s + " in column " + c;
			}
			return "";
		})()`); wrong != "" {
			t.Errorf("after %q: %s is higher than what is shown", view, wrong)
		}
	}
}

// The pixels are what they should be: read back from the canvas, those of a band have its colour, and those above have
// that of the ground.
func TestPixels(t *testing.T) {
	x := open(t, written(t, recorded(t, oom), page.Options{}), "")
	type pixel struct {
		Block          int
		R, G, B, A     int
		Want           []int
		Hatched, Above bool
	}
	look := func() []pixel {
		return eval[[]pixel](x, `(() => {
			const {timeline, colours} = vramscope, p = timeline.raster, {data} = timeline.base.context.getImageData(66, 22, p.width, p.height), out = [];
			for (const [x, y] of [[0.5, 0.98], [0.3, 0.85], [0.7, 0.7], [0.15, 0.9], [0.02, 0.03], [0.5, 0.02]]) {
				const col = Math.floor(x * p.width), row = Math.floor(y * p.height);
				const d = data.subarray(4 * (row * p.width + col)), b = p.at(col, row);
				const n = p.height - 1 - row;
				out.push({Block: b, R: d[0], G: d[1], B: d[2], A: d[3], Want: b >= 0 ? colours.colourOf(b) : colours.plain.ground, Above: n > p.row(p.reserved[col]), Hatched: b < 0 && n <= p.row(p.reserved[col])});
			}
			return out;
		})()`)
	}
	for _, theme := range []string{"light", "dark"} {
		bands, above := 0, 0
		for _, p := range look() {
			off := math.Max(math.Abs(float64(p.R-p.Want[0])), math.Max(math.Abs(float64(p.G-p.Want[1])), math.Abs(float64(p.B-p.Want[2]))))
			switch {
			case p.A != 255:
				t.Errorf("%s: a pixel that can be seen through: %+v", theme, p)
			case p.Block >= 0:
				bands++
				if off > 90 { // an edge is darker, a name is written on it
					t.Errorf("%s: a band in another colour: %+v", theme, p)
				}
			case p.Above:
				above++
				if off > 40 { // a line of the grid
					t.Errorf("%s: no ground above all: %+v", theme, p)
				}
			}
		}
		if bands < 2 || above < 1 {
			t.Errorf("%s: %d pixels of bands, %d of the ground", theme, bands, above)
		}
		x.press("t")
	}
}

// Bytes are written as the command line writes them.
func TestNumbers(t *testing.T) {
	x := open(t, written(t, recorded(t, oom), page.Options{}), "")
	list := []int64{0, 1, 2, 511, 512, 1023, 1024, 1100, 1536, 1<<20 - 1, 1 << 20, 1<<20 + 1<<19, 99<<20 + 52429, 100<<20 - 1, 100 << 20, 1<<30 - 1, 1 << 30, 1<<30 + 1<<27, 5 << 28, 9663676416, 149557477376, 1 << 44, -5 << 20}
	for n := int64(3); n < 1<<43; n = n*7/3 + 1 {
		list = append(list, n)
	}
	got := eval[[]string](x, `%s.map(vramscope.format.bytes)`, jsonOf(t, list))
	for i, n := range list {
		if want := report.Bytes(n); got[i] != want {
			t.Errorf("%d: %q, want %q", n, got[i], want)
		}
	}
}
