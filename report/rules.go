package report

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/vramscope/vramscope/simulate"
)

// ParseRule reads a rule for categories, NAME=REGEX.
func ParseRule(text string) (simulate.Rule, error) {
	name, pattern, ok := strings.Cut(text, "=")
	if !ok {
		return simulate.Rule{}, fmt.Errorf("%q is no rule: write NAME=REGEX, such as 'kv cache=update_cache'", text)
	}
	return newRule(name, pattern)
}

func newRule(name, pattern string) (simulate.Rule, error) {
	if name = strings.TrimSpace(name); name == "" {
		return simulate.Rule{}, fmt.Errorf("the category of %q has no name", pattern)
	}
	if pattern == "" {
		return simulate.Rule{}, fmt.Errorf("category %q: there is no regular expression", name)
	}
	match, err := regexp.Compile(pattern)
	if err != nil {
		return simulate.Rule{}, fmt.Errorf("category %q: %w", name, err)
	}
	return simulate.Rule{Name: name, Match: match}, nil
}

// CheckRules says what is wrong with rules taken together: that there are too many.
func CheckRules(rules []simulate.Rule) error {
	if len(rules) > simulate.MostRules {
		return fmt.Errorf("%d rules for categories are more than the %d that can be told apart", len(rules), simulate.MostRules)
	}
	return nil
}

// DecodeTOML reads a file of somebody's wishes into v; a mistake is said with its line. What of it is not in v, the
// meta data tells.
func DecodeTOML(r io.Reader, v any) (toml.MetaData, error) {
	meta, err := toml.NewDecoder(r).Decode(v)
	var at toml.ParseError
	if errors.As(err, &at) {
		return meta, fmt.Errorf("line %d: %s", at.Position.Line, at.Message)
	}
	return meta, err
}

// ReadRules reads a file of rules for categories, in TOML:
//
//	[[category]]
//	name = "kv cache"
//	match = "update_cache|paged_attention"
//
// The first that matches counts.
func ReadRules(r io.Reader) ([]simulate.Rule, error) {
	var f struct {
		Category []struct{ Name, Match string }
	}
	meta, err := DecodeTOML(r, &f)
	if err != nil {
		return nil, err
	}
	if odd := meta.Undecoded(); len(odd) > 0 {
		return nil, fmt.Errorf("%s: there is no such key; a rule is [[category]] with name and match", odd[0])
	}
	var rules []simulate.Rule
	for _, c := range f.Category {
		rule, err := newRule(c.Name, c.Match)
		if err != nil {
			return nil, err
		}
		rules = append(rules, rule)
	}
	if len(rules) == 0 {
		return nil, errors.New("there is no rule in it: write [[category]], name and match")
	}
	return rules, CheckRules(rules)
}
