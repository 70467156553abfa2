package report

import (
	"io"

	"github.com/vramscope/vramscope/trace"
)

// The JSON of a comparison, schema vramscope/diff/v1. The fields at the top are those of the first device.

type diffJSON struct {
	Schema string `json:"schema"`
	A      string `json:"a"`
	B      string `json:"b"`
	diffDeviceJSON
	Devices []diffDeviceJSON `json:"devices"`
}

type diffDeviceJSON struct {
	Device   [2]int                 `json:"device"`
	Answer   string                 `json:"answer"`
	Totals   map[string]diffPair    `json:"totals"`
	Stacks   []diffStackJSON        `json:"stacks"`
	Same     int                    `json:"unchanged_stacks"`
	Before   diffPair               `json:"before_recording_bytes"`
	Bare     diffPair               `json:"unattributed_bytes"`
	Requests diffRequestsJSON       `json:"requests"`
	Settings map[string]diffSetting `json:"settings"`
	Cause    *diffCauseJSON         `json:"cause"`
	Steps    diffStepsJSON          `json:"steps"`
}

type diffPair struct {
	A     *int64 `json:"a"`
	B     *int64 `json:"b"`
	Delta *int64 `json:"delta"`
}

type diffStackJSON struct {
	Kind      string   `json:"kind"`
	Stack     []string `json:"stack"`
	A         int64    `json:"a_bytes"`
	B         int64    `json:"b_bytes"`
	Delta     int64    `json:"delta_bytes"`
	AMost     int64    `json:"a_most_bytes"`
	BMost     int64    `json:"b_most_bytes"`
	ABlocks   int      `json:"a_blocks"`
	BBlocks   int      `json:"b_blocks"`
	ARequests int      `json:"a_requests"`
	BRequests int      `json:"b_requests"`
}

type diffRequestsJSON struct {
	Same     bool `json:"same"`
	A        int  `json:"a"`
	B        int  `json:"b"`
	SameUpTo int  `json:"same_up_to"`
}

type diffSetting struct {
	A *string `json:"a"`
	B *string `json:"b"`
}

type diffCauseJSON struct {
	BySettings int64            `json:"by_settings_bytes"`
	ByRequests int64            `json:"by_requests_bytes"`
	Crossed    int64            `json:"a_requests_under_b_settings_bytes"`
	Each       []diffEffectJSON `json:"settings"`
}

type diffEffectJSON struct {
	Setting string `json:"setting"`
	Peak    int64  `json:"peak_reserved_bytes"`
	Why     string `json:"why"`
}

type diffStepsJSON struct {
	A        int            `json:"a"`
	B        int            `json:"b"`
	Source   *string        `json:"source"`
	Compared *int           `json:"stacks_compared_in"`
	Peaks    []diffStepJSON `json:"peak_allocated"`
}

type diffStepJSON struct {
	Step int   `json:"step"`
	A    int64 `json:"a_bytes"`
	B    int64 `json:"b_bytes"`
}

// WriteJSON renders a comparison for programs.
func (d *Diff) WriteJSON(w io.Writer) error {
	out := diffJSON{Schema: "vramscope/diff/v1", A: d.A, B: d.B, Devices: []diffDeviceJSON{}}
	for i := range d.Devices {
		out.Devices = append(out.Devices, d.Devices[i].json())
	}
	if len(out.Devices) > 0 {
		out.diffDeviceJSON = out.Devices[0]
	}
	return WriteJSON(w, out)
}

func pairOf(a, b int64) diffPair {
	p := diffPair{A: atLeast(a, 0), B: atLeast(b, 0)}
	if p.A != nil && p.B != nil {
		delta := b - a
		p.Delta = &delta
	}
	return p
}

func (d *DeviceDiff) json() diffDeviceJSON {
	a, b := d.A, d.B
	j := diffDeviceJSON{
		Device: [2]int{a.Device, b.Device}, Answer: d.headline(), Stacks: []diffStackJSON{}, Same: d.Unchanged,
		Totals: map[string]diffPair{
			"peak_allocated_bytes":         pairOf(a.PeakAllocated, b.PeakAllocated),
			"peak_requested_bytes":         pairOf(a.PeakRequested, b.PeakRequested),
			"peak_reserved_bytes":          pairOf(a.PeakReserved, b.PeakReserved),
			"peak_reserved_replayed_bytes": pairOf(a.PeakReplayed, b.PeakReplayed),
			"end_allocated_bytes":          pairOf(a.End, b.End),
			"end_reserved_bytes":           pairOf(a.EndReserved, b.EndReserved),
			"retries":                      pairOf(a.Retries, b.Retries),
			"ooms":                         pairOf(a.OOMs, b.OOMs),
			"requests":                     pairOf(int64(a.requests()), int64(b.requests())),
		},
		Before: pairOf(a.Before.Peak, b.Before.Peak), Bare: pairOf(a.Unattributed.Peak, b.Unattributed.Peak),
		Requests: diffRequestsJSON{d.Requests.Same, d.Requests.A, d.Requests.B, d.Requests.Until},
		Settings: map[string]diffSetting{},
		Steps:    diffStepsJSON{A: a.Steps, B: b.Steps, Source: known(b.Analysis.Steps.Source), Compared: atLeastInt(d.Step, 0), Peaks: []diffStepJSON{}},
	}
	for _, s := range d.Stacks {
		j.Stacks = append(j.Stacks, diffStackJSON{
			Kind: string(s.Kind), Stack: fullStack(d.stacksOf(s), s.Stack), A: s.A.Peak, B: s.B.Peak, Delta: s.Delta(), AMost: s.A.Most, BMost: s.B.Most,
			ABlocks: s.A.Blocks, BBlocks: s.B.Blocks, ARequests: s.A.Calls, BRequests: s.B.Calls,
		})
	}
	for _, s := range d.Settings {
		j.Settings[s.Key] = diffSetting{known(s.A), known(s.B)}
	}
	if c := d.Cause; c != nil {
		j.Cause = &diffCauseJSON{BySettings: c.BySettings(), ByRequests: c.ByRequests(), Crossed: c.Crossed, Each: []diffEffectJSON{}}
		for _, e := range c.Settings {
			j.Cause.Each = append(j.Cause.Each, diffEffectJSON{e.String(), e.Peak, mechanism(e.SettingDelta, a, b)})
		}
	}
	for _, s := range d.StepPeaks {
		j.Steps.Peaks = append(j.Steps.Peaks, diffStepJSON(s))
	}
	return j
}

func atLeastInt(n, least int) *int {
	if n < least {
		return nil
	}
	return &n
}

// stacksOf is the table that a changed stack is in.
func (d *DeviceDiff) stacksOf(s StackDelta) *trace.Stacks {
	if s.Kind == Gone {
		return d.A.Stacks
	}
	return d.B.Stacks
}
