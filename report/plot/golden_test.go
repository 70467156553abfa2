package plot

import (
	"bytes"
	"flag"
	"fmt"
	"image"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/internal/recordtest"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/trace"
	"github.com/vramscope/vramscope/trace/source"
)

var update = flag.Bool("update", false, "write the golden files")

// subject analyses a recording of the repository.
func subject(t testing.TB, file string, o report.Options) *Subject {
	t.Helper()
	recording, err := source.Open(filepath.Join(recordtest.Testdata(), filepath.FromSlash(file)), source.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return subjectOf(t, file, recording, o)
}

func subjectOf(t testing.TB, file string, recording *trace.Trace, o report.Options) *Subject {
	t.Helper()
	a := report.Analyze(file, recording, o)
	d, err := Pick(a, o.Device)
	if err != nil {
		t.Fatal(err)
	}
	s := &Subject{Analysis: a, Options: o, Device: d}
	s.Replay = func() (*report.Replays, error) {
		settings, models := Compared(d)
		return report.Replay(file, recording, d.Trace, report.ReplayOptions{Settings: settings, Models: models, Limit: o.Limit, Memory: o.Memory, RecordedLimit: o.Limit})
	}
	return s
}

func plain() report.Options { return report.Options{Limit: -1, Device: -1} }

func capped() report.Options { return report.Options{Limit: 12 << 30, Device: -1} }

// TestGolden draws pictures and compares them with those that were looked at. The name of a golden file is the recording
// and the plots.
func TestGolden(t *testing.T) {
	part := plain()
	part.From, part.To = 3700, 4400
	small := Size{800, 450}
	for _, c := range []struct {
		name, file string
		plots      string
		options    report.Options
		by         By
		size       Size
		vectors    bool // whether the SVG is kept too
	}{
		{"oom_timeline", "gpt_oom.pickle.zst", "timeline", plain(), ByEither, small, false},
		{"oom_by_time", "gpt_oom.pickle.zst", "timeline", capped(), ByTime, small, true},
		{"oom_part", "gpt_oom.pickle.zst", "timeline,fragmentation", part, ByEither, Size{800, 740}, false},
		{"oom_fragmentation", "gpt_oom.pickle.zst", "fragmentation", plain(), ByEither, small, false},
		{"oom_map", "gpt_oom.pickle.zst", "map", plain(), ByEither, small, true},
		{"oom_sizes", "gpt_oom.pickle.zst", "sizes", plain(), ByEither, small, true},
		{"oom_allocators", "gpt_oom.pickle.zst", "allocators", capped(), ByEither, small, true},
		{"dynamic_usual", "torch/dynamic_batch.c0.pickle.zst", "", plain(), ByEither, Size{800, 740}, false},
		{"graphs_three", "torch/graphs.c0.pickle.zst", "timeline,fragmentation,map", plain(), ByEither, Size{800, 1060}, false},
		{"expandable_map", "golden/oom_exp.pickle.zst", "map", plain(), ByEither, small, true},
		{"ring_timeline", "golden/ring.pickle.zst", "timeline", plain(), ByEither, small, false},
		{"kineto_usual", "inputs/kineto.json", "", plain(), ByEither, Size{800, 740}, true},
		{"nsys_timeline", "nsys/kinds.sqlite.zst", "timeline", plain(), ByTime, small, false},
		{"smi_usual", "inputs/smi.csv", "", plain(), ByEither, small, true},
		{"bfc_usual", "inputs/tensorflow.log", "", plain(), ByEither, Size{800, 740}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := subject(t, c.file, c.options)
			s.By = c.by
			var names []string
			if c.plots != "" {
				names = strings.Split(c.plots, ",")
			}
			pic, err := s.Picture(names...)
			if err != nil {
				t.Fatal(err)
			}
			var bits, vectors bytes.Buffer
			if err := pic.WritePNG(&bits, c.size); err != nil {
				t.Fatal(err)
			}
			if err := pic.WriteSVG(&vectors, c.size); err != nil {
				t.Fatal(err)
			}
			golden(t, c.name+".png", bits.Bytes(), samePixels)
			if c.vectors {
				golden(t, c.name+".svg", vectors.Bytes(), sameVectors)
			}
		})
	}
}

// golden compares with a file, or writes it.
func golden(t *testing.T, name string, got []byte, same func(got, want []byte) error) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := same(got, want); err != nil {
		other := filepath.Join(os.TempDir(), "got_"+name)
		os.WriteFile(other, got, 0o644)
		t.Errorf("%s: %v; compare with %s, and write it with -update if it is right", name, err, other)
	}
}

// tolerance is how far channels and coordinates may be off, and what share of the pixels: elsewhere floating-point
// numbers are rounded otherwise.
func tolerance() (channel int, pixels, coordinate float64) {
	if runtime.GOARCH == "amd64" {
		return 0, 0, 0
	}
	return 24, 0.002, 0.06
}

func samePixels(got, want []byte) error {
	a, err := png.Decode(bytes.NewReader(got))
	if err != nil {
		return err
	}
	b, err := png.Decode(bytes.NewReader(want))
	if err != nil {
		return err
	}
	if a.Bounds() != b.Bounds() {
		return fmt.Errorf("it is %v, not %v", a.Bounds(), b.Bounds())
	}
	channel, share, _ := tolerance()
	off, all := 0, a.Bounds().Dx()*a.Bounds().Dy()
	for y := range a.Bounds().Dy() {
		for x := range a.Bounds().Dx() {
			if apart(a, b, x, y) > channel {
				off++
			}
		}
	}
	if float64(off) > share*float64(all) {
		return fmt.Errorf("%d of %d pixels differ", off, all)
	}
	return nil
}

// apart is by how much the most different channel of a pixel differs, of 255.
func apart(a, b image.Image, x, y int) int {
	ar, ag, ab, _ := a.At(x, y).RGBA()
	br, bg, bb, _ := b.At(x, y).RGBA()
	off := 0
	for _, d := range []int{int(ar) - int(br), int(ag) - int(bg), int(ab) - int(bb)} {
		off = max(off, d>>8, -d>>8)
	}
	return off
}

var numbers = regexp.MustCompile(`-?[0-9]+(\.[0-9]+)?`)

func sameVectors(got, want []byte) error {
	if bytes.Equal(got, want) {
		return nil
	}
	_, _, most := tolerance()
	a, b := numbers.Split(string(got), -1), numbers.Split(string(want), -1)
	if strings.Join(a, "#") != strings.Join(b, "#") {
		return fmt.Errorf("it has other things in it")
	}
	x, y := numbers.FindAllString(string(got), -1), numbers.FindAllString(string(want), -1)
	for i := range x {
		p, _ := strconv.ParseFloat(x[i], 64)
		q, _ := strconv.ParseFloat(y[i], 64)
		if math.Abs(p-q) > most {
			return fmt.Errorf("%s stands for %s", x[i], y[i])
		}
	}
	return nil
}

// TestSame checks that the comparisons see what matters.
func TestSame(t *testing.T) {
	s := subject(t, "golden/oom.pickle.zst", plain())
	draw := func(title string) (bits, vectors []byte) {
		pic, err := s.Picture("sizes")
		if err != nil {
			t.Fatal(err)
		}
		pic.Title = title
		var a, b bytes.Buffer
		if err := pic.WritePNG(&a, Size{400, 225}); err != nil {
			t.Fatal(err)
		}
		if err := pic.WriteSVG(&b, Size{400, 225}); err != nil {
			t.Fatal(err)
		}
		return a.Bytes(), b.Bytes()
	}
	bits, vectors := draw("peak 8")
	again, too := draw("peak 8")
	if !bytes.Equal(bits, again) || !bytes.Equal(vectors, too) {
		t.Error("the same picture is not the same file")
	}
	other, more := draw("peak 9")
	if samePixels(bits, other) == nil && runtime.GOARCH == "amd64" {
		t.Error("another digit is not seen in the pixels")
	}
	if sameVectors(vectors, more) == nil {
		t.Error("another digit is not seen in the vectors")
	}
	if samePixels(bits, bits) != nil || sameVectors(vectors, vectors) != nil {
		t.Error("a picture differs from itself")
	}
}
