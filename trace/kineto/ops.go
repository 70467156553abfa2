package kineto

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/vramscope/vramscope/trace"
)

// Which operators enclose a memory event is known only when the whole file has been read: events are grouped
// by thread and by kind, and a thread's operators come before its memory events, its Python functions behind
// them. So every operator has to be kept, and there are ten times as many of them as memory events. They are
// kept in a few bytes each:
//
//	uvarint  start, as the difference to the operator in front, ns
//	uvarint  duration, ns
//	uvarint  label: twice the number of a frame, or of a stack and one
//
// Differences are not negative, so a lane consists of runs in which starts ascend. An operator goes to the run
// whose last start is nearest before its own; kinds of events that are sorted in the file make one run each.
// In the end the runs of a lane are merged while its memory events are gone through.

// label names an operator.
type label uint64

func frameLabel(f trace.FrameID) label { return label(f) << 1 }
func stackLabel(s trace.StackID) label { return label(s)<<1 | 1 }

// lane has the operators of one thread.
type lane struct {
	runs []run // by tail, descending
}

type run struct {
	first int64 // start of the first operator, ns
	tail  int64 // start of the last one
	pages [][]byte
}

const (
	firstPage = 128
	lastPage  = 16 << 10
)

// add notes an operator.
func (l *lane) add(start, duration int64, what label) {
	i, _ := slices.BinarySearchFunc(l.runs, start, func(r run, start int64) int { return cmp.Compare(start, r.tail) })
	if i == len(l.runs) {
		l.runs = append(l.runs, run{first: start, tail: start})
	}
	r := &l.runs[i]
	n := len(r.pages)
	if n == 0 || cap(r.pages[n-1])-len(r.pages[n-1]) < 3*binary.MaxVarintLen64 {
		size := firstPage
		if n > 0 {
			size = min(2*cap(r.pages[n-1]), lastPage)
		}
		r.pages = append(r.pages, make([]byte, 0, size))
		n++
	}
	page := &r.pages[n-1]
	*page = binary.AppendUvarint(*page, uint64(start-r.tail))
	*page = binary.AppendUvarint(*page, uint64(max(duration, 0)))
	*page = binary.AppendUvarint(*page, uint64(what))
	r.tail = start
}

// op is an operator while it is merged.
type op struct {
	start, end int64
	what       label
}

// before orders operators by start; of two with the same, the one that encloses the other comes first.
func (a op) before(b op) bool {
	return a.start < b.start || a.start == b.start && a.end > b.end
}

// decoder walks through a run.
type decoder struct {
	op
	pages [][]byte
	at    int
}

func (d *decoder) next() bool {
	for len(d.pages) > 0 && d.at == len(d.pages[0]) {
		d.pages, d.at = d.pages[1:], 0
	}
	if len(d.pages) == 0 {
		return false
	}
	number := func() uint64 {
		n, size := binary.Uvarint(d.pages[0][d.at:])
		d.at += size
		return n
	}
	d.start += int64(number())
	d.end = d.start + int64(number())
	d.what = label(number())
	return true
}

// sweep goes through the operators of a lane in time, and knows which are open.
type sweep struct {
	heap  []decoder // by op
	open  []op      // the outermost first
	stack trace.StackID
	known bool // stack is that of open
}

func (l *lane) sweep() *sweep {
	s := &sweep{}
	for _, r := range l.runs {
		d := decoder{op: op{start: r.first}, pages: r.pages}
		if d.next() {
			s.heap = append(s.heap, d)
		}
	}
	for i := len(s.heap)/2 - 1; i >= 0; i-- {
		s.down(i)
	}
	return s
}

func (s *sweep) down(i int) {
	for {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < len(s.heap); c++ {
			if s.heap[c].before(s.heap[least].op) {
				least = c
			}
		}
		if least == i {
			return
		}
		s.heap[i], s.heap[least] = s.heap[least], s.heap[i]
		i = least
	}
}

// to goes on to a time: operators that begin then are open, and those that end then still are.
func (s *sweep) to(t int64) {
	for len(s.heap) > 0 && s.heap[0].start <= t {
		s.push(s.heap[0].op)
		if !s.heap[0].next() {
			last := len(s.heap) - 1
			s.heap[0] = s.heap[last]
			s.heap = s.heap[:last]
		}
		s.down(0)
	}
	s.pop(t)
}

func (s *sweep) push(o op) {
	s.pop(o.start)
	s.open = append(s.open, o)
	s.known = false
}

func (s *sweep) pop(t int64) {
	for n := len(s.open); n > 0 && s.open[n-1].end < t; n-- {
		s.open = s.open[:n-1]
		s.known = false
	}
}

// maxDepth is how many frames a stack may have.
const maxDepth = 256

// at is the stack of the operators that are open at a time, which does not come before that of the last call.
func (s *sweep) at(t int64, stacks *trace.Stacks, buf []trace.FrameID) (trace.StackID, []trace.FrameID) {
	s.to(t)
	if s.known {
		return s.stack, buf
	}
	buf = buf[:0]
	s.known = true
	for i := len(s.open) - 1; i >= 0 && len(buf) < maxDepth; i-- {
		o := s.open[i]
		switch {
		case o.end < t: // has ended, although one that began later has not
			s.known = false
		case o.what&1 == 0:
			buf = append(buf, trace.FrameID(o.what>>1))
		default:
			buf = append(buf, stacks.Frames(trace.StackID(o.what>>1))...)
			i = 0 // a stack that the file spells out is a whole one
		}
	}
	s.stack = stacks.AddStack(buf)
	return s.stack, buf
}
