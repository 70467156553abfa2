package alloctest

import (
	"fmt"
	"testing"
)

// A Model is a model with a name and what it promises.
type Model struct {
	Name string
	New  New
	Options
}

// Compare runs one random script at a time through all models. What is asked of them is the same, so what
// they count of it must be the same whatever they do with it: the bytes requested, now and at the peak,
// and, on a device without limit, that nothing fails.
func Compare(t *testing.T, models []Model) {
	t.Helper()
	check(t, Options{}, func(s Script) error {
		var first run
		for i, m := range models {
			if err := Conform(s, m.New, 0, m.Options); err != nil {
				return fmt.Errorf("%s: %w", m.Name, err)
			}
			r, err := places(m.New, s, 0)
			if err != nil {
				return fmt.Errorf("%s: %w", m.Name, err)
			}
			if i == 0 {
				first = r
			}
			switch {
			case r.stats.OOMs != first.stats.OOMs:
				return fmt.Errorf("%d requests failed under %s, %d under %s", r.stats.OOMs, m.Name, first.stats.OOMs, models[0].Name)
			case r.stats.Requested.Peak != first.stats.Requested.Peak && !m.CompletesEarly:
				return fmt.Errorf("%s counted a peak of %d requested, %s of %d",
					m.Name, r.stats.Requested.Peak, models[0].Name, first.stats.Requested.Peak)
			}
		}
		return nil
	})
}

// Examples gives n random scripts, always the same ones.
func Examples(n int, max int64) []Script {
	g := Scripts(120, max)
	out := make([]Script, n)
	for i := range out {
		out[i] = g.Example(i)
	}
	return out
}
