package kineto

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"

	"github.com/vramscope/vramscope/trace"
)

func read(data []byte) (*trace.Trace, error) {
	return Read(bufio.NewReaderSize(bytes.NewReader(data), 64<<10))
}

func mustRead(t *testing.T, data []byte) *trace.Trace {
	t.Helper()
	tr, err := read(data)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func (g *generator) bytes(t testing.TB) []byte {
	var b bytes.Buffer
	if err := g.write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// tally adds up a device's events: allocations, frees, and the most that they had in use.
type sums struct {
	allocs, frees int
	peak, level   int64
}

func sum(d *trace.Device) (s sums) {
	for _, e := range d.Events.All() {
		switch e.Op {
		case trace.OpAlloc:
			s.allocs++
			s.level += e.Size
		case trace.OpFree:
			s.frees++
			s.level -= e.Size
		}
		s.peak = max(s.peak, s.level)
	}
	return s
}

func older1(d *trace.Device) (n int64) {
	for _, b := range d.Initial.Blocks {
		n += b.Requested
	}
	return n
}

func codes(list []trace.Warning) string {
	var out []string
	for _, w := range list {
		out = append(out, w.Code)
	}
	return strings.Join(out, " ")
}

// Every form in which the profiler wrote the same events reads the same.
func TestForms(t *testing.T) {
	for name, g := range map[string]*generator{
		"base first": {size: 1 << 20}, "base last": {size: 1 << 20, baseLast: true}, "minified": {size: 1 << 20, flat: true, baseLast: true},
		"without addresses": {size: 1 << 20, noAddr: true},
	} {
		tr := mustRead(t, g.bytes(t))
		d := &tr.Devices[0]
		s := sum(d)
		if s.allocs != g.allocs || s.frees != g.frees || s.peak != g.peak || s.level != 0 {
			t.Errorf("%s: %+v, want %d, %d, %d", name, s, g.allocs, g.frees, g.peak)
		}
		if tr.Source.Counts[0].N != g.events || tr.Source.Counts[1].N != g.allocs+g.frees || len(tr.Warnings) != 0 {
			t.Errorf("%s: %+v %v", name, tr.Source.Counts, tr.Warnings)
		}
		want := int64(genBefore)
		if g.noAddr {
			want = 0
		}
		if got := older1(d); got != want {
			t.Errorf("%s: %d bytes before, want %d", name, got, want)
		}
		first := d.Events.At(0)
		if want := trace.Time(genBase + genStart*1000 + (10_000_000/202)/2); first.Time != want {
			t.Errorf("%s: begins at %d, want %d", name, first.Time, want)
		}
		var stack []string
		for _, f := range tr.Stacks.Stack(first.Stack) {
			stack = append(stack, fmt.Sprintf("%s:%d:%s", f.File, f.Line, f.Func))
		}
		if got, want := strings.Join(stack, " "), ":0:aten::empty :0:aten::linear torch/nn/modules/linear.py:125:forward train.py:10:block0 :0:ProfilerStep#"; got != want {
			t.Errorf("%s: stack %q, want %q", name, got, want)
		}
		if got := tr.Stacks.Stack(d.Events.At(d.Events.Len() - 1).Stack); len(got) != 2 || got[0].Func != "MmBackward0" {
			t.Errorf("%s: last stack %v", name, got)
		}
		if d.Name != "NVIDIA H200" || d.Capacity != 150109880320 || !d.Rounded {
			t.Errorf("%s: %q %d", name, d.Name, d.Capacity)
		}
		if len(tr.Markers) == 0 || tr.Markers[0].Name != "ProfilerStep#0" || tr.Markers[0].Edge != trace.EdgeStart {
			t.Errorf("%s: markers %v", name, tr.Markers)
		}
		text := fmt.Sprintf("%+v %+v", tr, tr.Stacks)
		if strings.Contains(text, "somebody") {
			t.Errorf("%s: a name of a person or a path came through", name)
		}
	}
}

// The shape of a trace of 2022: whole microseconds since the epoch, grouped by thread, ties, two devices and the host.
func TestShapeOf2022(t *testing.T) {
	var b strings.Builder
	b.WriteString("\n{\n\"schemaVersion\": 1, \"traceEvents\": [\n")
	line := func(tid int, ts int64, kind, id int, addr uint64, bytes, allocated, reserved int64) {
		fmt.Fprintf(&b, `{"ph":"i","cat":"cpu_instant_event","s":"t","name":"[memory]","pid":1,"tid":%d,"ts":%d,"args":{"Ev Idx":1,"Device Type":%d,"Device Id":%d,"Addr":%d,"Bytes":%d,"Total Allocated":%d,"Total Reserved":%d}},`+"\n",
			tid, ts, kind, id, addr, bytes, allocated, reserved)
	}
	const t0 = 1669783687464300
	// Thread 2 stands before thread 1 in the file although it is later; at t0+5 an address is freed and taken again.
	line(2, t0+5, 1, 1, 0x1000, -512, 1000*512+1024, 2<<20)
	line(2, t0+5, 1, 1, 0x1000, 1024, 1002*512+1024, 2<<20)
	line(2, t0+9, 1, 1, 0x9000, -2048, 998*512+1024, 2<<20) // older than the window
	line(1, t0, 1, 1, 0x1000, 512, 1001*512, 2<<20)
	line(1, t0+2, 1, 1, 0x2000, 1024, 1003*512, 4<<20)
	line(1, t0+3, 0, -1, 0x77, 64, 0, 0)
	line(1, t0+4, 0, -1, 0x77, -64, 0, 0)
	b.WriteString(`{"ph":"i","s":"t","name":"[OutOfMemory]","pid":1,"tid":1,"ts":1669783687464399,"args":{"Device Type":1,"Device Id":1,"Bytes":4096,"Total Allocated":512000,"Total Reserved":4194304}}` + "\n]}\n")
	tr := mustRead(t, []byte(b.String()))
	d := &tr.Devices[0]
	s := sum(d)
	if d.Index != 1 || s.allocs != 3 || s.frees != 2 || s.peak != 2048 {
		t.Errorf("device %d: %+v", d.Index, s)
	}
	if got := older1(d); got != 1000*512 {
		t.Errorf("%d bytes before the first event, want %d", got, 1000*512)
	}
	if len(d.Initial.Blocks) != 2 || d.NumBlocks != 5 || d.Initial.Blocks[1].Addr != 0x9000 || d.Initial.Blocks[1].Size != 2048 {
		t.Errorf("initial blocks %+v of %d", d.Initial.Blocks, d.NumBlocks)
	}
	if got := codes(d.Warnings); got != "starts-in-mid-run" {
		t.Errorf("warnings %s", got)
	}
	if e := d.Events.At(d.Events.Len() - 1); e.Op != trace.OpOOM || e.Size != 4096 {
		t.Errorf("last event %+v", e)
	}
	if d.Events.At(0).Time != t0*1000 || tr.Source.Clock != trace.ClockEpoch {
		t.Errorf("time %d", d.Events.At(0).Time)
	}
	if r := trace.FindSeries(d.Series, trace.AllocatorReserved); r == nil || r.Max != 4<<20 || r.Samples != 6 {
		t.Errorf("reserved %+v", r)
	}
	if len(tr.Beside) != 1 || tr.Beside[0].Events.Len() != 2 || tr.Beside[0].Index != -1 {
		t.Errorf("host %+v", tr.Beside)
	}
}

// The shape of 2021: no category, no addresses, no totals, call stacks spelled out in the operators.
func TestShapeOf2021(t *testing.T) {
	const text = `{"traceEvents": [
	{"ph":"X","name":"aten::mm","pid":1,"tid":"1","ts":1000000000000000,"dur":10,"args":{"Call stack":"train.py(12): loss;train.py(40): <module>"}},
	{"ph":"i","s":"t","name":"[memory]","pid":1,"tid":1,"ts":1000000000000005,"args":{"Device Type":1,"Device Id":0,"Bytes":512}},
	{"ph":"i","s":"t","name":"[memory]","pid":1,"tid":1,"ts":1000000000000006,"args":{"Device Type":1,"Device Id":0,"Bytes":512}},
	{"ph":"i","s":"t","name":"[memory]","pid":1,"tid":1,"ts":1000000000000020,"args":{"Device Type":1,"Device Id":0,"Bytes":-512}},
	{"ph":"i","s":"t","name":"[memory]","pid":1,"tid":1,"ts":1000000000000021,"args":{"Device Type":1,"Device Id":0,"Bytes":-1024}}]}`
	tr := mustRead(t, []byte(text))
	d := &tr.Devices[0]
	if codes(d.Warnings) != "no-addresses starts-in-mid-run" || codes(tr.Warnings) != "" {
		t.Errorf("warnings %v %v", d.Warnings, tr.Warnings)
	}
	if d.Events.At(2).Block != d.Events.At(1).Block || len(d.Initial.Blocks) != 1 || d.Initial.Blocks[0].Size != 1024 {
		t.Errorf("%+v, %+v", d.Events.At(2), d.Initial.Blocks)
	}
	if got := fmt.Sprint(tr.Stacks.Stack(d.Events.At(0).Stack)); got != "[{ aten::mm 0} {train.py loss 12} {train.py <module> 40}]" {
		t.Errorf("stack %s", got)
	}
}

// However a trace is cut, what came before is used and that is said, or one line says that nothing is there.
func TestCut(t *testing.T) {
	for _, g := range []*generator{{size: 100 << 10}, {size: 100 << 10, flat: true, baseLast: true}} {
		whole := g.bytes(t)
		most := 0
		for i := 1; i < 200; i++ {
			n := len(whole) * i / 200
			tr, err := read(whole[:n])
			switch {
			case err == nil:
				if !tr.Source.Cut || !strings.Contains(codes(tr.Warnings), "cut") {
					t.Fatalf("cut to %d of %d bytes: not said, %v", n, len(whole), tr.Warnings)
				}
				if tr.Source.Counts[0].N < most {
					t.Fatalf("cut to %d of %d bytes: %d events, before %d", n, len(whole), tr.Source.Counts[0].N, most)
				}
				most = tr.Source.Counts[0].N
			case err == trace.ErrUnrecognized:
				if n > 100 {
					t.Fatalf("cut to %d of %d bytes: not recognised", n, len(whole))
				}
			case !errors.Is(err, trace.ErrCorrupt) || strings.Contains(err.Error(), "\n"):
				t.Fatalf("cut to %d of %d bytes: %v", n, len(whole), err)
			}
		}
		if most < g.events-10 {
			t.Errorf("%d events of %d before the last cut", most, g.events)
		}
	}
}

// Events that are no JSON cost themselves and, at the worst, their neighbour.
func TestMangled(t *testing.T) {
	g := &generator{size: 100 << 10, baseLast: true}
	whole := string(g.bytes(t))
	good := mustRead(t, []byte(whole))
	for name, c := range map[string]struct {
		old, new string
		n        int // how often
	}{
		"quotation marks":   {`"name": "void gemm<float, 128>(float*, int)"`, `"name": "void "gemm"<float>()"`, 7},
		"a backslash":       {`"name": "void gemm<float, 128>(float*, int)"`, `"name": "C:\x\"`, 7},
		"NaN":               {`"dur": 3.2`, `"dur": NaN`, 20},
		"a missing bracket": {`"grid": [1, 2, 3]`, `"grid": [1, 2, 3`, 3},
		"a line break":      {`void gemm`, "void\ngemm", 5},
		"binary":            {`"External id"`, "\x00\xff\x01", 9},
		"every kernel":      {`"dur": 3.2`, `"dur": Infinity`, -1},
	} {
		tr, err := read([]byte(strings.Replace(whole, c.old, c.new, c.n)))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !strings.Contains(codes(tr.Warnings), "bad-event") || tr.Source.Cut {
			t.Errorf("%s: %v", name, tr.Warnings)
		}
		if got, want := sum(&tr.Devices[0]), sum(&good.Devices[0]); got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
		if tr.Source.Clock != trace.ClockEpoch || tr.Devices[0].Events.At(0).Time != good.Devices[0].Events.At(0).Time {
			t.Errorf("%s: the base time was lost: %v", name, tr.Warnings)
		}
	}
	// The last event bad: the end of the file is found all the same.
	i := strings.LastIndex(whole, `"dur": 3.2`)
	tr := mustRead(t, []byte(whole[:i]+`"dur": NaN`+whole[i+10:]))
	if tr.Source.Cut || tr.Source.Clock != trace.ClockEpoch {
		t.Errorf("last event: %v", tr.Warnings)
	}
}

func TestOthers(t *testing.T) {
	for name, c := range map[string]struct {
		text, codes string
		err         error
	}{
		"no memory":  {`{"traceEvents": [{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":1,"dur":1}]}`, "no-memory-events", nil},
		"legacy":     {`[{"name":"a","ph":"X","ts":1.5,"dur":2,"pid":"CPU functions","tid":0,"args":{}}]`, "no-memory-events", nil},
		"empty":      {`{"traceEvents": []}`, "no-memory-events", nil},
		"not a list": {`{"traceEvents": 7}`, "no-memory-events", nil},
		"other JSON": {`{"a": [1, 2]}`, "", trace.ErrUnrecognized},
		"list":       {`[1, 2]`, "", trace.ErrUnrecognized},
		"text":       {"epoch 1\n", "", trace.ErrUnrecognized},
		"picture":    {"<html>\n<body>\n<img src='data:image/png;base64,aaaa'>", "", trace.ErrUnrecognized},
		"cut":        {`{"traceEvents": [{"ph":`, "", trace.ErrCorrupt},
		"no events":  {`{"traceEvents": [` + strings.Repeat("x", 100) + `]}`, "", trace.ErrCorrupt},
	} {
		tr, err := read([]byte(c.text))
		if !errors.Is(err, c.err) || err == nil && codes(tr.Warnings) != c.codes {
			t.Errorf("%s: %v, %+v", name, err, tr)
		}
	}
}

func TestNumbers(t *testing.T) {
	for text, want := range map[string]int64{
		"1669783687464300": 1669783687464300000, "5110747605083.296": 5110747605083296, "1.5": 1500, "0.0009": 0,
		"-2.25": -2250, `"7.001"`: 7001, "3.1416": 3141,
	} {
		if got, ok := nanoseconds([]byte(text)); !ok || got != want {
			t.Errorf("%s: %d %v, want %d", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "x", "1e5", "99999999999999999999", "-", ".", "9999999999999999999.5"} {
		if n, ok := nanoseconds([]byte(text)); ok {
			t.Errorf("%q: %d", text, n)
		}
	}
	for text, want := range map[string]int64{"-1": -1, "18446744073709551615": -1, "-9223372036854775808": -1 << 63, `"5"`: 5} {
		if got, ok := integer([]byte(text)); !ok || got != want {
			t.Errorf("%s: %d %v, want %d", text, got, ok, want)
		}
	}
}

func corpusFile(t *testing.T, name string) []byte {
	dir := os.Getenv("VRAMSCOPE_CORPUS")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", "data")
	}
	raw, err := os.ReadFile(filepath.Join(dir, "kineto", name))
	if err != nil {
		t.Skip("there is no corpus: set VRAMSCOPE_CORPUS")
	}
	if !strings.HasSuffix(name, ".gz") {
		return raw
	}
	z, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if _, err := b.ReadFrom(z); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// A profile, and two timelines of the same run: figures counted with Python's json.
func TestRecorded(t *testing.T) {
	tr := mustRead(t, corpusFile(t, "gpt_memory.json.gz"))
	d := &tr.Devices[0]
	if s := sum(d); s != (sums{allocs: 1599, frees: 1596, peak: 1717896192, level: 68157440}) {
		t.Errorf("%+v", s)
	}
	if r := trace.FindSeries(d.Series, trace.AllocatorReserved); r.Max != 2354<<20 {
		t.Errorf("reserved %d", r.Max)
	}
	if tr.Source.Counts[0].N != 35589 || tr.Source.Counts[1].N != 3411 || tr.Source.Counts[2].N != 216 || len(tr.Warnings)+len(d.Warnings)+len(tr.Beside[0].Warnings) != 0 {
		t.Errorf("%+v %v %v", tr.Source.Counts, tr.Warnings, d.Warnings)
	}
	unnamed := 0
	for _, e := range d.Events.All() {
		if e.Op == trace.OpAlloc && e.Stack == trace.NoStack {
			unnamed++
		}
	}
	if unnamed != 0 {
		t.Errorf("%d allocations without an operator", unnamed)
	}
	raw := mustRead(t, corpusFile(t, "timeline_gpt.raw.json.gz"))
	if got := fmt.Sprint(raw.Source.Counts); got != "[{rows pre-existing 0} {rows create 1599} {rows increment version 3200} {rows destroy 1596}]" {
		t.Errorf("raw: %s", got)
	}
	columns := mustRead(t, corpusFile(t, "timeline_gpt.json"))
	for _, tl := range []*trace.Trace{raw, columns} {
		s := trace.FindSeries(tl.Devices[0].Series, trace.Allocated)
		if s.Max != 1717896192 || s.Last() != 68157440 || len(tl.Warnings) != 0 || len(tl.Devices[0].Series) != 8 {
			t.Errorf("%s: %d, %d, %v", tl.Source.Format, s.Max, s.Last(), tl.Warnings)
		}
	}
	if a, b := len(raw.Devices[0].Series), len(columns.Devices[0].Series); a != b {
		t.Errorf("%d series and %d", a, b)
	}
	for i := range raw.Devices[0].Series {
		a, b := raw.Devices[0].Series[i], columns.Devices[0].Series[i]
		if a.Name != b.Name || a.Last() != b.Last() || a.Name != "temporary" && a.Max != b.Max {
			t.Errorf("%s: raw at most %d, then %d; columns %s %d, %d", a.Name, a.Max, a.Last(), b.Name, b.Max, b.Last())
		}
	}
}

// A gigabyte takes less than 100 MB, the program around it included. Writing it is slow, so without
// VRAMSCOPE_LARGE it is an eighth of that, in less.
func TestLargeTrace(t *testing.T) {
	if testing.Short() {
		t.Skip("slow, skipped under -short")
	}
	size, most := int64(128<<20), uint64(40<<20)
	if os.Getenv("VRAMSCOPE_LARGE") != "" {
		size, most = 1<<30, 100<<20
	}
	if os.Getenv(alone) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestLargeTrace$", "-test.v")
		cmd.Env = append(os.Environ(), alone+"=1")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		t.Logf("%s", out)
		return
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	g := &generator{size: size, baseLast: true}
	done := make(chan error, 1)
	go func() {
		err := g.write(w)
		w.Close()
		done <- err
	}()
	debug.SetGCPercent(20) // as the program does
	tr, err := Read(bufio.NewReaderSize(r, 64<<10))
	if err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if got := sum(&tr.Devices[0]); got.allocs != g.allocs || got.peak != g.peak {
		t.Errorf("%+v, want %d, %d", got, g.allocs, g.peak)
	}
	t.Logf("%d MB, %d events: %d MB from the system", size>>20, g.events, m.Sys>>20)
	if m.Sys > most {
		t.Errorf("took %d MB", m.Sys>>20)
	}
}

// alone is set in the environment of a process that runs one test, so that no other's memory is counted.
const alone = "VRAMSCOPE_TEST_ALONE"

func BenchmarkRead(b *testing.B) {
	g := &generator{size: 32 << 20, baseLast: true}
	data := g.bytes(b)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, err := read(data); err != nil {
			b.Fatal(err)
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, g := range []*generator{{size: 1, perStep: 2}, {size: 1, perStep: 2, flat: true, baseLast: true}, {size: 1, perStep: 2, noAddr: true}} {
		f.Add(g.bytes(f))
	}
	f.Add([]byte(`[[-1, 1, 512, 0], [10, 2, 1024, 4], [12, 3, -1024, 4], [12, 3, 1024, 5], [20, 4, -1024, 5]]`))
	f.Add([]byte(`[[1, 2, 3], [[0, 512, 0, 0, 0, 0, 0, 0, 0], [0, 512, 0, 0, 0, 1024, 0, 0, 0], [0, 512, 0, 0, 0, 0, 0, 0, 0]]]`))
	f.Add([]byte(`{"traceEvents": [{"ph":"X","name":"aten::mm","pid":1,"tid":1,"ts":"5","dur":10,"args":{"Call stack":"a.py(1): f;b"}}, {"name":"bad "x""}, {"name":"[memory]","ts":7,"pid":1,"tid":1,"args":{"Bytes":-5,"Device Type":1}}], "baseTimeNanoseconds": 5}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		tr, err := read(data)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\r") {
				t.Errorf("not one line: %q", err)
			}
			return
		}
		for i := range tr.Devices {
			d := &tr.Devices[i]
			for _, e := range d.Events.All() {
				if e.Block != trace.NoBlock && int(e.Block) >= d.NumBlocks || int(e.Stack) >= tr.Stacks.Len() || e.Size < 0 {
					t.Errorf("event %+v", e)
				}
			}
			for j := range d.Series {
				if s := &d.Series[j]; s.Samples > 0 && (s.Min > s.Max || len(s.Points) == 0) {
					t.Errorf("series %+v", s)
				}
			}
		}
	})
}
