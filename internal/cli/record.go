package cli

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/vramscope/vramscope/internal/record"
	"github.com/vramscope/vramscope/report"
)

func newRecord(e *env) *cobra.Command {
	var (
		file   string
		every  time.Duration
		device int
		quiet  bool
	)
	c := &cobra.Command{
		Use:   "record [flags] -- COMMAND [ARG...]",
		Short: "Sample the GPUs' memory while a command runs, as a log for info and analyze --nvml",
		Long: `Runs a command and samples the memory of the GPUs and of each process on them meanwhile.
Signals are passed on to it, and its exit code is returned. The log is written as it grows,
so that it is there whatever happens; vramscope info reads it, and vramscope analyze
SNAPSHOT --nvml LOG holds it against a snapshot of the same run.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{errors.New("which command? write it behind --, as in: vramscope record -- python train.py")}
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if every < time.Millisecond || every > time.Hour {
				return usageError{fmt.Errorf("--interval %v: give something between 1ms and 1h", every)}
			}
			if file == "" || file == "-" {
				return usageError{errors.New("-o: the log needs a file, standard output is the command's")}
			}
			m, err := record.Open()
			if err != nil {
				return err
			}
			return runRecorded(e, m, args, file, every, device, quiet)
		},
	}
	f := c.Flags()
	f.SetInterspersed(false)
	f.StringVarP(&file, "output", "o", "vramscope-record.csv", "write the log to this `file`")
	f.DurationVar(&every, "interval", 20*time.Millisecond, "how often to look")
	f.Var(newDevice(&device), "device", "only this device")
	f.BoolVarP(&quiet, "quiet", "q", false, "say nothing at the end")
	return c
}

// runRecorded runs a command over a meter.
func runRecorded(e *env, m *record.Meter, argv []string, file string, every time.Duration, device int, quiet bool) error {
	defer m.Close()
	if device >= 0 {
		if err := m.Only(device); err != nil {
			return err
		}
	}
	log, err := os.Create(file)
	if err != nil {
		return outputError{fmt.Errorf("%s: cannot be written: %w", file, reason(err))}
	}
	code, s, err := record.Run(argv, [3]any{e.stdin, e.stdout, e.stderr}, m, every, log)
	if closing := log.Close(); err == nil {
		err = closing
	}
	if err != nil {
		fmt.Fprintf(e.stderr, "vramscope: %s\n", oneLine(err.Error()))
	} else if !quiet {
		fmt.Fprintf(e.stderr, "vramscope: %s\n", recorded(m, &s, file))
	}
	if s.Failed > 0 {
		fmt.Fprintf(e.stderr, "vramscope: %d readings failed: %s\n", s.Failed, oneLine(s.Error.Error()))
	}
	if code != 0 {
		return exitStatus(code)
	}
	return nil
}

// recorded says what was.
func recorded(m *record.Meter, s *record.Summary, file string) string {
	var peaks []string
	for i, d := range m.Devices {
		if s.Peak[i] >= 0 {
			peaks = append(peaks, fmt.Sprintf("%s on device %d", report.Bytes(s.Peak[i]), d.Index))
		}
	}
	text := fmt.Sprintf("%s: %s samples in %s", file, report.Count(s.Samples), report.Span(s.Elapsed))
	if len(peaks) > 0 {
		text += ", at most " + strings.Join(peaks, ", ") + " in use"
	}
	return text
}
