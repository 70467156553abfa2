package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/vramscope/vramscope/report"
)

func newDiff(e *env) *cobra.Command {
	var (
		out          output
		device, rows int
	)
	c := &cobra.Command{
		Use:   "diff A B",
		Short: "What grew, shrank, came and went between two recordings, by call stack, and why",
		Long: `Compares two recordings: first the totals, then by call stack what each held when most was
allocated. Stacks are matched by function and file before line, so an edited file does
not make everything new. Settings that differ are named, and replaying the first run's
requests under the second's settings tells what they account for. Where both runs have
steps their peaks are compared step by step. --format markdown is for a pull request.`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) < 2:
				return usageError{errors.New("which two files? give the earlier one first: vramscope diff before.pickle after.pickle")}
			case len(args) > 2:
				return usageError{fmt.Errorf("two files at a time, not %d", len(args))}
			case args[0] == "-" && args[1] == "-":
				return usageError{errors.New("standard input has one file at most")}
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if err := out.check(args...); err != nil {
				return err
			}
			a, err := e.open(args[0])
			if err != nil {
				return err
			}
			b, err := e.open(args[1])
			if err != nil {
				return err
			}
			d, err := report.Compare(e.label(args[0]), a, e.label(args[1]), b, report.DiffOptions{Device: device})
			if err != nil {
				return &inputError{args[0] + ", " + args[1], err}
			}
			return out.result(e.stdout, d, rows)
		},
	}
	out.flags(c)
	f := c.Flags()
	f.Var(newDevice(&device), "device", "only this device")
	f.IntVar(&rows, "rows", 10, "rows of the table of stacks")
	return c
}
