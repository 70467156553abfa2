package cli

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/vramscope/vramscope/allocators/caching/config"
	"github.com/vramscope/vramscope/allocators/driver/cuda"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/simulate"
	"github.com/vramscope/vramscope/simulate/gpu"
)

func newGPU(e *env) *cobra.Command {
	c := &cobra.Command{
		Use:   "gpu info|replay|cost",
		Short: "A real GPU: what is here, the same events against the real driver, what its calls cost",
		Args:  cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("there is no gpu %s: there are info, replay and cost", args[0])}
			}
			return c.Help()
		},
	}
	c.AddCommand(newGPUInfo(e), newGPUReplay(e), newGPUCost(e))
	return c
}

func newGPUInfo(e *env) *cobra.Command {
	var out output
	c := &cobra.Command{
		Use:   "info",
		Short: "The CUDA driver and the devices that are here, and what they can do",
		Long: `The CUDA driver and its devices: memory, virtual memory, stream-ordered pools. A context is
made on each device for a moment, as any program that uses it has one: what is free is
what is left beside it.`,
		Args: noFiles,
		RunE: func(_ *cobra.Command, _ []string) error {
			if err := out.check(); err != nil {
				return err
			}
			g, err := lookAtGPUs()
			if err != nil {
				return err
			}
			return out.result(e.stdout, g, 0)
		},
	}
	out.flags(c)
	return c
}

func lookAtGPUs() (*report.GPUs, error) {
	lib, err := cuda.Load()
	if err != nil {
		return nil, err
	}
	defer lib.Close()
	g := &report.GPUs{Release: driverRelease()}
	if g.Version, err = lib.Version(); err != nil {
		return nil, err
	}
	devices, err := lib.Devices()
	if err != nil {
		return nil, err
	}
	for _, info := range devices {
		x := report.GPU{Info: info}
		d, err := lib.Open(info.Index)
		if err == nil {
			x.Free, _, err = d.Memory()
			err = errors.Join(err, d.Close())
		}
		if err != nil {
			return nil, fmt.Errorf("device %d: %w", info.Index, err)
		}
		g.Devices = append(g.Devices, x)
	}
	return g, nil
}

// driverRelease is the version of the kernel's driver, as its file says it: the first word that is a number with
// points in it.
func driverRelease() string {
	text, err := os.ReadFile("/proc/driver/nvidia/version")
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(text), "\n")
	for _, w := range strings.Fields(line) {
		if strings.Contains(w, ".") && strings.Trim(w, "0123456789.") == "" {
			return w
		}
	}
	return ""
}

func newGPUReplay(e *env) *cobra.Command {
	var (
		out              output
		room             roomFlags
		mode, conf       string
		device, recorded int
		touch            bool
		addresses        string
	)
	var modes strings.Builder
	for _, m := range gpu.Modes() {
		fmt.Fprintf(&modes, "  %-12s%s\n", m.Mode, m.What)
	}
	c := &cobra.Command{
		Use:   "replay FILE",
		Short: "The requests of a recording against the real driver, held against the simulation",
		Long: `Makes the requests of a recording on a real GPU and says what its driver did, how long it
took, and where it did something else than the simulation under the same settings says.
No program runs: the events are those of the recording, one after the other.

` + modes.String() + `
What was taken is given back in the end, also after an interruption or when memory runs out.`,
		Args: oneFile,
		RunE: func(c *cobra.Command, args []string) error {
			if err := out.check(args...); err != nil {
				return err
			}
			if !slices.ContainsFunc(gpu.Modes(), func(m gpu.ModeHelp) bool { return string(m.Mode) == mode }) {
				return usageError{fmt.Errorf("--mode %s: there are cudamalloc, pool, caching and expandable", mode)}
			}
			if decides := mode == string(gpu.Caching) || mode == string(gpu.Expandable); !decides && (conf != "" || room.limit.set) {
				return usageError{fmt.Errorf("--conf and --limit are of PyTorch's allocator, which --mode %s does without", mode)}
			}
			if addresses != "driver" && addresses != "recorded" {
				return usageError{fmt.Errorf("--addresses %s: there are driver and recorded", addresses)}
			}
			if addresses == "recorded" && mode != string(gpu.Caching) {
				return usageError{errors.New("--addresses recorded is for --mode caching: others do the same wherever memory is")}
			}
			o := gpu.Options{Mode: gpu.Mode(mode), Limit: room.limit.or(-1), Memory: room.memory.or(0), Touch: touch}
			var text *string
			if c.Flags().Changed("conf") {
				specs, err := parseConfs([]string{conf})
				if err != nil {
					return err
				}
				o.Config, text = specs[0].Config, &conf
			}
			if err := findGPU(); err != nil {
				return err
			}
			x := &gpuReplay{env: e, quiet: out.quiet, file: args[0], recorded: recorded, device: device, limit: room.before(), conf: text, asRecorded: addresses == "recorded", options: o}
			r, code, err := x.run()
			if err != nil {
				return err
			}
			if err := out.result(e.stdout, r, 0); err != nil {
				return err
			}
			return code
		},
	}
	out.flags(c)
	f := c.Flags()
	f.StringVar(&mode, "mode", string(gpu.Caching), "who serves the requests, see above")
	f.StringVar(&conf, "conf", "", "settings as in PYTORCH_CUDA_ALLOC_CONF, instead of the recording's own")
	f.Var(&room.limit, "limit", "what the process may reserve at most (what its memory fraction comes to, such as 12GiB)")
	f.Var(&room.memory, "memory", "what may be taken on the GPU at most (default nine tenths of what is free)")
	f.Var(&room.recorded, "recorded-limit", "what the process could reserve when it was recorded, if that is not --limit")
	f.Var(newDevice(&device), "device", "the GPU to use, not the first")
	f.Var(newDevice(&recorded), "recorded-device", "this device of the recording, not the first that has events")
	f.StringVar(&addresses, "addresses", "driver", "what PyTorch's allocator breaks ties by: the driver's own, or those that memory had in the recorded process")
	f.BoolVar(&touch, "touch", false, "write to each allocation, so that memory counts that the device gives only when it is used")
	return c
}

// openGPU opens a device, the first if its number is negative.
func openGPU(device int) (*cuda.Device, func() error, error) {
	lib, err := cuda.Load()
	if err != nil {
		return nil, nil, err
	}
	dev, err := lib.Open(max(device, 0))
	if err != nil {
		lib.Close()
		return nil, nil, err
	}
	return dev, func() error {
		err := dev.Close()
		lib.Close()
		return err
	}, nil
}

// findGPU says what is missing where there is none, without making use of one.
func findGPU() error {
	lib, err := cuda.Load()
	if err == nil {
		lib.Close()
	}
	return err
}

// gpuReplay is a replay of a file on a device.
type gpuReplay struct {
	*env
	quiet            bool
	file             string
	recorded, device int // devices of the file and here, negative for the first
	limit            int64
	conf             *string // nil for the recording's own
	asRecorded       bool    // with the addresses of the recorded process
	options          gpu.Options
}

// run replays. If it is interrupted, code is the exit code of the signal, and there is still a result. The
// device comes last: what is read before it has its place in the process's address space by then, and threads are there,
// so that the driver finds the space below itself as it would in a program of its own.
func (x *gpuReplay) run() (r *report.GPUReplay, code, err error) {
	t, err := x.open(x.file)
	if err != nil {
		return nil, nil, err
	}
	d, err := pickReplayable(t, x.recorded)
	if err != nil {
		return nil, nil, &inputError{x.file, err}
	}
	cfg, _ := simulate.SettingsOf(t, config.DefaultVersion)
	follow := simulate.Follow(d, cfg, simulate.FollowOptions{Limit: x.limit})
	if x.conf == nil {
		x.options.Config = follow.Config
	}
	if x.asRecorded {
		layout, ok := follow.Requests.AsRecorded(follow.Surroundings(), simulate.WhatIf{Config: x.options.Config, Limit: x.options.Limit})
		if !ok {
			return nil, nil, usageError{fmt.Errorf("%s: --addresses recorded: they are known under the recording's own settings only, without expandable segments, and from its start", x.file)}
		}
		x.options.Layout = &layout
	}
	dev, closeAll, err := openGPU(x.device)
	if err != nil {
		return nil, nil, err
	}
	bar := newBar(x.stderr, x.quiet, "replaying")
	x.options.Each = bar.show
	ctx, stop := untilSignal()
	res, err := gpu.Replay(ctx, follow.Requests, dev, x.options)
	err = errors.Join(err, closeAll())
	code = stop()
	bar.clear()
	if err != nil {
		return nil, nil, err
	}
	r = &report.GPUReplay{File: x.label(x.file), Events: d.Events.Len(), Limit: x.options.Limit, Result: res, Notes: follow.Score.Assumed}
	c := x.options.Config
	c.Expandable = c.Expandable || x.options.Mode == gpu.Expandable
	r.Conf = c.String()
	if x.asRecorded {
		r.Notes = append(r.Notes, "PyTorch's allocator was given the addresses that memory had in the recorded process, as far as the recording tells")
	}
	if follow.Truncated {
		r.Notes = append(r.Notes, "the recording begins in the middle of a run: blocks older than it were asked for first")
	}
	return r, code, nil
}

func newGPUCost(e *env) *cobra.Command {
	var (
		out    output
		memory sizeFlag
		device int
	)
	c := &cobra.Command{
		Use:   "cost",
		Short: "How long cudaMalloc, cudaFree, and mapping and unmapping take here, by size",
		Args:  noFiles,
		RunE: func(_ *cobra.Command, _ []string) error {
			if err := out.check(); err != nil {
				return err
			}
			dev, closeAll, err := openGPU(device)
			if err != nil {
				return err
			}
			defer closeAll()
			ctx, stop := untilSignal()
			costs, err := gpu.Measure(ctx, dev, memory.or(0))
			if code := stop(); code != nil {
				return code
			}
			if err != nil {
				return err
			}
			return out.result(e.stdout, &report.GPUCost{Device: dev.Info, Costs: costs}, 0)
		},
	}
	out.flags(c)
	f := c.Flags()
	f.Var(&memory, "memory", "what may be taken at most (default nine tenths of what is free)")
	f.Var(newDevice(&device), "device", "the GPU to use, not the first")
	return c
}

// noFiles wants no arguments.
func noFiles(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("%q is one argument too many", args[0])}
	}
	return nil
}
