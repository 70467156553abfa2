package pickle

import (
	"io"
)

const (
	chunk = 64 << 10 // bytes read at once
	pad   = 16       // readable bytes behind the end of the input: an opcode and its fixed part
)

// input is a window on the reader: buf[pos:end] has been read and not used yet.
type input struct {
	r    io.Reader
	buf  []byte
	pos  int
	end  int
	base int64 // offset of buf[0]
	err  error // why nothing more comes
}

func newInput(r io.Reader) input {
	return input{r: r, buf: make([]byte, chunk+2*pad)}
}

// fill reads on, so that at least a whole opcode with its fixed part can be seen at pos, unless the
// input ends before. What lies behind the end is zero.
func (in *input) fill() {
	if in.pos > in.end {
		return // the last opcode ran over the end
	}
	n := copy(in.buf, in.buf[in.pos:in.end])
	in.base += int64(in.pos)
	in.pos, in.end = 0, n
	for in.end < pad && in.err == nil {
		in.read()
	}
	clear(in.buf[in.end:min(in.end+pad, len(in.buf))])
}

func (in *input) read() {
	for range 100 {
		n, err := in.r.Read(in.buf[in.end : len(in.buf)-pad])
		if n < 0 || n > len(in.buf)-pad-in.end {
			n, err = 0, io.ErrNoProgress
		}
		in.end += n
		in.err = err
		if n > 0 || err != nil {
			return
		}
	}
	in.err = io.ErrNoProgress
}

// take appends the next n bytes to dst. It grows dst only by what has really been read.
func (in *input) take(dst []byte, n uint64) ([]byte, bool) {
	for n > 0 {
		if in.pos >= in.end {
			in.fill()
			if in.pos >= in.end {
				return dst, false
			}
		}
		k := min(n, uint64(in.end-in.pos))
		dst = append(dst, in.buf[in.pos:in.pos+int(k)]...)
		in.pos += int(k)
		n -= k
	}
	return dst, true
}

// skip passes over n bytes.
func (in *input) skip(n uint64) bool {
	for n > 0 {
		if in.pos >= in.end {
			in.fill()
			if in.pos >= in.end {
				return false
			}
		}
		k := min(n, uint64(in.end-in.pos))
		in.pos += int(k)
		n -= k
	}
	return true
}

// line appends the bytes up to the next newline, which it eats, to dst.
func (in *input) line(dst []byte) ([]byte, bool) {
	for {
		if in.pos >= in.end {
			in.fill()
			if in.pos >= in.end {
				return dst, false
			}
		}
		for i, c := range in.buf[in.pos:in.end] {
			if c == '\n' {
				dst = append(dst, in.buf[in.pos:in.pos+i]...)
				in.pos += i + 1
				return dst, true
			}
		}
		dst = append(dst, in.buf[in.pos:in.end]...)
		in.pos = in.end
	}
}

func (in *input) offset() int64 { return in.base + int64(in.pos) }
