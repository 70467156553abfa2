package rmm

import (
	"bytes"
	"strconv"

	"github.com/vramscope/vramscope/internal/lines"
)

// action is what a row says was done.
type action uint8

const (
	noAction action = iota
	allocate
	free
	fail
)

func actionOf(text []byte) action {
	switch string(text) {
	case "allocate", "Alloc":
		return allocate
	case "free", "deallocate", "Free":
		return free
	case "allocate failure":
		return fail
	}
	return noAction
}

// columns says which column of a row is which; -1 for one that the log does not have.
type columns struct {
	time, action, pointer, size, stream, device, start, total int
	count                                                     int
	era                                                       string
}

// headers are the first lines that logs have had.
var headers = []struct {
	text string
	c    columns
}{
	{"Thread,Time,Action,Pointer,Size,Stream", bareColumns},
	{"Time,Action,Pointer,Size,Stream", columns{time: 0, action: 1, pointer: 2, size: 3, stream: 4, device: -1, start: -1, total: -1, count: 5, era: "early 2020"}},
	{"Time,Action,Size,Stream", columns{time: 0, action: 1, pointer: -1, size: 2, stream: 3, device: -1, start: -1, total: -1, count: 4, era: "early 2020"}},
	{"Action,Size,Stream", columns{time: -1, action: 0, pointer: -1, size: 1, stream: 2, device: -1, start: -1, total: -1, count: 3, era: "early 2020"}},
	{"Event Type,Device ID,Address,Stream,Size (bytes),Free Memory,Total Memory,Current Allocs,Start,End,Elapsed,Location",
		columns{time: -1, action: 0, device: 1, pointer: 2, stream: 3, size: 4, total: 6, start: 8, count: 12, era: "before May 2020 (csv_log)"}},
}

// bareColumns are those of today, which also come without a header.
var bareColumns = columns{time: 1, action: 2, pointer: 3, size: 4, stream: 5, device: -1, start: -1, total: -1, count: 6, era: "June 2020 or later"}

// headerOf finds the columns of a header. Blanks and capitals do not matter.
func headerOf(line []byte) (columns, bool) {
	if len(line) > 200 || !bytes.ContainsRune(line, ',') {
		return columns{}, false
	}
	plain := func(s []byte) []byte { return bytes.ToLower(bytes.ReplaceAll(s, []byte(" "), nil)) }
	text := plain(line)
	for _, h := range headers {
		if bytes.Equal(text, plain([]byte(h.text))) {
			return h.c, true
		}
	}
	return columns{}, false
}

// row is a line of a log.
type row struct {
	action  action
	realloc bool
	time    int64 // nanoseconds, since midnight or the epoch; -1 for none
	epoch   bool  // since the epoch
	addr    uint64
	size    int64
	stream  uint64
	device  int64
	total   int64
	start   float64 // seconds since the start of the program
}

// parse takes a line apart; false if it is no row.
func (c *columns) parse(line []byte, r *row) bool {
	*r = row{time: -1}
	n := 0
	for more := true; more; n++ {
		var f []byte
		f, line, more = bytes.Cut(line, []byte(","))
		if n >= c.count {
			return c.device >= 0 // the location of a csv_log may have commas
		}
		ok := true
		switch n {
		case c.time:
			r.time, r.epoch, ok = timeOf(bytes.TrimSpace(f))
		case c.action:
			f = bytes.TrimSpace(f)
			r.action = actionOf(f)
			r.realloc = string(f) == "Realloc"
			ok = r.action != noAction || r.realloc
		case c.pointer:
			r.addr, ok = hex(bytes.TrimSpace(f))
		case c.size:
			r.size, ok = lines.Whole(bytes.TrimSpace(f))
		case c.stream:
			r.stream, ok = hex(bytes.TrimSpace(f))
		case c.device:
			r.device, ok = lines.Whole(bytes.TrimSpace(f))
		case c.total:
			r.total, ok = lines.Whole(bytes.TrimSpace(f))
		case c.start:
			var err error
			r.start, err = strconv.ParseFloat(string(bytes.TrimSpace(f)), 64)
			ok = err == nil && r.start >= 0 && r.start < 1e9
		}
		if !ok {
			return false
		}
	}
	return n == c.count || c.device >= 0 && n >= c.start
}

// hex reads a pointer or the handle of a stream: with 0x or without, (nil) for null.
func hex(s []byte) (uint64, bool) {
	if string(s) == "(nil)" {
		return 0, true
	}
	return lines.Hex(s)
}

// timeOf reads a time of day, HH:MM:SS with a point or a colon and six digits behind, or seconds since the
// epoch.
func timeOf(s []byte) (ns int64, epoch, ok bool) {
	if len(s) < 8 || s[2] != ':' {
		sec, frac, _ := bytes.Cut(s, []byte("."))
		n, ok := lines.Whole(sec)
		if !ok || n > 9e9 {
			return 0, false, false
		}
		f, ok := fraction(frac)
		return n*1e9 + f, true, ok
	}
	if s[5] != ':' {
		return 0, false, false
	}
	h, okH := lines.Whole(s[0:2])
	m, okM := lines.Whole(s[3:5])
	sec, okS := lines.Whole(s[6:8])
	if !okH || !okM || !okS || h > 23 || m > 59 || sec > 60 {
		return 0, false, false
	}
	ns = ((h*60+m)*60 + sec) * 1e9
	if len(s) == 8 {
		return ns, false, true
	}
	if s[8] != '.' && s[8] != ':' {
		return 0, false, false
	}
	f, ok := fraction(s[9:])
	return ns + f, false, ok
}

// fraction reads the digits behind the point of a number of seconds.
func fraction(s []byte) (ns int64, ok bool) {
	if len(s) > 9 {
		s = s[:9]
	}
	if len(s) == 0 {
		return 0, true
	}
	n, ok := lines.Whole(s)
	for range 9 - len(s) {
		n *= 10
	}
	return n, ok
}
