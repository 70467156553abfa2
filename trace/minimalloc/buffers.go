package minimalloc

import (
	"bufio"
	"bytes"
	"fmt"
	"io"

	"github.com/vramscope/vramscope/internal/lines"
	"github.com/vramscope/vramscope/trace"
)

// MiniMalloc's CSV, in which a row is a buffer: id, lower, upper, size, and, if there are any, alignment, gaps
// and offset, in any order. A buffer lives from lower on, and no more at upper. Older files have start (or
// begin) and end, and a buffer is still there at its end.

// bufferColumns says which column is which; -1 for one that is not there.
type bufferColumns struct {
	id, lower, upper, size, gaps, offset, alignment int
	count                                           int
	inclusive                                       bool // upper is the last step of a buffer's life
}

func bufferHeader(line []byte) (c bufferColumns, ok bool) {
	c = bufferColumns{-1, -1, -1, -1, -1, -1, -1, 0, false}
	for i, f := range bytes.Split(line, []byte(",")) {
		c.count = i + 1
		var at *int
		switch string(bytes.ToLower(bytes.TrimSpace(f))) {
		case "id", "buffer", "buffer_id":
			at = &c.id
		case "lower", "start", "begin":
			at = &c.lower
		case "upper":
			at = &c.upper
		case "end":
			at, c.inclusive = &c.upper, true
		case "size":
			at = &c.size
		case "gaps":
			at = &c.gaps
		case "offset":
			at = &c.offset
		case "alignment":
			at = &c.alignment
		default:
			return c, false
		}
		if *at >= 0 {
			return c, false
		}
		*at = i
	}
	return c, c.id >= 0 && c.lower >= 0 && c.upper >= 0 && c.size >= 0
}

func isMiniMalloc(head []byte) bool {
	line, _, _ := bytes.Cut(bytes.TrimLeft(head, "\xef\xbb\xbf \r\n"), []byte("\n"))
	_, ok := bufferHeader(lines.Trim(line))
	return ok
}

// parse takes a row apart.
func (c *bufferColumns) parse(line []byte) (x lifetime, gaps, ok bool) {
	n := 0
	for more := true; more; n++ {
		var f []byte
		f, line, more = bytes.Cut(line, []byte(","))
		f = bytes.TrimSpace(f)
		ok, v := true, int64(0)
		switch n {
		case c.lower:
			x.lower, ok = lines.Whole(f)
		case c.upper:
			x.upper, ok = lines.Whole(f)
		case c.size:
			x.size, ok = lines.Whole(f)
		case c.offset:
			v, ok = lines.Whole(f)
			x.addr = uint64(v)
		case c.gaps:
			gaps = len(f) > 0
		}
		if !ok {
			return x, false, false
		}
	}
	if c.inclusive {
		x.upper++
	}
	return x, gaps, n == c.count && x.lower < x.upper && x.size <= mostSize && x.addr <= mostSize
}

func readMiniMalloc(in *bufio.Reader) (*trace.Trace, error) {
	l := lines.New(in)
	var list []lifetime
	cut := false
	var bad, gaps lines.Tally
	columns, headed := bufferColumns{}, false
	end := uint64(0)
	for {
		line, err := l.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		line = lines.Trim(line)
		if len(line) == 0 {
			continue
		}
		if !headed {
			if columns, headed = bufferHeader(line); !headed {
				return nil, trace.Corrupt(0, "the first line is not the header that it begins like; it names the columns id, lower, upper and size")
			}
			continue
		}
		x, hasGaps, ok := columns.parse(line)
		if !ok || len(list) == mostLifetimes {
			if l.Cut {
				cut = true // in the middle of this line
				continue
			}
			bad.Add(l.Number)
			continue
		}
		if hasGaps {
			gaps.Add(l.Number)
		}
		end = max(end, x.addr+uint64(x.size))
		list = append(list, x)
	}
	d := eventsOf(list)
	t := newTrace(formatMiniMalloc, l, &d, []trace.Count{{What: "buffers", N: len(list)}})
	if columns.offset >= 0 && len(list) > 0 {
		t.Warnings = append(t.Warnings, trace.Warning{Code: "placed", Count: 1, First: -1,
			Message: fmt.Sprintf("the buffers are placed already, in %d bytes; addresses are their offsets", end)})
	}
	cutOff(t, l, cut)
	t.Warnings = append(t.Warnings, warning(bad, "bad-line", "rows are no buffers (steps and sizes are whole numbers, and a life has a step at least) and were left out")...)
	t.Warnings = append(t.Warnings, warning(gaps, "gaps", "buffers have gaps in which they need no memory: they are taken to need it throughout")...)
	return t, nil
}
