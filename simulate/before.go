package simulate

import (
	"github.com/vramscope/vramscope/allocators/caching/config"
	"github.com/vramscope/vramscope/trace"
)

// requestsBefore is the state before a recording that has requests only: blocks whose segments nobody knows.
// A replay asks for them first.
func requestsBefore(dev *trace.Device, cfg *config.Config) *initialState {
	s := &initialState{assumed: map[uint64]slack{}}
	for _, b := range dev.Initial.Blocks {
		if b.Size == 0 {
			b.Size = cfg.RoundSize(b.Requested)
		}
		s.blocks = append(s.blocks, InitialBlock{Block: b})
	}
	return s
}
