package oom

import (
	"fmt"
	"io"

	"github.com/vramscope/vramscope/trace/oomlog"
)

// Format is how a report is written.
type Format uint8

// The formats.
const (
	Text Format = iota
	JSON
	Markdown
)

// Report is what a log says about memory that ran out.
type Report struct {
	Name     string // of the log
	Findings []Finding
	log      oomlog.Log
}

// Read reads a log to its end. If that is not possible the report has what was found before the error.
func Read(name string, r io.Reader) (*Report, error) {
	log, err := oomlog.Scan(r)
	report := &Report{Name: name, Findings: make([]Finding, len(log.Messages)), log: log}
	for i, m := range log.Messages {
		report.Findings[i] = Explain(m)
	}
	return report, err
}

// Found tells whether a GPU's memory ran out. The host's memory does not count, nor do tables that show a
// device to be in use and readings that grow.
func (r *Report) Found() bool {
	for i := range r.Findings {
		m := &r.Findings[i].Message
		if m.Cause != oomlog.CauseHost && m.Cause != oomlog.CauseGrowth && m.Framework != "nvidia" {
			return true
		}
	}
	return false
}

// Write writes the report for a person or a program.
func (r *Report) Write(w io.Writer, f Format) error {
	var err error
	switch f {
	case JSON:
		err = writeJSON(w, r.Name, &r.log, r.Findings)
	case Markdown:
		err = writeMarkdown(w, &r.log, r.Findings)
	default:
		err = writeText(w, &r.log, r.Findings)
	}
	if err != nil {
		return fmt.Errorf("writing the findings: %w", err)
	}
	return nil
}
