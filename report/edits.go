package report

import (
	"fmt"
	"regexp"

	"github.com/vramscope/vramscope/simulate"
	"github.com/vramscope/vramscope/trace"
)

// edit changes the requests of a followed recording as asked, and says what they are then.
func (r *Replays) edit(t *trace.Trace, d *trace.Device, o ReplayOptions) (*simulate.Requests, error) {
	if len(o.Edits) == 0 {
		return r.Follow.Requests, nil
	}
	steps := simulate.StepList{}
	for i := range o.Edits {
		if o.Edits[i].NeedsSteps() {
			if err := CheckStep(t, o.Step); err != nil {
				return nil, err
			}
			steps = simulate.Steps(t, d, o.Step)
			break
		}
	}
	edited, err := r.Follow.Edit(t, steps, o.Edits)
	if err != nil {
		return nil, err
	}
	r.Edited, r.Steps, r.Stacks = edited, steps, t.Stacks
	return edited.Requests, nil
}

// event is the event of the recording for one of the replay.
func (r *Replays) event(i int) int {
	if r.Edited == nil {
		return i
	}
	return r.Edited.Requests.Recorded(i)
}

// edits says what was changed before the replay.
func (r *Replays) edits(p *page) {
	if r.Edited == nil {
		return
	}
	for i := range r.Edited.Changes {
		c := &r.Edited.Changes[i]
		p.line("%s: %s.", p.bold("Edit "+c.Edit.Text), r.describe(c))
		for _, g := range leakGroups(r.Stacks, c.Leaks) {
			p.line("  It leaks %s a step: %s.", Bytes(int64(g.bytes)), g.where)
		}
	}
	if r.Steps.Source != "" {
		p.line("Steps: %s (%s).", Count(len(r.Steps.Steps)), r.Steps.Source)
	}
}

// describe says in words what one edit did.
func (r *Replays) describe(c *simulate.Change) string {
	blocks := plural(c.Blocks, "block")
	atPeak := fmt.Sprintf("%s of the %s at the recorded peak", Bytes(c.AtPeak), Bytes(r.Live))
	switch c.Edit.Kind {
	case simulate.EditEmptyCache:
		if c.Calls == 0 {
			return "the recording has no such place: nothing is changed"
		}
		return plural(c.Calls, "call") + " of empty_cache added"
	case simulate.EditLargestFirst:
		if c.Blocks == 0 {
			return fmt.Sprintf("the step with the highest peak is the first already (%s): nothing is changed", c.Step)
		}
		return fmt.Sprintf("step %s has the highest peak; the %s that it takes and gives back go before the first step once more", c.Step, blocks)
	case simulate.EditPrealloc:
		return fmt.Sprintf("one block of %s is taken at the start, and given back", Bytes(c.Bytes))
	case simulate.EditWithoutLeaks:
		if len(c.Leaks) == 0 {
			return "no leak was found: nothing is changed"
		}
		return fmt.Sprintf("%s are freed at the end of their step, %s", blocks, atPeak)
	case simulate.EditDropStack:
		return fmt.Sprintf("%s are never allocated, %s", blocks, atPeak)
	case simulate.EditScale:
		return fmt.Sprintf("%s are %g times as large: what lives within a step or is carried into the next, less copies of weights; %s", blocks, c.Edit.Factor, atPeak)
	}
	return ""
}

// unedited shows what the same replay gives without the edits.
func unedited(x ReplayRun) string {
	if x.Unedited == nil {
		return ""
	}
	s := Bytes(x.Unedited.Stats.Reserved.Peak)
	if !x.Unedited.Completed {
		s += ", runs out"
	}
	return s
}

type editJSON struct {
	Edit       string  `json:"edit"`
	What       string  `json:"what"`
	Blocks     int     `json:"blocks"`
	Bytes      int64   `json:"bytes"`
	AtPeak     int64   `json:"bytes_at_peak"`
	EmptyCalls int     `json:"empty_cache_calls"`
	Step       *string `json:"step"`
}

// editsJSON renders edits for programs.
func (r *Replays) editsJSON() []editJSON {
	out := []editJSON{}
	if r.Edited == nil {
		return out
	}
	for i := range r.Edited.Changes {
		c := &r.Edited.Changes[i]
		out = append(out, editJSON{c.Edit.Text, r.describe(c), c.Blocks, c.Bytes, c.AtPeak, c.Calls, known(c.Step)})
	}
	return out
}

// EditOptions are those of a replay that concern edits.
type EditOptions struct {
	Edits []simulate.Edit
	Step  *regexp.Regexp // annotations that are steps, nil to find out
}
