// Package fleet makes one of many recordings: of all ranks of a job, or of many runs.
//
// Each recording becomes a summary of a few kilobytes, and summaries are merged. Merging is a union: of the
// devices by their file and number, of what is known of each, of the stacks by what they are made of. So
//
//	Merge(a, b) = Merge(b, a)
//	Merge(a, Merge(b, c)) = Merge(Merge(a, b), c)
//	Merge(a, a) = a
//
// and it does not matter who maps which recording, in which order the summaries come together, and whether one
// comes twice. Nothing is added up while merging, so that nothing is added up twice; sums, extremes and quantiles
// over devices are taken at the end, from a row for each device, and are exact. Two things are bounded where a
// recording is summed up, and say by how much they may be off: which stacks held memory at the peak (Facts.Floor),
// and the distribution over time of what was reserved and not in use (Shares).
package fleet

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"
)

// Summary is what is kept of any number of recordings.
type Summary struct {
	Devices []Device  `json:"devices"` // by File, then Index
	Failed  []Failure `json:"failed"`  // by File
	// Stacks are those that the devices name, innermost frame first.
	Stacks map[Print]Stack `json:"stacks"`
}

// Failure is a file that is no recording, or none that can be read.
type Failure struct {
	File  string `json:"file"`
	Error string `json:"error"`
	// Other says that nothing spoke for the file being a recording: it lay in a folder, and is of no kind known.
	Other bool `json:"other,omitzero"`
}

// Device is what is known of one device of one file. Its parts are found at different times, by whoever.
type Device struct {
	File   string  `json:"file"`
	Index  int     `json:"device"`
	Facts  *Facts  `json:"facts,omitzero"`  // what its recording shows
	Search *Search `json:"search,omitzero"` // which settings would be worth trying, if that was looked for
	Trials []Trial `json:"trials,omitzero"` // what other settings would have done, by Conf
	Lost   string  `json:"lost,omitzero"`   // why the file could not be looked at again
}

// Facts is what the recording of one device shows. Sizes are bytes, negative where the recording cannot tell.
type Facts struct {
	Format     string `json:"format"`
	Name       string `json:"name,omitzero"` // of the device
	Rank       *int   `json:"rank,omitzero"` // as the recording itself tells
	Events     int    `json:"events"`
	Span       int64  `json:"span_us"` // microseconds, 0 if it has no times
	Complete   bool   `json:"complete"`
	Replayable bool   `json:"replayable"` // it has requests that can be replayed
	Conf       string `json:"conf"`       // settings that it was recorded under
	Steps      int    `json:"steps"`      // 0 if none were found
	Growing    bool   `json:"growing"`    // there were steps enough to tell what grows

	PeakAllocated int64 `json:"peak_allocated_bytes"`
	PeakReserved  int64 `json:"peak_reserved_bytes"`
	Unused        int64 `json:"unused_bytes"` // reserved and not allocated at the reserved peak
	EndAllocated  int64 `json:"end_allocated_bytes"`
	EndReserved   int64 `json:"end_reserved_bytes"`
	Capacity      int64 `json:"capacity_bytes"` // what the device could give, 0 if not known
	Limit         int64 `json:"limit_bytes"`    // what the process allowed itself
	Retries       int64 `json:"retries"`        // flushes of the cache

	Parts *Parts `json:"fragmentation,omitzero"` // of Unused and the rest, at the reserved peak
	OOMs  []OOM  `json:"ooms,omitzero"`

	// Held is by stack what was allocated at the peak: the largest, at most MostStacks. Floor is the least of them
	// if there were more: what is left out held no more than that. Before and Unattributed have no stack.
	Held         []Held `json:"held,omitzero"`
	Floor        int64  `json:"floor_bytes,omitzero"`
	Before       int64  `json:"before_bytes,omitzero"`
	Unattributed int64  `json:"unattributed_bytes,omitzero"`

	Leaks    []Leak `json:"leaks,omitzero"`
	PerStep  int64  `json:"per_step_bytes,omitzero"` // what is allocated at the ends of steps grows by so much
	Grows    bool   `json:"grows,omitzero"`          // and it does so all along
	Time     Shares `json:"unused_time,omitzero"`    // share of the reserved memory that was not allocated
	Warnings int    `json:"warnings,omitzero"`
}

// Parts is what was reserved and not in use, and what rounding took, in bytes.
type Parts struct {
	Stranded int64 `json:"stranded_bytes"`
	Cached   int64 `json:"cached_bytes"`
	Rounding int64 `json:"rounding_bytes"`
	Pending  int64 `json:"pending_bytes"`
}

// OOM is a request that failed.
type OOM struct {
	Event      int    `json:"event"`
	Requested  int64  `json:"requested_bytes"`
	Allocated  int64  `json:"allocated_bytes"`
	Reserved   int64  `json:"reserved_bytes"`
	DeviceFree int64  `json:"device_free_bytes"` // 0 if not told
	Verdict    string `json:"verdict,omitzero"`
	Why        string `json:"why,omitzero"`
}

// Held is what a stack held.
type Held struct {
	Stack  Print `json:"stack"`
	Bytes  int64 `json:"bytes"`
	Blocks int   `json:"blocks"`
}

// Leak is a stack whose blocks pile up from step to step.
type Leak struct {
	Stack      Print   `json:"stack"` // empty: blocks without one
	PerStep    int64   `json:"per_step_bytes"`
	Steps      int     `json:"steps"`
	Confidence float64 `json:"confidence"`
	AtEnd      int64   `json:"at_end_bytes"`
	Buffer     bool    `json:"buffer,omitzero"` // one block that is larger each time
}

// MostStacks is how many stacks are kept of what a device held, and of what leaked.
const MostStacks = 32

// Search is what a search over settings came to on one device.
type Search struct {
	Confs       []string `json:"confs"` // worth trying, the best first
	Recommended *string  `json:"recommended,omitzero"`
	Tried       int      `json:"tried"`
}

// Trial is what a device's requests come to under a setting.
type Trial struct {
	Conf      string `json:"conf"`
	Completed bool   `json:"completed"`
	Peak      int64  `json:"peak_reserved_bytes"`
	// Low and High are the least and most over what no recording tells, if that was looked at closely; otherwise
	// they are Peak, which is the best guess.
	Low     int64 `json:"low_bytes"`
	High    int64 `json:"high_bytes"`
	Close   bool  `json:"close"`
	Calls   int64 `json:"device_calls"`
	Retries int64 `json:"retries"`
	Ended   int   `json:"ended"` // the event at which it ran out, or the number of events
}

// Merge makes one summary of many. It takes their parts over and changes none of them.
func Merge(list ...*Summary) *Summary {
	switch len(list) {
	case 0:
		return &Summary{Stacks: map[Print]Stack{}}
	case 1:
		return merge(list[0], &Summary{})
	case 2:
		return merge(list[0], list[1])
	}
	return merge(Merge(list[:len(list)/2]...), Merge(list[len(list)/2:]...))
}

func merge(a, b *Summary) *Summary {
	out := &Summary{Stacks: maps.Clone(a.Stacks)}
	if out.Stacks == nil {
		out.Stacks = make(map[Print]Stack, len(b.Stacks))
	}
	for p, s := range b.Stacks {
		if old, ok := out.Stacks[p]; ok && !slices.Equal(old, s) {
			s = *pick(&old, &s) // only a summary that somebody wrote by hand has two stacks of one name
		}
		out.Stacks[p] = s
	}
	out.Devices = union(a.Devices, b.Devices, (*Device).compare, join)
	out.Failed = union(a.Failed, b.Failed, func(x, y *Failure) int { return cmp.Compare(x.File, y.File) }, func(x, y Failure) Failure {
		return *pick(&x, &y)
	})
	return out
}

// union merges two sorted lists.
func union[T any](a, b []T, compare func(x, y *T) int, join func(x, y T) T) []T {
	if len(a)+len(b) == 0 {
		return nil
	}
	out := make([]T, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		switch c := compare(&a[0], &b[0]); {
		case c < 0:
			out, a = append(out, a[0]), a[1:]
		case c > 0:
			out, b = append(out, b[0]), b[1:]
		default:
			out, a, b = append(out, join(a[0], b[0])), a[1:], b[1:]
		}
	}
	return append(append(out, a...), b...)
}

func (d *Device) compare(e *Device) int {
	return cmp.Or(cmp.Compare(d.File, e.File), cmp.Compare(d.Index, e.Index))
}

// join is what two know of one device.
func join(a, b Device) Device {
	return Device{File: a.File, Index: a.Index, Facts: pick(a.Facts, b.Facts), Search: pick(a.Search, b.Search),
		Trials: union(a.Trials, b.Trials, func(x, y *Trial) int { return cmp.Compare(x.Conf, y.Conf) }, func(x, y Trial) Trial {
			switch {
			case x.Close && !y.Close:
				return x
			case y.Close && !x.Close:
				return y
			}
			return *pick(&x, &y)
		}), Lost: max(a.Lost, b.Lost)}
}

// pick keeps one of two, the same whichever comes first. They differ only if a file changed between two looks at it.
func pick[T any](a, b *T) *T {
	switch {
	case a == nil:
		return b
	case b == nil || a == b:
		return a
	}
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	if errX == nil && errY == nil && bytes.Compare(x, y) < 0 {
		return b
	}
	return a
}

// Device is what is known of a device, nil if nothing is.
func (s *Summary) Device(file string, index int) *Device {
	key := Device{File: file, Index: index}
	i, ok := slices.BinarySearchFunc(s.Devices, &key, func(d Device, k *Device) int { return d.compare(k) })
	if !ok {
		return nil
	}
	return &s.Devices[i]
}
