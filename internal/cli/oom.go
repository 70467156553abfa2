package cli

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/vramscope/vramscope/report/oom"
	"github.com/vramscope/vramscope/trace/source"
)

func newOOM(e *env) *cobra.Command {
	var (
		out      output
		exitCode bool
	)
	c := &cobra.Command{
		Use:   "oom [FILE]",
		Short: "What each out-of-memory message in a log means, and what to do about it",
		Long: `Reads any log, of any size, from a file or from standard input, and finds the
out-of-memory messages in it: of PyTorch, TensorFlow, JAX, vLLM, CuPy, NCCL and many more.
For each it does the subtraction that the message leaves to the reader (what is in use,
what is held unused, what is free, what is outside) and gives a verdict by fixed rules:
really too much, fragmentation, memory outside the allocator, another process, a limit,
a request that could never be met, a refusal despite free memory, numbers that cannot be
true. Copies of one message are counted once, with their ranks.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageError{fmt.Errorf("one log at a time, not %d; for several: cat %s … | vramscope oom", len(args), args[0])}
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if err := out.check(args...); err != nil {
				return err
			}
			file := "-"
			if len(args) == 1 {
				file = args[0]
			}
			r, err := e.openLog(file)
			if err != nil {
				return err
			}
			defer r.Close()
			report, unread := oom.Read(file, r)
			format := map[string]oom.Format{"text": oom.Text, "json": oom.JSON, "markdown": oom.Markdown}[out.format]
			if unread == nil && len(report.Findings) == 0 && file != "-" {
				if t, err := source.Open(file, source.Options{}); err == nil && t.Source.Format != "" {
					return usageError{fmt.Errorf("%s is no log but a recording (%s): vramscope analyze %s", file, t.Source.Format, file)}
				}
			}
			if unread == nil || len(report.Findings) > 0 {
				if err := out.write(e.stdout, func(w io.Writer) error { return report.Write(w, format) }); err != nil {
					return err
				}
			}
			if unread != nil {
				return &inputError{logName(file), unread}
			}
			if exitCode && report.Found() {
				return errFailed
			}
			return nil
		},
	}
	out.flags(c)
	c.Flags().BoolVar(&exitCode, "exit-code", false, "exit with 1 if a GPU ran out of memory")
	return c
}

// openLog opens a log; "-" is standard input.
func (e *env) openLog(file string) (io.ReadCloser, error) {
	if file == "-" {
		if f, ok := e.stdin.(*os.File); ok && isTerminal(f) {
			return nil, usageError{errors.New("which log? give a file, or send one in: program 2>&1 | vramscope oom")}
		}
		return io.NopCloser(e.stdin), nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, &inputError{file, fmt.Errorf("cannot be opened: %w", reason(err))}
	}
	if st, err := f.Stat(); err == nil && st.IsDir() {
		f.Close()
		return nil, &inputError{file, errors.New("is a folder; give a log in it")}
	}
	return f, nil
}

func logName(file string) string {
	if file == "-" {
		return "standard input"
	}
	return file
}
