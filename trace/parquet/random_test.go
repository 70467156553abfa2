package parquet_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/vramscope/vramscope/internal/tracetest"
	"github.com/vramscope/vramscope/trace"
	"github.com/vramscope/vramscope/trace/parquet"
)

// back writes a trace and reads it.
func back(t testing.TB, tr *trace.Trace) *trace.Trace {
	t.Helper()
	got, err := read(written(t, tr))
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// Recordings to which all sorts of things have happened come back too.
func TestDamagedRecordings(t *testing.T) {
	for _, damage := range tracetest.Damages {
		want := small()
		d := damage.Apply(&want.Devices[0])
		d.Final.Groups = nil
		want.Devices[0] = *d
		t.Run(damage.Name, func(t *testing.T) { same(t, want, back(t, want)) })
	}
}

// Whatever a program asks of its allocator, whatever the names are, and whatever numbers stand where there are
// no rules for them.
func TestRandomRecordings(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
			rapid.SampledFrom([]string{"", "\x00", "\xff\xfe", "\ufffd", "\U0010ff00", "\U0010ffff\xf4\x8f", "a\U0010ff41", "\xed\xa0\x80", "\\u0000", "<&>\u2028"}))
		r := tracetest.New(rapid.SampledFrom([]string{"", "expandable_segments:True"}).Draw(rt, "conf"), -1)
		var blocks []int
		for range rapid.IntRange(0, 60).Draw(rt, "steps") {
			if n := len(blocks); n > 0 && rapid.Bool().Draw(rt, "free") {
				r.Free(blocks[rapid.IntRange(0, n-1).Draw(rt, "which")])
				continue
			}
			blocks = append(blocks, r.Alloc(rapid.Int64Range(1, 64<<20).Draw(rt, "size"), rapid.SampledFrom([]string{"", "a.py:1 f", "a.py:1 f < b.py:2 g", "b.py:2 g < b.py:2 g"}).Draw(rt, "stack")))
		}
		want := r.Trace()
		number := rapid.Int64()
		integer := rapid.Map(number, func(n int64) int { return int(n) })
		want.Source = trace.Source{Format: text.Draw(rt, "format"), Producer: text.Draw(rt, "producer"), Bytes: number.Draw(rt, "bytes"),
			Clock: trace.Clock(rapid.IntRange(0, int(trace.ClockNone)).Draw(rt, "clock")), Cut: rapid.Bool().Draw(rt, "cut"),
			Counts: []trace.Count{{What: text.Draw(rt, "what"), N: integer.Draw(rt, "n")}},
			Lacks:  []trace.Lack{{What: text.Draw(rt, "what"), Instead: text.Draw(rt, "instead")}}}
		want.Settings = trace.Settings{Known: rapid.Bool().Draw(rt, "known"), Conf: text.Draw(rt, "conf"), MaxSplitSize: number.Draw(rt, "split"),
			GCThreshold: rapid.SampledFrom([]float64{0, 0.1, math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1), math.MaxFloat64, 5e-324}).Draw(rt, "gc"),
			Expandable:  rapid.Bool().Draw(rt, "expandable"), HasExpandable: rapid.Bool().Draw(rt, "has"), HasRoundup: rapid.Bool().Draw(rt, "has")}
		for i := range want.Settings.Roundup {
			want.Settings.Roundup[i] = integer.Draw(rt, "roundup")
		}
		warning := rapid.Custom(func(t *rapid.T) trace.Warning {
			return trace.Warning{Code: text.Draw(t, "code"), Message: text.Draw(t, "message"), Count: integer.Draw(t, "count"), First: integer.Draw(t, "first")}
		})
		want.Warnings = rapid.SliceOfN(warning, 0, 2).Draw(rt, "warnings")
		want.Markers = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) trace.Marker {
			return trace.Marker{Time: trace.Time(number.Draw(t, "time")), Device: integer.Draw(t, "device"), Name: text.Draw(t, "name"), Edge: trace.Edge(rapid.IntRange(0, 2).Draw(t, "edge"))}
		}), 0, 5).Draw(rt, "markers")
		for range rapid.IntRange(0, 3).Draw(rt, "frames") { // that may be in no stack
			want.Stacks.AddFrame(trace.Frame{File: text.Draw(rt, "file"), Func: text.Draw(rt, "func"), Line: integer.Draw(rt, "line")})
		}
		d := &want.Devices[0]
		d.Index, d.Name, d.UUID, d.Capacity = integer.Draw(rt, "index"), text.Draw(rt, "name"), text.Draw(rt, "uuid"), number.Draw(rt, "capacity")
		d.Streams = append(d.Streams, rapid.SliceOf(rapid.Uint64()).Draw(rt, "streams")...)
		d.Pools = append(d.Pools, trace.Pool{rapid.Uint64().Draw(rt, "a"), rapid.Uint64().Draw(rt, "b")})
		d.PoolInfo = []trace.PoolInfo{{Name: text.Draw(rt, "pool"), Direct: rapid.Bool().Draw(rt, "direct")}}
		d.Warnings = rapid.SliceOfN(warning, 0, 2).Draw(rt, "warnings")
		for _, e := range d.Events.All() {
			e.Time = trace.Time(number.Draw(rt, "time"))
			e.Stream = trace.StreamID(rapid.IntRange(0, len(d.Streams)-1).Draw(rt, "stream"))
			e.Pool = rapid.SampledFrom([]trace.PoolID{0, 1, trace.PoolUnknown}).Draw(rt, "pool")
		}
		series := trace.Series{Quantity: trace.Quantity(rapid.IntRange(0, int(trace.Busy)).Draw(rt, "quantity")), Name: text.Draw(rt, "name"), PID: number.Draw(rt, "pid")}
		series.Limit(rapid.IntRange(2, 10).Draw(rt, "limit"))
		for _, v := range rapid.SliceOf(number).Draw(rt, "samples") {
			series.Add(trace.Time(v>>8), v)
		}
		d.Series = []trace.Series{series, series}
		got := back(t, want)
		c := comparison{t: t}
		c.trace(want, got)
		if len(c.found) > 0 {
			rt.Fatalf("%q", c.found)
		}
		if a, b := written(t, want), written(t, got); !bytes.Equal(a, b) {
			rt.Fatalf("%d bytes, and %d when it is written again", len(a), len(b))
		}
	})
}

// Files whose names were changed after they were read may be alike; frames and stacks keep their numbers.
func TestRenamedFiles(t *testing.T) {
	want := small()
	want.Stacks.RenameFiles(func(string) string { return "x" })
	same(t, want, back(t, want))
}

// Texts may be long: a name is that of a template, an annotation is what a program wrote. Files whose pages have
// the least and the largest text in their headers are read as well.
func TestLongTexts(t *testing.T) {
	for _, length := range []int{10_000, 100_000, 500_000, 2_000_000} {
		want := small()
		long := strings.Repeat("template<", length/9)
		want.Stacks.RenameFiles(func(name string) string { return name + long })
		want.Markers = append(want.Markers, trace.Marker{Time: want.Markers[0].Time, Device: -1, Name: long})
		data := written(t, want)
		got, err := read(data)
		if err != nil {
			t.Fatalf("%d bytes: %v", length, err)
		}
		same(t, want, got)
		if length > 500_000 {
			continue // no header has room for such
		}
		rows, said := rowsOf(t, data)
		if got, err = read(rewritten(t, rows, said)); err != nil { // with statistics
			t.Fatalf("%d bytes, of another writer: %v", length, err)
		}
		same(t, want, got)
	}
}

// However many frames are alike, and whatever they are called, keeping them apart takes little: as a file that somebody
// made for that would have it.
func TestFramesThatAreAlike(t *testing.T) {
	const frames, length = 2000, 100_000
	want := &trace.Trace{Stacks: trace.NewStacks(), Settings: trace.Settings{MaxSplitSize: -1}}
	for i := range frames {
		want.Stacks.AddFrame(trace.Frame{File: "\x00apart" + strconv.Itoa(i), Func: "f"})
		want.Stacks.AddFrame(trace.Frame{File: "x" + strconv.Itoa(i), Func: "f"})
	}
	long := strings.Repeat("x", length)
	want.Stacks.RenameFiles(func(name string) string {
		if name[0] == 'x' {
			return long
		}
		return name
	})
	data := written(t, want)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got, err := read(data)
	if err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > frames*length/2 {
		t.Errorf("%d bytes for a file of %d", n, len(data))
	}
	same(t, want, got)
}

// More rows than a row group has, and than a list of events keeps together.
func TestManyRows(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	want := &trace.Trace{Stacks: trace.NewStacks(), Devices: make([]trace.Device, 2)}
	for i := range want.Devices {
		d := &want.Devices[i]
		d.Streams, d.Pools, d.Index = []uint64{0, 1 << 63}, []trace.Pool{{}}, 1-i
		for range 150_000 {
			d.Events.Append(trace.Event{Op: trace.OpAlloc, Time: trace.Time(r.Int64()), Addr: r.Uint64() >> 1, Size: r.Int64N(trace.MaxSize), Block: trace.BlockID(d.NumBlocks),
				Stream: trace.StreamID(r.IntN(2)), Pool: trace.PoolUnknown})
			d.NumBlocks++
		}
		for range 9000 {
			d.Final.Blocks = append(d.Final.Blocks, trace.Block{ID: trace.NoBlock, Addr: r.Uint64() >> 1, Size: r.Int64N(1 << 30)})
		}
	}
	same(t, want, back(t, want))
}

func TestTexts(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := rapid.SliceOf(rapid.OneOf(rapid.Byte(), rapid.SampledFrom([]byte("\xf4\x8f\xbc\xbd\xbf\x80\xff")))).Draw(rt, "bytes")
		e := parquet.Escape(string(b))
		if !utf8.ValidString(e) || parquet.Unescape(e) != string(b) {
			rt.Fatalf("%q becomes %q, and that %q", b, e, parquet.Unescape(e))
		}
		if valid := rapid.String().Draw(rt, "text"); utf8.ValidString(valid) && len(valid) < 4 && parquet.Escape(valid) != valid {
			rt.Fatalf("%q is changed", valid)
		}
	})
}
