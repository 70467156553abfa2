// Package lines reads texts of any length line by line, in bounded memory, and knows where it is.
package lines

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// Reader reads lines. One that does not fit in the input's buffer comes as a single zero byte, which no text has.
type Reader struct {
	in     *bufio.Reader
	Number int   // of the line that was read last, from 1
	Start  int64 // where it begins
	Offset int64 // behind it
	Cut    bool  // the last line has no end
}

// New reads from in, whose buffer bounds the length of lines.
func New(in *bufio.Reader) *Reader { return &Reader{in: in} }

// Next gives the next line without its end; io.EOF behind the last. The line is good until the next call.
func (r *Reader) Next() ([]byte, error) {
	line, err := r.in.ReadSlice('\n')
	if len(line) > 0 {
		r.Number++
	}
	r.Start = r.Offset
	r.Offset += int64(len(line))
	if errors.Is(err, bufio.ErrBufferFull) {
		for line = []byte{0}; errors.Is(err, bufio.ErrBufferFull); {
			var more []byte
			more, err = r.in.ReadSlice('\n')
			r.Offset += int64(len(more))
		}
	}
	if err == io.EOF && r.Offset > r.Start {
		r.Cut, err = true, nil
	}
	return bytes.TrimRight(bytes.TrimPrefix(line, []byte(mark)), "\r\n"), err
}

const mark = "\xef\xbb\xbf" // of the byte order, which Windows puts in front

// Trim takes blanks, line ends and a byte order mark off a line.
func Trim(line []byte) []byte {
	return bytes.Trim(bytes.TrimPrefix(line, []byte(mark)), " \t\r\n")
}

// Tally counts lines of a kind, and knows the first.
type Tally struct {
	N     int
	First int // number of the line
}

// Add counts the line of the given number.
func (t *Tally) Add(number int) {
	if t.N == 0 {
		t.First = number
	}
	t.N++
}

// OfHead gives the lines that a file begins with, without blanks and empty lines. The last one is left out if
// there are others: it may go on behind the head.
func OfHead(head []byte) [][]byte {
	all := bytes.Split(head, []byte("\n"))
	if len(all) > 1 {
		all = all[:len(all)-1]
	}
	var out [][]byte
	for _, l := range all {
		if l = Trim(l); len(l) > 0 {
			out = append(out, l)
		}
	}
	return out
}
