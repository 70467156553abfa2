package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/vramscope/vramscope/allocators/caching/config"
	"github.com/vramscope/vramscope/report"
)

func newLintConf(e *env) *cobra.Command {
	var (
		out   output
		torch string
	)
	c := &cobra.Command{
		Use:   "lint-conf STRING",
		Short: "What PyTorch makes of an allocator setting: what it refuses, ignores, or takes otherwise",
		Long: `Reads the value of PYTORCH_CUDA_ALLOC_CONF (or PYTORCH_ALLOC_CONF) as PyTorch does and
says what becomes of each part: misspelt, refused, ignored, contradicted, without effect,
known to break something. A whole line that sets the variable (export …, ENV …,
os.environ[…] = …) is read too, and then the variable's name and the place are judged
as well. The rules differ between versions; --torch says which one is meant.
Exit code 1 if PyTorch would raise, or would not do a part of what is written.`,
		Args: func(_ *cobra.Command, args []string) error {
			switch len(args) {
			case 0:
				return usageError{errors.New(`which setting? give its text in quotes, such as "expandable_segments:True", or - for standard input`)}
			case 1:
				return nil
			}
			return usageError{fmt.Errorf("one setting at a time, not %d words: put it in quotes", len(args))}
		},
		RunE: func(c *cobra.Command, args []string) error {
			if err := out.check(); err != nil {
				return err
			}
			version := config.DefaultVersion
			if torch != "" {
				var err error
				if version, err = config.ParseVersion(torch); err != nil {
					return usageError{fmt.Errorf("--torch: %w", err)}
				}
			}
			text := args[0]
			if text == "-" {
				data, err := io.ReadAll(io.LimitReader(e.stdin, 1<<20))
				if err != nil {
					return &inputError{"standard input", err}
				}
				text = strings.TrimRight(string(data), "\r\n")
			}
			l := report.LintSetting(text, version)
			err := out.result(e.stdout, l, 0)
			if err == nil && !l.Passed() {
				err = errFailed
			}
			return err
		},
	}
	out.flags(c)
	c.Flags().StringVar(&torch, "torch", "", "the `version` of PyTorch, as torch.__version__ prints it (default "+config.DefaultVersion.String()+")")
	return c
}
