package report

import (
	"strings"
	"testing"
)

func TestReadRules(t *testing.T) {
	for _, c := range []struct {
		text string
		want string // the rules, or the error
	}{
		{"[[category]]\nname = \"kv cache\"\nmatch = \"update_cache\"\n[[category]]\nname = \"loss\"\nmatch = \"cross_entropy$\"\n",
			"kv cache: update_cache; loss: cross_entropy$"},
		{"", "there is no rule in it: write [[category]], name and match"},
		{"[[category]]\nname = \"x\"\n", `category "x": there is no regular expression`},
		{"[[category]]\nmatch = \"x\"\n", `the category of "x" has no name`},
		{"[[category]]\nname = \"x\"\nmatch = \"(\"\n", "category \"x\": error parsing regexp: missing closing ): `(`"},
		{"[[category]]\nname = \"x\"\nregex = \"y\"\n", "category.regex: there is no such key; a rule is [[category]] with name and match"},
		{"[[category]]\nname = ", "line 2: unexpected EOF; expected value"},
		{strings.Repeat("[[category]]\nname = \"x\"\nmatch = \"y\"\n", 101), "101 rules for categories are more than the 100 that can be told apart"},
	} {
		rules, err := ReadRules(strings.NewReader(c.text))
		var parts []string
		for _, r := range rules {
			parts = append(parts, r.Name+": "+r.Match.String())
		}
		got := strings.Join(parts, "; ")
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%q: %s, want %s", c.text, got, c.want)
		}
	}
}

func TestParseRule(t *testing.T) {
	if r, err := ParseRule(" kv cache =a=b"); err != nil || r.Name != "kv cache" || r.Match.String() != "a=b" {
		t.Errorf("%v, %v", r, err)
	}
	for _, text := range []string{"", "x", "=x", "x=", "x=["} {
		if r, err := ParseRule(text); err == nil {
			t.Errorf("%q: %v", text, r)
		}
	}
}
