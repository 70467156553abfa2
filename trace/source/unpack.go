package source

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"io/fs"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/vramscope/vramscope/trace"
)

const (
	maxLayers = 4         // of packing, one in the other
	maxWindow = 128 << 20 // bytes that zstd may look back; what zstd --ultra -22 uses

	// Real recordings shrink to a hundredth at best. What unpacks to far more is made to fill memory.
	maxRatio = 1000
	freeSize = 64 << 20 // bytes up to which the ratio does not matter
)

// unpack takes off gzip and zstd, also one in the other.
func unpack(br *bufio.Reader) (out *bufio.Reader, packed bool, closeAll func(), err error) {
	closeAll = func() {}
	for range maxLayers {
		head, _ := br.Peek(4)
		l := &layer{in: &counter{r: br}}
		switch {
		case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
			l.name = "gzip"
			z, err := gzip.NewReader(bufio.NewReaderSize(l.in, window))
			if err != nil {
				return br, true, closeAll, l.explain(err)
			}
			l.r = z
		case bytes.Equal(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
			l.name = "zstd"
			z, err := zstd.NewReader(l.in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
			if err != nil {
				return br, true, closeAll, l.explain(err)
			}
			outer := closeAll
			closeAll = func() { z.Close(); outer() }
			l.r = z
		default:
			return br, packed, closeAll, nil
		}
		packed = true
		br = bufio.NewReaderSize(l, window)
	}
	return br, packed, closeAll, nil
}

// layer unpacks, and says in one line what is wrong with packed data.
type layer struct {
	name string
	in   *counter
	r    io.Reader
	out  int64
}

func (l *layer) Read(b []byte) (int, error) {
	n, err := l.r.Read(b)
	l.out += int64(n)
	if l.out > freeSize && l.out/maxRatio > l.in.n {
		return 0, trace.Corrupt(l.in.n, "the %s data unpacks to more than %d times its size: no recording does that", l.name, maxRatio)
	}
	if err != nil && err != io.EOF {
		err = l.explain(err)
	}
	return n, err
}

func (l *layer) explain(err error) error {
	var syntax *trace.SyntaxError
	var path *fs.PathError
	switch {
	case errors.As(err, &syntax), errors.As(err, &path):
		return err
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return trace.Corrupt(l.in.n, "the %s data ends here, in the middle: the file was cut when it was packed or copied; copy it again", l.name)
	}
	return trace.Corrupt(l.in.n, "the %s data is damaged (%s); copy the file again", l.name, err)
}

// counter counts what has been read.
type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n += int64(n)
	return n, err
}
