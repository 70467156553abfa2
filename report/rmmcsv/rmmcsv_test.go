package rmmcsv_test

import (
	"bufio"
	"bytes"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/vramscope/vramscope/internal/recordtest"
	"github.com/vramscope/vramscope/report/rmmcsv"
	"github.com/vramscope/vramscope/trace"
	"github.com/vramscope/vramscope/trace/rmm"
	"github.com/vramscope/vramscope/trace/source"
)

func written(t testing.TB, d *trace.Device) (string, rmmcsv.Rows) {
	t.Helper()
	var b bytes.Buffer
	rows, err := rmmcsv.Write(&b, d)
	if err != nil {
		t.Fatal(err)
	}
	return b.String(), rows
}

func read(t testing.TB, text string) *trace.Trace {
	t.Helper()
	tr, err := rmm.Read(bufio.NewReaderSize(strings.NewReader(text), 64<<10))
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// show lists the requests of a device; times are those of a day.
func show(d *trace.Device) []string {
	var out []string
	for _, e := range d.Events.All() {
		stream := d.Streams[e.Stream]
		switch e.Op {
		case trace.OpAlloc, trace.OpOOM:
			addr := e.Addr
			if e.Op == trace.OpOOM {
				addr = 0
			}
			out = append(out, fmt.Sprintf("%d %v %#x %d %#x", e.Time/1000, e.Op, addr, e.Size, stream))
		case trace.OpFree, trace.OpFreeRequested:
			out = append(out, fmt.Sprintf("%d free %#x %#x", e.Time/1000, e.Addr, stream))
		}
	}
	return out
}

// A log of RMM that was read and is written again has the same events.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var text strings.Builder
		text.WriteString("Thread,Time,Action,Pointer,Size,Stream\n")
		// Not all at midnight sharp: a recording whose times are all 0 is one without times, and is given some.
		at, live, next := int64(1), []int{}, 0
		sizes := map[int]int64{}
		for range rapid.IntRange(1, 60).Draw(rt, "rows") {
			at += rapid.Int64Range(0, 40_000_000_000).Draw(rt, "wait")
			clock := at % 86_400_000_000
			stamp := fmt.Sprintf("%02d:%02d:%02d.%06d", clock/3_600_000_000, clock/60_000_000%60, clock/1_000_000%60, clock%1_000_000)
			switch rapid.IntRange(0, 4).Draw(rt, "action") {
			case 0:
				fmt.Fprintf(&text, "1,%s,allocate failure,(nil),%d,0x2\n", stamp, rapid.Int64Range(1, 1<<40).Draw(rt, "size"))
			case 1, 2:
				if len(live) > 0 {
					i := rapid.IntRange(0, len(live)-1).Draw(rt, "which")
					fmt.Fprintf(&text, "1,%s,free,%#x,%d,%#x\n", stamp, (live[i]+1)*512, sizes[live[i]], live[i]%3)
					live = slices.Delete(live, i, i+1)
					continue
				}
				fallthrough
			default:
				sizes[next] = rapid.Int64Range(0, 1<<40).Draw(rt, "size")
				fmt.Fprintf(&text, "1,%s,allocate,%#x,%d,%#x\n", stamp, (next+1)*512, sizes[next], next%3)
				live = append(live, next)
				next++
			}
		}
		first := read(t, text.String())
		again, _ := written(t, &first.Devices[0])
		second := read(t, again)
		if diff := cmp.Diff(show(&first.Devices[0]), show(&second.Devices[0])); diff != "" {
			rt.Fatalf("(-first +second):\n%s", diff)
		}
		if len(second.Warnings)+len(second.Devices[0].Warnings) > 0 {
			rt.Fatalf("%v %v", second.Warnings, second.Devices[0].Warnings)
		}
		if third, _ := written(t, &second.Devices[0]); third != again {
			rt.Fatalf("written again it differs:\n%s\n%s", again, third)
		}
	})
}

// row is what RMM's replay benchmark takes a row for.
var row = regexp.MustCompile(`^\d+,\d\d:\d\d:\d\d\.\d{6},(allocate|free|allocate failure),0x[0-9a-f]+,\d+,0x[0-9a-f]+$`)

// replay goes through a log as RMM's replay benchmark does: each free must be of something that lives, with the size
// that it was allocated with. It returns the most that lived at once, and what lives at the end.
func replay(t *testing.T, text string) (peak, end int64, rows int) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if lines[0] != "Thread,Time,Action,Pointer,Size,Stream" {
		t.Fatalf("header %q", lines[0])
	}
	live := map[string]int64{}
	for i, l := range lines[1:] {
		if !row.MatchString(l) {
			t.Fatalf("row %d: %q", i, l)
		}
		f := strings.Split(l, ",")
		size, _ := strconv.ParseInt(f[4], 10, 64)
		had, lives := live[f[3]]
		switch f[2] {
		case "allocate":
			if lives {
				t.Fatalf("row %d: %s is allocated twice", i, f[3])
			}
			live[f[3]] = size
			end += size
		case "free":
			if !lives || had != size {
				t.Fatalf("row %d: %s has %d bytes, and %d are freed", i, f[3], had, size)
			}
			delete(live, f[3])
			end -= size
		}
		peak = max(peak, end)
	}
	return peak, end, len(lines) - 1
}

// Every recording of requests that is here becomes a log that a replay can follow, and that our own reader reads without
// a warning; what was asked for is in it.
func TestRecordings(t *testing.T) {
	var names []string
	for _, r := range recordtest.Snapshots() {
		if r.Own || !testing.Short() {
			names = append(names, r.File)
		}
	}
	for _, dir := range []string{filepath.Join(recordtest.Testdata(), "nsys"), filepath.Join(recordtest.Testdata(), "inputs"), filepath.Join("..", "testdata", "unusual")} {
		list, _ := filepath.Glob(filepath.Join(dir, "*"))
		names = append(names, list...)
	}
	for _, name := range names {
		tr, err := source.Open(name, source.Options{})
		if err != nil {
			continue // the readers' tests say why
		}
		for i := range tr.Devices {
			d := &tr.Devices[i]
			t.Run(filepath.Base(name), func(t *testing.T) {
				if !rmmcsv.Has(d) {
					if _, err := rmmcsv.Write(&bytes.Buffer{}, d); err != rmmcsv.ErrNoRequests {
						t.Error(err)
					}
					return
				}
				text, rows := written(t, d)
				peak, end, n := replay(t, text)
				if n != rows.Old+rows.Allocs+rows.Frees+rows.Failures {
					t.Errorf("%d rows, %+v", n, rows)
				}
				wantPeak, wantEnd := requested(d)
				if peak != wantPeak || end != wantEnd {
					t.Errorf("most %d at once, want %d; at the end %d, want %d", peak, wantPeak, end, wantEnd)
				}
				if n == 0 {
					return
				}
				back := read(t, text)
				if len(back.Warnings) > 0 || len(back.Devices[0].Warnings) > 0 {
					t.Errorf("%v %v", back.Warnings, back.Devices[0].Warnings)
				}
				if got := back.Devices[0].Events.Len(); got != n {
					t.Errorf("%d events of %d rows", got, n)
				}
			})
		}
	}
}

// requested is the most that was asked for and not given back at once, and what is left of it at the end.
func requested(d *trace.Device) (peak, end int64) {
	sizes := make([]int64, d.NumBlocks)
	for _, b := range d.Initial.Blocks {
		if b.State == trace.BlockLive {
			sizes[b.ID] = b.Requested
			if b.Requested == 0 {
				sizes[b.ID] = b.Size
			}
			end += sizes[b.ID]
		}
	}
	peak = end
	for _, e := range d.Events.All() {
		switch {
		case e.Block == trace.NoBlock:
		case e.Op == trace.OpAlloc:
			sizes[e.Block] = e.Size
			end += e.Size
		case e.Op == trace.OpFreeRequested || e.Op == trace.OpFree:
			end -= sizes[e.Block]
			sizes[e.Block] = 0
		}
		peak = max(peak, end)
	}
	return peak, end
}

// What a recording does not have is made up, or left out and counted.
func TestWithout(t *testing.T) {
	d := trace.Device{Content: trace.Requests, Streams: []uint64{0}, NumBlocks: 2, Events: trace.EventsOf(
		trace.Event{Op: trace.OpAlloc, Block: 0, Size: 100}, trace.Event{Op: trace.OpAlloc, Block: 1, Size: 200}, trace.Event{Op: trace.OpFree, Block: 0, Size: 100},
		trace.Event{Op: trace.OpOOM, Block: trace.NoBlock}, trace.Event{Op: trace.OpFree, Block: trace.NoBlock, Addr: 5},
	)}
	text, rows := written(t, &d)
	const want = "Thread,Time,Action,Pointer,Size,Stream\n1,00:00:00.000000,allocate,0x100,100,0x0\n1,00:00:00.000001,allocate,0x200,200,0x0\n1,00:00:00.000002,free,0x100,100,0x0\n"
	if text != want || !rows.MadeUp || rows.Untold != 1 {
		t.Errorf("%+v\n%s", rows, text)
	}
}
