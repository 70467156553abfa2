package plot

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/vramscope/vramscope/allocators/caching/config"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/simulate"
	"github.com/vramscope/vramscope/trace"
)

// Subject is a device of a recording, to be drawn.
type Subject struct {
	Analysis *report.Analysis
	Options  report.Options // those of the analysis
	Device   *report.Device
	By       By
	// Replay makes the replays that Allocators compares. It is asked only if they are to be drawn.
	Replay func() (*report.Replays, error)
}

// Kind is a plot that can be asked for.
type Kind struct {
	Name, What string
	draw       func(*Subject) (*Panel, error)
}

// Kinds lists them in the order in which they stand in a picture of all.
func Kinds() []Kind {
	return []Kind{
		{"timeline", "allocated and reserved over the recording, peaks, failures and steps", func(s *Subject) (*Panel, error) { return Timeline(s.Analysis, s.Device, s.Options, s.By) }},
		{"fragmentation", "what of the reserved memory was in use, and what became of the rest", func(s *Subject) (*Panel, error) { return Fragmentation(s.Analysis, s.Device, s.Options, s.By) }},
		{"map", "segments and blocks by address, at one instant", func(s *Subject) (*Panel, error) { return AddressMap(s.Analysis, s.Device, s.Options) }},
		{"sizes", "sizes of the blocks in use and of the free ones", func(s *Subject) (*Panel, error) { return Sizes(s.Analysis, s.Device) }},
		{"allocators", "what other settings and allocators would have reserved", (*Subject).allocators},
	}
}

// Names lists the names of the plots.
func Names() []string {
	var out []string
	for _, k := range Kinds() {
		out = append(out, k.Name)
	}
	return out
}

// All asks for every plot that the recording has.
const All = "all"

// Pick is the device to draw: that of a number, or the first that has something to draw.
func Pick(a *report.Analysis, wanted int) (*report.Device, error) {
	for i := range a.Devices {
		if d := &a.Devices[i]; d.Index == wanted || wanted < 0 && hasContent(d) {
			return d, nil
		}
	}
	if wanted >= 0 {
		return nil, report.NoDevice(a.Trace, wanted)
	}
	return nil, errors.New("no device in this file has anything to draw" + instead(a))
}

// hasContent says whether there is anything to draw of a device.
func hasContent(d *report.Device) bool {
	return d.Trace.Events.Len() > 0 || len(d.Trace.Series) > 0 || len(d.Trace.Final.Blocks) > 0
}

// Picture draws plots by their names, under each other. Without names it draws what tells most of the recording. What it
// has not is an error where that was asked for by name.
func (s *Subject) Picture(names ...string) (*Picture, error) {
	pic := &Picture{Title: s.title(), Sub: s.sub(), Notes: s.others()}
	wanted := func(k Kind) bool {
		return len(names) == 0 || slices.Contains(names, All) || slices.Contains(names, k.Name)
	}
	for _, n := range names {
		if n != All && !slices.Contains(Names(), n) {
			return nil, fmt.Errorf("there is no plot %q; there are %s, and all", n, strings.Join(Names(), ", "))
		}
	}
	var first error
	for _, k := range Kinds() {
		if !wanted(k) || len(names) == 0 && (len(pic.Panels) == usual || k.Name == "allocators") {
			continue
		}
		p, err := k.draw(s)
		switch {
		case err == nil:
			pic.Panels = append(pic.Panels, p)
		case slices.Contains(names, k.Name):
			return nil, fmt.Errorf("%s: %w", k.Name, err)
		case first == nil:
			first = err
		}
	}
	if len(pic.Panels) == 0 {
		return nil, first
	}
	return pic, nil
}

// usual is how many plots a picture has of which nobody said what it is to show.
const usual = 2

// title says the file, the device and the peak.
func (s *Subject) title() string {
	d := s.Device
	device := fmt.Sprintf("device %d", d.Index)
	if d.Trace.Name != "" {
		device += " (" + d.Trace.Name + ")"
	}
	text := fmt.Sprintf("%s · %s", filepath.Base(s.Analysis.File), device)
	switch {
	case d.Live != nil:
		return fmt.Sprintf("%s: %s in use", text, report.Bytes(d.Live.Used))
	case d.PeakAllocated.Allocated < 0:
		return text
	}
	text += fmt.Sprintf(": peak %s allocated", report.Bytes(d.PeakAllocated.Allocated))
	if d.TellsReserved() {
		text += fmt.Sprintf(", %s reserved", report.Bytes(d.PeakReserved.Reserved))
	}
	return text
}

// sub says where that is from.
func (s *Subject) sub() string {
	d := s.Device
	parts := []string{s.Analysis.Trace.Source.Format}
	if n := d.Trace.Events.Len(); d.Follow != nil && n > 0 {
		text := countOf(n, "event")
		if from, to := d.Trace.Events.At(0).Time, d.Trace.Events.At(n-1).Time; to > from && s.Analysis.Trace.Source.Clock != trace.ClockNone {
			text += " over " + report.Span(time.Duration(to-from))
		}
		parts = append(parts, text)
		if from, to := s.Options.From, s.Options.To; from > 0 || to > 0 && to < n {
			if to <= 0 || to > n {
				to = n
			}
			parts = append(parts, fmt.Sprintf("here events %s to %s", report.Count(from), report.Count(to-1)))
		}
		if d.Trace.Content == trace.Decisions {
			if conf := d.Follow.Config.String(); conf != "" {
				parts = append(parts, conf)
			} else {
				parts = append(parts, "default settings")
			}
		}
	}
	return strings.Join(parts, " · ")
}

// others says which other devices could be drawn.
func (s *Subject) others() []string {
	var list []string
	for i := range s.Analysis.Devices {
		if d := &s.Analysis.Devices[i]; d != s.Device && hasContent(d) {
			list = append(list, fmt.Sprint(d.Index))
		}
	}
	switch len(list) {
	case 0:
		return nil
	case 1:
		return []string{fmt.Sprintf("The file has device %s too (--device %s).", list[0], list[0])}
	}
	return []string{fmt.Sprintf("The file has devices %s too (--device).", strings.Join(list, ", "))}
}

func (s *Subject) allocators() (*Panel, error) {
	if s.Device.Trace.Content != trace.Decisions && s.Device.Trace.Content != trace.Requests {
		return nil, fmt.Errorf("the file has no requests that could be replayed%s", instead(s.Analysis))
	}
	r, err := s.Replay()
	if err != nil {
		return nil, err
	}
	return Allocators(r)
}

// Compared are the settings and allocators that a recording is compared under if nobody says which: its own settings, the
// default ones, expandable segments, and the allocators that differ most.
func Compared(d *report.Device) (settings []report.Setting, models []string) {
	plain := config.Default()
	if d.Follow != nil {
		plain.MemoryFraction = d.Follow.Config.MemoryFraction
	}
	expandable := plain
	expandable.Expandable = true
	if d.Follow != nil && d.Trace.Content == trace.Decisions && d.Follow.Config != plain && d.Follow.Config != expandable {
		settings = append(settings, report.Setting{Text: d.Follow.Config.String(), Config: d.Follow.Config})
	}
	settings = append(settings, report.Setting{Text: plain.String(), Config: plain}, report.Setting{Text: expandable.String(), Config: expandable})
	return settings, []string{simulate.Caching, "stream", "bfc", "buddy", "slab", "best-fit", "packing"}
}
