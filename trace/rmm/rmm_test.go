package rmm

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"math/rand"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/vramscope/vramscope/trace"
)

func read(text string) (*trace.Trace, error) {
	return Read(bufio.NewReaderSize(strings.NewReader(text), 64<<10))
}

func must(t testing.TB, text string) *trace.Trace {
	t.Helper()
	tr, err := read(text)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return tr
}

func show(tr *trace.Trace) []string {
	var out []string
	for _, d := range tr.Devices {
		for _, e := range d.Events.All() {
			out = append(out, fmt.Sprintf("%d %d %v %#x %d %d %#x", d.Index, e.Time, e.Op, e.Addr, e.Size, int32(e.Block), d.Streams[e.Stream]))
		}
	}
	return out
}

func codes(list []trace.Warning) string {
	var out []string
	for _, w := range list {
		out = append(out, fmt.Sprintf("%s×%d", w.Code, w.Count))
	}
	return strings.Join(out, " ")
}

const second = 1_000_000_000

// What RMM has written from 2019 to today, and what goes by under its name.
func TestEras(t *testing.T) {
	const today = "0 36000000001000 alloc 0x7f0000 100 0 0x2\n0 36000000002000 free 0x7f0000 100 0 0x2\n0 36000000003000 oom 0x0 5000 -1 0x0"
	for _, c := range []struct {
		name, text, want string
		clock            trace.Clock
		warnings         string
	}{
		{"2024-11", "Thread,Time,Action,Pointer,Size,Stream\n9,10:00:00.000001,allocate,0x7f0000,100,2\n9,10:00:00.000002,free,0x7f0000,100,2\n9,10:00:00.000003,allocate failure,(nil),5000,0\n", today, trace.ClockDay, ""},
		{"2022-03", "Thread,Time,Action,Pointer,Size,Stream\n9,10:00:00.000001,allocate,0x7f0000,100,0x2\n9,10:00:00.000002,free,0x7f0000,100,0x2\n9,10:00:00.000003,allocate failure,0x0,5000,0x0\n", today, trace.ClockDay, ""},
		{"2020-06", "Thread,Time,Action,Pointer,Size,Stream\n9,10:00:00:000001,allocate,0x7f0000,100,0x2\n9,10:00:00:000002,free,0x7f0000,100,0x2\n9,10:00:00:000003,allocate failure,0x0,5000,0x0\n", today, trace.ClockDay, ""},
		{"2020-02", "Time,Action,Pointer,Size,Stream\n10:00:00:000001,allocate,0x7f0000,100,0x2\n10:00:00:000002,free,0x7f0000,100,0x2\n10:00:00:000003,allocate failure,0x0,5000,0x0\n", today, trace.ClockDay, ""},
		{"Windows", "\xef\xbb\xbfThread, Time, Action, Pointer, Size, Stream\r\n9,10:00:00.000001,allocate,00000000007F0000,100,2\r\n9,10:00:00.000002,free,00000000007F0000,100,2\r\n9,10:00:00.000003,allocate failure,0000000000000000,5000,0\r\n", today, trace.ClockDay, ""},
		{"the guide's", "Thread,Time,Action,Pointer,Size,Stream\n9,1700000000.000001,allocate,0x7f0000,100,2\n9,1700000000.5,deallocate,0x7f0000,100,2\n",
			"0 1700000000000001000 alloc 0x7f0000 100 0 0x2\n0 1700000000500000000 free 0x7f0000 100 0 0x2", trace.ClockEpoch, ""},
		{"no header, in a log", "24/01/01 INFO Executor: starting\n9,10:00:00.000001,allocate,0x7f0000,100,0x2\nWARN x,y,z\n9,10:00:00.000002,free,0x7f0000,100,0x2\n9,10:00:00.000003,allocate failure,(nil),5000,0x0\n", today, trace.ClockDay, "other-text×2"},
		{"csv_log of 2019", "Event Type,Device ID,Address,Stream,Size (bytes),Free Memory,Total Memory,Current Allocs,Start,End,Elapsed,Location\n" +
			"Alloc,1,0x7f0000,0x0,100,0,0,1,0.5,0.6,0.1,a.cpp:12\nFree,1,0x7f0000,0x0,0,900,1000,0,1.5,1.6,0.1,\"b.cpp, line 3\"\nRealloc,1,0x7f0000,0x0,5,900,1000,0,2,2,0,x\n",
			"1 500000000 alloc 0x7f0000 100 0 0x0\n1 1500000000 free 0x7f0000 100 0 0x0", trace.ClockRecording, "realloc×1"},
		{"no addresses", "Time,Action,Size,Stream\n10:00:00:000001,allocate,100,0x2\n10:00:00:000002,allocate,50,0x2\n10:00:00:000003,free,100,0x2\n", "", trace.ClockDay, "no-addresses×1"},
		{"no times", "Action,Size,Stream\nallocate,100,0x2\nfree,100,0x2\n", "", trace.ClockNone, "no-addresses×1"},
		{"a header alone", "Thread,Time,Action,Pointer,Size,Stream\n", "", trace.ClockDay, "no-events×1"},
		{"bad rows", "Thread,Time,Action,Pointer,Size,Stream\n9,25:00:00.000001,allocate,0x1,1,0\n9,10:00:00,allocate,0x1,-1,0\n9,10:00:00,allocate,0xg,1,0\n9,10:00:00,grow,0x1,1,0\n9,10:00:00,allocate,0x1,1,0,7\n" +
			"9,10:00:00,allocate,0x0,1,0\n9,10:00:00,free,0x0,0,0\n9,10:00:00,allocate,0x100,1,0\n", "0 36000000000000 alloc 0x100 1 0 0x0", trace.ClockDay, "bad-line×5 null-pointer×1"},
		{"ends in the middle", "Thread,Time,Action,Pointer,Size,Stream\n9,10:00:00.000001,allocate,0x7f0000,100,2\n9,10:00:0", "0 36000000001000 alloc 0x7f0000 100 0 0x2", trace.ClockDay, "cut×1"},
	} {
		tr := must(t, c.text)
		if diff := cmp.Diff(c.want, strings.Join(show(tr), "\n")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
		if tr.Source.Clock != c.clock || codes(tr.Warnings) != c.warnings {
			t.Errorf("%s: clock %d, warnings %s", c.name, tr.Source.Clock, codes(tr.Warnings))
		}
		if tr.Source.Cut != strings.Contains(c.warnings, "cut") {
			t.Errorf("%s: cut %v", c.name, tr.Source.Cut)
		}
	}
	// Without addresses there is the sum.
	d := must(t, "Time,Action,Size,Stream\n10:00:00:000001,allocate,100,0x2\n10:00:00:000002,allocate,50,0x2\n10:00:00:000003,free,100,0x2\n").Devices[0]
	if s := trace.FindSeries(d.Series, trace.Requested); d.Content != trace.Samples || s == nil || s.Max != 150 || s.Last() != 50 {
		t.Errorf("sum: %+v", d.Series)
	}
	if d := must(t, "Event Type,Device ID,Address,Stream,Size (bytes),Free Memory,Total Memory,Current Allocs,Start,End,Elapsed,Location\nAlloc,1,0x7f0000,0x0,100,900,4096,1,0.5,0.6,0.1,a\n").Devices[0]; d.Capacity != 4096 {
		t.Errorf("capacity %d", d.Capacity)
	}
}

// Midnight adds a day, a small step back does not, and a thread that is late just after midnight belongs to
// the day before.
func TestMidnight(t *testing.T) {
	text := "Thread,Time,Action,Pointer,Size,Stream\n"
	for i, at := range []string{"23:59:59.0", "23:59:58.9", "00:00:01.0", "23:59:59.9", "00:00:02", "12:30:00", "00:00:00"} {
		text += fmt.Sprintf("1,%s,allocate,0x%x,1,0\n", at, (i+1)<<8)
	}
	var got []float64
	for _, e := range must(t, text).Devices[0].Events.All() {
		got = append(got, float64(e.Time)/second)
	}
	if diff := cmp.Diff([]float64{86399, 86398.9, 86401, 86399.9, 86402, 86400 + 45000, 2 * 86400}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestLateAndDouble(t *testing.T) {
	tr := must(t, "Thread,Time,Action,Pointer,Size,Stream\n1,00:00:01,free,0x100,64,0\n1,00:00:02,allocate,0x100,64,5\n1,00:00:03,allocate,0x100,32,1\n")
	d := tr.Devices[0]
	if codes(d.Warnings) != "starts-in-mid-run×1 alloc-at-live-address×1" || len(d.Initial.Blocks) != 1 || d.Initial.Blocks[0].Requested != 64 || fmt.Sprint(d.Streams) != "[0 1 5]" {
		t.Errorf("%s %+v %v", codes(d.Warnings), d.Initial.Blocks, d.Streams)
	}
}

func TestNamed(t *testing.T) {
	for name, want := range map[string]int{"rmm_log.dev3.csv": 3, "rmm_log.csv": 0, "x.dev12.csv.gz": 12, "dev.csv": 0, "device7.csv": 0, "a.dev99999999.csv": 0} {
		tr := must(t, "Thread,Time,Action,Pointer,Size,Stream\n1,00:00:02,allocate,0x100,64,5\n")
		if Named(tr, name); tr.Devices[0].Index != want {
			t.Errorf("%s: device %d", name, tr.Devices[0].Index)
		}
	}
}

func TestDebugLog(t *testing.T) {
	tr := must(t, "[7][15:39:53:785777][info  ] ----- RMM LOG BEGIN [PTDS ENABLED] -----\n"+
		"[7][15:39:54:000001][debug ] [A][Stream 0x1][1024B]\n"+
		"[7][15:39:55:000000][error ] [A][Stream 0x1][Upstream 12452429824B][FAILURE maximum pool size exceeded]\n"+
		"[7][00:00:01:000000][error ] [A][Stream 0x1][Upstream 5B][FAILURE maximum pool size exceeded]\nnot a line\n")
	if len(tr.Devices) != 0 || codes(tr.Warnings) != "no-events×1 oom×2" || !strings.Contains(tr.Warnings[0].Message, "rmm.enable_logging") ||
		!strings.Contains(tr.Warnings[1].Message, "in line 3: the pool asked for 12452429824 bytes, maximum pool size exceeded") {
		t.Errorf("%d devices, %v", len(tr.Devices), tr.Warnings)
	}
	if tr := must(t, "[7][15:39:53:785777][info  ] hello\n"); len(tr.Devices) != 0 {
		t.Errorf("%+v", tr.Devices)
	}
}

func TestOthers(t *testing.T) {
	for _, text := range []string{"", "hello\n", "a,b,c\n1,2,3\n", "1,10:00:00,allocated,0x1,1,0\n", "[7] [15:39:53] x", "{}", "Action\nallocate\n", "1,2,allocate\n"} {
		in := bufio.NewReader(strings.NewReader(text))
		_, err := Read(in)
		rest, _ := in.Peek(1)
		if err != trace.ErrUnrecognized || len(text) > 0 && len(rest) == 0 {
			t.Errorf("%q: %v, something taken: %v", text, err, len(rest) == 0)
		}
	}
}

// Whatever is allocated and freed comes out as it was written, in either notation of pointers and times.
func TestWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var text strings.Builder
		text.WriteString("Thread,Time,Action,Pointer,Size,Stream\n")
		var want []string
		at, live := int64(0), []int{}
		next := 0
		for range rapid.IntRange(0, 60).Draw(t, "rows") {
			at += rapid.Int64Range(0, 40_000*second/1000).Draw(t, "wait") * 1000
			clock := at % day
			sep := rapid.SampledFrom([]string{".", ":"}).Draw(t, "separator")
			stamp := fmt.Sprintf("%02d:%02d:%02d%s%06d", clock/3600/second, clock/60/second%60, clock/second%60, sep, clock/1000%1_000_000)
			id, action := next, "allocate"
			if len(live) > 0 && rapid.Bool().Draw(t, "free") {
				i := rapid.IntRange(0, len(live)-1).Draw(t, "which")
				id, action = live[i], "free"
				live = append(live[:i], live[i+1:]...)
			} else {
				live = append(live, id)
				next++
			}
			op := map[string]string{"allocate": "alloc", "free": "free"}[action]
			fmt.Fprintf(&text, "1,%s,%s,%#x,%d,%#x\n", stamp, action, (id+1)*512, id, id%3)
			want = append(want, fmt.Sprintf("0 %d %s %#x %d %d %#x", at, op, (id+1)*512, id, id, id%3))
		}
		tr, err := read(text.String())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, show(tr)); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	})
}

// FuzzLog: any text ends in a result that holds together.
func FuzzLog(f *testing.F) {
	f.Add([]byte("Thread,Time,Action,Pointer,Size,Stream\n9,10:00:00.000001,allocate,0x7f0000,100,2\n9,10:00:00.000002,free,0x7f0000,100,2\n9,10:00:00.000003,allocate failure,(nil),5000,0\n"))
	f.Add([]byte("Event Type,Device ID,Address,Stream,Size (bytes),Free Memory,Total Memory,Current Allocs,Start,End,Elapsed,Location\nAlloc,1,0x7f0000,0x0,100,0,0,1,0.5,0.6,0.1,a.cpp:12\n"))
	f.Add([]byte("[7][15:39:55:000000][error ] [A][Stream 0x1][Upstream 12452429824B][FAILURE maximum pool size exceeded]\n"))
	f.Add([]byte("Action,Size,Stream\nallocate,1,0\nTime,Action,Pointer,Size,Stream\n10:00:00,free,0x1,2,3"))
	f.Fuzz(func(t *testing.T, data []byte) {
		tr, err := Read(bufio.NewReaderSize(bytes.NewReader(data), 64<<10))
		if err != nil {
			if !errors.Is(err, trace.ErrUnrecognized) {
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
	var text bytes.Buffer
	text.WriteString("Thread,Time,Action,Pointer,Size,Stream\n")
	r := rand.New(rand.NewSource(1))
	const rows = 200_000
	for i := range rows {
		action := []string{"allocate", "free"}[i%2]
		fmt.Fprintf(&text, "4242,%02d:%02d:%02d.%06d,%s,0x7f%010x,%d,0x2\n", i/36000%24, i/600%60, i/10%60, i%10*100000, action, i/2*512, r.Intn(1<<30))
	}
	b.SetBytes(int64(text.Len()))
	for b.Loop() {
		if _, err := Read(bufio.NewReaderSize(bytes.NewReader(text.Bytes()), 64<<10)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(rows)*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mrows/s")
}

// Cut anywhere, a log is used as far as it goes, and no row is made up.
func TestCutAnywhere(t *testing.T) {
	const text = "Thread,Time,Action,Pointer,Size,Stream\n9,10:00:00.000001,allocate,0x7f0000,100,0x2\n9,10:00:00.000002,free,0x7f0000,100,0x2\n"
	for n := len("Thread,Time,Action,Pointer,Size,Stream\n"); n < len(text); n++ {
		tr := must(t, text[:n])
		whole := strings.Count(text[:n], "\n") - 1
		if got := len(show(tr)); got != whole && got != whole+1 {
			t.Errorf("%d bytes: %d events of %d rows", n, got, whole)
		}
		if ends := text[n-1] == '\n'; tr.Source.Cut == ends && whole > 0 {
			t.Errorf("%d bytes: cut %v", n, tr.Source.Cut)
		}
	}
}
