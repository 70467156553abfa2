package oomlog

import "bytes"

// summaryTable is a table of torch.cuda.memory_summary(). With failures counted in it, it tells of an
// out-of-memory error whose message may be missing. Its sizes are cut, not rounded, to whole units.
type summaryTable struct {
	device                    int
	line                      int
	ooms                      int64
	allocated, reserved       Size
	peakAllocated, peakReserv Size
	lines                     int
}

// maxSummaryLines is more than the longest layout of the table has.
const maxSummaryLines = 60

// row reads one line of the table and tells whether the table goes on.
func (t *summaryTable) row(line []byte) bool {
	t.lines++
	text := bytes.Trim(stripEscapes(line), " \t\r>")
	if len(text) == 0 || bytes.IndexByte(text, '|') < 0 {
		return t.lines < 3
	}
	if n, ok := intAfter(text, "CUDA OOMs:"); ok {
		t.ooms = n
	}
	cells := bytes.Split(bytes.Trim(text, "|"), []byte("|"))
	if len(cells) >= 3 {
		name := bytes.TrimSpace(cells[0])
		switch {
		case bytes.Equal(name, []byte("Allocated memory")):
			t.allocated, t.peakAllocated = floorSize(cells[1]), floorSize(cells[2])
		case bytes.Equal(name, []byte("GPU reserved memory")):
			t.reserved, t.peakReserv = floorSize(cells[1]), floorSize(cells[2])
		}
	}
	return t.lines < maxSummaryLines
}

// floorSize reads a cell such as "12420 MB", which stands for anything below 12421 MB.
func floorSize(cell []byte) Size {
	var flat []byte
	for _, c := range cell {
		if c > ' ' {
			flat = append(flat, lower(c))
		}
	}
	s, n := parseSize(flat)
	if n == 0 {
		return Size{}
	}
	unit := s.High - s.Low
	s.Low, s.High = s.Bytes, s.Bytes+unit
	return s
}

// message makes a message of a table with failures in it. LargestFree is not in the table; what is known
// is how much was held at the peak beyond anything that was ever in use.
func (t *summaryTable) message() (Message, bool) {
	if t.ooms == 0 || !t.allocated.Known && !t.reserved.Known {
		return Message{}, false
	}
	m := Message{Line: t.line, Framework: "pytorch", Backend: "cuda", Format: "PyTorch memory_summary", Cause: CauseSummary, Device: t.device,
		Allocated: t.allocated, Reserved: t.reserved, Repeated: 1,
		PeakAllocated: t.peakAllocated, PeakReserved: t.peakReserv}
	m.Unallocated = m.Reserved.Minus(m.Allocated).AtLeastZero()
	return m, true
}
