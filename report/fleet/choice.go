package fleet

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/simulate"
	"github.com/vramscope/vramscope/simulate/fleet"
)

// Choice is what one setting would come to on a number of devices.
type Choice struct {
	Conf      string
	Own       bool          // it is each device's own settings, whatever they are
	Devices   int           // on which it was replayed
	Completed int           // of them
	Peak      int64         // bytes reserved at most by any, by the best guess
	Low, High int64         // the same over what no recording tells, as far as that was looked at
	Worst     *fleet.Device // the device that reserves Peak
	Calls     int64         // of the device for memory, of all together
	Retries   int64
	Total     int64   // the peaks of all added up
	Grew      int     // devices that reserve a hundredth more than under their own settings
	Broken    int     // devices that run out of memory, and do not under their own settings
	Rescued   int     // devices that do not run out of memory, and do under their own settings
	Slow      float64 // share of its time by which the device that is slowed down most is, roughly
}

const (
	// slowAt is from which slowing down on a setting is too dear, if it does not save a tenth.
	slowAt = 0.1
	// callTime is what a call of the device for memory takes, in seconds.
	callTime = 0.0005
	// fewCalls are made while a program warms up, whatever its settings.
	fewCalls = 100
)

// choose adds up what a setting comes to on devices; those that lack a trial of it are left out.
func choose(conf string, devices []*fleet.Device) Choice {
	c := Choice{Conf: conf}
	for _, d := range devices {
		t, own := trialOf(d, conf), trialOf(d, d.Facts.Conf)
		if t != nil && own != nil {
			c.add(d, t, own)
		}
	}
	return c
}

// present is what the devices' own settings come to.
func present(devices []*fleet.Device) Choice {
	c := Choice{Own: true}
	for _, d := range devices {
		if own := trialOf(d, d.Facts.Conf); own != nil {
			c.add(d, own, own)
		}
	}
	return c
}

func (c *Choice) add(d *fleet.Device, t, own *fleet.Trial) {
	c.Devices++
	c.Calls += t.Calls
	c.Retries += t.Retries
	c.Total += t.Peak
	c.Low, c.High = max(c.Low, t.Low), max(c.High, t.High)
	if c.Worst == nil || t.Peak > c.Peak {
		c.Peak, c.Worst = t.Peak, d
	}
	switch {
	case t.Completed && !own.Completed:
		c.Rescued++
	case own.Completed && !t.Completed:
		c.Broken++
	}
	if t.Completed {
		c.Completed++
	}
	if t.Peak > own.Peak+own.Peak/100 {
		c.Grew++
	}
	if more := t.Calls + t.Retries - own.Calls - own.Retries; more > fewCalls && d.Facts.Span > 0 && own.Completed {
		c.Slow = max(c.Slow, float64(more)*callTime/(float64(d.Facts.Span)/1e6))
	}
}

// compare ranks: what lets most ranks finish, then what the worst rank reserves, then what calls the device least.
func (c *Choice) compare(o *Choice) int {
	return cmp.Or(
		cmp.Compare(o.Completed-o.Broken, c.Completed-c.Broken),
		cmp.Compare(c.Peak, o.Peak),
		cmp.Compare(c.Calls+c.Retries, o.Calls+o.Retries),
		cmp.Compare(len(c.Conf), len(o.Conf)),
		cmp.Compare(c.Conf, o.Conf),
	)
}

// near says whether a choice does nearly as well as the best.
func (c *Choice) near(best *Choice) bool {
	return c.Completed == best.Completed && c.Broken == best.Broken && c.Peak-best.Peak <= best.Peak/50
}

// Tuning is the one setting for the whole job.
type Tuning struct {
	Searched    []Searched // the ranks on which settings were searched
	Tried       int        // settings replayed there, all together
	Own         Choice
	Choices     []Choice // that were replayed on all ranks, the best first
	Recommended *Choice  // nil if nothing is worth it
	Why         string
	Lost        int // devices that could not be looked at again
	Unreplayed  int // devices whose recordings have no requests to replay
}

// Searched is a device on which settings were searched, and why there.
type Searched struct {
	*fleet.Device
	Why []string
}

// Saves is by how much less the rank that reserves most reserves, bytes.
func (t *Tuning) Saves(c *Choice) int64 { return t.Own.Peak - c.Peak }

// tuningOf judges the trials of a summary; nil if there are none.
func tuningOf(s *fleet.Summary) *Tuning {
	t := &Tuning{}
	picks := matter(s)
	for _, p := range picks {
		if p.Search != nil {
			t.Searched = append(t.Searched, Searched{p.Device, p.why})
			t.Tried += p.Search.Tried
		}
	}
	devices := replayable(s)
	for i := range s.Devices {
		if s.Devices[i].Lost != "" {
			t.Lost++
		}
		if f := s.Devices[i].Facts; f != nil && !f.Replayable {
			t.Unreplayed++
		}
	}
	if len(t.Searched) == 0 {
		return nil
	}
	t.Own = present(devices)
	if short := shortlist(picks); len(short) > 0 {
		for _, conf := range finalists(picks, short) {
			if c := choose(conf, devices); c.Devices > 0 {
				t.Choices = append(t.Choices, c)
			}
		}
	}
	sortChoices(t.Choices)
	t.recommend(len(devices))
	return t
}

func sortChoices(list []Choice) {
	for i := 1; i < len(list); i++ {
		for j := i; j > 0 && list[j].compare(&list[j-1]) < 0; j-- {
			list[j], list[j-1] = list[j-1], list[j]
		}
	}
}

// recommend picks the setting for all. No rank that finishes now may fail under it, and the rank that reserves most
// must reserve less for certain, by a hundredth or more, unless more ranks finish. Of those that do nearly as well
// it is the shortest.
func (t *Tuning) recommend(devices int) {
	if t.Own.Devices == 0 {
		t.Why = "nothing could be replayed"
		return
	}
	t.Why = "no setting that was tried does better on all ranks"
	var best *Choice
	for i := range t.Choices {
		c := &t.Choices[i]
		saves := t.Saves(c)
		switch {
		case c.Devices < t.Own.Devices:
			continue
		case c.Broken > 0:
			t.Why = fmt.Sprintf("%s would save most, but %s would run out of memory that do not now", named(c.Conf), report.Plural(c.Broken, "rank"))
			continue
		case c.Rescued > 0:
		case saves*100 < t.Own.Peak || c.High >= t.Own.Low:
			if saves > 0 {
				t.Why = fmt.Sprintf("%s would save %s on the rank that reserves most, which is less than a hundredth or than is uncertain", named(c.Conf), report.Bytes(saves))
			}
			continue
		case c.Slow >= slowAt && saves*10 < t.Own.Peak:
			t.Why = fmt.Sprintf("%s would save %s, but calls the device so often that a rank is slowed down by about %.0f %%", named(c.Conf), report.Bytes(saves), c.Slow*100)
			continue
		}
		if best == nil || c.near(best) && len(c.Conf) < len(best.Conf) {
			best = c
		}
	}
	if best == nil {
		return
	}
	t.Recommended = best
	t.Why = t.because(best, devices)
}

// because says what speaks for a setting.
func (t *Tuning) because(c *Choice, devices int) string {
	var parts []string
	switch short := t.Own.Devices - t.Own.Completed; {
	case c.Rescued == 1 && short == 1:
		parts = append(parts, "the one that runs out of memory now would get past that")
	case c.Rescued > 0 && c.Rescued == short:
		parts = append(parts, fmt.Sprintf("all %s that run out of memory now would get past that", report.Count(short)))
	case c.Rescued > 0:
		parts = append(parts, fmt.Sprintf("%s of the %s that run out of memory now would get past that", report.Count(c.Rescued), report.Count(short)))
	}
	if saves := t.Saves(c); saves > 0 {
		parts = append(parts, fmt.Sprintf("no rank reserves more than %s, %s less than now", report.Bytes(c.Peak), report.Bytes(saves)))
	}
	checked := fmt.Sprintf("replayed on all %s", report.Plural(c.Devices, "device"))
	if c.Devices < devices {
		checked = fmt.Sprintf("replayed on %s of %s", report.Count(c.Devices), report.Plural(devices, "device"))
	}
	if c.Grew > 0 {
		checked += fmt.Sprintf(", of which %s would reserve more than now", report.Count(c.Grew))
	}
	return strings.Join(append(parts, checked), "; ")
}

func named(conf string) string {
	if conf == "" {
		return "the default settings"
	}
	return conf
}

// since says from which version of PyTorch on a setting is understood, if not every version in use knows it.
func since(conf string) string {
	c := simulate.Candidate{Conf: conf}
	if !c.Recent() {
		return ""
	}
	return simulate.Since(conf).String()
}
