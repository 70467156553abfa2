package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Schema is that of a summary in a file.
const Schema = "vramscope/fleet-summary/v1"

type summaryJSON struct {
	Schema string `json:"schema"`
	*Summary
}

// Write writes a summary as a file. It is the same for summaries that are the same.
func (s *Summary) Write(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	out := *Merge(s)
	if out.Devices == nil {
		out.Devices = []Device{}
	}
	if out.Failed == nil {
		out.Failed = []Failure{}
	}
	return e.Encode(summaryJSON{Schema, &out})
}

// Read reads a summary from a file. Errors do not name the file.
func Read(r io.Reader) (*Summary, error) {
	var in summaryJSON
	d := json.NewDecoder(r)
	if err := d.Decode(&in); err != nil {
		var syntax *json.SyntaxError
		switch {
		case errors.As(err, &syntax):
			return nil, fmt.Errorf("byte %d: this is no summary of vramscope fleet map: %w", syntax.Offset, err)
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return nil, errors.New("the summary ends in the middle: its shard was ended while it wrote, or the copying was; make it again")
		}
		return nil, fmt.Errorf("this is no summary of vramscope fleet map: %w", err)
	}
	if in.Schema != Schema {
		if in.Schema == "" {
			return nil, errors.New("this is no summary of vramscope fleet map")
		}
		return nil, fmt.Errorf("this is a %s, not a summary of vramscope fleet map (%s)", in.Schema, Schema)
	}
	return in.Summary.sound(), nil
}

// sound puts a summary that somebody else wrote in order: Merge wants lists sorted, and reports want names that exist.
func (s *Summary) sound() *Summary {
	if s == nil {
		return Merge()
	}
	parts := []*Summary{{Stacks: s.Stacks}}
	for i := range s.Devices {
		d := s.Devices[i]
		trials := d.Trials
		d.Trials = nil
		parts = append(parts, &Summary{Devices: []Device{d}})
		for _, t := range trials {
			parts = append(parts, &Summary{Devices: []Device{{File: d.File, Index: d.Index, Trials: []Trial{t}}}})
		}
	}
	for i := range s.Failed {
		parts = append(parts, &Summary{Failed: s.Failed[i : i+1]})
	}
	return Merge(parts...)
}

// Renamed is the summary with other names for files. Files that names lacks keep theirs.
func (s *Summary) Renamed(names map[string]string) *Summary {
	out := &Summary{Devices: slices.Clone(s.Devices), Failed: slices.Clone(s.Failed), Stacks: s.Stacks}
	for i := range out.Devices {
		if to, ok := names[out.Devices[i].File]; ok {
			out.Devices[i].File = to
		}
	}
	for i := range out.Failed {
		if to, ok := names[out.Failed[i].File]; ok {
			out.Failed[i].File = to
		}
	}
	return out.sound()
}

// Nameless names files so that neither their folders nor their machines tell whose they are, and that all the rest of
// Places is told as before. Machines are numbered.
func Nameless(files []string) map[string]string {
	places, short := Places(files), Short(files)
	number := map[string]int{}
	for i := range places {
		number[places[i].Host] = 0
	}
	delete(number, "")
	for i, host := range slices.Sorted(maps.Keys(number)) {
		number[host] = i + 1
	}
	names := make([]string, len(files))
	host := func(i int) string { return fmt.Sprintf("host%d", number[places[i].Host]) }
	for i, f := range files {
		names[i] = short[f]
		if name := places[i].Host; name != "" {
			word := regexp.MustCompile(`(^|[^A-Za-z0-9])` + regexp.QuoteMeta(name) + `($|[^A-Za-z0-9])`)
			names[i] = word.ReplaceAllString(names[i], "${1}"+host(i)+"${2}")
		}
	}
	told := Places(names)
	out := make(map[string]string, len(files))
	for i := range files {
		// What only a folder told is told by one that tells nothing else.
		var parts []string
		if n := places[i].Rank; n != told[i].Rank {
			parts = append(parts, fmt.Sprintf("rank%d", n))
		}
		if n := places[i].Local; n != told[i].Local {
			parts = append(parts, fmt.Sprintf("gpu%d", n))
		}
		for _, a := range places[i].At {
			if told[i].on(a.Name) != a.N {
				parts = append(parts, fmt.Sprintf("%s%d", a.Name, a.N))
			}
		}
		if places[i].Host != "" && told[i].Host == "" {
			parts = append(parts, host(i))
		}
		out[files[i]] = names[i]
		if len(parts) > 0 {
			out[files[i]] = strings.Join(parts, "_") + "/" + names[i]
		}
	}
	return out
}

// Short names files by as few of their last parts as tell them apart.
func Short(files []string) map[string]string {
	out := make(map[string]string, len(files))
	open := files
	for n := 1; len(open) > 0; n++ {
		count := map[string]int{}
		for _, f := range files {
			count[lastParts(f, n)]++
		}
		var left []string
		for _, f := range open {
			short := lastParts(f, n)
			if out[f] = short; count[short] > 1 && strings.Count(f, "/") >= n {
				left = append(left, f)
			}
		}
		open = left
	}
	return out
}

// lastParts is the last n parts of a path.
func lastParts(file string, n int) string {
	at := len(file)
	for range n {
		i := strings.LastIndexByte(file[:at], '/')
		if i < 0 {
			return file
		}
		at = i
	}
	return file[at+1:]
}

// Files lists the files that a summary is of, sorted.
func (s *Summary) Files() []string {
	var out []string
	for i := range s.Devices {
		out = append(out, s.Devices[i].File)
	}
	for i := range s.Failed {
		out = append(out, s.Failed[i].File)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
