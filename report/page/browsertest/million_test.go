package browsertest

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"

	"github.com/vramscope/vramscope/report/page"
	"github.com/vramscope/vramscope/report/page/pagetest"
	"github.com/vramscope/vramscope/trace"
)

// What a page of a million blocks has to keep to.
const (
	mostBytes = 10_000_000
	mostDraw  = time.Second            // from the first byte to the first picture
	mostFrame = 100 * time.Millisecond // of moving and zooming
	// slack is how many times as long it may take here before it is a failure: a test runs on machines that do other
	// things as well. The benchmark has the figures.
	slack = 8
)

// times are how long things took, in milliseconds.
type times struct {
	Words  float64 // until the words are there
	Bands  float64 // until the bands are
	Drawn  float64 // until everything is
	Frames []float64
}

// A page of a million blocks is small enough to be sent, opens at once, and can be moved and zoomed smoothly.
func TestMillion(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute")
	}
	for name, tr := range map[string]*trace.Trace{"training": pagetest.Training(1_000_000), "crowd of 3,000": pagetest.Crowd(1_000_000, 3_000), "crowd of 100,000": pagetest.Crowd(300_000, 100_000)} {
		t.Run(name, func(t *testing.T) {
			file := written(t, analysed(t, name, tr), page.Options{})
			if st, err := os.Stat(file); err != nil || st.Size() >= mostBytes {
				t.Errorf("%d bytes, %v", st.Size(), err)
			}
			x, m := measure(t, file)
			t.Logf("words after %.0f ms, bands after %.0f, all after %.0f; frames of %.0f ms, the longest %.0f", m.Words, m.Bands, m.Drawn, median(m.Frames), slices.Max(m.Frames))
			if m.Bands > slack*float64(mostDraw.Milliseconds()) {
				t.Errorf("the bands are there after %.0f ms", m.Bands)
			}
			if median(m.Frames) > slack*float64(mostFrame.Milliseconds()) {
				t.Errorf("frames of %.0f ms", median(m.Frames))
			}
			x.settle()
			if wrong := eval[string](x, quickly); wrong != "" {
				t.Error(wrong)
			}
		})
	}
}

// quickly is addUp for some of the columns, since it looks at a million blocks for each.
const quickly = `(() => {
	const {recording: r, timeline} = vramscope, p = timeline.raster;
	for (let c = 0; c < p.width; c += 97) {
		const s = p.shown[c];
		let sum = 0;
		for (let b = 0; b < r.n; b++) if (r.born[b] <= s && s < r.freed[b]) sum += r.bytesOf(b);
		if (sum !== r.allocated[s] || sum !== p.totals[c]) return "column " + c + ": blocks of " + sum + " bytes, a stack of " + p.totals[c] + ", allocated " + r.allocated[s];
		let top = 0;
		while (top < p.height && p.ids[c * p.height + top] >= 0) top++;
		if (Math.abs(Math.max(0, Math.min(p.height, (sum - p.low) / p.scale)) - top) > 0.501) return "column " + c + ": " + top + " pixels";
	}
	return "";
})()`

// measure opens a page and moves it about as a person would: it zooms in, moves, and zooms out again.
func measure(t testing.TB, file string) (*tab, times) {
	t.Helper()
	x := open(t, file, "")
	m := eval[times](x, `(() => {
		const at = (name) => performance.getEntriesByName(name)[0].startTime;
		return {Words: at("first-contentful-paint"), Bands: at("bands"), Drawn: at("drawn"), Frames: []};
	})()`)
	px, py := x.on(0.4, 0.6)
	time.Sleep(400 * time.Millisecond)
	eval[any](x, `vramscope.timeline.frames.length = 0`)
	step := func(event input.DispatchMouseEventType, x0, y0 float64, options ...chromedp.MouseOption) {
		x.do(chromedp.MouseEvent(event, x0, y0, options...))
		x.frames()
	}
	wheel := func(delta float64) {
		step(input.DispatchMouseEventTypeMouseWheel, px, py, func(p *input.DispatchMouseEventParams) { p.DeltaX, p.DeltaY = 1e-6, delta })
	}
	for _, delta := range []float64{-120, 120} {
		for range 12 {
			wheel(delta)
		}
		if delta > 0 {
			break
		}
		step(input.DispatchMouseEventTypeMousePressed, px, py, chromedp.ButtonLeft, clicks)
		for i := range 12 {
			step(input.DispatchMouseEventTypeMouseMoved, px+float64(i)*15, py, chromedp.ButtonLeft)
		}
		step(input.DispatchMouseEventTypeMouseReleased, px+165, py, chromedp.ButtonLeft, clicks)
	}
	m.Frames = eval[[]float64](x, `vramscope.timeline.frames`)
	if len(m.Frames) < 20 {
		t.Errorf("%d pictures were drawn", len(m.Frames))
	}
	return x, m
}

func median(list []float64) float64 {
	if len(list) == 0 {
		return 0
	}
	sorted := slices.Clone(list)
	slices.Sort(sorted)
	return sorted[len(sorted)/2]
}

// BenchmarkMillion gives the figures: go test -run xxx -bench Million -benchtime 3x.
func BenchmarkMillion(b *testing.B) {
	for name, tr := range map[string]*trace.Trace{"training": pagetest.Training(1_000_000), "crowd": pagetest.Crowd(1_000_000, 3_000)} {
		file := written(b, analysed(b, name, tr), page.Options{})
		b.Run(name, func(b *testing.B) {
			var bands, drawn, frame, worst float64
			for b.Loop() {
				_, m := measure(b, file)
				bands += m.Bands
				drawn += m.Drawn
				frame += median(m.Frames)
				worst = max(worst, slices.Max(m.Frames))
			}
			n := float64(b.N)
			b.ReportMetric(bands/n, "ms-to-bands")
			b.ReportMetric(drawn/n, "ms-to-all")
			b.ReportMetric(frame/n, "ms-frame")
			b.ReportMetric(worst, "ms-worst-frame")
			b.ReportMetric(0, "ns/op")
		})
	}
}
