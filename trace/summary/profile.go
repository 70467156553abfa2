package summary

import (
	"bytes"
	"strings"

	"github.com/vramscope/vramscope/trace"
)

// The table that prof.key_averages().table() gives. A line of dashes says where its columns are:
//
//	----------------  ------------  ------------
//	            Name    Self CPU %  Self CUDA Mem
//	----------------  ------------  ------------
//	       aten::mm         4.72%     786.22 MB

// profile reads it.
type profile struct {
	dashes    [][2]int // columns of the last line of dashes
	name, mem [2]int   // columns of the table that is being read
	reading   bool
	operators []trace.Series
}

const maxOperators = 2000

// line reads a line, and says whether it belongs to a table.
func (p *profile) line(line []byte) bool {
	line = bytes.TrimRight(line, " \t\r\n")
	if columns := dashColumns(line); columns != nil {
		p.dashes = columns
		return true
	}
	if p.dashes == nil {
		return false
	}
	if bytes.Contains(line, []byte("Name")) && bytes.Contains(line, []byte(" Mem")) {
		p.header(line)
		return p.reading
	}
	if !p.reading || len(line) < p.mem[0] {
		p.reading, p.dashes = false, nil
		return false
	}
	v, ok := size(string(bytes.TrimSpace(cut(line, p.mem))))
	name := strings.TrimSpace(string(cut(line, p.name)))
	if !ok || name == "" {
		return false
	}
	if v != 0 && len(p.operators) < maxOperators {
		s := trace.Series{Quantity: trace.NetOfOperator, Name: strings.ToValidUTF8(name, "")}
		s.Limit(2)
		s.Add(0, v)
		p.operators = append(p.operators, s)
	}
	return true
}

// header finds the columns of names and of the memory that operators allocated themselves on a device. Titles may
// be longer than their columns, and then those behind them stand farther right than the dashes.
func (p *profile) header(line []byte) {
	p.reading = false
	hasName := false
	for i, title := range titles(string(line)) {
		if i >= len(p.dashes) {
			return
		}
		switch {
		case title == "Name":
			p.name, hasName = p.dashes[i], true
		case strings.HasPrefix(title, "Self ") && strings.HasSuffix(title, " Mem") && !strings.Contains(title, "CPU"):
			p.mem = p.dashes[i]
			p.reading = hasName
		}
	}
}

// titles splits a line where there are two blanks or more.
func titles(line string) (out []string) {
	for part := range strings.SplitSeq(line, "  ") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}

// dashColumns gives the columns of a line of at least two runs of dashes, nil for another line.
func dashColumns(line []byte) (columns [][2]int) {
	for i := 0; i < len(line); {
		switch line[i] {
		case ' ':
			i++
		case '-':
			j := i
			for j < len(line) && line[j] == '-' {
				j++
			}
			if j-i < 4 {
				return nil
			}
			columns = append(columns, [2]int{i, j})
			i = j
		default:
			return nil
		}
	}
	if len(columns) < 2 || len(columns) > 64 {
		return nil
	}
	return columns
}

func cut(line []byte, c [2]int) []byte {
	return line[min(c[0], len(line)):min(c[1], len(line))]
}
