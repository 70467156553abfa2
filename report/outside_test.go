package report

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/vramscope/vramscope/trace"
)

const outsideStart = trace.Time(1_700_000_000_000_000_000)

// stairs is a recording in which the allocator takes and gives back segments at the given times (ms after the start).
func stairs(at []int, sizes []int64) *trace.Trace {
	d := trace.Device{Streams: []uint64{0}, Pools: []trace.Pool{{}}, HasFinal: true}
	held := map[int]uint64{}
	addr := uint64(0x7f0000000000)
	for i, ms := range at {
		t := outsideStart + trace.Time(ms)*1_000_000
		n := sizes[i] * 2 * mib
		if n > 0 {
			d.Events.Append(trace.Event{Time: t, Addr: addr, Size: n, Op: trace.OpSegmentAlloc, Block: trace.NoBlock})
			held[i] = addr
			addr += 1 << 40
			continue
		}
		for j := range i { // give back one that has this size
			if a, ok := held[j]; ok && sizes[j] == -sizes[i] {
				d.Events.Append(trace.Event{Time: t, Addr: a, Size: -n, Op: trace.OpSegmentFree, Block: trace.NoBlock})
				delete(held, j)
				break
			}
		}
	}
	for i, a := range held {
		d.Final.Segments = append(d.Final.Segments, trace.Segment{Addr: a, Size: sizes[i] * 2 * mib})
		d.Final.Blocks = append(d.Final.Blocks, trace.Block{ID: trace.NoBlock, Addr: a, Size: sizes[i] * 2 * mib})
	}
	t := &trace.Trace{Stacks: trace.NewStacks(), Devices: []trace.Device{d}}
	t.Source.Format = "PyTorch snapshot"
	t.Settings.MaxSplitSize = -1
	return t
}

// watched is a log of the same, with something more in use, by a clock that shows zone.
func watched(t *trace.Trace, every time.Duration, zone time.Duration, clock trace.Clock, outside func(i int) int64) *trace.Trace {
	held := heldOver(&t.Devices[0])
	used := trace.Series{Quantity: trace.DeviceUsed}
	now, k := int64(0), 0
	last := held[len(held)-1].at
	i := 0
	for at := outsideStart - 3*trace.Time(every); at < last+trace.Time(every); at += trace.Time(every) {
		for k < len(held) && held[k].at <= at {
			now = held[k].held
			k++
		}
		used.Add(at+trace.Time(zone), now+outside(i))
		i++
	}
	log := &trace.Trace{Devices: []trace.Device{{Content: trace.Samples, Index: 0, Series: []trace.Series{used}}}}
	log.Source = trace.Source{Format: "nvidia-smi CSV", Clock: clock}
	return log
}

func constant(n int64) func(int) int64 { return func(int) int64 { return n } }

func analyzed(t *trace.Trace) *Analysis {
	return Analyze("run.pickle", t, Options{Limit: -1, Device: -1})
}

// In whatever zone a log was written, and whatever other processes do, what is outside comes out.
func TestOutsideZones(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(5, 30).Draw(t, "n")
		var at []int
		var sizes []int64
		ms := 0
		for range n {
			ms += rapid.IntRange(300, 3000).Draw(t, "after")
			at = append(at, ms)
			sizes = append(sizes, rapid.Int64Range(50, 800).Draw(t, "size"))
		}
		rec := stairs(at, sizes)
		zone := time.Duration(rapid.IntRange(-48, 56).Draw(t, "zone")) * 15 * time.Minute
		log := watched(rec, 250*time.Millisecond, zone, trace.ClockLocal, constant(500*mib))
		a := analyzed(rec)
		if err := a.AddLog("smi.csv", log, LogOptions{}); err != nil {
			t.Fatal(err)
		}
		o := a.Devices[0].Outside[0]
		if o.Offset != -zone || !o.Sure || o.Below != 0 {
			t.Fatalf("offset %v of zone %v, %s, %d", o.Offset, zone, o.How, o.Below)
		}
		_, _, s := o.Spreads()
		if s.Least != 500*mib || s.Most != 500*mib {
			t.Fatalf("outside %+v", s)
		}
	})
}

// A log of hours fits in several zones: what moves in both decides.
func TestOutsideLongLog(t *testing.T) {
	rec := stairs([]int{100, 2000, 3500, 6100, 9000, 9600}, []int64{100, 700, 300, 900, 50, 400})
	short := watched(rec, 500*time.Millisecond, 2*time.Hour, trace.ClockLocal, constant(300*mib)).Devices[0].Series[0]
	used := trace.Series{Quantity: trace.DeviceUsed}
	first := short.Points[0].Time
	for at := first - 6*trace.Time(time.Hour); at < first; at += trace.Time(30 * time.Second) {
		used.Add(at, 300*mib)
	}
	for _, p := range short.Points {
		used.Add(p.Time, p.Last)
	}
	for i := range 600 {
		used.Add(short.Points[len(short.Points)-1].Time+trace.Time(i+1)*trace.Time(30*time.Second), 300*mib+int64(i%7)*mib)
	}
	log := &trace.Trace{Devices: []trace.Device{{Content: trace.Samples, Series: []trace.Series{used}}}}
	log.Source.Clock = trace.ClockLocal
	a := analyzed(rec)
	if err := a.AddLog("smi.csv", log, LogOptions{}); err != nil {
		t.Fatal(err)
	}
	if o := a.Devices[0].Outside[0]; o.Offset != -2*time.Hour || !o.Sure || !strings.Contains(o.How, "UTC+02:00") {
		t.Errorf("%v, %s", o.Offset, o.How)
	}
}

// A log without a clock is moved to where it fits.
func TestOutsideWithoutClock(t *testing.T) {
	rec := stairs([]int{100, 2300, 3500, 6100, 9000, 9600, 15000}, []int64{100, 700, 300, 900, 50, 400, 10})
	log := watched(rec, 200*time.Millisecond, -time.Duration(outsideStart)+700*time.Millisecond, trace.ClockRecording, func(i int) int64 { return 300*mib + int64(i%3)*mib })
	a := analyzed(rec)
	if err := a.AddLog("dmon.txt", log, LogOptions{}); err != nil {
		t.Fatal(err)
	}
	o := a.Devices[0].Outside[0]
	want := time.Duration(outsideStart) - 700*time.Millisecond
	if off := (o.Offset - want).Abs(); off > 200*time.Millisecond || !o.Sure {
		t.Errorf("off by %v: %s", off, o.How)
	}
	if err := a.AddLog("dmon.txt", log, LogOptions{Offset: want, HasOffset: true}); err != nil {
		t.Fatal(err)
	}
	if o := a.Devices[0].Outside[1]; o.Offset != want || o.Below != 0 {
		t.Errorf("given: %v %d", o.Offset, o.Below)
	}
}

// Of processes, the one that moves with the allocator is the program's.
func TestOutsideProcess(t *testing.T) {
	rec := stairs([]int{100, 1300, 2500, 4100}, []int64{100, 700, 300, 900})
	log := watched(rec, 200*time.Millisecond, 0, trace.ClockLocal, constant(0))
	own := log.Devices[0].Series[0]
	other := trace.Series{Quantity: trace.ProcessUsed, PID: 7, Name: "other"}
	mine := trace.Series{Quantity: trace.ProcessUsed, PID: 8, Name: "python"}
	for i, p := range own.Points {
		other.Add(p.Time, 8000*mib+int64(i%5)*900*mib)
		mine.Add(p.Time, p.Last+450*mib)
	}
	log.Devices[0].Series = []trace.Series{other, mine}
	a := analyzed(rec)
	if err := a.AddLog("pmon.txt", log, LogOptions{}); err != nil {
		t.Fatal(err)
	}
	o := a.Devices[0].Outside[0]
	_, _, s := o.Spreads()
	if o.PID != 8 || s.Least != 450*mib || s.Most != 450*mib {
		t.Errorf("pid %d, %+v", o.PID, s)
	}
	var text, data bytes.Buffer
	if err := a.WriteText(&text, Style{}); err != nil {
		t.Fatal(err)
	}
	if err := a.WriteJSON(&data); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text.String(), "Outside the allocator: 450 MiB to 450 MiB, by pmon.txt") || !strings.Contains(data.String(), `"outside_bytes": 471859200`) {
		t.Errorf("%s\n%s", text.String(), data.String())
	}
}

func TestOutsideErrors(t *testing.T) {
	rec := stairs([]int{100, 1300, 2500}, []int64{100, 700, 300})
	far := watched(rec, 200*time.Millisecond, 100*24*time.Hour, trace.ClockLocal, constant(0))
	rare := watched(rec, 200*time.Millisecond, 0, trace.ClockLocal, constant(0))
	s := trace.Series{Quantity: trace.DeviceUsed}
	s.Add(outsideStart-60_000_000_123, 1)
	s.Add(outsideStart+60_000_000_123, 1)
	rare.Devices[0].Series = []trace.Series{s}
	two := watched(rec, 200*time.Millisecond, 0, trace.ClockLocal, constant(0))
	two.Devices[0].Index = 3
	two.Devices = append(two.Devices, trace.Device{Index: 4})
	empty := &trace.Trace{Devices: []trace.Device{{Content: trace.Samples}}}
	for want, log := range map[string]*trace.Trace{
		"do not overlap in any zone": far, "no sample of the log lies within": rare, "has no device 0; it has 3, 4": two, "ask for memory.used": empty,
	} {
		err := analyzed(rec).AddLog("log", log, LogOptions{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
