package jax

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vramscope/vramscope/trace"
)

// XProf's memory profile: for each allocator snapshots in time, each with the totals and with what was done then. Where
// there is one for every allocation and free, they are a recording that can be replayed; mostly they are a
// sample of about a thousand. Integers of 64 bits stand there as strings, times are picoseconds from the start.

var jsonOptions = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

// xprof gathers a profile.
type xprof struct {
	dec        *jsontext.Decoder
	stacks     *trace.Stacks
	allocators []*allocator
	snapshots  int
	bad        int
}

// allocator gathers one allocator's part.
type allocator struct {
	name      string
	capacity  int64
	lifetime  int64 // bytes in use at most, ever; -1 if it is not told
	atPeak    trace.Time
	snapshots []snapshot // of activities, in the order of the file
	timeline  []snapshot // a sample for drawing
	special   []activity // what was there without an activity
	active    []occurrence
}

// snapshot is a moment.
type snapshot struct {
	at          trace.Time
	stack, heap int64
	free, peak  int64
	outside     float64 // share of the free memory outside of the largest free block
	activity
}

// activity is what was done, or what an allocation was.
type activity struct {
	op              trace.Op
	other           bool // an activity that is neither an allocation nor a free
	addr            uint64
	requested, size int64
	name            trace.StackID
}

// occurrence is an allocation that was there at the peak.
type occurrence struct{ snapshot, special, n int64 }

const maxAllocators = 1024

func readXProf(r io.Reader) (*trace.Trace, error) {
	x := &xprof{dec: jsontext.NewDecoder(r, jsonOptions...), stacks: trace.NewStacks()}
	err := x.object(func(name string) error {
		if name != "memoryProfilePerAllocator" {
			return x.dec.SkipValue()
		}
		return x.object(func(name string) error {
			if len(x.allocators) >= maxAllocators {
				x.bad++
				return x.dec.SkipValue()
			}
			a := &allocator{name: name, lifetime: -1}
			x.allocators = append(x.allocators, a)
			return x.allocator(a)
		})
	})
	cut := false
	if err != nil {
		var syntax *jsontext.SyntacticError
		ended := errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF)
		switch {
		case (ended || errors.Is(err, trace.ErrCorrupt)) && x.snapshots > 0:
			cut = true
		case ended:
			return nil, trace.Corrupt(x.dec.InputOffset(), "the profile ends here, before its first snapshot: it was cut while it was written or copied")
		case errors.Is(err, trace.ErrCorrupt):
			return nil, err
		case errors.As(err, &syntax):
			return nil, trace.Corrupt(syntax.ByteOffset, "the JSON is damaged: %s", syntax.Err)
		default:
			return nil, err
		}
	}
	return x.trace(cut), nil
}

// object walks through the members of an object. f must take one value.
func (x *xprof) object(f func(name string) error) error {
	if x.dec.PeekKind() != '{' {
		return x.dec.SkipValue()
	}
	if _, err := x.dec.ReadToken(); err != nil {
		return err
	}
	for x.dec.PeekKind() == '"' {
		tok, err := x.dec.ReadToken()
		if err != nil {
			return err
		}
		if err := f(tok.String()); err != nil {
			return err
		}
	}
	_, err := x.dec.ReadToken()
	return err
}

// array walks through the elements of an array. f must take one value.
func (x *xprof) array(f func() error) error {
	if x.dec.PeekKind() != '[' {
		return x.dec.SkipValue()
	}
	if _, err := x.dec.ReadToken(); err != nil {
		return err
	}
	for {
		switch x.dec.PeekKind() {
		case ']', 0:
			_, err := x.dec.ReadToken()
			return err
		}
		if err := f(); err != nil {
			return err
		}
	}
}

// scalar reads a string or a number as text.
func (x *xprof) scalar() (string, error) {
	switch x.dec.PeekKind() {
	case '"':
		tok, err := x.dec.ReadToken()
		if err != nil {
			return "", err
		}
		return tok.String(), nil
	case '0':
		v, err := x.dec.ReadValue()
		return string(v), err
	}
	return "", x.dec.SkipValue()
}

// integer reads an integer into to, and leaves it where there is none.
func (x *xprof) integer(to *int64) error {
	text, err := x.scalar()
	if err != nil {
		return err
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		*to = n
	} else if u, err := strconv.ParseUint(text, 10, 64); err == nil {
		*to = int64(u)
	}
	return nil
}

func (x *xprof) allocator(a *allocator) error {
	return x.object(func(name string) error {
		switch name {
		case "memoryProfileSnapshots":
			return x.array(func() error {
				s, err := x.snapshot()
				if err == nil {
					a.snapshots = append(a.snapshots, s)
				}
				return err
			})
		case "sampledTimelineSnapshots":
			return x.array(func() error {
				s, err := x.snapshot()
				if err == nil {
					a.timeline = append(a.timeline, s)
				}
				return err
			})
		case "profileSummary":
			return x.object(func(name string) error {
				switch name {
				case "memoryCapacity":
					return x.integer(&a.capacity)
				case "peakBytesUsageLifetime":
					return x.integer(&a.lifetime)
				case "peakStatsTimePs":
					var ps int64
					err := x.integer(&ps)
					a.atPeak = trace.Time(ps / 1000)
					return err
				}
				return x.dec.SkipValue()
			})
		case "activeAllocations":
			return x.array(func() error {
				o := occurrence{special: -1}
				err := x.object(func(name string) error {
					switch name {
					case "snapshotIndex":
						return x.integer(&o.snapshot)
					case "specialIndex":
						return x.integer(&o.special)
					case "numOccurrences":
						return x.integer(&o.n)
					}
					return x.dec.SkipValue()
				})
				a.active = append(a.active, o)
				return err
			})
		case "specialAllocations":
			return x.array(func() error {
				v, err := x.activity()
				a.special = append(a.special, v)
				return err
			})
		}
		return x.dec.SkipValue()
	})
}

func (x *xprof) snapshot() (snapshot, error) {
	var s snapshot
	err := x.object(func(name string) error {
		switch name {
		case "timeOffsetPs":
			var ps int64
			err := x.integer(&ps)
			s.at = trace.Time(ps / 1000)
			return err
		case "aggregationStats":
			return x.object(func(name string) error {
				switch name {
				case "stackReservedBytes":
					return x.integer(&s.stack)
				case "heapAllocatedBytes":
					return x.integer(&s.heap)
				case "freeMemoryBytes":
					return x.integer(&s.free)
				case "peakBytesInUse":
					return x.integer(&s.peak)
				case "fragmentation":
					text, err := x.scalar()
					if f, bad := strconv.ParseFloat(text, 64); bad == nil && f >= 0 && f <= 1 {
						s.outside = f
					}
					return err
				}
				return x.dec.SkipValue()
			})
		case "activityMetadata":
			var err error
			s.activity, err = x.activity()
			return err
		}
		return x.dec.SkipValue()
	})
	if s.stack < 0 || s.heap < 0 || s.free < 0 || s.stack > 1<<50 || s.heap > 1<<50 || s.free > 1<<50 {
		x.bad++
		s.stack, s.heap, s.free = 0, 0, 0
	}
	x.snapshots++
	return s, err
}

func (x *xprof) activity() (activity, error) {
	var a activity
	var addr int64
	err := x.object(func(name string) error {
		switch name {
		case "memoryActivity":
			text, err := x.scalar()
			switch text {
			case "ALLOCATION":
				a.op = trace.OpAlloc
			case "DEALLOCATION":
				a.op = trace.OpFree
			case "":
			default:
				a.other = true
			}
			return err
		case "requestedBytes":
			return x.integer(&a.requested)
		case "allocationBytes":
			return x.integer(&a.size)
		case "address":
			return x.integer(&addr)
		case "tfOpName":
			text, err := x.scalar()
			if text != "" {
				a.name = x.stacks.AddStack([]trace.FrameID{x.stacks.AddFrame(trace.Frame{Func: text})})
			}
			return err
		}
		return x.dec.SkipValue()
	})
	a.addr = uint64(addr)
	if a.op == trace.OpFree && a.size < 0 && a.size >= -1<<50 && a.requested <= 0 && a.requested >= -1<<50 {
		a.size, a.requested = -a.size, -a.requested // what goes is negative to some
	}
	if a.size < 0 || a.requested < 0 || a.size > 1<<50 || a.requested > 1<<50 {
		x.bad++
		a = activity{}
	}
	return a, err
}

func (x *xprof) trace(cut bool) *trace.Trace {
	t := &trace.Trace{Stacks: x.stacks}
	t.Settings.MaxSplitSize = -1
	t.Source = trace.Source{Format: "XProf memory profile", Producer: "XProf", Bytes: x.dec.InputOffset(), Clock: trace.ClockRecording, Cut: cut,
		Counts: []trace.Count{{What: "allocators", N: len(x.allocators)}, {What: "snapshots", N: x.snapshots}}}
	sampled := false
	for i, a := range x.allocators {
		d := a.device(i)
		sampled = sampled || d.Content == trace.Samples
		if d.Index < 0 {
			t.Beside = append(t.Beside, d)
		} else {
			t.Devices = append(t.Devices, d)
		}
	}
	slices.SortStableFunc(t.Devices, func(a, b trace.Device) int { return cmp.Compare(a.Index, b.Index) })
	if sampled {
		t.Source.Lacks = append(t.Source.Lacks, trace.Lack{What: "every allocation: its snapshots are a sample",
			Instead: "the profile of a shorter time: tf.profiler.experimental.start(logdir) and stop(), or jax.profiler.start_trace(logdir) and stop_trace(), around a step or two"})
	} else {
		t.Source.Lacks = append(t.Source.Lacks, trace.Lack{What: "lines of code, only operators", Instead: "jax.profiler.save_device_memory_profile('memory.prof')"})
	}
	if cut {
		t.Warnings = append(t.Warnings, trace.Warning{Code: "cut", Count: 1, First: -1,
			Message: fmt.Sprintf("the file ends in the middle, after %d snapshots: what came before is used", x.snapshots)})
	}
	if x.bad > 0 {
		t.Warnings = append(t.Warnings, trace.Warning{Code: "bad-snapshot", Count: x.bad, First: -1, Message: "snapshots or allocations have sizes that make no sense"})
	}
	return t
}

// device makes a device of an allocator.
func (a *allocator) device(position int) trace.Device {
	d := trace.Device{Content: trace.Samples, Index: ordinalOf(a.name, position), Name: a.name, Capacity: max(0, a.capacity), Streams: []uint64{0}, Pools: []trace.Pool{{}}}
	slices.SortStableFunc(a.timeline, func(x, y snapshot) int { return cmp.Compare(x.at, y.at) })
	events := slices.Clone(a.snapshots)
	slices.SortStableFunc(events, func(x, y snapshot) int { return cmp.Compare(x.at, y.at) })
	samples := a.timeline
	if len(samples) == 0 {
		samples = events
	}
	d.Series = seriesOf(samples)
	if a.lifetime > 0 {
		s := trace.Series{Quantity: trace.LifetimePeak}
		s.Add(a.atPeak, a.lifetime)
		d.Series = append(d.Series, s)
	}
	if isComplete(events) {
		d.Content = trace.Requests
		d.Rounded = true
		for _, s := range events {
			if s.op != trace.OpNone && s.size > 0 {
				d.Events.Append(trace.Event{Time: s.at, Addr: s.addr, Size: s.size, Op: s.op, Stack: s.name, Block: trace.NoBlock, Pool: trace.PoolUnknown})
			}
		}
		trace.Pair(&d)
	}
	d.Final.Groups = a.live()
	return d
}

// ordinalOf is the number of an allocator's device: of "GPU_0_bfc" or of a number alone. Those of the host have none.
func ordinalOf(name string, position int) int {
	if n, err := strconv.Atoi(name); err == nil && n >= 0 && n < math.MaxInt32 {
		return n
	}
	for _, part := range splitName(name) {
		if n, err := strconv.Atoi(part); err == nil && n < math.MaxInt32 {
			return n
		}
		if part == "host" || part == "cpu" || part == "mklcpu" {
			return -1
		}
	}
	return position
}

// splitName takes a name such as "GPU_0_bfc" apart.
func splitName(name string) []string {
	return strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return r == '_' || r == ':' || r == '/' })
}

func seriesOf(samples []snapshot) []trace.Series {
	used := trace.Series{Quantity: trace.Allocated}
	free := trace.Series{Quantity: trace.AllocatorFree}
	outside := trace.Series{Quantity: trace.Fragmentation}
	for _, s := range samples {
		used.Add(s.at, s.stack+s.heap)
		free.Add(s.at, s.free)
		outside.Add(s.at, int64(math.Round(100*s.outside)))
	}
	if len(samples) == 0 {
		return nil
	}
	return []trace.Series{used, free, outside}
}

// isComplete says whether snapshots are of every allocation and free: if what each did is what the total changed by.
func isComplete(events []snapshot) bool {
	allocations, addresses := 0, 0
	for i, s := range events {
		if s.addr != 0 {
			addresses++
		}
		var by int64
		switch s.op {
		case trace.OpAlloc:
			allocations++
			by = s.size
		case trace.OpFree:
			by = -s.size
		}
		if i > 0 && s.op != trace.OpNone && s.heap-events[i-1].heap != by {
			return false
		}
	}
	return allocations > 0 && addresses > 0
}

// live lists what was there at the peak, which the profile tells by the numbers of snapshots.
func (a *allocator) live() []trace.Group {
	var out []trace.Group
	for _, o := range a.active {
		var v activity
		switch {
		case o.snapshot >= 0 && o.snapshot < int64(len(a.snapshots)):
			v = a.snapshots[o.snapshot].activity
		case o.snapshot < 0 && o.special >= 0 && o.special < int64(len(a.special)):
			v = a.special[o.special]
		default:
			continue
		}
		n := max(1, min(o.n, 1<<20))
		if v.size > 0 {
			out = append(out, trace.Group{Stack: v.name, Kind: "allocation", Bytes: min(v.size*n, 1<<50), Blocks: n})
		}
	}
	return out
}
