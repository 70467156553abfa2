package kineto

import (
	"bytes"
	"errors"
	"io"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vramscope/vramscope/trace"
)

// Names are not checked for duplicates, which would cost memory.
var jsonOptions = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

// stream walks through the document of a trace. Old versions of the profiler wrote names without escaping
// what JSON wants escaped, some write NaN, and files are cut. So where an event is no JSON, the stream goes
// on with what looks like the beginning of the next one.
type stream struct {
	in    *input
	dec   *jsontext.Decoder
	start int64 // where the decoder's input begins in the file
	event func(raw []byte)
	field func(name string, dec *jsontext.Decoder) error // must take one value

	events   int
	bad      int   // events that are no JSON
	firstBad int64 // where the first of them begins
	cut      bool
}

func newStream(r io.Reader) *stream {
	s := &stream{in: &input{r: r}}
	s.dec = jsontext.NewDecoder(s.in, jsonOptions...)
	return s
}

// decodeAnew goes on at the given offset of the file. The prefix makes a document of what follows.
func (s *stream) decodeAnew(prefix string, at int64) error {
	s.start = at - int64(len(prefix))
	s.in.back = append([]byte(prefix), s.in.back...)
	s.dec.Reset(s.in, jsonOptions...)
	_, err := s.dec.ReadToken()
	return err
}

func (s *stream) offset() int64 { return s.start + s.dec.InputOffset() }

// run walks through the whole document. Its error is final; a document that is cut is none.
func (s *stream) run() error {
	tok, err := s.dec.ReadToken()
	if err != nil {
		return s.fail(err)
	}
	if tok.Kind() == '[' {
		_, err = s.list()
		return err
	}
	for {
		more, err := s.member()
		if err != nil || !more {
			return err
		}
	}
}

// member reads one member of the top object.
func (s *stream) member() (more bool, err error) {
	name, err := s.dec.ReadToken()
	if err != nil {
		return false, s.fail(err)
	}
	if name.Kind() != '"' {
		return false, nil // the end of the object
	}
	if key := name.String(); key != "traceEvents" || s.dec.PeekKind() != '[' {
		if err := s.field(key, s.dec); err != nil {
			return false, s.fail(err)
		}
		return true, nil
	}
	if _, err := s.dec.ReadToken(); err != nil {
		return false, s.fail(err)
	}
	return s.list()
}

// list reads the events up to the end of their list. more says whether members of the top object follow.
func (s *stream) list() (more bool, err error) {
	anew := false // the decoder began within the list
	for {
		kind := s.dec.PeekKind()
		if kind == ']' {
			if _, err := s.dec.ReadToken(); err != nil {
				return false, s.fail(err)
			}
			if anew {
				return s.reenter(), nil
			}
			return s.dec.StackDepth() > 0, nil
		}
		var raw []byte
		if kind == '{' {
			raw, err = s.dec.ReadValue()
		} else {
			err = s.dec.SkipValue()
		}
		switch {
		case err == nil && raw != nil:
			s.events++
			s.event(raw)
		case err == nil:
		case s.in.err != nil:
			return false, s.fail(err)
		case s.events == 0 && s.bad >= maxBadFirst:
			return false, trace.Corrupt(s.offset(), "this is no list of events: %s", reasonOf(err))
		case !s.recover(errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF)):
			return false, nil
		default:
			anew = true
		}
	}
}

// maxBadFirst is after how many events without a good one a list is given up.
const maxBadFirst = 100

// reenter goes on behind the end of a list in which decoding began anew.
func (s *stream) reenter() bool {
	at := s.offset()
	s.in.push(s.dec.UnreadBuffer())
	for {
		c, ok := s.in.byte()
		at++
		switch {
		case !ok:
			s.cut = true
			return false
		case c == ' ', c == '\t', c == '\r', c == '\n':
		case c == ',':
			return s.decodeAnew("{", at) == nil
		default:
			return false
		}
	}
}

// recover goes on with the next event behind one that is no JSON. ended says that the input ended in it.
func (s *stream) recover(ended bool) bool {
	at := s.offset()
	s.in.push(s.dec.UnreadBuffer())
	f := &finder{in: s.in, at: at}
	f.next(1)
	for f.find() {
		if !f.isField {
			s.noteBad(at)
			return s.decodeAnew("[", f.at) == nil
		}
		if n := f.number(); n != nil {
			_ = s.field(baseTime, jsontext.NewDecoder(bytes.NewReader(n))) // what is no number stays unset
		}
		f.next(1)
	}
	if s.cut = ended || f.last != '}' && f.last != ']'; !s.cut {
		s.noteBad(at)
	}
	return false
}

func (s *stream) noteBad(at int64) {
	if s.bad == 0 {
		s.firstBad = at
	}
	s.bad++
}

// fail makes an error of the decoder the stream's: none if the document is cut, or damaged behind events.
func (s *stream) fail(err error) error {
	var syntax *jsontext.SyntacticError
	switch {
	case s.in.err != nil && !errors.Is(s.in.err, trace.ErrCorrupt):
		return s.in.err
	case s.events > 0:
		s.cut = true
		return nil
	case s.in.err != nil:
		return s.in.err
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return trace.Corrupt(s.offset(), "the trace ends here, before its first event: it was cut while it was written or copied")
	case errors.As(err, &syntax):
		return trace.Corrupt(s.start+syntax.ByteOffset, "the JSON is damaged: %s", syntax.Err)
	}
	return trace.Corrupt(s.offset(), "the JSON is damaged: %s", reasonOf(err))
}

func reasonOf(err error) error {
	var syntax *jsontext.SyntacticError
	if errors.As(err, &syntax) {
		return syntax.Err
	}
	return err
}

// input is a reader that can be given back what was not used. It remembers an error, which the JSON decoder
// wraps beyond recognition.
type input struct {
	r    io.Reader
	back []byte // comes before what r has
	err  error
}

func (f *input) Read(b []byte) (int, error) {
	if len(f.back) > 0 {
		n := copy(b, f.back)
		f.back = f.back[n:]
		return n, nil
	}
	n, err := f.r.Read(b)
	if err != nil && err != io.EOF {
		f.err = err
	}
	return n, err
}

func (f *input) push(b []byte) {
	f.back = append(bytes.Clone(b), f.back...)
}

// fill tries to have n bytes at hand in back.
func (f *input) fill(n int) {
	for len(f.back) < n && f.err == nil {
		var chunk [4 << 10]byte
		n, err := f.r.Read(chunk[:])
		f.back = append(f.back, chunk[:n]...)
		if err != nil {
			if err != io.EOF {
				f.err = err
			}
			return
		}
	}
}

func (f *input) byte() (byte, bool) {
	f.fill(1)
	if len(f.back) == 0 {
		return 0, false
	}
	c := f.back[0]
	f.back = f.back[1:]
	return c, true
}

// finder looks for the beginning of an event in text that may be anything.
type finder struct {
	in      *input
	at      int64 // offset in the file
	last    byte  // of what was passed over, blanks apart
	isField bool  // it found the base time instead
}

// next passes n bytes over.
func (f *finder) next(n int) {
	f.in.fill(n)
	n = min(n, len(f.in.back))
	for i := n - 1; i >= 0; i-- {
		if c := f.in.back[i]; c > ' ' {
			f.last = c
			break
		}
	}
	f.in.back = f.in.back[n:]
	f.at += int64(n)
}

// lookahead is more than what stands between the brace of an event and its first name, or a field and its value.
const lookahead = 256

// find goes on to the next event, which begins with a brace behind a comma and has one of an event's names
// first, or to the field that has the base time.
func (f *finder) find() bool {
	for {
		f.in.fill(lookahead)
		if len(f.in.back) == 0 {
			return false
		}
		i := bytes.IndexAny(f.in.back, ",[")
		if i < 0 {
			f.next(len(f.in.back))
			continue
		}
		f.next(i + 1)
		f.in.fill(lookahead)
		rest := f.in.back[:min(len(f.in.back), lookahead)]
		body := bytes.TrimLeft(rest, " \t\r\n")
		skip := len(rest) - len(body)
		if bytes.HasPrefix(body, []byte(`"`+baseTime+`"`)) {
			f.next(skip + len(baseTime) + 2)
			f.isField = true
			return true
		}
		if !bytes.HasPrefix(body, []byte("{")) {
			continue
		}
		body = bytes.TrimLeft(body[1:], " \t\r\n")
		for _, name := range [...]string{`"ph"`, `"name"`, `"cat"`, `"pid"`, `"tid"`, `"ts"`} {
			if bytes.HasPrefix(body, []byte(name)) {
				f.next(skip)
				f.isField = false
				return true
			}
		}
	}
}

// number is the number behind a field's name, nil if there is none.
func (f *finder) number() []byte {
	f.in.fill(lookahead)
	body := bytes.TrimLeft(f.in.back[:min(len(f.in.back), lookahead)], " \t\r\n:\"")
	n := 0
	for n < len(body) && body[n] >= '0' && body[n] <= '9' {
		n++
	}
	if n == 0 {
		return nil
	}
	return bytes.Clone(body[:n])
}
