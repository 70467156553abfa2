package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/trace"
)

// Instead says which recording has what a file lacks; it goes behind what that is.
func Instead(s *trace.Source) string {
	for _, l := range s.Lacks {
		if l.Instead != "" {
			return "; for that: " + l.Instead
		}
	}
	return `; for that: torch.cuda.memory._record_memory_history() before the run, torch.cuda.memory._dump_snapshot("run.pickle") after it`
}

// KindAndInstead says what kind of file it is that lacks something, and Instead.
func KindAndInstead(s *trace.Source) string {
	return fmt.Sprintf("; it is of the kind %q%s", s.Format, Instead(s))
}

// NoDevice is the error of a device that a file does not have.
func NoDevice(t *trace.Trace, wanted int) error {
	if len(t.Devices) == 0 {
		return fmt.Errorf("has no device %d, and no other", wanted)
	}
	var have []string
	for i := range t.Devices {
		have = append(have, fmt.Sprint(t.Devices[i].Index))
	}
	return fmt.Errorf("has no device %d; it has %s", wanted, strings.Join(have, ", "))
}

// WithoutEvents is the error of a file that does not show what was allocated when, on a device or, if that is negative, on
// any.
func WithoutEvents(t *trace.Trace, wanted int) error {
	switch {
	case wanted < 0:
		return fmt.Errorf("does not show what was allocated when%s", KindAndInstead(&t.Source))
	case !slices.ContainsFunc(t.Devices, func(d trace.Device) bool { return d.Index == wanted }):
		return NoDevice(t, wanted)
	}
	return fmt.Errorf("does not show what was allocated when on device %d%s", wanted, KindAndInstead(&t.Source))
}

// lacks says what a recording cannot tell, and which one can.
func (p *page) lacks(s trace.Source) {
	if len(s.Lacks) == 0 {
		return
	}
	p.line("%s", p.bold("What this file cannot tell"))
	for _, l := range s.Lacks {
		p.line("- %s; for that: %s", l.What, l.Instead)
	}
}

type lackJSON struct {
	What    string `json:"what"`
	Instead string `json:"instead"`
}

func lackList(list []trace.Lack) []lackJSON {
	out := []lackJSON{}
	for _, l := range list {
		out = append(out, lackJSON(l))
	}
	return out
}
