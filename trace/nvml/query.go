package nvml

import (
	"bytes"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/trace"
)

// The CSV of nvidia-smi --query-gpu, --query-compute-apps and --query-accounted-apps. Fields are whatever was asked
// for, in that order. Nothing is quoted: a name of a process may have commas in it.

// role is what a column is read as.
type role uint8

const (
	otherColumn role = iota
	timestampColumn
	indexColumn
	uuidColumn
	busColumn
	gpuNameColumn
	countColumn
	driverColumn
	usedColumn
	freeColumn
	totalColumn
	reservedColumn
	busyColumn
	pidColumn
	processColumn
	processMemoryColumn
	processPeakColumn
)

// roles by the field's name, as it may be asked for and as headers show it.
var roles = map[string]role{
	"timestamp": timestampColumn, "index": indexColumn, "uuid": uuidColumn, "gpu_uuid": uuidColumn,
	"pci.bus_id": busColumn, "gpu_bus_id": busColumn, "name": gpuNameColumn, "gpu_name": gpuNameColumn,
	"serial": otherColumn, "gpu_serial": otherColumn, "count": countColumn, "driver_version": driverColumn,
	"memory.used": usedColumn, "memory.free": freeColumn, "memory.total": totalColumn, "memory.reserved": reservedColumn,
	"utilization.gpu": busyColumn, "pid": pidColumn, "process_name": processColumn,
	"used_gpu_memory": processMemoryColumn, "used_memory": processMemoryColumn, "max_memory_usage": processPeakColumn,
	"utilization.memory": otherColumn, "pstate": otherColumn, "temperature.gpu": otherColumn, "power.draw": otherColumn,
	"gpu_utilization": otherColumn, "mem_utilization": otherColumn, "time": otherColumn, "fan.speed": otherColumn,
	"clocks.sm": otherColumn, "clocks.current.sm": otherColumn, "temperature.memory": otherColumn, "pci.bus": otherColumn,
}

// column is one of the header's.
type column struct {
	role role
	unit string
}

// parseHeader reads a header: cells are a field's name and, where it has one, its unit in brackets.
func parseHeader(line []byte) (columns []column, known int) {
	for cell := range bytes.SplitSeq(line, []byte(",")) {
		name, unit, _ := strings.Cut(strings.ToLower(string(bytes.Trim(bytes.TrimSpace(cell), `"`))), " [")
		r, ok := roles[name]
		if ok {
			known++
		}
		columns = append(columns, column{r, strings.TrimSuffix(unit, "]")})
	}
	return columns, known
}

// isQueryHeader reports whether a line is a header: nothing but names, and fields of memory or processes among them, or
// several others.
func isQueryHeader(line []byte) bool {
	if len(line) == 0 || isDigit(line[0]) || len(line) > 8<<10 {
		return false
	}
	for _, c := range line {
		if !isFieldByte[c] {
			return false
		}
	}
	columns, known := parseHeader(line)
	telling := slices.ContainsFunc(columns, func(c column) bool {
		return c.role >= usedColumn && c.role <= reservedColumn || c.role == processMemoryColumn || c.role == processPeakColumn
	})
	if telling {
		return true
	}
	return known >= 2 && (known == len(columns) || bytes.Contains(line, []byte("utilization.")) || bytes.Contains(line, []byte("clocks.")))
}

// isFieldByte has what names of fields and units are made of.
var isFieldByte = func() (is [256]bool) {
	for _, c := range []byte("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/ [],%\"") {
		is[c] = true
	}
	return is
}()

// isHeadless reports whether a line looks like a row without a header above it: of nothing but what the fields that
// are asked for have, a time or a size among them.
func isHeadless(line []byte) bool {
	if bytes.IndexByte(line, ',') < 0 {
		_, unit, ok := number(bytes.TrimSpace(line))
		return ok && unit == "MiB"
	}
	clock, sizes, numbers := false, 0, 0
	for _, c := range splitRow(line) {
		_, isTime := wall(c)
		_, unit, isNumber := number(c)
		switch {
		case isTime:
			clock = true
		case isNumber && unit == "MiB":
			sizes++
		case isNumber && (unit == "" || unit == "%" || unit == "W" || unit == "MHz"):
			numbers++
		case isMissing(c), isDeviceCell(c):
		default:
			return false
		}
	}
	return sizes > 0 || clock && numbers > 0
}

// isDeviceCell says whether a cell is what a device is called, or one of its states.
func isDeviceCell(c []byte) bool {
	for _, p := range []string{"GPU-", "NVIDIA ", "Tesla ", "GeForce ", "Quadro ", "TITAN ", "GRID "} {
		if bytes.HasPrefix(c, []byte(p)) {
			return true
		}
	}
	isBus := bytes.Count(c, []byte(":")) == 2 && bytes.IndexByte(c, '.') > 0
	return isBus || len(c) == 2 && c[0] == 'P' && isDigit(c[1])
}

func splitRow(line []byte) [][]byte { return appendCells(nil, line) }

// appendCells splits a row.
func appendCells(cells [][]byte, line []byte) [][]byte {
	for {
		i := bytes.IndexByte(line, ',')
		if i < 0 {
			return append(cells, bytes.TrimSpace(line))
		}
		cells = append(cells, bytes.TrimSpace(line[:i]))
		line = line[i+1:]
	}
}

// query is a CSV that is being read.
type query struct {
	*log
	columns []column
	has     [processPeakColumn + 1]bool
	round   *round
	apps    bool
	buf     [][]byte // the cells of a row
	waiting [][]byte // rows, as long as the number of devices is not known
}

func readQuery(in *lines) (*log, error) {
	q := &query{log: newLog("nvidia-smi CSV")}
	q.clockIs = trace.ClockLocal
	var first [][]byte // rows in front of any header
	complained := ""
	for {
		line, ok := in.next()
		if !ok {
			break
		}
		trimmed := bytes.TrimSpace(line)
		if len(trimmed) == 0 {
			continue
		}
		if isQueryHeader(trimmed) {
			q.header(trimmed)
			continue
		}
		if c := isComplaint(trimmed); c != "" {
			complained = string(trimmed[:min(len(trimmed), 150)])
			continue
		}
		if q.columns == nil {
			if isHeadless(trimmed) {
				first = append(first, bytes.Clone(trimmed))
				if len(first) == rowsToGuess {
					q.guess(first)
					first = nil
				}
			}
			continue
		}
		q.row(trimmed, in.n, !in.ended)
	}
	if len(first) > 0 {
		q.guess(first)
	}
	q.settle()
	if complained != "" {
		q.note("complaint", 1, "nvidia-smi complained: %q", complained)
	}
	if q.columns == nil {
		return nil, trace.Corrupt(-1, "rows of numbers without a header: which is which cannot be told; record with %s", queryHow)
	}
	return q.log, nil
}

// header takes over a header. The same one again is of a restart; another one is of another query.
func (q *query) header(line []byte) {
	columns, _ := parseHeader(line)
	if slices.Equal(columns, q.columns) {
		return
	}
	q.settle()
	q.columns = columns
	q.has = [processPeakColumn + 1]bool{}
	for _, c := range columns {
		q.has[c.role] = true
	}
	q.apps = q.has[processMemoryColumn] || q.has[processPeakColumn] || q.has[processColumn]
	for i, c := range columns {
		if q.apps && c.role == gpuNameColumn && string(bytes.TrimSpace(bytes.Split(line, []byte(","))[i])) == "name" {
			q.columns[i].role = processColumn // in queries of processes it is theirs
			q.has[processColumn], q.has[gpuNameColumn] = true, false
		}
	}
	if q.apps {
		q.format = "nvidia-smi CSV of processes"
	}
	if !q.has[timestampColumn] {
		q.clockIs = trace.ClockNone
	}
	q.round = nil
	if !q.has[indexColumn] && !q.has[uuidColumn] && !q.has[busColumn] {
		if q.apps {
			q.note("one-device", 1, "rows do not say which device they are of: taken to be all of one")
		} else {
			q.round = &round{}
		}
	}
}

// row reads a row. cut says that its line has no end.
func (q *query) row(line []byte, n int, cut bool) {
	cells := q.cells(line)
	if cells == nil {
		if cut {
			q.cut = true
			return
		}
		q.badRow(n)
		return
	}
	if cut && !q.plausibleEnd(cells[len(cells)-1]) {
		q.cut = true
		return
	}
	q.rows++
	if q.round != nil && !q.round.settled {
		q.waiting = append(q.waiting, bytes.Clone(line))
		t, _ := q.time(cells)
		if q.round.watch(t, len(q.waiting)) {
			q.settle()
		}
		return
	}
	q.take(cells, n)
}

// plausibleEnd says whether the last cell of a line without an end may be whole.
func (q *query) plausibleEnd(cell []byte) bool {
	last := q.columns[len(q.columns)-1]
	if last.unit == "" {
		return true
	}
	_, unit, ok := number(cell)
	return isMissing(cell) && bytes.HasSuffix(cell, []byte("]")) || ok && strings.EqualFold(unit, last.unit)
}

// cells splits a row into as many cells as there are columns, nil if that cannot be.
func (q *query) cells(line []byte) [][]byte {
	q.buf = appendCells(q.buf[:0], line)
	cells := q.buf
	surplus := len(cells) - len(q.columns)
	switch {
	case surplus < 0:
		return nil
	case surplus == 0:
		return cells
	}
	i := slices.IndexFunc(q.columns, func(c column) bool { return c.role == processColumn })
	if i < 0 {
		if surplus == 1 && len(cells[len(cells)-1]) == 0 {
			return cells[:len(cells)-1] // a comma at the end
		}
		return nil
	}
	joined := bytes.Join(cells[i:i+surplus+1], []byte(", "))
	out := append([][]byte{}, cells[:i]...)
	out = append(out, joined)
	return append(out, cells[i+surplus+1:]...)
}

func (q *query) time(cells [][]byte) (trace.Time, bool) {
	for i, c := range q.columns {
		if c.role == timestampColumn {
			return wall(cells[i])
		}
	}
	return 0, false
}

// settle takes the rows that waited for the number of devices.
func (q *query) settle() {
	if q.round == nil || len(q.waiting) == 0 {
		return
	}
	q.round.settle()
	if q.round.size > 1 {
		q.note("devices-by-position", 1, "rows do not say which device they are of: taken to be %d in turn, in the order of the rows", q.round.size)
	}
	waiting := q.waiting
	q.waiting = nil
	for _, line := range waiting {
		if cells := q.cells(line); cells != nil {
			q.take(cells, 0)
		}
	}
}

// take takes the values of a row over.
func (q *query) take(cells [][]byte, n int) {
	var id identity
	t, ok := q.time(cells)
	switch {
	case ok:
		t = q.clock.at(t)
	case q.has[timestampColumn]:
		q.rows--
		q.badRow(n)
		return
	}
	var pid int64
	var name, gpu []byte
	for i, c := range q.columns {
		if isMissing(cells[i]) {
			continue
		}
		switch c.role {
		case indexColumn:
			id.index = cells[i]
		case uuidColumn:
			id.uuid = cells[i]
		case busColumn:
			id.bus = cells[i]
		case gpuNameColumn:
			gpu = cells[i]
		case driverColumn:
			q.producer = "NVIDIA driver " + string(cells[i])
		case pidColumn:
			pid, _ = digits(cells[i])
		case processColumn:
			name = cells[i]
		}
	}
	if q.round != nil {
		id.position = q.round.next()
	}
	d := q.device(id)
	if d == nil {
		return
	}
	if d.name == "" {
		d.name = string(gpu)
	}
	if !q.has[timestampColumn] {
		// Without times, the number of the reading is all there is.
		if s := d.series; len(s) > 0 && !q.apps {
			t = trace.Time(s[0].Samples) * second
		}
	}
	for i, c := range q.columns {
		quantity, isMemory := quantities[c.role]
		if !isMemory {
			continue
		}
		if isMissing(cells[i]) {
			q.missing++
			continue
		}
		v, ok := memory(cells[i], c.unit)
		if c.role == busyColumn {
			v, ok = percent(cells[i])
		}
		if !ok {
			q.badRow(n)
			continue
		}
		if quantity == trace.ProcessUsed {
			if q.has[pidColumn] && pid == 0 {
				continue
			}
			q.process(d, pid, string(name), t, v)
			continue
		}
		q.sample(d, part{quantity: quantity}, t, v)
	}
}

var quantities = map[role]trace.Quantity{
	usedColumn: trace.DeviceUsed, freeColumn: trace.DeviceFree, totalColumn: trace.DeviceTotal, reservedColumn: trace.DriverReserved,
	busyColumn: trace.Busy, processMemoryColumn: trace.ProcessUsed, processPeakColumn: trace.ProcessUsed,
}
