package report

import (
	"path"
	"regexp"
	"strings"

	"github.com/vramscope/vramscope/trace"
)

// Redact takes out of a trace what tells whose it is, before it is shown to others: folders of source files and in
// names that the program gave, and the numbers of devices. Of a file in a library the part within it stays, so that
// it is still known for one.
func Redact(t *trace.Trace) {
	if t.Stacks != nil {
		t.Stacks.RenameFiles(withoutFolders)
	}
	names := map[string]string{}
	for i := range t.Markers {
		m := &t.Markers[i]
		name, ok := names[m.Name]
		if !ok {
			name = folders.ReplaceAllString(m.Name, "$1")
			names[m.Name] = name
		}
		m.Name = name
	}
	for _, list := range [][]trace.Device{t.Devices, t.Beside} {
		for i := range list {
			list[i].UUID = ""
			for j := range list[i].Series {
				s := &list[i].Series[j]
				s.Name = path.Base(strings.ReplaceAll(s.Name, `\`, "/"))
				if s.Name == "." {
					s.Name = ""
				}
			}
		}
	}
}

// folders finds the folders of absolute paths that a program put into a name.
var folders = regexp.MustCompile(`(^|[\s"'=(,;:])(?:[A-Za-z]:)?[\\/](?:[^\\/\s"'(),;]+[\\/])+`)

// withoutFolders is the part of a file's path that does not tell where it was installed.
func withoutFolders(file string) string {
	slashes := strings.ReplaceAll(file, `\`, "/")
	rooted := "/" + slashes
	at := -1
	for _, l := range libraries {
		if i := strings.Index(rooted, l); i >= 0 && (at < 0 || i < at) {
			at = i
		}
	}
	if at >= 0 {
		return rooted[at+1:]
	}
	return path.Base(slashes)
}
