package pickle

import (
	"errors"
	"unicode/utf8"
)

// unquote undoes Python's repr of a byte string, the argument of STRING.
func unquote(s []byte) ([]byte, error) {
	for len(s) > 0 && (s[len(s)-1] == ' ' || s[len(s)-1] == '\r') {
		s = s[:len(s)-1]
	}
	if len(s) < 2 || s[0] != s[len(s)-1] || (s[0] != '\'' && s[0] != '"') {
		return nil, errors.New("has a string without its quotes")
	}
	s = s[1 : len(s)-1]
	out := s[:0] // an escape is never shorter than what it stands for
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			out = append(out, s[i])
			continue
		}
		i++
		switch c := s[i]; c {
		case 'n':
			out = append(out, '\n')
		case 't':
			out = append(out, '\t')
		case 'r':
			out = append(out, '\r')
		case 'x':
			if n, ok := hexDigits(s[i+1:], 2); ok {
				out = append(out, byte(n))
				i += 2
				continue
			}
			out = append(out, '\\', 'x')
		default:
			out = append(out, c)
		}
	}
	return out, nil
}

// rawUnicode undoes Python's raw-unicode-escape, the argument of UNICODE: \u and \U escapes, all other
// bytes Latin-1.
func rawUnicode(s []byte) []byte {
	var out []byte
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			digits := 0
			switch s[i+1] {
			case 'u':
				digits = 4
			case 'U':
				digits = 8
			}
			if n, ok := hexDigits(s[i+2:], digits); ok && digits > 0 {
				out = utf8.AppendRune(out, rune(n))
				i += 1 + digits
				continue
			}
		}
		out = utf8.AppendRune(out, rune(s[i]))
	}
	return out
}

func hexDigits(s []byte, digits int) (n uint32, ok bool) {
	if len(s) < digits {
		return 0, false
	}
	for _, c := range s[:digits] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		n = n<<4 | uint32(c)
	}
	return n, true
}
