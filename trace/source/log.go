package source

import (
	"bufio"
	"bytes"
	"errors"
	"io"

	"github.com/vramscope/vramscope/trace"
	"github.com/vramscope/vramscope/trace/bfc"
	"github.com/vramscope/vramscope/trace/summary"
)

// errNothing is that of a text in which nothing was found.
var errNothing = errors.New("nothing in the text")

// readLog looks through a text of any length for what programs write into their logs. It is the last source: any
// text may be a log.
func readLog(r *bufio.Reader) (*trace.Trace, error) {
	head, _ := r.Peek(window)
	if !isText(head) {
		return nil, trace.ErrUnrecognized
	}
	dumps, tables := bfc.NewScanner(), summary.NewScanner()
	var size int64
	var failed error
	for {
		line, err := r.ReadSlice('\n')
		size += int64(len(line))
		if len(line) > 0 && !dumps.Line(line) {
			tables.Line(line)
		}
		if err == bufio.ErrBufferFull {
			continue // the rest of a line that is too long is looked at as another one
		}
		if err != nil {
			if err != io.EOF {
				failed = err
			}
			break
		}
	}
	var t *trace.Trace
	switch {
	case dumps.Found():
		t = dumps.Trace()
	case tables.Found():
		t = tables.Trace()
	case failed != nil:
		return nil, failed
	default:
		return nil, errNothing
	}
	t.Source.Bytes = size
	if failed != nil {
		if !errors.Is(failed, trace.ErrCorrupt) {
			return nil, failed
		}
		t.Source.Cut = true
	}
	if t.Source.Cut {
		t.Warnings = append(t.Warnings, trace.Warning{Code: "cut", Count: 1, First: -1, Message: "the log ends in the middle: what came before is used"})
	}
	return t, nil
}

// isOOM says whether a text talks of memory that ran out, for a hint.
func isOOM(head []byte) bool {
	lower := bytes.ToLower(head)
	return bytes.Contains(lower, []byte("out of memory")) || bytes.Contains(lower, []byte("out_of_memory")) || bytes.Contains(lower, []byte("resource_exhausted"))
}
