// Package cli is the command line: a file a verb. It joins the packages and holds no logic of its own.
package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/vramscope/vramscope/allocators/driver/cuda"
	"github.com/vramscope/vramscope/internal/record"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/trace"
	"github.com/vramscope/vramscope/trace/source"
)

// Exit codes, which scripts rely on.
const (
	exitDone    = 0
	exitFailed  = 1 // a check failed
	exitUsage   = 2
	exitCorrupt = 3 // unreadable or corrupt input
	exitMissing = 4 // hardware or a library is not here
)

// version is set when the program is built for a release.
var version = "unknown"

// errFailed is a check that failed and has said so on standard output.
var errFailed = errors.New("check failed")

// exitStatus is an exit code that is not of this program's own: a signal's, or another program's. All has been
// said.
type exitStatus int

func (s exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

// usageError is a command line that makes no sense.
type usageError struct{ error }

// inputError is a file that cannot be read.
type inputError struct {
	file string
	err  error
}

func (e *inputError) Error() string { return e.file + ": " + e.err.Error() }
func (e *inputError) Unwrap() error { return e.err }

// env is the world around a command.
type env struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	redact         bool // leave out of results what tells whose a recording is
	quiet          bool // show no progress
}

// Main runs the command line and returns the exit code.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	e := &env{stdin: stdin, stdout: stdout, stderr: stderr}
	root := newRoot(e)
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.Execute()
	if err == nil {
		return exitDone
	}
	if errors.Is(err, errFailed) {
		return exitFailed
	}
	if code := exitStatus(0); errors.As(err, &code) {
		return int(code)
	}
	fmt.Fprintf(stderr, "vramscope: %s\n", oneLine(err.Error()))
	var in *inputError
	switch {
	case errors.As(err, &in):
		return exitCorrupt
	case errors.As(err, new(*os.PathError)), errors.As(err, new(outputError)):
		return exitCorrupt
	case errors.As(err, new(*cuda.Missing)), errors.As(err, new(*cuda.Error)), errors.As(err, new(*record.Missing)):
		return exitMissing
	}
	return exitUsage
}

// oneLine keeps an error on one line, whatever it quotes.
func oneLine(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' }), " ")
}

func newRoot(e *env) *cobra.Command {
	root := &cobra.Command{
		Use:           "vramscope VERB FILE...",
		Short:         "What held the GPU's memory, what was lost, and what would have made it fit",
		Long:          rootHelp,
		Version:       version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownVerb(c, args[0])
			}
			return c.Help()
		},
	}
	root.PersistentPreRun = func(c *cobra.Command, _ []string) {
		f := c.Flags().Lookup("quiet")
		e.quiet = f != nil && f.Value.String() == "true"
	}
	root.SuggestionsMinimumDistance = 2
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w; see %s --help", err, c.CommandPath())}
	})
	root.PersistentFlags().BoolVar(&e.redact, "redact", false, "leave folders of files, and what else tells whose a recording is, out of results")
	root.AddCommand(newInfo(e), newAnalyze(e), newReport(e), newVerify(e), newReplay(e), newFit(e), newTune(e), newOOM(e), newLintConf(e), newDiff(e), newCheck(e), newConvert(e), newFleet(e), newGPU(e), newRecord(e))
	addExamples(root)
	return root
}

const rootHelp = `vramscope reads a recording of GPU memory, after the run is over, and says what held
the memory, what fragmentation cost, and what other settings would have done: it replays
the same allocations through models of real allocators. It needs no GPU and no Python,
and it never executes anything that a file contains.`

func unknownVerb(c *cobra.Command, verb string) error {
	text := fmt.Sprintf("there is no verb %q", verb)
	if _, err := os.Stat(verb); err == nil {
		return usageError{fmt.Errorf("%s; to look at that file: vramscope analyze %s", text, verb)}
	}
	if near := c.SuggestionsFor(verb); len(near) > 0 {
		return usageError{fmt.Errorf("%s; did you mean %s?", text, strings.Join(near, ", "))}
	}
	return usageError{fmt.Errorf("%s; see vramscope --help", text)}
}

// open reads a file for a verb.
func (e *env) open(file string) (*trace.Trace, error) {
	bar := newBar(e.stderr, e.quiet, "reading")
	t, err := source.Open(file, source.Options{Stdin: e.stdin, Progress: bar.bytes})
	bar.clear()
	if err != nil {
		name := file
		if file == "-" {
			name = "standard input"
		}
		return nil, &inputError{name, err}
	}
	if e.redact {
		report.Redact(t)
	}
	return t, nil
}

// label is what a result calls a file.
func (e *env) label(file string) string {
	if e.redact {
		return filepath.Base(file)
	}
	return file
}

// oneFile wants exactly one argument.
func oneFile(_ *cobra.Command, args []string) error {
	switch len(args) {
	case 0:
		return usageError{errors.New("which file? give one, or - for standard input")}
	case 1:
		return nil
	}
	return usageError{fmt.Errorf("one file at a time, not %d", len(args))}
}

func someFiles(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usageError{errors.New("which files? give at least one, or - for standard input")}
	}
	return nil
}
