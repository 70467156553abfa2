package cli

import (
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/vramscope/vramscope/report"
)

// analysisFlags say how a recording is analysed.
type analysisFlags struct {
	room     roomFlags
	device   int
	from, to string
	at       string
	noReplay bool
	logs     []string
	offset   time.Duration
	step     string
	rules    []string
	ruleFile string
}

func (a *analysisFlags) flags(c *cobra.Command) {
	a.room.recordedIn(c)
	f := c.Flags()
	f.Var(newDevice(&a.device), "device", "only this device")
	f.StringVar(&a.from, "from", "", "look for peaks from this `event` on (a number, or a time such as +2.5s)")
	f.StringVar(&a.to, "to", "", "look for peaks up to this `event` (a number, or a time such as +2.5s)")
	f.StringVar(&a.at, "at", "", "look at the instant after this `event` as well (a number, or a time such as +2.5s)")
	f.StringArrayVar(&a.rules, "category", nil, "what blocks are for whose stack or annotation matches, as `NAME=REGEX` (repeatable, the first counts)")
	f.StringVar(&a.ruleFile, "categories", "", "a TOML `file` of rules like those of --category: [[category]] with name and match")
	f.StringVar(&a.step, "step", "", "annotations whose names match this `regex` are the steps")
	f.StringArrayVar(&a.logs, "nvml", nil, "a `log` of the device's memory to hold against it (nvidia-smi, DCGM, …; repeatable): what is outside the allocator")
	f.DurationVar(&a.offset, "nvml-offset", 0, "what to add to the log's times, instead of finding it")
	f.BoolVar(&a.noReplay, "no-replay", false, "do not try what would have helped")
}

// files are those that are read beside the recording.
func (a *analysisFlags) files() []string { return append(slices.Clone(a.logs), a.ruleFile) }

// analyze reads a file and analyses it as the flags say.
func (a *analysisFlags) analyze(e *env, c *cobra.Command, file string) (*report.Analysis, report.Options, error) {
	o := report.Options{Limit: a.room.limit.or(-1), Memory: a.room.memory.or(0), Device: a.device, Replay: !a.noReplay}
	var err error
	if o.Step, err = stepPattern(a.step); err != nil {
		return nil, o, err
	}
	if o.Rules, err = categoryRules(a.rules, a.ruleFile); err != nil {
		return nil, o, err
	}
	t, err := e.open(file)
	if err != nil {
		return nil, o, err
	}
	if err := report.CheckStep(t, o.Step); err != nil {
		return nil, o, usageError{fmt.Errorf("%s: %w", file, err)}
	}
	if a.device >= 0 || a.from != "" || a.to != "" || a.at != "" {
		d, err := pickDevice(t, a.device)
		if err != nil {
			return nil, o, &inputError{file, err}
		}
		o.Device = d.Index
		if o.From, o.To, err = eventRange(d, a.from, a.to); err != nil {
			return nil, o, usageError{err}
		}
		if o.At, err = instantAt(d, a.at); err != nil {
			return nil, o, usageError{err}
		}
	}
	r := report.Analyze(e.label(file), t, o)
	for _, log := range a.logs {
		l, err := e.open(log)
		if err != nil {
			return nil, o, err
		}
		if err := r.AddLog(e.label(log), l, report.LogOptions{Offset: a.offset, HasOffset: c.Flags().Changed("nvml-offset")}); err != nil {
			return nil, o, &inputError{log, err}
		}
	}
	return r, o, nil
}
