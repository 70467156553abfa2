package packing

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// ReadCSV reads buffers in MiniMalloc's form: a line of column names, then a buffer a line. Columns are
// id, lower, upper and size in any order, or buffer, start, end and size as later files have them; upper
// is the first instant at which the buffer is gone. An offset column is ignored, others are refused, as
// they change the problem.
func ReadCSV(r io.Reader) (names []string, buffers []Buffer, err error) {
	in := csv.NewReader(r)
	in.TrimLeadingSpace = true
	header, err := in.Read()
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("the file is empty, want a line of column names: id,lower,upper,size")
		}
		return nil, nil, err
	}
	var at [4]int // of id, lower, upper, size
	for i, alternatives := range [][]string{{"id", "buffer"}, {"lower", "start"}, {"upper", "end"}, {"size"}} {
		at[i] = slices.IndexFunc(header, func(name string) bool { return slices.Contains(alternatives, clean(name)) })
		if at[i] < 0 {
			return nil, nil, fmt.Errorf("line 1: no column %q; want id,lower,upper,size", alternatives[0])
		}
	}
	for i, name := range header {
		if !slices.Contains(at[:], i) && clean(name) != "offset" {
			return nil, nil, fmt.Errorf("line 1: column %q is not supported; want id,lower,upper,size", name)
		}
	}
	for {
		row, err := in.Read()
		if errors.Is(err, io.EOF) {
			return names, buffers, nil
		}
		if err != nil {
			return nil, nil, err
		}
		line, _ := in.FieldPos(0)
		var n [3]int64
		for i := range n {
			if n[i], err = strconv.ParseInt(strings.TrimSpace(row[at[i+1]]), 10, 64); err != nil {
				return nil, nil, fmt.Errorf("line %d: column %s: %w", line, header[at[i+1]], err)
			}
		}
		b := Buffer{Lower: n[0], Upper: n[1], Size: n[2]}
		if b.Size <= 0 || b.Size > 1<<56 || b.Lower > b.Upper {
			return nil, nil, fmt.Errorf("line %d: buffer %s of %d bytes from %d to %d cannot be", line, row[at[0]], b.Size, b.Lower, b.Upper)
		}
		names = append(names, row[at[0]])
		buffers = append(buffers, b)
	}
}

func clean(name string) string {
	return strings.ToLower(strings.TrimSpace(strings.TrimPrefix(name, "\ufeff")))
}

// WriteCSV writes buffers and their offsets, in the form in which MiniMalloc writes its solutions.
func WriteCSV(w io.Writer, names []string, buffers []Buffer, offsets []int64) error {
	out := csv.NewWriter(w)
	rows := [][]string{{"id", "lower", "upper", "size", "offset"}}
	for i, b := range buffers {
		row := []string{names[i]}
		for _, n := range []int64{b.Lower, b.Upper, b.Size, offsets[i]} {
			row = append(row, strconv.FormatInt(n, 10))
		}
		rows = append(rows, row)
	}
	return out.WriteAll(rows)
}
