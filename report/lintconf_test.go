package report

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/vramscope/vramscope/allocators/caching/config"
)

func torch(minor int) config.Version { return config.Version{Major: 2, Minor: minor} }

// The verdict, what to write instead, and what versions make something else of it.
func TestLintSetting(t *testing.T) {
	for _, c := range []struct {
		text    string
		v       config.Version
		passed  bool
		answer  string // the first line has it
		correct string
		others  string
	}{
		{"", torch(11), true, "defaults", "", ""},
		{"expandable_segments:True", torch(11), true, "2 risks", "", "2.0–2.0"},
		{"roundup_power2_divisions:4", torch(11), true, "does what this setting says.", "", ""},
		{"roundup_power2_divisions:1", torch(11), false, "does nothing: roundup_power2_divisions.", "", "2.0–2.3"},
		{"garbage_collection_threshold:0.8", torch(11), false, "does nothing: garbage_collection_threshold.", "", ""},
		{"expandeable_segments:True", torch(11), false, `knows no setting "expandeable_segments"; "expandable_segments" is probably meant.`, "expandable_segments:True", ""},
		{"max_split_size_mb:20", torch(11), true, "1 risk", "", "2.0–2.9"},
		{"max_split_size_mb:20", torch(9), false, "too small for PyTorch 2.9", "max_split_size_mb:21", "2.10–2.14"},
		{"max_split_size_mb=128,expandable_segments:true", torch(11), false, "2 reasons", "max_split_size_mb:128,expandable_segments:True", ""},
		{"expandable_segments:True;max_split_size_mb:64", torch(11), false, "semicolon", "expandable_segments:True,max_split_size_mb:64", ""},
		{"expandeable_segments:true; max_split_size_mb=20", torch(9), false, "probably meant", "expandable_segments:True,max_split_size_mb:21", ""},
		{"max_split_size_mb:64,,foo:1,bar:2", torch(11), false, "3 reasons", "max_split_size_mb:64", ""},
		{"max_split_size_mb:2G", torch(11), false, "too small", "max_split_size_mb:2048", ""},
		{"max_split_size_mb:64,max_split_size_mb:128", torch(11), false, "does nothing: max_split_size_mb", "max_split_size_mb:128", ""},
		{"backend:cudaMallocAsync,max_split_size_mb:64", torch(11), false, "does nothing: max_split_size_mb", "backend:cudaMallocAsync", ""},
		{"export PYTORCH_ALLOC_CONF=roundup_power2_divisions:4", torch(8), false, "does not look at this setting", "", "2.10–2.14"},
		{"export PYTORCH_ALLOC_CONF=roundup_power2_divisions:4", torch(12), true, "1 risk", "", "2.0–2.9"},
		{"large_segment_size_mb:40", torch(11), true, "does what this setting says.", "", "2.0–2.10"},
		{"nonsense", torch(11), false, `knows no setting "nonsense"`, "", ""},
		{"roundup_power2_divisions:[64:3]", torch(11), false, "not a power of two", "", ""},
	} {
		l := LintSetting(c.text, c.v)
		var others []string
		for _, o := range l.Others {
			others = append(others, o.From.String()+"–"+o.To.String())
		}
		if l.Passed() != c.passed || !strings.Contains(l.answer(), c.answer) || l.Correct != c.correct || strings.Join(others, " ") != c.others {
			t.Errorf("%q in %s: passed %v, %s\n correct %q, others %v", c.text, c.v, l.Passed(), l.answer(), l.Correct, others)
		}
	}
}

// A caret stands under the byte that a finding is about, also in settings that are longer than a line.
func TestWindow(t *testing.T) {
	long := strings.Repeat("a", 200) + "X" + strings.Repeat("b", 200)
	for _, c := range []struct {
		text string
		at   int
		want string // the character over the caret; "" for the end
	}{
		{"abc", 0, "a"}, {"abc", 2, "c"}, {"abc", 3, ""}, {"é,x", 3, "x"}, {long, 200, "X"}, {long, 0, "a"}, {long, 401, ""},
		{"a\tb", 1, "·"}, {"\xffb", 1, "b"},
	} {
		show, caret := window(c.text, c.at)
		got := ""
		if runes := []rune(show); caret < len(runes) {
			got = string(runes[caret])
		}
		if got != c.want || utf8.RuneCountInString(show) > lintWindow+2 {
			t.Errorf("%.20q at %d: %q, caret over %q, want %q", c.text, c.at, show, got, c.want)
		}
	}
}

// Whatever the text, there is an answer on the first line, the JSON parses, and what is proposed is accepted.
func TestLintSettingAny(t *testing.T) {
	pieces := rapid.SampledFrom([]string{"expandable_segments", "max_split_size_mb", "backend", "roundup_power2_divisions", "garbage_collection_threshold",
		":", ",", ";", "=", "[", "]", ">", "True", "true", "64", "1", "0.8", "2G", "native", " ", "foo", "é", "\x00", "export PYTORCH_ALLOC_CONF=", `"`})
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(pieces, 0, 12).Draw(t, "pieces"), "")
		l := LintSetting(text, torch(rapid.IntRange(0, 14).Draw(t, "minor")))
		var b bytes.Buffer
		if err := l.WriteText(&b, Style{}); err != nil {
			t.Fatal(err)
		}
		if first, _, _ := strings.Cut(b.String(), "\n"); !strings.Contains(first, "PyTorch 2.") {
			t.Fatalf("%q: %q", text, first)
		}
		b.Reset()
		if err := l.WriteJSON(&b); err != nil || !json.Valid(b.Bytes()) {
			t.Fatalf("%q: %v", text, err)
		}
		if l.Correct != "" {
			if _, _, err := config.Parse(l.Correct, l.Version); err != nil {
				t.Fatalf("%q: %q is proposed and refused: %v", text, l.Correct, err)
			}
		}
	})
}
