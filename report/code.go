package report

import "github.com/vramscope/vramscope/trace"

// What renderers outside of this package need to know about call stacks.

// Code says where in the code a call stack is.
type Code struct {
	Place  Place
	File   string // of the innermost frame of the person's own code
	Module string // the innermost nn.Module that the stack names, "" if it names none
	// Path are the frames from the program's start on, without those that every stack has.
	Path []trace.FrameID
}

// CodeOf looks at a stack.
func CodeOf(s *trace.Stacks, id trace.StackID) Code {
	frames := s.Stack(id)
	path := outermostFirst(s, id)
	return Code{Place: place(frames), File: fileOf(frames), Module: moduleOf(frames), Path: path[:min(len(path), deepest)]}
}

// FrameName is a frame on one line.
func FrameName(f trace.Frame) string { return showFrame(f) }

// IsOwn says whether a frame is in the person's own code.
func IsOwn(f trace.Frame) bool { return isOwn(f) }
