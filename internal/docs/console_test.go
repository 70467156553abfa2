package docs

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A command is one line behind a "$ " in a fenced block of a Markdown file, and what the block shows
// below it.
type command struct {
	line   int      // in the file, from 1: of the "$ "
	first  int      // index into the file's lines of the output's first line
	text   string   // behind the "$ ", continued lines joined
	output []string // up to the next "$ " or the end of the block
}

// commands finds the commands in a Markdown text. A fence whose info string has the word "norun" is left
// out: its commands need what a test does not have, a GPU or a program of the reader's.
func commands(lines []string) []command {
	var (
		found []command
		fence string // that opened the block we are in, "" outside
		skip  bool
		open  bool // a command's output is being collected
	)
	for i := 0; i < len(lines); i++ {
		line := strings.TrimRight(lines[i], " \t")
		if marker := fenceOf(line); marker != "" && (fence == "" || marker == fence && line == fence) {
			if fence == "" {
				fence = marker
				skip = slices.Contains(strings.Fields(strings.TrimLeft(line, "`~")), "norun")
			} else {
				fence = ""
			}
			open = false
			continue
		}
		if fence == "" || skip {
			continue
		}
		if text, ok := strings.CutPrefix(line, "$ "); ok {
			c := command{line: i + 1, text: text}
			for strings.HasSuffix(c.text, `\`) && i+1 < len(lines) {
				i++
				c.text = strings.TrimSuffix(c.text, `\`) + " " + strings.TrimSpace(lines[i])
			}
			c.first = i + 1
			found = append(found, c)
			open = true
		} else if open {
			c := &found[len(found)-1]
			c.output = append(c.output, line)
		}
	}
	return found
}

// fenceOf is the run of backquotes or tildes that a line begins with, "" for fewer than three.
func fenceOf(line string) string {
	for _, mark := range []string{"`", "~"} {
		if n := len(line) - len(strings.TrimLeft(line, mark)); n >= 3 {
			return line[:n]
		}
	}
	return ""
}

// A call is a command line taken apart.
type call struct {
	args   []string
	stdin  string // file behind <, "" for none
	stdout string // file behind >, "" for none
}

// parseCall splits a command line as a shell would, as far as documentation needs: words, quotes,
// backslashes, < and >. Anything else that a shell would act on is an error, so that nobody believes it
// is tested.
func parseCall(text string) (call, error) {
	words, err := split(text)
	if err != nil {
		return call{}, err
	}
	var c call
	for i := 0; i < len(words); i++ {
		w := words[i]
		if !w.operator {
			c.args = append(c.args, w.text)
			continue
		}
		if i+1 == len(words) || words[i+1].operator {
			return call{}, fmt.Errorf("%s without a file", w.text)
		}
		i++
		if w.text == "<" {
			c.stdin = words[i].text
		} else {
			c.stdout = words[i].text
		}
	}
	if len(c.args) == 0 {
		return call{}, errors.New("no command")
	}
	return c, nil
}

type word struct {
	text     string
	operator bool
}

func split(text string) ([]word, error) {
	var (
		words []word
		cur   strings.Builder
		in    bool // a word has begun
		quote rune
	)
	end := func() {
		if in {
			words = append(words, word{text: cur.String()})
			cur.Reset()
			in = false
		}
	}
	escaped := false
	for _, r := range text {
		switch {
		case escaped:
			cur.WriteRune(r)
			in, escaped = true, false
		case quote != 0 && r == quote:
			quote = 0
		case quote == '\'', quote == '"' && r != '\\' && r != '$' && r != '`':
			cur.WriteRune(r)
		case r == '\\':
			escaped = true
		case quote == 0 && (r == '\'' || r == '"'):
			quote, in = r, true
		case quote == 0 && (r == ' ' || r == '\t'):
			end()
		case quote == 0 && (r == '<' || r == '>'):
			end()
			words = append(words, word{string(r), true})
		case strings.ContainsRune("|&;$`()*?~#", r) && !(in && strings.ContainsRune("~#", r)):
			return nil, fmt.Errorf("%q: the test runs one program with plain words, < and >; quote it, or mark the block norun", r)
		default:
			cur.WriteRune(r)
			in = true
		}
	}
	if quote != 0 || escaped {
		return nil, errors.New("the quote or backslash has no end")
	}
	end()
	return words, nil
}

// match compares printed lines with those of a document. There a line "..." stands for any number of
// lines, and "..." inside a line for any text.
func match(want, got []string) bool {
	if len(want) == 0 {
		return len(got) == 0
	}
	if strings.TrimSpace(want[0]) == "..." {
		for skip := 0; skip <= len(got); skip++ {
			if match(want[1:], got[skip:]) {
				return true
			}
		}
		return false
	}
	return len(got) > 0 && matchLine(want[0], got[0]) && match(want[1:], got[1:])
}

func matchLine(want, got string) bool {
	if !strings.Contains(want, "...") {
		return want == got
	}
	parts := strings.Split(want, "...")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	ok, err := regexp.MatchString("^"+strings.Join(parts, ".*")+"$", got)
	return err == nil && ok
}

// toLines splits what a program printed as a document shows it: no blanks at the ends of lines, no empty
// lines at the end.
func toLines(text string) []string {
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.TrimRight(line, " \t\r\n"))
	}
	for len(lines) > 0 && lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}

func TestCommands(t *testing.T) {
	text := `# Title
$ not in a block
` + "```console" + `
$ vramscope a \
    b
one

two
$ vramscope c
` + "```" + `
` + "~~~ console norun" + `
$ vramscope gpu info
` + "~~~" + `
` + "````" + `
no command
` + "```" + `
$ make test
` + "````" + `
$ not in a block either
`
	got := commands(strings.Split(text, "\n"))
	want := []command{
		{line: 4, first: 5, text: "vramscope a  b", output: []string{"one", "", "two"}},
		{line: 9, first: 9, text: "vramscope c"},
		{line: 17, first: 17, text: "make test"},
	}
	if !slices.EqualFunc(got, want, func(a, b command) bool {
		return a.line == b.line && a.first == b.first && a.text == b.text && slices.Equal(a.output, b.output)
	}) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

func TestParseCall(t *testing.T) {
	for text, want := range map[string]call{
		`vramscope info a.zst`:            {args: []string{"vramscope", "info", "a.zst"}},
		`vramscope oom - < 'my log' >out`: {args: []string{"vramscope", "oom", "-"}, stdin: "my log", stdout: "out"},
		`v --conf "a:1,b:'x'" c\ d ""`:    {args: []string{"v", "--conf", "a:1,b:'x'", "c d", ""}},
		`v '$x | y'`:                      {args: []string{"v", "$x | y"}},
		`v a~b c#d`:                       {args: []string{"v", "a~b", "c#d"}},
	} {
		got, err := parseCall(text)
		if err != nil || !slices.Equal(got.args, want.args) || got.stdin != want.stdin || got.stdout != want.stdout {
			t.Errorf("%s: got %+v, %v, want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "v | head", "v $x", `v "$x"`, "v 'a", `v a\`, "v <", "v < > a", "v a; v b", "v *.zst", "v # why"} {
		if got, err := parseCall(text); err == nil {
			t.Errorf("%s: got %+v, want an error", text, got)
		}
	}
}

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		want, got string
		ok        bool
	}{
		{"a\nb", "a\nb", true},
		{"a\nb", "a\nb\nc", false},
		{"a\n...", "a\nb\nc", true},
		{"a\n...", "a", true},
		{"a\n...\nc", "a\nb\nb\nc", true},
		{"...\nc\n...", "a\nb", false},
		{"took ... s (1)", "took 0.25 s (1)", true},
		{"took ... s (1)", "took 0.25 s 1", false},
		{"a", "", false},
		{"", "", true},
		{"a", "a  \n\n", true},
	} {
		if got := match(toLines(c.want), toLines(c.got)); got != c.ok {
			t.Errorf("match(%q, %q) = %v, want %v", c.want, c.got, got, c.ok)
		}
	}
}
