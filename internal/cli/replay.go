package cli

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"

	"github.com/spf13/cobra"
	"github.com/vramscope/vramscope/allocators/caching/config"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/simulate"
)

func newReplay(e *env) *cobra.Command {
	var (
		out          output
		room         roomFlags
		device       int
		confs, names []string
		list         bool
		driver       string
		edits        []string
		step         string
	)
	c := &cobra.Command{
		Use:   "replay FILE",
		Short: "The same requests through other settings, allocators and memory sizes",
		Long: `Replays the requests of a recording through models of allocators and says what they
would have reserved. --conf takes the text of PYTORCH_CUDA_ALLOC_CONF and can be given
several times; without it the recording's own settings are used. The range is over what
no recording tells: where in the process's address space memory is, and when frees that
waited for other streams complete.

--edit tries what people are told to do, by changing the requests first; several edits are
made together:

` + simulate.EditHelp + `

Steps are found from annotations, or from the pattern of the events; --step names them.`,
		Args: func(c *cobra.Command, args []string) error {
			if list {
				return nil
			}
			return oneFile(c, args)
		},
		RunE: func(c *cobra.Command, args []string) error {
			if err := out.check(args...); err != nil {
				return err
			}
			if list {
				return out.write(e.stdout, func(w io.Writer) error { return report.WriteModels(w, simulate.Models()) })
			}
			on, err := newReplayDevice(driver, room.memory.or(0))
			if err != nil {
				return err
			}
			defer on.close()
			specs, err := parseConfs(confs)
			if err != nil {
				return err
			}
			models, err := modelNames(names, len(confs) > 0)
			if err != nil {
				return err
			}
			edit, err := parseEdits(edits, step)
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
			r, err := report.Replay(e.label(args[0]), t, d, report.ReplayOptions{
				Models:   models,
				Settings: specs, Limit: room.limit.or(-1), Memory: room.memory.or(0), RecordedLimit: room.before(),
				Device:      on.device,
				EditOptions: edit,
			})
			if on.failed(err) {
				return on.error(err)
			}
			if err != nil {
				return usageError{fmt.Errorf("%s: %w", args[0], err)}
			}
			return out.result(e.stdout, r, 0)
		},
	}
	out.flags(c)
	room.replayedIn(c)
	f := c.Flags()
	f.StringArrayVar(&confs, "conf", nil, "a setting, as in PYTORCH_CUDA_ALLOC_CONF (repeatable; \"\" is the default)")
	f.StringArrayVar(&names, "allocator", nil, "an allocator of --list, or all (repeatable)")
	f.BoolVar(&list, "list", false, "list the allocators")
	f.Var(newDevice(&device), "device", "this device, not the first that has events")
	f.StringArrayVar(&edits, "edit", nil, "change the requests first, see above (repeatable)")
	f.StringVar(&step, "step", "", "annotations whose names match this `regex` are the steps")
	f.StringVar(&driver, "driver", "sim", "sim: a simulated device; cuda: a real one, the first that is here")
	return c
}

// parseEdits reads what is to be changed, and what a step is.
func parseEdits(edits []string, step string) (report.EditOptions, error) {
	named, err := stepPattern(step)
	out := report.EditOptions{Step: named}
	if err != nil {
		return out, err
	}
	for _, text := range edits {
		e, err := simulate.ParseEdit(text)
		if err != nil {
			return out, usageError{fmt.Errorf("--%w", err)}
		}
		out.Edits = append(out.Edits, e)
	}
	return out, nil
}

// stepPattern compiles --step; nil if it was not given.
func stepPattern(step string) (*regexp.Regexp, error) {
	if step == "" {
		return nil, nil
	}
	named, err := regexp.Compile(step)
	if err != nil {
		return nil, usageError{fmt.Errorf("--step: %w", err)}
	}
	return named, nil
}

// parseConfs reads the settings that were asked for.
func parseConfs(confs []string) ([]report.Setting, error) {
	var out []report.Setting
	for _, text := range confs {
		c, findings, err := config.Parse(text, config.DefaultVersion)
		if err != nil {
			return nil, usageError{fmt.Errorf("--conf %q: %w", text, err)}
		}
		if c.Backend != config.Native {
			return nil, usageError{errors.New("--conf backend: this is another allocator; see vramscope replay --list")}
		}
		out = append(out, report.Setting{Text: text, Config: c, Findings: findings})
	}
	return out, nil
}

// modelNames makes sense of --allocator: names of the list, or all. Settings are PyTorch's allocator's, so
// asking for some asks for it.
func modelNames(names []string, settings bool) ([]string, error) {
	var out []string
	for _, n := range names {
		if n == "all" {
			for _, m := range simulate.Models() {
				out = append(out, m.Name)
			}
			continue
		}
		if _, ok := simulate.FindModel(n); !ok {
			return nil, usageError{fmt.Errorf("there is no allocator %q; see vramscope replay --list", n)}
		}
		out = append(out, n)
	}
	if settings && len(out) > 0 && !slices.Contains(out, simulate.Caching) {
		out = append([]string{simulate.Caching}, out...)
	}
	return out, nil
}
