package plot

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/vramscope/vramscope/internal/recordtest"
	"github.com/vramscope/vramscope/internal/tracetest"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/trace"
	"github.com/vramscope/vramscope/trace/source"
	"gonum.org/v1/plot/vg"
	"pgregory.net/rapid"
)

// drawAll draws every plot of a recording, or is told in one line why not.
func drawAll(t *testing.T, what, file string, recording *trace.Trace, o report.Options) {
	t.Helper()
	defer func() {
		if p := recover(); p != nil {
			t.Fatalf("%s: panic: %v", what, p)
		}
	}()
	a := report.Analyze(file, recording, o)
	for i := range a.Devices {
		s := &Subject{Analysis: a, Options: o, Device: &a.Devices[i]}
		s.Replay = func() (*report.Replays, error) {
			return report.Replay(file, recording, s.Device.Trace, report.ReplayOptions{Limit: -1, RecordedLimit: -1})
		}
		for _, by := range []By{ByTime, ByEvent} {
			s.By = by
			for _, name := range Names() {
				pic, err := s.Picture(name)
				if err != nil {
					if strings.Contains(err.Error(), "\n") {
						t.Errorf("%s: %s: %q", what, name, err)
					}
					continue
				}
				if vectors := svg(t, pic); strings.Contains(vectors, "NaN") || strings.Contains(vectors, "Inf") {
					t.Errorf("%s: %s has places that are none", what, name)
				}
				if by == ByTime {
					if err := pic.WritePNG(io.Discard, Size{400, 225}); err != nil {
						t.Errorf("%s: %s: %v", what, name, err)
					}
				}
			}
		}
	}
}

// TestDamaged draws recordings to which everything has happened.
func TestDamaged(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	for _, rec := range recordtest.Snapshots() {
		if !rec.Own || rec.Workload() != "oom" && rec.Workload() != "graph" {
			continue // there are enough without them
		}
		whole, err := source.Open(rec.File, source.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range tracetest.Damages {
			tr := x.ApplyAll(whole)
			drawAll(t, rec.Name+", "+x.Name, rec.Name, tr, plain())
		}
	}
}

// TestHostileNames draws what calls itself anything.
func TestHostileNames(t *testing.T) {
	for _, name := range []string{
		"", "a\x00b\x1b[31m.pickle", "<script>alert(1)</script> & ]]> \"'.pickle", strings.Repeat("very long name ", 400),
		strings.Repeat("x", 5000), "\xff\xfe\xfa", "\u202egnp.exe", "名前👩‍👩‍👧.pickle", "a\nb\r\nc", "%s%d%!",
	} {
		recording, err := source.Open(recordtest.Testdata()+"/golden/oom.pickle.zst", source.Options{})
		if err != nil {
			t.Fatal(err)
		}
		d := &recording.Devices[0]
		d.Name = name
		recording.Source.Format = name
		first, end := d.Events.At(0).Time, d.Events.At(d.Events.Len()-1).Time
		for i := range trace.Time(4) {
			at := first + (end-first)/4*i
			recording.Markers = append(recording.Markers, trace.Marker{Time: at, Name: "step " + name, Edge: trace.EdgeStart}, trace.Marker{Time: at + 1000, Name: "step " + name, Edge: trace.EdgeEnd})
		}
		drawAll(t, name, name, recording, plain())
	}
}

// TestExtremeSizes draws what no device has, and pictures of all sizes.
func TestExtremeSizes(t *testing.T) {
	var events trace.Events
	events.Append(trace.Event{Time: 1, Op: trace.OpSegmentAlloc, Size: trace.MaxSize, Addr: 1 << 45, Block: trace.NoBlock})
	events.Append(trace.Event{Time: 2, Op: trace.OpAlloc, Size: trace.MaxSize, Addr: 1 << 45, Block: 0})
	events.Append(trace.Event{Time: 1<<62 - 1, Op: trace.OpOOM, Size: trace.MaxAsked, Addr: trace.MaxAsked, Block: trace.NoBlock})
	var loose trace.Events // in use, and nothing that is reserved for it
	loose.Append(trace.Event{Time: 1, Op: trace.OpAlloc, Size: trace.MaxSize, Addr: 1 << 45, Block: 0})
	loose.Append(trace.Event{Time: 2, Op: trace.OpFreeCompleted, Size: trace.MaxSize, Addr: 1 << 45, Block: 0})
	many := trace.Events{}
	for range 3000 {
		many.Append(trace.Event{Time: 7, Op: trace.OpOOM, Size: 512, Block: trace.NoBlock})
	}
	for _, content := range []trace.Content{trace.Decisions, trace.Requests, trace.Instant, trace.Samples} {
		for _, list := range []trace.Events{events, loose, many, {}} {
			recording := &trace.Trace{Stacks: trace.NewStacks(), Devices: []trace.Device{{Content: content, Events: list, NumBlocks: 1, Streams: []uint64{0}, Pools: make([]trace.Pool, 1),
				Series: []trace.Series{{Quantity: trace.DeviceUsed, Samples: 1, Max: 1 << 62, Points: []trace.Point{{Time: 1, High: 1 << 62}}}}}}}
			drawAll(t, "made up", "made up", recording, plain())
		}
	}
	s := subject(t, "golden/oom.pickle.zst", plain())
	for _, c := range []struct {
		size Size
		ok   bool
	}{{Size{400, 225}, true}, {Size{801, 451}, true}, {Size{3000, 400}, true}, {Size{400, 3000}, true}, {Size{399, 500}, false}, {Size{500, 224}, false},
		{Size{1 << 20, 1 << 20}, false}, {Size{0, 0}, false}, {Size{-1600, -900}, false}, {Size{1 << 62, 1 << 62}, false}} {
		pic, err := s.Picture(All)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := pic.WritePNG(&b, c.size); (err == nil) != c.ok {
			t.Errorf("PNG of %v: %v", c.size, err)
		}
		if c.ok {
			img := b.Bytes()
			if w, h := int(img[18])<<8|int(img[19]), int(img[22])<<8|int(img[23]); w != c.size.Width || h != c.size.Height {
				t.Errorf("it is %dx%d, not %v", w, h, c.size)
			}
		}
		if err := pic.WriteSVG(io.Discard, c.size); (err == nil) != c.ok {
			t.Errorf("SVG of %v: %v", c.size, err)
		}
	}
}

// TestSpread moves labels apart.
func TestSpread(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 8).Draw(t, "n")
		centres, heights := make([]vg.Length, n), make([]vg.Length, n)
		for i := range n {
			centres[i] = vg.Length(rapid.Float64Range(0, 300).Draw(t, "at"))
			heights[i] = vg.Length(rapid.Float64Range(10, 35).Draw(t, "high"))
			if i > 0 {
				centres[i] = min(centres[i], centres[i-1])
			}
		}
		spread(centres, heights, 0, 300)
		const little = 1e-6
		for i := range n {
			if centres[i]-heights[i]/2 < -little || centres[i]+heights[i]/2 > 300+little {
				t.Fatalf("%v with %v leaves the range", centres, heights)
			}
			if i > 0 && centres[i-1]-heights[i-1]/2 < centres[i]+heights[i]/2-little {
				t.Fatalf("%v with %v overlap", centres, heights)
			}
		}
	})
}

// TestPlace puts labels where they are wholly seen and do not cover each other.
func TestPlace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		within := box(50, 20, vg.Length(rapid.Float64Range(250, 700).Draw(t, "w")), vg.Length(rapid.Float64Range(120, 400).Draw(t, "h")))
		var taken []vg.Rectangle
		s := letters(textSize, ink)
		for range 3 {
			at := vg.Point{X: within.Min.X + (within.Max.X-within.Min.X)*vg.Length(rapid.Float64Range(0, 1).Draw(t, "x")),
				Y: within.Min.Y + (within.Max.Y-within.Min.Y)*vg.Length(rapid.Float64Range(0, 1).Draw(t, "y"))}
			line := vg.Path{{Type: vg.MoveComp, Pos: vg.Point{X: within.Min.X, Y: at.Y}}, {Type: vg.LineComp, Pos: vg.Point{X: within.Max.X, Y: at.Y}}}
			r := place(within, taken, []vg.Path{line}, at, s, "peak 10.28 GiB allocated, +5.8 s")
			if r.Min.X < within.Min.X-1 || r.Max.X > within.Max.X+1 || r.Min.Y < within.Min.Y || r.Max.Y > within.Max.Y {
				t.Fatalf("%v is not in %v", r, within)
			}
			for _, other := range taken {
				if overlap(r, other) {
					t.Fatalf("%v covers %v", r, other)
				}
			}
			taken = append(taken, r)
		}
	})
}

// TestWrap keeps lines in their room, and texts whole.
func TestWrap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := letters(textSize, ink)
		txt := rapid.String().Draw(t, "text")
		room := vg.Length(rapid.Float64Range(40, 600).Draw(t, "room"))
		lines := wrap(s, clean(txt), room, 3)
		if len(lines) == 0 || len(lines) > 3 {
			t.Fatalf("%d lines", len(lines))
		}
		for _, l := range lines {
			if s.Width(l) > room || !utf8.ValidString(l) {
				t.Fatalf("%q is %v wide, there is room for %v", l, s.Width(l), room)
			}
		}
	})
}
