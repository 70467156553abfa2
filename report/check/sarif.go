package check

import (
	"io"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/vramscope/vramscope/report"
)

// SARIF 2.1.0, as much of it as code scanning reads. A result points to the line that holds more, if the
// checkout has it, and otherwise to the recording.

type sarifLog struct {
	Schema  string     `json:"$schema"`
	Version string     `json:"version"`
	Runs    []sarifRun `json:"runs"`
}

type sarifRun struct {
	Tool        sarifTool         `json:"tool"`
	Invocations []sarifInvocation `json:"invocations"`
	Results     []sarifResult     `json:"results"`
	ColumnKind  string            `json:"columnKind"`
}

type sarifTool struct {
	Driver sarifDriver `json:"driver"`
}

type sarifDriver struct {
	Name           string      `json:"name"`
	Version        string      `json:"version,omitempty"`
	InformationURI string      `json:"informationUri"`
	Rules          []sarifRule `json:"rules"`
}

type sarifRule struct {
	ID               string             `json:"id"`
	ShortDescription sarifText          `json:"shortDescription"`
	Default          sarifConfiguration `json:"defaultConfiguration"`
}

type sarifConfiguration struct {
	Level string `json:"level"`
}

type sarifInvocation struct {
	Successful bool `json:"executionSuccessful"`
}

type sarifText struct {
	Text string `json:"text"`
}

type sarifResult struct {
	RuleID       string            `json:"ruleId"`
	RuleIndex    int               `json:"ruleIndex"`
	Level        string            `json:"level"`
	Message      sarifText         `json:"message"`
	Locations    []sarifLocation   `json:"locations"`
	Stacks       []sarifStack      `json:"stacks,omitempty"`
	Fingerprints map[string]string `json:"partialFingerprints"`
}

type sarifLocation struct {
	Physical *sarifPhysical `json:"physicalLocation,omitempty"`
	Logical  []sarifLogical `json:"logicalLocations,omitempty"`
	Message  *sarifText     `json:"message,omitempty"`
}

type sarifPhysical struct {
	Artifact sarifArtifact `json:"artifactLocation"`
	Region   *sarifRegion  `json:"region,omitempty"`
}

type sarifArtifact struct {
	URI string `json:"uri"`
}

type sarifRegion struct {
	StartLine int `json:"startLine"`
}

type sarifLogical struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
}

type sarifStack struct {
	Message sarifText    `json:"message"`
	Frames  []sarifFrame `json:"frames"`
}

type sarifFrame struct {
	Location sarifLocation `json:"location"`
}

// WriteSARIF renders the findings that failed. version is the program's; it is left out if it does not begin
// with a number, as that of a build in between does not.
func (r *Result) WriteSARIF(w io.Writer, source Checkout, version string) error {
	if version = strings.TrimPrefix(version, "v"); version == "" || version[0] < '0' || version[0] > '9' {
		version = ""
	}
	run := sarifRun{
		Tool:        sarifTool{sarifDriver{Name: "vramscope", Version: version, InformationURI: "https://github.com/vramscope/vramscope", Rules: []sarifRule{}}},
		Invocations: []sarifInvocation{{true}}, Results: []sarifResult{}, ColumnKind: "utf16CodeUnits",
	}
	index := map[string]int{}
	for i := range r.Findings {
		f := &r.Findings[i]
		at, ok := index[f.Rule]
		if !ok {
			at = len(run.Tool.Driver.Rules)
			index[f.Rule] = at
			run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, sarifRule{f.Rule, sarifText{f.What}, sarifConfiguration{"error"}})
		}
		if f.Passed {
			continue
		}
		x := sarifResult{RuleID: f.Rule, RuleIndex: at, Level: "error", Message: sarifText{r.prefix(f) + f.Message},
			Locations: []sarifLocation{r.location(f, source)}, Fingerprints: map[string]string{"rule/v1": r.prefix(f) + f.Rule}}
		for _, s := range f.Stacks {
			stack := sarifStack{Message: sarifText{s.Where + ": " + report.Bytes(s.Is)}, Frames: []sarifFrame{}}
			for _, frame := range s.Frames {
				l := sarifLocation{Logical: []sarifLogical{{frame.Func, "function"}}}
				if frame.Line > 0 && frame.File != "" {
					l.Physical = &sarifPhysical{sarifArtifact{uri(strings.TrimPrefix(frame.File, ".../"))}, &sarifRegion{frame.Line}}
				}
				stack.Frames = append(stack.Frames, sarifFrame{l})
			}
			x.Stacks = append(x.Stacks, stack)
		}
		run.Results = append(run.Results, x)
	}
	return report.WriteJSON(w, sarifLog{"https://json.schemastore.org/sarif-2.1.0.json", "2.1.0", []sarifRun{run}})
}

// location is where a reader of code should look for a finding.
func (r *Result) location(f *Finding, source Checkout) sarifLocation {
	for _, s := range f.Stacks {
		if p, ok := source.find(s.Frames); ok {
			return sarifLocation{Physical: &sarifPhysical{sarifArtifact{uri(p.file)}, &sarifRegion{p.line}}, Message: &sarifText{s.Where}}
		}
	}
	return sarifLocation{Physical: &sarifPhysical{sarifArtifact{uri(filepath.ToSlash(r.File))}, &sarifRegion{1}}}
}

// uri is a path as a reference: relative ones stay so.
func uri(file string) string {
	u := url.URL{Path: strings.ReplaceAll(file, `\`, "/")}
	return u.String()
}
