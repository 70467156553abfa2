package trace

// FrameID names an interned frame.
type FrameID uint32

// Frame is one line of a call stack.
type Frame struct {
	File string // as recorded; "??" for native code without symbols
	Func string
	Line int
}

// Stacks interns frames and call stacks. Equal stacks have equal ids; NoStack is the empty one.
// Stacks are innermost frame first, as PyTorch records them.
type Stacks struct {
	frames   []Frame
	frameIDs map[Frame]FrameID
	ids      []FrameID // the frames of all stacks, one after the other
	start    []uint32  // stack s is ids[start[s]:start[s+1]]
	stackIDs map[uint64][]StackID
}

// NewStacks is a table that holds the empty stack only.
func NewStacks() *Stacks {
	return &Stacks{
		frameIDs: map[Frame]FrameID{},
		start:    []uint32{0, 0},
		stackIDs: map[uint64][]StackID{},
	}
}

// AddFrame interns a frame.
func (s *Stacks) AddFrame(f Frame) FrameID {
	if id, ok := s.frameIDs[f]; ok {
		return id
	}
	id := FrameID(len(s.frames))
	s.frames = append(s.frames, f)
	s.frameIDs[f] = id
	return id
}

// AddStack interns a stack; frames is copied.
func (s *Stacks) AddStack(frames []FrameID) StackID {
	if len(frames) == 0 {
		return NoStack
	}
	h := uint64(14695981039346656037)
	for _, f := range frames {
		h = (h ^ uint64(f)) * 1099511628211
		h ^= h >> 29
	}
	for _, id := range s.stackIDs[h] {
		if equalFrames(s.Frames(id), frames) {
			return id
		}
	}
	id := StackID(len(s.start) - 1)
	s.ids = append(s.ids, frames...)
	s.start = append(s.start, uint32(len(s.ids)))
	s.stackIDs[h] = append(s.stackIDs[h], id)
	return id
}

func equalFrames(a, b []FrameID) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// Len is the number of stacks, the empty one included.
func (s *Stacks) Len() int { return len(s.start) - 1 }

// NumFrames is the number of different frames.
func (s *Stacks) NumFrames() int { return len(s.frames) }

// Frames gives the frames of a stack, innermost first. The slice belongs to the table.
func (s *Stacks) Frames(id StackID) []FrameID {
	if int(id) >= s.Len() {
		return nil
	}
	return s.ids[s.start[id]:s.start[id+1]]
}

// Frame gives an interned frame.
func (s *Stacks) Frame(id FrameID) Frame { return s.frames[id] }

// Stack gives the frames of a stack as values, innermost first.
func (s *Stacks) Stack(id StackID) []Frame {
	ids := s.Frames(id)
	out := make([]Frame, len(ids))
	for i, f := range ids {
		out[i] = s.frames[f]
	}
	return out
}
