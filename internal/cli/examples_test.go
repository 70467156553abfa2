package cli

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestExamples has cobra take each example apart: the command is there and has the flags, and arguments are as many as
// it takes.
func TestExamples(t *testing.T) {
	root := newRoot(&env{stdout: new(bytes.Buffer), stderr: new(bytes.Buffer)})
	word := regexp.MustCompile(`'[^']*'|"[^"]*"|\S+`)
	unseen := map[string]bool{}
	for path := range examples {
		unseen[path] = true
	}
	var look func(c *cobra.Command)
	look = func(c *cobra.Command) {
		delete(unseen, c.CommandPath())
		if c.Runnable() && c.Example == "" && c.CommandPath() != "vramscope gpu" {
			t.Errorf("%s has no example", c.CommandPath())
		}
		for _, line := range strings.Split(c.Example, "\n") {
			_, line, ok := strings.Cut(line, "vramscope ")
			if !ok {
				continue
			}
			line, _, _ = strings.Cut(line, " #")
			line, _, _ = strings.Cut(line, " && ")
			var args []string
			for _, a := range word.FindAllString(line, -1) {
				args = append(args, strings.Trim(a, `'"`))
			}
			fresh := newRoot(&env{stdout: new(bytes.Buffer), stderr: new(bytes.Buffer)})
			of, rest, err := fresh.Find(args)
			if err == nil {
				err = of.ParseFlags(rest)
			}
			if err == nil {
				err = of.ValidateArgs(of.Flags().Args())
			}
			if err != nil || of == fresh {
				t.Errorf("%s: example %q: %v", c.CommandPath(), line, err)
			}
		}
		for _, sub := range c.Commands() {
			look(sub)
		}
	}
	look(root)
	for path := range unseen {
		t.Errorf("there is no command %q", path)
	}
}
