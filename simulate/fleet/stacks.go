package fleet

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/vramscope/vramscope/trace"
)

// Print names a stack by its frames, so that it has the same name in every recording. The empty one is that of no
// stack.
type Print string

// Stack is the frames of a call stack, innermost first.
type Stack []Frame

// mostFrames is how much of a stack is kept. Deeper ones differ in what started the program, if at all.
const mostFrames = 100

// PrintOf names a stack.
func PrintOf(s Stack) Print {
	if len(s) == 0 {
		return ""
	}
	h := sha256.New()
	for _, f := range s {
		fmt.Fprintf(h, "%d:%s%d:%s%d\n", len(f.File), f.File, len(f.Func), f.Func, f.Line)
	}
	return Print(hex.EncodeToString(h.Sum(nil)[:10]))
}

// Add takes a stack of a recording into the summary and gives its name.
func (s *Summary) Add(stacks *trace.Stacks, id trace.StackID) Print {
	frames := Stack(stacks.Stack(id))
	if len(frames) > mostFrames {
		frames = frames[:mostFrames]
	}
	p := PrintOf(frames)
	if p != "" {
		if s.Stacks == nil {
			s.Stacks = map[Print]Stack{}
		}
		s.Stacks[p] = frames
	}
	return p
}
