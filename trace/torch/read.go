// Package torch reads the memory snapshots of PyTorch: pickles of torch 1.12 to 2.13, of Python's and of
// TorchScript's pickler.
package torch

import (
	"bufio"
	"errors"
	"io"

	"github.com/vramscope/vramscope/internal/pickle"
	"github.com/vramscope/vramscope/trace"
)

// Read reads a snapshot. It returns trace.ErrUnrecognized if the input does not begin like one.
func Read(r *bufio.Reader) (*trace.Trace, error) {
	head, err := r.Peek(16)
	if len(head) == 0 {
		return nil, err
	}
	return readPickle(r)
}

func readPickle(r io.Reader) (*trace.Trace, error) {
	f := newFolder()
	m := pickle.NewMachine(r, f.strings, f)
	root, err := m.Run()
	if err != nil {
		var e *pickle.Error
		if errors.As(err, &e) {
			if e.Cut {
				return nil, trace.Corrupt(e.Offset, "the pickle ends in the middle: the snapshot was probably cut while it was written or copied; dump it again")
			}
			return nil, trace.Corrupt(e.Offset, "%s", e.Msg)
		}
		return nil, err
	}
	t, err := f.build(root)
	if err != nil {
		return nil, err
	}
	t.Source.Bytes = m.Offset()
	return t, nil
}
