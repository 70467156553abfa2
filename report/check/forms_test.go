package check

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/internal/tracetest"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/trace"
)

func itoa(n int) string { return strconv.Itoa(n) }

// hostile is a result with everything in it that a form has to escape.
func hostile() *Result {
	r := tracetest.New("", -1)
	r.Training(2, nil)
	t := r.Trace()
	p := report.ProfileOf(t, &t.Devices[0], report.Options{Limit: -1, Device: -1})
	nasty := "a\x00b\x1b[1m<&>\"'%,:\r\n\xff\uffff]]>::error"
	return &Result{File: "dir x/" + nasty, Baseline: nasty, Time: 1_700_000_000e9, Profiles: []*report.Profiled{p}, Notes: []string{nasty},
		Findings: []Finding{
			{Rule: "peak-allocated", What: "x", Unit: Bytes, Passed: true, Message: "fine"},
			{Rule: "max-stack " + nasty, What: nasty, Unit: Bytes, Message: nasty, Stacks: []Blame{{Where: nasty, Is: 5,
				Frames: []trace.Frame{{File: nasty, Func: nasty, Line: 3}, {File: "", Func: "", Line: 0}}}}},
			{Rule: "devices", Device: 7, Unit: Number, Message: "not there"},
		}}
}

// element says what an element of a JUnit report must have and may have, in the order of the strict schema.
type element struct {
	attributes []string // required
	integers   []string
	children   []string // in this order
}

var junitForm = map[string]element{
	"testsuites": {[]string{"tests", "failures", "errors", "time"}, []string{"tests", "failures", "errors"}, []string{"testsuite"}},
	"testsuite": {[]string{"id", "package", "name", "timestamp", "hostname", "tests", "failures", "errors", "skipped", "time"},
		[]string{"id", "tests", "failures", "errors", "skipped"}, []string{"properties", "testcase", "system-out", "system-err"}},
	"properties": {nil, nil, []string{"property"}},
	"property":   {[]string{"name", "value"}, nil, nil},
	"testcase":   {[]string{"name", "classname", "time"}, nil, []string{"failure"}},
	"failure":    {[]string{"message", "type"}, nil, nil},
	"system-out": {}, "system-err": {},
}

func TestJUnitForm(t *testing.T) {
	r := hostile()
	var b bytes.Buffer
	if err := r.WriteJUnit(&b); err != nil {
		t.Fatal(err)
	}
	checkJUnit(t, b.Bytes())
	var s junitSuites
	if err := xml.Unmarshal(b.Bytes(), &s); err != nil {
		t.Fatal(err)
	}
	if s.Tests != 3 || s.Failures != 2 || len(s.Suites) != 1 || len(s.Suites[0].Cases) != 3 || s.Suites[0].Timestamp != "2023-11-14T22:13:20" {
		t.Errorf("%+v", s)
	}
	files, _ := filepath.Glob("testdata/golden/*.xml")
	if len(files) == 0 {
		t.Error("no golden reports")
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		checkJUnit(t, data)
	}
}

func checkJUnit(t *testing.T, data []byte) {
	t.Helper()
	d := xml.NewDecoder(bytes.NewReader(data))
	type open struct {
		name string
		at   int // in the order of children
	}
	var stack []open
	for {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, data)
		}
		switch x := token.(type) {
		case xml.StartElement:
			form, ok := junitForm[x.Name.Local]
			if !ok {
				t.Errorf("element %s", x.Name.Local)
			}
			if len(stack) > 0 {
				up := &stack[len(stack)-1]
				at := slices.Index(junitForm[up.name].children, x.Name.Local)
				if at < up.at {
					t.Errorf("%s in %s is out of place", x.Name.Local, up.name)
				}
				up.at = at
			}
			values := map[string]string{}
			for _, a := range x.Attr {
				values[a.Name.Local] = a.Value
			}
			for _, a := range form.attributes {
				if _, ok := values[a]; !ok {
					t.Errorf("%s has no %s", x.Name.Local, a)
				}
			}
			for _, a := range form.integers {
				if _, err := strconv.Atoi(values[a]); err != nil {
					t.Errorf("%s: %s is %q", x.Name.Local, a, values[a])
				}
			}
			if stamp, ok := values["timestamp"]; ok && !regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d$`).MatchString(stamp) {
				t.Errorf("timestamp %q", stamp)
			}
			stack = append(stack, open{name: x.Name.Local})
		case xml.EndElement:
			stack = stack[:len(stack)-1]
		}
	}
}

// TestSARIFForm checks what SARIF 2.1.0 requires of the objects that are written.
func TestSARIFForm(t *testing.T) {
	var b bytes.Buffer
	if err := hostile().WriteSARIF(&b, "", "v1.0"); err != nil {
		t.Fatal(err)
	}
	checkSARIF(t, b.Bytes())
	b.Reset()
	if err := hostile().WriteSARIF(&b, "", "unknown"); err != nil || strings.Contains(b.String(), `"version": "unknown"`) {
		t.Errorf("%v: a version that is none is written", err)
	}
	files, _ := filepath.Glob("testdata/golden/*.sarif")
	if len(files) == 0 {
		t.Error("no golden logs")
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		checkSARIF(t, data)
	}
}

type object = map[string]any

func checkSARIF(t *testing.T, data []byte) {
	t.Helper()
	var log object
	if err := json.Unmarshal(data, &log); err != nil {
		t.Fatal(err)
	}
	get := func(o object, key string) any {
		v, ok := o[key]
		if !ok {
			t.Errorf("%q is missing of %v", key, o)
		}
		return v
	}
	text := func(o object, key string) string {
		s, ok := get(o, key).(string)
		if !ok || s == "" {
			t.Errorf("%q is %v", key, o[key])
		}
		return s
	}
	child := func(o object, key string) object { c, _ := get(o, key).(object); return c }
	list := func(o object, key string) []any { l, _ := get(o, key).([]any); return l }
	if text(log, "version") != "2.1.0" || len(list(log, "runs")) != 1 {
		t.Errorf("%v", log)
	}
	location := func(l object) {
		if p, ok := l["physicalLocation"].(object); ok {
			if _, err := url.Parse(text(child(p, "artifactLocation"), "uri")); err != nil {
				t.Error(err)
			}
			if line, ok := child(p, "region")["startLine"].(float64); !ok || line < 1 {
				t.Errorf("line %v", p)
			}
		}
	}
	run := list(log, "runs")[0].(object)
	driver := child(child(run, "tool"), "driver")
	text(driver, "name")
	var rules []string
	for _, r := range list(driver, "rules") {
		rules = append(rules, text(r.(object), "id"))
		child(r.(object), "shortDescription")
	}
	for i, r := range rules {
		if slices.Contains(rules[:i], r) {
			t.Errorf("rule %s comes twice", r)
		}
	}
	for _, r := range list(run, "results") {
		x := r.(object)
		text(child(x, "message"), "text")
		if at := int(get(x, "ruleIndex").(float64)); at < 0 || at >= len(rules) || rules[at] != text(x, "ruleId") {
			t.Errorf("rule %d is %v", at, x["ruleId"])
		}
		if !slices.Contains([]string{"none", "note", "warning", "error"}, text(x, "level")) {
			t.Errorf("level %v", x["level"])
		}
		if len(list(x, "locations")) == 0 {
			t.Error("a result without a location is not shown")
		}
		for _, l := range list(x, "locations") {
			location(l.(object))
		}
		stacks, _ := x["stacks"].([]any)
		for _, s := range stacks {
			for _, f := range list(s.(object), "frames") {
				location(child(f.(object), "location"))
			}
		}
	}
	for _, i := range list(run, "invocations") {
		if _, ok := get(i.(object), "executionSuccessful").(bool); !ok {
			t.Errorf("%v", i)
		}
	}
}

// A line of a log can be a command to GitHub's runner: nothing that a file says may end one and begin another.
func TestAnnotationsEscape(t *testing.T) {
	var b bytes.Buffer
	if err := hostile().WriteAnnotations(&b, ""); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	if len(lines) != 2 {
		t.Fatalf("%q", lines)
	}
	for _, l := range lines {
		if !strings.HasPrefix(l, "::error title=vramscope%3A ") || strings.ContainsRune(l, '\r') {
			t.Errorf("%q", l)
		}
	}
}

// A recorded file is found in a checkout by the end of its path, and nothing outside of it is.
func TestCheckout(t *testing.T) {
	root := t.TempDir()
	for _, f := range []string{"src/model.py", "train.py"} {
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(f)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, f), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(root), "outside.py"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(filepath.Join(filepath.Dir(root), "outside.py"))
	for recorded, want := range map[string]string{
		"/home/user/proj/src/model.py":   "src/model.py",
		".../proj/src/model.py":          "src/model.py",
		`C:\ci\src\model.py`:             "src/model.py",
		"train.py":                       "train.py",
		"/x/model.py":                    "",
		"../outside.py":                  "",
		"/a/../outside.py":               "",
		"src":                            "",
		"":                               "",
		filepath.Join(root, "train.py"):  "train.py",
		"/x/site-packages/torch/nn/m.py": "",
	} {
		if got, ok := Checkout(root).file(recorded); got != want || ok != (want != "") {
			t.Errorf("%s: %q, want %q", recorded, got, want)
		}
	}
	at, ok := Checkout(root).find([]trace.Frame{{File: "/lib/x.py", Line: 3}, {File: "/p/src/model.py", Line: 31}, {File: "/p/train.py", Line: 9}})
	if !ok || fmt.Sprint(at) != "{src/model.py 31}" {
		t.Errorf("%v %v", at, ok)
	}
}
