package nvml

import (
	"bytes"
	"slices"

	"github.com/vramscope/vramscope/trace"
)

// rowsToGuess is how many rows without a header are looked at together.
const rowsToGuess = 512

// guess finds what the columns are of rows without a header, and takes the rows. Of columns of memory, the one
// with the largest value that never changes is the total; the one that is the total less another, and the
// larger of the two at first, is what is free.
func (q *query) guess(rows [][]byte) {
	width := len(splitRow(rows[0]))
	columns := make([]column, width)
	var sizes []int
	most := make([]int64, width)
	for i := range columns {
		all := func(is func(cell []byte) bool) bool {
			some := false
			for _, row := range rows {
				cells := splitRow(row)
				if len(cells) != width || isMissing(cells[i]) {
					continue
				}
				some = true
				if !is(cells[i]) {
					return false
				}
			}
			return some
		}
		switch {
		case all(func(c []byte) bool { _, ok := wall(c); return ok }):
			columns[i].role = timestampColumn
		case all(func(c []byte) bool { return bytes.HasPrefix(c, []byte("GPU-")) }):
			columns[i].role = uuidColumn
		case all(func(c []byte) bool { return bytes.Count(c, []byte(":")) == 2 && bytes.Contains(c, []byte(".")) }):
			columns[i].role = busColumn
		case all(func(c []byte) bool { _, unit, ok := number(c); return ok && unit == "%" }):
			columns[i] = column{otherColumn, "%"}
		case all(func(c []byte) bool { _, unit, ok := number(c); return ok && (unit == "MiB" || unit == "") }):
			for _, row := range rows {
				cells := splitRow(row)
				if len(cells) != width {
					continue
				}
				if v, ok := memory(cells[i], ""); ok {
					most[i] = max(most[i], v)
				}
			}
			columns[i].unit = "MiB"
			withUnit := all(func(c []byte) bool { _, unit, _ := number(c); return unit == "MiB" })
			if withUnit || most[i] > 100*mib { // more than a percentage, a temperature or a number of devices
				sizes = append(sizes, i)
			} else if most[i] < 64*mib && !withUnit && !slices.ContainsFunc(columns[:i], func(c column) bool { return c.role == indexColumn }) {
				columns[i].role = indexColumn
			}
		case all(func(c []byte) bool {
			return bytes.Contains(c, []byte("NVIDIA")) || bytes.Contains(c, []byte("Tesla")) || bytes.Contains(c, []byte("GeForce"))
		}):
			columns[i].role = gpuNameColumn
		}
	}
	if len(sizes) == 0 {
		return
	}
	q.guessSizes(columns, sizes, most, rows)
	q.columns = columns
	q.has = [processPeakColumn + 1]bool{}
	for _, c := range columns {
		q.has[c.role] = true
	}
	if !q.has[timestampColumn] {
		q.clockIs = trace.ClockNone
	}
	if !q.has[indexColumn] && !q.has[uuidColumn] && !q.has[busColumn] {
		q.round = &round{}
	}
	q.note("no-header", 1, "there is no header: what the columns are was guessed from their values")
	for _, row := range rows {
		q.row(row, 0, false)
	}
}

// guessSizes tells used, free and total apart.
func (q *query) guessSizes(columns []column, sizes []int, most []int64, rows [][]byte) {
	if len(sizes) == 1 {
		columns[sizes[0]].role = usedColumn
		return
	}
	first := splitRow(rows[0])
	value := func(i int) int64 {
		v, _ := memory(first[i], "")
		return v
	}
	total := slices.MaxFunc(sizes, func(a, b int) int { return int((most[a] - most[b]) / mib) })
	columns[total].role = totalColumn
	rest := slices.DeleteFunc(slices.Clone(sizes), func(i int) bool { return i == total })
	if len(rest) == 1 {
		columns[rest[0]].role = usedColumn
		return
	}
	// Of three, used and free add up to about the total. A fourth is what the driver keeps, the smallest.
	slices.SortFunc(rest, func(a, b int) int { return int((value(b) - value(a)) / mib) })
	columns[rest[0]].role = freeColumn
	columns[rest[1]].role = usedColumn
	if value(rest[0]) < value(rest[1])+value(total)/20 { // about half of the device is in use: the usual order
		a, b := min(rest[0], rest[1]), max(rest[0], rest[1])
		columns[a].role, columns[b].role = usedColumn, freeColumn
	}
}
