package oomlog

import "bytes"

// Tables of what a device holds are no messages: they are printed by jobs that are well. But a table can
// show memory that is in use and that none of the processes it lists holds, and that is the reason of many
// a failure. gpuTable reads one; only such memory becomes a message, and only if the log has no better.

// orphanFloor is the memory that a device with nothing on it may show as used: the driver's own.
const orphanFloor = 1 * gib

// gpuRow is one device of a table.
type gpuRow struct {
	device      int
	line        int
	used, total Size
	listed      int64 // what the listed processes hold
	processes   int
	unknown     bool // a process is listed without its memory (Windows, MIG)
}

// gpuTable is a table as nvidia-smi prints it, read line by line.
type gpuTable struct {
	rows    []gpuRow
	section bool // the list of processes has begun
	listed  bool // and has a process
	ended   bool // and is whole, or says that there are none
	next    int  // the device whose memory is on the next line; -1 for none
	lines   int
}

// maxTableLines bounds how far a table is followed, for a log in which one begins and never ends.
const maxTableLines = 400

// line reads one line and tells whether the table goes on.
func (t *gpuTable) line(line []byte, number int) bool {
	t.lines++
	text := stripEscapes(line)
	bar := bytes.IndexByte(text, '|')
	if bar < 0 {
		rule := bytes.IndexByte(text, '+') >= 0
		if rule && t.listed {
			t.ended = true
		}
		return t.lines < maxTableLines && (rule || len(bytes.TrimSpace(text)) == 0) && !t.ended
	}
	text = text[bar+1:]
	switch {
	case bytes.Contains(text, []byte("Processes:")):
		t.section = true
	case bytes.Contains(text, []byte("No running processes found")), bytes.Contains(text, []byte("No running compute processes")):
		t.section, t.ended = true, true
	case t.section:
		t.process(text)
	default:
		t.deviceLine(text, number)
	}
	return t.lines < maxTableLines
}

// deviceLine reads the two lines of a device: its number and name, then its memory.
func (t *gpuTable) deviceLine(text []byte, number int) {
	if used, total, ok := usedOfTotal(text, "MiB"); ok {
		if t.next >= 0 {
			t.rows = append(t.rows, gpuRow{device: t.next, line: number, used: used, total: total})
			t.next = -1
		}
		return
	}
	fields := bytes.Fields(text)
	if len(fields) > 2 && len(fields[0]) <= 3 && digitsLen(fields[0]) == len(fields[0]) {
		t.next = atoi(fields[0])
	}
}

// process reads "|    0   N/A  N/A      1234      C   python      10000MiB |".
func (t *gpuTable) process(text []byte) {
	fields := bytes.Fields(bytes.Trim(text, "| \r"))
	if len(fields) < 4 || digitsLen(fields[0]) != len(fields[0]) {
		return
	}
	t.listed = true
	for i := range t.rows {
		r := &t.rows[i]
		if r.device != atoi(fields[0]) {
			continue
		}
		r.processes++
		last := fields[len(fields)-1]
		if n := digitsLen(last); n > 0 && bytes.Equal(last[n:], []byte("MiB")) {
			r.listed += int64(atoi(last[:n])) * mib
		} else {
			r.unknown = true
		}
	}
}

// orphans are the devices with memory that no listed process holds.
func (t *gpuTable) orphans() []gpuRow {
	var rows []gpuRow
	for _, r := range t.rows {
		if t.ended && !r.unknown && r.used.Bytes-r.listed >= orphanFloor {
			rows = append(rows, r)
		}
	}
	return rows
}

func (r *gpuRow) message(format string) Message {
	return Message{Line: r.line, Framework: "nvidia", Backend: "cuda", Format: format, Cause: CauseOrphan, Device: r.device,
		Capacity: r.total, Process: r.used, Repeated: 1}
}

// gpustatLine reads a line of gpustat: "[6] NVIDIA A100 80GB PCIe | 52'C, 100 % | 10151 / 81920 MB | bob(8113M)".
func gpustatLine(line []byte, number int) (gpuRow, bool) {
	text := bytes.TrimLeft(stripEscapes(line), " >")
	end := bytes.IndexByte(text, ']')
	if len(text) < 3 || text[0] != '[' || end < 2 || end > 4 || digitsLen(text[1:end]) != end-1 {
		return gpuRow{}, false
	}
	used, total, ok := usedOfTotal(text, " MB")
	bar := bytes.LastIndexByte(text, '|')
	if !ok || bar < 0 || bytes.Contains(text[bar:], []byte(" MB")) {
		return gpuRow{}, false
	}
	r := gpuRow{device: atoi(text[1:end]), line: number, used: used, total: total}
	for _, f := range bytes.Fields(text[bar+1:]) {
		open := bytes.LastIndexByte(f, '(')
		if open < 0 || f[len(f)-1] != ')' {
			continue
		}
		if n := digitsLen(f[open+1:]); n > 0 {
			r.listed += int64(atoi(f[open+1:open+1+n])) * mib
			r.processes++
		}
	}
	return r, true
}

// usedOfTotal reads "8559MiB / 10989MiB" or "10151 / 81920 MB" anywhere in a line.
func usedOfTotal(text []byte, unit string) (used, total Size, ok bool) {
	for slash := bytes.IndexByte(text, '/'); slash >= 0; {
		before := bytes.TrimRight(text[:slash], " ")
		before = bytes.TrimSuffix(before, []byte("MiB"))
		after := bytes.TrimLeft(text[slash+1:], " ")
		start := len(before)
		for start > 0 && isDigit(before[start-1]) {
			start--
		}
		n := digitsLen(after)
		if start < len(before) && n > 0 && bytes.HasPrefix(after[n:], []byte(unit)) {
			used, _ = makeSize(before[start:], 0, mib)
			total, _ = makeSize(after[:n], 0, mib)
			return used, total, true
		}
		next := bytes.IndexByte(text[slash+1:], '/')
		if next < 0 {
			break
		}
		slash += 1 + next
	}
	return Size{}, Size{}, false
}

// stripEscapes takes the colours out of a line.
func stripEscapes(line []byte) []byte {
	if bytes.IndexByte(line, 0x1b) < 0 {
		return line
	}
	out := make([]byte, 0, len(line))
	for i := 0; i < len(line); {
		if line[i] == 0x1b {
			i += max(1, escapeLen(line[i:]))
			continue
		}
		out = append(out, line[i])
		i++
	}
	return out
}

func atoi(digits []byte) int {
	n := 0
	for _, c := range digits[:min(len(digits), 9)] {
		n = n*10 + int(c-'0')
	}
	return n
}
