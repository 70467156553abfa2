package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/vramscope/vramscope/allocators/caching/config"
	"github.com/vramscope/vramscope/simulate"
	"github.com/vramscope/vramscope/trace"
)

// TuneOptions say how to look for better settings.
type TuneOptions struct {
	Limit         int64          // bytes the process may reserve, negative if not given
	Memory        int64          // bytes the device can give, 0 if not given
	RecordedLimit int64          // bytes the process could reserve when it was recorded, negative if not known
	Settings      int            // how many to try at most
	Top           int            // how many to show
	Version       config.Version // of PyTorch
	Progress      simulate.Progress
}

// Tune is what a search over settings found in a recording.
type Tune struct {
	Replayed
	*simulate.Tuning
}

// TuneSettings follows a recording to find its requests, and searches for settings under which they would
// have needed less.
func TuneSettings(file string, t *trace.Trace, d *trace.Device, o TuneOptions) *Tune {
	cfg, _ := simulate.SettingsOf(t, o.Version)
	f := followIn(d, cfg, o.RecordedLimit, o.Limit)
	room := simulate.Room{Limit: o.Limit, Memory: o.Memory, Own: o.Limit >= 0}
	if o.Limit < 0 && o.Memory <= 0 && d.Content == trace.Decisions {
		room = f.Room()
	}
	tuning := f.Requests.Tune(f.Alike(), f.Config, simulate.TuneOptions{
		Room: room, Settings: o.Settings, Top: o.Top, Version: o.Version, Progress: o.Progress})
	return &Tune{replayed(file, t, d, f), tuning}
}

type tuneJSON struct {
	Schema      string           `json:"schema"`
	File        string           `json:"file"`
	Device      int              `json:"device"`
	Events      int              `json:"events"`
	Recorded    *int64           `json:"recorded_peak_reserved_bytes"`
	Exact       *bool            `json:"recording_reproduced"`
	Prefix      bool             `json:"prefix"`
	Assumptions []string         `json:"assumptions"`
	Tried       int              `json:"settings_tried"`
	Skipped     []skippedJSON    `json:"skipped"`
	Baseline    runJSON          `json:"baseline"`
	Candidates  []candidateJSON  `json:"candidates"`
	Recommended *recommendedJSON `json:"recommended"`
}

// skippedJSON is a setting that comes to the same as another in this recording.
type skippedJSON struct {
	Conf string `json:"conf"`
	Same string `json:"same_as"`
}

type candidateJSON struct {
	runJSON
	Saves    *int64   `json:"saves_bytes"`
	Guesses  int      `json:"guesses"` // that the range is over
	Cost     costJSON `json:"cost"`
	Warnings []string `json:"warnings"`
}

type costJSON struct {
	DeviceCalls int64   `json:"device_calls"`
	Retries     int64   `json:"retries"`
	DeviceMS    float64 `json:"device_ms"` // what the calls take on an idle device, about
}

type recommendedJSON struct {
	Conf  string `json:"conf"`
	Env   string `json:"env"`
	Saves *int64 `json:"saves_bytes"`
	Why   string `json:"why"`
}

// WriteJSON renders a search for programs, schema vramscope/tune/v1.
func (t *Tune) WriteJSON(w io.Writer) error {
	out := tuneJSON{Schema: "vramscope/tune/v1", File: t.File, Device: t.Device, Events: t.Events, Recorded: atLeast(t.Recorded, 0),
		Exact: t.exact(), Prefix: t.Prefix, Assumptions: t.assumptions(), Tried: t.Tried, Skipped: []skippedJSON{}, Baseline: t.runJSON(&t.Baseline), Candidates: []candidateJSON{}}
	if t.Room.Told != "" {
		out.Assumptions = append(out.Assumptions, t.under())
	}
	for _, s := range t.Skipped {
		out.Skipped = append(out.Skipped, skippedJSON(s))
	}
	for i := range t.Candidates {
		c := &t.Candidates[i]
		out.Candidates = append(out.Candidates, candidateJSON{runJSON: t.runJSON(c), Saves: t.saves(c), Guesses: c.Guesses,
			Cost: costJSON{c.Calls(), c.Stats.Retries, milliseconds(c.DeviceTime)}, Warnings: append([]string{}, t.warnings(c)...)})
	}
	if r := t.Recommended; r != nil {
		out.Recommended = &recommendedJSON{Conf: r.Candidate.Conf, Env: envLine(r.Candidate.Conf), Saves: t.saves(r.Candidate), Why: t.why()}
	}
	return WriteJSON(w, out)
}

func (t *Tune) runJSON(c *simulate.Candidate) runJSON {
	return newRunJSON(simulate.Caching, c.Conf, c.Findings, t.Room, c.Prediction)
}

// saves is how much less a candidate reserves at its peak than the recording's own settings, nil where one
// of them runs out of memory and the peaks cannot be compared.
func (t *Tune) saves(c *simulate.Candidate) *int64 {
	if !c.Completed || !t.Baseline.Completed {
		return nil
	}
	n := t.Baseline.Stats.Reserved.Peak - c.Stats.Reserved.Peak
	return &n
}

// warnings are what a setting is known to hurt, and what it costs here.
func (t *Tune) warnings(c *simulate.Candidate) []string {
	var out []string
	if c.Completed && c.Guesses > 0 && c.Finishing < c.Guesses {
		out = append(out, fmt.Sprintf("it finishes under %d of %d guesses at what no recording tells", c.Finishing, c.Guesses))
	}
	if slow := t.Slows(c); slow >= 0.02 {
		out = append(out, fmt.Sprintf("%s more calls of the device than now, of which those that give memory back wait for it: about %.0f %% of the recording's time",
			Count(int(c.Calls()+c.Stats.Retries-t.Baseline.Calls()-t.Baseline.Stats.Retries)), slow*100))
	}
	for _, f := range c.Findings {
		if f.Severity == config.Risk {
			out = append(out, f.Key+": "+f.Message)
		}
	}
	if c.Config.GCThreshold > 0 {
		out = append(out, "garbage_collection_threshold: it counts only while the program sets itself a limit, with torch.cuda.set_per_process_memory_fraction or per_process_memory_fraction")
	}
	if c.Recent() {
		out = append(out, fmt.Sprintf("it needs PyTorch %s or newer; older ones raise", simulate.Since(c.Conf)))
	}
	return out
}

// why says why the recommended setting is the one.
func (t *Tune) why() string {
	r := t.Recommended
	c := r.Candidate
	var text string
	if r.Rescues {
		text = fmt.Sprintf("it finishes, with at most %s reserved, where the present settings run out of memory", Bytes(c.High))
	} else {
		text = fmt.Sprintf("it reserves %s less than the present settings at its peak, and at least %s less whatever the recording does not tell",
			Bytes(r.Saves), Bytes(t.Baseline.Low-c.High))
	}
	if r.Over != nil {
		text += "; " + t.over()
	}
	return text
}

// over says why the recommended setting is not the one that reserves least.
func (t *Tune) over() string {
	c, over := t.Recommended.Candidate, t.Recommended.Over
	var more []string
	if n := over.Changed - c.Changed; n > 0 {
		more = append(more, plural(n, "more setting"))
	}
	if n := over.Calls() + over.Stats.Retries - c.Calls() - c.Stats.Retries; n > 0 {
		more = append(more, plural(int(n), "more call")+" of the device")
	}
	return fmt.Sprintf("%s would reserve %s less still, for %s", named(over),
		Bytes(c.Stats.Reserved.Peak-over.Stats.Reserved.Peak), strings.Join(more, " and "))
}

// envLine is what sets a setting for a program that is started with it. A shell would make something of
// brackets.
func envLine(conf string) string {
	if strings.ContainsAny(conf, "[]>") {
		conf = "'" + conf + "'"
	}
	return "PYTORCH_CUDA_ALLOC_CONF=" + conf
}
