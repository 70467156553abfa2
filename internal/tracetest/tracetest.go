// Package tracetest makes small recordings for tests: a program asks for blocks and gives them back, the model
// of PyTorch's allocator serves it over a simulated device, and what PyTorch would have recorded is written down.
package tracetest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/vramscope/vramscope/allocators"
	"github.com/vramscope/vramscope/allocators/caching"
	"github.com/vramscope/vramscope/allocators/caching/config"
	"github.com/vramscope/vramscope/allocators/driver/sim"
	"github.com/vramscope/vramscope/trace"
)

// MiB is a unit of size.
const MiB = 1 << 20

// Recorder is a process that is recorded from its start.
type Recorder struct {
	// Rename, if not nil, changes each frame before it is recorded: another version of the same program.
	Rename func(trace.Frame) trace.Frame

	conf   string
	cfg    config.Config
	model  *caching.Allocator
	trace  *trace.Trace
	device trace.Device
	now    trace.Time
	blocks []block
	frames map[string]trace.StackID
}

type block struct {
	size  int64
	stack trace.StackID
	live  bool
}

// New starts a process under a setting, with so many bytes that it may reserve; negative for no limit.
func New(conf string, limit int64) *Recorder {
	cfg, _, err := config.Parse(conf, config.DefaultVersion)
	if err != nil {
		panic(err) // unreachable: tests write settings that are right
	}
	r := &Recorder{conf: conf, cfg: cfg, frames: map[string]trace.StackID{}, now: 1_700_000_000e9}
	r.trace = &trace.Trace{Stacks: trace.NewStacks()}
	c := caching.NewConfig(cfg)
	c.Limit = limit
	r.model = caching.New(sim.New(sim.Config{}), c)
	r.model.SetHooks(caching.Hooks{Acted: func(x caching.Action) {
		ops := map[caching.ActionKind]trace.Op{caching.SegmentAlloc: trace.OpSegmentAlloc, caching.SegmentFree: trace.OpSegmentFree,
			caching.SegmentMap: trace.OpSegmentMap, caching.SegmentUnmap: trace.OpSegmentUnmap}
		r.event(trace.Event{Op: ops[x.Kind], Addr: x.Addr, Size: x.Size, Block: trace.NoBlock})
	}})
	return r
}

func (r *Recorder) event(e trace.Event) {
	r.now += 1000
	e.Time, e.Pool = r.now, trace.PoolUnknown
	r.device.Events.Append(e)
}

// Alloc asks for a block and returns its number, negative if there was no memory for it. The stack is lines
// such as "model.py:31 forward", innermost first, with " < " between two.
func (r *Recorder) Alloc(size int64, stack string) int {
	n := len(r.blocks)
	id := r.stack(stack)
	err := r.model.Malloc(allocators.Request{Block: uint32(n), Size: size})
	if err != nil {
		r.event(trace.Event{Op: trace.OpOOM, Size: r.cfg.RoundSize(size), Block: trace.NoBlock, Stack: id})
		return -1
	}
	addr, _, _ := r.model.Block(uint32(n))
	r.event(trace.Event{Op: trace.OpAlloc, Addr: addr, Size: size, Block: trace.BlockID(n), Stack: id})
	r.blocks = append(r.blocks, block{size, id, true})
	return n
}

// Free gives blocks back.
func (r *Recorder) Free(blocks ...int) {
	for _, n := range blocks {
		if n < 0 || !r.blocks[n].live {
			continue
		}
		b := &r.blocks[n]
		b.live = false
		addr, _, _ := r.model.Block(uint32(n))
		for _, op := range []trace.Op{trace.OpFreeRequested, trace.OpFreeCompleted} {
			r.event(trace.Event{Op: op, Addr: addr, Size: b.size, Block: trace.BlockID(n), Stack: b.stack})
		}
		r.model.Free(uint32(n), false)
	}
}

// Stats is what the allocator of the process has counted so far.
func (r *Recorder) Stats() allocators.Stats { return *r.model.Stats() }

// Step runs a part of the program under a name.
func (r *Recorder) Step(name string, run func()) {
	r.mark(name, trace.EdgeStart)
	run()
	r.mark(name, trace.EdgeEnd)
}

func (r *Recorder) mark(name string, edge trace.Edge) {
	r.now += 1000
	r.trace.Markers = append(r.trace.Markers, trace.Marker{Time: r.now, Device: 0, Name: name, Edge: edge})
}

func (r *Recorder) stack(text string) trace.StackID {
	if id, ok := r.frames[text]; ok || text == "" {
		return id
	}
	var ids []trace.FrameID
	for _, line := range strings.Split(text, " < ") {
		f := parseFrame(line)
		if r.Rename != nil {
			f = r.Rename(f)
		}
		ids = append(ids, r.trace.Stacks.AddFrame(f))
	}
	id := r.trace.Stacks.AddStack(ids)
	r.frames[text] = id
	return id
}

func parseFrame(s string) trace.Frame {
	place, fn, _ := strings.Cut(s, " ")
	file, line, _ := strings.Cut(place, ":")
	n, _ := strconv.Atoi(line)
	return trace.Frame{File: file, Func: fn, Line: n}
}

// Trace ends the recording.
func (r *Recorder) Trace() *trace.Trace {
	d := r.device
	d.NumBlocks, d.Streams, d.Pools = len(r.blocks), []uint64{0}, []trace.Pool{{}}
	d.HasFinal = true
	var placed []caching.Placed
	r.model.Layout(func(p caching.Placed) { placed = append(placed, p) })
	slices.SortFunc(placed, func(x, y caching.Placed) int { return cmp.Compare(x.Addr, y.Addr) })
	for _, p := range placed {
		if p.First || len(d.Final.Segments) == 0 {
			d.Final.Segments = append(d.Final.Segments, trace.Segment{Addr: p.Addr, Expandable: r.cfg.Expandable})
		}
		s := &d.Final.Segments[len(d.Final.Segments)-1]
		s.Size += p.Size
		b := trace.Block{ID: trace.NoBlock, Addr: p.Addr, Size: p.Size}
		if !p.Free {
			made := r.blocks[p.Number]
			b.ID, b.State, b.Requested, b.Stack = trace.BlockID(p.Number), trace.BlockLive, made.size, made.stack
		}
		d.Final.Blocks = append(d.Final.Blocks, b)
	}
	t := *r.trace
	t.Source = trace.Source{Format: "PyTorch snapshot", Producer: "a test"}
	t.Settings = trace.Settings{Known: true, Conf: r.conf, MaxSplitSize: -1, Expandable: r.cfg.Expandable, HasExpandable: true,
		GCThreshold: r.cfg.GCThreshold, Roundup: r.cfg.Roundup, HasRoundup: true}
	if r.cfg.MaxSplitSize != config.Unlimited {
		t.Settings.MaxSplitSize = r.cfg.MaxSplitSize
	}
	t.Devices = []trace.Device{d}
	return &t
}

// WriteJSON writes the recording as a PyTorch snapshot that was turned into JSON.
func (r *Recorder) WriteJSON(w io.Writer) error {
	t := r.Trace()
	d := &t.Devices[0]
	type object = map[string]any
	frames := func(id trace.StackID) []object {
		out := []object{}
		for _, f := range t.Stacks.Stack(id) {
			out = append(out, object{"filename": f.File, "line": f.Line, "name": f.Func})
		}
		return out
	}
	events := []object{}
	for _, e := range d.Events.All() {
		o := object{"action": e.Op.String(), "addr": e.Addr, "size": e.Size, "stream": 0, "time_us": int64(e.Time) / 1000, "frames": frames(e.Stack)}
		if e.Op == trace.OpOOM {
			o["device_free"] = e.Addr
			delete(o, "addr")
		}
		events = append(events, o)
	}
	segments := []object{}
	at := 0
	for _, s := range d.Final.Segments {
		blocks := []object{}
		for ; at < len(d.Final.Blocks) && d.Final.Blocks[at].Addr < s.Addr+uint64(s.Size); at++ {
			b := d.Final.Blocks[at]
			state := "inactive"
			if b.State == trace.BlockLive {
				state = "active_allocated"
			}
			blocks = append(blocks, object{"address": b.Addr, "size": b.Size, "requested_size": b.Requested, "state": state, "frames": frames(b.Stack)})
		}
		kind := "large"
		if s.Size == config.SmallSegment {
			kind = "small"
		}
		segments = append(segments, object{"device": 0, "address": s.Addr, "total_size": s.Size, "stream": 0, "segment_type": kind,
			"segment_pool_id": []int{0, 0}, "is_expandable": s.Expandable, "frames": []object{}, "blocks": blocks})
	}
	annotations := []object{}
	for _, m := range t.Markers {
		stage := map[trace.Edge]string{trace.EdgeStart: "START", trace.EdgeEnd: "END"}[m.Edge]
		annotations = append(annotations, object{"device": 0, "name": m.Name, "stage": stage, "time_us": int64(m.Time) / 1000})
	}
	split := t.Settings.MaxSplitSize
	settings := object{"PYTORCH_CUDA_ALLOC_CONF": t.Settings.Conf, "max_split_size": split, "garbage_collection_threshold": t.Settings.GCThreshold,
		"expandable_segments": t.Settings.Expandable}
	return json.NewEncoder(w).Encode(object{"segments": segments, "device_traces": [][]object{events}, "allocator_settings": settings,
		"external_annotations": annotations})
}

// Training is a small program with a loop: weights, a step of activations, gradients and a loss. Change says
// what is asked for in place of a size, by the line of the call.
func (r *Recorder) Training(steps int, change func(where string, size int64) int64) {
	if change == nil {
		change = func(_ string, size int64) int64 { return size }
	}
	alloc := func(size int64, where string) int {
		inner, _, _ := strings.Cut(where, " < ")
		return r.Alloc(change(inner, size), where)
	}
	const main = "/home/user/train.py:%d main"
	run := fmt.Sprintf(main, 40)
	var weights []int
	for i := range 4 {
		weights = append(weights, alloc(16*MiB, fmt.Sprintf("/usr/lib/python3/site-packages/torch/nn/linear.py:%d __init__ < /home/user/model.py:%d __init__ < %s", 98, 10+i, fmt.Sprintf(main, 30))))
	}
	for s := range steps {
		r.Step(fmt.Sprintf("## step %d ##", s), func() {
			var acts []int
			for i := range 4 {
				acts = append(acts, alloc(int64(24+8*i)*MiB, fmt.Sprintf("/usr/lib/python3/site-packages/torch/nn/linear.py:134 forward < /home/user/model.py:%d forward < %s", 31+i, run)))
			}
			loss := alloc(40*MiB, "/usr/lib/python3/site-packages/torch/nn/functional.py:3504 cross_entropy < /home/user/train.py:36 train < "+run)
			var grads []int
			for i := range 4 {
				grads = append(grads, alloc(16*MiB, ""))
				r.Free(acts[3-i])
			}
			r.Free(loss)
			temp := alloc(8*MiB, "/usr/lib/python3/site-packages/torch/optim/adam.py:178 step < /home/user/train.py:38 train < "+run)
			r.Free(temp)
			r.Free(grads...)
		})
	}
	r.Free(weights[3])
}
