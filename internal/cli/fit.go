package cli

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/trace"
)

func newFit(e *env) *cobra.Command {
	var (
		out          output
		device       int
		confs, names []string
		recorded     sizeFlag
	)
	c := &cobra.Command{
		Use:   "fit FILE",
		Short: "The smallest memory in which a recording finishes",
		Long: `Finds, by replaying the requests of a recording, the least memory in which they are all
served: of what the device can give the allocator (memory), and of what the process allows
itself (own limit, set_per_process_memory_fraction), to 2 MiB. An allocator that finishes
in one size may fail in a larger one; sizes above the least are tried too, and where that
happens it is said. The range is over what no recording tells, as in replay.

What else needs memory of the device is not in it: the CUDA context, other libraries,
other processes. A recording that ends where it ran out of memory is the beginning of a
run, and the figures hold for that beginning.`,
		Args: oneFile,
		RunE: func(c *cobra.Command, args []string) error {
			if err := out.check(args...); err != nil {
				return err
			}
			specs, err := parseConfs(confs)
			if err != nil {
				return err
			}
			models, err := modelNames(names, len(confs) > 0)
			if err != nil {
				return err
			}
			t, err := e.open(args[0])
			if err != nil {
				return err
			}
			d, err := pickReplayable(t, device)
			if err != nil {
				return &inputError{args[0], err}
			}
			bar := newBar(e.stderr, out.quiet, "replaying")
			r := report.Fit(e.label(args[0]), t, d, report.FitOptions{Models: models, Settings: specs, RecordedLimit: recorded.or(-1), Progress: bar.show})
			bar.clear()
			return out.result(e.stdout, r, 0)
		},
	}
	out.flags(c)
	f := c.Flags()
	f.StringArrayVar(&confs, "conf", nil, "a setting, as in PYTORCH_CUDA_ALLOC_CONF (repeatable; \"\" is the default)")
	f.StringArrayVar(&names, "allocator", nil, "an allocator of vramscope replay --list, or all (repeatable)")
	f.Var(&recorded, "recorded-limit", "what the process could reserve when it was recorded")
	f.Var(newDevice(&device), "device", "this device, not the first that has events")
	return c
}

// pickReplayable is pickDevice for a verb that needs the requests of a run, not the state at one moment.
func pickReplayable(t *trace.Trace, wanted int) (*trace.Device, error) {
	d, err := pickDevice(t, wanted)
	if err != nil {
		return nil, err
	}
	if replayable := d.Content == trace.Decisions || d.Content == trace.Requests; !replayable || d.Events.Len() == 0 {
		return nil, fmt.Errorf("this file has no requests of device %d to replay%s", d.Index, report.KindAndInstead(&t.Source))
	}
	return d, nil
}
