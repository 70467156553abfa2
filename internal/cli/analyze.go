package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

func newAnalyze(e *env) *cobra.Command {
	var (
		out      output
		analysis analysisFlags
		rows     int
		tree     bool
	)
	c := &cobra.Command{
		Use:   "analyze FILE",
		Short: "Who held the memory, what fragmentation cost, why it ran out, what would have helped",
		Long: `Who holds the memory at the peak and at the end, by the line of code that allocated it;
what was reserved and not in use, and what kept it; each out-of-memory event with its
arithmetic; and, tried by replaying, what would have helped.`,
		Args: oneFile,
		RunE: func(c *cobra.Command, args []string) error {
			if err := out.check(append(args, analysis.files()...)...); err != nil {
				return err
			}
			if rows < 0 {
				return usageError{fmt.Errorf("--rows %d: give a number of rows, or 0 for ten", rows)}
			}
			a, _, err := analysis.analyze(e, c, args[0])
			if err != nil {
				return err
			}
			out.tree = tree
			return out.result(e.stdout, a, rows)
		},
	}
	out.flags(c)
	analysis.flags(c)
	f := c.Flags()
	f.IntVar(&rows, "rows", 10, "rows of a table")
	f.BoolVar(&tree, "tree", false, "show the tree of calls as well")
	return c
}
