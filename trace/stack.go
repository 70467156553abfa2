package trace

import "hash/maphash"

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
	seed   maphash.Seed
	frames []Frame
	ids    []FrameID // the frames of all stacks, one after the other
	start  []uint32  // stack s is ids[start[s]:start[s+1]]

	// Numbers + 1 by hash, open addressing. Two integers for a stack instead of a map entry with a slice:
	// a trace may have a stack for every event.
	frameTable []uint32
	stackTable []uint32
}

// NewStacks is a table that holds the empty stack only.
func NewStacks() *Stacks {
	return &Stacks{
		seed:       maphash.MakeSeed(),
		start:      []uint32{0, 0},
		frameTable: make([]uint32, 64),
		stackTable: make([]uint32, 64),
	}
}

// AddFrame interns a frame.
func (s *Stacks) AddFrame(f Frame) FrameID {
	mask := uint64(len(s.frameTable) - 1)
	i := s.hashFrame(f) & mask
	for ; s.frameTable[i] != 0; i = (i + 1) & mask {
		if id := FrameID(s.frameTable[i] - 1); s.frames[id] == f {
			return id
		}
	}
	id := FrameID(len(s.frames))
	s.frames = append(s.frames, f)
	s.frameTable[i] = uint32(id) + 1
	if len(s.frames)*4 > len(s.frameTable)*3 {
		s.frameTable = rehash(len(s.frameTable)*2, 0, len(s.frames), func(id int) uint64 { return s.hashFrame(s.frames[id]) })
	}
	return id
}

// AddStack interns a stack; frames is copied.
func (s *Stacks) AddStack(frames []FrameID) StackID {
	if len(frames) == 0 {
		return NoStack
	}
	mask := uint64(len(s.stackTable) - 1)
	i := s.hashStack(frames) & mask
	for ; s.stackTable[i] != 0; i = (i + 1) & mask {
		if id := StackID(s.stackTable[i] - 1); equalFrames(s.Frames(id), frames) {
			return id
		}
	}
	id := StackID(s.Len())
	s.ids = append(s.ids, frames...)
	s.start = append(s.start, uint32(len(s.ids)))
	s.stackTable[i] = uint32(id) + 1
	if s.Len()*4 > len(s.stackTable)*3 {
		s.stackTable = rehash(len(s.stackTable)*2, 1, s.Len(), func(id int) uint64 { return s.hashStack(s.Frames(StackID(id))) })
	}
	return id
}

func (s *Stacks) hashFrame(f Frame) uint64 {
	return maphash.String(s.seed, f.File) ^ maphash.String(s.seed, f.Func)*3 ^ uint64(f.Line)*0x9e3779b97f4a7c15
}

func (s *Stacks) hashStack(frames []FrameID) uint64 {
	h := maphash.Comparable(s.seed, len(frames))
	for _, f := range frames {
		h = (h ^ uint64(f)) * 0x9e3779b97f4a7c15
		h ^= h >> 29
	}
	return h ^ h>>32
}

// rehash makes a table of the numbers from, …, to-1.
func rehash(size, from, to int, hash func(id int) uint64) []uint32 {
	table := make([]uint32, size)
	mask := uint64(size - 1)
	for id := from; id < to; id++ {
		i := hash(id) & mask
		for table[i] != 0 {
			i = (i + 1) & mask
		}
		table[i] = uint32(id) + 1
	}
	return table
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

// Frame gives an interned frame, the zero one for a number that none has.
func (s *Stacks) Frame(id FrameID) Frame {
	if int(id) >= len(s.frames) {
		return Frame{}
	}
	return s.frames[id]
}

// Stack gives the frames of a stack as values, innermost first.
func (s *Stacks) Stack(id StackID) []Frame {
	ids := s.Frames(id)
	out := make([]Frame, len(ids))
	for i, f := range ids {
		out[i] = s.frames[f]
	}
	return out
}

// RenameFiles changes the files that frames name. Frames and stacks that become alike keep their numbers, so it is for
// a table that is complete.
func (s *Stacks) RenameFiles(rename func(file string) string) {
	done := map[string]string{}
	for i := range s.frames {
		f := &s.frames[i]
		to, ok := done[f.File]
		if !ok {
			to = rename(f.File)
			done[f.File] = to
		}
		f.File = to
	}
}
