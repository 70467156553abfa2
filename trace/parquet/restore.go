package parquet

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"github.com/vramscope/vramscope/trace"
)

// parse reads a description. rows is how many there are of the kinds that the description counts.
func parse(s string) (*description, error) {
	d := &description{}
	if err := json.Unmarshal([]byte(s), d); err != nil {
		return nil, fmt.Errorf("its description is damaged: %s", strings.Join(strings.Fields(err.Error()), " "))
	}
	if d.Schema != formatName {
		name := d.Schema[:min(len(d.Schema), 40)]
		return nil, fmt.Errorf("its description is in the form %q, and this program reads %q: a newer one may read it", name, formatName)
	}
	return d, nil
}

// restore makes a trace that lacks its rows.
func (d *description) restore() (*trace.Trace, error) {
	t := &trace.Trace{Source: trace.Source{Format: string(d.Source.Format), Producer: string(d.Source.Producer), Bytes: d.Source.Bytes, Rank: d.Source.Rank,
		Clock: trace.Clock(indexOf(string(d.Source.Clock), func(i int) string { return trace.Clock(i).String() })), Cut: d.Source.Cut}}
	for _, c := range d.Source.Counts {
		t.Source.Counts = append(t.Source.Counts, trace.Count{What: string(c.What), N: int(c.N)})
	}
	for _, l := range d.Source.Lacks {
		t.Source.Lacks = append(t.Source.Lacks, trace.Lack{What: string(l.What), Instead: string(l.Instead)})
	}
	s := &d.Settings
	t.Settings = trace.Settings{Known: s.Known, Conf: string(s.Conf), MaxSplitSize: s.MaxSplitSize, GCThreshold: float64(s.GCThreshold),
		Expandable: s.Expandable, HasExpandable: s.ExpandableKnown, HasRoundup: s.RoundupKnown}
	for i := range t.Settings.Roundup[:min(len(s.Roundup), len(t.Settings.Roundup))] {
		t.Settings.Roundup[i] = int(s.Roundup[i])
	}
	t.Warnings = restoreWarnings(d.Warnings)
	var err error
	if t.Devices, err = restoreDevices(d.Devices); err == nil {
		t.Beside, err = restoreDevices(d.Beside)
	}
	return t, err
}

// indexOf is the number of a name; one that is out of every range if it is none.
func indexOf(name string, of func(int) string) int {
	const unknown = "unknown"
	for i := 0; of(i) != unknown; i++ {
		if of(i) == name {
			return i
		}
	}
	return math.MaxUint8
}

func restoreWarnings(list []describedWarning) []trace.Warning {
	var out []trace.Warning
	for _, w := range list {
		out = append(out, trace.Warning{Code: string(w.Code), Message: string(w.Message), Count: int(w.Count), First: int(w.First)})
	}
	return out
}

func restoreDevices(list []describedDevice) ([]trace.Device, error) {
	var out []trace.Device
	for i := range list {
		x := &list[i]
		d := trace.Device{Index: int(x.Index), Name: string(x.Name), UUID: string(x.UUID), Rounded: x.Rounded, Capacity: x.Capacity,
			Streams: x.Streams, Pools: x.Pools, NumBlocks: int(x.Blocks), HasFinal: x.HasFinal, Overflow: x.Overflow,
			Missing: trace.Missing{Frees: int(x.Lost.Frees), Completions: int(x.Lost.Completions)}, Warnings: restoreWarnings(x.Warnings)}
		d.Content = trace.Content(indexOf(string(x.Content), func(i int) string {
			if i < len(contentNames) {
				return string(contentNames[i])
			}
			return "unknown"
		}))
		for _, p := range x.PoolInfo {
			d.PoolInfo = append(d.PoolInfo, trace.PoolInfo{Name: string(p.Name), Direct: p.Direct})
		}
		for _, s := range x.Series {
			series := trace.Series{Quantity: trace.Quantity(indexOf(string(s.Quantity), func(i int) string { return trace.Quantity(i).String() })),
				Name: string(s.Name), PID: s.PID, Samples: int(s.Samples), Min: s.Min, Max: s.Max, MaxAt: trace.Time(s.MaxAt), Backwards: int(s.Backwards)}
			if s.PerPoint < 1 || s.PerPoint > math.MaxInt32 {
				return nil, fmt.Errorf("a series of %d samples a row", s.PerPoint)
			}
			series.SetCoarse(int(s.PerPoint))
			d.Series = append(d.Series, series)
		}
		out = append(out, d)
	}
	return out, nil
}
