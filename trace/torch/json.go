package torch

import (
	"errors"
	"io"
	"math"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vramscope/vramscope/internal/pickle"
	"github.com/vramscope/vramscope/trace"
)

// Names are not checked for duplicates, which would cost memory; the last one wins, as in a pickle.
var jsonOptions = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

// readJSON reads the tree of a snapshot from JSON, as programs convert it for looking at it.
func readJSON(r io.Reader) (*trace.Trace, error) {
	f := newFolder()
	in := &failing{r: r}
	dec := jsontext.NewDecoder(in, jsonOptions...)
	root, err := f.json(dec)
	if err != nil {
		return nil, jsonError(err, dec.InputOffset(), in.err)
	}
	t, err := f.build(root)
	if err != nil {
		return nil, err
	}
	t.Source.Format += " (JSON)"
	t.Source.Bytes = dec.InputOffset()
	return t, nil
}

func (f *folder) json(dec *jsontext.Decoder) (value, error) {
	b := pickle.NewBuilder(f.strings, f)
	var text []byte
	for {
		switch kind := dec.PeekKind(); kind {
		case '{', '[':
			if _, err := dec.ReadToken(); err != nil {
				return value{}, err
			}
			if err := b.Begin(kind == '{'); err != nil {
				return value{}, err
			}
		case '}', ']':
			if _, err := dec.ReadToken(); err != nil {
				return value{}, err
			}
			if err := b.End(); err != nil {
				return value{}, err
			}
		default: // a plain value, or an error
			raw, err := dec.ReadValue()
			if err != nil {
				return value{}, err
			}
			switch kind {
			case '"':
				if text, err = jsontext.AppendUnquote(text[:0], raw); err != nil {
					return value{}, err
				}
				b.Push(pickle.StringValue(f.strings.Intern(text)))
			case 't', 'f':
				b.Push(pickle.BoolValue(kind == 't'))
			case 'n':
				b.Push(pickle.NoneValue())
			default:
				b.Push(number(raw))
			}
		}
		if dec.StackDepth() == 0 {
			return b.Result()
		}
	}
}

// number reads a JSON number, as an integer if it has the form of one.
func number(raw []byte) value {
	digits, negative := raw, false
	if raw[0] == '-' {
		digits, negative = raw[1:], true
	}
	if len(digits) <= 20 {
		n, whole := uint64(0), true
		for _, c := range digits {
			d := uint64(c - '0')
			if whole = d <= 9 && n <= (math.MaxUint64-d)/10; !whole {
				break
			}
			n = n*10 + d
		}
		switch {
		case whole && !negative:
			return pickle.UintValue(n)
		case whole && n <= math.MaxInt64:
			return pickle.IntValue(-int64(n))
		}
	}
	x, _ := strconv.ParseFloat(string(raw), 64)
	return pickle.FloatValue(x)
}

// failing remembers the error of a reader, which the JSON decoder wraps beyond recognition.
type failing struct {
	r   io.Reader
	err error
}

func (f *failing) Read(b []byte) (int, error) {
	n, err := f.r.Read(b)
	if err != nil && err != io.EOF {
		f.err = err
	}
	return n, err
}

func jsonError(err error, at int64, read error) error {
	var syntax *jsontext.SyntacticError
	switch {
	case read != nil:
		return read
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return trace.Corrupt(at, "the JSON ends here, in the middle: %s", cutHint)
	case errors.As(err, &syntax):
		return trace.Corrupt(syntax.ByteOffset, "the JSON is damaged: %s", syntax.Err)
	}
	return trace.Corrupt(at, "the JSON is damaged: %s", err)
}
