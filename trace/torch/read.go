// Package torch reads the memory snapshots of PyTorch 1.12 to 2.13: pickles of Python's and of
// TorchScript's pickler, the same tree as JSON, and the pages that torch.cuda._memory_viz writes.
package torch

import (
	"bufio"
	"errors"
	"io"

	"github.com/vramscope/vramscope/internal/pickle"
	"github.com/vramscope/vramscope/trace"
)

// Read reads a snapshot. It returns trace.ErrUnrecognized itself, with nothing taken from r, if the input
// does not begin like one.
func Read(r *bufio.Reader) (*trace.Trace, error) {
	head, _ := r.Peek(r.Size())
	switch {
	case isPickle(head):
		return readPickle(r)
	case isJSON(head):
		return readJSON(r)
	case isPage(head):
		return readPage(r)
	}
	return nil, trace.ErrUnrecognized
}

const cutHint = "the snapshot was probably cut while it was written or copied; dump or copy it again"

func readPickle(r io.Reader) (*trace.Trace, error) {
	f := newFolder()
	m := pickle.NewMachine(r, f.strings, f)
	root, err := m.Run()
	if err != nil {
		return nil, pickleError(err)
	}
	n := m.Offset()
	m = nil // the memo is not needed any more, and may be large
	t, err := f.build(root)
	if err != nil {
		return nil, err
	}
	t.Source.Bytes = n
	return t, nil
}

func pickleError(err error) error {
	var e *pickle.Error
	if !errors.As(err, &e) {
		return err
	}
	switch {
	case e.Read:
		return e.Err
	case e.Cut:
		return trace.Corrupt(e.Offset, "the pickle ends here, in the middle: %s", cutHint)
	case e.Refused != "":
		return trace.Corrupt(e.Offset, "%s; a memory snapshot has plain values only, this file is something else or hostile", e.Msg)
	}
	return trace.Corrupt(e.Offset, "the pickle is damaged: %s", e.Msg)
}

// notSnapshot is the error of a file that could be read but is something else.
func notSnapshot(kind string) error {
	return &trace.SyntaxError{Offset: -1, Err: trace.ErrUnrecognized,
		Msg: kind + ", but not a memory snapshot (it has neither segments nor traces); make one with torch.cuda.memory._dump_snapshot(path)"}
}
