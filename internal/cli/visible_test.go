package cli

import (
	"bytes"
	"testing"
)

func TestVisible(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"plain\ttext · 1 GiB ▁█\n", "plain\ttext · 1 GiB ▁█\n"},
		{"\x1b[1mbold\x1b[0m \x1b[1;31mred\x1b[0m", "\x1b[1mbold\x1b[0m \x1b[1;31mred\x1b[0m"},
		{"a\x1b[2Jb\x1b]0;title\x07c", `a\x1b[2Jb\x1b]0;title\x07c`},
		{"\x1b[8mhidden", `\x1b[8mhidden`},
		{"over\rwritten", `over\x0dwritten`},
		{"\u202egnp.exe\u2028x\u200f", `\u202egnp.exe\u2028x\u200f`},
		{"\x9b2J \u009b2J \xff", `\x9b2J \x9b2J \xff`},
		{"é日本�", "é日本�"},
		{"", ""},
	} {
		var b bytes.Buffer
		if n, err := (visible{&b}).Write([]byte(c.in)); n != len(c.in) || err != nil {
			t.Errorf("%q: %d of %d, %v", c.in, n, len(c.in), err)
		}
		if b.String() != c.want {
			t.Errorf("%q is shown as %q, want %q", c.in, b.String(), c.want)
		}
	}
}
