package cli

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/vramscope/vramscope/report"
)

func newVerify(e *env) *cobra.Command {
	var (
		out    output
		room   roomFlags
		device int
	)
	c := &cobra.Command{
		Use:   "verify FILE",
		Short: "Whether the model of the allocator reproduces a recording, decision by decision",
		Long: `Follows the recording with the model of PyTorch's allocator and compares each decision:
where each block went, whether new memory was needed and how much, what was given back
and in which order, and the final state. Without --limit (and --memory) it takes from
the recording that memory was refused; with it, it predicts each refusal.
Exit code 1 if anything differs.`,
		Args: oneFile,
		RunE: func(c *cobra.Command, args []string) error {
			if err := out.check(args...); err != nil {
				return err
			}
			t, err := e.open(args[0])
			if err != nil {
				return err
			}
			if !hasDecisions(t) {
				return &inputError{args[0], fmt.Errorf("has no decisions of an allocator to compare with%s", report.KindAndInstead(&t.Source))}
			}
			if device >= 0 {
				if _, err := pickDevice(t, device); err != nil {
					return &inputError{args[0], err}
				}
			}
			v := report.Verify(e.label(args[0]), t, report.Options{Limit: room.limit.or(-1), Memory: room.memory.or(0), Device: device})
			err = out.result(e.stdout, v, 0)
			if err == nil && !v.Exact() {
				err = errFailed
			}
			return err
		},
	}
	out.flags(c)
	room.recordedIn(c)
	f := c.Flags()
	f.Var(newDevice(&device), "device", "only this device")
	return c
}
