package check

import (
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/vramscope/vramscope/trace"
)

// Checkout is a folder with the source code that a recording was made of, or an edited one. Recordings are
// made elsewhere, so a file of theirs is looked for by the end of its path.
type Checkout string

// place is where in a checkout a frame is, in slashes.
type place struct {
	file string
	line int
}

// find gives the first frame whose file is there; ok is false if none is.
func (c Checkout) find(frames []trace.Frame) (p place, ok bool) {
	if c == "" {
		return place{}, false
	}
	for _, f := range frames {
		if file, ok := c.file(f.File); ok && f.Line > 0 {
			return place{file, f.Line}, true
		}
	}
	return place{}, false
}

// file looks for a path, then for ever shorter ends of it.
func (c Checkout) file(recorded string) (string, bool) {
	var parts []string
	for _, p := range strings.Split(strings.ReplaceAll(recorded, `\`, "/"), "/") {
		switch p {
		case "", ".", "...":
		case "..":
			parts = nil // what is above such a step says nothing
		default:
			parts = append(parts, p)
		}
	}
	for i := range parts {
		end := path.Join(parts[i:]...)
		if st, err := os.Stat(filepath.Join(string(c), filepath.FromSlash(end))); err == nil && st.Mode().IsRegular() {
			return end, true
		}
	}
	return "", false
}
