package docs

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write what the commands print into the documents; read the difference before you commit it")

// root is the top of the repository, from this package's folder.
const root = "../.."

// TestExamples runs the commands that each document shows, in the order in which it shows them.
func TestExamples(t *testing.T) {
	vramscope := program(t)
	for _, file := range documents(t) {
		t.Run(file, func(t *testing.T) {
			path, err := filepath.Abs(filepath.Join(root, file))
			if err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(string(text), "\n")
			enterFolder(t)
			changes, faults := check(vramscope, commands(lines))
			for _, f := range faults {
				t.Errorf("%s:%s", file, f)
			}
			if !*update {
				for _, c := range changes {
					t.Errorf("%s:%s\n(go test ./internal/docs -update puts what is printed into the document)", file, c.why)
				}
			} else if len(changes) > 0 {
				if err := os.WriteFile(path, []byte(strings.Join(apply(lines, changes), "\n")), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// A change replaces the lines [first, first+drop) of a document with what a command really printed.
type change struct {
	first, drop int
	lines       []string
	why         string // for the reader, from the number of the command's line on
}

// apply makes changes, which are in ascending order.
func apply(lines []string, changes []change) []string {
	out := slices.Clone(lines)
	for _, c := range slices.Backward(changes) {
		out = slices.Replace(out, c.first, c.first+c.drop, c.lines...)
	}
	return out
}

// check runs the commands of one document. It gives the outputs that differ, and what no change of the
// output would mend, each with the number of its line. A command must succeed, unless "$ echo $?" below it
// shows its exit status.
func check(vramscope mainFunc, list []command) (changes []change, faults []string) {
	status, shown := 0, false
	for i, c := range list {
		var got []string
		switch name, _, _ := strings.Cut(c.text, " "); {
		case name == "vramscope", name == "bin/vramscope":
			out, code, err := execute(vramscope, c.text)
			if err != nil {
				faults = append(faults, fmt.Sprintf("%d: %s: %v", c.line, c.text, err))
				continue
			}
			got, status = toLines(out), code
			shown = i+1 < len(list) && list[i+1].text == "echo $?"
			if status != 0 && !shown {
				faults = append(faults, fmt.Sprintf("%d: %s: exit status %d\n%s", c.line, c.text, status, out))
				continue
			}
		case c.text == "echo $?" && shown:
			got = []string{strconv.Itoa(status)}
		default:
			continue // make, go, git: not ours to run
		}
		want := toLines(strings.Join(c.output, "\n"))
		if match(want, got) {
			continue
		}
		changes = append(changes, change{c.first, len(want), got, fmt.Sprintf("%d: $ %s\nprints\n%s\nthe document shows\n%s",
			c.line, c.text, strings.Join(got, "\n"), strings.Join(want, "\n"))})
	}
	return changes, faults
}

// execute runs one command line and gives what a terminal would show, and the exit status.
func execute(vramscope mainFunc, text string) (shown string, status int, err error) {
	c, err := parseCall(text)
	if err != nil {
		return "", 0, err
	}
	var stdin io.Reader = strings.NewReader("")
	if c.stdin != "" {
		f, err := os.Open(c.stdin)
		if err != nil {
			return "", 0, err
		}
		defer f.Close()
		stdin = f
	}
	var terminal, redirected bytes.Buffer
	stdout := io.Writer(&terminal)
	if c.stdout != "" {
		stdout = &redirected
	}
	status = vramscope(c.args[1:], stdin, stdout, &terminal)
	if c.stdout != "" {
		err = os.WriteFile(c.stdout, redirected.Bytes(), 0o644)
	}
	return terminal.String(), status, err
}

// enterFolder makes the working directory one that looks like the top of the repository to a reader who
// follows a document, and takes what the commands write.
func enterFolder(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"testdata", "examples", "docs"} {
		target, err := filepath.Abs(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(target); err != nil {
			continue
		}
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Skipf("no symbolic links here: %v", err)
		}
	}
	t.Setenv("NO_COLOR", "1")
	t.Chdir(dir)
}

// TestCheck runs the checker on a program that is known.
func TestCheck(t *testing.T) {
	echo := func(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
		if args[0] == "fail" {
			fmt.Fprintln(stderr, "vramscope: no")
			return 3
		}
		fmt.Fprintln(stdout, strings.Join(args, "|"))
		return 0
	}
	t.Chdir(t.TempDir())
	document := strings.Split("```\n$ vramscope a 'b c'\na|b c\n$ make x\nwhatever\n$ vramscope fail\nvramscope: no\n$ echo $?\n3\n$ vramscope x > f\n```", "\n")
	if changes, faults := check(echo, commands(document)); len(changes) != 0 || len(faults) != 0 {
		t.Errorf("a right document: %+v %q", changes, faults)
	}
	if b, err := os.ReadFile("f"); err != nil || string(b) != "x\n" {
		t.Errorf("redirected: %q, %v", b, err)
	}
	for text, want := range map[string]string{
		"```\n$ vramscope a\nb\n```":                    "2: $ vramscope a\nprints\na\n",
		"```\n$ vramscope fail\nvramscope: no\n```":     "2: vramscope fail: exit status 3\n",
		"```\n$ vramscope fail\n...\n$ echo $?\n0\n```": "4: $ echo $?\nprints\n3\n",
		"\n```\n$ vramscope a | head\n```":              "3: vramscope a | head: '|'",
		"```\n$ vramscope a < missing\n```":             "2: vramscope a < missing: open missing",
	} {
		changes, faults := check(echo, commands(strings.Split(text, "\n")))
		for _, c := range changes {
			faults = append(faults, c.why)
		}
		if len(faults) != 1 || !strings.HasPrefix(faults[0], want) {
			t.Errorf("%q: got %q, want %q", text, faults, want)
		}
	}
}

func TestApply(t *testing.T) {
	old := []string{"```", "$ vramscope a", "wrong", "wrong", "", "$ vramscope b", "```", "end"}
	want := []string{"```", "$ vramscope a", "a", "", "$ vramscope b", "b", "```", "end"}
	changes := []change{{2, 2, []string{"a"}, ""}, {6, 0, []string{"b"}, ""}}
	if got := apply(old, changes); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
