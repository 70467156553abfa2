package report

import (
	"fmt"
	"strconv"
	"time"
)

const (
	kib = 1 << 10
	mib = 1 << 20
	gib = 1 << 30
)

// Bytes shows a size in binary units, three or more digits of it.
func Bytes(n int64) string {
	sign := ""
	if n < 0 {
		sign, n = "-", -n
	}
	switch {
	case n >= gib:
		return fmt.Sprintf("%s%.2f GiB", sign, float64(n)/gib)
	case n >= 100*mib:
		return fmt.Sprintf("%s%.0f MiB", sign, float64(n)/mib)
	case n >= mib:
		return fmt.Sprintf("%s%.1f MiB", sign, float64(n)/mib)
	case n >= kib:
		return fmt.Sprintf("%s%.1f KiB", sign, float64(n)/kib)
	case n == 1:
		return sign + "1 byte"
	}
	return fmt.Sprintf("%s%d bytes", sign, n)
}

// Count shows a number with separators between the thousands.
func Count(n int) string {
	s := strconv.Itoa(n)
	start := 0
	if n < 0 {
		start = 1
	}
	for i := len(s) - 3; i > start; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return Count(n) + " " + one + "s"
}

// Span shows a duration as people read it.
func Span(d time.Duration) string {
	switch {
	case d >= time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	case d >= time.Minute:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	case d >= time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d >= time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
	}
	return fmt.Sprintf("%d µs", d.Microseconds())
}

func percent(part, whole int64) string {
	if whole == 0 {
		return "–"
	}
	p := float64(part) * 100 / float64(whole)
	if p > 0 && p < 1 {
		return "<1 %"
	}
	return fmt.Sprintf("%.0f %%", p)
}
