package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/vramscope/vramscope/report"
)

func newAnalyze(e *env) *cobra.Command {
	var (
		out          output
		room         roomFlags
		device, rows int
		from, to     string
		noReplay     bool
		logs         []string
		offset       time.Duration
		step, at     string
		rules        []string
		rulesFile    string
		tree         bool
	)
	c := &cobra.Command{
		Use:   "analyze FILE",
		Short: "Who held the memory, what fragmentation cost, why it ran out, what would have helped",
		Long: `Who holds the memory at the peak and at the end, by the line of code that allocated it;
what was reserved and not in use, and what kept it; each out-of-memory event with its
arithmetic; and, tried by replaying, what would have helped.`,
		Args: oneFile,
		RunE: func(c *cobra.Command, args []string) error {
			if err := out.check(args...); err != nil {
				return err
			}
			if rows < 0 {
				return usageError{fmt.Errorf("--rows %d: give a number of rows, or 0 for ten", rows)}
			}
			named, err := stepPattern(step)
			if err != nil {
				return err
			}
			t, err := e.open(args[0])
			if err != nil {
				return err
			}
			if err := report.CheckStep(t, named); err != nil {
				return usageError{fmt.Errorf("%s: %w", args[0], err)}
			}
			o := report.Options{Limit: room.limit.or(-1), Memory: room.memory.or(0), Device: device, Replay: !noReplay, Step: named}
			if o.Rules, err = categoryRules(rules, rulesFile); err != nil {
				return err
			}
			if device >= 0 || from != "" || to != "" || at != "" {
				d, err := pickDevice(t, device)
				if err != nil {
					return &inputError{args[0], err}
				}
				o.Device = d.Index
				if o.From, o.To, err = eventRange(d, from, to); err != nil {
					return usageError{err}
				}
				if o.At, err = instantAt(d, at); err != nil {
					return usageError{err}
				}
			}
			a := report.Analyze(e.label(args[0]), t, o)
			for _, log := range logs {
				l, err := e.open(log)
				if err != nil {
					return err
				}
				if err := a.AddLog(e.label(log), l, report.LogOptions{Offset: offset, HasOffset: c.Flags().Changed("nvml-offset")}); err != nil {
					return &inputError{log, err}
				}
			}
			out.tree = tree
			return out.result(e.stdout, a, rows)
		},
	}
	out.flags(c)
	room.recordedIn(c)
	f := c.Flags()
	f.Var(newDevice(&device), "device", "only this device")
	f.IntVar(&rows, "rows", 10, "rows of a table")
	f.StringVar(&from, "from", "", "look for peaks from this event on (a number, or a time such as +2.5s)")
	f.StringVar(&to, "to", "", "look for peaks up to this event")
	f.StringVar(&at, "at", "", "look at the instant after this event as well (a number, or a time such as +2.5s)")
	f.StringArrayVar(&rules, "category", nil, "`NAME=REGEX`: blocks whose stack or annotation matches are of this category (repeatable, the first counts)")
	f.StringVar(&rulesFile, "categories", "", "a `file` of such rules in TOML: [[category]] with name and match")
	f.BoolVar(&tree, "tree", false, "show the tree of calls as well")
	f.StringVar(&step, "step", "", "annotations whose names match this regular expression are the steps")
	f.StringArrayVar(&logs, "nvml", nil, "a `log` of the device's memory to hold against it (nvidia-smi, DCGM, …; repeatable): what is outside the allocator")
	f.DurationVar(&offset, "nvml-offset", 0, "what to add to the log's times, instead of finding it")
	f.BoolVar(&noReplay, "no-replay", false, "do not try what would have helped")
	return c
}
