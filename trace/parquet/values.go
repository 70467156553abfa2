package parquet

import (
	"fmt"
	"math"
	"strconv"

	"github.com/vramscope/vramscope/trace"
	"github.com/vramscope/vramscope/trace/tables"
)

// rowOf reads the columns of a row. What is wrong stays in the reader.
type rowOf struct {
	tables.Row
	to *reader
}

func (r rowOf) wrong(format string, args ...any) {
	if r.to.bad == nil {
		r.to.bad = fmt.Errorf(format, args...)
	}
}

// int is a number that must be there.
func (r rowOf) int(c column) int64 {
	if r.Null(int(c)) {
		r.wrong("%s is null", columnNames()[c])
	}
	return r.Int(int(c))
}

// id is a number below a limit, or null, which is none.
func (r rowOf) id(c column, limit, none int64) int64 {
	if r.Null(int(c)) {
		return none
	}
	v := r.Int(int(c))
	if v < 0 || v >= limit {
		r.wrong("%s is %d", columnNames()[c], v)
		return none
	}
	return v
}

// text is a text, "" where it is null. Equal ones are one.
func (r rowOf) text(c column) string {
	b := r.Bytes(int(c))
	if s, ok := r.to.names[string(b)]; ok {
		return s
	}
	s := unescape(string(b))
	r.to.names[string(b)] = s
	return s
}

// oneOf is the number of a name.
func (r rowOf) oneOf(c column, names []string) int {
	b := r.Bytes(int(c))
	for i, n := range names {
		if string(b) == n {
			return i
		}
	}
	r.wrong("%s is %.20q", columnNames()[c], b)
	return 0
}

func (r rowOf) stack() trace.StackID {
	return trace.StackID(r.id(colStack, math.MaxUint32, int64(trace.NoStack)))
}

func (r rowOf) stream() trace.StreamID {
	return trace.StreamID(r.id(colStreamID, math.MaxUint32, math.MaxUint32))
}

func (r rowOf) pool() trace.PoolID {
	return trace.PoolID(r.id(colPoolID, int64(trace.PoolUnknown), int64(trace.PoolUnknown)))
}

func (r rowOf) blockID() trace.BlockID {
	return trace.BlockID(r.id(colBlock, int64(trace.NoBlock), int64(trace.NoBlock)))
}

func (r rowOf) event() trace.Event {
	op, ok := trace.ParseOp(string(r.Bytes(int(colOp))))
	if !ok {
		r.wrong("op is %.20q", r.Bytes(int(colOp)))
	}
	e := trace.Event{Time: trace.Time(r.int(colTime)), Size: r.int(colSize), Block: r.blockID(), Stack: r.stack(), Stream: r.stream(), Pool: r.pool(), Op: op}
	if op == trace.OpOOM {
		e.Addr = uint64(r.Int(int(colFree)))
	} else {
		e.Addr = uint64(r.int(colAddress))
	}
	return e
}

func (r rowOf) segment() trace.Segment {
	s := trace.Segment{Addr: uint64(r.int(colAddress)), Size: r.int(colSize), Stream: r.stream(), Pool: r.pool(), Expandable: r.int(colExpandable) != 0, Stack: r.stack()}
	if s.KindKnown = !r.Null(int(colClass)); s.KindKnown {
		s.Small = r.oneOf(colClass, []string{classLarge, classSmall}) == 1
	}
	return s
}

func (r rowOf) block() trace.Block {
	return trace.Block{ID: r.blockID(), State: trace.BlockState(r.oneOf(colState, stateNames[:])), Stream: r.stream(), Addr: uint64(r.int(colAddress)),
		Size: r.Int(int(colSize)), Requested: r.int(colRequested), Stack: r.stack()}
}

func (r rowOf) marker() trace.Marker {
	m := trace.Marker{Device: -1, Time: trace.Time(r.int(colTime)), Name: r.text(colName), Edge: trace.Edge(r.oneOf(colEdge, edgeNames[:]))}
	if !r.Null(int(colDevice)) {
		m.Device = int(r.Int(int(colDevice)))
	}
	return m
}

// frame takes a row of a frame: the next one of a stack, or one that is in no stack.
func (r rowOf) frame() {
	to := r.to
	if to.known == nil {
		// Each frame has a row at least.
		n := to.said.Frames
		if n < 0 || n > to.said.FrameRows {
			r.wrong("there are %d frames in %d rows", n, to.said.FrameRows)
			return
		}
		to.known, to.frames = make([]bool, n), make([]trace.Frame, n)
	}
	id := r.id(colFrame, int64(len(to.frames)), -1)
	if id < 0 {
		r.wrong("frame_id is null")
		return
	}
	if !to.known[id] {
		to.known[id] = true
		to.frames[id] = trace.Frame{File: r.text(colFile), Func: r.text(colFunction), Line: int(r.int(colLine))}
	}
	if r.Null(int(colStack)) {
		return
	}
	stack, depth := int64(r.stack()), r.int(colDepth)
	last := int64(len(to.starts)) - 2
	if depth == 0 && stack == last+1 {
		to.starts = append(to.starts, len(to.ids))
		last++
	}
	if stack != last || last == 0 || depth != int64(len(to.ids)-to.starts[last]) {
		r.wrong("frame %d of stack %d is out of order", depth, stack)
		return
	}
	to.ids = append(to.ids, trace.FrameID(id))
	to.starts[last+1] = len(to.ids)
}

// madeUp begins a made up name of a file.
const madeUp = "\x00apart"

// stacks makes the table of frames and stacks. Frames that are alike and have numbers of their own, as they may
// where files were renamed, keep them.
func (r *reader) stacks() error {
	if int64(len(r.frames)) != r.said.Frames || int64(len(r.starts))-1 != r.said.Stacks {
		return fmt.Errorf("it has %d frames and %d stacks, and its description tells of %d and %d", len(r.frames), len(r.starts)-1, r.said.Frames, r.said.Stacks)
	}
	s := trace.NewStacks()
	apart := map[string]string{} // made up names of files, to keep frames apart: the real ones
	made := 0                    // of those: each is tried once, so that no file can make this take long
	for i, f := range r.frames {
		if !r.known[i] {
			return fmt.Errorf("frame %d has no row", i)
		}
		for int(s.AddFrame(f)) != i {
			f.File = madeUp + strconv.Itoa(made)
			made++
		}
		if f.File != r.frames[i].File {
			apart[f.File] = r.frames[i].File
		}
	}
	for id := 1; id+1 < len(r.starts); id++ {
		if s.AddStack(r.ids[r.starts[id]:r.starts[id+1]]) != trace.StackID(id) {
			return fmt.Errorf("stack %d is there twice", id)
		}
	}
	if len(apart) > 0 {
		s.RenameFiles(func(file string) string {
			if real, ok := apart[file]; ok {
				return real
			}
			return file
		})
	}
	r.trace.Stacks = s
	return nil
}
