package check

import (
	"strings"
	"testing"
)

func TestReadPolicy(t *testing.T) {
	p, err := ReadPolicy(strings.NewReader(`
baseline = "memory.json"

[limits]
peak-allocated = "12GiB"
peak-reserved = 1048576
fragmentation = "20%"
retries = 0

[tolerance]
default = "1%"
peak-reserved = "5% or 64MiB"
fragmentation = "3%"
live-at-end = false

[[stack]]
pattern = "cross_entropy"
max = "1.5g"
tolerance = "2%"

[[stack]]
pattern = "attention"
`))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]float64{"peak-allocated": 12 << 30, "peak-reserved": 1 << 20, "fragmentation": 0.2, "retries": 0} {
		if got, ok := p.Limits[name]; !ok || got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	for name, want := range map[string]Tolerance{
		"peak-allocated": {Relative: 0.01}, // by default
		"peak-reserved":  {Relative: 0.05, Absolute: 64 << 20},
		"fragmentation":  {Absolute: 0.03},
		"live-at-end":    {Off: true},
		"retries":        {},
	} {
		m, _ := findMetric(name)
		if got := p.tolerance(name, m.unit, m.tolerance); got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	if p.Baseline != "memory.json" || len(p.Patterns) != 2 || p.Patterns[0].Max != 3<<29 || p.Patterns[0].Tolerance.Relative != 0.02 || p.Patterns[1].Max != -1 {
		t.Errorf("%+v", p)
	}
	if p.Empty() || !NewPolicy().Empty() {
		t.Error("what is empty?")
	}
}

func TestReadPolicyErrors(t *testing.T) {
	for text, want := range map[string]string{
		"baseline = ":                                 "line 1: ",
		"[limits]\npeak = 1":                          `limits.peak: there is no rule "peak"; there are peak-allocated, `,
		"[limits]\npeak-allocated = \"lots\"":         `limits.peak-allocated: "lots" is not a size`,
		"[limits]\nfragmentation = 20":                "write 20% or 0.2",
		"[limits]\nfragmentation = \"120%\"":          "more than all",
		"[limits]\nretries = -1":                      "not a number of times",
		"[tolerance]\npeak-allocated = \"2 percent\"": "a tolerance is 2%",
		"[tolerance]\nnothing = \"2%\"":               `there is no rule "nothing"`,
		"limit = 3":                                   `there is no key "limit"`,
		"[[stack]]\npattern = \"(\"":                  "number 1: pattern",
		"[[stack]]\nmax = 3":                          "number 1: it has no pattern",
		"[[stack]]\npattern = \"a\"\nmax = \"x\"":     `"x" is not a size`,
		"[[stack]]\npattern = \"a\"\nmost = \"x\"":    `there is no key "stack.most"`,
		"baseline = 3":                                "baseline",
	} {
		_, err := ReadPolicy(strings.NewReader(text))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestParseTolerance(t *testing.T) {
	for _, c := range []struct {
		text string
		unit Unit
		want Tolerance
	}{
		{"0", Bytes, Tolerance{}},
		{"2%", Bytes, Tolerance{Relative: 0.02}},
		{"64MiB", Bytes, Tolerance{Absolute: 64 << 20}},
		{"2% or 64MiB", Bytes, Tolerance{Relative: 0.02, Absolute: 64 << 20}},
		{"64MiB or 2 %", Bytes, Tolerance{Relative: 0.02, Absolute: 64 << 20}},
		{"off", Number, Tolerance{Off: true}},
		{"3", Number, Tolerance{Absolute: 3}},
		{"2%", Share, Tolerance{Absolute: 0.02}},
		{"0.02", Share, Tolerance{Absolute: 0.02}},
	} {
		got, err := ParseTolerance(c.text, c.unit)
		if err != nil || got != c.want {
			t.Errorf("%s of %s: %+v, %v", c.text, c.unit, got, err)
		}
	}
	for _, text := range []string{"", "%", "-1%", "nan%", "inf%", "2% 64MiB", "or", "1% or", "off or 2%"} {
		if got, err := ParseTolerance(text, Bytes); err == nil {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

// A frame is read back from what a baseline has of it.
func TestParseFrame(t *testing.T) {
	for text, want := range map[string]string{
		"train.py:66 main":        "train.py|66|main",
		"C:/a b/x.py:7 <lambda>":  "C:/a b/x.py|7|<lambda>",
		"??:0 void f(int, long)":  "??|0|void f(int, long)",
		"a.py:1 operator() b:2 c": "a.py:1 operator() b|2|c", // not to be told apart
		"main":                    "|0|main",
		"":                        "|0|",
	} {
		f := parseFrame(text)
		got := strings.Join([]string{f.File, itoa(f.Line), f.Func}, "|")
		if got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}
