package check

import (
	"encoding/xml"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/vramscope/vramscope/report"
)

// JUnit's form has no schema that all agree on. What is written here is what the strictest of those in use
// wants: the attributes and empty elements that a reader could do without are there.

type junitSuites struct {
	XMLName  xml.Name     `xml:"testsuites"`
	Name     string       `xml:"name,attr"`
	Tests    int          `xml:"tests,attr"`
	Failures int          `xml:"failures,attr"`
	Errors   int          `xml:"errors,attr"`
	Time     string       `xml:"time,attr"`
	Suites   []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	ID         int          `xml:"id,attr"`
	Package    string       `xml:"package,attr"`
	Name       string       `xml:"name,attr"`
	Timestamp  string       `xml:"timestamp,attr"`
	Hostname   string       `xml:"hostname,attr"`
	Tests      int          `xml:"tests,attr"`
	Failures   int          `xml:"failures,attr"`
	Errors     int          `xml:"errors,attr"`
	Skipped    int          `xml:"skipped,attr"`
	Time       string       `xml:"time,attr"`
	Properties junitProps   `xml:"properties"`
	Cases      []junitCase  `xml:"testcase"`
	Out        junitContent `xml:"system-out"`
	Err        junitContent `xml:"system-err"`
}

type junitProps struct {
	List []junitProp `xml:"property"`
}

type junitProp struct {
	Name  string `xml:"name,attr"`
	Value string `xml:"value,attr"`
}

type junitCase struct {
	Name      string        `xml:"name,attr"`
	Classname string        `xml:"classname,attr"`
	Time      string        `xml:"time,attr"`
	Failure   *junitFailure `xml:"failure"`
}

type junitFailure struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr"`
	Text    string `xml:",chardata"`
}

type junitContent struct {
	Text string `xml:",chardata"`
}

// WriteJUnit renders a result as a JUnit report: a suite for each device, a test for each rule.
func (r *Result) WriteJUnit(w io.Writer) error {
	out := junitSuites{Name: "vramscope check", Time: "0"}
	stamp := time.Unix(0, int64(r.Time)).UTC().Format("2006-01-02T15:04:05")
	for i, p := range r.Profiles {
		s := junitSuite{ID: i, Package: "vramscope", Name: clean(fmt.Sprintf("%s device %d", filepath.Base(r.File), p.Device)), Timestamp: stamp,
			Hostname: "localhost", Time: "0"}
		s.Properties.List = []junitProp{{"file", clean(r.File)}, {"baseline", clean(r.Baseline)}, {"settings", clean(p.Settings.String())}}
		var lines []string
		for j := range r.Findings {
			f := &r.Findings[j]
			if f.Device != p.Device && (i > 0 || r.recorded(f.Device)) {
				continue // a device that only the baseline has is told of in the first suite
			}
			c := junitCase{Name: clean(f.Rule), Classname: "vramscope.check", Time: "0"}
			if !f.Passed {
				c.Failure = &junitFailure{Message: clean(plain(f.Message)), Type: clean(f.Rule), Text: clean(f.details())}
				s.Failures++
			}
			lines = append(lines, f.Rule+": "+f.Message)
			s.Cases = append(s.Cases, c)
		}
		s.Tests = len(s.Cases)
		s.Out.Text = clean(strings.Join(append(lines, r.Notes...), "\n"))
		out.Tests += s.Tests
		out.Failures += s.Failures
		out.Suites = append(out.Suites, s)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	if err := e.Encode(out); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

// recorded says whether the recording has a device.
func (r *Result) recorded(device int) bool {
	return slices.ContainsFunc(r.Profiles, func(p *report.Profiled) bool { return p.Device == device })
}

// details is the message of a finding with whole stacks.
func (f *Finding) details() string {
	var b strings.Builder
	b.WriteString(f.Message + "\n")
	for _, s := range f.Stacks {
		b.WriteString("\n" + s.Where + "\n")
		for _, line := range frameLines(s.Frames) {
			b.WriteString("    " + line + "\n")
		}
	}
	return b.String()
}

// clean replaces the characters that XML cannot have, whatever a file is named.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' || r == '\n' || r == '\r' || r >= ' ' && r <= 0xd7ff || r >= 0xe000 && r <= 0xfffd || r >= 0x10000 {
			return r
		}
		return '·'
	}, strings.ToValidUTF8(s, "·"))
}
