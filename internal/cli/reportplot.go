package cli

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/report/plot"
	"github.com/vramscope/vramscope/trace"
)

// plotFlags say what a picture is to show.
type plotFlags struct {
	names         []string
	by, size      string
	confs, models []string
	verb          *cobra.Command
}

func (p *plotFlags) flags(c *cobra.Command) {
	p.verb = c
	f := c.Flags()
	f.StringSliceVar(&p.names, "plot", nil, "pictures: which `plots` are drawn under each other: "+strings.Join(plot.Names(), ", ")+", or all")
	f.StringVar(&p.by, "by", "", "pictures: lay the recording out by `time` or by events; without it, by what shows more")
	f.StringVar(&p.size, "size", "", "pictures: `WIDTHxHEIGHT` in pixels (default 1600x900, higher for several plots)")
	f.StringArrayVar(&p.confs, "conf", nil, "pictures: a setting for the plot of allocators to compare (repeatable)")
	f.StringArrayVar(&p.models, "allocator", nil, "pictures: an allocator for it to compare, of vramscope replay --list (repeatable)")
}

// given names a flag of pictures that was given, empty if none was.
func (p *plotFlags) given() string {
	for _, name := range []string{"plot", "by", "size", "conf", "allocator"} {
		if p.verb.Flags().Changed(name) {
			return "--" + name
		}
	}
	return ""
}

// wanted is what the flags come to.
type wanted struct {
	names    []string
	by       plot.By
	size     plot.Size // of width 0 if it was not given
	settings []report.Setting
	models   []string
}

// check makes sense of the flags.
func (p *plotFlags) check() (w wanted, err error) {
	w.names = p.names
	for _, n := range p.names {
		if n != plot.All && !slices.Contains(plot.Names(), n) {
			return w, usageError{fmt.Errorf("--plot %s: there are %s, and all", n, strings.Join(plot.Names(), ", "))}
		}
	}
	switch p.by {
	case "":
	case "time":
		w.by = plot.ByTime
	case "event", "events":
		w.by = plot.ByEvent
	default:
		return w, usageError{fmt.Errorf("--by %s: there are time and events", p.by)}
	}
	if w.size, err = parsePixels(p.size); err != nil {
		return w, usageError{fmt.Errorf("--size %s: %w", p.size, err)}
	}
	if w.settings, err = parseConfs(p.confs); err != nil {
		return w, err
	}
	w.models, err = modelNames(p.models, len(p.confs) > 0)
	return w, err
}

// parsePixels reads 1600x900.
func parsePixels(s string) (size plot.Size, err error) {
	if s == "" {
		return size, nil
	}
	width, height, _ := strings.Cut(s, "x")
	if size.Width, err = strconv.Atoi(width); err == nil {
		size.Height, err = strconv.Atoi(height)
	}
	if err != nil {
		return size, fmt.Errorf("write a width and a height in pixels, as in 1600x900")
	}
	return size, size.Check()
}

// picture draws what is wanted of a recording; the room is what its replays have.
func (w *wanted) picture(a *report.Analysis, o report.Options, t *trace.Trace, wantedDevice int) (*plot.Picture, error) {
	d, err := plot.Pick(a, wantedDevice)
	if err != nil {
		return nil, err
	}
	s := plot.Subject{Analysis: a, Options: o, Device: d, By: w.by}
	s.Replay = func() (*report.Replays, error) {
		r := report.ReplayOptions{Settings: w.settings, Models: w.models, Limit: o.Limit, Memory: o.Memory, RecordedLimit: o.Limit}
		if len(r.Settings) == 0 && len(r.Models) == 0 {
			r.Settings, r.Models = plot.Compared(d)
		}
		return report.Replay(a.File, t, d.Trace, r)
	}
	return s.Picture(w.names...)
}

// write renders a picture, as the ending of the file's name says.
func (w *wanted) write(pic *plot.Picture, to io.Writer, ending string) error {
	size := w.size
	if ending == ".svg" {
		if size.Width == 0 { // it has no pixels, and opens as large as its letters are meant to be
			size = pic.Size()
			size = plot.Size{Width: size.Width / 2, Height: size.Height / 2}
		}
		return pic.WriteSVG(to, size)
	}
	if size.Width == 0 {
		size = pic.Size()
	}
	return pic.WritePNG(to, size)
}
