package parquet

import (
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// Texts are UTF-8 in Parquet and in JSON, and programs refuse others. A recording may have any bytes in its
// names. A byte that is not UTF-8 is written as the character escapeBase + byte, at the end of a plane that is for
// private use; so that nothing is lost, those characters themselves are escaped too.
const escapeBase = 0x10ff00

// escape makes UTF-8 of any text.
func escape(s string) string {
	if utf8.ValidString(s) && !strings.Contains(s, "\xf4\x8f\xbc") && !strings.Contains(s, "\xf4\x8f\xbd") &&
		!strings.Contains(s, "\xf4\x8f\xbe") && !strings.Contains(s, "\xf4\x8f\xbf") {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 || r >= escapeBase {
			for _, c := range []byte(s[i : i+n]) {
				b.WriteRune(escapeBase + rune(c))
			}
		} else {
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	return b.String()
}

// unescape is the inverse of escape.
func unescape(s string) string {
	if !strings.Contains(s, "\xf4\x8f") {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if r >= escapeBase {
			b.WriteByte(byte(r - escapeBase))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// text is a string in the description.
type text string

// MarshalJSON escapes what JSON cannot hold.
func (t text) MarshalJSON() ([]byte, error) { return json.Marshal(escape(string(t))) }

// UnmarshalJSON undoes it.
func (t *text) UnmarshalJSON(b []byte) error {
	var s string
	err := json.Unmarshal(b, &s)
	*t = text(unescape(s))
	return err
}
