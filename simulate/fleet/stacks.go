package fleet

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/vramscope/vramscope/trace"
)

// Print names a stack by its frames, so that it has the same name in every recording. The empty one is that of no
// stack.
type Print string

// Stack is the frames of a call stack, innermost first.
type Stack []trace.Frame

// frameJSON is a frame as summaries have it. There are many of them.
type frameJSON struct {
	File string `json:"f,omitzero"`
	Func string `json:"n,omitzero"`
	Line int    `json:"l,omitzero"`
}

// MarshalJSON writes a stack as a list of objects with short names.
func (s Stack) MarshalJSON() ([]byte, error) {
	list := make([]frameJSON, len(s))
	for i, f := range s {
		list[i] = frameJSON{f.File, f.Func, f.Line}
	}
	return json.Marshal(list)
}

// UnmarshalJSON reads it back.
func (s *Stack) UnmarshalJSON(text []byte) error {
	var list []frameJSON
	if err := json.Unmarshal(text, &list); err != nil {
		return err
	}
	*s = nil
	for _, f := range list {
		*s = append(*s, trace.Frame{File: f.File, Func: f.Func, Line: f.Line})
	}
	return nil
}

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
