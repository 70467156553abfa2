package lint

import (
	"bytes"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// maxFileBytes is how large a tracked file may be. Everybody who clones carries it for ever.
const maxFileBytes = 512 << 10

// topFolders are the folders that may stand at the top.
var topFolders = []string{
	".ci", "allocators", "cmd", "docs", "examples", "internal", "report", "simulate", "testdata", "tools", "trace",
}

// strays are what the machine that something was written on leaves in a text. The brackets keep the
// patterns from matching themselves.
var strays = []struct {
	pattern *regexp.Regexp
	why     string
}{
	{regexp.MustCompile(`(?:^|[^\w.])/(?:wor[k]|far[m])/|/\.librar[y]\b`), "a path of one machine"},
	{regexp.MustCompile(`/tmp/\w+[_.-]\w*[0-9]{3,}`), "a temporary file of one run"},
	{regexp.MustCompile(`\bshare[d]/(?:data|spec|check|record|hooks|README|design|contract)`), "a folder outside the repository"},
}

// corpus is the one mention of a folder outside that is meant: where tests look for the large corpus
// when no variable names it.
var corpus = []byte("../share" + "d/data")

// unfinished finds notes that belong in the issue tracker.
var unfinished = regexp.MustCompile(`\b(?:TOD[O]|FIXM[E]|XX[X])\b`)

// TestWords checks every tracked text for what does not belong in it.
func TestWords(t *testing.T) {
	for _, f := range repository(t) {
		report(t, checkSize(f))
		report(t, checkPlace(f))
		report(t, checkWords(f))
	}
}

func checkSize(f *sourceFile) []string {
	if len(f.text) > maxFileBytes {
		return []string{fmt.Sprintf("%s: %d KiB, more than %d: too large to keep for ever", f.path, len(f.text)>>10, maxFileBytes>>10)}
	}
	return nil
}

func checkPlace(f *sourceFile) []string {
	top, _, nested := strings.Cut(f.path, "/")
	if nested && !slices.Contains(topFolders, top) {
		return []string{fmt.Sprintf("%s: no place for it at the top; the folders there are %s", f.path, strings.Join(topFolders, ", "))}
	}
	return nil
}

// checkWords looks at texts only: a compressed recording is what a program wrote, byte for byte.
func checkWords(f *sourceFile) []string {
	if path.Base(f.path) == "go.sum" || !isText(f.text) {
		return nil
	}
	var wrong []string
	for i, line := range bytes.Split(f.text, []byte("\n")) {
		looked := line
		if mayNameCorpus(f) {
			looked = bytes.ReplaceAll(line, corpus, nil)
		}
		for _, tr := range strays {
			if m := tr.pattern.Find(looked); m != nil {
				wrong = append(wrong, fmt.Sprintf("%s:%d: %q: %s", f.path, i+1, m, tr.why))
			}
		}
		if m := unfinished.Find(line); m != nil && path.Ext(f.path) == ".go" {
			wrong = append(wrong, fmt.Sprintf("%s:%d: %s: finish it, or write it down in an issue", f.path, i+1, m))
		}
	}
	return wrong
}

// mayNameCorpus reports whether a file is one of those that look for the large corpus: tests and CI.
func mayNameCorpus(f *sourceFile) bool {
	return f.isTest() || under(f.path, ".ci") || under(f.path, "internal/fidelity") || under(f.path, "internal/corpus")
}

// isText reports whether the beginning of a file looks like text.
func isText(b []byte) bool {
	head := b[:min(len(b), 8<<10)]
	for len(head) > 0 && !utf8.RuneStart(head[len(head)-1]) {
		head = head[:len(head)-1]
	}
	if len(head) > 0 && len(head) < len(b) {
		head = head[:len(head)-1] // may be the first byte of a longer rune
	}
	return utf8.Valid(head) && !bytes.ContainsRune(head, 0)
}

// TestWordRules tests the rules themselves. The words are put together here so that this file keeps to
// its own rules.
func TestWordRules(t *testing.T) {
	slash := "/"
	for _, c := range []struct {
		path, text string
		want       int
	}{
		{"a.md", "see " + slash + "work/main", 1},
		{"a.md", slash + "work/main", 1},
		{"a.md", "network/work, /workspace/train.py, a/work/b", 0},
		{"a.md", "at " + slash + "srv/.librar" + "y/x", 1},
		{"a.md", "a.library of a library.", 0},
		{"a.md", slash + "tmp/go-build12345/x", 1},
		{"a.md", "shared" + "/data/torch", 1},
		{"a.md", "../shared" + "/data", 1},
		{"a_test.go", "package a // ../shared" + "/data", 0},
		{"a_test.go", "package a // shared" + "/data", 1},
		{".ci/run", "# ../shared" + "/data", 0},
		{"a.go", "package a // TO" + "DO later", 1},
		{"a.md", "TO" + "DO later", 0},
		{"a.bin", "\x00 " + slash + "work/main", 0},
	} {
		if got := checkWords(parse(c.path, c.text)); len(got) != c.want {
			t.Errorf("%s %q: got %q, want %d complaints", c.path, c.text, got, c.want)
		}
	}
	if got := checkPlace(parse("pkg/x.go", "package pkg\n")); len(got) != 1 {
		t.Errorf("pkg at the top: %q", got)
	}
	if got := checkPlace(parse("trace/x.go", "package trace\n")); len(got) != 0 {
		t.Errorf("trace at the top: %q", got)
	}
	if got := checkSize(parse("x.bin", strings.Repeat("x", maxFileBytes+1))); len(got) != 1 {
		t.Errorf("large file: %q", got)
	}
	if !isText([]byte(strings.Repeat("é", 8<<10))) || !isText(nil) || isText([]byte{0x28, 0xb5, 0x2f, 0xfd}) {
		t.Error("isText does not tell text from binary")
	}
}
