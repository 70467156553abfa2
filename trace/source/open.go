// Package source opens files of any kind that the tool reads: it unpacks them, finds out by their content
// what they are, and reads them into a trace.
package source

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/vramscope/vramscope/trace"
	"github.com/vramscope/vramscope/trace/torch"
)

// Options say how to open a file.
type Options struct {
	Stdin io.Reader // what "-" reads; os.Stdin if nil
	// Progress, if not nil, is told now and then how many bytes of the file have been read, out of how
	// many (0 if that is not known).
	Progress func(read, total int64)
}

// source is a kind of file. read returns trace.ErrUnrecognized for a file of another kind, without
// having taken anything from the reader but by Peek.
type source struct {
	name string
	read func(*bufio.Reader) (*trace.Trace, error)
}

// sources in the order in which they are tried.
var sources = [...]source{
	{"PyTorch snapshot", torch.Read},
}

const peek = 64 << 10

// Open reads a file; "-" is standard input.
func Open(path string, opts Options) (*trace.Trace, error) {
	if path == "-" {
		in := opts.Stdin
		if in == nil {
			in = os.Stdin
		}
		return read(in, 0, opts)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return read(f, st.Size(), opts)
}

func read(r io.Reader, total int64, opts Options) (*trace.Trace, error) {
	if opts.Progress != nil {
		r = &progress{r: r, total: total, tell: opts.Progress}
	}
	br, closeAll, err := unpack(bufio.NewReaderSize(r, peek))
	defer closeAll()
	if err != nil {
		return nil, err
	}
	for _, s := range sources {
		t, err := s.read(br)
		if !errors.Is(err, trace.ErrUnrecognized) {
			return t, err
		}
	}
	return nil, trace.ErrUnrecognized
}

// unpack takes off gzip and zstd, also one in the other.
func unpack(br *bufio.Reader) (*bufio.Reader, func(), error) {
	closeAll := func() {}
	for range 4 {
		head, _ := br.Peek(4)
		switch {
		case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
			z, err := gzip.NewReader(br)
			if err != nil {
				return br, closeAll, err
			}
			br = bufio.NewReaderSize(z, peek)
		case bytes.Equal(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
			z, err := zstd.NewReader(br, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
			if err != nil {
				return br, closeAll, err
			}
			prev := closeAll
			closeAll = func() { z.Close(); prev() }
			br = bufio.NewReaderSize(z, peek)
		default:
			return br, closeAll, nil
		}
	}
	return br, closeAll, nil
}

type progress struct {
	r           io.Reader
	read, total int64
	tell        func(read, total int64)
}

func (p *progress) Read(b []byte) (int, error) {
	n, err := p.r.Read(b)
	p.read += int64(n)
	p.tell(p.read, p.total)
	return n, err
}
