package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/vramscope/vramscope/report"
)

// output is how a verb's result is to be written.
type output struct {
	format  string
	json    bool
	file    string
	quiet   bool
	noColor bool
	tree    bool // of calls, where there is one
	verb    *cobra.Command
}

func (o *output) flags(c *cobra.Command) {
	f := c.Flags()
	o.verb = c
	f.StringVar(&o.format, "format", "text", "text, json or markdown")
	f.BoolVar(&o.json, "json", false, "short for --format json")
	f.StringVarP(&o.file, "output", "o", "", "write to this `file`, whole or not at all")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "say nothing; the exit code is the answer")
	f.BoolVar(&o.noColor, "no-color", false, "no colour; NO_COLOR does the same")
}

// check makes sense of the flags. The output must not be one of the inputs.
func (o *output) check(inputs ...string) error {
	if err := unread("-o", o.file, inputs...); err != nil {
		return err
	}
	if o.json {
		if o.verb.Flags().Changed("format") && o.format != "json" {
			return usageError{fmt.Errorf("--json and --format %s contradict each other", o.format)}
		}
		o.format = "json"
	}
	switch o.format {
	case "text", "json", "markdown":
		return nil
	case "md":
		o.format = "markdown"
		return nil
	}
	return usageError{fmt.Errorf("--format %s: there are text, json and markdown", o.format)}
}

// unread sees to it that the file to be written that a flag names is none of the inputs.
func unread(flag, file string, inputs ...string) error {
	for _, in := range inputs {
		if sameFile(file, in) {
			return usageError{fmt.Errorf("%s %s: this is the file that is read; it would be lost", flag, file)}
		}
	}
	return nil
}

// style is how text may look where it goes to.
func (o *output) style(w io.Writer) report.Style {
	s := report.Style{Markdown: o.format == "markdown"}
	if o.format == "text" && o.file == "" && isTerminal(w) {
		s.Color = !o.noColor && os.Getenv("NO_COLOR") == ""
		s.Width = terminalWidth(w)
	}
	return s
}

// leastWidth is how many columns text is broken for on a terminal that has fewer.
const leastWidth = 40

// terminalWidth is how many columns a terminal has, 0 if nobody knows.
func terminalWidth(w io.Writer) int {
	n := 0
	if f, ok := w.(*os.File); ok {
		n, _ = columnsOf(f)
	}
	if n == 0 {
		n, _ = strconv.Atoi(os.Getenv("COLUMNS"))
	}
	if n <= 0 {
		return 0
	}
	return max(n, leastWidth)
}

// result is what a verb found.
type result interface {
	WriteJSON(w io.Writer) error
	WriteText(w io.Writer, style report.Style) error
}

// result writes what was found in the form that is asked for; rows is how long tables may be, 0 for as long as
// they are.
func (o *output) result(stdout io.Writer, r result, rows int) error {
	return o.write(stdout, func(w io.Writer) error {
		if o.format == "json" {
			return r.WriteJSON(w)
		}
		style := o.style(stdout)
		style.Rows, style.Tree = rows, o.tree
		return r.WriteText(visible{w}, style)
	})
}

func sameFile(a, b string) bool {
	if a == "" || b == "" || a == "-" || b == "-" {
		return false
	}
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// isTerminal says whether somebody looks at what is written; /dev/null is no terminal.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, ok = columnsOf(f)
	return ok && os.Getenv("TERM") != "dumb"
}

// outputError is a result that could not be written.
type outputError struct{ error }

// write makes the result and puts it where it belongs. A file is only ever replaced by a whole one.
func (o *output) write(stdout io.Writer, render func(io.Writer) error) error {
	if o.file == "" || o.file == "-" {
		if o.quiet {
			return nil
		}
		var b bytes.Buffer
		if err := render(&b); err != nil {
			return err
		}
		if _, err := stdout.Write(b.Bytes()); err != nil {
			return outputError{fmt.Errorf("standard output: %w", err)}
		}
		return nil
	}
	if st, err := os.Stat(o.file); err == nil && !st.Mode().IsRegular() {
		return o.into(render)
	}
	err := o.replace(render)
	if errors.As(err, new(exitStatus)) {
		return err
	}
	if err != nil {
		return outputError{fmt.Errorf("%s: cannot be written: %w", o.file, reason(err))}
	}
	return nil
}

// replace writes a new file beside the old one, if there is one, and puts it in its place. A link stays one, and
// who may read the old file may read the new one. A signal to end leaves the old one, and nothing beside it.
func (o *output) replace(render func(io.Writer) error) error {
	name := o.file
	if real, err := filepath.EvalSymlinks(name); err == nil {
		name = real
	}
	old, err := os.OpenFile(name, os.O_WRONLY, 0)
	mode := fs.FileMode(0)
	switch {
	case err == nil:
		if st, err := old.Stat(); err == nil {
			mode = st.Mode().Perm()
		}
		old.Close()
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	f, err := createBeside(name)
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	ctx, stop := untilSignal()
	err = render(endingWriter{f, ctx})
	if end := stop(); end != nil {
		err = end
	}
	if err == nil && mode != 0 {
		err = f.Chmod(mode)
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}

// createBeside makes a new file in the folder of another, that everybody may read who may read new files there.
func createBeside(name string) (*os.File, error) {
	for {
		beside := filepath.Join(filepath.Dir(name), fmt.Sprintf(".%s.%08x", filepath.Base(name), rand.Uint32()))
		f, err := os.OpenFile(beside, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
}

// into writes to what is no regular file, such as a pipe or /dev/null: that is written to, and never replaced.
func (o *output) into(render func(io.Writer) error) error {
	f, err := os.OpenFile(o.file, os.O_WRONLY, 0)
	if err == nil {
		err = render(f)
		if e := f.Close(); err == nil {
			err = e
		}
	}
	if err != nil {
		return outputError{fmt.Errorf("%s: cannot be written: %w", o.file, reason(err))}
	}
	return nil
}

// reason is the operating system's, without the names of temporary files.
func reason(err error) error {
	switch e := err.(type) {
	case *os.PathError:
		return e.Err
	case *os.LinkError:
		return e.Err
	}
	return err
}
