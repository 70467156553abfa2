package cli

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/vramscope/vramscope/allocators/caching/config"
	"github.com/vramscope/vramscope/report"
)

func newTune(e *env) *cobra.Command {
	var (
		out                   output
		room                  roomFlags
		device, top, settings int
		torch                 string
	)
	c := &cobra.Command{
		Use:   "tune FILE",
		Short: "The settings of PyTorch's allocator worth trying, ranked, with what each costs",
		Long: `Searches the settings that change what PyTorch's allocator reserves (expandable segments,
max_split_size_mb, roundup_power2_divisions, garbage_collection_threshold under a limit,
large_segment_size_mb, max_non_split_rounding_mb) by replaying the recording under each, on
all cores. The result is ranked by the peak reserved, then by calls of the device. Nothing
is recommended that saves less than is uncertain.

Without --limit or --memory the recording is replayed in the memory that it ran in, as far
as it tells: without a limit, if memory was never refused.`,
		Args: oneFile,
		RunE: func(c *cobra.Command, args []string) error {
			if err := out.check(args...); err != nil {
				return err
			}
			if top < 1 || settings < 1 {
				return usageError{fmt.Errorf("--top %d, --settings %d: give at least 1", top, settings)}
			}
			version := config.DefaultVersion
			if torch != "" {
				var err error
				if version, err = config.ParseVersion(torch); err != nil {
					return usageError{fmt.Errorf("--torch: %w", err)}
				}
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
			r := report.TuneSettings(e.label(args[0]), t, d, report.TuneOptions{
				Limit: room.limit.or(-1), Memory: room.memory.or(0), RecordedLimit: room.before(),
				Settings: settings, Top: top, Version: version, Progress: bar.show,
			})
			bar.clear()
			return out.result(e.stdout, r, 0)
		},
	}
	out.flags(c)
	room.replayedIn(c)
	f := c.Flags()
	f.Var(newDevice(&device), "device", "this device, not the first that has events")
	f.IntVar(&top, "top", 8, "how many settings to show")
	f.IntVar(&settings, "settings", 64, "how many settings to try at most")
	f.StringVar(&torch, "torch", "", "the `version` of PyTorch, as torch.__version__ prints it (default "+config.DefaultVersion.String()+")")
	return c
}
