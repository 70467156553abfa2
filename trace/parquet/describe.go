package parquet

import (
	"encoding/json"
	"math"
	"strconv"

	"github.com/vramscope/vramscope/trace"
)

// metadataKey is under what the description is in a file's metadata.
const metadataKey = "vramscope"

// formatName is the version of the form. Another version is another name.
const formatName = "vramscope/parquet/v1"

// description is what is said once: of the file, of the trace, and of each device.
type description struct {
	Schema     string             `json:"schema"`
	Source     describedSource    `json:"source"`
	Settings   describedSettings  `json:"settings"`
	Warnings   []describedWarning `json:"warnings"`
	Frames     int64              `json:"frames"`      // different ones, numbered from 0
	Stacks     int64              `json:"stacks"`      // the empty one, 0, included
	FrameRows  int64              `json:"frame_rows"`  // rows of frames
	MarkerRows int64              `json:"marker_rows"` // rows of markers
	Devices    []describedDevice  `json:"devices"`
	Beside     []describedDevice  `json:"beside"`
}

type describedSource struct {
	Format   text             `json:"format"`
	Producer text             `json:"producer"`
	Rank     *int             `json:"rank,omitempty"` // of the process in its job
	Bytes    int64            `json:"size_bytes"`     // of the file that was read first
	Clock    text             `json:"clock"`
	Cut      bool             `json:"cut"`
	Counts   []describedCount `json:"counts"`
	Lacks    []describedLack  `json:"lacks"`
}

type describedCount struct {
	What text  `json:"what"`
	N    int64 `json:"n"`
}

type describedLack struct {
	What    text `json:"what"`
	Instead text `json:"instead"`
}

type describedSettings struct {
	Known           bool    `json:"known"` // the file has settings
	Conf            text    `json:"conf"`
	MaxSplitSize    int64   `json:"max_split_size_bytes"` // -1 for no limit
	GCThreshold     number  `json:"gc_threshold"`
	Expandable      bool    `json:"expandable_segments"`
	ExpandableKnown bool    `json:"expandable_segments_known"`
	Roundup         []int64 `json:"roundup_divisions"` // of the bucket that begins at 2^(20+i) bytes
	RoundupKnown    bool    `json:"roundup_divisions_known"`
}

type describedWarning struct {
	Code    text  `json:"code"`
	Message text  `json:"message"`
	Count   int64 `json:"count"`
	First   int64 `json:"first_event"` // -1 for none
}

type describedDevice struct {
	Index    int64              `json:"device"` // the ordinal
	Name     text               `json:"name"`
	UUID     text               `json:"uuid"`
	Content  text               `json:"content"`
	Rounded  bool               `json:"sizes_rounded"`
	Capacity int64              `json:"capacity_bytes"` // 0 where the file does not tell
	Streams  []uint64           `json:"streams"`        // handles by stream_id
	Pools    []trace.Pool       `json:"pools"`          // by pool_id
	PoolInfo []describedPool    `json:"pool_info"`
	Lost     describedLost      `json:"frees_put_in"`
	Blocks   int64              `json:"block_ids"` // all are below
	HasFinal bool               `json:"has_end"`   // the file has the state at its end
	Overflow bool               `json:"overflow"`
	Warnings []describedWarning `json:"warnings"`
	Events   int64              `json:"event_rows"`
	Start    describedState     `json:"start"`
	End      describedState     `json:"end"`
	Series   []describedSeries  `json:"series"`
}

type describedPool struct {
	Name   text `json:"name"`
	Direct bool `json:"direct"`
}

type describedLost struct {
	Frees       int64 `json:"whole"`
	Completions int64 `json:"completions"`
}

// describedState says how many rows a state has.
type describedState struct {
	Segments int64 `json:"segment_rows"`
	Blocks   int64 `json:"block_rows"`
	Groups   int64 `json:"group_rows"`
}

type describedSeries struct {
	Quantity  text  `json:"quantity"`
	Name      text  `json:"name"`
	PID       int64 `json:"pid"`
	Points    int64 `json:"sample_rows"`
	Samples   int64 `json:"samples"`
	PerPoint  int64 `json:"samples_per_row"` // that one may stand for
	Min       int64 `json:"min"`
	Max       int64 `json:"max"`
	MaxAt     int64 `json:"max_time_ns"`
	Backwards int64 `json:"times_running_back"`
}

// number is a floating-point number that may be one of those that JSON has not.
type number float64

// MarshalJSON writes a number, or its name.
func (n number) MarshalJSON() ([]byte, error) {
	if f := float64(n); math.IsNaN(f) || math.IsInf(f, 0) {
		return json.Marshal(strconv.FormatFloat(f, 'g', -1, 64))
	}
	return json.Marshal(float64(n))
}

// UnmarshalJSON is its inverse.
func (n *number) UnmarshalJSON(b []byte) error {
	var s string
	if json.Unmarshal(b, &s) != nil {
		return json.Unmarshal(b, (*float64)(n))
	}
	f, err := strconv.ParseFloat(s, 64)
	*n = number(f)
	return err
}

var contentNames = [...]text{trace.Decisions: "decisions", trace.Requests: "requests", trace.Instant: "instant", trace.Samples: "samples"}

// describe says what is said once of a trace.
func describe(t *trace.Trace) *description {
	d := &description{Schema: formatName,
		Source: describedSource{Format: text(t.Source.Format), Producer: text(t.Source.Producer), Bytes: t.Source.Bytes, Rank: t.Source.Rank,
			Clock: text(t.Source.Clock.String()), Cut: t.Source.Cut},
		Settings: describeSettings(&t.Settings),
		Warnings: describeWarnings(t.Warnings),
		Frames:   int64(t.Stacks.NumFrames()), Stacks: int64(t.Stacks.Len()), FrameRows: int64(len(unused(t.Stacks))),
		MarkerRows: int64(len(t.Markers)),
	}
	for _, c := range t.Source.Counts {
		d.Source.Counts = append(d.Source.Counts, describedCount{text(c.What), int64(c.N)})
	}
	for _, l := range t.Source.Lacks {
		d.Source.Lacks = append(d.Source.Lacks, describedLack{text(l.What), text(l.Instead)})
	}
	for id := range t.Stacks.Len() {
		d.FrameRows += int64(len(t.Stacks.Frames(trace.StackID(id))))
	}
	for i := range t.Devices {
		d.Devices = append(d.Devices, describeDevice(&t.Devices[i]))
	}
	for i := range t.Beside {
		d.Beside = append(d.Beside, describeDevice(&t.Beside[i]))
	}
	return d
}

// unused lists the frames that are in no stack.
func unused(s *trace.Stacks) []trace.FrameID {
	used := make([]bool, s.NumFrames())
	for id := range s.Len() {
		for _, f := range s.Frames(trace.StackID(id)) {
			used[f] = true
		}
	}
	var list []trace.FrameID
	for f, is := range used {
		if !is {
			list = append(list, trace.FrameID(f))
		}
	}
	return list
}

func describeSettings(s *trace.Settings) describedSettings {
	d := describedSettings{Known: s.Known, Conf: text(s.Conf), MaxSplitSize: s.MaxSplitSize, GCThreshold: number(s.GCThreshold),
		Expandable: s.Expandable, ExpandableKnown: s.HasExpandable, RoundupKnown: s.HasRoundup}
	for _, n := range s.Roundup {
		d.Roundup = append(d.Roundup, int64(n))
	}
	return d
}

func describeWarnings(list []trace.Warning) []describedWarning {
	var out []describedWarning
	for _, w := range list {
		out = append(out, describedWarning{text(w.Code), text(w.Message), int64(w.Count), int64(w.First)})
	}
	return out
}

func describeDevice(d *trace.Device) describedDevice {
	out := describedDevice{Index: int64(d.Index), Name: text(d.Name), UUID: text(d.UUID), Content: contentNames[d.Content], Rounded: d.Rounded,
		Capacity: d.Capacity, Streams: d.Streams, Pools: d.Pools, Lost: describedLost{int64(d.Missing.Frees), int64(d.Missing.Completions)},
		Blocks: int64(d.NumBlocks), HasFinal: d.HasFinal, Overflow: d.Overflow, Warnings: describeWarnings(d.Warnings),
		Events: int64(d.Events.Len()), Start: describeState(&d.Initial), End: describeState(&d.Final)}
	for _, p := range d.PoolInfo {
		out.PoolInfo = append(out.PoolInfo, describedPool{text(p.Name), p.Direct})
	}
	for i := range d.Series {
		s := &d.Series[i]
		out.Series = append(out.Series, describedSeries{Quantity: text(s.Quantity.String()), Name: text(s.Name), PID: s.PID, Points: int64(len(s.Points)),
			Samples: int64(s.Samples), PerPoint: int64(s.Coarse()), Min: s.Min, Max: s.Max, MaxAt: int64(s.MaxAt), Backwards: int64(s.Backwards)})
	}
	return out
}

func describeState(s *trace.State) describedState {
	return describedState{int64(len(s.Segments)), int64(len(s.Blocks)), int64(len(s.Groups))}
}
