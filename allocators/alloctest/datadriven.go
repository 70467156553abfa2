package alloctest

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/vramscope/vramscope/allocators"
)

// Args are the settings that a script's "new" command gives.
type Args struct {
	t   *testing.T
	cmd *datadriven.TestData
}

// Size is the setting of the name, in bytes; 0 if it is not given.
func (a Args) Size(name string) int64 {
	text := a.Text(name)
	if text == "" {
		return 0
	}
	n, err := ParseSize(text)
	if err != nil {
		a.cmd.Fatalf(a.t, "%s: %v", name, err)
	}
	return n
}

// Flag reports whether the setting is there.
func (a Args) Flag(name string) bool { return a.cmd.HasArg(name) }

// Text is the setting's text; empty if it is not given.
func (a Args) Text(name string) string {
	var text string
	if a.cmd.HasArg(name) {
		a.cmd.ScanArgs(a.t, name, &text)
	}
	return text
}

// DataDriven runs a file of scripts in the format of cockroachdb/datadriven, whose expected output states
// what the modelled program does, worked out by hand from its documentation or source. Commands:
//
//	new [capacity=SIZE] [setting=value]…   a fresh model over a fresh device
//	run                                    operations as in a Script, one a line
//	stats                                  what is counted
//	peak                                   how Reserved was used at its peak
//
// run prints a line for each malloc: its block, where it is, its size. Places are written as a letter
// for the driver's allocation, in the order in which they were made, and the offset in it.
func DataDriven(t *testing.T, path string, model func(allocators.Driver, Args) allocators.Allocator) {
	t.Helper()
	var (
		driver *Driver
		judge  *Judge
		opts   = Options{KeepsMemory: true, Streams: true}
	)
	datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
		if d.Cmd == "new" {
			args := Args{t, d}
			driver = NewDriver(args.Size("capacity"))
			judge = NewJudge(model(driver, args), driver, opts)
			judge.want.Reserved = driver.Held
			return ""
		}
		if judge == nil {
			d.Fatalf(t, "%s before new", d.Cmd)
		}
		switch d.Cmd {
		case "run":
			script, err := ParseScript(d.Input)
			if err != nil {
				d.Fatalf(t, "%v", err)
			}
			return play(judge, script)
		case "stats":
			s := judge.model.Stats()
			return fmt.Sprintf("requested %s allocated %s active %s reserved %s (peak %s)\ndevice allocs %d frees %d retries %d ooms %d\n",
				FormatSize(s.Requested.Current), FormatSize(s.Allocated.Current), FormatSize(s.Active.Current),
				FormatSize(s.Reserved.Current), FormatSize(s.Reserved.Peak),
				s.DeviceAllocs, s.DeviceFrees, s.Retries, s.OOMs)
		case "peak":
			f := judge.model.Stats().AtPeak
			return fmt.Sprintf("stranded %s cached %s rounding %s pending %s largest %s\n", FormatSize(f.Stranded),
				FormatSize(f.Cached), FormatSize(f.Rounding), FormatSize(f.Pending), FormatSize(f.Largest))
		}
		d.Fatalf(t, "no such command: %s", d.Cmd)
		return ""
	})
}

func play(j *Judge, script Script) string {
	var out strings.Builder
	for _, op := range script {
		var err error
		switch op.Kind {
		case Malloc:
			err = j.Malloc(allocators.Request{Block: op.Block, Size: op.Size, Stream: op.Stream})
			if err == nil {
				addr, size, _ := j.model.Block(op.Block)
				fmt.Fprintf(&out, "%d: %s %s\n", op.Block, j.driver.Name(addr), FormatSize(size))
			}
		case Complete:
			err = j.Complete(op.Block)
		case EmptyCache:
			err = j.EmptyCache()
		default:
			err = j.Free(op.Block, op.Kind == FreePending)
		}
		var oom *allocators.OOM
		if errors.As(err, &oom) {
			fmt.Fprintf(&out, "%d: out of memory, %s tried, largest free %s\n", op.Block, FormatSize(oom.Tried), FormatSize(oom.LargestFree))
		} else if err != nil {
			fmt.Fprintf(&out, "%s: %v\n", strings.TrimSpace(Script{op}.String()), err)
		}
	}
	return out.String()
}
