package plot

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"html"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/internal/recordtest"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/trace"
	"github.com/vramscope/vramscope/trace/source"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/recorder"
)

// recordings lists those that come with the repository, and all others that are here.
func recordings(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, r := range recordtest.Snapshots() {
		if st, err := os.Stat(r.File); err == nil && (!testing.Short() || r.Own) && st.Size() < 4<<20 {
			out = append(out, r.File)
		}
	}
	for _, pattern := range []string{"inputs/*", "nsys/*.zst"} {
		files, err := filepath.Glob(filepath.Join(recordtest.Testdata(), pattern))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, files...)
	}
	return out
}

func svg(t *testing.T, pic *Picture) string {
	t.Helper()
	var b bytes.Buffer
	if err := pic.WriteSVG(&b, Size{800, 600}); err != nil {
		t.Fatal(err)
	}
	d := xml.NewDecoder(bytes.NewReader(b.Bytes()))
	for {
		_, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("no XML: %v", err)
		}
	}
	return b.String()
}

var texts = regexp.MustCompile(`>([^<>]+)</text>`)

// words are all texts of a picture.
func words(vectors string) string {
	var out []string
	for _, m := range texts.FindAllStringSubmatch(vectors, -1) {
		out = append(out, html.UnescapeString(m[1]))
	}
	return strings.Join(out, "\n")
}

// TestAgreesWithJSON holds the figures that stand in pictures against those of analyze --json.
func TestAgreesWithJSON(t *testing.T) {
	type bytesAt struct {
		Bytes *int64 `json:"bytes"`
	}
	type document struct {
		Devices []struct {
			Device        int     `json:"device"`
			PeakAllocated bytesAt `json:"peak_allocated"`
			PeakReserved  bytesAt `json:"peak_reserved"`
			End           struct {
				Allocated *int64 `json:"allocated_bytes"`
			} `json:"end"`
			Fragmentation *struct {
				Stranded, Cached, Rounding, Pending, Largest int64
			} `json:"fragmentation"`
			OOMs []struct {
				Requested *int64 `json:"requested_bytes"`
			} `json:"ooms"`
		} `json:"devices"`
	}
	for _, file := range recordings(t) {
		recording, err := source.Open(file, source.Options{})
		if err != nil {
			continue
		}
		a := report.Analyze(file, recording, plain())
		var b bytes.Buffer
		if err := a.WriteJSON(&b); err != nil {
			t.Fatal(err)
		}
		text := regexp.MustCompile(`"(stranded|cached|rounding|pending|largest_free)_bytes"`).ReplaceAllString(b.String(), `"$1"`)
		var doc document
		if err := json.Unmarshal([]byte(strings.ReplaceAll(text, `"largest_free"`, `"largest"`)), &doc); err != nil {
			t.Fatal(err)
		}
		for i := range a.Devices {
			s := &Subject{Analysis: a, Options: plain(), Device: &a.Devices[i], By: ByTime}
			j := &doc.Devices[i]
			has := func(plot string, sizes ...*int64) {
				pic, err := s.Picture(plot)
				if err != nil {
					if strings.Contains(err.Error(), "\n") || len(err.Error()) < 20 {
						t.Errorf("%s: %s: %q is no line that says what is wrong", file, plot, err)
					}
					return
				}
				shown := words(svg(t, pic))
				for _, n := range sizes {
					if n != nil && !strings.Contains(shown, report.Bytes(*n)) {
						t.Errorf("%s device %d: %s does not show %s:\n%s", file, j.Device, plot, report.Bytes(*n), shown)
					}
				}
			}
			if recording.Devices[i].Content == trace.Samples || recording.Devices[i].Content == trace.Instant {
				has("timeline")
				has("map", j.End.Allocated)
				has("sizes", j.End.Allocated)
				continue
			}
			sizes := []*int64{j.PeakAllocated.Bytes, j.PeakReserved.Bytes, j.End.Allocated}
			if len(j.OOMs) > 0 {
				sizes = append(sizes, j.OOMs[0].Requested)
			}
			has("timeline", sizes...)
			sizes = []*int64{j.PeakAllocated.Bytes, j.PeakReserved.Bytes}
			has("sizes", j.PeakAllocated.Bytes)
			if f := j.Fragmentation; f != nil {
				sizes = append(sizes, &f.Stranded, &f.Cached, &f.Rounding, &f.Pending)
				if len(j.OOMs) == 0 {
					has("map", &f.Stranded, &f.Cached)
					has("sizes", &f.Largest)
				}
			}
			has("fragmentation", sizes...)
		}
	}
}

// TestLinesAreThePeaks holds the lines of the timeline against the peaks that the analysis found otherwise, and what lies
// on each other against what was reserved.
func TestLinesAreThePeaks(t *testing.T) {
	most := func(line []point) int64 {
		n := int64(0)
		for _, p := range line {
			n = max(n, p.v)
		}
		return n
	}
	for _, file := range recordings(t) {
		recording, err := source.Open(file, source.Options{})
		if err != nil {
			continue
		}
		a := report.Analyze(file, recording, plain())
		for i := range a.Devices {
			d := &a.Devices[i]
			if d.Follow == nil || d.Trace.Events.Len() == 0 {
				continue
			}
			for _, by := range []By{ByTime, ByEvent} {
				x := axisOf(a, d.Trace, plain(), by)
				allocated, reserved := levelLines(d, &x)
				if got := most(allocated); got != d.PeakAllocated.Allocated {
					t.Errorf("%s: the line of what was allocated goes up to %d, the peak is %d", file, got, d.PeakAllocated.Allocated)
				}
				if got := most(reserved); d.TellsReserved() && got != d.PeakReserved.Reserved {
					t.Errorf("%s: the line of what was reserved goes up to %d, the peak is %d", file, got, d.PeakReserved.Reserved)
				}
				if got := last(allocated); got != d.End.Allocated {
					t.Errorf("%s: the line ends at %d, not %d", file, got, d.End.Allocated)
				}
				if d.Trace.Content != trace.Decisions {
					continue
				}
				k := stackOf(d, &x, parts())
				for n, top := range k.sums[len(k.sums)-1] {
					if d.Follow.Score.Exact() && top.v != k.reserved[n].v {
						t.Fatalf("%s: the areas add up to %d, reserved is %d", file, top.v, k.reserved[n].v)
					}
					for u := 1; u < len(k.sums); u++ {
						if k.sums[u][n].v < k.sums[u-1][n].v {
							t.Fatalf("%s: %s is less than nothing", file, parts()[u].name)
						}
					}
				}
				if d.Follow.Score.Exact() && (most(k.reserved) != d.PeakReserved.Reserved || most(k.sums[1]) != d.PeakAllocated.Allocated) {
					t.Errorf("%s: the areas go up to %d of %d, and to %d of %d", file, most(k.sums[1]), d.PeakAllocated.Allocated, most(k.reserved), d.PeakReserved.Reserved)
				}
			}
		}
	}
}

// TestMapAddsUp holds the pieces of the map, and the areas that are drawn of them, against what the analysis counted.
func TestMapAddsUp(t *testing.T) {
	for _, file := range recordings(t) {
		recording, err := source.Open(file, source.Options{})
		if err != nil {
			continue
		}
		a := report.Analyze(file, recording, plain())
		for i := range a.Devices {
			d := &a.Devices[i]
			at := d.PeakReserved
			blocks, ok := d.BlocksAt(plain(), at)
			if !ok || at.Layout == nil {
				continue
			}
			pieces, _ := piecesOf(blocks)
			var sums [numUses]int64
			var held int64
			for _, p := range pieces {
				sums[p.use] += p.size
				held += p.size
			}
			l := at.Layout
			want := [numUses]int64{pending: l.Pending, stranded: l.Stranded, cached: l.Cached}
			want[inPrivate] = sums[inPrivate]
			want[inUse] = at.Allocated - sums[inPrivate]
			if sums != want || held != at.Reserved {
				t.Errorf("%s: the pieces are %d, together %d; the analysis has %d, %d", file, sums, held, want, at.Reserved)
			}
			if held > 0 {
				areas(t, file, pieces, held, sums)
			}
			h, err := sizesOf(a, d)
			if err != nil {
				t.Fatal(err)
			}
			if len(d.OOMs) == 0 {
				free, used := int64(0), int64(0)
				for _, s := range h.free {
					free += s.Bytes
				}
				for _, s := range h.used {
					used += s.Bytes
				}
				if free != l.Stranded+l.Cached || used != d.PeakAllocated.Allocated {
					t.Errorf("%s: sizes add up to %d free of %d, %d used of %d", file, free, l.Stranded+l.Cached, used, d.PeakAllocated.Allocated)
				}
			}
		}
	}
}

// areas checks that what is drawn of each use has the share of the area that it has of the bytes.
func areas(t *testing.T, file string, pieces []piece, held int64, sums [numUses]int64) {
	t.Helper()
	m := &addressMap{pieces: pieces, row: rowBytes(held)}
	m.rows = int((held + m.row - 1) / m.row)
	c := draw.NewCanvas(new(recorder.Canvas), 600, 320)
	pitch := vg.Length(320) / vg.Length(m.rows)
	place := func(offset int64) vg.Point {
		return vg.Point{X: 600 * vg.Length(offset%m.row) / vg.Length(m.row), Y: 320 - pitch*vg.Length(offset/m.row+1)}
	}
	whole := float64(pitch) * 600 * float64(held) / float64(m.row)
	for u, list := range m.fills(c, place, pitch) {
		area := 0.0
		for _, r := range list {
			area += float64((r.Max.X - r.Min.X) * (r.Max.Y - r.Min.Y))
		}
		if got, want := area/whole, float64(sums[u])/float64(held); math.Abs(got-want) > 0.002 {
			t.Errorf("%s: %s has %.4f of the area and %.4f of the bytes", file, useStyles()[u].name, got, want)
		}
	}
}

// TestPart draws parts of recordings: nothing is drawn outside, and what is inside is what the whole has there.
func TestPart(t *testing.T) {
	s := subject(t, "gpt_oom.pickle.zst", plain())
	d := s.Device
	whole := axisOf(s.Analysis, d.Trace, plain(), ByEvent)
	levels := map[int]int64{}
	d.Levels(func(l report.Level) { levels[l.Event] = l.Allocated })
	for _, part := range [][2]int{{0, 10}, {3700, 4400}, {5700, 5706}, {100, 101}, {5705, 0}} {
		o := plain()
		o.From, o.To = part[0], part[1]
		x := axisOf(s.Analysis, d.Trace, o, ByEvent)
		allocated, _ := levelLines(d, &x)
		if len(allocated) == 0 || allocated[0].x < x.low || allocated[len(allocated)-1].x > x.high {
			t.Fatalf("%v: from %v to %v there is %v", part, x.low, x.high, allocated)
		}
		for _, p := range allocated {
			if want := levels[int(p.x)-1]; p.v != want && p.x > x.low {
				t.Errorf("%v: %d after event %v, want %d", part, p.v, p.x-1, want)
			}
		}
		if x.high-x.low > whole.high {
			t.Errorf("%v is %v to %v", part, x.low, x.high)
		}
		for _, names := range [][]string{{"timeline"}, {"fragmentation"}} {
			p := &Subject{Analysis: report.Analyze("x", s.Analysis.Trace, o), Options: o, By: ByTime}
			p.Device = &p.Analysis.Devices[0]
			pic, err := p.Picture(names...)
			if err != nil {
				t.Fatal(err)
			}
			svg(t, pic)
		}
	}
}

// TestCrowded chooses events where time would show little.
func TestCrowded(t *testing.T) {
	device := func(times ...trace.Time) *trace.Device {
		var d trace.Device
		for _, at := range times {
			d.Events.Append(trace.Event{Time: at, Op: trace.OpSnapshot})
		}
		return &d
	}
	for _, c := range []struct {
		d    *trace.Device
		want bool
	}{
		{device(0, 10, 20, 30, 40, 50), false},
		{device(0, 1000, 1001, 1002, 1003, 1004), true},
		{device(0, 1, 2, 3, 4, 1000), true},
		{device(0), false},
		{device(), false},
		{device(5, 5, 5, 5), false},
		{device(0, 1000), false},
	} {
		if got := crowded(c.d, report.Options{}); got != c.want {
			t.Errorf("%d events: %v", c.d.Events.Len(), got)
		}
	}
}

// TestWhatCannotBeDrawn checks what people are told, and that there is a recording that has it.
func TestWhatCannotBeDrawn(t *testing.T) {
	for _, c := range []struct{ file, plot, want string }{
		{"inputs/kineto.json", "map", "_dump_snapshot"},
		{"inputs/kineto.json", "fragmentation", "_dump_snapshot"},
		{"nsys/kinds.sqlite.zst", "map", "_dump_snapshot"},
		{"nsys/kinds.sqlite.zst", "fragmentation", "_dump_snapshot"},
		{"inputs/smi.csv", "map", "_dump_snapshot"},
		{"inputs/smi.csv", "sizes", "_dump_snapshot"},
		{"inputs/smi.csv", "allocators", "_dump_snapshot"},
		{"inputs/tensorflow.log", "timeline", "for that: "},
		{"inputs/tensorflow.log", "fragmentation", "for that: "},
		{"golden/oom.pickle.zst", "pie", "there are timeline, fragmentation, map, sizes, allocators, and all"},
	} {
		_, err := subject(t, c.file, plain()).Picture(c.plot)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s of %s: %v, want %q in it", c.plot, c.file, err, c.want)
		}
	}
	pic, err := subject(t, "inputs/kineto.json", plain()).Picture(All)
	if err != nil || len(pic.Panels) != 3 {
		t.Errorf("all that a Kineto trace has: %v, %v", pic, err)
	}
	if _, err := Pick(&report.Analysis{Trace: &trace.Trace{}}, -1); err == nil {
		t.Error("a file with nothing in it has something to draw")
	}
	a := subject(t, "golden/oom.pickle.zst", plain()).Analysis
	if _, err := Pick(a, 7); err == nil || !strings.Contains(err.Error(), "it has 0") {
		t.Errorf("device 7: %v", err)
	}
	if got := slices.Sorted(slices.Values(Names())); len(got) != len(Kinds()) || fmt.Sprint(got) != "[allocators fragmentation map sizes timeline]" {
		t.Errorf("plots are %v", got)
	}
}

// TestAt draws the instant that was asked for.
func TestAt(t *testing.T) {
	for _, event := range []int{-1, 0, 700, 4000, 5705} {
		o := plain()
		o.At = &event
		s := subject(t, "gpt_oom.pickle.zst", o)
		pic, err := s.Picture("sizes")
		if err != nil {
			t.Fatal(err)
		}
		at := s.Device.At
		if shown := words(svg(t, pic)); !strings.Contains(shown, "in use then: "+report.Bytes(at.Allocated)) {
			t.Errorf("after event %d: %s are not in\n%s", event, report.Bytes(at.Allocated), shown)
		}
		pic, err = s.Picture("map")
		if event < 1 {
			if err == nil && event < 0 {
				t.Error("a map of nothing")
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		shown := words(svg(t, pic))
		for _, n := range []int64{at.Reserved, at.Layout.Stranded, at.Layout.Cached} {
			if !strings.Contains(shown, report.Bytes(n)) {
				t.Errorf("after event %d: %s are not in\n%s", event, report.Bytes(n), shown)
			}
		}
	}
}
