package cli

import (
	"io"
	"regexp"

	"github.com/vramscope/vramscope/report"
)

// visible lets nothing through to a terminal that acts on it, but the escapes that this tool uses itself.
type visible struct{ w io.Writer }

// ownEscapes are those of report/lines.go.
var ownEscapes = regexp.MustCompile("\x1b\\[(0|1|2|1;31|1;33)m")

func (v visible) Write(text []byte) (int, error) {
	var out []byte
	done := 0
	for _, at := range ownEscapes.FindAllIndex(text, -1) {
		out = append(out, report.Visible(string(text[done:at[0]]))...)
		out = append(out, text[at[0]:at[1]]...)
		done = at[1]
	}
	out = append(out, report.Visible(string(text[done:]))...)
	if _, err := v.w.Write(out); err != nil {
		return 0, err
	}
	return len(text), nil
}
