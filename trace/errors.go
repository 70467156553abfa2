package trace

import (
	"errors"
	"fmt"
)

// ErrUnrecognized is what a source returns for a file that is not of its kind.
var ErrUnrecognized = errors.New("not a file of a known kind")

// ErrCorrupt marks errors about a file that is of a known kind but damaged, cut or hostile.
var ErrCorrupt = errors.New("damaged file")

// SyntaxError is what is wrong with a file, where, and what to do about it, in one line.
type SyntaxError struct {
	Offset int64 // bytes into the unpacked input, -1 if there is no telling
	Msg    string
	Err    error // ErrCorrupt or another cause
}

func (e *SyntaxError) Error() string {
	if e.Offset < 0 {
		return e.Msg
	}
	return fmt.Sprintf("byte %d: %s", e.Offset, e.Msg)
}

// Unwrap gives the cause.
func (e *SyntaxError) Unwrap() error { return e.Err }

// Corrupt makes the error of a damaged file.
func Corrupt(offset int64, format string, args ...any) error {
	return &SyntaxError{Offset: offset, Msg: fmt.Sprintf(format, args...), Err: ErrCorrupt}
}
