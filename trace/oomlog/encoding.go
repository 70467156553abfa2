package oomlog

import (
	"bufio"
	"io"
)

// utf8Reader passes text through as it is, unless it begins with the mark of UTF-16: the redirections of
// PowerShell write that.
func utf8Reader(r io.Reader) io.Reader {
	b := bufio.NewReaderSize(r, 4096)
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
