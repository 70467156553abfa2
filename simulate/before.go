package simulate

import (
	"github.com/vramscope/vramscope/trace"
)

// requestsBefore is the state before a recording that has requests only: blocks whose segments nobody knows.
// A replay asks for them first.
func requestsBefore(dev *trace.Device) *initialState {
	s := &initialState{assumed: map[uint64]slack{}}
	for _, b := range dev.Initial.Blocks {
		if b.Size == 0 {
			b.Size = b.Requested
		}
		s.blocks = append(s.blocks, InitialBlock{Block: b})
	}
	return s
}
