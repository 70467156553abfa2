package nsys

import (
	"bufio"
	"bytes"
	"errors"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// The table of strings of JSON lines, which stands in one line of any length.

// table reads a line that is no event. The first list of strings in one is the table of strings; everything
// else (streams, threads, files and what was in them) stays unread.
func (r *lineReader) table(dec *jsontext.Decoder) error {
	tok, err := dec.ReadToken()
	if err != nil {
		return err
	}
	if tok.Kind() != '{' {
		return errNotObject
	}
	for dec.PeekKind() == '"' {
		name, err := dec.ReadValue()
		if err != nil {
			return err
		}
		if string(name) != `"data"` || dec.PeekKind() != '[' || len(r.strings) > 0 {
			if err := dec.SkipValue(); err != nil {
				return err
			}
			continue
		}
		if _, err := dec.ReadToken(); err != nil {
			return err
		}
		for dec.PeekKind() != ']' {
			value, err := dec.ReadValue()
			if err != nil {
				return err
			}
			if value.Kind() == '"' && len(r.strings) < mostStrings {
				s := text(value)
				r.strings = append(r.strings, string(s[:min(len(s), longString)]))
			}
		}
		if _, err := dec.ReadToken(); err != nil {
			return err
		}
	}
	_, err = dec.ReadToken()
	return err
}

// long reads a line that is longer than the buffer: the table of strings, or one that is passed over.
func (r *lineReader) long(begin []byte) error {
	at := r.offset
	rest := &untilNewline{in: r.in, begin: bytes.Clone(begin)}
	var err error
	if _, _, event := splitLine(begin); event {
		err = errors.New("too long for an event")
	} else {
		err = r.table(jsontext.NewDecoder(rest, jsonOptions...))
	}
	rest.skipping = true
	if _, e := io.Copy(io.Discard, rest); e != nil {
		return e
	}
	r.offset += rest.n
	if err != nil {
		if rest.cut {
			r.cut = true
		} else {
			r.fault(at)
		}
	}
	return nil
}

// untilNewline reads the rest of a line.
type untilNewline struct {
	in    *bufio.Reader
	begin []byte // what was read of it already
	n     int64  // bytes given out
	ended bool
	cut   bool // the input ended before the line did

	skipping bool // nothing of it is kept any more
}

func (u *untilNewline) Read(b []byte) (int, error) {
	if len(u.begin) > 0 {
		n := copy(b, u.begin)
		u.begin = u.begin[n:]
		u.n += int64(n)
		return n, nil
	}
	if u.ended || u.n > longTable && !u.skipping {
		return 0, io.EOF
	}
	piece, err := u.in.ReadSlice('\n')
	u.begin = append(u.begin[:0], piece...)
	switch {
	case err == nil:
		u.ended = true
	case err == io.EOF:
		u.ended, u.cut = true, true
	case !errors.Is(err, bufio.ErrBufferFull):
		return 0, err
	}
	return 0, nil
}
