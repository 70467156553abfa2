package nvml

import (
	"bufio"
	"bytes"
	"io"
	"unicode/utf16"
	"unicode/utf8"
)

// maxLine is how much of a line is looked at. No program that is read here writes longer ones.
const maxLine = 64 << 10

// lines reads a text line by line: of UTF-8 or UTF-16, with line ends of any kind, colours taken out.
type lines struct {
	r     *bufio.Reader
	n     int  // lines read
	ended bool // the last line that next gave had an end
	err   error
	buf   []byte
}

// newLines reads text from r, which may begin with the mark of UTF-16: the redirections of PowerShell write that.
func newLines(r *bufio.Reader) *lines {
	mark, _ := r.Peek(3)
	switch {
	case bytes.HasPrefix(mark, []byte{0xff, 0xfe}):
		return &lines{r: bufio.NewReaderSize(&utf16Reader{r: r, low: 0}, maxLine)}
	case bytes.HasPrefix(mark, []byte{0xfe, 0xff}):
		return &lines{r: bufio.NewReaderSize(&utf16Reader{r: r, low: 1}, maxLine)}
	}
	if bytes.Equal(mark, []byte("\xef\xbb\xbf")) {
		r.Discard(len(mark))
	}
	return &lines{r: r}
}

// next gives the next line without its end; it is valid until the next call. The rest of one that is too
// long is passed over.
func (l *lines) next() ([]byte, bool) {
	l.buf = l.buf[:0]
	some := false
	for {
		part, err := l.r.ReadSlice('\n')
		some = some || len(part) > 0
		if room := maxLine - len(l.buf); len(part) > room {
			part = part[:room]
		}
		l.buf = append(l.buf, part...)
		if err == bufio.ErrBufferFull {
			continue
		}
		if some {
			l.ended = err == nil
		}
		if err != nil && err != io.EOF {
			l.err = err
		}
		break
	}
	if !some {
		return nil, false
	}
	l.n++
	return withoutEscapes(bytes.TrimRight(l.buf, "\r\n\x00")), true
}

// withoutEscapes takes out what a terminal is told by: colours, and the page breaks that some programs write.
func withoutEscapes(line []byte) []byte {
	if bytes.IndexByte(line, 0x1b) < 0 && bytes.IndexByte(line, '\f') < 0 {
		return line
	}
	out := line[:0]
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '\f':
		case c == 0x1b && i+1 < len(line) && line[i+1] == '[':
			for i += 2; i < len(line) && (line[i] < 0x40 || line[i] > 0x7e); i++ {
			}
		case c == 0x1b:
			i++
		default:
			out = append(out, c)
		}
	}
	return out
}

// utf16Reader turns UTF-16 into UTF-8.
type utf16Reader struct {
	r    *bufio.Reader
	low  int // which byte of a unit is the low one
	high rune
	out  []byte
}

func (u *utf16Reader) Read(p []byte) (int, error) {
	for len(u.out) == 0 {
		var pair [2]byte
		if _, err := io.ReadFull(u.r, pair[:]); err != nil {
			if err == io.ErrUnexpectedEOF {
				err = io.EOF
			}
			return 0, err
		}
		unit := rune(pair[u.low]) | rune(pair[1-u.low])<<8
		switch {
		case unit == 0xfeff:
		case u.high != 0:
			u.out = utf8.AppendRune(u.out, utf16.DecodeRune(u.high, unit))
			u.high = 0
		case utf16.IsSurrogate(unit):
			u.high = unit
		default:
			u.out = utf8.AppendRune(u.out, unit)
		}
	}
	n := copy(p, u.out)
	u.out = u.out[n:]
	// As much as is there without waiting, so that not every call gives one character.
	for n < len(p)-utf8.UTFMax && u.r.Buffered() >= 2 && len(u.out) == 0 {
		pair, _ := u.r.Peek(2)
		unit := rune(pair[u.low]) | rune(pair[1-u.low])<<8
		if unit >= 0xd800 && unit < 0xe000 || unit == 0xfeff || u.high != 0 {
			break
		}
		n += utf8.EncodeRune(p[n:], unit)
		u.r.Discard(2)
	}
	return n, nil
}

// plainHead is the beginning of a text as UTF-8.
func plainHead(r *bufio.Reader) []byte {
	head, _ := r.Peek(r.Size())
	if !bytes.HasPrefix(head, []byte{0xff, 0xfe}) && !bytes.HasPrefix(head, []byte{0xfe, 0xff}) {
		return bytes.TrimPrefix(head, []byte("\xef\xbb\xbf"))
	}
	low := 0
	if head[0] == 0xfe {
		low = 1
	}
	out, _ := io.ReadAll(&utf16Reader{r: bufio.NewReader(bytes.NewReader(head)), low: low})
	return out
}
