package page

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/internal/recordtest"
	"github.com/vramscope/vramscope/internal/tracetest"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/report/page/pagetest"
	"github.com/vramscope/vramscope/trace"
	"github.com/vramscope/vramscope/trace/source"
	"pgregory.net/rapid"
)

func analysed(t testing.TB, file string) *report.Analysis {
	t.Helper()
	tr, err := source.Open(file, source.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return report.Analyze(file, tr, report.Options{Limit: -1, Device: -1})
}

// others are recordings that are no PyTorch snapshots.
func others() []string {
	list, _ := filepath.Glob(filepath.Join(recordtest.Testdata(), "inputs", "*"))
	more, _ := filepath.Glob(filepath.Join(recordtest.Testdata(), "nsys", "*"))
	list = append(list, more...)
	if dir := recordtest.Corpus(); dir != "" {
		for _, pattern := range []string{"nsys/*.sqlite.zst", "nsys/kinds.jsonl", "kineto/*", "nvml/*", "text/*"} {
			more, _ := filepath.Glob(filepath.Join(dir, filepath.FromSlash(pattern)))
			list = append(list, more...)
		}
	}
	return list
}

// A page holds its recording: read again, it has the same blocks with the same lives, sizes, places and call stacks, and
// what is allocated and reserved after each event is what the analysis says.
func TestPageHoldsRecording(t *testing.T) {
	files := others()
	for _, r := range recordtest.Snapshots() {
		if !testing.Short() || r.Own {
			files = append(files, r.File)
		}
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			a := analysed(t, file)
			p := read(t, write(t, a, Options{}))
			for i := range a.Devices {
				holds(t, a, &a.Devices[i], p)
			}
		})
	}
}

func holds(t *testing.T, a *report.Analysis, d *report.Device, p *readPage) {
	t.Helper()
	var m deviceJSON
	for _, x := range p.meta.Devices {
		if x.Index == d.Index {
			m = x
		}
	}
	if d.Follow == nil {
		holdsInstant(t, d, p, m)
		return
	}
	blocks := p.blocks(m.Key)
	states := m.States
	if states != d.Trace.Events.Len()+1 {
		t.Fatalf("%d states, %d events", states, d.Trace.Events.Len())
	}
	// Each block of the page is the block of the event that it is said to be born in.
	allocated, pending := make([]int64, states+1), make([]int64, states+1)
	for n, b := range blocks {
		if b.freed > b.born {
			allocated[b.born] += b.taken
			allocated[b.freed] -= b.taken
		}
		if b.gone > b.freed {
			pending[max(b.freed, b.born)] += b.taken
			pending[b.gone] -= b.taken
		}
		if b.born == 0 {
			continue
		}
		e := d.Trace.Events.At(b.born - 1)
		want := readBlock{born: b.born, freed: states, gone: states, taken: d.Follow.Sizes[e.Block], requested: e.Size, addr: e.Addr, stack: frames(a.Trace.Stacks, e.Stack),
			stream: int64(e.Stream), pool: int64(d.Follow.Requests.Pool(e.Block)), role: int64(d.Roles.Category(e.Block)), phase: int64(d.Roles.Phase(e.Block)), count: 1}
		want.freed, want.gone = b.freed, b.gone // which are looked at below
		if b != want {
			t.Fatalf("block %d: %+v, want %+v", n, b, want)
		}
	}
	lives(t, d, blocks, states)
	sum := sums(allocated, same)
	reserved := make([]int64, states)
	at, level := sums(p.numbers[m.Key+"/reserved/states"], same), sums(p.numbers[m.Key+"/reserved/bytes"], unzigzag)
	for i := range at {
		for s := int(at[i]); s < states; s++ {
			reserved[s] = level[i]
			if i+1 < len(at) && s+1 == int(at[i+1]) {
				break
			}
		}
	}
	d.Levels(func(l report.Level) {
		if s := l.Event + 1; sum[s] != l.Allocated || reserved[s] != l.Reserved {
			t.Fatalf("after event %d: %d allocated and %d reserved, want %d and %d", l.Event, sum[s], reserved[s], l.Allocated, l.Reserved)
		}
	})
	for _, x := range m.Moments {
		if x.Allocated != nil && *x.Allocated != sum[x.State] {
			t.Errorf("%s: %d allocated, the blocks %d", x.Kind, *x.Allocated, sum[x.State])
		}
	}
	holdsExtents(t, d, p, m, reserved)
	holdsTimes(t, d, p, m)
}

// lives goes through the events and follows the blocks of the page along.
func lives(t *testing.T, d *report.Device, blocks []readBlock, states int) {
	t.Helper()
	at := map[trace.BlockID]int{}
	n := 0
	for _, b := range d.Follow.Requests.Initial {
		at[b.ID] = n
		n++
	}
	freed, gone := make([]int, len(blocks)), make([]int, len(blocks))
	for i := range blocks {
		freed[i], gone[i] = states, states
	}
	for i, b := range d.Follow.Requests.Initial {
		if b.State == trace.BlockPending {
			freed[i] = 0
		}
	}
	for i, e := range d.Trace.Events.All() {
		switch e.Op {
		case trace.OpAlloc:
			at[e.Block] = n
			n++
		case trace.OpFree:
			freed[at[e.Block]], gone[at[e.Block]] = i+1, i+1
		case trace.OpFreeRequested:
			freed[at[e.Block]] = i + 1
		case trace.OpFreeCompleted:
			if k, ok := at[e.Block]; ok && freed[k] < states {
				gone[k] = i + 1
			}
		}
	}
	for i, b := range blocks {
		if b.freed != freed[i] || b.gone != gone[i] {
			t.Fatalf("block %d of state %d: freed in %d, gone in %d, want %d and %d", i, b.born, b.freed, b.gone, freed[i], gone[i])
		}
	}
}

// What the page says was held is what was reserved, wherever events tell.
func holdsExtents(t *testing.T, d *report.Device, p *readPage, m deviceJSON, reserved []int64) {
	t.Helper()
	if d.Trace.Content != trace.Decisions {
		return
	}
	held := make([]int64, m.States+1)
	from, to, size := p.numbers[m.Key+"/extent/from"], p.numbers[m.Key+"/extent/to"], p.numbers[m.Key+"/extent/size"]
	for i := range from {
		held[from[i]] += size[i]
		held[min(int(to[i]), m.States)] -= size[i]
	}
	for s, n := range sums(held[:m.States], same) {
		if n != reserved[s] {
			t.Fatalf("state %d: %d held, %d reserved", s, n, reserved[s])
		}
	}
}

func holdsTimes(t *testing.T, d *report.Device, p *readPage, m deviceJSON) {
	t.Helper()
	if !m.Times {
		return
	}
	if m.Stride != 1 {
		t.Fatalf("the times of one event in %d", m.Stride)
	}
	start := d.Trace.Events.At(0).Time
	for i, n := range sums(p.numbers[m.Key+"/time"], unzigzag) {
		if got := start + trace.Time(n*m.Tick); got != d.Trace.Events.At(i).Time {
			t.Fatalf("event %d: at %d, want %d", i, got, d.Trace.Events.At(i).Time)
		}
	}
}

// holdsInstant looks at a device that has no events.
func holdsInstant(t *testing.T, d *report.Device, p *readPage, m deviceJSON) {
	t.Helper()
	if m.States != 1 {
		t.Errorf("%d states", m.States)
	}
	var bytes, blocks int64
	for _, b := range p.blocks(m.Key) {
		bytes += b.taken
		blocks += b.count
	}
	if d.Live != nil && bytes != d.Live.Used {
		t.Errorf("%d bytes, want %d", bytes, d.Live.Used)
	}
	if len(m.Series) > 0 && len(m.Series) != len(d.Trace.Series) {
		t.Errorf("%d series, want %d", len(m.Series), len(d.Trace.Series))
	}
	for i := range m.Series {
		high := p.numbers[fmt.Sprintf("%s/series/%d/high", m.Key, i)]
		most := int64(math.MinInt64)
		for _, n := range high {
			most = max(most, unzigzag(n))
		}
		if s := &d.Trace.Series[i]; s.Samples > 0 && most != s.Max {
			t.Errorf("%s: %d at most, want %d", m.Series[i].Name, most, s.Max)
		}
	}
}

// The totals that a page begins with are those of analyze --json.
func TestTotals(t *testing.T) {
	for _, r := range recordtest.Snapshots() {
		if !r.Own {
			continue
		}
		a := analysed(t, r.File)
		var text bytes.Buffer
		if err := a.WriteJSON(&text); err != nil {
			t.Fatal(err)
		}
		var want struct {
			Devices []struct {
				Device         int
				Peak_allocated struct {
					Bytes, Reserved_bytes int64
					Event                 *int
					By_stack              []struct {
						Stack []string
						Bytes int64
					}
				}
				Peak_reserved struct {
					Bytes int64
					Event *int
				}
				End  struct{ Allocated_bytes, Reserved_bytes int64 }
				Ooms []struct{ Event, Requested_bytes int64 }
			}
		}
		if err := json.Unmarshal(text.Bytes(), &want); err != nil {
			t.Fatal(err)
		}
		p := read(t, write(t, a, Options{}))
		for i, m := range p.meta.Devices {
			w := want.Devices[i]
			ooms := 0
			for _, x := range m.Moments {
				ok := true
				switch x.Kind {
				case "allocated":
					ok = *x.Allocated == w.Peak_allocated.Bytes && x.State == stateAfter(w.Peak_allocated.Event) && *x.Reserved == w.Peak_allocated.Reserved_bytes
				case "reserved":
					ok = *x.Reserved == w.Peak_reserved.Bytes && x.State == stateAfter(w.Peak_reserved.Event)
				case "end":
					ok = *x.Allocated == w.End.Allocated_bytes && *x.Reserved == w.End.Reserved_bytes
				case "oom":
					ok = int64(x.State-1) == w.Ooms[ooms].Event && *x.Requested == w.Ooms[ooms].Requested_bytes
					ooms++
				}
				if !ok {
					t.Errorf("%s: %+v is not what analyze says: %+v", r.Name, x, w)
				}
			}
			if ooms != len(w.Ooms) {
				t.Errorf("%s: %d failures, want %d", r.Name, ooms, len(w.Ooms))
			}
			// And who held it.
			held := map[string]int64{}
			for _, b := range p.blocks(m.Key) {
				if state := stateAfter(w.Peak_allocated.Event); b.born <= state && state < b.freed && b.stack != "" {
					held[b.stack] += b.taken
				}
			}
			for _, s := range w.Peak_allocated.By_stack {
				key := strings.Join(s.Stack, "\n")
				if held[key] != s.Bytes && held[withPlaces(s.Stack)] != s.Bytes {
					t.Errorf("%s: %q holds %d, want %d", r.Name, key, held[key], s.Bytes)
				}
			}
		}
	}
}

// stateAfter is the state after an event; of none that before the first.
func stateAfter(event *int) int {
	if event == nil {
		return 0
	}
	return *event + 1
}

// withPlaces gives frames without a file the place that frames gives them.
func withPlaces(stack []string) string {
	var lines []string
	for _, s := range stack {
		if !strings.Contains(s, ":") || !strings.Contains(s, " ") {
			s = ":0 " + s
		}
		lines = append(lines, s)
	}
	return strings.Join(lines, "\n")
}

// Whatever has happened to a recording, its page can be written and read, and its bands add up.
func TestDamaged(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	for _, name := range []string{"golden/expandable.pickle.zst", "golden/graph.pickle.zst", "golden/oom.pickle.zst", "golden/record_stream.pickle.zst"} {
		whole, err := source.Open(filepath.Join(recordtest.Testdata(), filepath.FromSlash(name)), source.Options{})
		if err != nil {
			t.Log(err)
			continue
		}
		for _, x := range tracetest.Damages {
			t.Run(x.Name, func(t *testing.T) {
				tr := x.ApplyAll(whole)
				a := report.Analyze(name, tr, report.Options{Limit: -1, Device: -1})
				p := read(t, write(t, a, Options{}))
				for i := range a.Devices {
					addsUp(t, &a.Devices[i], p, p.meta.Devices[i])
				}
			})
		}
	}
}

func addsUp(t *testing.T, d *report.Device, p *readPage, m deviceJSON) {
	t.Helper()
	allocated := make([]int64, m.States+1)
	for i, b := range p.blocks(m.Key) {
		if b.born > b.freed && b.freed > 0 || b.freed > b.gone {
			t.Errorf("block %d: born in %d, freed in %d, gone in %d", i, b.born, b.freed, b.gone)
		}
		if b.freed > b.born {
			allocated[b.born] += b.taken
			allocated[b.freed] -= b.taken
		}
	}
	sum := sums(allocated, same)
	d.Levels(func(l report.Level) {
		if s := l.Event + 1; sum[s] != l.Allocated {
			t.Fatalf("after event %d: %d allocated, want %d", l.Event, sum[s], l.Allocated)
		}
	})
}

// hostile are texts that want to be more than text.
var hostile = []string{
	"</script><script>alert(1)</script>", "<!--", "--><img src=x onerror=alert(1)>", `"><svg onload=alert(1)>`, "{{.}}", "${alert(1)}", "]]>", "<style>*{display:none}",
	"\u2028\u2029", "\x00\xff\xfe", "javascript:alert(1)", strings.Repeat("a", 5000), "line\nbreak\r", "&lt;b&gt;",
}

// Text of a recording is text on the page, whatever it looks like.
func TestHostileText(t *testing.T) {
	a := report.Analyze("</title><script>alert(2)</script>.pickle", HostileTrace(), report.Options{Limit: -1, Device: -1})
	text := write(t, a, Options{Version: "</footer><b>"})
	for _, s := range []string{"<script>alert", "onerror=alert(1)>", "<svg onload", "</title><script", "<style>*", "</footer><b>"} {
		if strings.Contains(text, s) {
			t.Errorf("%q is on the page as it is", s)
		}
	}
	p := read(t, text)
	stacks := p.stacks()
	for _, h := range hostile {
		if !strings.Contains(strings.Join(stacks, "\n"), shown(h)) {
			t.Errorf("%q is not among the frames", h)
		}
	}
	if n := strings.Count(text, "<script"); n != strings.Count(text, "</script>") {
		t.Errorf("%d scripts begin, %d end", n, strings.Count(text, "</script>"))
	}
}

// HostileTrace is a recording of which every text wants to be more than text.
func HostileTrace() *trace.Trace {
	tr := tracetest.New("", -1)
	for range 8 {
		tr.Step("</script>", func() {
			var list []int
			for i, h := range hostile {
				n := i
				tr.Rename = func(trace.Frame) trace.Frame { return trace.Frame{File: h + ".py", Func: h, Line: n + 1} }
				list = append(list, tr.Alloc(1<<20+int64(i)<<10, fmt.Sprintf("x%d.py:1 f", i)))
			}
			tr.Free(list[:len(list)-1]...)
		})
	}
	return tr.Trace()
}

// A name neither turns the figures beside it around nor fills the page.
func TestNames(t *testing.T) {
	tr := tracetest.New("", -1)
	names := []string{"\u202eback", "\x1b[2J", strings.Repeat("é", longest)}
	for i, name := range names {
		tr.Rename = func(trace.Frame) trace.Frame { return trace.Frame{File: "a.py", Func: name, Line: i + 1} }
		tr.Alloc(1<<20, fmt.Sprintf("x%d.py:1 f", i))
	}
	texts := read(t, write(t, report.Analyze("a.pickle", tr.Trace(), report.Options{Limit: -1, Device: -1}), Options{})).texts("texts")
	for _, want := range []string{`\u202eback`, `\x1b[2J`, strings.Repeat("é", longest/2) + "…"} {
		if !slices.Contains(texts, want) {
			t.Errorf("%.20q is not among the names", want)
		}
	}
	for _, s := range texts {
		if len(s) > longest+10 || strings.ContainsAny(s, "\u202e\x1b") {
			t.Errorf("%.20q is among the names", s)
		}
	}
}

// A page that is redacted does not tell in which folders a program lies.
func TestRedacted(t *testing.T) {
	tr, err := source.Open(filepath.Join(recordtest.Testdata(), "gpt_oom.pickle.zst"), source.Options{})
	if err != nil {
		t.Fatal(err)
	}
	folders := func() (n int) {
		p := read(t, write(t, report.Analyze("gpt_oom.pickle.zst", tr, report.Options{Limit: -1, Device: -1}), Options{}))
		for _, s := range p.texts("texts") {
			if strings.HasPrefix(s, "/workspace/") || strings.HasPrefix(s, "/opt/") {
				n++
			}
		}
		return n
	}
	if folders() == 0 {
		t.Fatal("there is nothing to leave out")
	}
	report.Redact(tr)
	if n := folders(); n > 0 {
		t.Errorf("%d names of folders", n)
	}
}

func TestText(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		b := rapid.SliceOf(rapid.Byte()).Draw(r, "bytes")
		text := appendText(nil, b)
		if got := fromText(t, string(text), len(b)); !bytes.Equal(got, b) {
			r.Fatalf("%x became %x", b, got)
		}
		if strings.ContainsAny(string(text), "<>&") {
			r.Fatalf("%q", text)
		}
	})
}

func TestPlanes(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		list := rapid.SliceOfN(rapid.Uint64(), 1, 50).Draw(r, "numbers")
		shift := rapid.IntRange(0, 63).Draw(r, "shift")
		for i := range list {
			list[i] >>= shift
		}
		planes, width := planesOf(list)
		for i, want := range list {
			got := uint64(0)
			for k := width - 1; k >= 0; k-- {
				got = got*256 + uint64(planes[k*len(list)+i])
			}
			if got != want {
				r.Fatalf("%d became %d", want, got)
			}
		}
		if n := rapid.Int64().Draw(r, "n"); unzigzag(int64(zigzag(n>>2))) != n>>2 {
			r.Fatal(n)
		}
	})
}

// A page of a million blocks stays below ten megabytes, whatever the blocks are.
func TestMillion(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute")
	}
	for name, tr := range map[string]*trace.Trace{"training": pagetest.Training(1_000_000), "crowd": pagetest.Crowd(1_000_000, 3_000)} {
		a := report.Analyze(name, tr, report.Options{Limit: -1, Device: -1})
		text := write(t, a, Options{})
		t.Logf("%s: %.1f MB", name, float64(len(text))/1e6)
		if len(text) >= 10e6 {
			t.Errorf("%s: %d bytes", name, len(text))
		}
	}
}

// Where there is no room, times are told for fewer events, and nothing else changes.
func TestStride(t *testing.T) {
	tr := pagetest.Crowd(3_000, 100)
	dev := &tr.Devices[0]
	c := packClocks(tr, []*trace.Device{dev})
	p, stride := c.into(0)
	if stride != mostStride || len(p.bundles) != 1 || p.bundles[0].columns[0].count != (dev.Events.Len()+mostStride-1)/mostStride {
		t.Errorf("stride %d, %d times", stride, p.bundles[0].columns[0].count)
	}
	c = packClocks(tr, []*trace.Device{dev})
	if _, stride := c.into(1 << 30); stride != 1 {
		t.Errorf("stride %d", stride)
	}
}

func BenchmarkWrite(b *testing.B) {
	tr := pagetest.Training(1_000_000)
	a := report.Analyze("x", tr, report.Options{Limit: -1, Device: -1})
	for b.Loop() {
		if err := Write(io.Discard, a, Options{}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(write(b, a, Options{})))/1e6, "MB")
}

// The assets are all there, each is used, and no name is given twice, since on the page they are one program.
func TestAssets(t *testing.T) {
	files, err := os.ReadDir("assets")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{"page.html": true, "page.css": true}
	for _, m := range modules() {
		listed[m+".js"] = true
	}
	names := map[string]string{}
	for _, f := range files {
		if !listed[f.Name()] {
			t.Errorf("assets/%s is no part of the page", f.Name())
		}
		delete(listed, f.Name())
		if !strings.HasSuffix(f.Name(), ".js") {
			continue
		}
		for line := range strings.Lines(asset(f.Name())) {
			line = strings.TrimPrefix(line, "export ")
			for _, kind := range []string{"function ", "async function ", "class ", "const ", "let "} {
				rest, ok := strings.CutPrefix(line, kind)
				if !ok {
					continue
				}
				name := rest[:strings.IndexFunc(rest+" ", func(r rune) bool {
					return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_$", r)
				})]
				if names[name] != "" {
					t.Errorf("%s is in %s and in %s", name, names[name], f.Name())
				}
				names[name] = f.Name()
			}
		}
	}
	for name := range listed {
		t.Errorf("assets/%s is missing", name)
	}
	if s := script(); strings.Contains(s, "\nimport ") || strings.Contains(s, "\nexport ") || strings.Contains(s, "</script") {
		t.Error("the program has what a page cannot have")
	}
}
