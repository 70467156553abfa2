package report_test

import (
	"testing"

	"github.com/vramscope/vramscope/report"
)

func TestVisible(t *testing.T) {
	for in, want := range map[string]string{
		"":                         "",
		"plain\ttext · 1 GiB ▁█\n": "plain\ttext · 1 GiB ▁█\n",
		"é日本 �":                    "é日本 �",
		"over\rwritten\x1b[2J":     `over\x0dwritten\x1b[2J`,
		"\u202egnp.exe\u2028x":     `\u202egnp.exe\u2028x`,
		"\x9b2J \u009b2J \xff":     `\x9b2J \x9b2J \xff`,
	} {
		if got := report.Visible(in); got != want {
			t.Errorf("%q is shown as %q, want %q", in, got, want)
		}
	}
}
