package check

import (
	"fmt"
	"io"

	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/trace"
)

type resultJSON struct {
	Schema   string        `json:"schema"`
	File     string        `json:"file"`
	Baseline *string       `json:"baseline_file"`
	Passed   bool          `json:"passed"`
	Findings []findingJSON `json:"findings"`
	Notes    []string      `json:"notes"`
}

type findingJSON struct {
	Rule     string      `json:"rule"`
	Device   int         `json:"device"`
	Unit     Unit        `json:"unit"`
	Limit    *float64    `json:"limit"`
	Value    *float64    `json:"value"`
	Baseline *float64    `json:"baseline"`
	Passed   bool        `json:"passed"`
	Message  string      `json:"message"`
	Stacks   []blameJSON `json:"stacks"`
}

type blameJSON struct {
	Where string   `json:"where"`
	Stack []string `json:"stack"`
	Was   *int64   `json:"baseline_bytes"`
	Is    int64    `json:"bytes"`
	Delta *int64   `json:"delta_bytes"`
}

// WriteJSON renders a result for programs, schema vramscope/check/v1.
func (r *Result) WriteJSON(w io.Writer) error {
	out := resultJSON{Schema: "vramscope/check/v1", File: r.File, Passed: r.Passed(), Findings: []findingJSON{}, Notes: append([]string{}, r.Notes...)}
	if r.Baseline != "" {
		out.Baseline = &r.Baseline
	}
	told := func(v float64) *float64 {
		if v == report.Unknown {
			return nil
		}
		return &v
	}
	for i := range r.Findings {
		f := &r.Findings[i]
		j := findingJSON{Rule: f.Rule, Device: f.Device, Unit: f.Unit, Limit: told(f.Limit), Value: told(f.Value), Baseline: told(f.Baseline),
			Passed: f.Passed, Message: f.Message, Stacks: []blameJSON{}}
		for _, s := range f.Stacks {
			b := blameJSON{Where: s.Where, Stack: frameLines(s.Frames), Is: s.Is, Was: known(s.Was)}
			if b.Was != nil {
				delta := s.Is - s.Was
				b.Delta = &delta
			}
			j.Stacks = append(j.Stacks, b)
		}
		out.Findings = append(out.Findings, j)
	}
	return report.WriteJSON(w, out)
}

func frameLines(frames []trace.Frame) []string {
	out := make([]string, len(frames))
	for i, f := range frames {
		out[i] = frameText(f)
	}
	return out
}

// frameText is a frame as programs and patterns see it.
func frameText(f trace.Frame) string { return fmt.Sprintf("%s:%d %s", f.File, f.Line, f.Func) }
