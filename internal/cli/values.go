package cli

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/vramscope/vramscope/trace"
)

// parseSize reads 12GiB, 12G, 500MiB, 1.5g or plain bytes. All units are binary.
func parseSize(s string) (int64, error) {
	text := strings.TrimSpace(s)
	i := len(text)
	for i > 0 && (text[i-1] < '0' || text[i-1] > '9') && text[i-1] != '.' {
		i--
	}
	unit := strings.ToLower(strings.TrimSpace(text[i:]))
	shift, ok := map[string]uint{"": 0, "b": 0, "byte": 0, "bytes": 0,
		"k": 10, "kb": 10, "kib": 10, "m": 20, "mb": 20, "mib": 20,
		"g": 30, "gb": 30, "gib": 30, "t": 40, "tb": 40, "tib": 40}[unit]
	if !ok || i == 0 {
		return 0, fmt.Errorf("%q is not a size: write 12GiB, 500MiB or a number of bytes", s)
	}
	if n, err := strconv.ParseInt(text[:i], 10, 64); err == nil {
		if n < 0 || n > math.MaxInt64>>shift {
			return 0, fmt.Errorf("%q is too large or negative", s)
		}
		return n << shift, nil
	}
	x, err := strconv.ParseFloat(text[:i], 64)
	if err != nil || math.IsNaN(x) || x < 0 || x*float64(int64(1)<<shift) >= math.MaxInt64 {
		return 0, fmt.Errorf("%q is not a size: write 12GiB, 500MiB or a number of bytes", s)
	}
	return int64(math.Round(x * float64(int64(1)<<shift))), nil
}

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

// Set parses the flag's text.
func (f *sizeFlag) Set(s string) error {
	n, err := parseSize(s)
	if err == nil && n == 0 {
		err = errors.New("0 is no size to work with; leave the flag out for no limit")
	}
	if err != nil {
		return err
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

// eventAt finds the event that a text means: a number, or a time from the start such as +2.5s.
func eventAt(d *trace.Device, s string) (int, error) {
	n := d.Events.Len()
	if !strings.HasPrefix(s, "+") {
		i, err := strconv.Atoi(s)
		if err != nil || i < 0 {
			return 0, fmt.Errorf("%q is neither the number of an event nor a time such as +2.5s", s)
		}
		return min(i, n), nil
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

// pickDevice is the device that a verb about one looks at.
func pickDevice(t *trace.Trace, wanted int) (*trace.Device, error) {
	var have []string
	for i := range t.Devices {
		d := &t.Devices[i]
		if wanted == d.Index || wanted < 0 && d.Events.Len() > 0 {
			return d, nil
		}
		have = append(have, strconv.Itoa(d.Index))
	}
	if wanted >= 0 {
		if len(have) == 0 {
			return nil, fmt.Errorf("there is no device %d in this file, and no other", wanted)
		}
		return nil, fmt.Errorf("there is no device %d in this file; it has %s", wanted, strings.Join(have, ", "))
	}
	return nil, fmt.Errorf("no device in this file has events%s", instead(t))
}

// instead says which recording would have what a file lacks.
func instead(t *trace.Trace) string {
	if len(t.Source.Lacks) == 0 {
		return ": record with torch.cuda.memory._record_memory_history() before the run"
	}
	l := t.Source.Lacks[0]
	return fmt.Sprintf(", it is a %s and cannot tell %s; for that: %s", t.Source.Format, l.What, l.Instead)
}

// hasDecisions says whether any device shows what its allocator decided.
func hasDecisions(t *trace.Trace) bool {
	for i := range t.Devices {
		if t.Devices[i].Content == trace.Decisions {
			return true
		}
	}
	return len(t.Devices) == 0
}
