package bfc

import (
	"bytes"
	"strconv"
	"time"

	"github.com/vramscope/vramscope/trace"
)

// after is what stands behind the first key, nil if it is not there.
func after(t []byte, key string) []byte {
	i := bytes.Index(t, []byte(key))
	if i < 0 {
		return nil
	}
	return t[i+len(key):]
}

// firstWord is the text up to the first blank.
func firstWord(t []byte) []byte {
	t = bytes.TrimLeft(t, " \t")
	if i := bytes.IndexAny(t, " \t,"); i >= 0 {
		t = t[:i]
	}
	return t
}

// intAfter is the number behind key, -1 if there is none.
func intAfter(t []byte, key string) int64 {
	rest := bytes.TrimLeft(after(t, key), " \t")
	n := 0
	for n < len(rest) && rest[n] >= '0' && rest[n] <= '9' {
		n++
	}
	v, err := strconv.ParseInt(string(rest[:n]), 10, 64)
	if err != nil {
		return -1
	}
	return v
}

// size reads "488.28MiB", 0 if it is no size.
func size(t []byte) int64 {
	n := 0
	for n < len(t) && (t[n] >= '0' && t[n] <= '9' || t[n] == '.') {
		n++
	}
	x, err := strconv.ParseFloat(string(t[:n]), 64)
	if err != nil {
		return 0
	}
	for _, u := range [...]struct {
		unit string
		by   float64
	}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"B", 1}} {
		if bytes.HasPrefix(t[n:], []byte(u.unit)) {
			if x *= u.by; x > 1<<50 {
				return 0
			}
			return int64(x)
		}
	}
	return 0
}

// timeOf finds "2023-10-02 16:36:14.402881" in a line, 0 if there is none. The clock is of the wall, its zone not told.
func timeOf(line []byte) trace.Time {
	const form = "2006-01-02 15:04:05.000000"
	for i := 0; i+len(form) <= len(line) && i < 4096; i++ {
		if line[i] != '2' || line[i+4] != '-' || line[i+7] != '-' || line[i+10] != ' ' || line[i+13] != ':' || line[i+19] != '.' {
			continue
		}
		if at, err := time.Parse(form, string(line[i:i+len(form)])); err == nil {
			return trace.Time(at.UnixNano())
		}
	}
	return 0
}
