// Package bfc finds, in any log, the dumps of memory that the BFC allocator of TensorFlow, XLA and JAX writes when it
// cannot serve a request: every chunk with its address and size, by region, and the counts of the allocator.
//
// A dump shows one instant. A log may have several, of several allocators; of each allocator the last complete
// one is kept, and the totals of all as series.
package bfc

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/vramscope/vramscope/trace"
)

// Scanner looks for dumps in the lines of a log.
type Scanner struct {
	stacks  *trace.Stacks
	now     *dump // being read
	dumps   map[string]*kept
	order   []string
	asked   map[string]failure // the last request that each allocator refused
	soft    int                // refusals that the caller had said were none
	lines   int                // of dumps
	unknown int                // allocators beyond those that are kept
}

// failure is a request that was refused.
type failure struct {
	at    trace.Time
	bytes int64
	op    string
	exact bool // bytes is what was asked for after rounding, and not a rounded number of MiB
}

// kept is what is kept of an allocator.
type kept struct {
	last     *dump
	complete int
	partial  int
	series   map[trace.Quantity]*trace.Series
}

// dump is one instant of one allocator.
type dump struct {
	name   string
	at     trace.Time
	failed *failure

	segments []trace.Segment
	blocks   []trace.Block
	region   bool // the next chunk begins a region

	requested    int64 // what was asked for of what is in use, added up over bins, each rounded
	hasRequested bool
	limit        int64
	inUse        int64 // as the allocator counts, -1 if the dump does not say
	maxInUse     int64
	reserved     int64 // bytes in the pool, -1 if the dump does not say
	gaps         int   // chunks that do not begin where the one in front ends
	ended        bool
}

// maxAllocators is how many allocators' dumps are kept apart.
const maxAllocators = 256

// NewScanner is a scanner at the beginning of a log.
func NewScanner() *Scanner {
	return &Scanner{stacks: trace.NewStacks(), dumps: map[string]*kept{}, asked: map[string]failure{}}
}

// Line looks at a line, and says whether it belongs to a dump.
func (s *Scanner) Line(line []byte) bool {
	text, at := s.text(line)
	if s.now == nil && at < 0 && !bytes.Contains(text, []byte(startMark)) {
		return false
	}
	if !s.read(text, line) {
		return false
	}
	s.lines++
	return true
}

const startMark = "BFCAllocator dump for "

// text is what a line says, behind the date, the severity and the place that the logger puts in front, and
// where that begins, -1 if the line has no such front.
func (s *Scanner) text(line []byte) ([]byte, int) {
	i := bytes.Index(line, []byte("bfc_allocator.cc:"))
	if i < 0 {
		return bytes.TrimSpace(line), -1
	}
	j := bytes.Index(line[i:], []byte("] "))
	if j < 0 {
		return bytes.TrimSpace(line), -1
	}
	return bytes.TrimSpace(line[i+j+2:]), i + j + 2
}

// read takes over what a line says.
func (s *Scanner) read(t, line []byte) bool {
	if name, ok := bytes.CutPrefix(t, []byte(startMark)); ok {
		s.begin(string(bytes.TrimSpace(name)), line)
		return true
	}
	if bytes.HasPrefix(t, []byte("Allocator (")) {
		return s.failed(t, line)
	}
	if s.now == nil {
		return false
	}
	switch {
	case bytes.HasPrefix(t, []byte("InUse at ")), bytes.HasPrefix(t, []byte("Chunk at ")):
		return s.chunk(t, trace.BlockLive)
	case bytes.HasPrefix(t, []byte("Free ")) && bytes.Contains(t, []byte("at ")):
		return s.chunk(t, trace.BlockFree)
	case bytes.HasPrefix(t, []byte("Next region of size ")):
		s.now.region = true
		return true
	case bytes.HasPrefix(t, []byte("Bin (")):
		s.bin(t)
		return true
	case bytes.HasPrefix(t, []byte("Total bytes in pool: ")), bytes.HasPrefix(t, []byte("total_region_allocated_bytes_: ")):
		s.now.reserved = intAfter(t, ": ")
		s.now.limit = max(s.now.limit, intAfter(t, "memory_limit_: "))
		return true
	case bytes.HasPrefix(t, []byte("Limit:")):
		s.now.limit = max(s.now.limit, intAfter(t, ":"))
		return true
	case bytes.HasPrefix(t, []byte("InUse:")):
		s.now.inUse = intAfter(t, ":")
		return true
	case bytes.HasPrefix(t, []byte("MaxInUse:")):
		s.now.maxInUse = intAfter(t, ":")
		s.now.ended = true // what follows is not needed
		return true
	case bytes.HasPrefix(t, []byte("**")), bytes.HasPrefix(t, []byte("__")), bytes.HasPrefix(t, []byte("*_")), bytes.HasPrefix(t, []byte("_*")):
		s.finish()
		return true
	}
	return false
}

// begin begins a dump.
func (s *Scanner) begin(name string, line []byte) {
	s.finish()
	s.now = &dump{name: name, at: timeOf(line), inUse: -1, reserved: -1}
	if f, ok := s.asked[name]; ok {
		s.now.failed = &f
		delete(s.asked, name)
	}
}

// failed reads "Allocator (GPU_0_bfc) ran out of memory trying to allocate 488.28MiB (rounded to 512000000)requested by op X".
func (s *Scanner) failed(t, line []byte) bool {
	name, rest, ok := bytes.Cut(t[len("Allocator ("):], []byte(")"))
	if !ok || !bytes.Contains(rest, []byte("ran out of memory trying to allocate ")) || len(name) > 256 {
		return false
	}
	if bytes.Contains(rest, []byte("this is not a failure")) || bytes.Contains(rest, []byte("freed_by_count")) {
		s.soft++
		return true
	}
	f := failure{at: timeOf(line), bytes: intAfter(rest, "(rounded to ")}
	f.exact = f.bytes > 0
	if !f.exact {
		f.bytes = size(after(rest, "trying to allocate "))
	}
	if op := after(rest, "requested by op "); op != nil {
		f.op = string(firstWord(op))
	}
	if len(s.asked) < maxAllocators {
		s.asked[string(name)] = f
	}
	return true
}

// chunk reads "InUse at 7f5936000000 of size 256 next 1" with what some builds append, " by op NAME action_count 5 step 0".
func (s *Scanner) chunk(t []byte, state trace.BlockState) bool {
	hex := after(t, "at ")
	hex = firstWord(bytes.TrimPrefix(hex, []byte("0x")))
	addr, err := strconv.ParseUint(string(hex), 16, 64)
	n := intAfter(t, " of size ")
	if err != nil || n <= 0 || n > 1<<50 || addr > 1<<62 {
		return false
	}
	b := trace.Block{ID: trace.NoBlock, State: state, Addr: addr, Size: n}
	if state == trace.BlockLive {
		b.Requested = n
		if op := after(t, " by op "); op != nil {
			b.Stack = s.stacks.AddStack([]trace.FrameID{s.stacks.AddFrame(trace.Frame{Func: string(firstWord(op))})})
		}
	}
	d := s.now
	last := len(d.segments) - 1
	joins := last >= 0 && d.segments[last].Addr+uint64(d.segments[last].Size) == addr
	if d.region || !joins {
		if !d.region && last >= 0 {
			d.gaps++
		}
		d.segments = append(d.segments, trace.Segment{Addr: addr})
		last++
	}
	d.region = false
	d.segments[last].Size += n
	d.blocks = append(d.blocks, b)
	return true
}

// bin adds up what was asked for: the last size in "… 2.7KiB client-requested in use in bin."
func (s *Scanner) bin(t []byte) {
	const key = " client-requested in use in bin"
	i := bytes.Index(t, []byte(key))
	if i < 0 {
		return
	}
	j := bytes.LastIndexByte(t[:i], ' ')
	s.now.requested += size(t[j+1 : i])
	s.now.hasRequested = true
}

// finish keeps the dump that was being read.
func (s *Scanner) finish() {
	d := s.now
	s.now = nil
	if d == nil || len(d.blocks) == 0 {
		return
	}
	k := s.dumps[d.name]
	if k == nil {
		if len(s.dumps) >= maxAllocators {
			s.unknown++
			return
		}
		k = &kept{series: map[trace.Quantity]*trace.Series{}}
		s.dumps[d.name] = k
		s.order = append(s.order, d.name)
	}
	d.sort()
	used, held, free, largest := d.sums()
	whole := d.ended && used == d.inUse
	if whole {
		k.complete++
		k.last = d
		k.add(trace.Allocated, d.at, used)
		k.add(trace.AllocatorReserved, d.at, held)
		k.add(trace.AllocatorFree, d.at, free)
		k.add(trace.LargestFree, d.at, largest)
		if d.hasRequested {
			k.add(trace.Requested, d.at, d.requested)
		}
		return
	}
	k.partial++
	if k.last == nil || k.complete == 0 {
		k.last = d
	}
}

func (k *kept) add(q trace.Quantity, t trace.Time, v int64) {
	s := k.series[q]
	if s == nil {
		s = &trace.Series{Quantity: q}
		k.series[q] = s
	}
	s.Add(t, v)
}

// sort brings regions and chunks into the order of their addresses, which is how they are written.
func (d *dump) sort() {
	slices.SortStableFunc(d.segments, func(a, b trace.Segment) int { return cmp.Compare(a.Addr, b.Addr) })
	slices.SortStableFunc(d.blocks, func(a, b trace.Block) int { return cmp.Compare(a.Addr, b.Addr) })
}

func (d *dump) sums() (used, held, free, largest int64) {
	for i := range d.blocks {
		b := &d.blocks[i]
		held += b.Size
		if b.State == trace.BlockFree {
			free += b.Size
			largest = max(largest, b.Size)
		} else {
			used += b.Size
		}
	}
	return used, held, free, largest
}

// Found says whether there was any dump.
func (s *Scanner) Found() bool { return s.now != nil && len(s.now.blocks) > 0 || len(s.dumps) > 0 }

// Trace makes the trace of what was found. A device without a whole dump has HasFinal false, and what chunks
// there are.
func (s *Scanner) Trace() *trace.Trace {
	s.finish()
	t := &trace.Trace{Stacks: s.stacks}
	t.Settings.MaxSplitSize = -1
	t.Source = trace.Source{Format: "BFC allocator dump", Producer: "TensorFlow, XLA or JAX", Clock: trace.ClockLocal,
		Lacks: []trace.Lack{{What: "what happened before, and who allocated the chunks",
			Instead: "TensorFlow's profiler: tf.profiler.experimental.start(logdir) before the run and stop() after it, then the memory profile of XProf as JSON; " +
				"or jax.profiler.save_device_memory_profile('memory.prof')"}}}
	dumps, partial := 0, 0
	for _, name := range s.order {
		k := s.dumps[name]
		dumps += k.complete + k.partial
		partial += k.partial
		d := k.device()
		if d.Index < 0 {
			t.Beside = append(t.Beside, d)
		} else {
			t.Devices = append(t.Devices, d)
		}
		if k.last.at == 0 {
			t.Source.Clock = trace.ClockNone
		}
	}
	slices.SortStableFunc(t.Devices, func(a, b trace.Device) int { return cmp.Compare(a.Index, b.Index) })
	t.Source.Counts = []trace.Count{{What: "dumps", N: dumps}, {What: "refusals that the caller had said were no failures", N: s.soft}}
	if partial > 0 {
		t.Warnings = append(t.Warnings, trace.Warning{Code: "partial-dump", Count: partial, First: -1,
			Message: "dumps are not whole: their end is missing, or their chunks do not add up to what the allocator counted"})
	}
	if s.unknown > 0 {
		t.Warnings = append(t.Warnings, trace.Warning{Code: "more-allocators", Count: s.unknown, First: -1,
			Message: fmt.Sprintf("dumps are of allocators beyond the first %d and were left out", maxAllocators)})
	}
	return t
}

// device makes a device of the dump that was kept of an allocator.
func (k *kept) device() trace.Device {
	d := k.last
	out := trace.Device{Content: trace.Instant, Index: ordinal(d.name), Name: d.name, Capacity: d.limit, HasFinal: k.complete > 0,
		Streams: []uint64{0}, Pools: []trace.Pool{{}}, Final: trace.State{Segments: d.segments, Blocks: d.blocks}}
	next := trace.BlockID(0)
	for i := range d.blocks {
		if d.blocks[i].State != trace.BlockFree {
			d.blocks[i].ID = next
			next++
		}
	}
	out.NumBlocks = int(next)
	if d.failed != nil && d.failed.bytes > 0 {
		e := trace.Event{Time: d.failed.at, Size: d.failed.bytes, Block: trace.NoBlock, Op: trace.OpOOM, Pool: trace.PoolUnknown}
		out.Events.Append(e)
	}
	for _, q := range []trace.Quantity{trace.Allocated, trace.AllocatorReserved, trace.Requested, trace.AllocatorFree, trace.LargestFree} {
		if s := k.series[q]; s != nil {
			out.Series = append(out.Series, *s)
		}
	}
	warn := func(code string, n int, message string) {
		if n > 0 {
			out.Warnings = append(out.Warnings, trace.Warning{Code: code, Count: n, First: -1, Message: message})
		}
	}
	_, held, _, _ := d.sums()
	if d.reserved >= 0 && d.reserved != held {
		warn("pool-differs", 1, fmt.Sprintf("the regions have %d bytes, the allocator counts %d in its pool", held, d.reserved))
	}
	warn("gaps", d.gaps, "chunks do not begin where the one in front ends: lines are missing")
	return out
}

// ordinal is the device in an allocator's name, "GPU_0_bfc"; -1 for those of the host.
func ordinal(name string) int {
	lower := bytes.ToLower([]byte(name))
	i := bytes.Index(lower, []byte("gpu_"))
	if i < 0 {
		return -1
	}
	n := 0
	digits := 0
	for _, c := range lower[i+4:] {
		if c < '0' || c > '9' || digits > 5 {
			break
		}
		n = n*10 + int(c-'0')
		digits++
	}
	if digits == 0 {
		return -1
	}
	return n
}
