package cupti

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/vramscope/vramscope/trace"
)

// Named ranges (NVTX). Those that a thread pushes and pops are nested, and whatever the thread does lies in
// all that are open: they are read like a call stack, the innermost first. The others only mark times.

const (
	deepest     = 64 // ranges in each other that a stack shows
	longestName = 200
)

// RangeKind tells ranges apart.
type RangeKind uint8

// The kinds of range.
const (
	PushPop  RangeKind = iota
	StartEnd           // may begin and end on different threads
	Mark               // a point
)

// Name numbers the names of ranges.
type Name uint32

type ranges struct {
	numbers  map[uint64]uint32 // of threads, from 1
	byThread [][]pushed        // by number of the thread - 1, in the order of their starts once sorted
	unsorted []bool
	marks    []marked

	names  []string
	byText map[string]Name
	byRef  map[uint64]Name
	stacks map[stackKey]trace.StackID
}

// pushed is a range of a thread's.
type pushed struct {
	start, end int64 // end is at least start
	name       Name
	up         int32 // the range around it, -1 for none
	depth      int32
	stack      int64 // of this range and those around it, -1 if not made yet
}

type marked struct {
	at   int64
	name Name
	edge trace.Edge
}

type stackKey struct {
	chain, around trace.StackID
}

// thread numbers a thread.
func (r *ranges) thread(id uint64) uint32 {
	n, ok := r.numbers[id]
	if !ok {
		if r.numbers == nil {
			r.numbers = map[uint64]uint32{}
		}
		n = uint32(len(r.numbers)) + 1
		r.numbers[id] = n
	}
	return n
}

// RangeName is the number of a name.
func (r *Recording) RangeName(text []byte) Name {
	s := &r.ranges
	if s.byText == nil {
		s.byText = map[string]Name{}
	}
	n, ok := s.byText[string(text)]
	if !ok {
		n = Name(len(s.names))
		s.byText[string(text)] = n
		s.names = append(s.names, clean(string(text)))
	}
	return n
}

// RangeRef is the number of a name that the file refers to by a number, and that SetName will tell.
func (r *Recording) RangeRef(ref uint64) Name {
	s := &r.ranges
	if s.byRef == nil {
		s.byRef = map[uint64]Name{}
	}
	n, ok := s.byRef[ref]
	if !ok {
		n = Name(len(s.names))
		s.byRef[ref] = n
		s.names = append(s.names, "range without a name")
	}
	return n
}

// HasRangeRefs says whether names are referred to.
func (r *Recording) HasRangeRefs() bool { return len(r.ranges.byRef) > 0 }

// EachRangeRef gives what names are referred to by.
func (r *Recording) EachRangeRef(each func(ref uint64)) {
	for ref := range r.ranges.byRef {
		each(ref)
	}
}

// SetName tells a name that is referred to; others are passed over.
func (r *Recording) SetName(ref uint64, text []byte) {
	if n, ok := r.ranges.byRef[ref]; ok {
		r.ranges.names[n] = clean(string(text))
	}
}

// AddRange takes a range; one with ended false was open when the recording ended. thread 0 is unknown.
func (r *Recording) AddRange(kind RangeKind, thread uint64, start, end int64, ended bool, name Name) {
	s := &r.ranges
	if start < -farthest || start > farthest || ended && (end < start || end > farthest) {
		r.badTimes++
		return
	}
	if kind == Mark {
		s.marks = append(s.marks, marked{start, name, trace.EdgePoint})
		return
	}
	s.marks = append(s.marks, marked{start, name, trace.EdgeStart})
	if ended {
		s.marks = append(s.marks, marked{end, name, trace.EdgeEnd})
	} else {
		end = farthest
	}
	if kind != PushPop || thread == 0 {
		return
	}
	t := int(s.thread(thread)) - 1
	for len(s.byThread) <= t {
		s.byThread = append(s.byThread, nil)
		s.unsorted = append(s.unsorted, false)
	}
	l := s.byThread[t]
	if n := len(l); n > 0 && before(pushed{start: start, end: end}, l[n-1]) < 0 {
		s.unsorted[t] = true
	}
	s.byThread[t] = append(l, pushed{start: start, end: end, name: name, stack: -1})
}

// before orders ranges by their starts, the outer first.
func before(a, b pushed) int { return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(b.end, a.end)) }

// nest finds for each range the one around it.
func (s *ranges) nest() {
	for t, l := range s.byThread {
		if s.unsorted[t] {
			slices.SortStableFunc(l, before)
		}
		open := int32(-1)
		for i := range l {
			for open >= 0 && l[open].end <= l[i].start {
				open = l[open].up
			}
			l[i].up, l[i].depth = open, 0
			if open >= 0 {
				l[i].depth = l[open].depth + 1
			}
			if l[i].depth < deepest-1 { // what is deeper counts as lying beside, so that no way up is long
				open = int32(i)
			}
		}
	}
}

// stack is a chain of callers with the ranges around it that were open on a thread.
func (s *ranges) stack(stacks *trace.Stacks, thread uint32, at int64, chain trace.StackID) trace.StackID {
	around := s.around(stacks, thread, at)
	if around == trace.NoStack || chain == trace.NoStack {
		return max(around, chain) // one of them is NoStack, which is 0
	}
	key := stackKey{chain, around}
	id, ok := s.stacks[key]
	if !ok {
		if s.stacks == nil {
			s.stacks = map[stackKey]trace.StackID{}
		}
		id = stacks.AddStack(slices.Concat(stacks.Frames(chain), stacks.Frames(around)))
		s.stacks[key] = id
	}
	return id
}

// around is the ranges that were open on a thread.
func (s *ranges) around(stacks *trace.Stacks, thread uint32, at int64) trace.StackID {
	t := int(thread) - 1
	if t < 0 || t >= len(s.byThread) {
		return trace.NoStack
	}
	l := s.byThread[t]
	i, _ := slices.BinarySearchFunc(l, at, func(p pushed, at int64) int {
		if p.start <= at {
			return -1
		}
		return 1
	})
	for i--; i >= 0 && l[i].end <= at; {
		i = int(l[i].up)
	}
	if i < 0 {
		return trace.NoStack
	}
	if l[i].stack < 0 {
		var frames []trace.FrameID
		for j := int32(i); j >= 0; j = l[j].up {
			frames = append(frames, stacks.AddFrame(trace.Frame{File: "NVTX", Func: s.names[l[j].name]}))
		}
		l[i].stack = int64(stacks.AddStack(frames))
	}
	return trace.StackID(l[i].stack)
}

// markers gives the ranges as points in time.
func (r *Recording) markers() []trace.Marker {
	s := &r.ranges
	slices.SortStableFunc(s.marks, func(a, b marked) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(rank(a.edge), rank(b.edge)))
	})
	out := make([]trace.Marker, len(s.marks))
	for i, m := range s.marks {
		out[i] = trace.Marker{Time: r.time(m.at), Device: -1, Name: s.names[m.name], Edge: m.edge}
	}
	s.marks = nil
	return out
}

// rank puts ends before what begins at the same time.
func rank(e trace.Edge) int {
	if e == trace.EdgeEnd {
		return 0
	}
	return 1
}

// clean makes a text of a file fit for one line.
func clean(s string) string {
	if len(s) > longestName {
		n := longestName
		for n > 0 && !utf8.RuneStart(s[n]) {
			n--
		}
		s = s[:n] + "…"
	}
	return strings.Map(func(c rune) rune {
		if unicode.IsControl(c) || c == utf8.RuneError {
			return ' '
		}
		return c
	}, s)
}

// Clean makes a text of a file fit for one line: short, without control characters.
func Clean(s string) string { return clean(s) }
