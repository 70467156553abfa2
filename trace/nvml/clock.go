package nvml

import (
	"bytes"
	"time"

	"github.com/vramscope/vramscope/trace"
)

// Times of these programs are of the wall clock, without a zone. They are read as if it were UTC
// (trace.ClockLocal).

// wall reads "2026/11/29 15:52:15.829", with or without a fraction; also with - or T in it.
func wall(s []byte) (trace.Time, bool) {
	if len(s) < 19 {
		return 0, false
	}
	year, a := digits(s[0:4])
	month, b := digits(s[5:7])
	day, c := digits(s[8:10])
	tod, d := timeOfDay(s[11:])
	if !a || !b || !c || !d || isDigit(s[4]) || s[4] != s[7] || s[10] != ' ' && s[10] != 'T' {
		return 0, false
	}
	return date(year, month, day, tod)
}

// date puts a day and a time of it together.
func date(year, month, day int64, tod trace.Time) (trace.Time, bool) {
	if year < 1970 || year > 2200 || month < 1 || month > 12 || day < 1 || day > 31 {
		return 0, false
	}
	at := time.Date(int(year), time.Month(month), int(day), 0, 0, 0, 0, time.UTC)
	return trace.Time(at.UnixNano()) + tod, true
}

// compactDate reads "20261129".
func compactDate(s []byte) (trace.Time, bool) {
	n, ok := digits(s)
	if !ok || len(s) != 8 {
		return 0, false
	}
	return date(n/10000, n/100%100, n%100, 0)
}

// timeOfDay reads "15:52:15" or "15:52:15.829".
func timeOfDay(s []byte) (trace.Time, bool) {
	if len(s) < 8 || s[2] != ':' || s[5] != ':' {
		return 0, false
	}
	h, a := digits(s[0:2])
	m, b := digits(s[3:5])
	sec, c := digits(s[6:8])
	if !a || !b || !c || h > 23 || m > 59 || sec > 60 {
		return 0, false
	}
	t := trace.Time(h*3600+m*60+sec) * 1_000_000_000
	if len(s) > 8 && s[8] == '.' {
		unit := trace.Time(100_000_000)
		for _, c := range s[9:] {
			if !isDigit(c) {
				break
			}
			t += trace.Time(c-'0') * unit
			unit /= 10
		}
	}
	return t, true
}

// ctime finds "Sun Nov 29 15:56:05 2026" in a text.
func ctime(s []byte) (trace.Time, bool) {
	for i := 0; i+24 <= len(s); i++ {
		if s[i+3] != ' ' || s[i+7] != ' ' || s[i+13] != ':' || s[i+16] != ':' {
			continue
		}
		if !bytes.Contains([]byte("Sun Mon Tue Wed Thu Fri Sat"), s[i:i+3]) {
			continue
		}
		month := bytes.Index([]byte("JanFebMarAprMayJunJulAugSepOctNovDec"), s[i+4:i+7])
		day, a := digits(bytes.TrimLeft(s[i+8:i+10], " "))
		tod, b := timeOfDay(s[i+11 : i+19])
		year, c := digits(s[i+20 : i+24])
		if month >= 0 && month%3 == 0 && a && b && c {
			return date(year, int64(month/3+1), day, tod)
		}
	}
	return 0, false
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// digits reads a number that has nothing but digits.
func digits(s []byte) (n int64, ok bool) {
	if len(s) == 0 || len(s) > 18 {
		return 0, false
	}
	for _, c := range s {
		if !isDigit(c) {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, true
}

// clock keeps time going on where the text's steps back.
type clock struct {
	last  trace.Time
	shift trace.Time
	days  bool // times are of a day that the text does not name
	back  int  // how often the clock was set back
	some  bool
}

const (
	second = trace.Time(1_000_000_000)
	hour   = 3600 * second
)

// at is the time that goes on. A time of day that steps back by more than half a day is of the next one; an
// hour back is the end of summer time.
func (c *clock) at(t trace.Time) trace.Time {
	if c.some {
		back := c.last - (t + c.shift)
		switch {
		case c.days && back > 12*hour:
			c.shift += 24 * hour
		case back > hour/2 && back <= hour+hour/12:
			c.shift += hour
			c.back++
		}
	}
	t += c.shift
	c.some = true
	c.last = max(c.last, t)
	return t
}
