package oomlog

import "bytes"

// flat is a piece of a log with everything taken out that launchers, terminals, browsers and people put
// into it: blanks and line breaks (also as \n in JSON), colours, quotation marks, back-ticks, pipes,
// HTML entities and tags, box-drawing characters, and the prefix of a line where the following lines
// repeat it. Letters are in lower case. raw holds for each byte where in the piece it stood, so that what
// is found can be named by its place in the log.
type flat struct {
	text []byte
	raw  []int32
	src  []byte // what was flattened
}

// flatten fills f from src. mark is the place in src that made the scanner stop: the line there tells the
// prefix that later lines may repeat.
func (f *flat) flatten(src []byte, mark int) {
	if cap(f.text) < len(src) {
		f.text, f.raw = make([]byte, 2*len(src)), make([]int32, 2*len(src))
	}
	text, raw := f.text[:len(src)], f.raw[:len(src)]
	prefix := repeatedPrefix(src, mark)
	n := 0
	for i := 0; i < len(src); {
		c := src[i]
		switch k := flatKinds[c]; k {
		case isBlank:
			i++
		case isLineEnd:
			i = skipLineStart(src, i+1, mark, prefix)
		case isSpecial:
			i += specialLen(src[i:])
		default:
			text[n], raw[n] = k, int32(i)
			n++
			i++
		}
	}
	f.text, f.raw, f.src = text[:n], raw[:n], src
}

// What flatKinds holds for bytes that are not kept; for the others it holds what they become.
const (
	isBlank   = iota // blanks, quotation marks, pipes, anything outside ASCII
	isLineEnd        // a line ends
	isSpecial        // what begins an escape, an entity or a tag
)

var flatKinds = func() (t [256]byte) {
	for c := byte('!'); c <= '~'; c++ {
		t[c] = lower(c)
	}
	for _, c := range "|*`\"'#>" {
		t[c] = isBlank
	}
	for _, c := range "\\&<\x1b" {
		t[c] = isSpecial
	}
	t['\n'] = isLineEnd
	return t
}()

// specialLen is how many bytes at the start of text are an escape, an entity or a tag, at least one.
func specialLen(text []byte) int {
	switch text[0] {
	case 0x1b:
		return escapeLen(text)
	case '\\':
		return backslashLen(text)
	case '&':
		return entityLen(text)
	}
	return tagLen(text)
}

// escapeLen is the length of a terminal's escape sequence.
func escapeLen(text []byte) int {
	if len(text) < 2 {
		return 1
	}
	switch text[1] {
	case '[':
		return 2 + csiLen(text[2:])
	case ']': // a title or a link: ends with BEL or ESC \
		for i := 2; i < min(len(text), 256); i++ {
			if text[i] == 7 {
				return i + 1
			}
			if text[i] == 0x1b {
				return min(i+2, len(text))
			}
		}
		return 2
	case '(', ')':
		return min(3, len(text))
	}
	return 1
}

// csiLen is the length of the parameters of a control sequence and its final letter.
func csiLen(text []byte) int {
	for i := 0; i < min(len(text), 24); i++ {
		if text[i] >= '@' && text[i] <= '~' {
			return i + 1
		}
	}
	return 0
}

// backslashLen is the length of an escape as JSON or Python's repr print it, however often it was escaped
// again. In a path of Windows \t and \r are the starts of names; there only the backslash is dropped.
func backslashLen(text []byte) int {
	n := 0
	for n < len(text) && n < 8 && text[n] == '\\' {
		n++
	}
	if n == len(text) {
		return n
	}
	rest := text[n:]
	switch rest[0] {
	case 'n':
		return n + 1
	case 'r', 't':
		if len(rest) == 1 || !isLetter(rest[1]) {
			return n + 1
		}
	case 'u':
		if hasPrefixFold(rest, "u001b[") {
			return n + 6 + csiLen(rest[6:])
		}
		if len(rest) >= 5 && isHex(rest[1]) && isHex(rest[2]) && isHex(rest[3]) && isHex(rest[4]) {
			return n + 5
		}
	case 'x':
		if hasPrefixFold(rest, "x1b[") {
			return n + 4 + csiLen(rest[4:])
		}
	}
	return n
}

func isHex(c byte) bool { return isDigit(c) || c|0x20 >= 'a' && c|0x20 <= 'f' }

// entityLen is the length of an HTML entity, 1 for a bare ampersand.
func entityLen(text []byte) int {
	for i := 1; i < min(len(text), 10); i++ {
		switch c := text[i]; {
		case c == ';' && i > 1:
			return i + 1
		case !isLetter(c) && !isDigit(c) && c != '#':
			return 1
		}
	}
	return 1
}

// tagLen is the length of an HTML tag, 1 for any other angle bracket.
func tagLen(text []byte) int {
	if len(text) < 3 || !isLetter(text[1]) && text[1] != '/' {
		return 1
	}
	for i := 2; i < min(len(text), 120); i++ {
		switch text[i] {
		case '>':
			return i + 1
		case '\n', '<':
			return 1
		}
	}
	return 1
}

// repeatedPrefix is what the line at mark and the line after it both begin with, digits aside, cut after
// its last blank: a time, a rank, a container's name. Nil if there is none worth the name.
func repeatedPrefix(src []byte, mark int) []byte {
	start := bytes.LastIndexByte(src[:mark], '\n') + 1
	end := bytes.IndexByte(src[mark:], '\n')
	if end < 0 {
		return nil
	}
	next := mark + end + 1
	n, cut := 0, 0
	for n < 160 && start+n < mark && next+n < len(src) && sameMasked(src[start+n], src[next+n]) {
		n++
		if src[start+n-1] == ' ' {
			cut = n
		}
	}
	if cut < 4 {
		return nil
	}
	return src[start : start+cut]
}

func sameMasked(a, b byte) bool { return a == b || isDigit(a) && isDigit(b) }

// skipLineStart returns where the meaning of the line at i begins: after the prefix that it repeats, and
// after marks of quotation and comment.
func skipLineStart(src []byte, i, mark int, prefix []byte) int {
	if i > mark && len(prefix) > 0 && len(src)-i >= len(prefix) {
		same := true
		for k, c := range prefix {
			if !sameMasked(c, src[i+k]) {
				same = false
				break
			}
		}
		if same {
			i += len(prefix)
		}
	}
	for i < len(src) && (src[i] == ' ' || src[i] == '\t' || src[i] == '>' || src[i] == '#' || src[i] == '*' ||
		src[i] == '/' && i+1 < len(src) && src[i+1] == '/') {
		if src[i] == '/' {
			i++
		}
		i++
	}
	return i
}

// at returns the place in the flat text of the first byte that stood at or after the given place in the
// source.
func (f *flat) at(raw int) int {
	lo, hi := 0, len(f.raw)
	for lo < hi {
		mid := (lo + hi) / 2
		if int(f.raw[mid]) < raw {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// rawEnd is where in the source the flat text before i ends.
func (f *flat) rawEnd(i int) int {
	if i <= 0 || len(f.raw) == 0 {
		return 0
	}
	return int(f.raw[min(i, len(f.raw))-1]) + 1
}

// lineBreakAt tells whether a line ended between the flat bytes i-1 and i.
func (f *flat) lineBreakAt(i int) bool {
	if i <= 0 || i >= len(f.raw) {
		return true
	}
	return bytes.IndexByte(f.src[f.raw[i-1]:f.raw[i]], '\n') >= 0
}
