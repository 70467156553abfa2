package cli

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/simulate"
	"github.com/vramscope/vramscope/trace"
)

// sizeFlag is a flag that is a size; unset it has the value it was made with.
type sizeFlag struct {
	value int64
	set   bool
}

func (f *sizeFlag) String() string {
	if !f.set {
		return ""
	}
	return strconv.FormatInt(f.value, 10)
}

func (f *sizeFlag) Type() string { return "size" }

// smallest is the least size in bytes that is taken for a size of memory, and not for one whose unit is missing.
const smallest = 64 << 10

// Set parses the flag's text.
func (f *sizeFlag) Set(s string) error {
	n, err := simulate.ParseSize(s)
	if err == nil && n == 0 {
		err = errors.New("0 is no size to work with; leave the flag out for no limit")
	}
	if err != nil {
		return err
	}
	if n < smallest {
		return fmt.Errorf("%s is %d bytes, too little to be meant; write 12GiB or 500MiB", s, n)
	}
	f.value, f.set = n, true
	return nil
}

// or is the value, or another if the flag was not given.
func (f *sizeFlag) or(other int64) int64 {
	if f.set {
		return f.value
	}
	return other
}

// roomFlags are flags that say how much memory there was, or is to be.
type roomFlags struct{ limit, memory, recorded sizeFlag }

// recordedIn adds flags for the memory that a recording was made in.
func (r *roomFlags) recordedIn(c *cobra.Command) {
	c.Flags().Var(&r.limit, "limit", "what the process could reserve at most (what its memory fraction comes to, such as 12GiB)")
	c.Flags().Var(&r.memory, "memory", "what the device could give it at most")
}

// replayedIn adds flags for the memory that a replay is to have.
func (r *roomFlags) replayedIn(c *cobra.Command) {
	c.Flags().Var(&r.limit, "limit", "what the process may reserve at most (what its memory fraction comes to, such as 12GiB)")
	c.Flags().Var(&r.memory, "memory", "what the device can give at most")
	c.Flags().Var(&r.recorded, "recorded-limit", "what the process could reserve when it was recorded, if that is not --limit")
}

// before is the limit of the recorded process, negative if it is not known.
func (r *roomFlags) before() int64 { return r.recorded.or(r.limit.or(-1)) }

// eventAt finds the event that a text means: a number, or a time from the start such as +2.5s.
func eventAt(d *trace.Device, s string) (int, error) {
	n := d.Events.Len()
	if !strings.HasPrefix(s, "+") {
		i, err := strconv.Atoi(s)
		if err != nil || i < 0 {
			return 0, fmt.Errorf("%q is neither the number of an event nor a time such as +2.5s", s)
		}
		if i > n {
			return 0, fmt.Errorf("there is no event %d: this device has %d", i, n)
		}
		return i, nil
	}
	after, err := time.ParseDuration(s[1:])
	if err != nil || after < 0 {
		return 0, fmt.Errorf("%q is not a time: write +2.5s or +800ms", s)
	}
	if n == 0 {
		return 0, nil
	}
	start := d.Events.At(0).Time
	if start == 0 {
		return 0, errors.New("this recording has no times; give event numbers")
	}
	for i, e := range d.Events.All() {
		if e.Time-start >= trace.Time(after) {
			return i, nil
		}
	}
	return n, nil
}

// eventRange finds the events from one text up to and including another, either of which may be empty. The
// second number is the first behind them, 0 for the end.
func eventRange(d *trace.Device, from, to string) (first, behind int, err error) {
	n := d.Events.Len()
	if from != "" {
		if first, err = eventAt(d, from); err != nil {
			return 0, 0, err
		}
		if first >= n {
			return 0, 0, fmt.Errorf("--from %s is after the last event", from)
		}
	}
	if to != "" {
		if behind, err = eventAt(d, to); err != nil {
			return 0, 0, err
		}
		if behind = min(behind+1, n); behind <= first {
			return 0, 0, fmt.Errorf("--from %s is after --to %s", from, to)
		}
	}
	return first, behind, nil
}

// instantAt finds the instant that a text means, if it is not empty: that after the event of a number, or that at a time from
// the start, after the last event that is not later.
func instantAt(d *trace.Device, s string) (*int, error) {
	if s == "" {
		return nil, nil
	}
	i, err := eventAt(d, s)
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(s, "+") {
		after, _ := time.ParseDuration(s[1:]) // eventAt has looked at it
		for i < d.Events.Len() && d.Events.At(i).Time-d.Events.At(0).Time <= trace.Time(after) {
			i++
		}
		i--
	}
	if i >= d.Events.Len() {
		return nil, fmt.Errorf("--at %s: there is no event %d: this device has %d, the first is 0", s, i, d.Events.Len())
	}
	return &i, nil
}

// categoryRules reads the rules for categories: those of the command line come first.
func categoryRules(texts []string, file string) ([]simulate.Rule, error) {
	var rules []simulate.Rule
	for _, text := range texts {
		r, err := report.ParseRule(text)
		if err != nil {
			return nil, usageError{fmt.Errorf("--category: %w", err)}
		}
		rules = append(rules, r)
	}
	if file != "" {
		f, err := os.Open(file)
		if err != nil {
			return nil, fmt.Errorf("--categories: %w", err)
		}
		defer f.Close()
		more, err := report.ReadRules(f)
		if err != nil {
			return nil, &inputError{file, err}
		}
		rules = append(rules, more...)
	}
	if err := report.CheckRules(rules); err != nil {
		return nil, usageError{err}
	}
	return rules, nil
}

// deviceFlag is a flag that is the number of a device; unset it is -1.
type deviceFlag struct{ n *int }

func newDevice(n *int) deviceFlag {
	*n = -1
	return deviceFlag{n}
}

func (f deviceFlag) String() string {
	if f.n == nil || *f.n < 0 {
		return ""
	}
	return strconv.Itoa(*f.n)
}

func (f deviceFlag) Type() string { return "int" }

// Set parses the flag's text.
func (f deviceFlag) Set(s string) error {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		return errors.New("devices are numbered 0, 1, …")
	}
	*f.n = n
	return nil
}

// pickDevice is the device that a verb about one looks at.
func pickDevice(t *trace.Trace, wanted int) (*trace.Device, error) {
	for i := range t.Devices {
		d := &t.Devices[i]
		if wanted == d.Index || wanted < 0 && d.Events.Len() > 0 {
			return d, nil
		}
	}
	if wanted >= 0 {
		return nil, report.NoDevice(t, wanted)
	}
	return nil, fmt.Errorf("no device in this file has events%s", report.KindAndInstead(&t.Source))
}

// hasDecisions says whether any device shows what its allocator decided.
func hasDecisions(t *trace.Trace) bool {
	for i := range t.Devices {
		if t.Devices[i].Content == trace.Decisions {
			return true
		}
	}
	return len(t.Devices) == 0 && len(t.Source.Lacks) == 0
}
