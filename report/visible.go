package report

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Visible shows what would act on a terminal, or on the order of letters, instead of letting it: names in recordings
// and of files are whatever somebody wrote there, and one that turns the direction of text around would turn the
// figures beside it around as well. Newlines and tabs stay.
func Visible(text string) string {
	if strings.IndexFunc(text, acts) < 0 && utf8.ValidString(text) {
		return text
	}
	var b strings.Builder
	for at := 0; at < len(text); {
		r, n := utf8.DecodeRuneInString(text[at:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, text[at])
		case !acts(r):
			b.WriteString(text[at : at+n])
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		at += n
	}
	return b.String()
}

// acts says whether a character does something instead of being shown.
func acts(r rune) bool {
	return r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.In(r, unicode.Bidi_Control, unicode.Zl, unicode.Zp))
}
