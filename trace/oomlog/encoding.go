package oomlog

import (
	"bufio"
	"bytes"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// maxLayers is how often a log can be packed, one packing in the other.
const maxLayers = 4

// plainReader takes off what a log is packed and encoded in: gzip, zstd, UTF-16. Everything is told by the
// first bytes. The reader must be closed with done.
func plainReader(r io.Reader) (plain io.Reader, done func(), err error) {
	done = func() {}
	b := bufio.NewReaderSize(r, 64<<10)
	for range maxLayers {
		head, _ := b.Peek(4)
		switch {
		case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
			z, err := gzip.NewReader(b)
			if err != nil {
				return b, done, fmt.Errorf("the gzip data is damaged: %w", err)
			}
			b = bufio.NewReaderSize(z, 64<<10)
		case bytes.Equal(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
			z, err := zstd.NewReader(b, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(128<<20))
			if err != nil {
				return b, done, fmt.Errorf("the zstd data is damaged: %w", err)
			}
			outer := done
			done = func() { z.Close(); outer() }
			b = bufio.NewReaderSize(z, 64<<10)
		default:
			return utf8Reader(b), done, nil
		}
	}
	return utf8Reader(b), done, nil
}

// utf8Reader passes text through as it is, unless it begins with the mark of UTF-16: the redirections of
// PowerShell write that.
func utf8Reader(b *bufio.Reader) io.Reader {
	mark, _ := b.Peek(2)
	switch {
	case len(mark) == 2 && mark[0] == 0xff && mark[1] == 0xfe:
		return &utf16Reader{r: b, low: 0}
	case len(mark) == 2 && mark[0] == 0xfe && mark[1] == 0xff:
		return &utf16Reader{r: b, low: 1}
	}
	return b
}

// utf16Reader keeps the ASCII of a UTF-16 text and puts question marks for the rest, which no message
// needs.
type utf16Reader struct {
	r    *bufio.Reader
	low  int // which byte of a unit is the low one
	pair [2]byte
	n    int
}

func (u *utf16Reader) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		c, err := u.r.ReadByte()
		if err != nil {
			if n > 0 {
				return n, nil
			}
			return 0, err
		}
		u.pair[u.n] = c
		u.n++
		if u.n < 2 {
			continue
		}
		u.n = 0
		low, high := u.pair[u.low], u.pair[1-u.low]
		if high != 0 || low >= 0x80 {
			low = '?'
		}
		p[n] = low
		n++
	}
	return n, nil
}
