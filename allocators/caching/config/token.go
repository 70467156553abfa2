package config

import (
	"math"
	"strconv"
	"strings"
)

// A token is a word or one of the characters , : [ ]. The white space inside of a word is gone from its
// text, so that off is the place of its first character only.
type token struct {
	text string
	off  int
}

// separator says whether the token is one of the characters that stand for themselves.
func (t token) separator() bool {
	return t.text == "," || t.text == ":" || t.text == "[" || t.text == "]"
}

// tokenize cuts the text as PyTorch does. White space does not separate anything, it is dropped wherever
// it stands. Before 2.10 only the space was: a tab or a line end became part of a word.
func tokenize(text string, base int, v Version) []token {
	blanks := " \t\n\v\f\r"
	if v.before(Version{2, 10}) {
		blanks = " "
	}
	var toks []token
	var word []byte
	start := 0
	flush := func() {
		if len(word) > 0 {
			toks = append(toks, token{string(word), base + start})
			word = word[:0]
		}
	}
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == ',' || c == ':' || c == '[' || c == ']':
			flush()
			toks = append(toks, token{text[i : i+1], base + i})
		case strings.IndexByte(blanks, c) >= 0:
		default:
			if len(word) == 0 {
				start = i
			}
			word = append(word, c)
		}
	}
	flush()
	return toks
}

// wholeNumber reads what std::stoi (before 2.10) or std::stoull makes of a word: the digits that it begins
// with, whatever follows. A negative number turns into a huge one, as it does there. why is empty if there
// is a number.
func wholeNumber(s string, v Version) (n uint64, rest, why string) {
	digits := strings.TrimLeft(s, "\t\n\v\f\r")
	negative := false
	if digits != "" && (digits[0] == '+' || digits[0] == '-') {
		negative = digits[0] == '-'
		digits = digits[1:]
	}
	end := 0
	for end < len(digits) && '0' <= digits[end] && digits[end] <= '9' {
		end++
	}
	if end == 0 {
		return 0, s, "is not a whole number"
	}
	n, err := strconv.ParseUint(digits[:end], 10, 64)
	limit := uint64(math.MaxUint64)
	if v.before(Version{2, 10}) {
		limit = math.MaxInt32
	}
	if err != nil || n > limit {
		return 0, digits[end:], "is too large a number"
	}
	if negative {
		n = -n
	}
	return n, digits[end:], ""
}

// realNumber reads what std::stod makes of a word: the longest beginning that is a decimal number.
func realNumber(s string) (f float64, rest string, ok bool) {
	i := 0
	digits := func() (some bool) {
		for i < len(s) && '0' <= s[i] && s[i] <= '9' {
			i++
			some = true
		}
		return some
	}
	if i < len(s) && (s[i] == '+' || s[i] == '-') {
		i++
	}
	some := digits()
	if i < len(s) && s[i] == '.' {
		i++
		some = digits() || some
	}
	if !some {
		return 0, s, false
	}
	if end := i; i < len(s) && (s[i] == 'e' || s[i] == 'E') {
		i++
		if i < len(s) && (s[i] == '+' || s[i] == '-') {
			i++
		}
		if !digits() {
			i = end
		}
	}
	f, err := strconv.ParseFloat(s[:i], 64)
	return f, s[i:], err == nil
}

// clip shortens a word that is too long to show.
func clip(s string) string {
	if len(s) > 60 {
		s = s[:57] + "..."
	}
	return s
}

// quoted is a word for a message.
func quoted(s string) string { return strconv.Quote(clip(s)) }
