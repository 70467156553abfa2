package oom

import (
	"fmt"
	"io"

	"github.com/vramscope/vramscope/trace/oomlog"
)

// Format is how findings are written.
type Format uint8

// The formats.
const (
	Text Format = iota
	JSON
	Markdown
)

// Options of Run.
type Options struct {
	Name   string // of the log, for the output
	Format Format
}

// Run reads a log and writes what its out-of-memory messages mean. found tells whether a GPU's memory ran
// out in it; the host's memory, and tables that show a device to be in use, do not count. If the log cannot
// be read to its end, what was found before is written all the same, and the error returned.
func Run(r io.Reader, w io.Writer, o Options) (found bool, err error) {
	log, unread := oomlog.Scan(r)
	findings := make([]Finding, len(log.Messages))
	for i, m := range log.Messages {
		findings[i] = Explain(m)
		found = found || m.Cause != oomlog.CauseHost && m.Cause != oomlog.CauseOrphan
	}
	switch o.Format {
	case JSON:
		err = writeJSON(w, o.Name, &log, findings)
	case Markdown:
		err = writeMarkdown(w, &log, findings)
	default:
		err = writeText(w, &log, findings)
	}
	if err != nil {
		return found, fmt.Errorf("writing the findings: %w", err)
	}
	return found, unread
}
