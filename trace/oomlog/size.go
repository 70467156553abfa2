package oomlog

import (
	"math"
	"strconv"
)

// Size is a number of bytes as a text gives it. Bytes is the number printed; Low and High bound what it
// can have been before it was rounded for printing. Numbers that an int64 cannot hold exist in messages
// about corrupt sizes: Bytes is then the largest int64, and Wide the number.
type Size struct {
	Bytes, Low, High int64
	Wide             uint64
	Known            bool
}

// Exact is a size that was printed in bytes.
func Exact(n int64) Size { return Size{Bytes: n, Low: n, High: n, Known: true} }

// Plus is the sum of two sizes, unknown if either is. Intervals add up.
func (s Size) Plus(t Size) Size {
	if !s.Known || !t.Known {
		return Size{}
	}
	return Size{Bytes: addClamped(s.Bytes, t.Bytes), Low: addClamped(s.Low, t.Low), High: addClamped(s.High, t.High), Known: true}
}

// Minus is the difference of two sizes, unknown if either is. It may be negative: sums in messages need
// not add up, and that is a finding.
func (s Size) Minus(t Size) Size {
	if !s.Known || !t.Known {
		return Size{}
	}
	return Size{Bytes: s.Bytes - t.Bytes, Low: s.Low - t.High, High: s.High - t.Low, Known: true}
}

// AtLeastZero is s with negative ends cut off, for differences that can only be negative by rounding.
func (s Size) AtLeastZero() Size {
	s.Bytes, s.Low, s.High = max(s.Bytes, 0), max(s.Low, 0), max(s.High, 0)
	return s
}

func addClamped(a, b int64) int64 {
	if a > 0 && b > math.MaxInt64-a {
		return math.MaxInt64
	}
	return a + b
}

// Multiples of the byte. Every unit in these messages is binary: GB in the messages of MPS, Paddle,
// DeepSpeed and memory_summary means GiB, and the M of the TensorFlow driver means MiB.
const (
	kib = 1 << 10
	mib = 1 << 20
	gib = 1 << 30
	tib = 1 << 40
)

// units in the order in which they must be tried: a longer name before its own beginning.
var units = [...]struct {
	name string
	mult float64
}{
	{"bytes", 1}, {"byte", 1},
	{"kib", kib}, {"mib", mib}, {"gib", gib}, {"tib", tib},
	{"kb", kib}, {"mb", mib}, {"gb", gib}, {"tb", tib},
	{"b", 1}, {"k", kib}, {"m", mib}, {"g", gib}, {"t", tib},
}

// numberLen is the length of the number that text starts with: digits, perhaps in groups of three after
// commas, and perhaps a fraction, whose digits it counts too. 0 if there is none.
func numberLen(text []byte) (length, fraction int) {
	i := digitsLen(text)
	if i == 0 {
		return 0, 0
	}
	if i <= 3 {
		for i < len(text) && text[i] == ',' && digitsLen(text[i+1:]) == 3 {
			i += 4
		}
	}
	if i < len(text) && text[i] == '.' {
		if f := digitsLen(text[i+1:]); f > 0 {
			return i + 1 + f, f
		}
	}
	return i, 0
}

func digitsLen(text []byte) int {
	i := 0
	for i < len(text) && isDigit(text[i]) {
		i++
	}
	return i
}

// parseSize reads a number and its unit from the start of flat text and returns how much of the text they
// take, 0 if there are none.
func parseSize(text []byte) (Size, int) {
	n, fraction := numberLen(text)
	if n == 0 || n > 32 {
		return Size{}, 0
	}
	for _, u := range units {
		if end := n + len(u.name); end <= len(text) && string(text[n:end]) == u.name {
			s, ok := makeSize(text[:n], fraction, u.mult)
			if !ok {
				return Size{}, 0
			}
			return s, end
		}
	}
	return Size{}, 0
}

// makeSize turns the digits of a number into a size of the given unit.
func makeSize(digits []byte, fraction int, mult float64) (Size, bool) {
	plain := make([]byte, 0, 32)
	for _, c := range digits {
		if c != ',' {
			plain = append(plain, c)
		}
	}
	if fraction == 0 && mult == 1 {
		if n, err := strconv.ParseInt(string(plain), 10, 64); err == nil {
			return Exact(n), true
		}
		wide, err := strconv.ParseUint(string(plain), 10, 64)
		if err != nil {
			return Size{}, false
		}
		return Size{Bytes: math.MaxInt64, Low: math.MaxInt64, High: math.MaxInt64, Wide: wide, Known: true}, true
	}
	v, err := strconv.ParseFloat(string(plain), 64)
	if err != nil {
		return Size{}, false
	}
	half := mult / 2
	for range fraction {
		half /= 10
	}
	s := Size{Bytes: roundClamped(v * mult), Low: roundClamped(max(0, v*mult-half)), High: roundClamped(v*mult + half), Known: true}
	if s.Bytes == math.MaxInt64 && v*mult < 1<<64 {
		s.Wide = uint64(v * mult)
	}
	return s, true
}

func roundClamped(v float64) int64 {
	if v >= math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(math.Round(v))
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
