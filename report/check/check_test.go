package check_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/internal/recordtest"
	"github.com/vramscope/vramscope/internal/tracetest"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/report/check"
	"github.com/vramscope/vramscope/trace"
	"github.com/vramscope/vramscope/trace/source"
)

const mib = tracetest.MiB

// training is a run of the small program with sizes changed.
func training(conf string, limit int64, steps int, change func(string, int64) int64) *trace.Trace {
	r := tracetest.New(conf, limit)
	r.Training(steps, change)
	return r.Trace()
}

func larger(line string, percent int64) func(string, int64) int64 {
	return func(where string, size int64) int64 {
		if strings.Contains(where, line) {
			return size * (100 + percent) / 100
		}
		return size
	}
}

func run(t *testing.T, tr *trace.Trace, p *check.Policy, b *check.Baseline) *check.Result {
	t.Helper()
	r, err := check.Run("run.pickle", tr, check.Options{Policy: p, Baseline: b, Device: -1, Limit: -1})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// baselineOf writes a baseline and reads it back.
func baselineOf(t *testing.T, tr *trace.Trace, patterns ...check.Pattern) *check.Baseline {
	t.Helper()
	var b bytes.Buffer
	if err := check.Make(run(t, tr, nil, nil).Profiles, patterns).Write(&b); err != nil {
		t.Fatal(err)
	}
	if !json.Valid(b.Bytes()) {
		t.Fatalf("not JSON: %s", b.Bytes())
	}
	read, err := check.ReadBaseline("baseline.json", &b)
	if err != nil {
		t.Fatal(err)
	}
	return read
}

func failed(r *check.Result) []string {
	var out []string
	for _, f := range r.Findings {
		if !f.Passed {
			out = append(out, f.Rule)
		}
	}
	return out
}

// A recording passes the baseline that was made of it, whatever it is a recording of.
func TestOwnBaseline(t *testing.T) {
	for _, r := range recordtest.Snapshots() {
		if !r.Own && testing.Short() {
			continue
		}
		t.Run(r.Name, func(t *testing.T) {
			tr, err := source.Open(r.File, source.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := check.Run(r.File, tr, check.Options{Device: -1, Limit: -1}); err != nil {
				t.Skip(err)
			}
			b := baselineOf(t, tr)
			got := run(t, tr, nil, b)
			if !got.Passed() || len(got.Notes) > 1 {
				t.Errorf("fails %v; %v", failed(got), got.Notes)
			}
			for _, f := range got.Findings {
				if f.Value != f.Baseline && f.Rule != "stack-growth" {
					t.Errorf("%s: %v is not the %v that the baseline has", f.Rule, f.Value, f.Baseline)
				}
			}
		})
	}
}

// Any one activation that is made 10 % larger fails the check, and the line that made it is named first.
func TestLargerActivation(t *testing.T) {
	before := training("", -1, 6, nil)
	b := baselineOf(t, before)
	for i, line := range []string{"model.py:31 forward", "model.py:32 forward", "model.py:33 forward", "model.py:34 forward", "train.py:36 train"} {
		n := 0
		change := func(where string, size int64) int64 {
			// The four activations all come from linear.py:134; the size tells which.
			isLinear := strings.Contains(where, "linear.py:134") && i < 4 && size == int64(24+8*i)*mib
			if isLinear || i == 4 && strings.Contains(where, "functional.py:3504") {
				n++
				return size * 11 / 10
			}
			return size
		}
		r := run(t, training("", -1, 6, change), nil, b)
		if n != 6 {
			t.Fatalf("%s: %d changed", line, n)
		}
		if r.Passed() {
			t.Errorf("%s: passed", line)
			continue
		}
		for _, f := range r.Findings {
			if f.Passed {
				continue
			}
			if len(f.Stacks) == 0 || !strings.HasPrefix(f.Stacks[0].Where, line) || !strings.Contains(f.Message, line) {
				t.Errorf("%s: %s blames %+v: %s", line, f.Rule, f.Stacks, f.Message)
			}
		}
		if got := strings.Join(failed(r), " "); got != "peak-allocated peak-reserved-replayed stack-growth" {
			t.Errorf("%s: failed %s", line, got)
		}
	}
}

// What tolerances allow passes, and not a byte more.
func TestTolerances(t *testing.T) {
	b := baselineOf(t, training("", -1, 3, nil)) // 264 MiB allocated at most
	grown := training("", -1, 3, larger("functional.py:3504", 10))
	for _, c := range []struct {
		tolerances string
		passes     bool
	}{
		{"", false},
		{"default=1%", false},
		{"default=10%", true},
		{"default=4MiB", true},
		{"default=4194303", false},
		{"default=1% or 4MiB", true},
		{"default=off", true},
		{"peak-allocated=4MiB", false},
		{"peak-allocated=4MiB peak-reserved-replayed=4MiB", false},
		{"peak-allocated=4MiB peak-reserved-replayed=4MiB stack-growth=10%", true},
		{"peak-allocated=off peak-reserved-replayed=off stack-growth=off", true},
	} {
		p := check.NewPolicy()
		for _, s := range strings.Split(c.tolerances, " p") {
			for _, one := range splitTolerances(s) {
				rule, text, _ := strings.Cut(one, "=")
				if err := p.SetTolerance(rule, text); err != nil {
					t.Fatal(err)
				}
			}
		}
		if r := run(t, grown, p, b); r.Passed() != c.passes {
			t.Errorf("%q: passed %v: %v", c.tolerances, r.Passed(), failed(r))
		}
	}
}

// splitTolerances takes a list apart at the spaces before a rule.
func splitTolerances(s string) []string {
	var out []string
	for _, w := range strings.Fields(s) {
		if strings.Contains(w, "=") {
			if !strings.HasPrefix(w, "default") && !strings.HasPrefix(w, "stack") && !strings.HasPrefix(w, "p") {
				w = "p" + w
			}
			out = append(out, w)
		} else {
			out[len(out)-1] += " " + w
		}
	}
	return out
}

// Limits hold without a baseline.
func TestLimits(t *testing.T) {
	tr := training("", 280*mib, 3, larger("functional.py:3504", 60)) // 264+24 MiB do not fit
	for _, c := range []struct{ rule, limit, want string }{
		{"peak-allocated", "300MiB", ""},
		{"peak-allocated", "200MiB", "max-peak-allocated"},
		{"peak-reserved", "1g", ""},
		{"peak-reserved", "200MiB", "max-peak-reserved"},
		{"peak-reserved-replayed", "200MiB", "max-peak-reserved-replayed"},
		{"fragmentation", "90%", ""},
		{"retries", "3", ""},
		{"retries", "0", "max-retries"},
		{"ooms", "9", ""},
		{"ooms", "0", "max-ooms"},
		{"live-at-end", "48MiB", ""},
		{"live-at-end", "47MiB", "max-live-at-end"},
		{"leak-per-step", "1MiB", "max-leak-per-step"}, // three steps tell nothing
	} {
		p := check.NewPolicy()
		if err := p.SetLimit(c.rule, c.limit); err != nil {
			t.Fatal(err)
		}
		r := run(t, tr, p, nil)
		if got := strings.Join(failed(r), " "); got != c.want {
			t.Errorf("%s %s: failed %q", c.rule, c.limit, got)
		}
		if len(r.Findings) != 1 || r.Findings[0].Message == "" || strings.HasSuffix(r.Findings[0].Message, ".") {
			t.Errorf("%s: %+v", c.rule, r.Findings)
		}
	}
}

// A share of what was reserved was never in use.
func TestFragmentation(t *testing.T) {
	r := tracetest.New("", -1)
	x := r.Alloc(100*mib, "/p/a.py:1 f")
	r.Free(x)
	r.Alloc(20*mib, "/p/a.py:2 f") // in the segment of 100 MiB
	r.Alloc(90*mib, "/p/a.py:3 f") // does not fit beside it
	p := check.NewPolicy()
	if err := p.SetLimit("fragmentation", "42%"); err != nil {
		t.Fatal(err)
	}
	got := run(t, r.Trace(), p, nil)
	if want := 1 - 110./190; got.Passed() || got.Findings[0].Value < want-1e-9 || got.Findings[0].Value > want+1e-9 {
		t.Errorf("%+v", got.Findings)
	}
}

// What piles up from step to step is found and named.
func TestLeak(t *testing.T) {
	r := tracetest.New("", -1)
	for i := range 12 {
		r.Step(fmt.Sprintf("## step %d ##", i), func() {
			x := r.Alloc(50*mib, "/p/net.py:7 forward < /p/t.py:9 main")
			r.Alloc(3*mib, "/p/log.py:4 keep < /p/t.py:10 main")
			r.Free(x)
		})
	}
	p := check.NewPolicy()
	for _, c := range []struct {
		limit  string
		passes bool
	}{{"3MiB", true}, {"2.9MiB", false}} {
		if err := p.SetLimit("leak-per-step", c.limit); err != nil {
			t.Fatal(err)
		}
		got := run(t, r.Trace(), p, nil)
		if got.Passed() != c.passes {
			t.Errorf("%s: %+v", c.limit, got.Findings)
		}
		if f := got.Findings[0]; !c.passes && (f.Value != 3*mib || !strings.Contains(f.Message, "log.py:4 keep")) {
			t.Errorf("%+v", f)
		}
	}
}

// Patterns are about all stacks that match, and what they hold at once.
func TestPatterns(t *testing.T) {
	pattern := func(text string, most int64) check.Pattern {
		p, err := check.NewPattern(text, most)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	before, grown := training("", -1, 3, nil), training("", -1, 3, larger("linear.py:134", 10))
	for _, c := range []struct {
		name    string
		pattern check.Pattern
		trace   *trace.Trace
		base    *check.Baseline
		value   float64
		want    string
	}{
		{"all activations", pattern(`model\.py:\d+ forward`, 144*mib), before, nil, 144 * mib, ""},
		{"a byte less", pattern(`model\.py:\d+ forward`, 144*mib-1), before, nil, 144 * mib, `max-stack model\.py:\d+ forward`},
		{"one of them", pattern(`model\.py:33 `, 40*mib), before, nil, 40 * mib, ""},
		{"none", pattern(`nowhere`, 0), before, nil, 0, ""},
		{"as before", pattern(`forward`, -1), before, baselineOf(t, before, pattern("forward", -1)), 144 * mib, ""},
		{"grown", pattern(`forward`, -1), grown, baselineOf(t, before, pattern("forward", -1)), 158.4 * mib, "stack forward"},
		{"not in the baseline", pattern(`forward`, -1), before, baselineOf(t, before), 144 * mib, "stack forward"},
	} {
		p := check.NewPolicy()
		p.Patterns = []check.Pattern{c.pattern}
		if err := p.SetTolerance("default", "off"); err != nil {
			t.Fatal(err)
		}
		r := run(t, c.trace, p, c.base)
		if got := strings.Join(failed(r), " "); got != c.want {
			t.Errorf("%s: failed %q, want %q: %+v", c.name, got, c.want, r.Findings)
		}
		if v := r.Findings[len(r.Findings)-1].Value; v < c.value-8 || v > c.value+8 {
			t.Errorf("%s: %v, want %v", c.name, v, c.value)
		}
	}
}

// A baseline without a device, or with one too many, is not quietly passed.
func TestDevices(t *testing.T) {
	one := training("", -1, 2, nil)
	two := *one
	second := one.Devices[0]
	second.Index = 1
	two.Devices = append([]trace.Device{}, one.Devices[0], second)
	for _, c := range []struct {
		name      string
		base, now *trace.Trace
		want      string
	}{
		{"more", one, &two, "devices"},
		{"fewer", &two, one, "devices"},
		{"same", &two, &two, ""},
	} {
		r := run(t, c.now, nil, baselineOf(t, c.base))
		if got := strings.Join(failed(r), " "); got != c.want {
			t.Errorf("%s: failed %q: %+v", c.name, got, r.Findings)
		}
	}
	if _, err := check.Run("x", &trace.Trace{Stacks: trace.NewStacks()}, check.Options{Device: -1}); err == nil {
		t.Error("a recording without events is checked")
	}
}

// Settings that differ from the baseline's are said, since they change what is reserved.
func TestSettingsNoted(t *testing.T) {
	b := baselineOf(t, training("", -1, 2, nil))
	r := run(t, training("expandable_segments:True", -1, 2, nil), nil, b)
	if len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "expandable_segments:True, in the baseline they were the default") {
		t.Errorf("%q", r.Notes)
	}
}

func TestReadBaselineErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                                   "offset 0",
		"{":                                  "offset 1",
		"[]":                                 "is not a baseline",
		"{}":                                 `its schema is ""`,
		`{"schema":"vramscope/analyze/v1"}`:  "vramscope/analyze/v1",
		`{"schema":"vramscope/baseline/v1"}`: "",
		`{"schema":"vramscope/baseline/v1","devices":[{"stacks":[{"frames":["", ":", "a:b c", "x.py:9 f g"]}]}]}`: "",
	} {
		_, err := check.ReadBaseline("b", strings.NewReader(text))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// The same recording makes the same bytes, so that a baseline that did not change is not a change to commit.
func TestBaselineStable(t *testing.T) {
	var first []byte
	for range 3 {
		var b bytes.Buffer
		if err := check.Make(run(t, training("", -1, 3, nil), nil, nil).Profiles, nil).Write(&b); err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = b.Bytes()
		} else if !bytes.Equal(first, b.Bytes()) {
			t.Fatal("differs")
		}
	}
	golden(t, "baseline.json", first)
}

// What people and programs see.
func TestGolden(t *testing.T) {
	b := baselineOf(t, training("", -1, 6, nil))
	p := check.NewPolicy()
	if err := p.SetLimit("peak-allocated", "1GiB"); err != nil {
		t.Fatal(err)
	}
	for name, tr := range map[string]*trace.Trace{
		"passed": training("", -1, 6, nil),
		"failed": training("", -1, 6, larger("functional.py:3504", 10)),
	} {
		r := run(t, tr, p, b)
		write := func(ending string, f func(*bytes.Buffer) error) {
			var out bytes.Buffer
			if err := f(&out); err != nil {
				t.Fatal(err)
			}
			golden(t, name+ending, out.Bytes())
		}
		write(".txt", func(w *bytes.Buffer) error { return r.WriteText(w, report.Style{}) })
		write(".json", func(w *bytes.Buffer) error { return r.WriteJSON(w) })
		write(".summary.md", func(w *bytes.Buffer) error { return r.WriteSummary(w) })
		write(".junit.xml", func(w *bytes.Buffer) error { return r.WriteJUnit(w) })
		write(".sarif", func(w *bytes.Buffer) error { return r.WriteSARIF(w, "", "1.2.3") })
		write(".annotations", func(w *bytes.Buffer) error { return r.WriteAnnotations(w, "") })
	}
}

// golden compares with a file that was read; UPDATE_GOLDEN=1 writes it.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", "golden", name)
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, got) {
		t.Errorf("%s differs; got:\n%s", file, got)
	}
}
