package kineto

import "bytes"

// fields walks through the members of a JSON object that is known to be valid, as long as f wants more. Values
// are as they stand there, strings with their quotation marks.
func fields(raw []byte, f func(name, value []byte) bool) {
	i := space(raw, 0) + 1 // behind the brace
	for {
		i = space(raw, i)
		if i >= len(raw) || raw[i] != '"' {
			return
		}
		end := text(raw, i)
		name := raw[i+1 : end-1]
		i = space(raw, end)
		i = space(raw, i+1) // behind the colon
		if i >= len(raw) {
			return
		}
		end = value(raw, i)
		if !f(name, raw[i:end]) {
			return
		}
		i = space(raw, end)
		if i >= len(raw) || raw[i] != ',' {
			return
		}
		i++
	}
}

func space(raw []byte, i int) int {
	for i < len(raw) && (raw[i] == ' ' || raw[i] == '\n' || raw[i] == '\r' || raw[i] == '\t') {
		i++
	}
	return i
}

// text is the end of the string that begins at i.
func text(raw []byte, i int) int {
	for i++; i < len(raw); i++ {
		j := bytes.IndexByte(raw[i:], '"')
		if j < 0 {
			return len(raw)
		}
		i += j
		back := 0
		for raw[i-1-back] == '\\' {
			back++
		}
		if back%2 == 0 {
			return i + 1
		}
	}
	return len(raw)
}

// value is the end of the value that begins at i.
func value(raw []byte, i int) int {
	switch raw[i] {
	case '"':
		return text(raw, i)
	case '{', '[':
		depth := 0
		for i < len(raw) {
			switch raw[i] {
			case '"':
				i = text(raw, i)
				continue
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
			i++
		}
		return i
	}
	for i < len(raw) {
		switch raw[i] {
		case ',', '}', ']', ' ', '\n', '\r', '\t':
			return i
		}
		i++
	}
	return i
}

// unquoted takes the quotation marks off a string; other values stay as they are.
func unquoted(v []byte) []byte {
	if len(v) >= 2 && v[0] == '"' {
		return v[1 : len(v)-1]
	}
	return v
}

// integer reads a whole number, also one in quotation marks. Addresses from 2^63 on are in some files
// negative; they come out as the same bits.
func integer(v []byte) (n int64, ok bool) {
	v = unquoted(v)
	negative := len(v) > 0 && v[0] == '-'
	if negative {
		v = v[1:]
	}
	if len(v) == 0 || len(v) > 20 {
		return 0, false
	}
	var u uint64
	for _, c := range v {
		d := uint64(c - '0')
		if d > 9 || u > (1<<64-1-d)/10 {
			return 0, false
		}
		u = u*10 + d
	}
	if negative {
		return -int64(u), true
	}
	return int64(u), true
}

// nanoseconds reads a decimal number of microseconds exactly; a float64 would lose the last digits.
func nanoseconds(v []byte) (ns int64, ok bool) {
	v = unquoted(v)
	negative := len(v) > 0 && v[0] == '-'
	if negative {
		v = v[1:]
	}
	digits, fraction := 0, -1
	for _, c := range v {
		if c == '.' && fraction < 0 {
			fraction = 0
			continue
		}
		if c < '0' || c > '9' {
			return 0, false
		}
		if fraction >= 3 {
			continue // below a nanosecond
		}
		if digits++; digits > 18 {
			return 0, false
		}
		ns = ns*10 + int64(c-'0')
		if fraction >= 0 {
			fraction++
		}
	}
	if digits == 0 {
		return 0, false
	}
	for f := max(fraction, 0); f < 3; f++ {
		if ns > (1<<63-1)/10 {
			return 0, false
		}
		ns *= 10
	}
	if negative {
		ns = -ns
	}
	return ns, true
}
