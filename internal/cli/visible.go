package cli

import (
	"bytes"
	"fmt"
	"io"
	"unicode"
	"unicode/utf8"
)

// visible shows what would act on a terminal, or on the order of letters, instead of letting it: names in recordings
// and of files are whatever somebody wrote there. Only the escapes that this tool uses itself pass.
type visible struct{ w io.Writer }

// ownEscapes are those of report/lines.go.
var ownEscapes = [][]byte{[]byte("\x1b[0m"), []byte("\x1b[1m"), []byte("\x1b[2m"), []byte("\x1b[1;31m"), []byte("\x1b[1;33m")}

func (v visible) Write(text []byte) (int, error) {
	var out []byte // nil as long as all is as it was
	done := 0
	for at := 0; at < len(text); {
		r, n := utf8.DecodeRune(text[at:])
		shown := ""
		switch {
		case r == '\n' || r == '\t' || r >= ' ' && r < 0x7f:
		case r == 0x1b:
			shown = `\x1b`
			for _, e := range ownEscapes {
				if bytes.HasPrefix(text[at:], e) {
					shown, n = "", len(e)
				}
			}
		case r == utf8.RuneError && n == 1, unicode.IsControl(r):
			shown = fmt.Sprintf(`\x%02x`, r)
			if n == 1 {
				shown = fmt.Sprintf(`\x%02x`, text[at])
			}
		case unicode.In(r, unicode.Bidi_Control, unicode.Zl, unicode.Zp):
			shown = fmt.Sprintf(`\u%04x`, r)
		}
		if shown != "" {
			out = append(append(out, text[done:at]...), shown...)
			done = at + n
		}
		at += n
	}
	if out == nil {
		return v.w.Write(text)
	}
	if _, err := v.w.Write(append(out, text[done:]...)); err != nil {
		return 0, err
	}
	return len(text), nil
}
