package report

import (
	"fmt"
	"path"
	"strings"

	"github.com/vramscope/vramscope/simulate"
	"github.com/vramscope/vramscope/trace"
)

// Where in a stack to point. A person looks for the line of their own program; the innermost frames are
// the framework's, and the outermost the launcher's.

// libraries are parts of paths that mark code which somebody installed rather than wrote.
var libraries = []string{
	"/site-packages/", "/dist-packages/", "/lib/python3", "/lib/python2", "/torch/_", "/torch/nn/", "/torch/optim/",
	"/torch/autograd/", "/torch/utils/", "/torch/cuda/", "/torch/distributed/", "/torchgen/",
}

// isOwn says whether a frame is in the person's own code.
func isOwn(f trace.Frame) bool {
	file := strings.ReplaceAll(f.File, `\`, "/")
	if file == "" || file == "??" || strings.HasPrefix(file, "<") || f.Line <= 0 {
		return false
	}
	rooted := "/" + file // profilers cut what is common to the paths off their front
	for _, l := range libraries {
		if strings.Contains(rooted, l) {
			return false
		}
	}
	switch path.Ext(file) {
	case ".cpp", ".cc", ".cu", ".h", ".hpp", ".cuh", ".c", ".so", ".pyx":
		return false
	}
	return true
}

// isPython says whether a frame is of a Python file, of whoever.
func isPython(f trace.Frame) bool { return strings.HasSuffix(f.File, ".py") && f.Line > 0 }

// Place is what to show of a stack on one line.
type Place struct {
	Own string // innermost frame of the person's own code, "train.py:66 train"; empty if there is none
	Via string // what of the framework it called that allocated, "functional.py:3494 cross_entropy"; may be empty
}

// PlaceOf is where in a stack to point.
func PlaceOf(s *trace.Stacks, id trace.StackID) Place { return place(s.Stack(id)) }

// place finds the frames to show.
func place(frames []trace.Frame) Place {
	var p Place
	for _, f := range frames {
		if isOwn(f) {
			p.Own = showFrame(f)
			break
		}
		if p.Via == "" && isPython(f) && f.Func != "wrapper" && f.Func != "<lambda>" {
			p.Via = showFrame(f)
		}
	}
	if p.Own == "" && p.Via == "" && len(frames) > 0 {
		p.Via = nativeName(frames)
	}
	return p
}

func (p Place) String() string {
	switch {
	case p.Own == "":
		return p.Via
	case p.Via == "":
		return p.Own
	}
	return p.Own + " · " + p.Via
}

func showFrame(f trace.Frame) string {
	name := f.Func
	if name == "" {
		name = "?"
	}
	if f.File == "" || f.File == "??" {
		return name
	}
	base := path.Base(strings.ReplaceAll(f.File, `\`, "/"))
	if f.Line <= 0 {
		return base + " " + name
	}
	return fmt.Sprintf("%s:%d %s", base, f.Line, name)
}

// fullStack lists the frames of a stack for programs, innermost first, with whole paths.
func fullStack(s *trace.Stacks, id trace.StackID) []string {
	frames := s.Stack(id)
	out := make([]string, len(frames))
	for i, f := range frames {
		out[i] = simulate.FrameText(f)
	}
	return out
}
