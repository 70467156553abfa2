package report

import (
	"fmt"

	"github.com/vramscope/vramscope/trace"
)

// How things are written, for packages that render findings of their own.

// Plural shows a number of things, "1 step", "1,200 steps".
func Plural(n int, one string) string { return plural(n, one) }

// Percent shows a share of a whole.
func Percent(part, whole int64) string { return percent(part, whole) }

// PlaceOfFrames is where to point in a stack that belongs to no trace.
func PlaceOfFrames(frames []trace.Frame) Place { return place(frames) }

// EnvLine is what sets PyTorch's allocator for a program that is started with it.
func EnvLine(conf string) string { return envLine(conf) }

// WithoutFolders is the part of a source file's path that does not tell where it was installed.
func WithoutFolders(file string) string { return withoutFolders(file) }

// StackLines lists frames for programs, innermost first, with whole paths.
func StackLines(frames []trace.Frame) []string {
	out := make([]string, len(frames))
	for i, f := range frames {
		if out[i] = f.Func; f.File != "" {
			out[i] = fmt.Sprintf("%s:%d %s", f.File, f.Line, f.Func)
		}
	}
	return out
}
